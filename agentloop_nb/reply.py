"""The model phase of a round: one request streamed into events and, at its end, one message.

A stream that is stopped or breaks leaves what had come as a message too, so that nothing a person
has seen is missing from the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from agentloop_nb.errors import ProviderError
from agentloop_nb.events import (
    AnyEvent,
    MessageEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseDelta,
    ToolUseStart,
)
from agentloop_nb.messages import NO_USAGE, Message, Usage
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
    """One model call of a round. `usage` is what it cost so far as the provider has said."""

    def __init__(self, model: Model, round: int, emit: Callable[[AnyEvent], AnyEvent]) -> None:
        self._model = model
        self._round = round
        self._emit = emit
        self._assembler = Assembler(round, model.provider)

    @property
    def usage(self) -> Usage:
        return self._assembler.usage if self._assembler.finished else NO_USAGE

    async def stream(self, request: Request) -> Message:
        """Ask, and emit everything as it comes. Raises ProviderError."""
        try:
            async with aclosing(self._model.stream(request)) as deltas:
                async for delta in deltas:
                    self._assembler.feed(delta)
                    self._emit_delta(delta)
            message = self._finished()
        except (asyncio.CancelledError, ProviderError):
            self._keep(self._assembler.partial())
            raise
        self._keep(message)
        for call in message.calls:
            self._emit(
                ToolUseStart(id=call.id, name=call.name, arguments=call.input, round=self._round)
            )
        return message

    def _finished(self) -> Message:
        """The whole reply. Where a call was cut, all of its calls count as cut by the limit."""
        message = self._assembler.finish()
        if self._assembler.cut and message.stop_reason != "refusal":
            return self._assembler.finish("max_tokens", keep_cut=True)
        return message

    def _keep(self, message: Message) -> None:
        if message.blocks or message.stop_reason != "cancelled":
            self._emit(MessageEvent(message=message, round=self._round))

    def _emit_delta(self, delta: ModelDelta) -> None:
        match delta:
            case TextChunk(block, text) if text:
                self._emit(TextDelta(text=text, block=block, round=self._round))
            case ThinkingChunk(block, text) if text:
                self._emit(ThinkingDelta(text=text, block=block, round=self._round))
            case CallStart(block, name):
                self._emit_call_delta(block, name, "")
            case CallChunk(block, text) if text:
                self._emit_call_delta(block, "", text)
            case _:
                pass  # the rest shows in the message

    def _emit_call_delta(self, block: int, name: str, text: str) -> None:
        call_id = self._assembler.call_id(block)
        self._emit(ToolUseDelta(id=call_id, name=name, text=text, block=block, round=self._round))
