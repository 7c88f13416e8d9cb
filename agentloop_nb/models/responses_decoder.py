"""Responses API events to deltas: the decoder of `openai_responses.py`. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

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

PROVIDER = "openai"

FORGOTTEN = "previous_response_not_found"

_INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
}


@dataclass(slots=True)
class _Part:
    """One content part of a message item: a block of ours. A blank one will not be sent again."""

    block: int
    kind: Literal["output_text", "refusal"]
    seen: bool = False
    blank: bool = True


@dataclass(slots=True)
class _Item:
    """An output item that has begun."""

    kind: str
    block: int | None = None
    parts: dict[int, _Part] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)
    seen: bool = False
    summary: int | None = None


class ResponsesDecoder:
    """One object per stream. A reasoning item is kept whole beside its thinking, a call's item
    beside its call, and the heads of message items (id, phase) beside the whole reply, with the
    response's id where the server stores it. `after` is the digest of what it answers;
    `on_forgotten` hears that the server does not hold what it was to go on from."""

    def __init__(self, after: str = "", on_forgotten: Callable[[], None] = lambda: None) -> None:
        self._after = after
        self._on_forgotten = on_forgotten
        self._said: dict[int, list[str]] = {}
        self._items: dict[Any, _Item] = {}
        self._count = 0
        self._called = False
        self._refused = False
        self._ended_call: int | None = None
        self._halves = Halves()
        self._finished = False

    def feed(self, event: WireEvent) -> Iterator[ModelDelta]:
        """The deltas of one event. Raises ProviderError for `error` and `response.failed`."""
        if self._finished:
            return
        match event.get("type"):
            case "response.output_item.added":
                yield from self._item_added(event)
            case "response.output_text.delta":
                yield from self._text(event, "output_text", text_in(event, "delta"))
            case "response.refusal.delta":
                yield from self._text(event, "refusal", text_in(event, "delta"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._thinking(event)
            case "response.function_call_arguments.delta":
                yield from self._arguments(self._item(event), text_in(event, "delta"))
            case "response.output_item.done":
                yield from self._item_done(event)
            case "response.completed" | "response.incomplete":
                yield from self._finish(part_of(event, "response"))
            case "response.failed" | "error":
                error = _error_of(event)
                if error.get("code") == FORGOTTEN:
                    self._on_forgotten()
                raise from_body(error, "OpenAI")
            case None if event.get("error"):  # a server that does not say what it is
                raise from_body(part_of(event, "error"), "OpenAI")
            case _:  # the many we do not need, and what the API may add
                pass

    def close(self) -> Iterator[ModelDelta]:
        """Nothing is ever left; raises StreamCut where no terminal event came."""
        if not self._finished:
            raise StreamCut("OpenAI")
        return iter(())

    def _item(self, event: WireEvent) -> _Item:
        return self._items.setdefault(event.get("output_index"), _Item(""))

    def _item_added(self, event: WireEvent) -> Iterator[ModelDelta]:
        yield from self._release_call()
        yield from self._begin(event.get("output_index"), part_of(event, "item"))

    def _begin(self, index: object, wire: WireEvent) -> Iterator[ModelDelta]:
        item = _Item(text_in(wire, "type"))
        self._items[index] = item
        if item.kind == "message":
            return  # its blocks are its parts
        item.block = self._next_block()
        if item.kind == "function_call":
            self._called = True
            yield CallStart(item.block, text_in(wire, "name"), text_in(wire, "call_id"))
            yield from self._arguments(item, text_in(wire, "arguments"))

    def _text(
        self, event: WireEvent, kind: Literal["output_text", "refusal"], text: str
    ) -> Iterator[ModelDelta]:
        part = self._part(self._item(event), count_in(event, "content_index") or 0, kind)
        yield from self._write(part, text)

    def _write(self, part: _Part, text: str) -> Iterator[ModelDelta]:
        if text := self._halves.whole(part.block, text):
            part.seen = True
            part.blank = part.blank and not text.strip()
            self._said.setdefault(part.block, []).append(text)
            yield TextChunk(part.block, text)

    def _part(self, item: _Item, index: int, kind: Literal["output_text", "refusal"]) -> _Part:
        if index not in item.parts:
            item.parts[index] = _Part(self._next_block(), kind)
            self._refused = self._refused or kind == "refusal"
        return item.parts[index]

    def _thinking(self, event: WireEvent) -> Iterator[ModelDelta]:
        item = self._item(event)
        if item.block is None:
            item.block = self._next_block()
        text = self._halves.whole(item.block, text_in(event, "delta"))
        part = count_in(event, "summary_index")
        if item.seen and part != item.summary:
            text = "\n\n" + text
        item.summary = part
        if text:
            item.seen = True
            yield ThinkingChunk(item.block, text)

    def _arguments(self, item: _Item, text: str) -> Iterator[ModelDelta]:
        if item.block is None or item.kind != "function_call":
            return
        if text := self._halves.whole(item.block, text):
            item.seen = True
            self._said.setdefault(item.block, []).append(text)
            yield CallChunk(item.block, text)

    def _item_done(self, event: WireEvent) -> Iterator[ModelDelta]:
        wire = part_of(event, "item")
        if event.get("output_index") not in self._items:
            yield from self._release_call()
            yield from self._begin(event.get("output_index"), wire)
        item = self._item(event)
        match text_in(wire, "type"):
            case "message":
                yield from self._message_done(item, wire)
            case "function_call":
                yield from self._call_done(item, wire)
            case "reasoning" if item.block is not None:
                yield from self._reasoning_done(item.block, item, wire)
            case _ if item.block is not None:
                yield OpaqueChunk(item.block, Opaque(PROVIDER, compact(wire)))

    def _message_done(self, item: _Item, wire: WireEvent) -> Iterator[ModelDelta]:
        for index, content in enumerate(wire.get("content") or ()):
            kind: Literal["output_text", "refusal"]
            kind = "refusal" if text_in(content, "type") == "refusal" else "output_text"
            text = text_in(content, "refusal") or text_in(content, "text")
            part = self._part(item, index, kind)
            if not part.seen:  # a server that sends no deltas
                yield from self._write(part, text)
        item.head = {k: wire[k] for k in ("id", "status", "phase") if wire.get(k) is not None}

    def _call_done(self, item: _Item, wire: WireEvent) -> Iterator[ModelDelta]:
        if item.block is None:
            return
        if not item.seen:
            yield from self._arguments(item, text_in(wire, "arguments"))
        known = ("type", "call_id", "name", "arguments")
        rest = {k: v for k, v in wire.items() if k not in known and v is not None}
        yield OpaqueChunk(item.block, Opaque(PROVIDER, compact(rest)))
        if wire.get("status") != "incomplete":
            self._ended_call = item.block

    def _reasoning_done(self, block: int, item: _Item, wire: WireEvent) -> Iterator[ModelDelta]:
        shown = [text_in(part, "text") for part in wire.get("summary") or ()]
        shown = shown or [text_in(part, "text") for part in wire.get("content") or ()]
        if not item.seen and (text := "\n\n".join(filter(None, shown))):
            yield ThinkingChunk(block, text)
        yield OpaqueChunk(block, Opaque(PROVIDER, compact(wire)))

    def _release_call(self) -> Iterator[ModelDelta]:
        # Where the reply is incomplete its last call may be cut, whatever its status says; so its
        # end counts only once something has followed it.
        if self._ended_call is not None:
            yield CallEnd(self._ended_call)
            self._ended_call = None

    def _finish(self, response: WireEvent) -> Iterator[ModelDelta]:
        if response.get("status") == "completed":  # what no event has brought
            for index, item in enumerate(response.get("output") or ()):
                if index not in self._items:
                    whole = {"output_index": index, "item": item}
                    yield from self._item_done(whole)
        self._finished = True
        stored = response.get("store") is not False
        if response.get("status") == "incomplete" or response.get("incomplete_details"):
            reason = text_in(part_of(response, "incomplete_details"), "reason")
            stop_reason = _INCOMPLETE.get(reason, "unknown")
            stored = False  # a call that was cut in it could never be answered
        else:
            yield from self._release_call()
            stop_reason = "tool_use" if self._called else "end_turn"
            if self._refused:
                stop_reason = "refusal"
        own: dict[str, Any] = {"messages": self._heads()}
        if stored and (id := text_in(response, "id")):
            said = ("".join(pieces) for _, pieces in sorted(self._said.items()))
            own |= {"id": id, "after": self._after, "said": digest_of(said)}
        yield Finish(
            stop_reason, _usage(part_of(response, "usage")), Opaque(PROVIDER, compact(own))
        )

    def _heads(self) -> list[dict[str, Any]]:
        heads = []
        for item in self._items.values():
            parts = [part.kind for _, part in sorted(item.parts.items()) if not part.blank]
            if parts:
                heads.append(item.head | {"parts": parts})
        return heads

    def _next_block(self) -> int:
        self._count += 1
        return self._count - 1


def _usage(usage: WireEvent) -> Usage:
    details = part_of(usage, "input_tokens_details")
    return Usage(
        count_in(usage, "input_tokens") or 0,
        count_in(usage, "output_tokens") or 0,
        count_in(details, "cached_tokens") or 0,
        count_in(details, "cache_write_tokens") or 0,
    )


def digest_of(said: Iterable[str]) -> str:
    """Tells the texts and arguments of a reply from any others. Blank ones do not count."""
    digest = hashlib.blake2b(digest_size=12)
    for each in said:
        if each.strip() not in ("", "{}"):
            digest.update(each.encode("utf-8", "replace") + b"\0")
    return digest.hexdigest()


def _error_of(event: WireEvent) -> WireEvent:
    """`response.failed` carries the error in its response, `error` in itself or under that name."""
    error = part_of(part_of(event, "response"), "error") or part_of(event, "error")
    if not error:
        error = {key: event.get(key) for key in ("code", "message") if event.get(key)}
    return error
