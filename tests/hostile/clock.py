"""An event loop on made-up time: where nothing is to do, the next timer is due at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Leaping(selectors.SelectSelector):
    """Never waits: what a wait would have taken is added to the time."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "Nothing will ever happen again: everything waits."
            self.now += timeout
        return ready


class MadeUpTime(asyncio.SelectorEventLoop):
    """A loop on made-up seconds; nothing on it may wait for a thread."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now


class Clock:
    """Stands in for the module `time` where the code under test asks for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.monotonic = loop.time
        self.time = loop.time


def run(loop: MadeUpTime, main: Coroutine[Any, Any, T]) -> T:
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()
