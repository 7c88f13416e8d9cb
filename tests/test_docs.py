"""The README is code: every block compiles, and those that need no key run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
RUNNABLE = [block for block in BLOCKS if "import" in block and "offline" in block.lower()]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_of_the_readme_compiles(block: str) -> None:
    compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("block", RUNNABLE, ids=range(len(RUNNABLE)))
def test_a_block_of_the_readme_that_needs_no_key_runs(block: str) -> None:
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["result"].exit_reason == "end_turn"


def test_there_are_blocks_that_run() -> None:
    assert len(RUNNABLE) == 2


def test_the_first_screen_has_the_two_commands_and_the_follow_up() -> None:
    first_screen = (ROOT / "README.md").read_text("utf-8").splitlines()[:40]
    text = "\n".join(first_screen)
    for wanted in (
        "uv run agentloop-nb demo",
        "uv run pytest",
        "pip install uv",
        ".session.start(",
    ):
        assert wanted in text


def test_files_named_in_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    for name in set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|ts|css))`", text)):
        places = [ROOT / "agentloop_nb" / name, ROOT / "js" / "src" / name, ROOT / name]
        places += list((ROOT / "agentloop_nb").rglob(Path(name).name))
        assert any(place.exists() for place in places), name


def test_tests_named_for_a_symptom_exist() -> None:
    text = (ROOT / "tests" / "README.md").read_text("utf-8")
    file = ""
    named = re.findall(r"`([\w/.]*\.(?:py|tsx))?(?:::(\w+))?`", text)
    assert len(named) > 20
    for place, test in named:
        file = place or file
        source = (ROOT if file.startswith("js/") else ROOT / "tests") / file
        assert source.is_file(), file
        assert not test or f"def {test}(" in source.read_text("utf-8"), f"{file}::{test}"
