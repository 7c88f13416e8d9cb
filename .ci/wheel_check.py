"""Run by the Python of an environment that holds the wheel and nothing else: does it work there?"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import agentloop_nb

HEAVY = ("anthropic", "openai", "anywidget", "ipywidgets", "jupyterlab")


def main() -> None:
    package = Path(agentloop_nb.__file__).parent
    assert package.is_relative_to(sys.prefix), f"{package} is not the installed wheel"
    assert shutil.which("node") is None, "this check has to run without Node"
    for name in ("py.typed", "notebook/static/widget.js", "notebook/static/widget.css"):
        assert (package / name).is_file(), f"the wheel lacks {name}"
    assert (package / "notebooks" / "quickstart.ipynb").is_file(), "the wheel lacks the notebook"
    loaded = [name for name in HEAVY if name in sys.modules]
    assert not loaded, f"import agentloop_nb loads {loaded}"
    first_agent()


def first_agent() -> None:
    from agentloop_nb import Agent, Call, OfflineModel, Reply, tool

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = OfflineModel([Reply(calls=[Call("add", a=2, b=3)]), "It is 5."])
    agent = Agent(model, tools=[add])
    result = asyncio.run(agent.run("What is 2 + 3?"))
    assert (result.text, result.exit_reason.value) == ("It is 5.", "end_turn"), result
    print(f"First agent from the wheel: {result.text}")


if __name__ == "__main__":
    main()
