"""What a page costs, asked of Chromium itself: seconds of script, style, layout; bytes of heap.

Seconds are those of the page's own thread, so that other work on the machine does not count.
"""

from __future__ import annotations

from statistics import median

from playwright.sync_api import CDPSession, Page

BUSY = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")

FRAMES = """
async count => {
    for (let n = 0; n < count; n++) {
        await new Promise(requestAnimationFrame);
    }
}
"""

Sample = tuple[float, float]
"""How far a stream has come, and the seconds that the page has worked so far."""


class Meter:
    """Of one page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._cdp: CDPSession = page.context.new_cdp_session(page)
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy_s(self) -> float:
        """Seconds of work so far, in script, style and layout."""
        found = self._cdp.send("Performance.getMetrics")["metrics"]
        return sum(each["value"] for each in found if each["name"] in BUSY)

    def heap_bytes(self) -> int:
        """What is in use after a collection."""
        self._cdp.send("HeapProfiler.collectGarbage")
        used: int = self._cdp.send("Runtime.getHeapUsage")["usedSize"]
        return used

    def slow_down(self, times: float) -> None:
        """Have the page's processor be so many times slower."""
        self._cdp.send("Emulation.setCPUThrottlingRate", {"rate": times})

    def frames(self, count: int) -> None:
        """Until so many frames have passed."""
        self.page.evaluate(FRAMES, count)


def cost(samples: list[Sample], start: float, end: float) -> float:
    """Seconds of work between two shares of the whole way, divided by that part of it."""
    first, last = samples[0][0], samples[-1][0]
    (x0, busy0), (x1, busy1) = (_at(samples, first + s * (last - first)) for s in (start, end))
    return (busy1 - busy0) / (x1 - x0)


def usual_cost(samples: list[Sample], start: float, end: float, parts: int = 4) -> float:
    """The median of `cost` over so many equal parts: one pause of the page decides nothing."""
    step = (end - start) / parts
    return median(cost(samples, start + n * step, start + (n + 1) * step) for n in range(parts))


def _at(samples: list[Sample], place: float) -> Sample:
    """What lies between the samples around."""
    after = next((n for n, (x, _) in enumerate(samples) if x >= place), len(samples) - 1)
    if after == 0:
        return samples[0]
    (x0, b0), (x1, b1) = samples[after - 1], samples[after]
    return place, b0 + (place - x0) / (x1 - x0) * (b1 - b0)
