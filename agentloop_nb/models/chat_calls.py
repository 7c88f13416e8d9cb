"""Which call a piece of a Chat Completions stream belongs to. Pure.

By the API every piece has an index and the first also an id and the name. Compatible servers leave
any of these out, repeat them, or reuse an index for the next call; what decides here, in this
order, is the id, the index, and whether the piece can still belong to the latest call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from agentloop_nb.errors import ProviderError
from agentloop_nb.models.base import CallChunk, CallEnd, CallStart, ModelDelta
from agentloop_nb.models.wire import Halves, WireEvent, compact, count_in, part_of, text_in


@dataclass(slots=True)
class _Slot:
    block: int
    id: str = ""
    index: int | None = None
    name: str = ""
    started: bool = False
    waiting: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def is_whole(self) -> bool:
        """Whether the arguments so far are an object: more of them would be another call's."""
        text = "".join(self.pieces)
        try:
            return text.rstrip().endswith("}") and isinstance(json.loads(text), dict)
        except ValueError:
            return False


class CallSlots:
    """The calls of one reply. `next_block` numbers a new one among the reply's blocks."""

    def __init__(self, next_block: Callable[[], int]) -> None:
        self._next_block = next_block
        self._slots: list[_Slot] = []
        self._by_id: dict[str, _Slot] = {}
        self._by_index: dict[int, _Slot] = {}
        self._latest: _Slot | None = None
        self._halves = Halves()

    @property
    def any(self) -> bool:
        return bool(self._slots)

    def feed(self, piece: WireEvent) -> Iterator[ModelDelta]:
        """The deltas of one entry of `delta.tool_calls`."""
        function = part_of(piece, "function")
        name, arguments = text_in(function, "name"), _arguments(function.get("arguments"))
        slot = self._slot_for(text_in(piece, "id"), count_in(piece, "index"), name, arguments)
        self._latest = slot
        if name and name != slot.name and not slot.started:
            slot.name += name
        if arguments:
            slot.pieces.append(arguments)
            slot.waiting.append(arguments)
        if slot.pieces and slot.name:
            yield from self._flush(slot)

    def finish(self, *, last_is_cut: bool) -> Iterator[ModelDelta]:
        """The ends of the calls, but for the one that was being written when the reply was cut.

        Raises ProviderError (kind `protocol`) for a call that never got a name.
        """
        for slot in self._slots:
            cut = last_is_cut and slot is self._latest
            if not slot.name and not cut:
                raise ProviderError(
                    "The server sent a tool call without a name. Run the prompt again; if it "
                    "keeps happening, look at the server's template for tool calls.",
                    kind="protocol",
                )
            if slot.name:
                yield from self._flush(slot)
                if not cut:
                    yield CallEnd(slot.block)

    def _flush(self, slot: _Slot) -> Iterator[ModelDelta]:
        # A name may come in pieces, so a call starts with its first argument or at the end.
        if not slot.started:
            slot.started = True
            yield CallStart(slot.block, slot.name, slot.id)
        text = self._halves.whole(slot.block, "".join(slot.waiting))
        slot.waiting.clear()
        if text:
            yield CallChunk(slot.block, text)

    def _slot_for(self, id: str, index: int | None, name: str, arguments: str) -> _Slot:
        at_index = None if index is None else self._by_index.get(index)
        if id:
            slot = self._by_id.get(id)
            if slot is not None and index in (None, slot.index):
                return slot
            slot = at_index if index is not None else self._latest
            late = slot is not None and not slot.id and (index is not None or not name)
            if slot is None or not late:
                return self._open(id, index)
            slot.id = id
            self._by_id[id] = slot
            return slot
        slot = at_index if index is not None else self._latest
        if slot is None or _begins_another(slot, index, name, arguments):
            return self._open(id, index)
        return slot

    def _open(self, id: str, index: int | None) -> _Slot:
        slot = _Slot(self._next_block(), id, index)
        self._slots.append(slot)
        if id:
            self._by_id[id] = slot
        if index is not None:
            self._by_index[index] = slot
        return slot


def _begins_another(slot: _Slot, index: int | None, name: str, arguments: str) -> bool:
    """Whether a piece without an id is the first of a new call, and not more of `slot`'s."""
    if not name:
        return False
    if name != slot.name:  # before the arguments, and at its index, it can be more of the name
        return bool(slot.pieces) or index is None
    return arguments.lstrip().startswith("{") and slot.is_whole()


def _arguments(value: object) -> str:
    """Arguments as JSON text; some servers send the object itself, or None for none."""
    if isinstance(value, dict):
        return compact(value)
    return value if isinstance(value, str) else ""
