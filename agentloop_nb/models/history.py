"""A conversation made ready for one provider, still in our shape: what every encoder starts from.

`prepare` leaves out what the provider would refuse (blank texts, empty messages, another
provider's opaque parts), gives every call the id that goes on the wire and a name that it takes,
and lays each result beside its call. Pure and deterministic, and a longer history begins as the
shorter one did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from agentloop_nb.messages import (
    Block,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from agentloop_nb.models.wire import compact, scrub_text

NO_OUTPUT = "(no output)"
"""Stands for a result without text: some providers refuse an empty one."""

_NO_RESULT = "No result was recorded for this call, so its outcome is unknown."


def prepare(
    messages: Iterable[Message], provider: str, id_fits: Callable[[str], bool]
) -> list[Message]:
    """The conversation as `provider` may get it.

    Calls and results carry the wire's id in `id`: the provider's own where it made the call and
    `id_fits` it, else one made from ours; no two calls share one. Adjacent user messages are one.
    """
    ids = _WireIds(provider, id_fits)
    ready: list[Message] = []
    open_calls: tuple[tuple[ToolCall, str], ...] = ()
    for message in messages:
        if message.role == "tool":
            if open_calls:
                ready.append(_results(message.results, open_calls))
            open_calls = ()
            continue
        if open_calls:
            ready.append(_results((), open_calls))
            open_calls = ()
        if message.role == "assistant":
            named = tuple((call, ids.next_for(call, message.provider)) for call in message.calls)
            open_calls = named
            _add(ready, _assistant(message, provider, [wire_id for _, wire_id in named]))
        else:
            _add(ready, _user(message))
    if open_calls:
        ready.append(_results((), open_calls))
    return ready


class _WireIds:
    """Gives each call its id on the wire, in the order of the conversation."""

    def __init__(self, provider: str, fits: Callable[[str], bool]) -> None:
        self._provider = provider
        self._fits = fits
        self._used: set[str] = set()

    def next_for(self, call: ToolCall, made_by: str) -> str:
        own = call.provider_id
        if made_by == self._provider and own and self._fits(own) and own not in self._used:
            self._used.add(own)
            return own
        # Our ids begin anew with each run, so a number tells later ones of the same name apart.
        stem = "call_" + re.sub(r"[^A-Za-z0-9]", "_", call.id)[:24]
        wire_id, n = stem, 1
        while wire_id in self._used:
            n += 1
            wire_id = f"{stem}_{n}"
        self._used.add(wire_id)
        return wire_id


def _add(ready: list[Message], message: Message) -> None:
    if not message.blocks:
        return
    if message.role == "user" and ready and ready[-1].role == "user":
        message = Message("user", (*ready.pop().blocks, *message.blocks))
    ready.append(message)


def _user(message: Message) -> Message:
    blocks = tuple(b for b in message.blocks if isinstance(b, Text | Image) and not is_blank(b))
    return Message("user", blocks)


def _assistant(message: Message, provider: str, wire_ids: Sequence[str]) -> Message:
    own = message.provider == provider
    ids = iter(wire_ids)
    blocks: list[Block] = []
    for block in message.blocks:
        match block:
            case Text() if not is_blank(block):
                blocks.append(block)
            case Thinking(opaque=Opaque(provider=maker)) if own and maker == provider:
                blocks.append(block)
            case ToolCall():
                opaque = block.opaque if own else None
                name = _wire_name(block.name)
                blocks.append(replace(block, id=next(ids), name=name, opaque=opaque))
    # Thinking with nothing after it was cut off from what it led to; no provider takes it alone.
    while blocks and isinstance(blocks[-1], Thinking):
        blocks.pop()
    return replace(
        message,
        blocks=tuple(blocks),
        provider=provider if own else "",
        opaque=message.opaque if own else None,
    )


def _wire_name(name: str) -> str:
    """A called tool's name as every provider takes it: a model may have made one up."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def _results(results: Sequence[ToolResult], calls: Sequence[tuple[ToolCall, str]]) -> Message:
    """The tool message for `calls`, in their order; a call without a result is given one."""
    by_id = {result.id: result for result in results}
    blocks = []
    for call, wire_id in calls:
        result = by_id.get(call.id)
        if result is None:
            result = ToolResult(call.id, call.name, _NO_RESULT, outcome="unknown_outcome")
        blocks.append(replace(result, id=wire_id))
    return Message("tool", tuple(blocks))


def is_blank(block: Block) -> bool:
    """Whether a block is text with nothing in it."""
    return isinstance(block, Text) and not block.text.strip()


def result_text(result: ToolResult) -> str:
    """A result's text as it may be sent: never blank, no lone surrogates."""
    return scrub_text(result.content) if result.content.strip() else NO_OUTPUT


def joined_text(message: Message) -> str:
    """A message's texts as one, blank lines between them."""
    texts = (block.text for block in message.blocks if isinstance(block, Text))
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
