"""How a batch travels: as a row without names, and in it what goes on with a text as mere pairs.

A batch leaves forty times a second, so what stands around its text counts: with names and whole
events, a fast stream would cost three bytes for each one of text. `protocol.ts` reads it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentloop_nb.events import AnyEvent, Delta

ROW = ("client", "epoch", "from", "to", "now", "events")
Content = dict[str, Any]


def pack(message: Content) -> Content | list[Any]:
    """What the bridge sends, as it travels."""
    return [message[name] for name in ROW] if message["type"] == "batch" else message


def unpack(content: Any) -> Content:
    """What the bridge sent."""
    return {"type": "batch", **dict(zip(ROW, content, strict=True))} if _row(content) else content


def _row(content: Any) -> bool:
    return isinstance(content, list) and len(content) == len(ROW)


def continues(event: AnyEvent, before: AnyEvent | None) -> bool:
    """Whether an event only adds to the text of the one just before it on the tape."""
    return (
        isinstance(event, Delta)
        and isinstance(before, Delta)
        and (block_of(event) == block_of(before))
    )


def block_of(delta: Delta) -> tuple[object, ...]:
    """What adjacent deltas have in common that may be merged."""
    return (type(delta), delta.path, delta.round, delta.attempt, delta.block)


def pair(data: Content) -> list[Any]:
    """The JSON of a delta that continues, as it travels: its time and its text."""
    return [data["t"], data["text"]]


def whole(events: list[Any], before: Content | None) -> Iterator[Content]:
    """The events of a batch. `before` is the one that came before them; of a pair's `seq`, `at` and
    `upto`, which no page uses, nothing is known."""
    for event in events:
        if isinstance(event, list):
            assert before is not None, "a pair continues something"
            event = {**before, "t": event[0], "text": event[1]}
        before = event
        yield event
