"""`agentloop-nb demo --check`: runs a notebook in a real kernel and plays the page itself.

The player does what a page does: it hears the widget open its comm, says hello, takes batches in
order, acknowledges them, and approves what a question asks. `Story` is what it saw, told in lines
and kept for the verdict; `Page` speaks the wire; `run_check` drives the kernel.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

from agentloop_nb.notebook.packing import unpack, whole

Message = dict[str, Any]
Print = Callable[[str], None]

# The wire, in one place; `notebook/bridge.py` is the other end.
PROTOCOL = 1
CLIENT = "demo-check"
WIDGET_TRAITS = frozenset({"protocol", "session_id", "run_id"})
"""Traits by which a comm is known as ours among all the widgets of a notebook."""

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CELL_TIMEOUT_S = 120.0
END_TIMEOUT_S = 60.0
"""How long the runs get to end after the last cell. The shipped notebook needs about five."""


class Story:
    """What the events of the runs said. `tell` prints one line as soon as it is known."""

    def __init__(self, folder: Path, tell: Print) -> None:
        self.exit_reasons: list[str] = []
        self.outcomes: dict[str, str] = {}
        self.approved: list[str] = []
        self.targets: list[Path] = []
        """Files that were there when a question about them was asked."""
        self._folder = folder
        self._tell = tell
        self._growing: tuple[str, str] = ("", "")

    def take(self, event: Message) -> None:
        """Tell one event."""
        kind = str(event["type"])
        if kind in ("text_delta", "thinking"):
            self._grow("says" if kind == "text_delta" else "thinks", str(event["text"]))
            return
        self._close_text()
        if (line := self._line(kind, event)) is not None:
            self._tell(line)

    def _grow(self, verb: str, text: str) -> None:
        if self._growing[0] != verb:
            self._close_text()
        self._growing = (verb, self._growing[1] + text)

    def _close_text(self) -> None:
        verb, text = self._growing
        if text.strip():
            self._tell(f"  {verb}: {' '.join(text.split())}")
        self._growing = ("", "")

    def _line(self, kind: str, event: Message) -> str | None:
        match kind:
            case "run_start":
                return f"run {event['run_id']}: {event['prompt']}"
            case "round_start":
                return f" round {event['round']}"
            case "tool_use_start":
                return f"  calls {event['name']} with {_short(event['arguments'])}"
            case "question":
                return self._question(event["question"])
            case "answer":
                return self._answer(event)
            case "tool_running":
                return f"  {event['name']} runs"
            case "tool_result":
                self.outcomes[str(event["id"])] = str(event["outcome"])
                return f"  {event['name']}: {event['outcome']}, {_short(event['content'])}"
            case "warning" | "error":
                return f"  {kind}: {event['message']}"
            case "snapshot":
                return f"  saved in {event['file']}"
            case "done":
                self.exit_reasons.append(str(event["exit_reason"]))
                return f"ended: {event['exit_reason']} after {event['rounds']} rounds"
            case _:
                return None

    def _question(self, question: Message) -> str:
        asked = []
        for item in question["items"]:
            self.targets += self._files([str(value) for _, value in item["shown"]])
            arguments = ", ".join(f"{name} = {value}" for name, value in item["shown"])
            asked.append(f"{item['name']}({arguments})")
        return f"  asks: may this run? {'; '.join(asked)}"

    def _files(self, values: list[str]) -> list[Path]:
        """The files in or under the work folder that these argument values name, right now."""
        found = []
        for value in values:
            with suppress(ValueError):  # shown as JSON or as it is: either will do
                value = str(json.loads(value))
            with suppress(OSError, ValueError):  # not every argument can be a path
                found += [self._folder / value] if (self._folder / value).is_file() else []
            name = Path(value).name
            found += [p for p in self._folder.rglob("*") if name and p.name == name and p.is_file()]
        return found

    def _answer(self, event: Message) -> str:
        yes = [str(d["call_id"]) for d in event["decisions"] if d["approved"]]
        self.approved += yes
        said = f"approved {', '.join(yes)}" if yes else "not approved"
        return f"  answer: {said}, by {event['by']}"

    def faults(self) -> list[str]:
        """Why this was not a run whose tool really ran; empty if it was."""
        faults = []
        if not self.exit_reasons:
            faults.append("No run ended.")
        if bad := [reason for reason in self.exit_reasons if reason != "end_turn"]:
            faults.append(f"A run ended with {', '.join(bad)} instead of end_turn.")
        if not any(self.outcomes.get(call) == "ok" for call in self.approved):
            faults.append("No approved call ended well.")
        if not self.targets:
            faults.append("No question was about a file that exists, so no effect could be seen.")
        if left := sorted({str(path) for path in self.targets if path.exists()}):
            faults.append(f"Still there after the tool ran: {', '.join(left)}.")
        return faults


class Page:
    """One view of one run's widget: takes what the kernel sends, returns what the page sends.

    Events that do not follow on what it has are dropped and asked for again with a new hello.
    """

    def __init__(self, story: Story, client: str) -> None:
        self.have = -1
        """The position of the last event it has; positions count through all runs it shows."""
        self.ended = False
        self._run_id = ""
        self._story = story
        self._client = client
        self._epoch: str | None = None
        self._last: Message | None = None
        self._commands = 0

    def hello(self) -> Message:
        return {
            "type": "hello",
            "v": PROTOCOL,
            "client": self._client,
            "epoch": self._epoch,
            "have": self.have,
        }

    def take(self, message: Message) -> Iterator[Message]:
        """The messages this one calls for. ValueError if the kernel refuses a command."""
        match message:
            case {"type": "welcome", "to": self._client}:
                self._epoch = message["epoch"]
            case {"type": "batch", "client": self._client}:
                yield from self._batch(message)
            case {"type": "reply", "to": self._client, "ok": False}:
                raise ValueError(f"The kernel refused a command: {message['why']}")
            case _:
                return

    def _batch(self, batch: Message) -> Iterator[Message]:
        if batch["epoch"] != self._epoch or batch["from"] != self.have + 1:
            yield self.hello()
            return
        for event in whole(batch["events"], self._last):
            self._last = event
            self._story.take(event)
            match event["type"]:
                case "run_start":
                    self._run_id, self.ended = event["run_id"], False
                case "done":
                    self.ended = True
                case "question":
                    yield self._approve(event["question"])
        self.have = int(batch["to"])
        yield {"type": "ack", "client": self._client, "seq": self.have}

    def _approve(self, question: Message) -> Message:
        self._commands += 1
        calls = [item["call_id"] for item in question["items"]]
        return {
            "type": "answer",
            "id": f"{self._client}-{self._commands}",
            "client": self._client,
            "run_id": self._run_id,
            "question": question["id"],
            "decisions": [{"call_id": c, "approved": True, "reason": ""} for c in calls],
        }


class Player:
    """A kernel client: executes cells and plays a `Page` for each widget of ours that opens."""

    def __init__(self, client: Any, story: Story, tell: Print) -> None:
        self._client = client
        self._story = story
        self._tell = tell
        self._pages: dict[str, Page] = {}
        self._idle: dict[str, asyncio.Event] = {}
        self._errors: list[str] = []
        self._heard = asyncio.Event()

    async def execute(self, source: str) -> None:
        """Run one cell to its end. RuntimeError with the traceback if it raises."""
        message_id = self._client.execute(source, allow_stdin=False, stop_on_error=True)
        idle = self._idle.setdefault(message_id, asyncio.Event())
        await asyncio.wait_for(idle.wait(), CELL_TIMEOUT_S)
        if self._errors:
            raise RuntimeError("A cell failed:\n" + "\n".join(self._errors))

    async def until_ended(self) -> None:
        """Wait until every run that was shown has ended; TimeoutError after `END_TIMEOUT_S`."""
        async with asyncio.timeout(END_TIMEOUT_S):
            while not all(page.ended for page in self._pages.values()):
                self._heard.clear()
                await self._heard.wait()

    async def listen(self) -> None:
        """Take what the kernel publishes, for as long as this task lives."""
        while True:
            with suppress(Empty):
                self._take(await self._client.get_iopub_msg(timeout=1))
                self._heard.set()

    def _take(self, message: Message) -> None:
        content = message["content"]
        match message["msg_type"]:
            case "comm_open" if WIDGET_TRAITS.issubset(content["data"].get("state", {})):
                page = Page(self._story, f"{CLIENT}-{len(self._pages)}")
                self._pages[content["comm_id"]] = page
                self._send(content["comm_id"], page.hello())
            case "comm_msg" if content["comm_id"] in self._pages:
                self._custom(content["comm_id"], content["data"])
            case "stream":
                self._tell(f"  cell prints: {content['text'].rstrip()}")
            case "error":
                self._errors += [COLOURS.sub("", line) for line in content["traceback"]]
            case "status" if content["execution_state"] == "idle":
                parent = message["parent_header"].get("msg_id", "")
                self._idle.setdefault(parent, asyncio.Event()).set()

    def _custom(self, comm_id: str, data: Message) -> None:
        if data.get("method") == "custom":
            for answer in self._pages[comm_id].take(unpack(data["content"])):
                self._send(comm_id, answer)

    def _send(self, comm_id: str, content: Message) -> None:
        data = {"method": "custom", "content": content}
        session = self._client.session
        message = session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        self._client.shell_channel.send(message)


def run_check(notebook: Path, tell: Print = print) -> int:
    """Run `notebook` in its own folder and tell what happened; 0 if the tool really ran, else 1."""
    story = Story(notebook.parent, tell)
    tell(f"Running {notebook} in a kernel of {sys.executable}")
    faults = []
    try:
        asyncio.run(_run(notebook, story, tell))
    except (RuntimeError, ValueError, TimeoutError) as error:
        faults.append(str(error) or "The notebook did not end in time.")
    faults += story.faults()
    for fault in faults:
        tell(f"FAILED: {fault}")
    if not faults:
        gone = ", ".join(sorted({str(path) for path in story.targets}))
        tell(f"The tool really ran: {gone} is gone. The demo works.")
    return 1 if faults else 0


async def _run(notebook: Path, story: Story, tell: Print) -> None:
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    # A notebook on disk may hold a cell's source as one string or as lines.
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    # No folders: what is left is the kernel of this very environment.
    specs = KernelSpecManager(kernel_dirs=[])
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs)
    # Errors only: what the kernel itself warns of is not part of the story.
    await manager.start_kernel(cwd=str(notebook.parent), extra_arguments=["--log-level=40"])
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        player = Player(client, story, tell)
        await _play(player, sources)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def _play(player: Player, sources: list[str]) -> None:
    listener = asyncio.create_task(player.listen())
    work = asyncio.create_task(_cells(player, sources))
    try:
        # A listener that dies would leave the work waiting for its whole time.
        await asyncio.wait([listener, work], return_when=asyncio.FIRST_COMPLETED)
        await (work if work.done() else listener)
    finally:
        listener.cancel()
        work.cancel()


async def _cells(player: Player, sources: list[str]) -> None:
    for source in sources:
        await player.execute(source)
    await player.until_ended()


def _short(value: object, limit: int = 160) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
