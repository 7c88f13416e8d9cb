"""The output of one call on its way to the run's loop: gathered from any thread, sent in order.

A tool may print a line at a time a million times. So pieces are merged and sent at most every
50 ms, and what one call may print has an end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from agentloop_nb.tools.capture import OutputStream

OnOutput = Callable[[OutputStream, str, float | None], None]
"""Gets (stream, text, fraction); `fraction` is 0 to 1 for "progress" and None otherwise."""

INTERVAL_S = 0.05
GATHER_S = 0.005
"""How long the first piece waits for the next: `print` writes a text and its newline apart."""
MAX_OUTPUT_CHARS = 1_000_000
"""Most characters that one call may print; the rest is dropped, and that is said once."""


class CallOutput:
    """A call's sink. `emit` is called on the loop that made this, never after `close`."""

    def __init__(self, emit: OnOutput) -> None:
        self._loop = asyncio.get_running_loop()
        self._emit = emit
        self._lock = threading.RLock()  # a signal's handler may print, too
        self._pieces: list[tuple[OutputStream, list[str], float | None]] = []
        self._room = MAX_OUTPUT_CHARS
        self._waiting = False
        self._sent_at = -INTERVAL_S
        self._state = "open"

    @property
    def open(self) -> bool:
        """False when the call is over and its output belongs to whoever shows it now. A call
        that was given up stays open: what its thread still prints is dropped."""
        return self._state != "ended"

    def write(self, stream: OutputStream, text: str) -> None:
        with self._lock:
            if not text or self._state != "open" or self._room < 0:
                return
            if len(text) > self._room:
                text = text[: self._room]
                text += f"\n[more than {MAX_OUTPUT_CHARS} characters were printed: cut here]\n"
                self._room = -1
            else:
                self._room -= len(text)
            if self._pieces and self._pieces[-1][0] == stream:
                self._pieces[-1][1].append(text)
            else:
                self._pieces.append((stream, [text], None))
            self._wake()

    def progress(self, fraction: float, text: str) -> None:
        with self._lock:
            if self._state != "open":
                return
            if self._pieces and self._pieces[-1][0] == "progress":
                self._pieces.pop()
            self._pieces.append(("progress", [text], fraction))
            self._wake()

    def close(self, *, given_up: bool = False) -> None:
        """Send what is left. Called on the loop. `given_up`: the call may still be running."""
        with self._lock:
            self._state = "given up" if given_up else "ended"
        self._flush()

    def _wake(self) -> None:
        if self._waiting:
            return
        self._waiting = True
        try:
            self._loop.call_soon_threadsafe(self._schedule)
        except RuntimeError:
            self._state = "given up"  # the loop is closed, so nobody is left to show it

    def _schedule(self) -> None:
        due = max(self._loop.time() + GATHER_S, self._sent_at + INTERVAL_S)
        self._loop.call_at(due, self._flush)

    def _flush(self) -> None:
        with self._lock:
            pieces, self._pieces = self._pieces, []
            self._waiting = False
        self._sent_at = self._loop.time()
        for stream, texts, fraction in pieces:
            self._emit(stream, "".join(texts), fraction)
