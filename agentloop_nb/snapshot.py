"""Sessions on disk: an append-only journal, and a snapshot that shortens reading it.

`<session>.jsonl` has a header line and then one line per event that is no delta, flushed to disk
in the order things happened. `<session>.json` is the folded state with a header that says how far
into the journal it reaches; it is written to a `.tmp` and renamed. A line is only as good as its
newline: one cut by a crash is dropped, and what it told is not yet true.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from agentloop_nb.codec import (
    FORMAT_VERSION,
    dumps,
    event_from_json,
    event_to_json,
    from_json,
    to_json,
)
from agentloop_nb.errors import SessionBusy, StoredDataError, UsageError
from agentloop_nb.events import AnyEvent, Delta, RunStart
from agentloop_nb.transcript import SessionState, fold

_JOURNAL = "agentloop_nb.journal"
_SNAPSHOT = "agentloop_nb.snapshot"
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Stored:
    """What a session's files say. `events` are its last run's, in order, without deltas;
    `run_bytes` is where in the journal they begin and `journal_bytes` where it ends."""

    state: SessionState
    events: tuple[AnyEvent, ...]
    run_bytes: int
    journal_bytes: int


class SessionFiles:
    """The two files of one session and its lock. All methods block; none is for an event loop's
    thread but `load` and `claim`, once, at the start."""

    def __init__(self, folder: Path, session_id: str) -> None:
        if not _SESSION_ID.fullmatch(str(session_id)):
            raise UsageError(
                f"{session_id!r} is no session id: letters, digits, - and _, at most 64 of them."
            )
        self.session_id = session_id
        self.folder = folder
        self.journal = folder / f"{session_id}.jsonl"
        self.snapshot = folder / f"{session_id}.json"
        self._lock: BinaryIO | None = None

    def keep_result(self, text: str) -> str:
        """Put a long result of a tool into `results/`, by its content, and say where it lies:
        from the working directory, where it is below that. Raises OSError."""
        name = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
        path = self.folder / "results" / f"{name}.txt"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_suffix(f".{os.getpid()}.tmp")
            half.write_text(text, "utf-8", "replace")
            half.replace(path)
        with suppress(ValueError):
            return str(path.relative_to(Path.cwd()))
        return str(path)

    # -- reading

    def load(self) -> Stored:
        """The session as stored. Raises UsageError where there is none of this id, and
        StoredDataError, with the file and what to do, where it cannot be read."""
        if not self.journal.exists() and not self.snapshot.exists():
            raise UsageError(
                f"No session {self.session_id!r} in {self.folder}. "
                f"Saved here: {', '.join(session_ids(self.folder)) or 'none'}."
            )
        state, run_bytes, start = self._load_snapshot()
        return self._read_journal(state, run_bytes, start)

    def _load_snapshot(self) -> tuple[SessionState, int, int]:
        if not self.snapshot.exists():
            return SessionState(), 0, 0
        advice = (
            f"The journal {self.journal.name} beside it holds the whole session: move "
            f"{self.snapshot.name} away and call again, and it is rebuilt from there."
        )
        try:
            data = json.loads(self.snapshot.read_text("utf-8"))
        except ValueError as error:
            raise StoredDataError(f"{self.snapshot} is not JSON ({error}). {advice}") from error
        if not isinstance(data, dict) or data.get("format") != _SNAPSHOT:
            raise StoredDataError(f"{self.snapshot} is not a snapshot of ours. {advice}")
        _check_version(data, self.snapshot)
        try:
            state = from_json(SessionState, data["state"])
            return state, int(data["run_bytes"]), int(data["journal_bytes"])
        except (KeyError, TypeError, ValueError, StoredDataError) as error:
            raise StoredDataError(f"{self.snapshot} is damaged: {error}. {advice}") from error

    def _read_journal(self, state: SessionState, run_bytes: int, start: int) -> Stored:
        if not self.journal.exists():
            return Stored(state, (), 0, 0)
        if self.journal.stat().st_size < start:
            raise StoredDataError(
                f"{self.journal} is shorter than {self.snapshot.name} says: it was cut or "
                f"replaced. Move {self.journal.name} away to go on from the snapshot, which holds "
                "the whole history, or move the snapshot away to go on from what the journal has."
            )
        events: list[AnyEvent] = []
        end = run_bytes
        for begins, ends, event in self._lines(run_bytes):
            end = ends
            if isinstance(event, RunStart):
                events, run_bytes = [], begins
            if event is not None:
                events.append(event)
                if begins >= start:
                    state = fold(state, event)
        return Stored(state, tuple(events), run_bytes, end)

    def _lines(self, position: int) -> Iterator[tuple[int, int, AnyEvent | None]]:
        """(begin, end, event) of each whole line from a byte position on; None for the header."""
        with self.journal.open("rb") as file:
            file.seek(position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                begins, position = position, position + len(line)
                yield begins, position, self._event(line, begins)

    def _event(self, line: bytes, begins: int) -> AnyEvent | None:
        try:
            data = json.loads(line)
            if isinstance(data, dict) and data.get("format") == _JOURNAL:
                _check_version(data, self.journal)
                return None
            if not isinstance(data, dict):
                raise StoredDataError("not an event.")
            return event_from_json(data)
        except (ValueError, StoredDataError) as error:
            raise StoredDataError(
                f"{self.journal} cannot be read at byte {begins}: {error} "
                "Restore the file from a copy, or cut it off at that byte to go back to there."
            ) from error

    # -- writing

    def append(self, events: Iterable[AnyEvent]) -> tuple[int, int | None]:
        """Write events to the journal and flush it to the disk.

        Returns its new length in bytes and where the last `run_start` among the events begins,
        None where there was none. A cut last line is taken off first. Raises OSError.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        run_bytes = None
        with self.journal.open("a+b") as file:
            self._mend_end(file)
            begin = file.tell()
            try:
                for event in events:
                    if isinstance(event, RunStart):
                        run_bytes = file.tell()
                    file.write(_line(event_to_json(event)))
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    file.truncate(begin)  # all of it or nothing: the next try writes it all again
                raise
            return file.tell(), run_bytes

    def _mend_end(self, file: BinaryIO) -> None:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            header = {"format": _JOURNAL, "version": FORMAT_VERSION, "session_id": self.session_id}
            file.write(_line(header))
            return
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)

    def write_snapshot(self, state: SessionState, run_bytes: int, journal_bytes: int) -> None:
        """Replace the snapshot; the old one stays until the new one is whole. Raises OSError."""
        data = {
            "format": _SNAPSHOT,
            "version": FORMAT_VERSION,
            "session_id": self.session_id,
            "journal_bytes": journal_bytes,
            "run_bytes": run_bytes,
            "state": to_json(state),
        }
        temporary = self.snapshot.with_suffix(".json.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(dumps(data))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.snapshot)
        finally:
            with suppress(OSError):
                temporary.unlink()

    # -- one live run per session, on this machine

    def claim(self) -> None:
        """Hold the session until `release` or the end of the process, whichever is first.

        Raises SessionBusy where another kernel holds it. A folder that cannot be written is no
        reason to refuse a run: saving will say so.
        """
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = self._lock_path.open("a+b")
        if self._lock is not None and not _try_lock(self._lock):
            self._lock.close()
            self._lock = None
            raise SessionBusy(
                f"Session {self.session_id} is live in another kernel. Stop it there, or shut "
                "that kernel down, and call again."
            )

    def live_somewhere(self) -> bool:
        """Whether some process, this one included, holds the session; it creates nothing."""
        try:
            file = self._lock_path.open("r+b")
        except OSError:
            return False
        with file:  # closing it drops what the try may have taken
            return not _try_lock(file)

    @property
    def _lock_path(self) -> Path:
        return self.folder / f".{self.session_id}.lock"

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def session_ids(folder: Path) -> list[str]:
    """The sessions saved in a folder, oldest first by when they were last written."""
    if not folder.is_dir():
        return []
    newest: dict[str, float] = {}
    for path in (*folder.glob("*.jsonl"), *folder.glob("*.json")):
        newest[path.stem] = max(newest.get(path.stem, 0.0), path.stat().st_mtime)
    return sorted(newest, key=lambda name: (newest[name], name))


def journaled(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The events that a journal keeps: all but deltas, whose text comes with their message."""
    return [event for event in events if not isinstance(event, Delta)]


def _line(data: dict[str, Any]) -> bytes:
    return dumps(data).encode() + b"\n"


def _check_version(data: dict[str, Any], path: Path) -> None:
    if data.get("version") != FORMAT_VERSION:
        raise StoredDataError(
            f"{path} has format version {data.get('version')!r}; this agentloop_nb reads "
            f"{FORMAT_VERSION}. Update the package to read it."
        )


def _try_lock(file: BinaryIO) -> bool:
    """Whether this process got the lock. The operating system drops it with the process."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system: no lock, and two kernels can meet in a session
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
