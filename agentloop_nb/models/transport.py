"""A streamed request from the SDK's response to deltas: the same few steps for every provider.

The SDK does the request (authentication, connections, platform quirks); its response is read as
bytes, past the typed layer, whose objects would cost most of the time and lose what they do not
know. One seam of IO, with one place where foreign exceptions become ProviderError. Events travel
in the batches that the network made of them: a step of an async generator for each would cost as
much as decoding it.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from agentloop_nb.errors import ProviderError
from agentloop_nb.models.base import Decoder, Finish, ModelDelta
from agentloop_nb.models.failures import from_exception
from agentloop_nb.models.silence import watch
from agentloop_nb.models.wire import EventStream, WireEvent

DRAIN_S = 0.5
"""How long an answer that is complete may keep its connection open."""


class Response(Protocol):
    """What is used here of an SDK's streamed response."""

    def iter_bytes(self) -> AsyncIterator[bytes]: ...


Opened = AbstractAsyncContextManager[Response]
Batch = list[WireEvent]
Client = TypeVar("Client")


@asynccontextmanager
async def posted(
    client: Any, path: str, content: bytes, stream: Any
) -> AsyncGenerator[Response, None]:
    """The response to `content`, by an SDK's own way to an endpoint without a method
    (`client.post`): authentication, headers and errors are the SDK's, and the body goes past its
    walk over every value in it. `stream` is the SDK's `AsyncStream`. For the SDK's plain client
    only: those for other platforms rewrite the body."""
    opened = await client.post(
        path, content=content, cast_to=object, stream=True, stream_cls=stream[object]
    )
    try:
        yield _Bytes(opened.response)
    finally:
        await opened.close()


class _Bytes:
    """The bytes of a response, under the name that the SDKs' own wrappers have for them."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def iter_bytes(self) -> AsyncIterator[bytes]:
        found: AsyncIterator[bytes] = self._response.aiter_bytes()
        return found


async def deltas(
    connect: Callable[[], Awaitable[Client]],
    send: Callable[[Client], Opened],
    decoder: Decoder,
    *,
    provider: str,
    limit_s: float | None,
    secrets: Callable[[Client], Iterable[str]],
) -> AsyncGenerator[ModelDelta, None]:
    """The deltas of one request. Raises ProviderError only, but for what `connect` raises; closing
    it closes the connection."""
    client = await connect()
    try:
        async with (
            aclosing(_batches(lambda: send(client))) as batches,
            aclosing(watch(batches, limit_s, provider=provider, is_life=_is_life)) as live,
        ):
            async for batch in live:
                for event in batch:
                    for delta in _decoded(decoder, event):
                        yield delta
                        if isinstance(delta, Finish):
                            await _drain(batches)
                            return
        for delta in decoder.close():
            yield delta
    except Exception as error:
        known = from_exception(error, provider, secrets(client))
        if known is None:
            raise
        if known.kind not in ("connection", "timeout") or not (rest := _complete(decoder)):
            # Without the cause: its text, and what it holds of the request, may carry a key.
            raise known from None
        for delta in rest:
            yield delta


def _decoded(decoder: Decoder, event: WireEvent) -> Iterator[ModelDelta]:
    try:
        yield from decoder.feed(event)
    except (TypeError, AttributeError, KeyError, IndexError) as error:
        seen = str(dict(event))[:120]
        raise ProviderError(
            f"The server sent an event that is not of its format: {seen} ({error}). Look at the "
            "server or the proxy in between, and at the base URL.",
            kind="protocol",
        ) from error


def _complete(decoder: Decoder) -> list[ModelDelta]:
    """What is left of an answer that had come whole before its connection broke; [] where it had
    not. Chat servers say that a reply is complete before they say that the stream is."""
    try:
        return list(decoder.close())
    except ProviderError:
        return []


async def _batches(send: Callable[[], Opened]) -> AsyncGenerator[Batch, None]:
    stream = EventStream()
    async with send() as response:
        async for chunk in response.iter_bytes():
            if batch := stream.feed(chunk):
                yield batch
        yield stream.close()


async def _drain(batches: AsyncIterator[Batch]) -> None:
    """Read a finished answer's body to its end, which lets the connection serve the next round."""
    with suppress(Exception):
        async with asyncio.timeout(DRAIN_S):
            async for _ in batches:
                pass


def _is_life(batch: Batch) -> bool:
    return any(event.get("type") not in ("ping", "keepalive") for event in batch)
