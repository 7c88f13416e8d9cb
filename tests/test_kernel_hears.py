"""A real kernel hears its page while a cell runs, and is as it was when nothing runs any more.

A plain comm stands for the widget. Most cells here end only when the page's message is heard: a
kernel that is deaf fails the test by running into the time limit, not by being slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.kernel_envs import chosen, python_of
from tests.kernels import Kernel, idle, live_kernel, of

INTERRUPT_S = 5.0
"""Ten times and more what an interrupt may take."""

SETUP = """
import asyncio, concurrent.futures, contextlib, signal, sys, threading
from comm import create_comm, get_comm_manager
from agentloop_nb.notebook import kernel as k, waiting

shell = k.main_shell()
unwrapped = shell.stream._recv_callback
waiting._POLL_MS = 3_600_000      # a wait that nothing wakes does not end by itself

class Wait:
    "What a cell waits for until the page says 'go'."
    def __init__(self):
        self.heard, self.threads = [], []
        self.future = concurrent.futures.Future()
        waits.append(self)  # before the comm, by which the page learns of it
        self.comm = create_comm(target_name="page", comm_id=f"page-{len(waits) - 1}")
        self.comm.on_msg(self.hear)
    def hear(self, message):
        data = message["content"]["data"]
        self.heard.append(data)
        self.threads.append(threading.current_thread() is threading.main_thread())
        self.comm.send({"heard": data})
        if data == "go" and not self.future.done():
            self.future.set_result(None)
    async def awaited(self):
        with k.hear_comms(), waiting.awake():
            await asyncio.wrap_future(self.future)
    def blocked(self):
        with k.hear_comms():
            waiting.block(self.future)

waits = []
log = []

def check():
    "Nothing of ours is left anywhere."
    assert shell.stream._recv_callback is unwrapped, shell.stream._recv_callback
    assert k._worn is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""

WAYS = {
    "background": "task = asyncio.create_task(w.awaited())",
    "await": "await w.awaited()",
    "block": "w.blocked()",
}
WAITING = pytest.mark.parametrize("way", ["await", "block"])


class Shared:
    """One kernel for all tests, and a new one after a test that left it broken."""

    def __init__(self, folders: pytest.TempPathFactory, version: str) -> None:
        self._folders = folders
        self._python = python_of(version)
        self._open = ExitStack()
        self._kernel: Kernel | None = None

    def kernel(self) -> Kernel:
        if self._kernel is None:
            folder = self._folders.mktemp("kernel")
            self._kernel = self._open.enter_context(live_kernel(folder, self._python))
            self._kernel.run(SETUP)
        return self._kernel

    def drop(self) -> None:
        self._open.close()
        self._kernel = None


@pytest.fixture(scope="module", params=chosen())
def shared(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Shared]:
    shared = Shared(tmp_path_factory, request.param)
    yield shared
    shared.drop()


@pytest.fixture
def kernel(shared: Shared) -> Iterator[Kernel]:
    """The shared kernel. Each test leaves it able to work, and with nothing of ours in it."""
    kernel = shared.kernel()
    yield kernel
    clean = False
    try:
        kernel.cell("check()").ok(INTERRUPT_S)
        clean = True
    finally:
        if not clean:
            shared.drop()


def wait_in(kernel: Kernel, way: str, before: str = "", after: str = "") -> tuple[str, str]:
    """Send a cell that waits in one of the three ways; returns its id and its comm's."""
    number = int(kernel.run("print(len(waits))"))
    cell = kernel.cell(f"w = Wait()\n{before}\n{WAYS[way]}\n{after}")
    comm = f"page-{number}"
    kernel.until(lambda m: m["msg_type"] == "comm_open" and m["content"]["comm_id"] == comm)
    return cell.msg_id, comm


def hears(kernel: Kernel, comm: str, data: object = "ping") -> str:
    """Say something on a comm and wait until it is heard; returns the message's id."""
    msg_id = kernel.comm_msg(comm, data)
    kernel.comm_data(comm, lambda d: d == {"heard": data})
    return msg_id


@pytest.mark.parametrize("way", WAYS)
def test_a_message_of_the_page_is_heard_once_while_the_cell_runs(kernel: Kernel, way: str) -> None:
    cell, comm = wait_in(kernel, way)
    said = [hears(kernel, comm, f"no {i}") for i in range(20)] + [hears(kernel, comm, "go")]
    if way == "background":
        kernel.run("await task")
    kernel.until(idle(cell))
    assert kernel.run("print(w.heard == [f'no {i}' for i in range(20)] + ['go'])") == "True\n"
    assert kernel.run("print(all(w.threads))") == "True\n"
    for msg_id in said:
        kernel.until(idle(msg_id))
        statuses = [
            m["content"]["execution_state"]
            for m in kernel.messages
            if m["msg_type"] == "status" and of(msg_id)(m)
        ]
        assert statuses == ["busy", "idle"]


def test_the_page_opens_and_closes_a_comm_while_a_cell_blocks(kernel: Kernel) -> None:
    kernel.run(
        "def opened(comm, message):\n"
        "    comm.on_close(lambda message: log.append('closed'))\n"
        "    comm.send(message['content']['data'])\n"
        "get_comm_manager().register_target('opened-by-page', opened)"
    )
    cell, comm = wait_in(kernel, "block")
    kernel.comm_open("from-page", "opened-by-page", {"hello": 1})
    kernel.comm_data("from-page", lambda d: d == {"hello": 1})
    kernel.until(idle(kernel.comm_close("from-page")))
    hears(kernel, comm, "go")
    kernel.until(idle(cell))
    assert kernel.run("print(log.pop(), 'from-page' in get_comm_manager().comms)") == (
        "closed False\n"
    )


@WAITING
def test_queued_cells_run_afterwards_in_order(kernel: Kernel, way: str) -> None:
    kernel.run("log.clear()")
    _, comm = wait_in(kernel, way, after="log.append('waited')")
    queued = [kernel.cell(f"log.append({i})") for i in range(5)]
    hears(kernel, comm, "go")
    for below in queued:
        below.ok()
    assert kernel.run("print(log)") == "['waited', 0, 1, 2, 3, 4]\n"


@WAITING
def test_an_error_after_the_wait_aborts_the_cells_below(kernel: Kernel, way: str) -> None:
    kernel.run("log.clear()")
    _, comm = wait_in(kernel, way, after="1 / 0")
    queued = [kernel.cell("log.append('ran')") for _ in range(3)]
    hears(kernel, comm, "go")
    assert [below.reply()["status"] for below in queued] == ["aborted"] * 3
    assert kernel.run("print(log)") == "[]\n"


@WAITING
def test_an_interrupt_ends_the_wait_and_aborts_the_cells_below(kernel: Kernel, way: str) -> None:
    kernel.run("log.clear(); other = asyncio.create_task(asyncio.sleep(3600))")
    _, comm = wait_in(kernel, way)
    below = kernel.cell("log.append('ran')")
    hears(kernel, comm)
    kernel.interrupt()
    assert below.reply(INTERRUPT_S)["status"] == "aborted"
    error = next(m for m in reversed(kernel.messages) if m["msg_type"] == "error")
    assert (
        error["content"]["ename"] == {"await": "CancelledError", "block": "KeyboardInterrupt"}[way]
    )
    assert kernel.run("print(log, other.done(), other.cancel())") == "[] False True\n"


def test_an_interrupt_ends_a_blocking_wait_in_a_cell_that_awaited_before(kernel: Kernel) -> None:
    cell, comm = wait_in(kernel, "block", before="await asyncio.sleep(0)")
    hears(kernel, comm)
    kernel.interrupt()
    kernel.until(idle(cell), INTERRUPT_S)
    error = next(m for m in reversed(kernel.messages) if m["msg_type"] == "error")
    assert (error["content"]["ename"], of(cell)(error)) == ("KeyboardInterrupt", True)


def test_an_interrupt_reaches_a_cell_whose_message_handler_is_stuck(kernel: Kernel) -> None:
    cell, _ = wait_in(
        kernel,
        "block",
        before="stuck = create_comm(target_name='page', comm_id='stuck')\n"
        "def sit(message):\n"
        "    stuck.send('sitting')\n"
        "    threading.Event().wait()\n"
        "stuck.on_msg(sit)",
    )
    said = kernel.comm_msg("stuck", "sit")
    kernel.comm_data("stuck", lambda d: d == "sitting")
    kernel.interrupt()
    kernel.until(idle(said), INTERRUPT_S)
    kernel.until(idle(cell), INTERRUPT_S)


def test_an_interrupt_is_told_from_another_cancellation(kernel: Kernel) -> None:
    code = (
        "with k.hear_comms(), waiting.awake(), waiting.noting_interrupts() as interrupted:\n"
        "    try:\n"
        "        {cancel}\n"
        "        w = Wait()\n"
        "        await asyncio.sleep(3600)\n"
        "    except asyncio.CancelledError:\n"
        "        print(interrupted())"
    )
    cancelled = kernel.run(code.format(cancel="asyncio.current_task().cancel()"))
    comm = "page-" + kernel.run("print(len(waits))").strip()
    cell = kernel.cell(code.format(cancel="pass"))
    kernel.until(lambda m: m["msg_type"] == "comm_open" and m["content"]["comm_id"] == comm)
    hears(kernel, comm)
    kernel.interrupt()
    assert (cancelled, cell.ok(INTERRUPT_S)) == ("False\n", "True\n")


def test_a_wait_in_the_background_does_not_hide_an_interrupt_of_the_next_cell(
    kernel: Kernel,
) -> None:
    kernel.run(
        "async def attend():\n"
        "    with waiting.noting_interrupts() as interrupted:\n"
        "        try:\n"
        "            await asyncio.sleep(3600)\n"
        "        except asyncio.CancelledError:\n"
        "            return interrupted()\n"
        "background = asyncio.create_task(attend())"
    )
    comm = "page-" + kernel.run("print(len(waits))").strip()
    cell = kernel.cell("w = Wait()\nwith k.hear_comms(), waiting.awake(): print(await attend())")
    kernel.until(lambda m: m["msg_type"] == "comm_open" and m["content"]["comm_id"] == comm)
    hears(kernel, comm)
    kernel.interrupt()
    assert cell.ok(INTERRUPT_S) == "True\n"
    assert kernel.run("background.cancel(); print(await background)") == "False\n"


@WAITING
def test_a_reloaded_page_learns_of_the_kernel_while_a_cell_runs(kernel: Kernel, way: str) -> None:
    cell, comm = wait_in(kernel, way)
    for kind, content in (("kernel_info", {}), ("comm_info", {"target_name": "page"})):
        asked = kernel.request(f"{kind}_request", content)
        reply = kernel.until(
            lambda m, kind=kind, asked=asked: m["msg_type"] == f"{kind}_reply" and of(asked)(m)
        )
        kernel.until(idle(asked))
        assert reply["content"]["status"] == "ok"
        if kind == "comm_info":
            assert comm in reply["content"]["comms"]
    assert not any(idle(cell)(m) for m in kernel.messages)
    hears(kernel, comm, "go")
    kernel.until(idle(cell))


@WAITING
def test_what_a_cell_prints_after_a_message_stays_its_own(kernel: Kernel, way: str) -> None:
    cell, comm = wait_in(
        kernel,
        way,
        after="print('cell')\n"
        "thread = threading.Thread(target=print, args=('thread',))\n"
        "thread.start(); thread.join()",
    )
    hears(kernel, comm, "go")
    kernel.until(idle(cell))
    printed = [
        m["content"]["text"] for m in kernel.messages if m["msg_type"] == "stream" and of(cell)(m)
    ]
    assert "".join(printed) == "cell\nthread\n"
    states = [m["content"]["execution_state"] for m in kernel.messages if m["msg_type"] == "status"]
    before_the_end = states[: len(states) - states[::-1].index("idle") - 1]
    assert before_the_end[-1] == "busy", "The page shows a kernel at rest while a cell runs."


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_that_raises_is_reported_and_the_next_message_heard(
    kernel: Kernel, way: str
) -> None:
    cell, comm = wait_in(
        kernel,
        way,
        before="def fail(message): raise RuntimeError('broken handler')\n"
        "broken = create_comm(target_name='page', comm_id='broken')\n"
        "broken.on_msg(fail)",
    )
    said = kernel.comm_msg("broken", {})
    kernel.until(
        lambda m: (
            m["msg_type"] == "stream"
            and m["content"]["name"] == "stderr"
            and "broken handler" in m["content"]["text"]
            and of(said)(m)
        )
    )
    kernel.until(idle(said))
    hears(kernel, comm, "go")
    kernel.until(idle(cell))
    if way == "background":
        kernel.run("await task")


def test_a_request_that_the_kernel_fails_to_answer_is_reported_and_does_no_harm(
    kernel: Kernel,
) -> None:
    kernel.run(
        "import logging\n"
        "class Reports(logging.Handler):\n"
        "    def emit(self, record): log.append(str(record.exc_info[1]))\n"
        "def fail(stream, identities, message): raise RuntimeError('broken request')\n"
        "log.clear()"
    )
    cell, comm = wait_in(
        kernel,
        "block",
        before="handlers, reports = shell.kernel.shell_handlers, Reports()\n"
        "whole = handlers['comm_info_request']\n"
        "handlers['comm_info_request'] = fail\n"
        "shell.kernel.log.addHandler(reports)",
        after="handlers['comm_info_request'] = whole\nshell.kernel.log.removeHandler(reports)",
    )
    kernel.until(idle(kernel.request("comm_info_request", {})))
    hears(kernel, comm, "go")
    kernel.until(idle(cell))
    assert kernel.run("print(log)") == "['broken request']\n"


def test_a_cell_that_came_at_the_end_of_the_wait_is_not_forgotten(kernel: Kernel) -> None:
    cell = kernel.cell(
        "over, read = iter([False, True]), k.MainShell.read\n"
        "def read_and_say(shell, at_most):\n"
        "    read(shell, at_most)\n"
        "    print('waiting', flush=True)\n"
        "k.MainShell.read = read_and_say\n"
        "with contextlib.closing(waiting._Bell()) as bell:\n"
        "    waiting._read_until(lambda: next(over), bell)\n"
        "k.MainShell.read = read"
    )
    kernel.until(lambda m: m["msg_type"] == "stream" and of(cell.msg_id)(m))
    # The next message wakes the wait, which then is over before it reads. Nothing comes after.
    assert kernel.cell("print('below')").ok() == "below\n"


def test_two_listeners_leave_in_any_order_and_on_any_thread(kernel: Kernel) -> None:
    kernel.run("first, second = k.hear_comms(), k.hear_comms(); first.__enter__()")
    kernel.run("second.__enter__()")
    kernel.run("first.__exit__(None, None, None)")
    cell, comm = wait_in(kernel, "block")
    hears(kernel, comm, "go")
    kernel.until(idle(cell))
    kernel.run("assert k._users == 1")
    kernel.run(
        "thread = threading.Thread(target=second.__exit__, args=(None, None, None))\n"
        "thread.start(); thread.join()"
    )


def test_a_callback_wrapped_over_ours_keeps_working(kernel: Kernel) -> None:
    printed = kernel.run(
        "with k.hear_comms():\n"
        "    ours = shell.stream._recv_callback\n"
        "    theirs = lambda frames: ours(frames)\n"
        "    shell.stream._recv_callback = theirs\n"
        "print(shell.stream._recv_callback is theirs)"
    )
    assert printed == "True\n"
    assert kernel.run("shell.stream._recv_callback = unwrapped; print('still here')") == (
        "still here\n"
    )


def test_a_message_over_a_subshell_goes_its_own_way(kernel: Kernel) -> None:
    if kernel.ipykernel < (7, 0):
        return  # it has none: all comms come over the main shell
    kernel.run(
        "def opened(comm, message):\n"
        "    log.append(threading.current_thread() is threading.main_thread())\n"
        "    waits[-1].future.set_result(None)\n"
        "get_comm_manager().register_target('over-subshell', opened)\n"
        "log.clear()"
    )
    subshell = kernel.subshell()
    cell, _ = wait_in(kernel, "block")
    kernel.comm_open("over-subshell", "over-subshell", subshell=subshell)
    kernel.until(idle(cell))
    assert kernel.run("print(log)") == "[False]\n"


def test_a_wait_without_hearing_still_ends(kernel: Kernel) -> None:
    kernel.run(
        "future = concurrent.futures.Future()\n"
        "threading.Timer(0.01, future.set_result, [None]).start()\n"
        "waiting.block(future)\n"
        "k.main_shell, kept = (lambda: None), k.main_shell\n"
        "try:\n"
        "    future = concurrent.futures.Future()\n"
        "    threading.Timer(0.01, future.set_result, [None]).start()\n"
        "    assert 'agent.start' in k.deaf()\n"
        "    with k.hear_comms(): waiting.block(future)\n"
        "finally:\n"
        "    k.main_shell = kept"
    )


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel in which the user has applied nest_asyncio before anything of ours came."""
    with live_kernel(tmp_path_factory.mktemp("patched")) as kernel:
        kernel.run("import nest_asyncio; nest_asyncio.apply()")
        kernel.run(SETUP)
        yield kernel


@pytest.mark.parametrize("way", WAYS)
def test_the_page_is_heard_where_nest_asyncio_is_applied(patched: Kernel, way: str) -> None:
    cell, comm = wait_in(patched, way)
    below = patched.cell("print('below')")
    hears(patched, comm, "go")
    patched.until(idle(cell))
    assert below.ok() == "below\n"
    if way == "background":
        patched.run("await task")
    patched.run("check()")


def test_an_interrupt_in_a_nested_loop_loses_no_cell(patched: Kernel) -> None:
    cell, comm = wait_in(
        patched,
        "background",
        before="slow = create_comm(target_name='page', comm_id='slow')\n"
        "def sit(message):\n"
        "    slow.send('sitting')\n"
        "    threading.Event().wait()\n"
        "slow.on_msg(sit)",
        after="asyncio.get_event_loop().run_until_complete(task)",
    )
    patched.comm_msg("slow", "sit")
    patched.comm_data("slow", lambda d: d == "sitting")
    below = patched.cell("print('below')")
    patched.interrupt()
    patched.until(idle(cell), INTERRUPT_S)
    assert below.reply()["status"] == "aborted"
    hears(patched, comm, "go")
    patched.run("await task")
    patched.run("check()")
