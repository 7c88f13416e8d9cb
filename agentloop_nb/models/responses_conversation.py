"""A conversation as the items of OpenAI's Responses API, and what a request may go on from: the
encoder of `openai_responses.py`. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

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
from agentloop_nb.models import history
from agentloop_nb.models.conversation import Conversation, Encoded, Wire
from agentloop_nb.models.responses_decoder import PROVIDER, digest_of
from agentloop_nb.models.wire import scrub_text as clean
from agentloop_nb.models.wire import text_in


def id_fits(call_id: str) -> bool:
    """Whether a call id may go out: the API refuses more than 64 characters."""
    return 0 < len(call_id) <= 64


@dataclass(frozen=True, slots=True)
class Previous:
    """A response that the server holds. It stands for the first `length` items."""

    id: str
    length: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A conversation ready to be sent. `digest` tells it from any other; a reply keeps it, so
    that only a history which still begins with just these items goes on from that reply."""

    encoded: Encoded
    digest: str
    previous: Previous | None


class ResponsesConversation(Conversation):
    """The conversation as the API's list of items, each reply's items whole and in their order."""

    def __init__(self) -> None:
        super().__init__(history.Fitting(PROVIDER, history.Ids(id_fits, history.readable_id)))
        self._hash = hashlib.blake2b(digest_size=12)
        self._previous: Previous | None = None

    def sent(self, messages: tuple[Message, ...]) -> Sent:
        """These messages, which begin as this conversation does."""
        encoded = self.encode(messages)
        whole = self._hash.copy()
        _take_in(whole, encoded.texts[len(self._settled) :])
        previous = self._previous
        if previous is not None and previous.length == len(encoded.items):
            previous = None  # nothing is new, and a request must hold something
        return Sent(encoded, whole.hexdigest(), previous)

    def settle(self, message: Message) -> None:
        known, before = len(self._settled), self._hash.hexdigest()
        super().settle(message)
        _take_in(self._hash, self._texts[known:])
        id, after, said = _stored(message)
        own_ids = all(call.id == call.provider_id for call in message.calls)
        if id and after == before and own_ids and said in ("", digest_of(_said(message))):
            self._previous = Previous(id, len(self._settled))

    def append(self, wire: list[Wire], message: Message) -> None:
        match message.role:
            case "user":
                wire.append({"role": "user", "content": _content(message.blocks)})
            case "assistant":
                wire.extend(_reply(message))
            case "tool":
                wire.extend(_result(result) for result in message.results)


def _take_in(digest: hashlib.blake2b, texts: Iterable[str]) -> None:
    for text in texts:
        digest.update(text.encode("utf-8", "replace"))


def _stored(message: Message) -> tuple[str, str, str]:
    """The response that the server holds of this reply, and the digests of what it answered and of
    what it said."""
    if message.opaque is None:
        return "", "", ""
    own = json.loads(message.opaque.data)
    return text_in(own, "id"), text_in(own, "after"), text_in(own, "said")


def _said(message: Message) -> Iterator[str]:
    for block in message.blocks:
        if isinstance(block, Text):
            yield block.text
        elif isinstance(block, ToolCall):
            yield block.arguments


def _content(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, Text):
            parts.append({"type": "input_text", "text": clean(block.text)})
        elif isinstance(block, Image):
            url = history.data_url(block)
            parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
    return parts


def _result(result: ToolResult) -> dict[str, Any]:
    output: object = history.result_text(result)
    if result.images:
        parts = [Text(result.content)] if result.content.strip() else []
        output = _content((*parts, *result.images))
    return {"type": "function_call_output", "call_id": result.id, "output": output}


def _reply(message: Message) -> Iterator[dict[str, Any]]:
    """The items of an assistant message.

    The API pairs a reasoning item with the item that followed it. So a reply that came to its end
    goes back with its items as they were, ids included; of any other (stopped, another
    provider's) only texts and calls go, without ids, and nothing can be missing beside them.
    """
    texts = sum(isinstance(block, Text) for block in message.blocks)
    heads = _heads(message)
    whole = heads is not None and sum(len(head["parts"]) for head in heads) == texts
    pending = iter(heads if heads and whole else [{"parts": ["output_text"]}] * texts)
    item: dict[str, Any] = {}
    parts: list[str] = []
    for block in message.blocks:
        match block:
            case Text():
                if not parts:
                    head = next(pending)
                    item, parts = _message_item(head), list(head["parts"])
                item["content"].append(_output_part(parts.pop(0), block))
                if not parts:
                    yield item
            case Thinking(opaque=Opaque(data=data)) if whole:
                yield json.loads(data)
            case ToolCall():
                yield _call(block, whole)
            case _:
                pass


def _heads(message: Message) -> list[dict[str, Any]] | None:
    """What the decoder kept of the reply's message items; None where the reply is not whole."""
    match message.opaque:
        case Opaque(data=data):
            heads: list[dict[str, Any]] = json.loads(data)["messages"]
            return heads
        case None:
            return None


def _message_item(head: dict[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "message", "role": "assistant", "content": []}
    return item | {key: value for key, value in head.items() if key != "parts"}


def _output_part(kind: str, block: Text) -> dict[str, Any]:
    text = clean(block.text)
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": []}


def _call(call: ToolCall, whole: bool) -> dict[str, Any]:
    own: dict[str, Any] = json.loads(call.opaque.data) if call.opaque and whole else {}
    return own | {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": history.arguments_text(call),
    }
