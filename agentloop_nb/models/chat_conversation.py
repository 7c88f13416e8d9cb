"""A conversation in the shape of Chat Completions: the encoder of `openai_chat.py`. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from agentloop_nb.messages import Block, Image, Message, Text, Thinking, ToolResult
from agentloop_nb.models import history
from agentloop_nb.models.chat_decoder import PROVIDER
from agentloop_nb.models.chat_quirks import Quirk
from agentloop_nb.models.conversation import Conversation, Wire
from agentloop_nb.models.wire import scrub_text as clean

IDS = history.Ids(lambda id: 0 < len(id) <= 40, history.readable_id)  # OpenAI refuses longer ones
SHORT_IDS = history.Ids(
    lambda id: re.fullmatch(r"[A-Za-z0-9]{9}", id) is not None, lambda call, n: f"{n:09d}"
)

RESULTS_READ = "The results are read."
"""Said for the model where a server lets no user speak right after them."""


class ChatConversation(Conversation):
    """The conversation as the API takes it: no two user messages in a row, each call's result
    right after it, images of results in a user message after them all."""

    def __init__(self, quirks: Collection[Quirk] = ()) -> None:
        self._quirks = frozenset(quirks)
        ids = SHORT_IDS if "short_ids" in self._quirks else IDS
        thinks = "reasoning_content" in self._quirks
        super().__init__(history.Fitting(PROVIDER, ids, plain_thinking=thinks))

    def append(self, wire: list[Wire], message: Message) -> None:
        match message.role:
            case "user":
                self._add_user(wire, message.blocks)
            case "assistant":
                reply = _assistant(message)
                if "reasoning_content" in self._quirks:
                    reply |= _reasoning(message)
                _add_assistant(wire, reply)
            case "tool":
                wire.extend(_result(result) for result in message.results)
                if images := [*_images(message.results)]:
                    self._add_user(wire, images)

    def _add_user(self, wire: list[Wire], blocks: Iterable[Block]) -> None:
        content = _user(blocks)
        before = wire[-1]["role"] if wire else ""
        if before == "user":
            content = _joined(wire.pop()["content"], content)
        elif before == "tool" and "no_user_after_tool" in self._quirks:
            wire.append({"role": "assistant", "content": RESULTS_READ})
        wire.append({"role": "user", "content": content})


def _user(blocks: Iterable[Block]) -> str | list[Wire]:
    said = [block for block in blocks if isinstance(block, Text | Image)]
    if all(isinstance(block, Text) for block in said):
        return history.joined_text(said)
    return [_part(block) for block in said]


def _joined(first: str | list[Wire], then: str | list[Wire]) -> str | list[Wire]:
    if isinstance(first, str) and isinstance(then, str):
        return f"{first}\n\n{then}"
    return [*_parts(first), *_parts(then)]


def _parts(content: str | list[Wire]) -> list[Wire]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _part(block: Text | Image) -> Wire:
    if isinstance(block, Text):
        return {"type": "text", "text": clean(block.text)}
    return {"type": "image_url", "image_url": {"url": history.data_url(block)}}


def _assistant(message: Message) -> Wire:
    wire: Wire = {"role": "assistant"}
    if text := history.joined_text(message.blocks):
        wire["content"] = text
    if message.calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": history.arguments_text(call)},
            }
            for call in message.calls
        ]
    return wire


def _reasoning(message: Message) -> Wire:
    """What was thought before a reply. One with calls has to have some, and not an empty text."""
    thought = "".join(block.text for block in message.blocks if isinstance(block, Thinking))
    if not thought and not message.calls:
        return {}
    return {"reasoning_content": clean(thought) or " "}


def _add_assistant(wire: list[Wire], message: Wire) -> None:
    before = wire[-1] if wire else {}
    if before.get("role") == "assistant" and "tool_calls" not in before:
        texts = [m["content"] for m in (before, message) if "content" in m]
        wire[-1] = message | {"content": "\n\n".join(texts)}
    else:
        wire.append(message)


def _result(result: ToolResult) -> Wire:
    text = history.result_text(result)
    if result.images and not result.content.strip():
        text = "(the image follows)"
    return {"role": "tool", "tool_call_id": result.id, "content": text}


def _images(results: Iterable[ToolResult]) -> Iterator[Text | Image]:
    for result in results:
        if result.images:
            yield Text(f"What {result.name} returned for call {result.id}:")
            yield from result.images
