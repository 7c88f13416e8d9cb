"""Streams as bytes, for tests of what servers send: written by hand, through the real SDKs.

`whole_and_cut` plays a stream to an adapter whole, and then cut after each of its frames, once with
an end that looks clean and once with a broken connection.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Sequence
from typing import Any

from agentloop_nb.errors import ProviderError
from agentloop_nb.messages import Message, user
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.assemble import Assembler
from agentloop_nb.models.base import (
    CallEnd,
    Finish,
    Model,
    ModelDelta,
    Request,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
)
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from tests.loopback import Loopback, cut, raw

Event = dict[str, Any]
Frames = tuple[bytes, ...]

ADAPTERS: dict[str, Any] = {
    "anthropic": AnthropicModel,
    "openai": OpenAIModel,
    "openai-chat": OpenAIChatModel,
}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
TOOLS = (ToolSpec("f", "A tool.", SCHEMA), ToolSpec("g", "Another.", SCHEMA))
_BEGUN_TAG = re.compile(r"</?(?:t(?:h(?:i(?:n(?:k)?)?)?)?)?\Z")  # text, where it is cut off there
LIMIT_S = 60.0  # no test comes near it; it only keeps a broken one from hanging


_KEPT: deque[Any] = deque(maxlen=20)
"""The latest models: one that is gone before its loop ends leaves its connections open."""


def model_of(provider: str, server: Loopback, **options: Any) -> Any:
    """The adapter, pointed at this server."""
    return model_at(provider, server.base_url, **options)


def model_at(provider: str, url: str, **options: Any) -> Any:
    """The adapter, pointed at this address."""
    _KEPT.append(ADAPTERS[provider]("model-test", base_url=url, api_key="test", **options))
    return _KEPT[-1]


# -- frames


def frame(event: Event | str) -> bytes:
    """One server-sent event; a string is its data as it is."""
    data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
    name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
    return f"{name}data: {data}\n\n".encode()


def anthropic(*events: Event, stop: str | None = "end_turn", out: int = 15) -> Frames:
    """A Messages stream around these events; without an end where `stop` is None."""
    usage = {"input_tokens": 25, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "msg_1", "usage": usage}}
    end: list[Event] = []
    if stop is not None:
        delta = {"type": "message_delta", "delta": {"stop_reason": stop}}
        end = [delta | {"usage": {"output_tokens": out}}, {"type": "message_stop"}]
    return tuple(map(frame, [start, *events, *end]))


def block(index: int, head: Event, *deltas: Event) -> list[Event]:
    """A content block of a Messages stream, from its start to its stop."""
    return [
        {"type": "content_block_start", "index": index, "content_block": head},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def said(index: int, *pieces: str) -> list[Event]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def tool_use(index: int, id: str, name: str, *pieces: str) -> list[Event]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": "tool_use", "id": id, "name": name, "input": {}}, *deltas)


def chat(*deltas: Event, finish: str | None = "stop", after: Sequence[Event | str] = ()) -> Frames:
    """A Chat Completions stream of these deltas, its finish reason, and what comes `after` it
    before the `[DONE]`."""
    chunks: list[Event | str] = [choice(delta) for delta in deltas]
    if finish is not None:
        chunks.append(choice({}, finish))
    return tuple(map(frame, [*chunks, *after, "[DONE]"]))


def choice(delta: Event, finish: str | None = None) -> Event:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(
    index: int | None = None, id: str | None = None, name: str | None = None, args: Any = None
) -> Event:
    """One entry of `tool_calls`; what is None is not there."""
    function = {k: v for k, v in (("name", name), ("arguments", args)) if v is not None}
    entry = {"index": index, "id": id, "function": function or None}
    return {key: value for key, value in entry.items() if value is not None}


def calls(*pieces: Event) -> Event:
    return {"tool_calls": list(pieces)}


def responses(*events: Event, end: Event | None = None) -> Frames:
    """A Responses stream of these events and its end, completed where none is given."""
    last = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
    return tuple(map(frame, [*events, last if end is None else end]))


# -- playing them


async def collect(model: Model, history: Sequence[Message] = (user("Hi"),)) -> list[ModelDelta]:
    """All the deltas of an answer."""
    request = Request("", tuple(history), TOOLS, LIMIT_S)
    async with asyncio.timeout(LIMIT_S):
        return [delta async for delta in model.stream(request)]


async def until_it_ends(
    model: Model, limit_s: float | None = LIMIT_S
) -> tuple[list[ModelDelta], Exception | None]:
    """What comes, and what it is raised with."""
    found: list[ModelDelta] = []
    request = Request("", (user("Hi"),), TOOLS, limit_s)
    try:
        async with asyncio.timeout(LIMIT_S):
            async for delta in model.stream(request):
                found.append(delta)  # noqa: PERF401 - a comprehension loses them where it raises
    except ProviderError as error:
        return found, error
    return found, None


def assembled(deltas: Sequence[ModelDelta], provider: str) -> Message:
    assembler = Assembler(0, provider)
    for delta in deltas:
        assembler.feed(delta)
    return assembler.finish()


def shown(deltas: Sequence[ModelDelta]) -> str:
    """All that a person reads of it."""
    return "".join(d.text for d in deltas if isinstance(d, TextChunk | ThinkingChunk))


def finish_of(deltas: Sequence[ModelDelta]) -> Finish:
    last = deltas[-1]
    assert isinstance(last, Finish)
    return last


def whole_and_cut(provider: str, frames: Frames, **options: Any) -> list[ModelDelta]:
    """The deltas of the whole stream; and it is checked that a cut one, wherever it is cut, ends
    with a typed error, shows no more than the whole one does, and ends no other call."""
    ends = [(stop, clean) for stop in range(len(frames)) for clean in (True, False)]
    script = [raw(*frames), *(raw(*frames[:stop], cut(clean=clean)) for stop, clean in ends)]

    async def play(server: Loopback) -> list[tuple[list[ModelDelta], Exception | None]]:
        model = model_of(provider, server, **options)
        return [await until_it_ends(model) for _ in script]

    with Loopback(script) as server:
        (whole, failed), *rest = asyncio.run(play(server))
    if failed is not None:
        raise failed
    for (stop, clean), (deltas, error) in zip(ends, rest, strict=True):
        at = f"cut after {stop} of {len(frames)} frames, {'cleanly' if clean else 'broken'}"
        if error is None:  # its terminal event had come
            assert finish_of(deltas).stop_reason == finish_of(whole).stop_reason, at
        else:
            assert isinstance(error, ProviderError), at
            assert not any(isinstance(d, Finish) for d in deltas), at
        assert shown(whole).startswith(_BEGUN_TAG.sub("", shown(deltas))), at
        ended = [d for d in deltas if isinstance(d, CallEnd)]
        assert ended == [d for d in whole if isinstance(d, CallEnd)][: len(ended)], at
    return whole
