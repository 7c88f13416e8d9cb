"""Scripts with a name, for a server in a process of its own (`python -m tests.loopback`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.loopback.flood import flood, flood_pieces
from tests.loopback.script import Answer, call, hold, reply, say, think

Play = Callable[[dict[str, Any]], Answer]


def hello(body: dict[str, Any]) -> Answer:
    """Always the same short answer."""
    return reply(think("They say hello."), say("Hello", " to", " you."))


def held(body: dict[str, Any]) -> Answer:
    """A text that stops in its middle until `middle` is released."""
    return reply(say("The first half", hold("middle"), " and the second."))


def tool(body: dict[str, Any]) -> Answer:
    """A call of the request's first tool without arguments, then an answer once it has a result."""
    if has_results(body) or not body.get("tools"):
        return reply(say("Done."))
    return reply(think("A tool will do."), say("One moment."), call(first_tool(body), {}))


def rounds(tool_rounds: int, deltas: int) -> Play:
    """So many rounds of a text and a call, each text so many deltas, and then a text alone."""

    def play(body: dict[str, Any]) -> Answer:
        done = count_results(body)
        if done >= tool_rounds or not body.get("tools"):
            return reply(say("All ", "is ", "done."))
        text = say(*flood_pieces(deltas))
        return reply(text, call(first_tool(body), {"path": f"{done}.txt"}))

    return play


def count_results(body: dict[str, Any]) -> int:
    """How many results of tools the request holds, in any of the formats."""
    count = 0
    for item in body.get("messages") or body.get("input") or ():
        if item.get("role") == "tool" or item.get("type") == "function_call_output":
            count += 1
        elif isinstance(item.get("content"), list):
            count += sum(part.get("type") == "tool_result" for part in item["content"])
    return count


def has_results(body: dict[str, Any]) -> bool:
    """Whether the request ends in results of tools, in any of the formats."""
    last = (body["messages"] if "messages" in body else body["input"])[-1]
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        return True
    content = last.get("content")
    return isinstance(content, list) and content[0].get("type") == "tool_result"


def first_tool(body: dict[str, Any]) -> str:
    name: str = (body["tools"][0].get("function") or body["tools"][0])["name"]
    return name


SCRIPTS: dict[str, Play] = {
    "hello": hello,
    "held": held,
    "tool": tool,
    "20-rounds": rounds(20, 20),
    "200-rounds": rounds(200, 5),
    "flood": lambda body: flood(),
    "flood-paced": lambda body: flood(pace=1000),
}
