"""The repair of a broken history: whatever is in it, what leaves here can be sent. Pure.

Histories break: a kernel dies in mid-call, a person edits a snapshot, a compaction cuts where it
should not. Repaired, every call has exactly one result, right after the message that asked for it
and in the order of its calls; no result stands alone; nothing is blank; no two messages of a user
stand side by side; and no thinking ends a message, but that of a reply which the provider paused
and goes on with. Repairing twice is repairing once.

Message by message (`Repair`), so that a history that has grown costs only what is new of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from agentloop_nb.messages import (
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

NO_RESULT = "No result was recorded for this call, so its outcome is unknown."
"""What a model reads in place of a result that was lost."""

Keeps = Callable[[Message, Block], bool]
"""Whether a block of a reply may stay; a provider has no use for another's signed thinking."""


def repair(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The same conversation in an order that can be sent, whatever was wrong with it."""
    mending = Repair()
    mended = [ready for message in messages for ready in mending.add(message)]
    return (*mended, *mending.rest())


class Repair:
    """One history on its way, a message at a time. What `add` has returned never changes again."""

    def __init__(self, keeps: Keeps = lambda message, block: True) -> None:
        self._keeps = keeps
        self._open: tuple[ToolCall, ...] = ()
        self._paused: Message | None = None  # not passed on yet: it depends on what comes next
        self._user: list[Block] = []  # not passed on yet: what a person says next joins it

    def add(self, message: Message) -> list[Message]:
        """What is settled now that this message has come, in order; perhaps nothing yet."""
        if message.role == "tool":
            return self._answers(message.results)
        settled = self._answers(())
        if message.role == "user":
            said = [b for b in message.blocks if isinstance(b, Text | Image) and not blank(b)]
            if said:
                settled += self._go_on(None)
                self._user += said
            return settled
        reply = self._reply(message)
        paused = reply.stop_reason == "pause_turn" and not reply.calls
        reply = reply if paused else _ended(reply)
        if not reply.blocks:
            return settled
        settled += self._go_on(reply)
        if paused:
            self._paused = reply
            return settled
        self._open = reply.calls
        return settled + self._spoken(reply)

    def rest(self) -> list[Message]:
        """What would follow if the history ended here. Changes nothing."""
        if self._open:
            return _results((), self._open)
        return self._said() if self._paused is None else [*self._said(), self._paused]

    def _go_on(self, then: Message | None) -> list[Message]:
        """A paused reply, now that it is known what follows: only the model itself goes on with
        it, and anyone else's word ends it."""
        paused, self._paused = self._paused, None
        if paused is None:
            return []
        goes_on = then is not None and then.provider == paused.provider
        return self._spoken(paused if goes_on else _ended(paused))

    def _spoken(self, reply: Message) -> list[Message]:
        """A reply and what was said before it; nothing where the reply is empty."""
        if not reply.blocks:
            return []
        said, self._user = self._said(), []
        return [*said, reply]

    def _said(self) -> list[Message]:
        return [Message("user", tuple(self._user))] if self._user else []

    def _answers(self, results: Iterable[ToolResult]) -> list[Message]:
        answered = _results(results, self._open)
        self._open = ()
        return answered

    def _reply(self, message: Message) -> Message:
        blocks = tuple(
            block
            for block in message.blocks
            if isinstance(block, Text | Thinking | ToolCall)
            and not blank(block)
            and self._keeps(message, block)
        )
        return replace(message, blocks=blocks)


def _ended(reply: Message) -> Message:
    """A reply without what it ends with and cannot end with: thinking with nothing after it was
    cut off from what it led to, and nobody takes it alone."""
    blocks = list(reply.blocks)
    while blocks and isinstance(blocks[-1], Thinking):
        blocks.pop()
    return replace(reply, blocks=tuple(blocks))


def blank(block: Block) -> bool:
    """Whether a block is text with nothing in it."""
    return isinstance(block, Text) and not block.text.strip()


def _results(results: Iterable[ToolResult], calls: tuple[ToolCall, ...]) -> list[Message]:
    """The tool message for `calls`, if there are any: a call without a result is given one."""
    by_id = {result.id: result for result in results}
    blocks = [
        by_id.get(call.id) or ToolResult(call.id, call.name, NO_RESULT, outcome="unknown_outcome")
        for call in calls
    ]
    return [Message("tool", tuple(blocks))] if blocks else []
