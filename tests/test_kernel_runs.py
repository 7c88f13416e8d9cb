"""Runs in a real kernel, in each of the three ways, with a page that is played over comms.

The tool writes a flushed line to a file, so what the tests count is what really happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernel_envs import chosen
from tests.kernels import Cell, Message, of
from tests.pages import NOBODY, WAYS, Notebook, agents_kernel

INTERRUPT_S = 5.0
"""Ten times what an interrupt may take."""

EACH_WAY = pytest.mark.parametrize("way", WAYS)
WAITING = pytest.mark.parametrize("way", ["await", "run_sync"])


@pytest.fixture(scope="module", params=chosen())
def opened(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Notebook]:
    with agents_kernel(tmp_path_factory.mktemp("runs"), request.param) as notebook:
        yield notebook


@pytest.fixture
def notebook(opened: Notebook) -> Notebook:
    """The module's kernel, with nothing left in it of the test before."""
    opened.kernel.run(
        "for _run in runs():\n    if not _run.done: _run.stop()\nfor _run in runs(): await _run"
    )
    opened.page.forget()
    opened.ran()
    return opened


def error_of(notebook: Notebook, cell: Cell) -> Message:
    """The error that a cell shows."""
    found = notebook.kernel.until(lambda m: m["msg_type"] == "error" and of(cell.msg_id)(m))
    content: Message = found["content"]
    return content


# -- approve, Stop, interrupt


@EACH_WAY
def test_an_approval_is_heard_and_the_tool_runs_once(notebook: Notebook, way: str) -> None:
    cell, view = notebook.begin(WAYS[way])
    below = notebook.kernel.cell("print('below', runs()[-1].done)")
    view.until_asked()
    if way == "start":
        assert below.ok() == "below False\n"
    assert view.approve()["ok"]
    assert view.until_ended() == "end_turn"
    cell.ok()
    if way != "start":
        assert below.ok() == "below True\n"
    assert notebook.ran() == ["plum"]
    assert [(e["by"], e["decisions"][0]["approved"]) for e in view.of("answer")] == [
        ("person", True)
    ]
    assert view.text() == "First I ask.|All is written down."
    assert notebook.kernel.run("print((await runs()[-1]).text)") == "All is written down.\n"


@EACH_WAY
def test_stop_in_the_page_ends_a_run_with_a_dialog_open(notebook: Notebook, way: str) -> None:
    cell, view = notebook.begin(WAYS[way])
    below = notebook.kernel.cell("print('below')")
    view.until_asked()
    assert view.stop()["ok"]
    assert view.until_ended() == "user_cancel"
    cell.ok()
    assert below.ok() == "below\n"
    assert notebook.ran() == []
    assert view.question is None
    assert [(e["by"], e["closed"]) for e in view.of("answer")] == [("stop", True)]
    assert notebook.kernel.run("r = await runs()[-1]; print(r.exit_reason, r.text)") == (
        "user_cancel First I ask.\n"
    )


@WAITING
def test_an_interrupt_ends_the_cells_own_run_and_no_other(notebook: Notebook, way: str) -> None:
    _, background = notebook.begin("other = agent().start('In the background.')")
    background.until_asked()
    cell, view = notebook.begin(WAYS[way])
    below = notebook.kernel.cell("print('below')")
    view.until_asked()
    notebook.kernel.interrupt()
    assert cell.reply(INTERRUPT_S)["status"] == "error"
    assert below.reply()["status"] == "aborted"
    assert view.until_ended() == "user_cancel"
    run_id = view.turn["run_id"]
    error = error_of(notebook, cell)
    assert error["ename"] == "RunInterrupted"
    assert error["traceback"] == [error["evalue"]]
    assert run_id in error["evalue"]
    assert "\n" not in error["evalue"]
    assert notebook.kernel.run("r = runs()[-1].result; print(r.exit_reason, r.text)") == (
        "user_cancel First I ask.\n"
    )
    assert notebook.ran() == []
    assert background.approve()["ok"]
    assert notebook.kernel.run("print((await other).exit_reason)") == "end_turn\n"
    assert notebook.ran() == ["plum"]


@WAITING
def test_an_interrupt_in_mid_reply_keeps_what_had_come(notebook: Notebook, way: str) -> None:
    reply = "agent(Reply(['Half of ', Pause(3600), 'it.']))"
    cell, view = notebook.begin(WAYS[way].replace("agent()", reply))
    notebook.kernel.until_true(lambda: bool(view.of("text_delta")))
    notebook.kernel.interrupt()
    assert cell.reply(INTERRUPT_S)["ename"] == "RunInterrupted"
    assert view.until_ended() == "user_cancel"
    assert view.text() == "Half of "
    assert notebook.kernel.run("r = runs()[-1].result; print([m.text for m in r.messages])") == (
        "['Write plum.', 'Half of ']\n"
    )


def test_an_interrupt_of_a_cell_that_waits_for_a_background_run_stops_that_run(
    notebook: Notebook,
) -> None:
    _, view = notebook.begin(WAYS["start"])
    view.until_asked()
    waiting = notebook.kernel.cell("print('waits', flush=True)\nawait run")
    notebook.kernel.until(lambda m: m["msg_type"] == "stream" and of(waiting.msg_id)(m))
    view.hello()
    # Heard by the kernel's loop, so the cell has come from its print to its await.
    notebook.kernel.until_true(lambda: view.welcomes > 1)
    notebook.kernel.interrupt()
    assert waiting.reply(INTERRUPT_S)["ename"] == "RunInterrupted"
    assert view.until_ended() == "user_cancel"


WRAPPED = {
    "wait_for": "await asyncio.wait_for(slow().run('a'), 3600)",
    "gather": "await asyncio.gather(slow().run('a'), slow().run('b'))",
    "gather-started": "await asyncio.gather(slow().start('a'), slow().start('b'))",
    "task-group": (
        "async with asyncio.TaskGroup() as group:\n"
        "    group.create_task(slow().run('a'))\n"
        "    group.create_task(slow().run('b'))"
    ),
    "iterated": "async for event in slow().start('a'): pass",
}


@pytest.mark.parametrize("how", WRAPPED)
def test_an_interrupt_of_a_cell_whose_tasks_wait_stops_the_runs_and_not_the_kernel(
    notebook: Notebook, how: str
) -> None:
    slow = "def slow(): return agent(Reply(['Half of ', Pause(3600), 'it.']))\n"
    cell, view = notebook.begin(slow + WRAPPED[how])
    notebook.kernel.until_true(lambda: bool(view.of("text_delta")))
    notebook.kernel.interrupt()
    reply = cell.reply(INTERRUPT_S)
    assert reply["status"] == "error"
    if how in ("gather", "gather-started", "iterated"):
        assert len(error_of(notebook, cell)["traceback"]) == 1
    assert view.until_ended() == "user_cancel"
    reasons = "print({str(r.result.exit_reason) for r in runs()[-2:] if r.result})"
    assert "fatal" not in notebook.kernel.run(reasons)


SLOW_TOOLS = """
@tool
def thread_tool(ctx: ToolContext) -> str:
    "Works on a thread until it is told to stop."
    while not ctx.cancelled: threading.Event().wait(0.005)
    with open("ran.txt", "a") as file: print("stopped", file=file, flush=True)
    return "never"

@tool
async def async_tool() -> str:
    "Works on the loop until it is cancelled."
    try:
        await asyncio.sleep(3600)
    finally:
        with open("ran.txt", "a") as file: print("stopped", file=file, flush=True)
"""


@WAITING
@pytest.mark.parametrize("tool", ["thread_tool", "async_tool"])
def test_an_interrupt_stops_a_tool_at_work(notebook: Notebook, way: str, tool: str) -> None:
    notebook.kernel.run(SLOW_TOOLS)
    call = {"await": "await {}.run('Go.')", "run_sync": "{}.run_sync('Go.')"}[way]
    slow = f"agent(Reply('Working.', calls=[Call('{tool}')]), 'Done.', tools=[{tool}])"
    cell, view = notebook.begin(call.format(slow))
    view.until_running()
    notebook.kernel.interrupt()
    assert cell.reply(INTERRUPT_S)["ename"] == "RunInterrupted"
    assert view.until_ended() == "user_cancel"
    (shown,) = view.items("call")
    assert shown["state"] == "cancelled"
    assert "may have done some" in shown["result"]["content"]
    # A thread notices within its own pace; the file says that it did.
    notebook.kernel.run(
        "import os\nasync with asyncio.timeout(20):\n"
        "    while not os.path.exists('ran.txt'): await asyncio.sleep(0.005)"
    )
    assert notebook.ran() == ["stopped"]
    assert notebook.kernel.run("m = runs()[-1].result.messages; print([x.role for x in m])") == (
        "['user', 'assistant', 'tool']\n"
    )


# -- follow-ups and views


@pytest.mark.parametrize("way", ["start", "run_sync"])
def test_a_follow_up_from_the_text_box_goes_on_in_the_same_view(
    notebook: Notebook, way: str
) -> None:
    cell, view = notebook.begin(WAYS[way].replace("agent()", "agent('One.', 'Two.', 'Three.')"))
    cell.ok()
    view.until_ended()
    assert view.say("And then?")["ok"]
    assert view.until_ended(turns=2) == "end_turn"
    assert [turn["prompt"] for turn in view.state["turns"]] == ["Write plum.", "And then?"]
    assert view.text() == "Two."
    assert notebook.kernel.run("print((await runs()[-1]).text)") == "Two.\n"
    notebook.kernel.run("after = runs()[-1].session.run_sync('And last?')")
    assert notebook.kernel.run("print(after.text, len(after.messages))") == "Three. 6\n"
    assert notebook.page.next().until_ended() == "end_turn"


SLOW_LAST_SAVE = """
from agentloop_nb.snapshot import SessionFiles
from comm import create_comm
kept, saved = SessionFiles.append, threading.Event()
create_comm(target_name="release", comm_id="release").on_msg(lambda message: saved.set())
def append(self, events):
    if events[-1].type == "done": saved.wait(20)
    return kept(self, events)
SessionFiles.append = append
"""


@pytest.mark.parametrize("way", ["start", "run_sync"])
def test_a_follow_up_sent_while_the_end_is_being_saved_waits_for_that(
    notebook: Notebook, way: str
) -> None:
    notebook.kernel.run(SLOW_LAST_SAVE)
    rounds = "agent('One.', Reply(['Two.', Pause(0.3)]), 'Three.')"
    _, view = notebook.begin(WAYS[way].replace("agent()", rounds))
    view.until_ended()
    number = view.command({"type": "say", "text": "And then?"})
    second = view.command({"type": "say", "text": "And more?"})
    view.hello()
    notebook.kernel.until_true(lambda: view.welcomes > 1)  # so the command has been heard too
    assert number not in view.replies
    notebook.kernel.comm_msg("release", {})
    notebook.kernel.run("SessionFiles.append = kept")
    assert view.reply(number)["ok"]
    assert view.reply(second)["ok"]
    assert view.until_ended(turns=2) == "end_turn"
    assert view.turn["prompt"] == "And then?"
    assert [item["text"] for item in view.items("say")] == ["And more?"]


def test_something_said_in_mid_run_reaches_the_model_with_its_next_request(
    notebook: Notebook,
) -> None:
    cell, view = notebook.begin(WAYS["run_sync"])
    view.until_asked()
    assert view.say("Be quick.")["ok"]
    view.approve()
    view.until_ended()
    cell.ok()
    assert [(e["text"], e["round"]) for e in view.of("say")] == [("Be quick.", 1)]
    notebook.ran()


def test_a_run_is_shown_again_elsewhere_and_named_in_its_own_cell(notebook: Notebook) -> None:
    cell, view = notebook.begin("run = agent('Done.').start('Go.')\nrun")
    assert cell.ok().startswith("<Run ")
    view.until_ended()
    again = notebook.kernel.cell("run")
    assert again.ok() == ""
    shown = [parent for parent, comm in notebook.page.shown if comm == view.comm_id]
    assert shown == [cell.msg_id, again.msg_id]
    assert notebook.kernel.cell("agent('Done.').run_sync('Go.')\nNone").ok() == ""


# -- tools


def run_tool(notebook: Notebook, code: str, name: str) -> dict[str, Any]:
    """Define a tool in a cell and have an agent call it; returns the call as the page shows it."""
    notebook.kernel.run(code)
    call = f"agent(Reply(calls=[Call('{name}')]), 'Done.', tools=[{name}]).run_sync('Go.')"
    cell, view = notebook.begin(f"result = {call}")
    view.until_ended()
    cell.ok()
    (shown,) = view.items("call")
    return shown


def test_a_tool_that_raises_shows_the_users_own_line(notebook: Notebook) -> None:
    code = (
        "@tool\ndef broken() -> str:\n    'Breaks.'\n"
        "    numbers = {}\n    return numbers['the key that is not there']\n"
    )
    shown = run_tool(notebook, code, "broken")
    assert shown["state"] == "error"
    result = shown["result"]
    first, source, error = result["display"].splitlines()[:3]
    assert "line 5, in broken" in first
    assert source.strip() == "return numbers['the key that is not there']"
    assert error == "KeyError: 'the key that is not there'"
    assert "agentloop_nb" not in result["display"]
    assert result["content"] == "KeyError: 'the key that is not there'"


def test_an_edited_tool_is_used_by_the_agent_that_had_the_old_one(notebook: Notebook) -> None:
    cell = "@tool\ndef version() -> str:\n    'Says which.'\n    return '{}'\n"
    notebook.kernel.run(cell.format("old"))
    notebook.kernel.run(
        "from agentloop_nb.models.offline import new_results\n"
        "call = Reply(calls=[Call('version')])\n"
        "ask = lambda request: 'Done.' if new_results(request) else call\n"
        "kept = Agent(OfflineModel(ask), tools=[version])"
    )
    told = "print([r.content for m in kept.run_sync('Go.').messages for r in m.results])"
    assert notebook.kernel.run(told) == "['old']\n"
    notebook.kernel.run(cell.format("new"))
    assert notebook.kernel.run(told) == "['new']\n"


@pytest.mark.parametrize("ask", ["input", "getpass.getpass"])
def test_a_background_tool_is_refused_input_also_while_a_later_cell_runs(
    notebook: Notebook, ask: str
) -> None:
    notebook.kernel.run(
        "import getpass\n"
        "reached, go = threading.Event(), threading.Event()\n"
        "@tool\ndef asks() -> str:\n    'Asks.'\n    reached.set(); go.wait(20)\n"
        f"    return {ask}('Well? ')\n"
        "run = agent(Reply(calls=[Call('asks')]), 'Done.', tools=[asks]).start('Go.')"
    )
    view = notebook.page.next()
    view.until_running()
    notebook.kernel.run("reached.wait(20); go.set(); await run")
    view.until_ended()
    (shown,) = view.items("call")
    assert shown["state"] == "error"
    assert "A tool cannot read input()" in shown["result"]["content"]
    # The cell's own input is still the kernel's: this client has no one who types.
    cell = notebook.kernel.cell(f"{ask}('Well? ')", allow_stdin=False)
    assert cell.reply()["ename"] == "StdinNotImplementedError"


# -- no page


@WAITING
def test_without_a_page_a_question_is_not_run_and_the_cell_ends(
    notebook: Notebook, way: str
) -> None:
    notebook.kernel.run(NOBODY.format(0.2))
    notebook.page.hello = False
    try:
        printed = notebook.kernel.run(f"{WAYS[way]}\nprint(result.exit_reason, result.text)")
    finally:
        notebook.page.hello = True
        notebook.kernel.run(NOBODY.format(5.0))
    assert printed == "end_turn All is written down.\n"
    answers = "print([(e.by, e.closed) for e in runs()[-1].events if e.type == 'answer'])"
    assert notebook.kernel.run(answers) == "[('nobody', True)]\n"
    told = "print([r.content for m in result.messages for r in m.results])"
    assert "there is no one to ask here" in notebook.kernel.run(told)
    assert notebook.ran() == []
