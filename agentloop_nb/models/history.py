"""A conversation made ready for one provider, still in our shape: what every encoder starts from.

`Fitting` repairs it (`repair.py`), leaves out what only another provider can read, and gives every
call the id that goes on the wire and a name that the provider takes. A longer history begins as the
shorter one did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from agentloop_nb.messages import (
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from agentloop_nb.models.wire import compact, scrub_text
from agentloop_nb.repair import Repair

NO_OUTPUT = "(no output)"
"""Stands for a result without text: some providers refuse an empty one."""


@dataclass(frozen=True, slots=True)
class Ids:
    """What a provider's ids of calls look like: which it takes, and the `n`th (from 1) that is
    made for a call whose own it does not take."""

    fits: Callable[[str], bool]
    made: Callable[[ToolCall, int], str]


def readable_id(call: ToolCall, n: int) -> str:
    """Our id in the letters that every provider takes. Ours begin anew with each run, so a number
    tells later ones of the same name apart."""
    stem = "call_" + re.sub(r"[^A-Za-z0-9]", "_", call.id)[:24]
    return stem if n == 1 else f"{stem}_{n}"


class Fitting:
    """A conversation on its way to `provider`, a message at a time.

    Calls and results carry the wire's id in `id`: the provider's own where it made the call and
    the id fits, else one made from ours; no two calls share one. Adjacent user messages are one.
    Of thinking only what it signed or sealed goes back to it, or all of its own where
    `plain_thinking`.
    """

    def __init__(self, provider: str, ids: Ids, *, plain_thinking: bool = False) -> None:
        self._provider = provider
        self._plain_thinking = plain_thinking
        self._ids = _WireIds(provider, ids)
        self._repair = Repair(self._readable)
        self._latest: list[str] = []  # the ids of the latest reply's calls

    def add(self, message: Message) -> list[Message]:
        """What is settled now that this message has come, in order; perhaps nothing yet."""
        return [self._fit(settled) for settled in self._repair.add(message)]

    def rest(self) -> list[Message]:
        """What would follow if the conversation ended here. Changes nothing."""
        return [self._fit(last) for last in self._repair.rest()]

    def _readable(self, message: Message, block: Block) -> bool:
        if not isinstance(block, Thinking):
            return True
        if message.provider != self._provider:
            return False
        if block.opaque is None:
            return self._plain_thinking and bool(block.text.strip())
        return block.opaque.provider == self._provider

    def _fit(self, message: Message) -> Message:
        match message.role:
            case "assistant":
                return self._fit_reply(message)
            case "tool":
                named = zip(message.results, self._latest, strict=True)
                return Message("tool", tuple(replace(r, id=wire_id) for r, wire_id in named))
            case _:
                return message

    def _fit_reply(self, message: Message) -> Message:
        own = message.provider == self._provider
        self._latest = [self._ids.next_for(call, message.provider) for call in message.calls]
        ids = iter(self._latest)
        blocks = tuple(
            replace(
                block,
                id=next(ids),
                name=_wire_name(block.name),
                opaque=block.opaque if own else None,
            )
            if isinstance(block, ToolCall)
            else block
            for block in message.blocks
        )
        return replace(
            message,
            blocks=blocks,
            provider=self._provider if own else "",
            opaque=message.opaque if own else None,
        )


class _WireIds:
    """Gives each call its id on the wire, in the order of the conversation."""

    def __init__(self, provider: str, ids: Ids) -> None:
        self._provider = provider
        self._ids = ids
        self._used: set[str] = set()
        self._last: dict[str, int] = {}

    def next_for(self, call: ToolCall, made_by: str) -> str:
        own = call.provider_id
        if made_by == self._provider and own and self._ids.fits(own) and own not in self._used:
            self._used.add(own)
            return own
        first = self._ids.made(call, 1)
        n = self._last.get(first, 1)
        while (wire_id := self._ids.made(call, n)) in self._used:
            n += 1
        self._last[first] = n
        self._used.add(wire_id)
        return wire_id


def _wire_name(name: str) -> str:
    """A called tool's name as every provider takes it: a model may have made one up."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def result_text(result: ToolResult) -> str:
    """A result's text as it may be sent: never blank, no lone surrogates."""
    return scrub_text(result.content) if result.content.strip() else NO_OUTPUT


def joined_text(blocks: Iterable[Block]) -> str:
    """The texts among these as one, blank lines between them."""
    texts = (block.text for block in blocks if isinstance(block, Text))
    return scrub_text("\n\n".join(texts))


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as an object of strict JSON.

    Arguments that are none travel as `{"INVALID_JSON": text}`, which is what Anthropic's
    documentation of fine-grained tool streaming says to do with them.
    """
    value = _strict_object(call.arguments)
    return {"INVALID_JSON": scrub_text(call.arguments)} if value is None else value


def arguments_text(call: ToolCall) -> str:
    """A call's arguments as JSON text, as the model wrote them where they are an object."""
    if _strict_object(call.arguments) is None:
        return compact(arguments_object(call))
    return scrub_text(call.arguments)


def _strict_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, parse_constant=_refuse)
        compact(value).encode()
    except UnicodeEncodeError:  # a lone surrogate, written as an escape
        value = json.loads(scrub_text(compact(json.loads(text))))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def data_url(image: Image) -> str:
    """An image as OpenAI's formats take it."""
    return f"data:{image.media_type};base64,{image.data}"
