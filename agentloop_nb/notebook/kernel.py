"""The only file that knows ipykernel: hearing the page while a cell runs, waiting, interrupts.

While a cell blocks, and on most kernels while it awaits, the kernel handles no message of a widget.
So the receive callback of the main shell's ZMQStream is wrapped while a run lives: comm messages
(and the two requests that a reloaded page waits for) are handled as they arrive, everything else
goes to the original callback, which keeps its order. A blocking cell reads by the stream's public
`flush()`. A message that comes over a subshell takes another way, which is left as it is.

What is private of ipykernel is looked up in `_main_shell` alone, for the versions named there; if
a part is missing nothing is wrapped and `can_hear()` says so.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from types import FrameType
from typing import Any

import zmq
from IPython.core.getipython import get_ipython

AWAKE_S = 0.05
"""How often a waiting cell's loop turns by itself: an interrupt is noticed only when it does
(measured: 2.4 s late without, 0.03 s with it)."""

_POLL_MS = 500
"""A blocking cell looks up so often even when neither message nor result has woken it."""

_AT_ONCE = 16
"""Messages that a blocking cell handles before it looks at its result and at interrupts again."""

_HEARD = frozenset(
    {"comm_open", "comm_msg", "comm_close", "kernel_info_request", "comm_info_request"}
)
_PARTS = ("session", "shell_handlers", "get_parent", "set_parent", "_parent_ident")


def in_kernel() -> bool:
    """Whether this process is a notebook's kernel (a script and IPython's terminal are not)."""
    return _kernel() is not None


def can_hear() -> bool:
    """Whether pages can be heard while a cell blocks, on this version of ipykernel."""
    return _main_shell() is not None


def input_places() -> list[tuple[Any, str]]:
    """Where the kernel keeps what it puts into `builtins.input` and `getpass.getpass` for as long
    as a cell runs, as (object, attribute)."""
    kernel = _kernel()
    return [(kernel, name) for name in ("raw_input", "getpass") if hasattr(kernel, name)]


def _kernel() -> Any:
    return getattr(get_ipython(), "kernel", None)


@dataclass(frozen=True, slots=True)
class _MainShell:
    """The parts of ipykernel that hearing needs: the stream on which the main shell's messages
    reach the main thread, where replies to them go, and the lock that a running cell holds."""

    kernel: Any
    stream: Any
    replies: Any
    lock: asyncio.Lock | None

    def cell_runs(self) -> bool:
        """Whether a cell runs; where the version has no lock to tell by, yes."""
        return self.lock is None or self.lock.locked()


def _main_shell() -> _MainShell | None:
    """ipykernel 7.0 to 7.4: a thread of its own reads the shell's socket and forwards to the main
    thread by a pair of sockets. ipykernel 6: the main thread reads the shell's stream itself."""
    kernel = _kernel()
    if kernel is None or not all(hasattr(kernel, part) for part in _PARTS):
        return None
    thread = getattr(kernel, "shell_channel_thread", None)
    try:
        if thread is None:
            stream = replies = kernel.shell_stream
        else:
            stream = thread.manager.get_shell_channel_to_subshell_pair(None).to_stream
            replies = thread.manager.get_subshell_to_shell_channel_socket(None)
    except AttributeError:
        return None
    if not callable(getattr(stream, "_recv_callback", None)):
        return None
    return _MainShell(kernel, stream, replies, getattr(kernel, "_main_asyncio_lock", None))


# -- hearing


class _Ear:
    """A wrapper around the receive callback of the main shell's stream; one life long, worn once.

    It never forgets the callback that it wraps: a message may be on its way through it on the main
    thread while another thread takes it off.
    """

    def __init__(self, shell: _MainShell) -> None:
        self.users = 0
        self.handling = False
        self._shell = shell
        self._original: Callable[[Any], Any] = shell.stream._recv_callback
        # Set as it is and not by `on_recv`, which touches the socket: any thread may come here.
        shell.stream._recv_callback = self._receive

    def take_off(self) -> None:
        """Restore the callback; where somebody has wrapped this one in turn, just pass on."""
        if self._shell.stream._recv_callback == self._receive:
            self._shell.stream._recv_callback = self._original

    def _receive(self, frames: Any) -> Any:
        if not self.users or self._kind(frames) not in _HEARD:
            return self._original(frames)
        try:
            return self._hear(frames)
        except KeyboardInterrupt:
            # In a loop nested in a plain cell (nest_asyncio). The stream, cut short, does not get
            # to look for what else has arrived, and the socket says so only once.
            stream = self._shell.stream
            stream.io_loop.add_callback(stream.flush, zmq.POLLIN)
            raise

    def _kind(self, frames: Any) -> str:
        """The message's type, "" where these frames are none, such as the one-frame notes that
        ipykernel 7.4 sends to itself. Peeking does not count as the message's one delivery."""
        session = self._shell.kernel.session
        try:
            _, peeked = session.feed_identities(frames, copy=False)
            header = session.deserialize(peeked, content=False, copy=False)["header"]
            return str(header["msg_type"])
        except Exception:
            return ""

    def _hear(self, frames: Any) -> None:
        kernel = self._shell.kernel
        try:
            identities, rest = kernel.session.feed_identities(frames, copy=False)
            message = kernel.session.deserialize(rest, content=True, copy=False)
        except Exception:
            kernel.log.error("A message on the shell channel cannot be read.", exc_info=True)
            return
        with _parent_restored(kernel) as cell:
            # In a context of its own, so that the running cell's variables keep the cell's parent.
            copy_context().run(self._handle, identities, message)
        if self._shell.cell_runs():
            # The page's indicator shows the last status it was sent: the cell is still at work.
            kernel._publish_status("busy", "shell", parent=cell)

    def _handle(self, identities: Any, message: Any) -> None:
        """As the kernel does it, between a busy and an idle of the message's own."""
        kernel = self._shell.kernel
        kernel.set_parent(identities, message, channel="shell")
        kernel._publish_status("busy", "shell", parent=message)
        handler = kernel.shell_handlers[message["header"]["msg_type"]]
        self.handling = True
        try:
            with _ended_by_interrupt(kernel.log):
                _finish(handler(self._shell.replies, identities, message))
        except Exception:
            kernel.log.error("Exception in message handler:", exc_info=True)
        finally:
            self.handling = False
            _flush_output(self._shell.replies)
            kernel._publish_status("idle", "shell", parent=message)


@contextmanager
def _parent_restored(kernel: Any) -> Iterator[Any]:
    """Yields the message that the kernel is at work on, and makes it that again: output of threads
    goes where this points. It is asked for in an empty context: the current one may be the loop's
    own, which saw the first message of all."""
    outside = Context()
    parent = outside.run(kernel.get_parent, "shell")
    identities = outside.run(lambda: kernel._parent_ident["shell"])
    try:
        yield parent
    finally:
        outside.run(kernel.set_parent, identities, parent, channel="shell")


@contextmanager
def _ended_by_interrupt(log: logging.Logger) -> Iterator[None]:
    """Where no cell runs, the kernel ignores interrupts, but for a handler at work: it ends."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        log.error("A message handler was interrupted.")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _finish(result: Any) -> None:
    """Run a handler's coroutine to its end here: those of the two requests never wait."""
    if not inspect.iscoroutine(result):
        return
    try:
        result.send(None)
    except StopIteration:
        return
    result.close()
    raise RuntimeError("This kernel's request handler waits; it cannot be answered in a cell.")


def _flush_output(replies: Any) -> None:
    """What the handler printed and replied goes out before its idle does. In a blocking cell nobody
    else would send what a stream (ipykernel 6) has queued."""
    for output in (sys.stdout, sys.stderr):
        if output is not None:
            output.flush()
    if hasattr(replies, "flush"):
        replies.flush(zmq.POLLOUT)


_ear: _Ear | None = None
_ear_lock = threading.Lock()


@contextmanager
def hear_comms() -> Iterator[None]:
    """While inside, messages of comms are heard also while a cell awaits or blocks.

    May be entered several times at once and left in any order, on any thread; the last one out
    restores the kernel. Does nothing where `can_hear()` is false.
    """
    shell = _main_shell()
    if shell is None:
        yield
        return
    _enter(shell)
    try:
        yield
    finally:
        _leave()


def _enter(shell: _MainShell) -> None:
    global _ear
    with _ear_lock:
        if _ear is None:
            _ear = _Ear(shell)
        _ear.users += 1


def _leave() -> None:
    global _ear
    with _ear_lock:
        if _ear is None:
            raise AssertionError("Hearing ended more often than it began.")
        _ear.users -= 1
        if not _ear.users:
            _ear.take_off()
            _ear = None


# -- waiting in a blocking cell


class _Bell:
    """Wakes a poll, from any thread and from a signal handler. Rung after its end it does nothing:
    a future keeps its callbacks for good."""

    def __init__(self) -> None:
        self.hearing, self._ringing = socket.socketpair()
        self._ringing.setblocking(False)

    def ring(self) -> None:
        with suppress(OSError):
            self._ringing.send(b".")

    def close(self) -> None:
        self.hearing.close()
        self._ringing.close()


def block(future: concurrent.futures.Future[Any]) -> None:
    """Wait for a future in a blocking cell, on the main thread, reading the main shell meanwhile.

    Returns within milliseconds of its end. Raises KeyboardInterrupt at once on an interrupt, also
    in a cell that awaited something before. Messages are heard inside `hear_comms()`; without it,
    and where `can_hear()` is false, this only waits. On another thread there are no interrupts.
    """
    if threading.current_thread() is not threading.main_thread():
        concurrent.futures.wait({future})
        return
    with closing(_Bell()) as bell, _held_interrupts(bell.ring) as interrupted:
        future.add_done_callback(lambda _: bell.ring())
        _read_until(lambda: future.done() or interrupted(), bell)
    if interrupted():
        raise KeyboardInterrupt


def _read_until(over: Callable[[], bool], bell: _Bell) -> None:
    """Handle what arrives on the main shell, until `over()` after a ring of the bell."""
    shell = _main_shell()
    poller = zmq.Poller()
    poller.register(bell.hearing, zmq.POLLIN)
    if shell is None:
        while not over():
            poller.poll(_POLL_MS)
        return
    poller.register(shell.stream.socket, zmq.POLLIN)
    try:
        while not over():
            shell.stream.flush(zmq.POLLIN, _AT_ONCE)
            poller.poll(_POLL_MS)
    finally:
        # What the poll has seen and nobody has read would wait, unnoticed by the kernel's loop, for
        # the next message to come: a flush ends by telling the loop of what is left.
        shell.stream.flush(zmq.POLLIN, _AT_ONCE)


@contextmanager
def _held_interrupts(ring: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Yields whether an interrupt came. It is raised at once only in a message's handler: raised
    between the reading of a message and its handling it would lose that message, maybe a cell.

    The handler in force is not called. In a cell with an `await` it would only schedule the cell's
    cancellation on the loop that this cell blocks.
    """
    came = False

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal came
        came = True
        if _ear is not None and _ear.handling:
            raise KeyboardInterrupt
        ring()

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGINT, before)


# -- waiting in a cell that awaits


@contextmanager
def awake() -> Iterator[None]:
    """While a cell awaits, keep the running loop turning, so that an interrupt is noticed."""
    loop = asyncio.get_running_loop()
    over = False

    def turn() -> None:
        if not over:
            loop.call_later(AWAKE_S, turn)

    turn()
    try:
        yield
    finally:
        over = True


def in_cell() -> bool:
    """Whether the running task is that of the cell itself (IPython runs it as `run_cell_async`)."""
    task = asyncio.current_task()
    code = getattr(task.get_coro(), "cr_code", None) if task is not None else None
    return code is not None and code.co_name == "run_cell_async"


@contextmanager
def noting_interrupts() -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether the notebook has interrupted since.

    ipykernel turns an interrupt of an awaiting cell into a cancellation of the cell's task; this
    tells it from any other cancellation. For the cell alone: where no cell runs, the kernel ignores
    interrupts, and on other threads none arrive, so the answer is no.
    """
    came = False
    before: Any = None

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        before(number, frame)

    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGINT)
    if callable(before):
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: came
    finally:
        # Not where another one lies on top by now; the kernel restores its own at the cell's end.
        if callable(before) and signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)
