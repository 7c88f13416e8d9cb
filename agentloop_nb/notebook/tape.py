"""What a bridge has to send: the runs it shows as one numbered row of events, cut into batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentloop_nb.codec import dumps, page_json
from agentloop_nb.events import AnyEvent, Delta
from agentloop_nb.notebook.packing import continues, pair
from agentloop_nb.ports import Shown

BATCH_BYTES = 256_000
"""Most bytes of one batch, an oversized event apart; well under every front end's own limits."""


class Tape:
    """The logs of the runs shown, as one numbered row of events."""

    def __init__(self, run: Shown) -> None:
        self.runs: list[Shown] = [run]
        self._starts: list[int] = [0]

    def add(self, run: Shown) -> None:
        self._starts.append(len(self))
        self.runs.append(run)

    def __len__(self) -> int:
        """Of a run that was restored from a journal nothing is shown before it goes on: its journal
        may end in a question that nobody asks any more."""
        log = self.runs[-1].log
        return self._starts[-1] + (len(log) if len(log) > log.restored else 0)

    @property
    def live(self) -> bool:
        return not self.runs[-1].log.closed

    def now(self) -> float:
        return self.runs[-1].log.now()

    def since(self, position: int) -> tuple[list[AnyEvent], AnyEvent | None, int]:
        """Events from a position to the end of the run it falls in; the one before them, where it
        is of the same run; and how many of them, from the first, were restored from a journal (the
        page never saw their deltas)."""
        index = max(i for i, start in enumerate(self._starts) if start <= position)
        log, inside = self.runs[index].log, position - self._starts[index]
        events = log.since(max(inside - 1, 0))
        before = events.pop(0) if inside else None
        return events, before, max(log.restored - inside, 0)


def take_batch(
    events: Sequence[AnyEvent], before: AnyEvent | None = None, *, restored: int = 0
) -> tuple[list[dict[str, Any] | list[Any]], int, int]:
    """As many events as fit one batch: their JSON, how many positions they cover, and the bytes.

    The first `restored` of them go whole. Adjacent deltas of one block are merged into one; where
    it goes on with the event before, it goes as a pair. At least one event is taken, so that an
    oversized one gets through alone.
    """
    taken: list[dict[str, Any] | list[Any]] = []
    count = size = 0
    while count < len(events) and size < BATCH_BYTES:
        merged, covered = _merge(events, count, BATCH_BYTES - size)
        told = page_json(merged, whole=count < restored)
        data = pair(told) if continues(merged, before) else told
        length = len(dumps(data).encode())
        if taken and size + length > BATCH_BYTES:
            break
        taken.append(data)
        before = merged
        count += covered
        size += length
    return taken, count, size


def _merge(events: Sequence[AnyEvent], start: int, room: int) -> tuple[AnyEvent, int]:
    """The event at `start` with the deltas that continue it, up to about `room` bytes of text."""
    first = events[start]
    if not isinstance(first, Delta):
        return first, 1
    texts, length, end = [first.text], len(first.text), start + 1
    while end < len(events) and length < room // 4:
        following = events[end]
        if not isinstance(following, Delta) or not continues(following, first):
            break
        texts.append(following.text)
        length += len(following.text)
        end += 1
    if end == start + 1:
        return first, 1
    last = events[end - 1]
    return replace(first, text="".join(texts), upto=last.seq), end - start
