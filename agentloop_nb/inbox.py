"""The one door back into a run: a closed union of messages, posted from any thread.

`post` only puts a letter down and rings; the run's loop reads. Each letter carries a way to tell
its sender what became of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from agentloop_nb.log import Bell
from agentloop_nb.questions import Decision

ENDED = "The run has ended."


@dataclass(frozen=True, slots=True)
class Say:
    """A person adds something; the model sees it with its next request."""

    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A person decides calls of an open question, all of them or some."""

    question_id: str
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run, or with `call_id` that one tool call."""

    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class RetryNow:
    """A person does not want to wait any longer for a provider that failed."""


@dataclass(frozen=True, slots=True)
class Report:
    """A cursor has something to tell the person: a save failed, say. `file` is where the first
    save of this run went; a report with one is good news."""

    message: str = ""
    file: str = ""


Message = Say | Answer | Stop | RetryNow | Report
Settle = Callable[[bool, str], None]
"""Hears once whether a message was taken, and why not. Called on the run's loop."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on its way."""

    message: Message
    settle: Settle


def _nobody_asks(ok: bool, why: str) -> None:
    pass


class Inbox:
    """Letters for one run. `stopping` holds from the moment a Stop is posted, on any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._bell = Bell(loop)
        self._letters: deque[Letter] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self.stopping = threading.Event()

    def post(self, message: Message, settle: Settle = _nobody_asks) -> None:
        """Put a message down; never blocks. After the run's end `settle` hears so at once."""
        letter = Letter(message, settle)
        with self._lock:
            if not self._closed:
                self._letters.append(letter)
                if isinstance(message, Stop) and message.call_id is None:
                    self.stopping.set()
                self._bell.ring()
                return
        settle(False, ENDED)

    def take(self) -> list[Letter]:
        """All letters that have come, oldest first."""
        self._bell.clear()
        with self._lock:
            letters = list(self._letters)
            self._letters.clear()
        return letters

    async def wait(self) -> None:
        """Until there may be a letter."""
        await self._bell.wait()

    def close(self) -> None:
        """Take no more letters; those left are told that the run has ended."""
        with self._lock:
            self._closed = True
        for letter in self.take():
            letter.settle(False, ENDED)
