"""A streamed request from the SDK's response to deltas: the same few steps for every provider.

The SDK does the request (authentication, connections, platform quirks); its response is read as
bytes, past the typed layer, whose objects would cost most of the time and lose what they do not
know. One seam of IO, with one place where foreign exceptions become ProviderError.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import Protocol

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


async def deltas(
    open_response: Callable[[], Opened],
    decoder: Decoder,
    *,
    provider: str,
    limit_s: float | None,
    secrets: Iterable[str],
) -> AsyncGenerator[ModelDelta, None]:
    """The deltas of one request. Raises ProviderError only; closing it closes the connection."""
    try:
        async with (
            aclosing(_wire_events(open_response)) as events,
            aclosing(watch(events, limit_s, provider=provider, is_life=_is_life)) as live,
        ):
            async for event in live:
                for delta in decoder.feed(event):
                    yield delta
                    if isinstance(delta, Finish):
                        await _drain(events)
                        return
        for delta in decoder.close():
            yield delta
    except Exception as error:
        known = from_exception(error, provider, secrets)
        if known is None or known is error:
            raise
        # Without the cause: its text, and what it holds of the request, may carry a key.
        raise known from None


async def _wire_events(open_response: Callable[[], Opened]) -> AsyncGenerator[WireEvent, None]:
    stream = EventStream()
    async with open_response() as response:
        async for chunk in response.iter_bytes():
            for event in stream.feed(chunk):
                yield event
        for event in stream.close():
            yield event


async def _drain(events: AsyncIterator[WireEvent]) -> None:
    """Read a finished answer's body to its end, which lets the connection serve the next round."""
    with suppress(Exception):
        async with asyncio.timeout(DRAIN_S):
            async for _ in events:
                pass


def _is_life(event: WireEvent) -> bool:
    return event.get("type") not in ("ping", "keepalive")
