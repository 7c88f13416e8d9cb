"""Who may import whom: a file imports only from rooms above it, and importing ours is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agentloop_nb

PACKAGE = Path(agentloop_nb.__file__).parent

ROOMS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "errors exits limits patience redaction",
        "messages",
        "questions",
        "events",
        "codec sentences turnstate",
        "transcript viewstate repair",
        "log",
        "inbox",
        "ports",
        "models",
        "resilience",
        "tools",
        "context",
        "governance",
        "reply closing",
        "asking",
        "loop",
        "snapshot",
        "saver",
        "background",
        "run",
        "session",
        "agent",
        "notebook",
        "__init__",
        "demo_check",
        "cli",
    )
)
PLACE = {name: place for place, names in enumerate(ROOMS) for name in names}
# limits raises, so it looks at errors beside it; within `models`, `tools`, … files are one room.
BESIDE = {("limits", "errors"), ("loop", "closing")}
# A protocol that names a later type for the type checker only.
FOR_TYPES = {("run", "session"), ("session", "agent"), ("ports", "log"), ("ports", "inbox")}


def room_of(module: str) -> str:
    """`agentloop_nb.tools.schema` is in the room `tools`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            module = node.module or ""
            found |= {
                f"{module}.{a.name}" if module == "agentloop_nb" else module for a in node.names
            }
    return {name for name in found if name.split(".")[0] == "agentloop_nb"}


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_file_imports_only_from_rooms_above_it(path: Path) -> None:
    room = room_of("agentloop_nb." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    for module in imports(path):
        other = room_of(module)
        if other == room or (room, other) in BESIDE | FOR_TYPES:
            continue
        assert PLACE[other] < PLACE[room], f"{room} may not import {other}"


def test_every_room_of_the_package_is_in_the_list() -> None:
    names = {p.stem for p in PACKAGE.glob("*.py")}
    names |= {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").is_file()}
    assert names == PLACE.keys()


def test_a_rule_that_is_broken_is_noticed(tmp_path: Path) -> None:
    wrong = tmp_path / "messages.py"
    wrong.write_text("from agentloop_nb import loop\nimport agentloop_nb.notebook.host\n")
    assert {room_of(m) for m in imports(wrong)} == {"loop", "notebook"}
    assert PLACE["loop"] > PLACE["messages"]


def test_importing_loads_no_sdk_and_no_widget_library() -> None:
    code = (
        "import sys, agentloop_nb\n"
        "heavy = {'anthropic', 'openai', 'anywidget', 'ipywidgets', 'IPython', 'zmq'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )
    assert shown.stdout.strip() == "[]"


def test_the_public_names_are_these() -> None:
    assert agentloop_nb.__all__ == [
        "Agent",
        "AgentLoopError",
        "AnthropicModel",
        "Call",
        "ContextFilter",
        "ExitReason",
        "Limits",
        "OfflineModel",
        "OpenAIChatModel",
        "OpenAIModel",
        "Pause",
        "Reply",
        "Result",
        "Run",
        "RunFailed",
        "RunInterrupted",
        "Session",
        "Tool",
        "ToolContext",
        "UsageError",
        "__version__",
        "runs",
        "tool",
    ]
    for name in agentloop_nb.__all__:
        assert getattr(agentloop_nb, name) is not None


def test_functions_and_modules_stay_small() -> None:
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in FILES}
    large = {name: length for name, length in lengths.items() if length > 350}
    assert len(large) <= len(FILES) // 20, f"too many large files: {large}"
    assert max(lengths.values()) <= 450
    assert lengths["loop.py"] < 300
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= 50, f"{path.name}: {node.name} has {length} lines"
