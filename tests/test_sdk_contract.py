"""What we read past the SDKs' typed events is what the installed SDKs read in them.

The same bytes go to an adapter and to its SDK's documented typed streaming; the messages that come
out have to agree, on every fixture.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

from agentloop_nb.messages import Text, Thinking, Usage
from agentloop_nb.models.base import Finish, Model
from tests.loopback import Loopback, call, reply, say, think, think_hidden, think_redacted
from tests.loopback.script import Reply
from tests.random_streams import random_stream
from tests.streams import assembled, collect, model_of

SPENT = Usage(input_tokens=90, output_tokens=7, cache_read_tokens=40, cache_write_tokens=20)
FIXTURES: dict[str, Reply] = {
    "a text": reply(say("Hel", "lo ", "🍸\u2028", "world.\n")),
    "nothing": reply(),
    "thinking and a text": reply(think("Two ", "steps."), say("So.")),
    "two calls": reply(call("f", {"n": 1}), call("g", {"t": 'ünï \\ "x" 🍸'})),
    "all of it": reply(
        think("Hm."), say("Let me see."), call("f", {"n": 1}), call("g", {}), usage=SPENT
    ),
    "a call without arguments": reply(call("f", "")),
    "a long text": reply(say(*(f"word {n} " for n in range(300)))),
    "the token limit": reply(say("Half a"), stop="max_tokens"),
    "a refusal": reply(say("I will not."), stop="refusal"),
    "two texts": reply(say("One."), say("Two.")),
}
HIDDEN: dict[str, Reply] = {
    "hidden thinking": reply(think_hidden("secret"), say("So.")),
    "redacted thinking": reply(think("Shown."), think_redacted("secret"), call("f", {"n": 1})),
}


@dataclass
class Read:
    """A reply as one of the two has read it."""

    text: str
    thinking: str
    calls: list[tuple[str, str, Any]]
    usage: tuple[int, int, int]
    stop: str


async def typed_anthropic(url: str) -> Read:
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key="test") as client,
        client.messages.stream(
            model="model-test",
            max_tokens=2048,
            thinking={"type": "enabled", "budget_tokens": 1024},
            messages=[{"role": "user", "content": "Hi"}],
        ) as stream,
    ):
        message = await stream.get_final_message()
    blocks, usage = message.content, message.usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return Read(
        "".join(b.text for b in blocks if b.type == "text"),
        "".join(b.thinking for b in blocks if b.type == "thinking"),
        [(b.id, b.name, b.input) for b in blocks if b.type == "tool_use"],
        (usage.input_tokens + cached, usage.output_tokens, usage.cache_read_input_tokens or 0),
        str(message.stop_reason),
    )


async def typed_chat(url: str) -> Read:
    text, thinking, calls, stop = "", "", dict[int, list[str]](), ""
    usage: Any = None
    async with openai.AsyncOpenAI(base_url=url, api_key="test") as client:
        stream = await client.chat.completions.create(
            model="model-test",
            messages=[{"role": "user", "content": "Hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or choice.delta.refusal or ""
                thinking += getattr(choice.delta, "reasoning_content", None) or ""
                stop = choice.finish_reason or stop
                for piece in choice.delta.tool_calls or ():
                    held = calls.setdefault(piece.index, ["", "", ""])
                    held[0] += piece.id or ""
                    held[1] += (piece.function and piece.function.name) or ""
                    held[2] += (piece.function and piece.function.arguments) or ""
    found = [(id, name, json.loads(arguments or "{}")) for id, name, arguments in calls.values()]
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
    return Read(
        text, thinking, found, (usage.prompt_tokens, usage.completion_tokens, cached or 0), stop
    )


async def typed_responses(url: str) -> Read:
    response: Any = None
    async with openai.AsyncOpenAI(base_url=url, api_key="test") as client:
        stream = await client.responses.create(
            model="model-test",
            input=[{"role": "user", "content": "Hi"}],
            stream=True,
            reasoning={"summary": "auto"},
        )
        async for event in stream:
            if event.type in ("response.completed", "response.incomplete"):
                response = event.response
    output, usage = response.output, response.usage
    parts = [part for item in output if item.type == "message" for part in item.content]
    return Read(
        "".join(part.text for part in parts),
        "".join(s.text for item in output if item.type == "reasoning" for s in item.summary),
        [
            (item.call_id, item.name, json.loads(item.arguments or "{}"))
            for item in output
            if item.type == "function_call"
        ],
        (usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens),
        response.incomplete_details.reason if response.incomplete_details else response.status,
    )


TYPED: dict[str, Callable[[str], Awaitable[Read]]] = {
    "anthropic": typed_anthropic,
    "openai": typed_responses,
    "openai-chat": typed_chat,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "anthropic": {"thinking_budget": 1024, "max_tokens": 2048},
    "openai": {"reasoning_summary": "auto"},
    "openai-chat": {"think_tags": False},
}
OUR_STOP = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "max_output_tokens": "max_tokens",
}


async def ours(provider: str, model: Model) -> Read:
    deltas = await collect(model)
    message = assembled(deltas, provider)
    last = deltas[-1]
    assert isinstance(last, Finish)
    usage = last.usage
    return Read(
        "".join(b.text for b in message.blocks if isinstance(b, Text)),
        "".join(b.text for b in message.blocks if isinstance(b, Thinking)),
        [(c.provider_id, c.name, c.input) for c in message.calls],
        (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens),
        last.stop_reason,
    )


async def both(provider: str, model: Model, url: str) -> tuple[Read, Read]:
    return await ours(provider, model), await TYPED[provider](url)


def agree(provider: str, answer: Any) -> None:
    """The same bytes, read twice."""
    with Loopback(lambda _: answer) as server:
        model = model_of(provider, server, **OPTIONS[provider])  # it outlives the loop
        mine, typed = asyncio.run(both(provider, model, server.base_url))
    stop = OUR_STOP.get(typed.stop, typed.stop)
    if provider == "openai" and stop == "completed":  # the API has no word for why
        stop = "tool_use" if typed.calls else "end_turn"
    # Ids and arguments too; the ids of two requests differ, since they follow from the request.
    assert [(name, value) for _, name, value in mine.calls] == [
        (name, value) for _, name, value in typed.calls
    ]
    assert all(len(a[0]) == len(b[0]) for a, b in zip(mine.calls, typed.calls, strict=True))
    assert (mine.text, mine.thinking, mine.usage, mine.stop) == (
        typed.text,
        typed.thinking,
        typed.usage,
        stop,
    )


@pytest.mark.parametrize("fixture", FIXTURES)
@pytest.mark.parametrize("provider", TYPED)
def test_we_read_what_the_installed_sdk_reads(provider: str, fixture: str) -> None:
    agree(provider, FIXTURES[fixture])


@pytest.mark.parametrize("fixture", HIDDEN)
def test_we_read_what_the_installed_sdk_reads_of_hidden_thinking(fixture: str) -> None:
    agree("anthropic", HIDDEN[fixture])


def test_the_random_streams_are_ones_that_the_installed_sdk_reads_too() -> None:
    """So that what is written there is no format of our own."""
    seeds = [n for n in range(60) if random_stream("openai-chat", n).fault == "none"]
    assert len(seeds) > 10
    for seed in seeds:
        stream = random_stream("openai-chat", seed)
        written = stream.added(len(stream.frames))
        texts = asyncio.run(typed_texts(stream.chunks))
        assert texts == (written.text, written.thinking), seed


async def typed_texts(chunks: list[bytes]) -> tuple[str, str]:
    """The text and the thinking that OpenAI's typed stream finds in these bytes."""
    import httpx2

    async def body() -> Any:
        for chunk in chunks:
            yield chunk

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body())

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    text = thinking = ""
    async with openai.AsyncOpenAI(api_key="test", http_client=http) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        async for chunk in stream:
            for choice in chunk.choices:
                delta = choice.delta
                text += delta.content or ""
                thinking += getattr(delta, "reasoning_content", None) or ""
                thinking += getattr(delta, "reasoning", None) or ""
    return text, thinking
