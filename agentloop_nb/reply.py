"""One try at a model call: one request streamed into events and, at its end, one message.

Of a try that did not come to its end, what had come is kept as a message too (`keep_partial`), so
that nothing a person has seen is missing from the history, or declared void (`discard`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

from agentloop_nb.events import (
    AnyEvent,
    AttemptDiscarded,
    MessageEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseDelta,
    ToolUseStart,
)
from agentloop_nb.messages import NO_USAGE, Message, ToolCall, Usage
from agentloop_nb.models.assemble import Assembler
from agentloop_nb.models.base import (
    CallChunk,
    CallStart,
    Model,
    ModelDelta,
    Request,
    TextChunk,
    ThinkingChunk,
)


class Reply:
    """One try, `attempt` from 0. `usage` is what it cost so far as the provider has said."""

    def __init__(
        self, model: Model, round: int, attempt: int, emit: Callable[[AnyEvent], AnyEvent]
    ) -> None:
        self._model = model
        self._round = round
        self._attempt = attempt
        self._showed = False
        self._emit = emit
        self._assembler = Assembler(round, model.provider)

    @property
    def usage(self) -> Usage:
        return self._assembler.usage if self._assembler.finished else NO_USAGE

    async def stream(self, request: Request) -> Message:
        """Ask, and emit everything as it comes. Raises ProviderError."""
        async with aclosing(self._model.stream(request)) as deltas:
            async for delta in deltas:
                self._assembler.feed(delta)
                self._emit_delta(delta)
        message = self._finished()
        self._keep(message)
        for call in message.calls:
            self._emit(
                ToolUseStart(id=call.id, name=call.name, arguments=call.input, round=self._round)
            )
        return message

    def keep_partial(self) -> None:
        """Keep what has come of a try that ended too early."""
        self._keep(self._assembler.partial())

    def discard(self) -> None:
        """Declare void what has come, if anything was shown of it."""
        if self._showed:
            self._emit(AttemptDiscarded(attempt=self._attempt, round=self._round))

    def _finished(self) -> Message:
        """The whole reply. Where a call was cut, all of its calls count as cut by the limit."""
        message = self._assembler.finish()
        if message.stop_reason == "refusal":  # what a model refused to end is not half done
            said = tuple(block for block in message.blocks if not isinstance(block, ToolCall))
            return replace(message, blocks=said)
        if self._assembler.cut:
            return self._assembler.finish("max_tokens", keep_cut=True)
        return message

    def _keep(self, message: Message) -> None:
        if message.blocks or message.stop_reason != "cancelled":
            self._emit(MessageEvent(message=message, round=self._round))

    def _emit_delta(self, delta: ModelDelta) -> None:
        attempt, round = self._attempt, self._round
        match delta:
            case TextChunk(block, text) if text:
                self._show(TextDelta(text=text, block=block, round=round, attempt=attempt))
            case ThinkingChunk(block, text) if text:
                self._show(ThinkingDelta(text=text, block=block, round=round, attempt=attempt))
            case CallStart(block, name):
                self._emit_call_delta(block, name, "")
            case CallChunk(block, text) if text:
                self._emit_call_delta(block, "", text)
            case _:
                pass  # the rest shows in the message

    def _emit_call_delta(self, block: int, name: str, text: str) -> None:
        call_id = self._assembler.call_id(block)
        self._show(
            ToolUseDelta(
                id=call_id,
                name=name,
                text=text,
                block=block,
                round=self._round,
                attempt=self._attempt,
            )
        )

    def _show(self, delta: AnyEvent) -> None:
        self._showed = True
        self._emit(delta)
