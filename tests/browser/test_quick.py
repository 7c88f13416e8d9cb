"""A page that stays quick: linear streaming, Stop and scrolling on a slow page, flat after the end.

Figures are recorded as properties; what is asserted of them leaves room for a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.browser.measure import Meter, Sample, cost
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


def mixed() -> str:
    return "".join(MIXED.format(n=n) for n in range(1500))


def fence() -> str:
    lines = "".join(f"line_{n} = compute({n})  # {n * n}\n" for n in range(14_000))
    return f"Look:\n\n```python\n{lines}"


def pieces(text: str, size: int = 250) -> list[str]:
    return [text[n : n + size] for n in range(0, len(text), size)]


TEXTS = {"mixed Markdown": mixed, "one unclosed fence": fence}


@pytest.mark.parametrize("what", TEXTS)
def test_the_end_of_a_long_stream_costs_what_its_beginning_costs(
    open_notebook: Open, what: str, record_property: Record
) -> None:
    text = TEXTS[what]()
    script: list[Reply] = [reply(say("Begin.\n\n", hold("ready"), *pieces(text)), pace=400)]
    with Loopback(script) as server:
        notebook = open_notebook([RUN.format(url=server.base_url)])
        notebook.run(0)
        view = notebook.view(0)
        view.says("Begin.")
        meter = Meter(notebook.page)
        server.release("ready")
        samples = streamed(server, meter)
        expect(view.part("end")).to_be_attached(timeout=STREAM_MS)
    ratio = cost(samples, 0.8, 1.0) / cost(samples, 0.0, 0.2)
    record_property(f"{what}: cost of the last fifth against the first", round(ratio, 2))
    busy = (samples[-1][1] - samples[0][1]) / len(text)
    record_property(f"{what}: microseconds of work for a character", round(busy * 1e6, 2))
    assert ratio < RATIO
    shown = view.part("text").evaluate("element => element.textContent")
    assert shown.count("compute(" if "fence" in what else "Section") >= 1500


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


SLOWER = 6
FROM_CLICK_TO_END = """
() => {
    // Looked at in the page: what the tests ask of a slowed page takes seconds by itself.
    const root = document.querySelector('[data-agentloop=view]');
    window.stopped = new Promise(resolve => {
        let clicked = 0;
        root.addEventListener('click', () => { clicked = performance.now(); }, true);
        new MutationObserver(() => {
            if (root.querySelector('[data-part=end]') !== null) {
                resolve(performance.now() - clicked);
            }
        }).observe(root, { subtree: true, childList: true });
    });
}
"""
THOUGHT = "I think about the next step, and about the one after that. "


def test_stop_and_scrolling_on_a_page_six_times_slower_with_2_mb_of_thinking(
    open_notebook: Open, record_property: Record
) -> None:
    thought = [f"{n} {THOUGHT * 16}\n\n" for n in range(2100)]  # 2 MB
    with Loopback([reply(think(*thought, hold("for ever")), pace=150)]) as server:
        notebook = open_notebook([RUN.format(url=server.base_url)])
        notebook.run(0)
        view = notebook.view(0)
        expect(view.part("thinking")).to_contain_text("1 I think")
        meter = Meter(notebook.page)
        meter.slow_down(SLOWER)
        until_longer(notebook, 400_000)
        stays_where_the_reader_scrolled(notebook, view)
        server.wait_held("for ever")
        until_longer(notebook, 1_900_000)
        notebook.page.evaluate(FROM_CLICK_TO_END)
        place = view.button("stop").bounding_box()
        assert place is not None
        notebook.page.mouse.click(place["x"] + 5, place["y"] + 5)
        took = notebook.page.evaluate("window.stopped") / 1000
        meter.slow_down(1)
        view.ended("Stopped by you")
    record_property("seconds from the click on Stop to its end", round(took, 2))
    assert took < 10


def until_longer(notebook: Notebook, chars: int) -> None:
    notebook.page.wait_for_function(
        "chars => document.querySelector('[data-part=thinking]').textContent.length > chars",
        arg=chars,
        timeout=STREAM_MS,
    )


def stays_where_the_reader_scrolled(notebook: Notebook, view: View) -> None:
    """Also while much more comes in."""
    scroller = view.part("scroller")
    scroller.hover()
    notebook.page.mouse.wheel(0, -600)
    notebook.page.wait_for_function(
        "e => e.scrollHeight - e.scrollTop - e.clientHeight > 300", arg=scroller.element_handle()
    )
    Meter(notebook.page).frames(3)
    there = scroller.evaluate("e => e.scrollTop")
    until_longer(notebook, 900_000)
    assert abs(scroller.evaluate("e => e.scrollTop") - there) <= 2
    expect(view.button("to-end")).to_be_visible()


def test_after_the_end_memory_is_flat_and_nothing_is_painted(
    open_notebook: Open, record_property: Record
) -> None:
    with Loopback([reply(say(*pieces(mixed())))]) as server:
        notebook = open_notebook([RUN.format(url=server.base_url)])
        notebook.run(0)
        view = notebook.view(0)
        expect(view.part("end")).to_be_attached(timeout=STREAM_MS)
    meter = Meter(notebook.page)
    meter.frames(60)
    before, paints = meter.heap_bytes(), view.paints
    meter.frames(300)
    after = meter.heap_bytes()
    record_property("MB of heap at the end", round(before / 1e6, 1))
    record_property("MB of heap 300 frames later", round(after / 1e6, 1))
    assert view.paints == paints
    assert after < before * 1.05 + 1e6


COUNT = """
() => {
    window.counted = { frames: 0, most: 0 };
    const root = document.querySelector('[data-agentloop=view]');
    let inFrame = 0;
    new MutationObserver(changes => {
        inFrame += changes.filter(c => c.attributeName === 'data-paints').length;
        window.counted.most = Math.max(window.counted.most, inFrame);
    }).observe(root, { attributes: true });
    const frame = () => {
        window.counted.frames += 1;
        inFrame = 0;
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
}
"""


def test_a_frame_paints_once_at_most(open_notebook: Open, record_property: Record) -> None:
    text = mixed()[:200_000]
    script = [reply(say("Begin.\n\n", hold("ready"), *pieces(text, 50)), pace=1500)]
    with Loopback(script) as server:
        notebook = open_notebook([RUN.format(url=server.base_url)])
        notebook.run(0)
        view = notebook.view(0)
        view.says("Begin.")
        notebook.page.evaluate(COUNT)
        before = view.paints
        server.release("ready")
        expect(view.part("end")).to_be_attached(timeout=STREAM_MS)
    counted = notebook.page.evaluate("window.counted")
    record_property("paints", view.paints - before)
    record_property("frames", counted["frames"])
    assert counted["most"] == 1
    assert view.paints - before <= counted["frames"]
