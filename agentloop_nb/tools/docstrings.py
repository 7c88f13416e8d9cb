"""What a docstring says of a function and of each parameter: Google's and Sphinx's layouts."""

from __future__ import annotations

import re
from collections.abc import Collection

_SECTION = re.compile(r"(?:(?:Keyword )?Arg(?:ument)?s|Parameters|Params)\s*:\s*$")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_SPHINX = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)$")


def split_docstring(doc: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """The text without what it says of the parameters `names`, and that by parameter.

    `doc` is dedented (`inspect.getdoc`). What names no parameter stays in the text.
    """
    kept: list[str] = []
    found: dict[str, str] = {}
    lines = doc.splitlines()
    at = 0
    while at < len(lines):
        if _SECTION.match(lines[at]):
            entries, end = _section(lines, at + 1, names)
            if entries:
                found.update(entries)
                at = end
                continue
        elif (match := _SPHINX.match(lines[at].strip())) and match[1] in names:
            text, at = _continued(lines, at, match[2])
            found[match[1]] = text
            continue
        kept.append(lines[at])
        at += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), found


def _section(lines: list[str], start: int, names: Collection[str]) -> tuple[dict[str, str], int]:
    """The entries of a section, and the line after it; none where an indented one is foreign.

    Where a docstring opens with its section, dedenting took the indent of the entries away.
    """
    entries: dict[str, str] = {}
    at = start
    while at < len(lines):
        match = _ENTRY.match(lines[at].strip())
        known = match is not None and match[1] in names
        if not lines[at].strip():
            at += 1
        elif match is not None and known and (_indent(lines[at]) or start == 1):
            entries[match[1]], at = _continued(lines, at, match[2])
        elif _indent(lines[at]):
            return {}, start
        else:
            break
    return entries, at


def _continued(lines: list[str], at: int, first: str) -> tuple[str, int]:
    """An entry with the deeper lines below it, on one line, and the line after it."""
    indent, words = _indent(lines[at]), [first]
    at += 1
    while at < len(lines) and lines[at].strip() and _indent(lines[at]) > indent:
        words.append(lines[at].strip())
        at += 1
    return " ".join(words).strip(), at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
