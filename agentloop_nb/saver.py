"""A cursor that saves: it follows a run's log in a thread of its own, off every event loop.

The loop waits for it before an effect (`durable`). A save that fails is reported once through the
inbox and tried again with the next event; the run goes on, and says that it is not being saved.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

from agentloop_nb.events import (
    AnswerEvent,
    AnyEvent,
    Done,
    MessageEvent,
    QuestionEvent,
    ToolResultEvent,
)
from agentloop_nb.inbox import Inbox, Report
from agentloop_nb.log import EventLog
from agentloop_nb.snapshot import SessionFiles, Stored, journaled
from agentloop_nb.transcript import fold_all

_TRIES = 3
_PAUSE_S = 0.05
"""Between tries of one save: a virus scanner or a sync tool lets go of a file within moments."""


class Saver:
    """Saves one run. `before` is the session as stored when the run begins.

    With `automatic` off nothing is written until `save_now`.
    """

    def __init__(
        self, log: EventLog, inbox: Inbox, files: SessionFiles, before: Stored, *, automatic: bool
    ) -> None:
        self._log = log
        self._inbox = inbox
        self._files = files
        self._automatic = automatic
        self.stored = before
        self._journaled = self._position = log.restored
        self._snapshot_due = False
        self._wake = threading.Event()
        self._saving = threading.Lock()  # held during a save, so never taken on a loop's thread
        self._lock = threading.Lock()  # guards what follows, held for moments
        self._ended = False
        self._waiting: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._told_file = self._told_failure = False
        self._thread: threading.Thread | None = None
        if automatic:
            log.on_append(self._wake.set)
            self._thread = threading.Thread(
                target=self._follow, name="agentloop saver", daemon=True
            )
            self._thread.start()

    async def durable(self) -> None:
        """See `ports.Checkpoint`."""
        if not self._automatic:
            return
        target = len(self._log)
        loop = asyncio.get_running_loop()
        saved: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self._position >= target or self._ended:
                return
            self._waiting.append((target, loop, saved))
        self._wake.set()
        await saved

    @property
    def path(self) -> Path:
        """The snapshot's."""
        return self._files.snapshot

    def save_now(self) -> None:
        """Write the journal and the snapshot as of now. Raises OSError."""
        with self._saving:
            self._snapshot_due = True
            self._save()

    def _follow(self) -> None:
        """Until `done` is on disk, or the disk had its chances."""
        while not self._ended:
            self._wake.wait()
            self._wake.clear()
            ending = self._log.closed
            self._try_to_save()
            self._release(last=ending)

    def _try_to_save(self) -> None:
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._saving:
                    self._save()
                return
            except OSError as error:
                if not tries_left:
                    advice = f"Free the place or make {self._files.folder} writable."
                    self._report_failure(f"{error}", advice)
            except Exception as error:  # what no disk mends; whoever waits must not wait for ever
                advice = "This is a fault of agentloop_nb; report it with these words."
                self._report_failure(f"{type(error).__name__}: {error}", advice)
                return
            threading.Event().wait(_PAUSE_S)

    def _save(self) -> None:
        """Journal what is new, then write a snapshot where one is due; each is done once, so that
        a second try after a failure repeats nothing."""
        events = self._log.since(self._journaled)
        self._snapshot_due |= any(map(_worth_a_snapshot, events))
        if lines := journaled(events):
            size, started = self._files.append(lines)
            run_bytes = self.stored.run_bytes if started is None else started
            self.stored = Stored(fold_all(self.stored.state, lines), (), run_bytes, size)
        self._journaled += len(events)
        if self._snapshot_due:
            stored = self.stored
            self._files.write_snapshot(stored.state, stored.run_bytes, stored.journal_bytes)
            self._snapshot_due = False
        with self._lock:
            self._position = self._journaled
        if lines and not self._told_file:
            self._told_file = True
            self._inbox.post(Report(file=str(self._files.snapshot)))

    def _release(self, *, last: bool) -> None:
        """Wake who waited for what is on disk now, or could not be put there."""
        give_up = last or self._told_failure
        with self._lock:
            self._ended = last
            waiting, self._waiting = self._waiting, []
            for entry in waiting:
                target, loop, saved = entry
                if self._position < target and not give_up:
                    self._waiting.append(entry)
                    self._wake.set()
                    continue
                with suppress(RuntimeError):  # its loop has closed
                    loop.call_soon_threadsafe(_settle, saved)

    def _report_failure(self, what: str, advice: str) -> None:
        if not self._told_failure:
            self._told_failure = True
            self._inbox.post(
                Report(
                    f"This run is not being saved: {what}. It goes on, but a crash would lose it. "
                    f"{advice}"
                )
            )


def _settle(saved: asyncio.Future[None]) -> None:
    if not saved.done():
        saved.set_result(None)


def _worth_a_snapshot(event: AnyEvent) -> bool:
    """The moments of the default strategy: a reply with calls is complete, a call is answered, a
    question opens or is answered, the end."""
    if isinstance(event, MessageEvent):
        return bool(event.message.calls)
    return isinstance(event, ToolResultEvent | QuestionEvent | AnswerEvent | Done)
