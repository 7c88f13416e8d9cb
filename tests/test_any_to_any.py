"""A session goes from any provider to any other: accepted there, and with a table of what is
dropped. What its maker alone can read is dropped from the request, never from the history."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations
from typing import Any

import pytest

from agentloop_nb import Agent
from agentloop_nb.messages import Image
from agentloop_nb.run import Result
from tests.loopback import Loopback, call, reply, say, think, think_redacted
from tests.loopback.script import Reply
from tests.streams import ADAPTERS
from tests.tables import assert_table

NAMES = {"anthropic": "Anthropic", "openai": "Responses", "openai-chat": "Chat"}
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5E"
    "rkJggg=="
)
THOUGHT, SECRET, SAID = "Both are needed.", "a sealed thought", "Reading both."
SEALED = ('"signature"', '"encrypted_content"', '"redacted_thinking"')
PAIRS = list(permutations(ADAPTERS, 2))


def picture(path: str) -> Image:
    """Look at a picture."""
    return Image("image/png", PNG)


def words(path: str) -> str:
    """Read a file."""
    return f"the words of {path}"


def model_of(provider: str, server: Loopback) -> Any:
    options: dict[str, Any] = {
        "anthropic": {"thinking_budget": 1024},
        "openai": {"reasoning_summary": "auto"},
    }.get(provider, {})
    return ADAPTERS[provider]("model-test", base_url=server.base_url, api_key="test", **options)


def begun(provider: str) -> list[Reply]:
    """Thinking, two calls side by side, and an answer."""
    sealed = [think_redacted(SECRET)] if provider == "anthropic" else []
    both = (call("picture", {"path": "a.png"}), call("words", {"path": "b.txt"}))
    return [reply(think(THOUGHT), *sealed, say(SAID), *both), reply(think("Now."), "Read.")]


def go(server: Loopback, *turns: str) -> list[Result]:
    """One turn after the other, each with the adapter named."""

    async def run() -> list[Result]:
        results, session = [], None
        for provider in turns:
            agent = Agent(model_of(provider, server), tools=[picture, words])
            session = agent.session() if session is None else agent.session(session)
            results.append(await session.run(f"With {provider}, please."))
        return results

    return asyncio.run(run())


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_session_goes_on_with_another_provider(before: str, after: str) -> None:
    with Loopback([*begun(before), *begun(after)]) as server:
        results = go(server, before, after)
        assert not server.complaints
    assert [(r.exit_reason, r.text) for r in results] == [("end_turn", "Read.")] * 2


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_what_was_dropped_is_there_again_when_the_session_comes_back(
    before: str, after: str
) -> None:
    with Loopback([*begun(before), *begun(after), *begun(before)]) as server:
        go(server, before, after, before)
        assert not server.complaints
        first, back = server.requests[1].body, server.requests[-1].body
    kept = seen(first)
    assert seen(back)["thinking"] == kept["thinking"]
    assert seen(back)["sealed"] == kept["sealed"]


def seen(body: dict[str, Any]) -> dict[str, str]:
    """What of the first turn a request carries."""
    sent = json.dumps(body)
    items: list[dict[str, Any]] = body.get("messages") or body["input"]
    return {
        "texts": yes(SAID in sent),
        "calls": yes("a.png" in sent and "the words of b.txt" in sent),
        "image": image_in(items),
        "thinking": yes(THOUGHT in sent),
        "sealed": yes(any(mark in json.dumps(items) for mark in SEALED)),
        "ids": ids_in(items),
    }


def yes(there: bool) -> str:
    return "sent" if there else "dropped"


def image_in(items: list[dict[str, Any]]) -> str:
    """Where the picture stands."""
    for item in items:
        if PNG in json.dumps(item):
            result = item.get("type") == "function_call_output" or "tool_result" in str(item)
            return "in its result" if result else "after the results"
    return "dropped"


def ids_in(items: list[dict[str, Any]]) -> str:
    """Whether the calls go by their maker's ids or by ours."""
    return "ours" if "call_c0_0" in json.dumps(items) else "its own"


def test_the_table_in_the_docs_is_what_was_sent() -> None:
    rows = []
    for before, after in PAIRS:
        with Loopback([*begun(before), *begun(after)]) as server:
            go(server, before, after)
            found = seen(server.requests[2].body)
        row = [found[key] for key in ("texts", "calls", "image", "thinking", "sealed", "ids")]
        rows.append([f"{NAMES[before]} → {NAMES[after]}", *row])
    head = ["from → to", "texts", "calls and results", "an image in a result", "thinking"]
    head += ["signatures, sealed thinking", "ids of calls"]
    assert_table("conversions", head, rows)
