"""A conversation in the shape of Anthropic's Messages API, and the marks of its prompt cache: the
encoder of `anthropic.py`. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from agentloop_nb.messages import (
    Block,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from agentloop_nb.models import history
from agentloop_nb.models.anthropic_decoder import PROVIDER
from agentloop_nb.models.conversation import Conversation, Encoded, Wire
from agentloop_nb.models.wire import scrub_text as clean

EPHEMERAL = {"type": "ephemeral"}


def id_fits(call_id: str) -> bool:
    """Whether the API takes a tool use id: letters, digits, `_` and `-` only."""
    return re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call_id) is not None


class AnthropicConversation(Conversation):
    """The conversation as the API takes it: user and assistant in turn, tool results as the first
    blocks of a user message."""

    def __init__(self) -> None:
        super().__init__(history.Fitting(PROVIDER, history.Ids(id_fits, history.readable_id)))

    def append(self, wire: list[Wire], message: Message) -> None:
        role = "assistant" if message.role == "assistant" else "user"
        content = [_encode_block(block) for block in message.blocks]
        content.extend(map(_encode_block, _images_of_failures(message.results)))
        if wire and wire[-1]["role"] == role:
            content = [*wire.pop()["content"], *content]
        wire.append({"role": role, "content": content})


def marked(block: Wire) -> Wire:
    return block | {"cache_control": EPHEMERAL}


def marked_at_its_ends(encoded: Encoded) -> Encoded:
    """Marks where this request ends, and where the one before it ended.

    The cache is looked up at a mark and at the 20 blocks before it, and one round can be longer;
    so the place that the request before has written is marked again. Marks are no part of what is
    compared: the prefix stays the same.
    """
    by_user = [i for i, message in enumerate(encoded.items) if message["role"] == "user"]
    for place in by_user[-2:]:
        *before, last = encoded.items[place]["content"]
        item = {"role": "user", "content": [*before, marked(last)]}
        encoded = encoded.with_item(place, item)
    return encoded


def may_think(wire: list[dict[str, Any]]) -> bool:
    """Whether extended thinking may be on: the API refuses it within a turn whose calls did not
    begin with thinking (another provider's, say, or one that was cut), until that turn is over."""
    start = len(wire)
    while start and (wire[start - 1]["role"] == "assistant" or _has_results(wire[start - 1])):
        start -= 1
    turn = wire[start:]
    return not turn or turn[0]["content"][0]["type"] in ("thinking", "redacted_thinking")


def _has_results(message: dict[str, Any]) -> bool:
    return any(block["type"] == "tool_result" for block in message["content"])


def _encode_block(block: Block) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "text": clean(text)}
        case Image(media_type, data):
            source = {"type": "base64", "media_type": media_type, "data": data}
            return {"type": "image", "source": source}
        case Thinking():
            return _encode_thinking(block)
        case ToolCall():
            own = json.loads(block.opaque.data) if block.opaque else {}
            arguments = history.arguments_object(block)
            return own | {
                "type": "tool_use",
                "id": block.id,
                "name": block.name,
                "input": arguments,
            }
        case ToolResult():
            return _encode_result(block)


def _encode_thinking(block: Thinking) -> dict[str, Any]:
    """The block as it came: a signed one gets its text back, any other is kept whole."""
    own: dict[str, Any] = json.loads(block.opaque.data) if block.opaque else {}
    if own.get("type") == "thinking":
        own["thinking"] = block.text
    return own


def _images_of_failures(results: Iterable[ToolResult]) -> Iterator[Text | Image]:
    """What goes after all results: the API takes nothing but text in a result that is an error."""
    for result in results:
        if result.is_error and result.images:
            yield Text(f"What {result.name} returned for call {result.id}:")
            yield from result.images


def _encode_result(result: ToolResult) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
    if result.images and not result.is_error:
        parts: list[Block] = [Text(result.content)] if result.content.strip() else []
        wire["content"] = [_encode_block(block) for block in [*parts, *result.images]]
    else:
        wire["content"] = history.result_text(result)
    if result.is_error:
        wire["is_error"] = True
    return wire
