"""The page of a notebook, played over a real kernel's comms: one view per widget that opens.

A view speaks the bridge's protocol as the front end does (hello, acknowledgements, commands) and
folds what it is sent with the package's own `viewstate`. Gaps are asked for again. `SETUP` and
`WAYS` are cells whose agent asks before its one tool writes a line to a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentloop_nb.notebook.bridge import PROTOCOL
from agentloop_nb.notebook.packing import unpack, whole
from agentloop_nb.viewstate import fold, initial
from tests.kernel_envs import python_of
from tests.kernels import WAIT_S, Cell, Kernel, Message, live_kernel

SETUP = """
import asyncio, builtins, threading
from agentloop_nb import *
from agentloop_nb.background import background_loop

@tool(approval="required")
def touch(word: str) -> str:
    "Write a word to a file."
    with open("ran.txt", "a") as file:
        print(word, file=file, flush=True)
    return "wrote " + word

def agent(*rounds, tools=(touch,), **options):
    rounds = rounds or (
        Reply("First I ask.", calls=[Call("touch", word="plum")]),
        Reply("All is written down."),
    )
    return Agent(OfflineModel(list(rounds)), tools=tools, **options)
"""

WAYS = {
    "start": "run = agent().start('Write plum.')",
    "await": "result = await agent().run('Write plum.')",
    "run_sync": "result = agent().run_sync('Write plum.')",
}

NOBODY = "from agentloop_nb.governance import desk\ndesk.HELLO_WAIT_S = {}\n"
"""A question waits this many seconds for a page."""


class View:
    """One widget's view. `events` are the page events as they came, `state` their fold."""

    def __init__(self, kernel: Kernel, comm_id: str, client: str) -> None:
        self.comm_id = comm_id
        self.events: list[Message] = []
        self.replies: dict[str, Message] = {}
        self.state = initial()
        self.welcomes = 0
        self._kernel = kernel
        self._client = client
        self._epoch: str | None = None
        self._have = -1
        self._commands = 0

    # -- what it shows

    @property
    def turn(self) -> dict[str, Any]:
        """The turn shown last."""
        turn: dict[str, Any] = self.state["turns"][-1]
        return turn

    @property
    def question(self) -> dict[str, Any] | None:
        return self.turn["question"] if self.state["turns"] else None

    @property
    def exit_reason(self) -> str | None:
        return self.turn["exit_reason"] if self.state["turns"] else None

    def items(self, kind: str) -> list[dict[str, Any]]:
        """What the last turn shows of one kind: `text`, `call`, `say`, ..."""
        if not self.state["turns"]:
            return []
        return [i for r in self.turn["rounds"] for i in r["items"] if i["kind"] == kind]

    def text(self) -> str:
        return "|".join(item["text"] for item in self.items("text"))

    def of(self, kind: str) -> list[Message]:
        """Its events of one type."""
        return [event for event in self.events if event["type"] == kind]

    # -- waiting

    def until_asked(self, timeout_s: float = WAIT_S) -> None:
        self._kernel.until_true(lambda: self.question is not None, timeout_s)

    def until_running(self, timeout_s: float = WAIT_S) -> None:
        """Until a tool is at work."""
        self._kernel.until_true(lambda: bool(self.of("tool_running")), timeout_s)

    def until_ended(self, timeout_s: float = WAIT_S, *, turns: int = 1) -> str:
        """Until the last of so many turns has ended; returns its exit reason."""
        self._kernel.until_true(lambda: len(self.of("done")) >= turns, timeout_s)
        return str(self.exit_reason)

    # -- what a person does there

    def approve(self, *, approved: bool = True) -> Message:
        """Decide all calls of the open question; returns the kernel's reply to that."""
        question = self.question
        assert question is not None, "No question is open."
        return self._command(
            {
                "type": "answer",
                "run_id": self.turn["run_id"],
                "question": question["id"],
                "decisions": [
                    {"call_id": item["call_id"], "approved": approved, "reason": ""}
                    for item in question["items"]
                ],
            }
        )

    def stop(self) -> Message:
        return self._command({"type": "stop"})

    def say(self, text: str) -> Message:
        return self._command({"type": "say", "text": text})

    # -- the protocol

    def hello(self) -> None:
        self._send({"type": "hello", "v": PROTOCOL, "epoch": self._epoch, "have": self._have})

    def take(self, message: Message) -> None:
        match message:
            case {"type": "welcome", "to": self._client}:
                self.welcomes += 1
                self._epoch = message["epoch"]
            case {"type": "batch", "client": self._client}:
                self._take_batch(message)
            case {"type": "reply", "to": self._client}:
                self.replies[message["id"]] = message

    def _take_batch(self, batch: Message) -> None:
        if batch["epoch"] != self._epoch or batch["from"] != self._have + 1:
            self.hello()
            return
        for event in whole(batch["events"], self.events[-1] if self.events else None):
            self.events.append(event)
            fold(self.state, event)
        self._have = batch["to"]
        self._send({"type": "ack", "seq": self._have})

    def _command(self, content: Message) -> Message:
        return self.reply(self.command(content))

    def command(self, content: Message) -> str:
        """Send a command and do not wait; returns its id."""
        self._commands += 1
        number = f"c{self._commands}"
        self._send({**content, "id": number})
        return number

    def reply(self, number: str) -> Message:
        """What the kernel says to a command."""
        self._kernel.until_true(lambda: number in self.replies)
        return self.replies[number]

    def _send(self, content: Message) -> None:
        whole = {**content, "client": self._client}
        self._kernel.comm_msg(self.comm_id, {"method": "custom", "content": whole})


class Page:
    """All views of a notebook. With `hello` off none of them ever speaks first: no page is there,
    as in papermill."""

    def __init__(self, kernel: Kernel, *, hello: bool = True) -> None:
        self.views: dict[str, View] = {}
        self.shown: list[tuple[str, str]] = []
        """(id of the cell, id of the widget's comm) for each view that was displayed."""
        self._kernel = kernel
        self.hello = hello
        self._given = 0
        kernel.listeners.append(self._take)

    def next(self) -> View:
        """The view that opens next, or has opened since the last call."""
        self._kernel.until_true(lambda: len(self.views) > self._given)
        self._given += 1
        return list(self.views.values())[self._given - 1]

    def forget(self) -> None:
        """The views so far are not given again by `next`."""
        self._given = len(self.views)

    def _take(self, message: Message) -> None:
        content = message["content"]
        match message["msg_type"]:
            case "comm_open" if _is_ours(content):
                comm_id = content["comm_id"]
                view = self.views[comm_id] = View(self._kernel, comm_id, f"page-{comm_id[:4]}")
                if self.hello:
                    view.hello()
            case "comm_msg" if content["comm_id"] in self.views:
                data = content["data"]
                if data.get("method") == "custom":
                    self.views[content["comm_id"]].take(unpack(data["content"]))
            case "display_data" | "execute_result":
                widget = content["data"].get("application/vnd.jupyter.widget-view+json")
                if widget is not None:
                    self.shown.append((message["parent_header"]["msg_id"], widget["model_id"]))


def _is_ours(opened: Message) -> bool:
    state = opened["data"].get("state", {})
    return opened["target_name"] == "jupyter.widget" and state.get("_model_name") == "AnyModel"


class Notebook:
    """A kernel, its page, and the folder in which its tools write."""

    def __init__(self, kernel: Kernel, folder: Path) -> None:
        self.kernel = kernel
        self.page = Page(kernel)
        self._ran = folder / "ran.txt"

    def begin(self, code: str) -> tuple[Cell, View]:
        """Send a cell that runs an agent; returns it with the view it shows."""
        cell = self.kernel.cell(code)
        return cell, self.page.next()

    def ran(self) -> list[str]:
        """What the tool wrote, once: it is taken away."""
        if not self._ran.exists():
            return []
        lines = self._ran.read_text().splitlines()
        self._ran.unlink()
        return lines


@contextmanager
def agents_kernel(folder: Path, version: str) -> Iterator[Notebook]:
    """A live kernel of this ipykernel version, in which `SETUP` has run."""
    with live_kernel(folder, python_of(version)) as kernel:
        kernel.run(SETUP)
        yield Notebook(kernel, folder)
