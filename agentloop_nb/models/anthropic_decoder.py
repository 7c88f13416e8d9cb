"""Messages API events to deltas: the decoder of `anthropic.py`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agentloop_nb.errors import StreamCut
from agentloop_nb.messages import Opaque, StopReason, Usage
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
from agentloop_nb.models.failures import from_body
from agentloop_nb.models.wire import Halves, WireEvent, compact, count_in, part_of, text_in

PROVIDER = "anthropic"

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "pause_turn": "pause_turn",
    "refusal": "refusal",
}


@dataclass(slots=True)
class _Open:
    """A content block that has begun. `head` is the object that it began with."""

    block: int
    kind: str
    head: dict[str, Any]
    signature: str = ""
    pieces: list[str] = field(default_factory=list)


class AnthropicDecoder:
    """Messages API events to deltas; one object per stream."""

    def __init__(self) -> None:
        self._open: dict[Any, _Open] = {}
        self._count = 0
        self._ended_call: int | None = None
        self._halves = Halves()
        self._usage: dict[str, int] = {}
        self._stop_reason: StopReason = "unknown"
        self._finished = False

    def feed(self, event: WireEvent) -> Iterable[ModelDelta]:
        """The deltas of one event. Raises ProviderError for an `error` event."""
        if self._finished:
            return ()
        match event.get("type"):
            case "content_block_delta":
                return self._block_delta(event)
            case "message_start":
                self._count_tokens(part_of(event.get("message"), "usage"))
            case "content_block_start":
                return self._block_start(event)
            case "content_block_stop":
                return self._block_stop(event)
            case "message_delta":
                return self._message_delta(event)
            case "message_stop":
                return self._message_stop()
            case "error":
                raise from_body(part_of(event, "error"), "Anthropic")
            case _:  # pings, and what the API may add
                pass
        return ()

    def close(self) -> Iterator[ModelDelta]:
        """Nothing is ever left; raises StreamCut where `message_stop` did not come."""
        if not self._finished:
            raise StreamCut("Anthropic")
        return iter(())

    def _block_start(self, event: WireEvent) -> Iterator[ModelDelta]:
        yield from self._release_call()
        head = dict(part_of(event, "content_block"))
        opened = _Open(self._count, text_in(head, "type"), head, text_in(head, "signature"))
        self._count += 1
        self._open[event.get("index")] = opened
        match opened.kind:
            case "text":
                yield from self._text(opened, text_in(head, "text"))
            case "thinking":
                yield from self._thinking(opened, text_in(head, "thinking"))
            case "tool_use":
                yield CallStart(opened.block, text_in(head, "name"), text_in(head, "id"))
            case _:
                pass

    def _block_delta(self, event: WireEvent) -> Iterable[ModelDelta]:
        delta = part_of(event, "delta")
        opened = self._open.get(event.get("index")) or self._unstarted(event, delta)
        if opened is None:
            return ()
        match delta.get("type"):
            case "text_delta":
                return self._text(opened, text_in(delta, "text"))
            case "thinking_delta":
                return self._thinking(opened, text_in(delta, "thinking"))
            case "signature_delta":
                opened.signature = text_in(delta, "signature")
            case "input_json_delta":
                return self._arguments(opened, text_in(delta, "partial_json"))
            case _:
                pass
        return ()

    def _unstarted(self, event: WireEvent, delta: WireEvent) -> _Open | None:
        """A block whose start never came, where its first delta says what it is."""
        kind = {"text_delta": "text", "thinking_delta": "thinking"}.get(text_in(delta, "type"))
        if kind is None:
            return None
        opened = self._open[event.get("index")] = _Open(self._count, kind, {"type": kind})
        self._count += 1
        return opened

    def _block_stop(self, event: WireEvent) -> Iterator[ModelDelta]:
        opened = self._open.pop(event.get("index"), None)
        if opened is None:
            return
        match opened.kind:
            case "text":
                pass
            case "thinking":
                if opened.signature:
                    own = {"type": "thinking", "signature": opened.signature}
                    yield OpaqueChunk(opened.block, Opaque(PROVIDER, compact(own)))
            case "tool_use":
                yield from self._call_stop(opened)
            case _:
                yield OpaqueChunk(opened.block, Opaque(PROVIDER, compact(_whole(opened))))

    def _call_stop(self, opened: _Open) -> Iterator[ModelDelta]:
        begun_with = opened.head.get("input")
        if begun_with and not opened.pieces:
            yield CallChunk(opened.block, compact(begun_with))
        rest = {k: v for k, v in opened.head.items() if k not in ("type", "id", "name", "input")}
        if rest:
            yield OpaqueChunk(opened.block, Opaque(PROVIDER, compact(rest)))
        self._ended_call = opened.block

    def _release_call(self) -> Iterator[ModelDelta]:
        # The API also ends the block of a call that the token limit cut, so the end of the last
        # call counts only once something else than that limit has followed it.
        if self._ended_call is not None:
            yield CallEnd(self._ended_call)
            self._ended_call = None

    def _message_delta(self, event: WireEvent) -> Iterator[ModelDelta]:
        self._count_tokens(part_of(event, "usage"))
        reason = text_in(part_of(event, "delta"), "stop_reason")
        if reason:
            self._stop_reason = _STOP_REASONS.get(reason, "unknown")
            if self._stop_reason not in ("max_tokens", "refusal"):
                yield from self._release_call()

    def _message_stop(self) -> Iterator[ModelDelta]:
        self._finished = True
        if self._stop_reason not in ("max_tokens", "refusal"):
            yield from self._release_call()
        counts = self._usage
        read = counts.get("cache_read_input_tokens", 0)
        written = counts.get("cache_creation_input_tokens", 0)
        total = counts.get("input_tokens", 0) + read + written
        yield Finish(self._stop_reason, Usage(total, counts.get("output_tokens", 0), read, written))

    def _count_tokens(self, usage: WireEvent) -> None:
        """Take the counts over: every one the API sends is cumulative, so none is ever added."""
        for key in (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ):
            count = count_in(usage, key)
            if count:
                self._usage[key] = count

    def _text(self, opened: _Open, text: str) -> Iterable[ModelDelta]:
        text = self._halves.whole(opened.block, text)
        return (TextChunk(opened.block, text),) if text else ()

    def _thinking(self, opened: _Open, text: str) -> Iterable[ModelDelta]:
        text = self._halves.whole(opened.block, text)
        return (ThinkingChunk(opened.block, text),) if text else ()

    def _arguments(self, opened: _Open, text: str) -> Iterable[ModelDelta]:
        if not text:
            return ()
        opened.pieces.append(text)
        if opened.kind != "tool_use":
            return ()
        text = self._halves.whole(opened.block, text)
        return (CallChunk(opened.block, text),) if text else ()


def _whole(opened: _Open) -> dict[str, Any]:
    """A block of a kind that we only hand back (redacted thinking, a server's tools), whole."""
    if not opened.pieces:
        return opened.head
    try:
        return opened.head | {"input": json.loads("".join(opened.pieces))}
    except ValueError:
        return opened.head
