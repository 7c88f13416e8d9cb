"""Deltas to a message: the one assembler that every model's stream goes through. Pure.

It gives each call our own id (`c<round>.<i>`, counted in the order in which the calls began) and
keeps only what is complete: a block that stayed empty and a call without its `CallEnd` are not in
the finished message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentloop_nb.errors import ProviderError
from agentloop_nb.messages import (
    Block,
    Message,
    Opaque,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from agentloop_nb.models.base import (
    CallChunk,
    CallEnd,
    CallStart,
    Finish,
    ModelDelta,
    OpaqueChunk,
    TextChunk,
    ThinkingChunk,
)

_Kind = Literal["text", "thinking", "call"]


@dataclass(slots=True)
class _Slot:
    """One growing block. Pieces are joined once, at the end, so that the cost stays linear."""

    kind: _Kind
    pieces: list[str] = field(default_factory=list)
    opaque: Opaque | None = None
    call_id: str = ""
    name: str = ""
    provider_id: str = ""
    complete: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Assembler:
    """Builds the message of one model call. `provider` is the model's, for `Message.provider`."""

    def __init__(self, round: int, provider: str) -> None:
        self._round = round
        self._provider = provider
        self._slots: dict[int, _Slot] = {}
        self._calls = 0
        self._finish: Finish | None = None

    def feed(self, delta: ModelDelta) -> None:
        """Take one delta. Raises ProviderError (kind `protocol`) where the order makes no sense."""
        if self._finish is not None:
            raise _out_of_order("a delta after the last one")
        match delta:
            case TextChunk(block, text):
                self._slot(block, "text").pieces.append(text)
            case ThinkingChunk(block, text):
                self._slot(block, "thinking").pieces.append(text)
            case OpaqueChunk(block, opaque):
                self._slot(block, None).opaque = opaque
            case CallStart():
                self._start_call(delta)
            case CallChunk(block, text):
                self._call(block).pieces.append(text)
            case CallEnd(block):
                self._call(block).complete = True
            case Finish():
                self._finish = delta

    def call_id(self, block: int) -> str:
        """Our id of the call in `block`, known as soon as the call has started."""
        return self._call(block).call_id

    @property
    def finished(self) -> bool:
        """Whether the terminal delta has come."""
        return self._finish is not None

    @property
    def usage(self) -> Usage:
        """The call's usage; all zero before the terminal delta."""
        return Usage() if self._finish is None else self._finish.usage

    @property
    def cut_names(self) -> tuple[str, ...]:
        """Names of the calls that began and never ended. None of the reply's calls may run then:
        the model meant them together, and the cut one can look whole and lack arguments."""
        slots = (slot for _, slot in sorted(self._slots.items()))
        return tuple(slot.name for slot in slots if slot.kind == "call" and not slot.complete)

    @property
    def cut(self) -> bool:
        """Whether a call was cut."""
        return bool(self.cut_names)

    def finish(self, stop_reason: StopReason | None = None, *, keep_cut: bool = False) -> Message:
        """The finished message. `stop_reason` overrides the model's own; `keep_cut` keeps a cut
        call as one without arguments, so that it can be answered with what became of it.

        Raises ProviderError (kind `protocol`) where the terminal delta has not come.
        """
        if self._finish is None:
            raise _out_of_order("an end of the stream without a last delta")
        reason = stop_reason or self._finish.stop_reason
        blocks = self._blocks(keep_cut=keep_cut)
        return Message("assistant", blocks, self._provider, reason, self._finish.opaque)

    def partial(self, stop_reason: StopReason = "cancelled") -> Message:
        """What has come so far, for a stream that was stopped: text, thinking, complete calls."""
        return Message("assistant", self._blocks(), self._provider, stop_reason)

    def _start_call(self, start: CallStart) -> None:
        if start.block in self._slots:
            raise _out_of_order(f"a second start of block {start.block}")
        call_id = f"c{self._round}.{self._calls}"
        self._calls += 1
        self._slots[start.block] = _Slot(
            "call", call_id=call_id, name=start.name, provider_id=start.provider_id
        )

    def _slot(self, block: int, kind: _Kind | None) -> _Slot:
        # A block that opens with an opaque part alone is thinking that the provider hides.
        slot = self._slots.get(block)
        if slot is None:
            slot = self._slots[block] = _Slot(kind or "thinking")
        if kind is not None and slot.kind != kind:
            raise _out_of_order(f"{kind} in block {block}, which holds {slot.kind}")
        return slot

    def _call(self, block: int) -> _Slot:
        slot = self._slots.get(block)
        if slot is None or slot.kind != "call":
            raise _out_of_order(f"a part of a call in block {block}, where no call has started")
        return slot

    def _blocks(self, *, keep_cut: bool = False) -> tuple[Block, ...]:
        built = (_block(slot, keep_cut) for _, slot in sorted(self._slots.items()))
        return tuple(block for block in built if block is not None)


def _block(slot: _Slot, keep_cut: bool) -> Block | None:
    text = slot.text
    match slot.kind:
        case "text":
            return Text(text) if text else None
        case "thinking":
            return Thinking(text, slot.opaque) if text or slot.opaque else None
        case "call":
            if not slot.complete:
                return (
                    ToolCall(slot.call_id, slot.name, "{}", slot.provider_id) if keep_cut else None
                )
            arguments = text if text.strip() else "{}"
            return ToolCall(slot.call_id, slot.name, arguments, slot.provider_id, slot.opaque)


def _out_of_order(what: str) -> ProviderError:
    return ProviderError(
        f"The model's stream is out of order: {what}. This is a fault of its adapter; "
        "report it with the model's name.",
        kind="protocol",
    )
