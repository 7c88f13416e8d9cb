"""Chat Completions chunks to deltas: the decoder of `openai_chat.py`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from agentloop_nb.errors import ProviderError, StreamCut
from agentloop_nb.messages import StopReason, Usage
from agentloop_nb.models.base import (
    Finish,
    ModelDelta,
    TextChunk,
    ThinkingChunk,
)
from agentloop_nb.models.chat_calls import CallSlots
from agentloop_nb.models.failures import from_body
from agentloop_nb.models.wire import DONE, Halves, WireEvent, count_in, part_of, text_in

PROVIDER = "openai-chat"

SERVER = "the Chat Completions server"

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class ChatDecoder:
    """Chat Completions chunks to deltas; one object per stream.

    The reply is complete with its finish reason; the counts come in a later chunk without choices.
    """

    def __init__(self) -> None:
        self._count = 0
        self._flow: tuple[Literal["text", "thinking"], int] | None = None
        self._calls = CallSlots(self._next_block)
        self._halves = Halves()
        self._usage = Usage()
        self._reason: str | None = None
        self._refused = False
        self._finished = False

    def feed(self, event: WireEvent) -> Iterable[ModelDelta]:
        """The deltas of one chunk. Raises ProviderError for a chunk that is an error."""
        if self._finished:
            return ()
        if event is DONE:
            return self._finish()
        if event.get("error"):
            raise _failure(event["error"])
        if event.get("object") == "error":  # as vLLM says it
            raise _failure(event)
        if usage := event.get("usage"):
            self._count_tokens(usage)
        found: list[ModelDelta] = []
        for choice in event.get("choices") or ():
            if isinstance(choice, dict) and not choice.get("index"):
                self._choice(choice, found)
        return found

    def close(self) -> Iterator[ModelDelta]:
        """The last delta where a server sends no `[DONE]`; raises StreamCut where the reply had no
        finish reason either."""
        if not self._finished and self._reason is None:
            raise StreamCut(SERVER)
        return iter(()) if self._finished else self._finish()

    def _choice(self, choice: WireEvent, found: list[ModelDelta]) -> None:
        delta = part_of(choice, "delta")
        if thought := _thought(delta):
            self._flowing("thinking", thought, found)
        if text := _content(delta.get("content")):
            self._flowing("text", text, found)
        if refusal := text_in(delta, "refusal"):
            self._refused = True
            self._flowing("text", refusal, found)
        for piece in delta.get("tool_calls") or ():
            if isinstance(piece, dict):
                found.extend(self._calls.feed(piece))
        if reason := text_in(choice, "finish_reason"):
            self._reason = reason

    def _flowing(
        self, kind: Literal["text", "thinking"], text: str, found: list[ModelDelta]
    ) -> None:
        if self._flow is None or self._flow[0] != kind:
            self._flow = (kind, self._next_block())
        block = self._flow[1]
        if text := self._halves.whole(block, text):
            found.append(TextChunk(block, text) if kind == "text" else ThinkingChunk(block, text))

    def _next_block(self) -> int:
        self._count += 1
        return self._count - 1

    def _finish(self) -> Iterator[ModelDelta]:
        self._finished = True
        reason = _STOP_REASONS.get(self._reason or "", "unknown")
        if self._refused:
            reason = "refusal"
        cut = self._reason is None or reason in ("max_tokens", "refusal")
        yield from self._calls.finish(last_is_cut=cut)
        if self._calls.any and reason in ("end_turn", "unknown"):
            reason = "tool_use"  # servers say "stop" after calls too; the content decides
        yield Finish(reason, self._usage)

    def _count_tokens(self, usage: object) -> None:
        details = part_of(usage, "prompt_tokens_details")
        self._usage = Usage(
            count_in(usage, "prompt_tokens") or 0,
            count_in(usage, "completion_tokens") or 0,
            count_in(details, "cached_tokens") or 0,
            count_in(details, "cache_write_tokens") or 0,
        )


def _failure(error: object) -> ProviderError:
    body = error if isinstance(error, Mapping) else {"message": str(error)}
    return from_body(body, SERVER)


def _content(content: object) -> str:
    """Text of a delta's content: a string, or for some servers a list of parts."""
    if isinstance(content, list):
        return "".join(text_in(part, "text") for part in content)
    return content if isinstance(content, str) else ""


def _thought(delta: WireEvent) -> str:
    """Thinking of a delta. Two names for one thing (servers that send both send the same text in
    both), or parts of the content, as Mistral sends it."""
    if thought := text_in(delta, "reasoning_content") or text_in(delta, "reasoning"):
        return thought
    content = delta.get("content")
    if not isinstance(content, list):
        return ""
    return "".join(_content(part.get("thinking")) for part in content if isinstance(part, dict))
