"""A kernel killed in mid-run, a new one in the same folder, and `agent.resume()` in between.

The tool appends a line to a file and then waits for good: what the file holds after the resume is
how often it really began.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentloop_nb.messages import Message
from agentloop_nb.snapshot import SessionFiles, session_ids
from tests.kernels import Kernel, live_kernel
from tests.pages import Page, View

SETUP = """
import os, threading
from agentloop_nb import *
from agentloop_nb.models.offline import new_results

@tool{options}
def charge(account: str, cents: int) -> str:
    "Take money: must never happen twice."
    with open("ran.txt", "a") as file:
        print(account, cents, file=file, flush=True)
    if os.path.exists("hang"): threading.Event().wait()
    return "charged"

def reply(request):
    if told := new_results(request):
        return told[0].content
    if any(message.results for message in request.messages):
        return "Nothing more."
    return Reply(thinking="Charge it.", text="Charging.", calls=[
        Call("charge", account="A-7", cents=1250)])

agent = Agent(OfflineModel(reply), tools=[charge])
"""
NEVER, REQUIRED = "", "(approval='required')"
BEGIN = {
    "start": "run = agent.start('Charge account A-7.')",
    "await": "await agent.run('Charge account A-7.')",
    "run_sync": "agent.run_sync('Charge account A-7.')",
}
RESULT = "result = await run; print(result.exit_reason, len(result.messages))"


def set_up(kernel: Kernel, options: str) -> Page:
    kernel.run(SETUP.format(options=options))
    return Page(kernel)


def lines(folder: Path) -> list[str]:
    """What the tool wrote."""
    file = folder / "ran.txt"
    return file.read_text().splitlines() if file.exists() else []


def stored(folder: Path) -> tuple[Message, ...]:
    """The history on disk of the one session there."""
    (saved,) = folder.glob("*.agentloop")
    (session,) = session_ids(saved)
    return SessionFiles(saved, session).load().state.messages


@dataclass(frozen=True)
class Resumed:
    """What is left of a run that was killed while its tool ran, after it has been resumed."""

    messages: tuple[Message, ...]
    ran: list[str]
    state: dict[str, Any]
    """What the page shows, as `viewstate` folds it."""


def history_after_kill(folder: Path, way: str = "run_sync") -> Resumed:
    """Kill a kernel while a tool runs, resume in a new one, and return what came of it."""
    (folder / "hang").touch()
    with live_kernel(folder) as first:
        page = set_up(first, NEVER)
        first.cell(BEGIN[way])
        view = page.next()
        first.until_true(lambda: bool(view.of("tool_running")) and lines(folder) != [])
        first.die()
    (folder / "hang").unlink()
    with live_kernel(folder) as second:
        page = set_up(second, NEVER)
        second.run("run = agent.resume()")
        view = page.next()
        view.until_ended()
        second.run(RESULT)
        state = view.state
    return Resumed(stored(folder), lines(folder), state)


def test_a_tool_that_ran_when_the_kernel_died_is_not_run_again(tmp_path: Path) -> None:
    resumed = history_after_kill(tmp_path)
    assert resumed.ran == ["A-7 1250"]
    (turn,) = resumed.state["turns"]
    assert (turn["resumed"], turn["exit_reason"]) == (True, "end_turn")
    (call,) = [i for r in turn["rounds"] for i in r["items"] if i["kind"] == "call"]
    assert call["state"] == "unknown_outcome"
    assert call["input"] == {"account": "A-7", "cents": 1250}
    texts = [i["text"] for r in turn["rounds"] for i in r["items"] if i["kind"] == "text"]
    assert texts[0] == "Charging."
    assert [message.role for message in resumed.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    told = resumed.messages[-1].text  # the model says what it was told
    assert "The outcome of this call of 'charge' is unknown" in told
    assert '"account":"A-7"' in told.replace(" ", "")
    assert '"cents":1250' in told.replace(" ", "")
    assert texts[-1] == told


@pytest.fixture(scope="module")
def asked_again(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A kernel that resumed a run whose dialog was open when the kernel before it was killed."""
    folder = tmp_path_factory.mktemp("dialog")
    with live_kernel(folder) as first:
        page = set_up(first, REQUIRED)
        first.cell(BEGIN["run_sync"])
        page.next().until_asked()
        first.die()
    with live_kernel(folder) as second:
        page = set_up(second, REQUIRED)
        second.run("run = agent.resume()")
        yield second, page.next(), folder


def test_an_open_dialog_is_asked_again_and_its_tool_runs_once(
    asked_again: tuple[Kernel, View, Path],
) -> None:
    kernel, view, folder = asked_again
    view.until_asked()
    kernel.until_true(lambda: len(view.of("question")) == 2)  # the journal's, and the new one
    assert lines(folder) == []
    assert view.approve()["ok"]
    assert view.until_ended() == "end_turn"
    assert kernel.run(RESULT) == "end_turn 4\n"
    assert lines(folder) == ["A-7 1250"]
    assert view.text() == "Charging.|charged"


def test_a_finished_session_is_not_resumed_but_gone_on_with(
    asked_again: tuple[Kernel, View, Path],
) -> None:
    kernel, _, _ = asked_again
    error = kernel.cell("agent.resume()").reply()
    assert error["ename"] == "UsageError"
    assert "an unfinished run. Go on with the last one by agent.session('" in error["evalue"]
    assert kernel.run(
        "session = agent.session(agent.sessions()[-1])\nprint((await session.run('And now?')).text)"
    ).endswith("Nothing more.\n")
