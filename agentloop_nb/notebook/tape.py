"""What a bridge has to send: the runs it shows as one numbered row of events, cut into batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentloop_nb.codec import dumps, page_json
from agentloop_nb.events import AnyEvent, Delta
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

    def since(self, position: int) -> tuple[list[AnyEvent], int]:
        """Events from a position to the end of the run it falls in, and how many of them, from the
        first, were restored from a journal (the page never saw their deltas)."""
        index = max(i for i, start in enumerate(self._starts) if start <= position)
        log, inside = self.runs[index].log, position - self._starts[index]
        return log.since(inside), max(log.restored - inside, 0)


LEFT_OUT: dict[str, Any] = {"seq": 0, "at": 0, "path": [], "attempt": 0, "block": 0, "upto": None}
"""What a delta goes without: no page uses the first two and the last, and the others mostly have
this value, which `protocol.ts` fills in. A thousand deltas a second are two bytes for each one of
text otherwise."""
_UNUSED = ("seq", "at", "upto")


def lean(data: dict[str, Any]) -> dict[str, Any]:
    """A delta's JSON as it travels; any other event's as it is."""
    if data["type"] not in ("text_delta", "thinking"):
        return data
    return {
        key: value
        for key, value in data.items()
        if key not in _UNUSED and (key not in LEFT_OUT or value != LEFT_OUT[key])
    }


def take_batch(
    events: Sequence[AnyEvent], *, restored: int = 0
) -> tuple[list[dict[str, Any]], int, int]:
    """As many events as fit one batch: their JSON, how many positions they cover, and the bytes.

    The first `restored` of them go whole. Adjacent deltas of one block are merged into one. At
    least one event is taken, so that an oversized one gets through alone.
    """
    taken: list[dict[str, Any]] = []
    count = size = 0
    while count < len(events) and size < BATCH_BYTES:
        merged, covered = _merge(events, count, BATCH_BYTES - size)
        data = lean(page_json(merged, whole=count < restored))
        length = len(dumps(data).encode())
        if taken and size + length > BATCH_BYTES:
            break
        taken.append(data)
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
        if not isinstance(following, Delta) or _block(following) != _block(first):
            break
        texts.append(following.text)
        length += len(following.text)
        end += 1
    if end == start + 1:
        return first, 1
    last = events[end - 1]
    return replace(first, text="".join(texts), upto=last.seq), end - start


def _block(delta: Delta) -> tuple[object, ...]:
    return (type(delta), delta.path, delta.round, delta.attempt, delta.block)
