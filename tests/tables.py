"""Tables in the documentation that tests make: what stands there is what was seen.

A test hands over its rows; they must be those in `docs/providers.md`. Where they are not, run the
test with AGENTLOOP_NB_WRITE_TABLES=1 and look at the difference before it is committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "providers.md"
WRITE = "AGENTLOOP_NB_WRITE_TABLES"


def assert_table(name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The table of this name in the documentation has just these rows."""
    lines = [head, ["---"] * len(head), *rows]
    made = "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)
    page = PAGE.read_text("utf-8")
    place = re.compile(rf"(<!-- table: {name} -->\n)(.*?)(<!-- end -->)", re.DOTALL)
    found = place.search(page)
    assert found is not None, f"{PAGE.name} has no place for the table {name}"
    if os.environ.get(WRITE):
        PAGE.write_text(place.sub(lambda m: m[1] + made + m[3], page), "utf-8")
        return
    assert found[2] == made, f"docs/providers.md tells otherwise; see {Path(__file__).name}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
