"""A page that stays quick: linear streaming, Stop and scrolling on a slow page, flat after the end.

Figures are recorded as properties and printed; what is asserted of them leaves room for a busy
machine. The text comes through the Anthropic SDK in pieces of some hundred characters: the offline
model's words would cost the kernel more than they cost the page. Long pages are asked by `until`:
Playwright's `expect` also describes all that is on the page, which takes longer than all else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Open
from tests.browser.measure import Meter, Sample, usual_cost
from tests.lab import Notebook, View
from tests.loopback import Loopback, Reply, hold, reply, say, think

Record = Callable[[str, object], None]

RUN = """
from agentloop_nb import Agent, AnthropicModel
run = Agent(AnthropicModel("m-1", base_url={url!r}, api_key="test")).start("Go.")
"""
STREAM_MS = 120_000
RATIO = 3.0
"""So many times as much the last fifth of a stream may cost as the first; quadratic would be 9."""

SECTIONS = 3000
MIXED = """## Section {n}

Some *prose* with `code`, **bold** words and a [link](https://example.org/{n}), long enough to wrap.

- one item
- another with `code`
  1. and a nested one

| name | value |
|---|---|
| row {n} | **bold** |

> A quotation, of more than one
> line.

```python
def section(n={n}):
    return n ** 2
```

"""
PARTS = {
    "h2": 1,
    "p > a": 1,
    "ul > li": 2,
    "ol > li": 1,
    "tbody > tr": 1,
    "blockquote": 1,
    "pre": 1,
}
"""What a section becomes."""

CODE = "".join(f"line_{n} = compute({n})  # {n * n}\n" for n in range(26_000))


def mixed(sections: int) -> str:
    return "".join(MIXED.format(n=n) for n in range(sections))


def pieces(text: str, size: int = 500) -> list[str]:
    return [text[n : n + size] for n in range(0, len(text), size)]


def begun(open_notebook: Open, server: Loopback) -> tuple[Notebook, View]:
    """A run whose first words are seen."""
    notebook = open_notebook([RUN.format(url=server.base_url)])
    notebook.run(0)
    view = notebook.view(0)
    view.says("Begin.")
    return notebook, view


HAS_ENDED = "root => root.querySelector('[data-part=end]') !== null"
GOES_ON = "root => root.querySelector('[data-action=to-end]') === null"
STAYS = "root => root.querySelector('[data-action=to-end]') !== null"
LONGER = "root => root.querySelector('[data-part=thinking]')?.textContent.length > {}"


def until(view: View, condition: str) -> None:
    """Until this is true of the view's root."""
    view.root.page.wait_for_function(
        f"root => ({condition})(root)",
        arg=view.root.element_handle(),
        timeout=STREAM_MS,
        polling=250,
    )


@pytest.fixture
def tell(record_property: Record, request: pytest.FixtureRequest) -> Record:
    """Records a figure, and prints it for `pytest -rP`."""

    def both(what: str, figure: object) -> None:
        record_property(what, figure)
        print(f"{request.node.name}: {what}: {figure}")

    return both


# -- linear


def test_the_end_of_1_mb_of_mixed_markdown_costs_what_its_beginning_costs(
    open_notebook: Open, tell: Record
) -> None:
    view = linear(open_notebook, mixed(SECTIONS), tell)
    found = view.part("text").evaluate(
        "(text, parts) => parts.map(part => text.querySelectorAll(part).length)", list(PARTS)
    )
    assert dict(zip(PARTS, found, strict=True)) == {k: n * SECTIONS for k, n in PARTS.items()}


def test_the_end_of_a_fence_of_1_mb_costs_what_its_beginning_costs_and_it_becomes_code(
    open_notebook: Open, tell: Record
) -> None:
    view = linear(open_notebook, f"```python\n{CODE}```\n\nThat is **all**.\n", tell)
    text = view.part("text")
    assert text.evaluate("text => text.querySelector('pre > code').textContent") == CODE.rstrip()
    assert text.evaluate("text => text.querySelectorAll('pre, .al-piece').length") == 1
    assert text.locator("strong").inner_text() == "all"


def linear(open_notebook: Open, text: str, tell: Record) -> View:
    """Streams it at 200 kB a second, and holds the last fifth against the first."""
    script: list[Reply] = [reply(say("Begin.\n\n", hold("ready"), *pieces(text)), pace=400)]
    with Loopback(script) as server:
        notebook, view = begun(open_notebook, server)
        meter = Meter(notebook.page)
        server.release("ready")
        samples = streamed(server, meter)
        until(view, HAS_ENDED)
    ratio = usual_cost(samples, 0.8, 1.0) / usual_cost(samples, 0.0, 0.2)
    tell("cost of the last fifth against the first", round(ratio, 2))
    work = samples[-1][1] - samples[0][1]
    tell("microseconds of work for a character", round(work / len(text) * 1e6, 2))
    assert ratio < RATIO
    return view


def streamed(server: Loopback, meter: Meter) -> list[Sample]:
    """Samples over the seconds of a paced stream. Nothing else is asked of the page: to read a long
    text costs more than to show it."""
    samples: list[Sample] = []
    while server.last.ended is None:
        assert not samples or samples[-1][0] - samples[0][0] < STREAM_MS / 1000
        meter.frames(6)
        samples.append((time.monotonic(), meter.busy_s()))
    assert server.last.ended == "complete"
    return samples


# -- on a slow page

SLOWER = 6
THOUGHT = "I think about the next step, and about the one after that. " * 16

# Both look in the page, each frame or at each change: what is asked of a slow page takes seconds.
# An event's own time is when the mouse was pressed, however busy the page was then.
FROM_CLICK_TO_END = """
root => {
    window.stopped = new Promise(resolve => {
        let clicked = 0;
        root.addEventListener('click', event => { clicked = event.timeStamp; }, true);
        new MutationObserver(() => {
            if (root.querySelector('[data-part=end]') !== null) {
                resolve(performance.now() - clicked);
            }
        }).observe(root, { subtree: true, childList: true });
    });
}
"""
WATCH_PLACE = """
box => {
    const there = box.scrollTop;
    window.moved = 0;
    window.watched = 0;
    const look = () => {
        window.watched += 1;
        window.moved = Math.max(window.moved, Math.abs(box.scrollTop - there));
        window.watching = requestAnimationFrame(look);
    };
    look();
}
"""
STOP_WATCHING = "() => { cancelAnimationFrame(window.watching); return [moved, watched]; }"


def thinking() -> list[str]:
    """2 MB that come quickly, and then more as a fast model sends it, for two minutes."""
    return [f"{n} {THOUGHT}\n\n" for n in range(2150)] + [THOUGHT[:60]] * 20_000


def test_stop_and_scrolling_on_a_page_six_times_slower_with_2_mb_of_thinking(
    open_notebook: Open, tell: Record
) -> None:
    with Loopback([reply(think(*thinking()), pace=175)]) as server:
        notebook = open_notebook([RUN.format(url=server.base_url)])
        notebook.run(0)
        view = notebook.view(0)
        until(view, LONGER.format(10_000))
        meter = Meter(notebook.page)
        meter.slow_down(SLOWER)
        until(view, LONGER.format(400_000))
        moved, frames = scrolled_up(notebook, view, -600, 700_000)
        tell("frames in which the reader's place was looked at", frames)
        until(view, LONGER.format(2_000_000))
        assert server.last.ended is None
        took = stopped(notebook, view)
        meter.slow_down(1)
        assert view.part("end").get_attribute("data-reason") == "user_cancel"
    tell("seconds from the click on Stop to its end", round(took, 2))
    assert moved <= 2
    assert frames >= 5
    assert took < 10


def test_the_gentlest_step_up_is_not_pulled_back(open_notebook: Open) -> None:
    with Loopback([reply(think(*thinking()), pace=50)]) as server:
        notebook = open_notebook([RUN.format(url=server.base_url)])
        notebook.run(0)
        view = notebook.view(0)
        until(view, LONGER.format(20_000))
        moved, _ = scrolled_up(notebook, view, -12, 60_000)
        assert moved <= 2
        view.button("to-end").click()
        until(view, GOES_ON)
        until(view, LONGER.format(80_000))
        until(view, GOES_ON)
        view.stop()
        until(view, HAS_ENDED)


def stopped(notebook: Notebook, view: View) -> float:
    """Seconds from a real click on Stop until the view has its end."""
    view.root.evaluate(FROM_CLICK_TO_END)
    place = view.button("stop").bounding_box()
    assert place is not None
    notebook.page.mouse.click(place["x"] + 5, place["y"] + 5)
    took: float = notebook.page.evaluate("window.stopped")
    return took / 1000


def scrolled_up(notebook: Notebook, view: View, by: int, chars: int) -> tuple[float, int]:
    """Turns the wheel, and returns how far the place moved by itself while so much came in, and in
    how many frames that was looked at."""
    scroller = view.part("scroller")
    scroller.hover()
    notebook.page.mouse.wheel(0, by)
    until(view, STAYS)
    Meter(notebook.page).frames(20)  # until a smooth scroll has ended
    scroller.evaluate(WATCH_PLACE)
    until(view, LONGER.format(chars))
    moved, frames = notebook.page.evaluate(STOP_WATCHING)
    until(view, STAYS)
    return moved, frames


# -- after the end, and frame by frame

# Widgets' scripts are modules from blobs; Lab's own are not.
COUNT_OURS = """
() => {
    const ours = () => new Error().stack.includes('blob:');
    const { requestAnimationFrame, setInterval, clearInterval } = window;
    const intervals = new Set();
    window.ours = { frames: 0, intervals };
    window.requestAnimationFrame = callback => {
        window.ours.frames += ours();
        return requestAnimationFrame(callback);
    };
    window.setInterval = (...args) => {
        const id = setInterval(...args);
        if (ours()) {
            intervals.add(id);
        }
        return id;
    };
    window.clearInterval = id => {
        intervals.delete(id);
        clearInterval(id);
    };
}
"""
OURS = "() => [window.ours.frames, window.ours.intervals.size]"


def test_after_the_end_memory_is_flat_and_nothing_runs(open_notebook: Open, tell: Record) -> None:
    with Loopback([reply(say(*pieces(mixed(1500))))]) as server:
        notebook = open_notebook([RUN.format(url=server.base_url)])
        notebook.page.evaluate(COUNT_OURS)
        notebook.run(0)
        view = notebook.view(0)
        until(view, HAS_ENDED)
    meter = Meter(notebook.page)
    meter.frames(60)
    before, paints = meter.heap_bytes(), view.paints
    asked, intervals = notebook.page.evaluate(OURS)
    meter.frames(180)
    after = meter.heap_bytes()
    tell("MB of heap at the end", round(before / 1e6, 1))
    tell("MB of heap 180 frames later", round(after / 1e6, 1))
    assert asked > 0
    assert intervals == 1, "the channel's beat goes on, which notices that the kernel is gone"
    assert notebook.page.evaluate(OURS) == [asked, intervals]
    assert view.paints == paints
    assert view.root.evaluate("root => root.getAnimations({ subtree: true }).length") == 0
    assert after < before * 1.05 + 1e6


# The timeline's time is that of the frame, so what is written in one frame has one time. An
# observer is called once for each task that wrote.
COUNT_WRITES = """
root => {
    const writes = window.writes = new Map();
    const count = changes => {
        const at = document.timeline.currentTime;
        const paints = changes.filter(change => change.attributeName === 'data-paints').length;
        const before = writes.get(at) ?? { tasks: 0, paints: 0 };
        writes.set(at, { tasks: before.tasks + 1, paints: before.paints + paints });
    };
    const observer = new MutationObserver(count);
    observer.observe(root, { attributeFilter: ['data-paints'] });
    observer.observe(root.querySelector('[data-part=scroller]'),
        { subtree: true, childList: true, characterData: true });
}
"""
WRITES = "() => [...window.writes.values()]"


def test_a_frame_paints_once_at_most(open_notebook: Open, tell: Record) -> None:
    text = mixed(600)
    script = [reply(say("Begin.\n\n", hold("ready"), *pieces(text, 50)), pace=1500)]
    with Loopback(script) as server:
        _, view = begun(open_notebook, server)
        view.root.evaluate(COUNT_WRITES)
        server.release("ready")
        until(view, HAS_ENDED)
        writes: list[dict[str, Any]] = view.root.page.evaluate(WRITES)
    tell("frames with a paint", len(writes))
    assert len(writes) >= 20
    assert [each for each in writes if each["tasks"] > 1 or each["paints"] > 1] == []
