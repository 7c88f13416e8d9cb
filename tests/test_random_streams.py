"""A thousand random streams of each format, cut and broken anywhere: nothing but a typed error is
raised, no character is lost, and no call counts as complete that was not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from agentloop_nb.errors import ProviderError
from agentloop_nb.messages import Message
from agentloop_nb.models.anthropic_decoder import AnthropicDecoder
from agentloop_nb.models.assemble import Assembler
from agentloop_nb.models.base import (
    CallChunk,
    CallEnd,
    Decoder,
    Finish,
    ModelDelta,
    TextChunk,
    ThinkingChunk,
)
from agentloop_nb.models.chat_decoder import ChatDecoder
from agentloop_nb.models.responses_decoder import ResponsesDecoder
from agentloop_nb.models.transport import deltas
from tests.random_streams import RandomStream, random_stream, streams

DECODERS: dict[str, Callable[[], Decoder]] = {
    "anthropic": AnthropicDecoder,
    "openai": ResponsesDecoder,
    "openai-chat": ChatDecoder,
}
SEEDS = range(1000)
each_format = pytest.mark.parametrize("format", DECODERS)


class Body:
    """A response whose body is this stream's, with its fault at the end."""

    def __init__(self, stream: RandomStream) -> None:
        self._stream = stream

    async def iter_bytes(self) -> AsyncIterator[bytes]:
        for chunk in self._stream.chunks:
            yield chunk
        if self._stream.fault == "break":
            raise httpx2.RemoteProtocolError("peer closed connection")
        if self._stream.fault == "stall":
            raise httpx2.ReadTimeout("too slow")


async def read(stream: RandomStream, decoder: Decoder) -> tuple[list[ModelDelta], Exception | None]:
    """All that comes of a stream, and what it ends with."""

    @asynccontextmanager
    async def send(_: None) -> AsyncIterator[Body]:
        yield Body(stream)

    async def connect() -> None:
        return None

    found: list[ModelDelta] = []
    coming: Any = deltas(
        connect, send, decoder, provider="The server", limit_s=60.0, secrets=lambda _: ()
    )
    try:
        async for delta in coming:
            found.append(delta)  # noqa: PERF401 - a comprehension loses them where it raises
    except ProviderError as error:
        return found, error
    return found, None


def joined(found: Iterable[ModelDelta], kind: type) -> str:
    return "".join(getattr(delta, "text", "") for delta in found if isinstance(delta, kind))


def message_of(found: list[ModelDelta]) -> Message:
    """What of it is complete."""
    assembler = Assembler(0, "x")
    for delta in found:
        assembler.feed(delta)
    return assembler.finish() if assembler.finished else assembler.partial()


def check(stream: RandomStream, found: list[ModelDelta], error: Exception | None) -> None:
    """What was read against what was written."""
    text, thinking = joined(found, TextChunk), joined(found, ThinkingChunk)
    calls = [(call.name, call.arguments) for call in message_of(found).calls]
    last = found[-1] if found else None
    assert isinstance(last, Finish) == (error is None)
    if stream.fault == "none":
        assert error is None
    if isinstance(last, Finish):
        whole = stream.added(len(stream.frames))
        assert (text, thinking) == (whole.text, whole.thinking)
        assert calls == stream.calls
        assert last.stop_reason == stream.stop
        return
    # A frame that lacks nothing but its end may count: it is whole, and the next one says more.
    allowed = [stream.added(stream.read), stream.added(stream.read + 1)]
    assert (text, thinking) in [(a.text, a.thinking) for a in allowed]
    assert set(calls) <= set(allowed[-1].calls)


def run(streams: Iterable[RandomStream], make: Callable[[], Decoder]) -> Iterator[str]:
    """The streams that were not read as they were written."""

    async def all_of_them() -> list[str]:
        wrong = []
        for stream in streams:
            found, error = await read(stream, make())
            try:
                check(stream, found, error)
            except AssertionError as failure:
                wrong.append(f"{stream.format} {stream.seed} ({stream.fault}): {failure}")
        return wrong

    yield from asyncio.run(all_of_them())


@each_format
def test_what_was_written_is_read_whatever_breaks(format: str) -> None:
    assert list(run(streams(format, SEEDS), DECODERS[format])) == []


class Dropping:
    """A decoder that loses its third delta of a kind."""

    def __init__(self, inner: Decoder, kind: type) -> None:
        self._inner = inner
        self._kind = kind
        self._seen = 0

    def feed(self, event: Any) -> Iterator[ModelDelta]:
        for delta in self._inner.feed(event):
            self._seen += isinstance(delta, self._kind)
            if self._seen != 3 or not isinstance(delta, self._kind):
                yield delta

    def close(self) -> Iterable[ModelDelta]:
        return self._inner.close()


@pytest.mark.parametrize("kind", [TextChunk, ThinkingChunk, CallChunk, CallEnd])
@each_format
def test_a_decoder_that_loses_one_delta_is_noticed(format: str, kind: type) -> None:
    wrong = run(streams(format, range(300)), lambda: Dropping(DECODERS[format](), kind))
    assert next(wrong, None) is not None


@each_format
def test_every_kind_of_fault_and_of_end_is_among_the_seeds(format: str) -> None:
    drawn = list(streams(format, SEEDS))
    assert {s.fault for s in drawn} == {"none", "end", "break", "stall", "error"}
    assert {"end_turn", "tool_use", "max_tokens", "refusal"} <= {s.stop for s in drawn}
    assert sum(len(s.calls) > 1 for s in drawn) > 50
    assert random_stream(format, 7).chunks == drawn[7].chunks
