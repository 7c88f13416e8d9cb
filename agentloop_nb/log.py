"""The event log: append-only, one writer, any number of cursors that may come late.

Only the run's loop appends; it stamps `seq`, `at` and `t`. Readers on any thread see a list that
only grows, and are woken without being able to slow the writer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence

from agentloop_nb.events import UNSTAMPED, AnyEvent, Done

stamp = object.__setattr__  # events are frozen to everyone else


class EventLog:
    """The facts of one run, in order.

    `restored` are the events of an unfinished run from its journal: they keep their numbers and
    times, and the run's clock goes on from the last of them.
    """

    def __init__(self, restored: Sequence[AnyEvent] = ()) -> None:
        self._events: list[AnyEvent] = list(restored)
        self.restored = len(self._events)
        self._next = restored[-1].seq + 1 if restored else 0
        self._began = time.monotonic() - (restored[-1].t if restored else 0.0)
        self._wakers: list[Callable[[], None]] = []
        self._writer: int | None = None

    def append(self, event: AnyEvent) -> AnyEvent:
        """Stamp an event, keep it and wake the cursors. Only ever from one thread.

        It is the caller's until now and nobody else has seen it, so it is stamped in place: a
        copy of each delta would be a seventh of what the engine does for one. From here on it
        never changes, and to append it once more is a fault.
        """
        here = threading.get_ident()
        if self._writer is None:
            self._writer = here
        if here != self._writer:
            raise AssertionError("Only the run's own loop appends to its event log.")
        if self.closed:
            raise AssertionError("`done` is the last event of a run.")
        if event.seq != UNSTAMPED:
            raise AssertionError("This event is in a log already.")
        stamp(event, "at", int(time.time() * 1000))
        stamp(event, "t", round(self.now(), 4))
        stamp(event, "seq", self._next)
        self._next += 1
        self._events.append(event)
        for wake in tuple(self._wakers):
            wake()
        return event

    def now(self) -> float:
        """Seconds since the run began, on a monotonic clock; what `Event.t` is measured in."""
        return time.monotonic() - self._began

    @property
    def next_seq(self) -> int:
        """The number that the next event will get."""
        return self._next

    @property
    def closed(self) -> bool:
        return bool(self._events) and isinstance(self._events[-1], Done)

    def __len__(self) -> int:
        return len(self._events)

    def since(self, position: int) -> list[AnyEvent]:
        """The events from a position in this log on (a position is an index, not a `seq`)."""
        return self._events[position:]

    def on_append(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have `wake` called after each append, on the writer's thread; returns what ends it.

        `wake` must return at once and raise nothing.
        """
        self._wakers.append(wake)

        def leave() -> None:
            if wake in self._wakers:
                self._wakers.remove(wake)

        return leave

    async def follow(self, position: int = 0) -> AsyncIterator[AnyEvent]:
        """Every event from `position` on, past and future, until `done`; on any loop."""
        while True:
            for event in self.since(position):
                position += 1
                yield event
            if self.closed and position >= len(self):
                return
            await self.beyond(position)

    async def beyond(self, position: int) -> None:
        """Until there is an event at this position, or the last one has come; on any loop."""
        bell = Bell(asyncio.get_running_loop())
        leave = self.on_append(bell.ring)
        try:
            while len(self) <= position and not self.closed:
                await bell.wait()
                bell.clear()
        finally:
            leave()


class Bell:
    """Wakes a waiter on one loop from any thread; many rings before it wakes are one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rung = asyncio.Event()
        self._scheduled = False

    def ring(self) -> None:
        """Wake the waiter soon. Rings nobody where the loop has closed."""
        if self._scheduled:
            return
        self._scheduled = True
        try:
            self._loop.call_soon_threadsafe(self._fire)
        except RuntimeError:  # the loop closed: whoever waited there is gone
            self._scheduled = False

    def _fire(self) -> None:
        self._scheduled = False
        self._rung.set()

    def clear(self) -> None:
        self._rung.clear()

    async def wait(self) -> None:
        await self._rung.wait()
