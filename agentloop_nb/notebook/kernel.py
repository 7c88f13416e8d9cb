"""The only file that knows ipykernel: hearing the page while a cell runs, and losing no cell.

While a cell blocks, and on most kernels while it awaits, the kernel handles no message of a widget.
So the receive callbacks of two ZMQStreams are wrapped while a run lives. The *ear* is on the main
shell's stream: comm messages (and the two requests that a reloaded page waits for) are handled as
they arrive, everything else goes to the original callback, which keeps its order. A blocking cell
reads by the stream's public `flush()`. The *door*, from ipykernel 7 on, is on the stream of the
shell-channel thread: what a page says to a view of ours gets in while any cell blocks the main
thread. A message that comes over a subshell takes another way, which is left as it is.

What is private of ipykernel is looked up in `main_shell` and `_strands`, each for the versions that
it names. Where a version has other parts nothing is wrapped, and `deaf()` says so.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any

import zmq
from ipykernel._version import __version__, version_info
from IPython.core.getipython import get_ipython
from tornado.ioloop import PeriodicCallback

_HEARD = frozenset(
    {"comm_open", "comm_msg", "comm_close", "kernel_info_request", "comm_info_request"}
)
_VERSION = tuple(version_info[:2])
_PARTS = ("session", "shell_handlers", "get_parent", "set_parent", "_parent_ident")


def in_kernel() -> bool:
    """Whether this process is a notebook's kernel (a script and IPython's terminal are not)."""
    return _kernel() is not None


def deaf() -> str:
    """Why no page can be heard while a cell waits, "" where it can."""
    if main_shell() is not None:
        return ""
    return (
        f"ipykernel {__version__} has not the parts that agentloop_nb needs to hear the "
        "page while a cell waits: dialogs and Stop act when the cell is over, and calls that ask "
        "are not run. Use run = agent.start(...), and run.result in a later cell."
    )


def input_places() -> list[tuple[Any, str]]:
    """Where the kernel keeps what it puts into `builtins.input` and `getpass.getpass` for as long
    as a cell runs, as (object, attribute)."""
    kernel = _kernel()
    return [(kernel, name) for name in ("raw_input", "getpass") if hasattr(kernel, name)]


def _kernel() -> Any:
    return getattr(get_ipython(), "kernel", None)


@dataclass(frozen=True, slots=True)
class MainShell:
    """The parts of ipykernel that hearing needs: the stream on which the main shell's messages
    reach the main thread, where replies to them go, and the lock that a running cell holds."""

    kernel: Any
    stream: Any
    replies: Any
    lock: asyncio.Lock | None
    front: Any = None
    """The stream on which a thread of its own receives the shell's messages; none on 6."""

    def cell_runs(self) -> bool:
        """Whether a cell runs; where the version has no lock to tell by, yes."""
        return self.lock is None or self.lock.locked()

    @property
    def socket(self) -> Any:
        """To poll."""
        return self.stream.socket

    def read(self, at_most: int) -> None:
        """Handle so many of the messages that have come; main thread only."""
        self.stream.flush(zmq.POLLIN, at_most)


def main_shell() -> MainShell | None:
    """The parts, None where this is no kernel or one that has others.

    ipykernel 6: the main thread reads the shell's stream itself. ipykernel 7.0 to 7.4: a thread of
    its own reads the shell's socket and forwards to the main thread by a pair of sockets; a later
    version counts as one of these as long as it has all the parts.
    """
    kernel = _kernel()
    if kernel is None or not all(hasattr(kernel, part) for part in _PARTS):
        return None
    try:
        if _VERSION < (7, 0) or kernel.shell_channel_thread is None:
            front, stream, replies = None, kernel.shell_stream, kernel.shell_stream
        else:
            front = kernel.shell_stream
            manager = kernel.shell_channel_thread.manager
            stream = manager.get_shell_channel_to_subshell_pair(None).to_stream
            replies = manager.get_subshell_to_shell_channel_socket(None)
    except AttributeError:
        return None
    streams = [stream] if front is None else [stream, front]
    if not all(callable(getattr(each, "_recv_callback", None)) for each in streams):
        return None
    return MainShell(kernel, stream, replies, getattr(kernel, "_main_asyncio_lock", None), front)


# -- hearing


class _Wrapper(ABC):
    """A wrapper around the receive callback of a stream; one life long, worn once.

    It never forgets the callback that it wraps: a message may be on its way through it on the
    stream's thread while another thread takes it off.
    """

    def __init__(self, shell: MainShell, stream: Any) -> None:
        self.worn = True
        self._shell = shell
        self._stream = stream
        self._original: Callable[[Any], Any] = stream._recv_callback
        # Set as it is and not by `on_recv`, which touches the socket: any thread may come here.
        stream._recv_callback = self._receive

    def take_off(self) -> None:
        """Restore the callback; where somebody has wrapped this one in turn, just pass on."""
        self.worn = False
        if self._stream._recv_callback == self._receive:
            self._stream._recv_callback = self._original

    @abstractmethod
    def _receive(self, frames: Any) -> Any:
        """Handle a message, or pass it on to the callback that is wrapped."""

    def _peek(self, frames: Any) -> Any:
        """The message, its content not read yet, {} where these frames are none, such as the
        one-frame notes that ipykernel 7.4 sends to itself. Does not count as its one delivery."""
        session = self._shell.kernel.session
        try:
            _, peeked = session.feed_identities(frames, copy=False)
            return session.deserialize(peeked, content=False, copy=False)
        except Exception:
            return {}


class _Ear(_Wrapper):
    """On the main shell's stream, for all that a page needs while a cell awaits or blocks."""

    def __init__(self, shell: MainShell) -> None:
        self.handling = False
        super().__init__(shell, shell.stream)

    def _receive(self, frames: Any) -> Any:
        if not self.worn or _kind(self._peek(frames)) not in _HEARD:
            return self._original(frames)
        try:
            return self._hear(frames)
        except KeyboardInterrupt:
            # In a loop nested in a plain cell (nest_asyncio). The stream, cut short, does not get
            # to look for what else has arrived, and the socket says so only once.
            self._stream.io_loop.add_callback(self._stream.flush, zmq.POLLIN)
            raise

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
            _publish_busy(self._shell.kernel, cell)

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


def _publish_busy(kernel: Any, cell: Any) -> None:
    """The page's indicator shows the last status it was sent: the cell is still at work."""
    if cell is not None:
        kernel._publish_status("busy", "shell", parent=cell)


def _kind(message: Any) -> str:
    return str(message["header"].get("msg_type")) if message else ""


class _Door(_Wrapper):
    """On the stream of the shell-channel thread, for what pages say to views of ours: it gets in
    while a cell blocks the main thread. Only marshals; the page hears later, from the main thread,
    that the message was handled."""

    def __init__(self, shell: MainShell) -> None:
        super().__init__(shell, shell.front)

    def _receive(self, frames: Any) -> Any:
        if self.worn and not _reading and _views and self._taken(frames):
            return None
        return self._original(frames)

    def _taken(self, frames: Any) -> bool:
        """Whether it was for a view, which then has heard it."""
        kernel, message = self._shell.kernel, self._peek(frames)
        if _kind(message) != "comm_msg":
            return False
        try:
            content = kernel.session.unpack(message["content"])
            receive, data = _views.get(content["comm_id"]), content["data"]
            if receive is None or data["method"] != "custom":
                return False
            said = data["content"]
        except Exception:
            return False  # the kernel says what is wrong with it
        kernel.io_loop.add_callback(self._publish, message)
        receive(said)
        return True

    def _publish(self, message: Any) -> None:
        """On the main thread, where the status of a running cell can be told."""
        kernel = self._shell.kernel
        kernel._publish_status("busy", "shell", parent=message)
        kernel._publish_status("idle", "shell", parent=message)
        if self._shell.cell_runs():
            _publish_busy(kernel, _cell(kernel))


@contextmanager
def _parent_restored(kernel: Any) -> Iterator[Any]:
    """Yields the message that the kernel is at work on, and makes it that again: output of threads
    goes where this points."""
    outside, parent = Context(), _cell(kernel)
    try:
        identities = outside.run(lambda: kernel._parent_ident["shell"])
    except LookupError:  # ipykernel 7.0 keeps it in contexts alone, and we handle in one of our own
        yield parent
        return
    try:
        yield parent
    finally:
        outside.run(kernel.set_parent, identities, parent, channel="shell")


def _cell(kernel: Any) -> Any:
    """The message that the kernel is at work on. Asked for in an empty context: the current one may
    be the loop's own, which saw the first message of all. ipykernel 7.0 has it in no other, and
    where it has none the answer is None."""
    for context in (Context(), copy_context()):
        with suppress(LookupError):
            return context.run(kernel.get_parent, "shell")
    return None


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


# -- losing no cell


def _strands() -> bool:
    """ipykernel 7.0 to 7.3 send replies raw on the socket that a stream of the shell-channel thread
    reads. A send swallows the notice of a message that comes in that moment, which then waits for
    the next one to come: a queued cell is stranded (measured: within 20 to 90 pairs of cells).
    7.4 sends through the stream."""
    return (7, 0) <= _VERSION < (7, 4)


class _Reader:
    """Looks, from the shell-channel thread itself, for messages of which no notice came. Goes on
    for a moment after the end: the reply of the cell that waited for the run is yet to be sent."""

    EVERY_MS = 100
    LINGER_S = 5.0

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._timer = PeriodicCallback(self._read, self.EVERY_MS)
        stream.io_loop.add_callback(self._timer.start)

    def stop(self) -> None:
        loop = self._stream.io_loop
        loop.add_callback(loop.call_later, self.LINGER_S, self._timer.stop)

    def _read(self) -> None:
        if self._stream.closed():
            self._timer.stop()
        else:
            self._stream.flush(zmq.POLLIN)


# -- while a run lives


Receive = Callable[[object], None]


class _Worn:
    """What the kernel wears while a run lives."""

    def __init__(self, shell: MainShell) -> None:
        self.ear = _Ear(shell)
        self._door = _Door(shell) if shell.front is not None else None
        self._reader = _Reader(shell.front) if _strands() and shell.front is not None else None

    def take_off(self) -> None:
        self.ear.take_off()
        if self._door is not None:
            self._door.take_off()
        if self._reader is not None:
            self._reader.stop()


_worn: _Worn | None = None
_users = 0
_reading = False
_views: dict[str, Receive] = {}
_lock = threading.Lock()


@contextmanager
def hear_comms() -> Iterator[None]:
    """While inside, messages of comms are heard also while a cell awaits, or blocks in `reading()`,
    and no queued cell is stranded.

    May be entered several times at once and left in any order, on any thread; the last one out
    restores the kernel. Does nothing where `deaf()` says so.
    """
    shell = main_shell()
    if shell is None:
        yield
        return
    _enter(shell)
    try:
        yield
    finally:
        _leave()


@contextmanager
def hear_view(comm_id: str, receive: Receive) -> Iterator[None]:
    """As `hear_comms`, and what the pages of one widget say reaches `receive`, on any thread, also
    while any cell blocks, where the version allows that. `receive` must only marshal."""
    with hear_comms():
        _views[comm_id] = receive
        try:
            yield
        finally:
            _views.pop(comm_id, None)


@contextmanager
def reading() -> Iterator[None]:
    """While the main thread, in a blocking cell, reads the main shell itself."""
    global _reading
    _reading = True
    try:
        yield
    finally:
        _reading = False


def handling() -> bool:
    """Whether a message's handler is at work."""
    return _worn is not None and _worn.ear.handling


def _enter(shell: MainShell) -> None:
    global _users, _worn
    with _lock:
        if _worn is None:
            _worn = _Worn(shell)
        _users += 1


def _leave() -> None:
    global _users, _worn
    with _lock:
        _users -= 1
        if not _users and _worn is not None:
            _worn.take_off()
            _worn = None
