"""The only file that knows ipykernel: which loop, hearing the page while a cell runs, interrupts.

While a cell blocks, and on most kernels while it awaits, the kernel handles no message of a widget.
So the receive callback of the main shell's stream is wrapped while a run lives: messages of comms
(and the two requests that a reloaded page waits for) are handled as they arrive, and everything
else goes to the original callback, which keeps its order. A blocking cell reads by the stream's
public `flush()`. What is private of ipykernel is reached in `_main_stream` and `_Ear` alone, for
the versions named there; where it is not found, nothing is wrapped and `can_hear()` says so.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import zmq
from IPython.core.getipython import get_ipython

AWAKE_S = 0.05
"""How often a waiting cell's loop turns by itself: an interrupt is noticed only when it does
(measured: 2.4 s late without, 0.03 s with it)."""

_POLL_MS = 500
"""A blocking cell looks up so often even when neither message nor result has woken it."""

_log = logging.getLogger(__name__)
_HEARD = frozenset({"comm_open", "comm_msg", "comm_close"})
_ANSWERED = frozenset({"kernel_info_request", "comm_info_request"})


def in_kernel() -> bool:
    """Whether this process is a notebook's kernel (a script and IPython's terminal are not)."""
    return _kernel() is not None


def can_hear() -> bool:
    """Whether pages can be heard while a cell blocks, on this version of ipykernel."""
    kernel = _kernel()
    return kernel is not None and _main_stream(kernel) is not None


def _kernel() -> Any:
    return getattr(get_ipython(), "kernel", None)


def _main_stream(kernel: Any) -> Any:
    """The stream on which the main shell's messages reach the main thread, None if not found.

    ipykernel 7.0 to 7.4: the receiving end of the pair that the shell-channel thread forwards to.
    ipykernel 6: the shell stream itself.
    """
    thread = getattr(kernel, "shell_channel_thread", None)
    if thread is None:
        stream = getattr(kernel, "shell_stream", None)
    else:
        find = getattr(getattr(thread, "manager", None), "get_shell_channel_to_subshell_pair", None)
        stream = getattr(find(None), "to_stream", None) if find is not None else None
    return stream if callable(getattr(stream, "_recv_callback", None)) else None


# -- hearing


class _Ear:
    """The wrapped callback of one stream. `users` counts who needs it; with none it only passes
    on, and it takes itself off where nobody has wrapped it in turn."""

    def __init__(self, kernel: Any, stream: Any) -> None:
        self.users = 0
        self._kernel = kernel
        self._stream = stream
        self._original: Callable[[Any], Any] | None = None

    def put_on(self) -> None:
        if self._original is None:
            self._original = self._stream._recv_callback
            self._stream._recv_callback = self._receive

    def take_off(self) -> None:
        if self._stream._recv_callback == self._receive:
            self._stream._recv_callback = self._original
            self._original = None

    def _receive(self, frames: Any) -> Any:
        if self.users and self._hear(frames):
            return None
        return self._original(frames) if self._original is not None else None

    def _hear(self, frames: Any) -> bool:
        """Handle a message if it is one of ours to handle; whether it was."""
        session = self._kernel.session
        try:
            _, peeked = session.feed_identities(frames, copy=False)
            kind = session.deserialize(peeked, content=False, copy=False)["header"]["msg_type"]
        except Exception:  # not a message (7.4 sends itself one-frame notes): the kernel's business
            return False
        if kind not in _HEARD and not (kind in _ANSWERED and self._cell_runs()):
            return False
        try:
            idents, frames = session.feed_identities(frames, copy=False)
            message = session.deserialize(frames, content=True, copy=False)
        except Exception:
            _log.warning("A message of the page could not be read.", exc_info=True)
            return True
        self._handle(kind, idents, message)
        return True

    def _cell_runs(self) -> bool:
        lock = getattr(self._kernel, "_main_asyncio_lock", None)
        return lock.locked() if lock is not None else True

    def _handle(self, kind: str, idents: Any, message: Any) -> None:
        """As the kernel would, with busy and idle around it, and the cell's parent put back."""
        kernel = self._kernel
        parent, parent_ident = kernel.get_parent("shell"), _parent_ident(kernel)
        kernel.set_parent(idents, message, channel="shell")
        kernel._publish_status("busy", "shell", parent=message)
        try:
            _finish(kernel.shell_handlers[kind](self._reply_stream(), idents, message))
        except Exception:
            _log.exception("A handler of a widget's message raised.")
        finally:
            kernel._publish_status("idle", "shell", parent=message)
            kernel.set_parent(parent_ident, parent, channel="shell")

    def _reply_stream(self) -> Any:
        """Where replies to the main shell's requests are sent."""
        thread = getattr(self._kernel, "shell_channel_thread", None)
        if thread is None:
            return self._kernel.shell_stream
        return thread.manager.get_subshell_to_shell_channel_socket(None)


def _parent_ident(kernel: Any) -> Any:
    with suppress(LookupError):
        return kernel._parent_ident["shell"]
    return b""


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


_ear: _Ear | None = None
_ear_lock = threading.Lock()


@contextmanager
def hear_comms() -> Iterator[None]:
    """While inside, comms are heard also while a cell awaits or blocks. May be entered several
    times at once and left in any order, on any thread; the last one out restores the kernel."""
    global _ear
    kernel = _kernel()
    stream = _main_stream(kernel) if kernel is not None else None
    if stream is None:
        yield
        return
    with _ear_lock:
        if _ear is None:
            _ear = _Ear(kernel, stream)
        ear = _ear
        ear.users += 1
        ear.put_on()
    try:
        yield
    finally:
        with _ear_lock:
            ear.users -= 1
            if not ear.users:
                ear.take_off()


# -- waiting


def block(future: concurrent.futures.Future[Any]) -> None:
    """Wait for a future in a blocking cell, on the main thread, reading the main shell meanwhile.

    Returns within milliseconds of its end. Raises KeyboardInterrupt at once on an interrupt.
    """
    kernel = _kernel()
    stream = _main_stream(kernel) if kernel is not None else None
    if stream is None or threading.current_thread() is not threading.main_thread():
        concurrent.futures.wait({future})
        return
    wake_read, wake_write = os.pipe()
    future.add_done_callback(lambda _: os.write(wake_write, b"."))
    poller = zmq.Poller()
    poller.register(stream.socket, zmq.POLLIN)
    poller.register(wake_read, zmq.POLLIN)
    try:
        while not future.done():
            stream.flush(zmq.POLLIN)
            poller.poll(_POLL_MS)
    finally:
        # Also where we were interrupted: what the poll has seen and nobody read would otherwise
        # wait, unnoticed by the loop, for the next message to come.
        stream.flush(zmq.POLLIN)
        _close_when_done(future, wake_read, wake_write)


def _close_when_done(future: concurrent.futures.Future[Any], *descriptors: int) -> None:
    """Not before: the future's callback may still write."""

    def close(_: Any) -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    future.add_done_callback(close)


@contextmanager
def awake() -> Iterator[None]:
    """While a cell awaits, keep the running loop turning, so that an interrupt is noticed."""
    turning = asyncio.create_task(_turn())
    try:
        yield
    finally:
        turning.cancel()


async def _turn() -> None:
    while True:
        await asyncio.sleep(AWAKE_S)


# -- interrupts


class _Notes:
    """Counts the interrupts that reach this process while a cell waits, and passes each on."""

    def __init__(self) -> None:
        self.count = 0
        self.users = 0
        self._before: Any = None

    def install(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._note)

    def restore(self) -> None:
        if signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if callable(self._before):
            self._before(number, frame)


_notes = _Notes()


@contextmanager
def noting_interrupts() -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether the notebook has interrupted since. On the main thread;
    elsewhere no signal arrives, and the answer is no."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    if not _notes.users:
        _notes.install()
    _notes.users += 1
    before = _notes.count
    try:
        yield lambda: _notes.count > before
    finally:
        _notes.users -= 1
        if not _notes.users:
            _notes.restore()
