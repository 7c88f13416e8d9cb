"""How it looks, in both themes, wide and narrow: nothing spills, all is readable, no errors.

With `AGENTLOOP_NB_SHOTS=FOLDER` the pictures are kept there.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import WIDE, Open
from tests.lab import Notebook, View
from tests.loopback import Loopback, refuse

NARROW = {"width": 520, "height": 900}
LEAST_CONTRAST = 4.5
"""WCAG 2.1, success criterion 1.4.3, for text of normal size."""

RICH = '''
from agentloop_nb import Agent, Call, Limits, OfflineModel, Reply, tool

@tool
def list_files(path: str) -> list[str]:
    """List the files of a folder."""
    return [f"report-{n}.csv" for n in range(2010, 2024)]

@tool
def read(path: str) -> str:
    """Read a file."""
    raise FileNotFoundError(f"No such file: {path}")

@tool(approval="required")
def delete_file(path: str, why: str) -> str:
    """Delete one file for good."""
    return f"deleted {path}"

ANSWER = """## What I did

I looked at **14 files** and deleted one, with `delete_file`.

| file | size | kept |
|---|---|---|
| a/rather/long/path/to/a/report-about-nothing-in-particular-2019.csv | 14 kB | no |
| report-2020.csv | 12 kB | yes |

```python
for name in sorted(folder.iterdir()):
    print(name, name.stat().st_size, "bytes, which makes this a line that is longer than the page")
```

> A quotation, and a [link](https://example.org).
"""
LONG = "/a/very/long/path" * 12
agent = Agent(OfflineModel([
    Reply("I look first.", thinking="The user wants this tidied.",
          calls=[Call("list_files", path="."), Call("read", path="notes.md")]),
    Reply("One of them is `old`.", calls=[Call("delete_file", path=LONG, why="It is old.")]),
    Reply(ANSWER),
]), tools=[list_files, read, delete_file])
run = agent.start("Tidy this folder, and tell me what you did with it.")
'''

MANY = """
from agentloop_nb import Agent, Call, Limits, OfflineModel, Reply, tool

@tool
def look(at: int) -> str:
    \"\"\"Look.\"\"\"
    return f"seen {at}"

rounds = [Reply(f"Step {n}.", calls=[Call("look", at=n)]) for n in range(40)]
run = Agent(OfflineModel([*rounds, Reply("All seen.")]), tools=[look],
            limits=Limits(max_turns=60)).start("Look at everything.")
"""

# For each element that holds text of its own: what it says, and the contrast of its colour with
# what lies behind it, by the formulas of WCAG 2.1. Half-transparent layers are mixed.
CONTRASTS = """
root => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const rgba = colour => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, under) =>
        [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
    const behind = element => {
        const layers = [];
        for (let e = element; e; e = e.parentElement) {
            layers.push(rgba(getComputedStyle(e).backgroundColor));
        }
        return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
    };
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map(v => v / 255)
            .map(v => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const found = [];
    for (const element of root.querySelectorAll('*')) {
        const own = [...element.childNodes].filter(n => n.nodeType === 3 && n.data.trim() !== '');
        if (own.length === 0 || !element.checkVisibility({ visibilityProperty: true })
            || element.closest('.al-unseen, :disabled')) {
            continue;
        }
        const under = behind(element);
        const text = over(rgba(getComputedStyle(element).color), under);
        const [a, b] = [light(text), light(under)].sort((x, y) => y - x);
        const words = own.map(n => n.data.trim()).join(' ').slice(0, 40);
        found.push([element.className || element.tagName, words, (a + 0.05) / (b + 0.05)]);
    }
    return found;
}
"""

SPILLS = """
root => {
    const edge = root.getBoundingClientRect().right + 1;
    const clipped = e => {
        for (let p = e.parentElement; p && p !== root.parentElement; p = p.parentElement) {
            if (p.matches('pre, table, .al-table, .al-prose')
                && getComputedStyle(p).overflowX !== 'visible') {
                return true;
            }
        }
        return false;
    };
    return [...root.querySelectorAll('*')]
        .filter(e => e.checkVisibility() && !e.closest('.al-unseen')
            && e.getBoundingClientRect().right > edge && !clipped(e))
        .map(e => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`);
}
"""


def unreadable(view: View) -> list[Any]:
    found = view.root.evaluate(CONTRASTS)
    assert len(found) > 5
    return [each for each in found if each[2] < LEAST_CONTRAST]


def fits(notebook: Notebook, view: View) -> None:
    """Nothing of the view lies beyond its right edge, and neither box of it scrolls sideways."""
    assert view.root.evaluate(SPILLS) == []
    for part in (view.root, view.part("scroller")):
        assert part.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_of_a_rich_run_is_readable_and_fits_wide_and_narrow(
    open_notebook: Open, theme: str
) -> None:
    notebook = open_notebook([RICH])
    notebook.theme(theme)
    try:
        notebook.run(0)
        view = notebook.view(0)
        view.asked()
        look(notebook, view, f"{theme}-asks")
        view.button("decline").click()
        notebook.shoot(f"{theme}-decline")
        assert unreadable(view) == []
        view.approve()
        view.ended("Done in 3 rounds")
        for line in view.root.locator(".al-call-line").all():
            line.click()
        look(notebook, view, f"{theme}-done")
        assert notebook.errors() == []
    finally:
        notebook.page.set_viewport_size(WIDE)
        notebook.theme("light")


def look(notebook: Notebook, view: View, name: str) -> None:
    for size, width in (("wide", WIDE), ("narrow", NARROW)):
        notebook.page.set_viewport_size(width)
        view.root.scroll_into_view_if_needed()
        if "asks" in name:
            view.button("approve").scroll_into_view_if_needed()
            expect(view.button("approve")).to_be_in_viewport(ratio=1)
            expect(view.button("stop")).to_be_in_viewport(ratio=1)
        notebook.shoot(f"{name}-{size}")
        fits(notebook, view)
    assert unreadable(view) == []


FAILS = """
from agentloop_nb import Agent, AnthropicModel
run = Agent(AnthropicModel("m-1", base_url={url!r}, api_key="test")).start("Say hello.")
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_pause_and_a_final_error_are_readable_and_fit_also_after_a_reload(
    open_notebook: Open, theme: str
) -> None:
    with Loopback([*[refuse(529)] * 5, refuse(401)]) as server:
        notebook = open_notebook([FAILS.format(url=server.base_url)])
        notebook.theme(theme)
        try:
            notebook.run(0)
            view = notebook.view(0)
            expect(view.part("pause")).to_contain_text("One more try in", timeout=30_000)
            look(notebook, view, f"{theme}-pause")
            view.button("retry-now").click()
            view.ended("Failed")
            look(notebook, view, f"{theme}-error")
            notebook.page.set_viewport_size(WIDE)
            notebook.save()
            notebook.reload()
            view = notebook.view(0)
            view.ended("Failed")
            expect(view.root).to_contain_text("Check the API key")
            look(notebook, view, f"{theme}-error-reloaded")
        finally:
            notebook.page.set_viewport_size(WIDE)
            notebook.theme("light")


def test_a_long_run_keeps_one_rail_and_folds_its_rounds(open_notebook: Open) -> None:
    notebook = open_notebook([MANY])
    notebook.run(0)
    view = notebook.view(0)
    view.ended("Done in 41 rounds")
    notebook.shoot("long")
    fits(notebook, view)
    expect(view.root.locator("nav")).to_have_count(1)
    expect(view.root.locator("[data-mark]")).to_have_count(41)
    expect(view.root.locator("[data-round]")).to_have_count(41)
    assert view.root.bounding_box()["height"] < WIDE["height"]
    first = view.root.locator('[data-round="0"]')
    expect(first).to_have_attribute("data-folded", "")
    view.root.locator('[data-mark="0"]').click()
    expect(first).to_be_in_viewport()
    expect(view.button("to-end")).to_be_visible()
    view.button("to-end").click()
    expect(view.part("end")).to_be_in_viewport()
    assert unreadable(view) == []
    assert notebook.errors() == []


def test_the_checks_notice_faint_text_and_what_spills(browser: Browser) -> None:
    page = browser.new_page(viewport=WIDE)
    page.set_content(
        """<div data-agentloop="view" style="width: 300px; background: #fff"><main>
        <p style="color: #000">black</p> <p style="color: #777">a bit too faint</p>
        <p style="color: rgb(0 0 0 / 0.5)">seen through</p> <p style="color: #767676">just so</p>
        <div style="background: #111"><b style="color: #000">black</b></div>
        <i style="color: #eee; visibility: hidden">hidden</i> <b style="color: #000">bold</b>
        <div style="width: 400px; color: #000">too wide</div></main></div>"""
    )
    view = View(page.locator("[data-agentloop]"))
    faint = [words for _, words, _ in unreadable(view)]
    assert faint == ["a bit too faint", "seen through", "black"]
    (spilt,) = view.root.evaluate(SPILLS)
    assert "too wide" in spilt
    page.close()
