"""The adapter for Chat Completions, OpenAI's and every compatible server's: `OpenAIChatModel`.

Wire format: https://platform.openai.com/docs/api-reference/chat-streaming and what compatible
servers (vLLM, Ollama, llama.cpp, LM Studio, proxies) are known to send in its name. Tool calls,
which differ most, are put together in `chat_calls.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from agentloop_nb.errors import MissingKey, ProviderError, StreamCut, UsageError
from agentloop_nb.messages import (
    Block,
    Image,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolResult,
    Usage,
)
from agentloop_nb.models import history, openai_client
from agentloop_nb.models.base import (
    Finish,
    ModelDelta,
    Request,
    TextChunk,
    ThinkingChunk,
)
from agentloop_nb.models.chat_calls import CallSlots
from agentloop_nb.models.chat_quirks import Quirk, quirks_of
from agentloop_nb.models.clients import Clients
from agentloop_nb.models.conversation import Conversation, Conversations, Payload, Wire
from agentloop_nb.models.failures import from_body
from agentloop_nb.models.think_tags import ThinkTags, tagged
from agentloop_nb.models.transport import Opened, deltas
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
    (`think_tags.py`). `quirks` says what the server wants otherwise, where that is not known by
    its address or the model's name (`chat_quirks.py`). `extra_body` is merged into every request
    as it is. Raises UsageError where `model` is empty or a quirk is unknown.
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
        quirks: Collection[Quirk] | None = None,
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
        self.quirks = quirks_of(model, self.address, quirks)
        self._conversations = Conversations(lambda: ChatConversation(self.quirks))

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

    def stream(self, request: Request) -> AsyncGenerator[ModelDelta, None]:
        """Answer a request; see `Model.stream`."""
        self.check()
        payload = self.payload(request)
        return deltas(
            self._clients.get,
            lambda client: _send(client, payload),
            tagged(ChatDecoder(), self._think_tags),
            provider=SERVER,
            limit_s=request.stream_timeout_s,
            secrets=openai_client.secrets,
        )

    def encode(self, request: Request) -> dict[str, Any]:
        """The request's body. Sends nothing."""
        return self.payload(request).body

    def payload(self, request: Request) -> Payload:
        """The body as values and as the bytes that go out. Sends nothing."""
        encoded = self._conversations.encode(request.messages)
        if request.instructions.strip():
            system = {"role": "system", "content": clean(request.instructions)}
            encoded = encoded.after(system)
        body: dict[str, Any] = {
            "model": self.model,
            "stream": True,
        }
        if "no_stream_options" not in self.quirks:
            body["stream_options"] = {"include_usage": True}
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
            older = "max_tokens" in self.quirks
            body["max_tokens" if older else "max_completion_tokens"] = self._max_tokens
        return Payload(body | self._extra_body, "messages", encoded)

    def _key(self) -> str | None:
        key = self._api_key or os.environ.get("OPENAI_API_KEY")
        if not key and (self._base_url or os.environ.get("OPENAI_BASE_URL")):
            return NO_KEY_NEEDED
        return key

    def _make(self) -> AsyncOpenAI:
        return openai_client.make(self._key(), self._base_url)


def _send(client: AsyncOpenAI, payload: Payload) -> Opened:
    if openai_client.is_plain(client):
        return openai_client.post(client, "/chat/completions", payload)
    return client.chat.completions.with_streaming_response.create(
        model=payload.fields["model"], messages=[], stream=True, extra_body=payload.plain_body()
    )


# -- encoding


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


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": clean(block.text)}
    return {"type": "image_url", "image_url": {"url": history.data_url(block)}}


def _assistant(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant"}
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
