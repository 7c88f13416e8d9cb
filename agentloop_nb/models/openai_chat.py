"""The adapter for Chat Completions, OpenAI's and every compatible server's: `OpenAIChatModel`.

Wire format: https://platform.openai.com/docs/api-reference/chat-streaming and what compatible
servers (vLLM, Ollama, llama.cpp, LM Studio, proxies) are known to send in its name. Tool calls,
which differ most, are put together in `chat_calls.py`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from agentloop_nb.errors import MissingKey, ProviderError, StreamCut, UsageError
from agentloop_nb.messages import Image, Message, StopReason, Text, ToolResult, Usage
from agentloop_nb.models import history, openai_client
from agentloop_nb.models.base import (
    Finish,
    ModelDelta,
    Request,
    TextChunk,
    ThinkingChunk,
)
from agentloop_nb.models.chat_calls import CallSlots
from agentloop_nb.models.clients import Clients
from agentloop_nb.models.failures import from_body
from agentloop_nb.models.think_tags import ThinkTags, tagged
from agentloop_nb.models.transport import deltas
from agentloop_nb.models.wire import DONE, Halves, WireEvent, count_in, part_of, text_in
from agentloop_nb.models.wire import scrub_text as clean

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PROVIDER = "openai-chat"

SERVER = "the Chat Completions server"

NO_KEY_NEEDED = "not-needed"
"""Sent to a server named by its base URL where no key is known: local servers ask for none."""


class OpenAIChatModel:
    """A model behind the Chat Completions API, by its name there.

    `client` is a ready `openai.AsyncOpenAI`; else `base_url` and `api_key`, or the SDK's own
    environment variables, say where to send. With a base URL no key is needed. `max_tokens` is
    the longest reply, the server's own limit where None. `think_tags` takes `<think>` tags out of
    the text: on unless False, "open" where the server's template writes the opener
    (`think_tags.py`). `extra_body` is merged into every request as it is. Raises UsageError where
    `model` is empty.
    """

    def __init__(
        self,
        model: str,
        *,
        client: AsyncOpenAI | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_tokens: int | None = None,
        think_tags: ThinkTags = True,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if not model:
            raise UsageError("The model has no name. Write one, as in OpenAIChatModel('gpt-…').")
        self.model = model
        self._given = client
        self._base_url = base_url
        self._api_key = api_key
        self._max_tokens = max_tokens
        self._think_tags: ThinkTags = think_tags
        self._extra_body = dict(extra_body or {})
        self._clients: Clients[AsyncOpenAI] = Clients(client, self._make, openai_client.again)

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self.model!r})"

    @property
    def name(self) -> str:
        return f"{PROVIDER}:{self.model}"

    @property
    def provider(self) -> str:
        return PROVIDER

    @property
    def address(self) -> str:
        """Where requests go; what fails there is counted together."""
        return openai_client.address(self._given, self._base_url)

    def check(self) -> None:
        """Raise MissingKey where a key is needed and there is none; sends nothing."""
        if self._given is None and not self._key():
            raise MissingKey(
                f"There is no API key for {self.name}. Set the environment variable "
                "OPENAI_API_KEY, or pass OpenAIChatModel(…, api_key=…); for a local server pass "
                "base_url=…. To try things without a key, use the offline model: "
                "Agent('offline:tour')."
            )

    async def stream(self, request: Request) -> AsyncGenerator[ModelDelta, None]:
        """Answer a request; see `Model.stream`."""
        self.check()
        payload = self.encode(request)
        client = await self._clients.get()
        stream = deltas(
            lambda: client.chat.completions.with_streaming_response.create(
                model=self.model,
                messages=[],  # the payload's own go past the SDK's walk over every message
                stream=True,
                extra_body=payload,
            ),
            tagged(ChatDecoder(), self._think_tags),
            provider=SERVER,
            limit_s=request.stream_timeout_s,
            secrets=openai_client.secrets(client),
        )
        async with aclosing(stream):
            async for delta in stream:
                yield delta

    def encode(self, request: Request) -> dict[str, Any]:
        """The request's body. Pure."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": encode_messages(request.instructions, request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": t.name,
                        "description": t.description,
                        "parameters": dict(t.schema),
                    },
                }
                for t in request.tools
            ]
        if self._max_tokens is not None:
            # OpenAI's reasoning models refuse the old name; many other servers know no other.
            name = "max_tokens" if self._base_url else "max_completion_tokens"
            body[name] = self._max_tokens
        return body | self._extra_body

    def _key(self) -> str | None:
        key = self._api_key or os.environ.get("OPENAI_API_KEY")
        if not key and (self._base_url or os.environ.get("OPENAI_BASE_URL")):
            return NO_KEY_NEEDED
        return key

    def _make(self) -> AsyncOpenAI:
        return openai_client.make(self._key(), self._base_url)


# -- encoding


def id_fits(call_id: str) -> bool:
    """Whether a tool call id may go out: OpenAI refuses more than 40 characters."""
    return 0 < len(call_id) <= 40


def encode_messages(instructions: str, messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The conversation as the API takes it: one leading system message, no two user messages in a
    row, each call's result right after it, images of results in a user message after them all."""
    wire: list[dict[str, Any]] = []
    if instructions.strip():
        wire.append({"role": "system", "content": clean(instructions)})
    user: list[Text | Image] = []
    for message in history.prepare(messages, PROVIDER, id_fits):
        if message.role == "user":
            user.extend(b for b in message.blocks if isinstance(b, Text | Image))
            continue
        wire.extend(_user(user))
        user = []
        if message.role == "assistant":
            _add_assistant(wire, _assistant(message))
        else:
            wire.extend(_result(result) for result in message.results)
            user.extend(_images(message.results))
    wire.extend(_user(user))
    return wire


def _user(blocks: list[Text | Image]) -> list[dict[str, Any]]:
    if not blocks:
        return []
    if all(isinstance(block, Text) for block in blocks):
        content: object = history.joined_text(Message("user", tuple(blocks)))
    else:
        content = [_part(block) for block in blocks]
    return [{"role": "user", "content": content}]


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": clean(block.text)}
    return {"type": "image_url", "image_url": {"url": history.data_url(block)}}


def _assistant(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant"}
    if text := history.joined_text(message):
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


def _add_assistant(wire: list[dict[str, Any]], message: dict[str, Any]) -> None:
    before = wire[-1] if wire else {}
    if before.get("role") == "assistant" and "tool_calls" not in before:
        texts = [m["content"] for m in (before, message) if "content" in m]
        wire[-1] = message | {"content": "\n\n".join(texts)}
    else:
        wire.append(message)


def _result(result: ToolResult) -> dict[str, Any]:
    text = history.result_text(result)
    if result.images and not result.content.strip():
        text = "(the image follows)"
    return {"role": "tool", "tool_call_id": result.id, "content": text}


def _images(results: Iterable[ToolResult]) -> Iterator[Text | Image]:
    for result in results:
        if result.images:
            yield Text(f"What {result.name} returned for call {result.id}:")
            yield from result.images


# -- decoding

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

    def feed(self, event: WireEvent) -> Iterator[ModelDelta]:
        """The deltas of one chunk. Raises ProviderError for a chunk that is an error."""
        if self._finished:
            return
        if event == DONE:
            yield from self._finish()
            return
        if event.get("error"):
            raise _failure(event["error"])
        self._count_tokens(part_of(event, "usage"))
        for choice in event.get("choices") or ():
            if isinstance(choice, Mapping) and not choice.get("index"):
                yield from self._choice(choice)

    def close(self) -> Iterator[ModelDelta]:
        """The last delta where a server sends no `[DONE]`; raises StreamCut where the reply had no
        finish reason either."""
        if not self._finished and self._reason is None:
            raise StreamCut(SERVER)
        return iter(()) if self._finished else self._finish()

    def _choice(self, choice: WireEvent) -> Iterator[ModelDelta]:
        delta = part_of(choice, "delta")
        # Two names for one thing; servers that send both send the same text in both.
        thought = text_in(delta, "reasoning_content") or text_in(delta, "reasoning")
        yield from self._flowing("thinking", thought)
        yield from self._flowing("text", _content(delta.get("content")))
        if refusal := text_in(delta, "refusal"):
            self._refused = True
            yield from self._flowing("text", refusal)
        for piece in delta.get("tool_calls") or ():
            if isinstance(piece, Mapping):
                yield from self._calls.feed(piece)
        if reason := text_in(choice, "finish_reason"):
            self._reason = reason

    def _flowing(self, kind: Literal["text", "thinking"], text: str) -> Iterator[ModelDelta]:
        if not text:
            return
        if self._flow is None or self._flow[0] != kind:
            self._flow = (kind, self._next_block())
        block = self._flow[1]
        if text := self._halves.whole(block, text):
            yield TextChunk(block, text) if kind == "text" else ThinkingChunk(block, text)

    def _next_block(self) -> int:
        self._count += 1
        return self._count - 1

    def _finish(self) -> Iterator[ModelDelta]:
        self._finished = True
        reason = _STOP_REASONS.get(self._reason or "", "unknown")
        if self._refused:
            reason = "refusal"
        yield from self._calls.finish(last_is_cut=reason in ("max_tokens", "refusal"))
        if self._calls.any and reason in ("end_turn", "unknown"):
            reason = "tool_use"  # servers say "stop" after calls too; the content decides
        yield Finish(reason, self._usage)

    def _count_tokens(self, usage: WireEvent) -> None:
        if not usage:
            return
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
    """Text of a delta's content: a string, or for some servers a list of text parts."""
    if isinstance(content, list):
        return "".join(text_in(part, "text") for part in content)
    return content if isinstance(content, str) else ""
