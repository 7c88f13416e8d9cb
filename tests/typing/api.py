"""Read by the type checker, never run: what a user's editor should know of the public names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from agentloop_nb import Agent, Call, OfflineModel, Reply, Result, Run, ToolContext, tool
from agentloop_nb.events import AnyEvent


@dataclass
class Deps:
    root: str


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(approval=lambda path: not path.startswith("tmp/"), timeout_s=30)
def delete_file(path: str, context: ToolContext[Deps]) -> str:
    """Delete."""
    return context.deps.root + path


assert_type(add(1, b=2), int)

agent = Agent(
    OfflineModel([Reply("Hm.", calls=[Call("add", a=1, b=2)]), "Three."]),
    tools=[add, delete_file, len],
    deps=Deps("/"),
)
assert_type(agent, Agent[Deps])


async def main() -> None:
    run = agent.start("Go.")
    assert_type(run, Run)
    assert_type(await run, Result)
    assert_type(await agent.run("Go."), Result)
    async for event in run:
        assert_type(event, AnyEvent)


assert_type(agent.run_sync("Go.").text, str)
