"""How a cell waits: blocking or awaiting, heard by the page, and ended by an interrupt at once.

A blocking cell reads the main shell itself meanwhile. One that awaits keeps the loop turning, since
an interrupt is only noticed when it does. What is private of ipykernel stays in `kernel.py`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from types import FrameType
from typing import Any

import zmq

from agentloop_nb.notebook import kernel

AWAKE_S = 0.05
"""How often a waiting cell's loop turns by itself: an interrupt is noticed only when it does
(measured: 2.4 s late without, 0.03 s with it)."""

_POLL_MS = 500
"""A blocking cell looks up so often even when neither message nor result has woken it."""

_AT_ONCE = 16
"""Messages that a blocking cell handles before it looks at its result and at interrupts again."""


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
    and where `kernel.deaf()` says so, this only waits. On another thread there are no interrupts.
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
    shell = kernel.main_shell()
    poller = zmq.Poller()
    poller.register(bell.hearing, zmq.POLLIN)
    if shell is None:
        while not over():
            poller.poll(_POLL_MS)
        return
    poller.register(shell.socket, zmq.POLLIN)
    with kernel.reading():
        try:
            while not over():
                shell.read(_AT_ONCE)
                poller.poll(_POLL_MS)
        finally:
            # What the poll has seen and nobody has read would wait, unnoticed by the kernel's loop,
            # for the next message to come: a read ends by telling the loop of what is left.
            shell.read(_AT_ONCE)


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
        if kernel.handling():
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
