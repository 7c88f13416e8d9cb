"""What the way to the page costs, and how late it is, beside a widget with a growing text trait.

Run as `uv run python -m benchmarks.page`; prints a table of Markdown. A real JupyterLab and a real
Chromium, one thing after the other in the same run, on one machine, so that one clock tells both
ends. A delta's text is its number: so the page knows which it shows.
"""

from __future__ import annotations

import base64
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, expect, sync_playwright

from tests.browser.measure import Meter, Sample, cost
from tests.conftest import CHROMIUM_FLAGS, NO_CHROMIUM, find_chromium
from tests.lab import Notebook, serve

RATE = 1000
"""Deltas a second."""
DELTAS = {"ours": 10_000, "naive": 4_000}
"""The naive widget sends 2 GB for the text of 10,000 deltas: it gets fewer, which flatters it."""
PIECE = 8
"""Characters of a delta."""
CLICKS = 40
BIG = 10_000_000
NAIVE_STEPS = 20
"""The naive widget gets the 10 MB in so few steps; in small ones it would send terabytes."""
WAIT_MS = 300_000

# -- the cells

PACED = f"""
import asyncio, json, pathlib, time

def write(numbers):
    "Into a file: of what cells print, the server drops some while the naive widget talks."
    pathlib.Path("numbers.json").write_text(json.dumps(numbers))

async def paced(emit, deltas, rate={RATE}):
    loop, stamps = asyncio.get_running_loop(), []
    began = loop.time()
    for n in range(deltas):
        wait = began + n / rate - loop.time()
        if wait > 0:
            await asyncio.sleep(wait)
        stamps.append(time.time() * 1000)
        # A paragraph now and then, as in any text.
        emit(f"{{n:0{PIECE - 2}d}}\\n\\n" if n % 64 == 63 else f"{{n:0{PIECE - 1}d}} ")
    return stamps
"""
OURS = """
from agentloop_nb import Agent, Call, Limits, OfflineModel, Reply, tool
from agentloop_nb.messages import Usage
from agentloop_nb.models.base import Finish, TextChunk

class Paced:
    name = provider = "paced"

    def check(self):
        pass

    async def stream(self, request):
        queue = asyncio.Queue()
        task = asyncio.create_task(paced(queue.put_nowait, {deltas}))
        for _ in range({deltas}):
            yield TextChunk(0, await queue.get())
        self.stamps = await task
        yield Finish("end_turn", Usage(0, 0))

model = Paced()
run = Agent(model).start("Stream.")
""".format(deltas=DELTAS["ours"])
OURS_STAMPS = "await run\nwrite(model.stamps)"
NAIVE = """
import anywidget, traitlets
from IPython.display import display

class Naive(anywidget.AnyWidget):
    _esm = '''
    export default { render({ model, el }) {
        const text = document.createElement("div");
        text.className = "naive";
        const button = document.createElement("button");
        button.className = "naive-answer";
        button.textContent = "Answer";
        button.onclick = () => model.send({ answer: true });
        const show = () => { text.textContent = model.get("text"); };
        model.on("change:text", show);
        el.append(button, text);
        show();
    } };
    '''
    text = traitlets.Unicode("").tag(sync=True)

naive, answers = Naive(), []
naive.on_msg(lambda *_: answers.append(time.time() * 1000))
display(naive)

def emit(text):
    naive.text += text
"""
NAIVE_STREAM = f"write(await paced(emit, {DELTAS['naive']}))"
ASKS = f"""
@tool(approval="required")
def go(n: int) -> str:
    "Go on."
    return "gone"

rounds = [Reply(calls=[Call("go", n=n)]) for n in range({CLICKS})]
asked = Agent(OfflineModel([*rounds, "All asked."]), tools=[go],
              limits=Limits(max_turns={CLICKS} + 5)).start("Ask.")
"""
ASKED = 'await asked\nwrite([e.at for e in asked.events if e.type == "answer"])'
WORDS = "words and more words, "
OURS_BIG = f'big = Agent(OfflineModel([{WORDS!r} * ({BIG} // {len(WORDS)})])).start("Talk.")'
NAIVE_BIG = f"""
for _ in range({NAIVE_STEPS}):
    naive.text += {WORDS!r} * ({BIG} // {len(WORDS)} // {NAIVE_STEPS})
    await asyncio.sleep(0.5)
print("all", "set")
"""
ANSWERS = "write(answers)"
CELLS = [PACED, OURS, OURS_STAMPS, NAIVE, NAIVE_STREAM, ASKS, ASKED, ANSWERS, OURS_BIG, NAIVE_BIG]

# -- the page's side

WATCH = """
() => {
    window.clicks = [];
    document.addEventListener("click", () => window.clicks.push(Date.now()), true);
    // A message sent within a frame comes as soon as that frame is painted.
    const painted = new MessageChannel();
    let waiting = [], inFrame = false;
    painted.port1.onmessage = () => {
        inFrame = false;
        for (const entry of waiting.splice(0)) {
            entry[1] = Date.now();
        }
    };
    const frame = () => {
        requestAnimationFrame(frame);
        inFrame = true;
        painted.port2.postMessage(null);
    };
    requestAnimationFrame(frame);
    const last = node => {
        while (node?.lastChild) {
            node = node.lastChild;
        }
        return parseInt((node?.data ?? "").slice(-20).trimEnd().slice(-7), 10);
    };
    let watching = new MutationObserver(() => {});
    window.watch = selector => {
        window.seen = [];
        const notice = () => {
            const n = last([...document.querySelectorAll(selector)].at(-1));
            if (!Number.isNaN(n) && n !== window.seen.at(-1)?.[0]) {
                const entry = [n, 0];
                window.seen.push(entry);
                const show = () => waiting.push(entry);
                inFrame ? show() : requestAnimationFrame(show);
            }
        };
        watching.disconnect();
        watching = new MutationObserver(notice);
        watching.observe(document.querySelector(".jp-Notebook"), {
            subtree: true, childList: true, characterData: true,
        });
    };
}
"""


class Wire:
    """What comes to a page over its WebSockets, in bytes."""

    def __init__(self, notebook: Notebook) -> None:
        self.frames = 0
        self.payload = 0
        cdp = notebook.page.context.new_cdp_session(notebook.page)
        cdp.on("Network.webSocketFrameReceived", self._came)
        cdp.send("Network.enable")

    def _came(self, event: dict[str, Any]) -> None:
        data: str = event["response"]["payloadData"]
        frame = base64.b64decode(data) if event["response"]["opcode"] == 2 else data.encode()
        if b"comm_msg" in frame:
            self.frames += len(frame)
            self.payload += _data(frame)


def _data(frame: bytes) -> int:
    """The bytes of a comm message's data: what a widget sends, without Jupyter's envelope."""
    key = b'"data": '
    begin = frame.find(key)
    if begin < 0:
        return 0
    begin += len(key)
    _, end = json.JSONDecoder().raw_decode(frame.decode("latin-1"), begin)  # a character, a byte
    return end - begin


class Bench:
    """One notebook with all cells, and the figures found so far: who → what → number."""

    def __init__(self, notebook: Notebook) -> None:
        self._file = (notebook.lab.root / notebook.path).with_name("numbers.json")
        self.rows: dict[str, dict[str, float]] = {"ours": {}, "naive": {}}
        self._notebook = notebook
        self._meter = Meter(notebook.page)
        self._wire = Wire(notebook)
        notebook.page.evaluate(WATCH)

    def stream(self, who: str, start: int, stamps: int, selector: str) -> None:
        """Numbered deltas: how many bytes they cost, how late they are, what the last ones cost."""
        self._notebook.page.evaluate("selector => window.watch(selector)", selector)
        self._wire.frames = self._wire.payload = 0
        for cell in sorted({start, stamps}):
            self._notebook.run(cell)
        samples = self._samples()
        made = self._numbers(stamps)
        seen = self._notebook.page.evaluate("window.seen.filter(([, at]) => at > 0)")
        late = lateness(made, seen)
        text = DELTAS[who] * PIECE
        self.rows[who] |= {
            "bytes of data for a byte of text": self._wire.payload / text,
            "the same with Jupyter's envelopes": self._wire.frames / text,
            "delta to paint, p50, ms": statistics.median(late),
            "delta to paint, p95, ms": quantile(late, 0.95),
            "work, last tenth against first": cost(samples, 0.9, 1) / cost(samples, 0, 0.1),
        }

    def _samples(self) -> list[Sample]:
        """Of the seconds in which the deltas come, without the first and the last half."""
        samples: list[Sample] = []
        while not self._file.exists():
            self._meter.frames(2)
            samples.append((time.monotonic(), self._meter.busy_s()))
        begin, end = samples[0][0] + 0.5, samples[-1][0] - 0.5
        return [sample for sample in samples if begin <= sample[0] <= end]

    def clicks(self, who: str, button: Callable[[int], Locator], answered: int) -> None:
        """A real mouse: how long until the kernel's code has the answer."""
        self._notebook.page.evaluate("() => { window.clicks.length = 0 }")
        for number in range(CLICKS):
            button(number).click()
        self._notebook.run(answered)
        came = self._numbers(answered)
        clicked = self._notebook.page.evaluate("window.clicks")[:CLICKS]
        took = [there - here for here, there in zip(clicked, came, strict=True)]
        self.rows[who] |= {
            "click to answer, p50, ms": statistics.median(took),
            "click to answer, p95, ms": quantile(took, 0.95),
        }

    def memory(self, who: str, start: int, over: Locator) -> None:
        """What of 10 MB of text stays in the page's heap."""
        before = self._meter.heap_bytes()
        self._notebook.run(start)
        expect(over).to_be_attached(timeout=WAIT_MS)
        self._meter.frames(30)
        grown = (self._meter.heap_bytes() - before) / BIG
        self.rows[who]["heap bytes for a byte of 10 MB"] = grown

    def _numbers(self, cell: int) -> list[float]:
        """What a cell has written. The page of a naive widget comes to it long after the kernel."""
        expect(self._notebook.prompt(cell)).to_have_text(re.compile(r"\d"), timeout=WAIT_MS)
        found: list[float] = json.loads(self._file.read_text())
        self._file.unlink()
        return found


def lateness(made: list[float], seen: list[list[float]]) -> list[float]:
    """For each delta how long after it was made the page first showed it or a later one, in ms."""
    found, at = [], 0
    for number, when in enumerate(made):
        while at < len(seen) and seen[at][0] < number:
            at += 1
        if at < len(seen):
            found.append(seen[at][1] - when)
    return found


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(notebook: Notebook) -> dict[str, dict[str, float]]:
    bench = Bench(notebook)
    for cell in (0, 3):
        notebook.run(cell)
        notebook.ended(cell)
    bench.stream("ours", 1, 2, ".al-prose")
    bench.stream("naive", 4, 4, ".naive")
    notebook.run(5)
    asked = notebook.view(5).root
    bench.clicks("ours", lambda n: asked.locator(f"[data-item='c{n}.0'] [data-action=approve]"), 6)
    bench.clicks("naive", lambda _: notebook.output(3).locator(".naive-answer"), 7)
    bench.memory("ours", 8, notebook.view(8).part("end"))
    done = notebook.output(9).locator(".jp-RenderedText", has_text="set")
    bench.memory("naive", 9, done)
    return bench.rows


def table(rows: dict[str, dict[str, float]]) -> str:
    lines = ["| | agentloop_nb | growing trait |", "|---|---|---|"]
    for name in rows["ours"]:
        ours, naive = (f"{rows[who][name]:.3g}" for who in ("ours", "naive"))
        lines.append(f"| {name} | {ours} | {naive} |")
    return "\n".join(lines)


def main() -> None:
    found = find_chromium()
    if found is None:
        raise SystemExit(NO_CHROMIUM)
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(Path(folder)) as lab,
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(executable_path=str(found), args=list(CHROMIUM_FLAGS))
        context = chromium.new_context(viewport={"width": 1280, "height": 900})
        lab.write("bench/nb.ipynb", CELLS)
        print(table(measure(Notebook(lab, context.new_page(), "bench/nb.ipynb"))))
        chromium.close()


if __name__ == "__main__":
    main()
