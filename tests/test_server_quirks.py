"""Servers that send or want it otherwise, and what comes of it; the tables in the docs are made
here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from agentloop_nb import Agent, UsageError
from agentloop_nb.events import ToolResultEvent
from agentloop_nb.messages import Image, Text, Thinking
from agentloop_nb.models.chat_quirks import Quirk, quirks_of
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.run import Result, Run
from tests.loopback import Loopback, call, raw, reply, say, think
from tests.streams import (
    Frames,
    anthropic,
    block,
    calls,
    chat,
    choice,
    frame,
    model_of,
    piece,
    responses,
    tool_use,
)
from tests.tables import assert_table

# -- what servers send

NO_SUCH = "the format has no such part"
BOTH = ("f(1), f(2)", "Done.")


def whole_call(index: int | None, id: str, n: int) -> dict[str, Any]:
    return piece(index, id, "f", f'{{"n":{n}}}')


def item(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "response.output_item.done",
        "output_index": index,
        "item": {"type": kind, **fields},
    }


def function_call(index: int, n: int) -> dict[str, Any]:
    arguments = f'{{"n":{n}}}'
    return item(index, "function_call", call_id=f"c{index}", name="f", arguments=arguments)


SENT: dict[str, dict[str, Frames]] = {
    "two calls at one index": {
        "openai-chat": chat(calls(whole_call(0, "A", 1)), calls(whole_call(0, "B", 2))),
        "anthropic": anthropic(
            *tool_use(0, "A", "f", '{"n":1}'), *tool_use(0, "B", "f", '{"n":2}'), stop="tool_use"
        ),
    },
    "calls without an index": {
        "openai-chat": chat(calls(whole_call(None, "A", 1), whole_call(None, "B", 2))),
    },
    "calls without ids": {
        "openai-chat": chat(
            calls(piece(0, None, "f", '{"n":1}')), calls(piece(1, None, "f", '{"n":2}'))
        ),
        "anthropic": anthropic(
            *tool_use(0, "", "f", '{"n":1}'), *tool_use(1, "", "f", '{"n":2}'), stop="tool_use"
        ),
        "openai": responses(
            item(0, "function_call", name="f", arguments='{"n":1}'),
            item(1, "function_call", name="f", arguments='{"n":2}'),
        ),
    },
    "one id for two calls": {
        "openai-chat": chat(calls(whole_call(0, "A", 1)), calls(whole_call(1, "A", 2))),
        "anthropic": anthropic(
            *tool_use(0, "A", "f", '{"n":1}'), *tool_use(1, "A", "f", '{"n":2}'), stop="tool_use"
        ),
    },
    "the name with every piece": {
        "openai-chat": chat(
            calls(piece(0, "A", "f", '{"n"')),
            calls(piece(0, None, "f", ":1}")),
            calls(whole_call(1, "B", 2)),
        ),
    },
    "arguments as an object": {
        "openai-chat": chat(calls(piece(0, "A", "f", {"n": 1}), piece(1, "B", "f", {"n": 2}))),
        "anthropic": anthropic(
            *block(0, {"type": "tool_use", "id": "A", "name": "f", "input": {"n": 1}}),
            *block(1, {"type": "tool_use", "id": "B", "name": "f", "input": {"n": 2}}),
            stop="tool_use",
        ),
    },
    "whole items without deltas": {
        "openai": responses(function_call(0, 1), function_call(1, 2)),
    },
    "calls, and a finish that says stop": {
        "openai-chat": chat(calls(whole_call(0, "A", 1), whole_call(1, "B", 2)), finish="stop"),
        "anthropic": anthropic(
            *tool_use(0, "A", "f", '{"n":1}'), *tool_use(1, "B", "f", '{"n":2}'), stop="end_turn"
        ),
        "openai": responses(function_call(0, 1), function_call(1, 2)),
    },
    "chunks without choices, usage on each": {
        "openai-chat": (
            frame({"choices": [], "usage": {"prompt_tokens": 3}}),
            *chat(calls(whole_call(0, "A", 1), whole_call(1, "B", 2))),
        ),
    },
    "no [DONE]": {
        "openai-chat": chat(calls(whole_call(0, "A", 1), whole_call(1, "B", 2)))[:-1],
    },
    "blocks, items and events never heard of": {
        "openai-chat": (
            frame({"object": "something.new"}),
            *chat(calls(whole_call(0, "A", 1), whole_call(1, "B", 2))),
        ),
        "anthropic": anthropic(
            {"type": "something_new"},
            *block(0, {"type": "web_something_new", "what": 1}),
            *tool_use(1, "A", "f", '{"n":1}'),
            *tool_use(2, "B", "f", '{"n":2}'),
            stop="tool_use",
        ),
        "openai": responses(
            {"type": "response.something.new"},
            item(0, "web_search_call", id="ws_1", status="completed"),
            function_call(1, 1),
            function_call(2, 2),
        ),
    },
    "a stop reason never heard of": {
        "openai-chat": chat(
            calls(whole_call(0, "A", 1), whole_call(1, "B", 2)), finish="something_new"
        ),
        "anthropic": anthropic(
            *tool_use(0, "A", "f", '{"n":1}'), *tool_use(1, "B", "f", '{"n":2}'), stop="new"
        ),
    },
}


def f(n: int) -> int:
    """A tool."""
    return n


def run_over(provider: str, script: Sequence[Any], tools: Sequence[Any], **options: Any) -> Run:
    """A run over these answers."""
    server_options = {key: options.pop(key) for key in ("wishes",) if key in options}

    async def go(server: Loopback) -> Run:
        run = Agent(model_of(provider, server, **options), tools=tools).start("Hi")
        await run
        return run

    with Loopback(script, **server_options) as server:
        return asyncio.run(go(server))


def ran(run: Run) -> tuple[str, str]:
    """The calls that ran, and the answer after them."""
    results = [e for e in run.events if isinstance(e, ToolResultEvent) and not e.is_error]
    assert run.result is not None
    return ", ".join(f"{e.name}({e.content})" for e in results), run.result.text


@pytest.mark.parametrize("quirk", SENT)
def test_two_calls_stay_two_whatever_the_server_does_to_them(quirk: str) -> None:
    for provider, frames in SENT[quirk].items():
        assert ran(run_over(provider, [raw(*frames), reply("Done.")], [f])) == BOTH, provider


THOUGHTS: dict[str, Frames] = {
    "thinking as `reasoning`": chat({"reasoning": "Hm."}, {"content": "So."}),
    "thinking as `reasoning_content`": chat({"reasoning_content": "Hm."}, {"content": "So."}),
    "thinking under both names": chat(
        {"reasoning": "Hm.", "reasoning_content": "Hm."}, {"content": "So."}
    ),
    "thinking in tags": chat({"content": "<think>Hm.</th"}, {"content": "ink>\n\nSo."}),
    "an unclosed tag": chat({"content": "So.<think>Hm."}),
    "text in parts": tuple(
        map(
            frame,
            [
                choice({"reasoning": "Hm."}),
                choice({"content": [{"type": "text", "text": "So."}]}, "stop"),
                "[DONE]",
            ],
        )
    ),
}


def told(run: Run) -> tuple[str, str]:
    """The thinking and the text of the one reply."""
    assert run.result is not None
    blocks = run.result.messages[-1].blocks
    thinking = "".join(b.text for b in blocks if isinstance(b, Thinking))
    return thinking, "".join(b.text for b in blocks if isinstance(b, Text))


@pytest.mark.parametrize("quirk", THOUGHTS)
def test_thinking_is_told_from_the_answer(quirk: str) -> None:
    assert told(run_over("openai-chat", [raw(*THOUGHTS[quirk])], [])) == ("Hm.", "So.")


def test_the_table_of_what_servers_send_is_what_came_of_it() -> None:
    rows = []
    for quirk, frames in SENT.items():
        row = [quirk]
        for provider in ("openai-chat", "anthropic", "openai"):
            if provider not in frames:
                row.append(NO_SUCH)
                continue
            called, text = ran(run_over(provider, [raw(*frames[provider]), reply("Done.")], [f]))
            row.append(f"runs {called}; answers {text!r}")
        rows.append(row)
    for quirk, sent in THOUGHTS.items():
        thinking, text = told(run_over("openai-chat", [raw(*sent)], []))
        rows.append([quirk, f"thinks {thinking!r}; answers {text!r}", NO_SUCH, NO_SUCH])
    assert_table("sent", ["the server sends", "Chat", "Anthropic", "Responses"], rows)


# -- what servers want


def picture() -> Image:
    """A picture."""
    return Image("image/gif", "R0lGODlhAQABAAAAACwAAAAAAQABAAAC")


def with_picture(quirks: set[str] | None, wishes: set[str]) -> Result:
    """A run whose second request has a call, its result and an image after it."""
    script = [reply(think("Hm."), say("Look."), call("picture", {})), reply("Done.")]
    run = run_over("openai-chat", script, [picture], wishes=wishes, quirks=quirks, max_tokens=100)
    assert run.result is not None
    return run.result


@pytest.mark.parametrize("quirk", get_args(Quirk))
def test_a_server_that_wants_it_otherwise_is_given_it_where_its_quirk_is_named(quirk: str) -> None:
    assert with_picture({quirk}, {quirk}).text == "Done."
    refused = with_picture(set(), {quirk})
    assert refused.exit_reason == "fatal_error"


def test_all_quirks_go_together() -> None:
    every = set(get_args(Quirk))
    assert with_picture(every, every).text == "Done."


def test_the_table_of_what_servers_want_is_what_they_said() -> None:
    rows = []
    for quirk in get_args(Quirk):
        without = with_picture(set(), {quirk})
        words = str(without.error).partition("status 400): ")[2].partition(" The request")[0]
        taken = with_picture({quirk}, {quirk}).text == "Done."
        rows.append([f"`{quirk}`", words, "taken" if taken else "refused"])
    assert_table("wanted", ["quirk", "without it the server says", "with it"], rows)


KNOWN: list[tuple[str, str, set[str]]] = [
    ("gpt-5", "", set()),
    ("gpt-5", "https://api.openai.com/v1", set()),
    ("deepseek-chat", "https://api.deepseek.com", {"reasoning_content", "max_tokens"}),
    ("kimi-k2-thinking", "https://api.moonshot.ai/v1", {"reasoning_content", "max_tokens"}),
    (
        "mistral-large-latest",
        "https://api.mistral.ai/v1",
        {"short_ids", "no_user_after_tool", "no_stream_options", "max_tokens"},
    ),
    (
        "Devstral-Small",
        "http://localhost:8000/v1",
        {"short_ids", "no_user_after_tool", "max_tokens"},
    ),
    ("qwen3", "http://localhost:11434/v1", {"max_tokens"}),
]


@pytest.mark.parametrize(("model", "address", "quirks"), KNOWN)
def test_quirks_are_known_by_name_and_address(model: str, address: str, quirks: set[str]) -> None:
    assert quirks_of(model, address, None) == quirks
    assert OpenAIChatModel(model, base_url=address or None, api_key="k").quirks == quirks


def test_named_quirks_stand_in_place_of_the_known_ones() -> None:
    model = OpenAIChatModel("mistral-large", api_key="k", quirks={"max_tokens"})
    assert model.quirks == {"max_tokens"}
    assert OpenAIChatModel("mistral-large", api_key="k", quirks=()).quirks == frozenset()


def test_a_quirk_that_is_none_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(UsageError, match=r"no quirk 'short_id'.*short_ids"):
        quirks_of("m", "", {"short_id"})
