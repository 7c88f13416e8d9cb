"""A clock for what waits on a provider: the time passes when a test says so, or at once."""

from __future__ import annotations

import asyncio
import math

from agentloop_nb.log import Bell


class TestClock:
    """`waits` are all pauses that were begun, in seconds. `auto` lets each be over at once."""

    __test__ = False

    def __init__(self, *, auto: bool = True) -> None:
        self.auto = auto
        self.time = 1000.0
        self.waits: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Event]] = []
        self._changed = asyncio.Event()

    def now(self) -> float:
        return self.time

    async def wait(self, bell: Bell, seconds: float) -> None:
        self.waits.append(seconds)
        if self.auto and not math.isinf(seconds):
            self.time += seconds
            await asyncio.sleep(0)
            return
        over = asyncio.Event()
        sleeper = (self.time + seconds, over)
        self._sleepers.append(sleeper)
        self._changed.set()
        both = [asyncio.ensure_future(bell.wait()), asyncio.ensure_future(over.wait())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in both:
                each.cancel()
            self._sleepers.remove(sleeper)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds
        for due, over in self._sleepers:
            if due <= self.time:
                over.set()

    async def asleep(self, count: int) -> None:
        """Until so many wait."""
        async with asyncio.timeout(20):
            while len(self._sleepers) < count:
                self._changed.clear()
                await self._changed.wait()
