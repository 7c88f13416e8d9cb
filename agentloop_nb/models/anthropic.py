"""The adapter for Anthropic's Messages API: `AnthropicModel`, and its encoder.

Wire format: https://platform.claude.com/docs/en/build-with-claude/streaming and the types of the
official SDK, which does the request. The SDK is imported when the first request is made.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from agentloop_nb.errors import MissingKey, UsageError
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
from agentloop_nb.models.anthropic_decoder import PROVIDER, AnthropicDecoder
from agentloop_nb.models.base import ModelDelta, Request
from agentloop_nb.models.clients import Clients, uses_default_http
from agentloop_nb.models.conversation import Conversation, Conversations, Encoded, Payload, Wire
from agentloop_nb.models.think_tags import ThinkTags, tagged
from agentloop_nb.models.transport import Opened, Response, deltas, posted
from agentloop_nb.models.wire import scrub_text as clean

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream

MAX_TOKENS = 16_384
"""Longest reply asked for where the caller names no other; the API demands a number."""

MIN_THINKING_BUDGET = 1024  # `ThinkingConfigEnabledParam` of the SDK

PromptCaching = bool | Literal["blocks"]
"""Where the marks stand that let a provider keep a prompt for the next request.

True: one ends the system prompt, and the request itself carries one, which the API puts at its last
block; so what was sent once is sent again byte for byte. "blocks": in place of the request's own,
one each ends the last two user messages, for servers that know no other kind; these move. False:
none. See https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
"""

EPHEMERAL = {"type": "ephemeral"}

_KEY_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class AnthropicModel:
    """A Claude model by its name at the provider, `AnthropicModel("claude-…")`.

    `client` is a ready `anthropic.AsyncAnthropic`; else `base_url` and `api_key`, or the SDK's own
    environment variables, say where to send. `max_tokens` is the longest reply, thinking included.
    `thinking_budget` (tokens, at least 1024 and under `max_tokens`) turns extended thinking on;
    "adaptive" lets a model that can decide how much. `effort` ("low" to "max") is how much work a
    model that knows it puts into a reply. `prompt_caching` lets each request read what the one
    before has written (see `PromptCaching`).
    `think_tags` takes `<think>` tags out of the text (`think_tags.py`).
    `extra_body` is merged into every request as it is. Raises UsageError on values that cannot be.
    """

    def __init__(
        self,
        model: str,
        *,
        client: AsyncAnthropic | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_tokens: int = MAX_TOKENS,
        thinking_budget: int | Literal["adaptive"] | None = None,
        effort: str | None = None,
        prompt_caching: PromptCaching = True,
        think_tags: ThinkTags = False,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if not model:
            raise UsageError("The model has no name. Write one, as in AnthropicModel('claude-…').")
        if not _is_budget(thinking_budget, max_tokens):
            raise UsageError(
                f"thinking_budget is {thinking_budget!r}; it must be at least "
                f"{MIN_THINKING_BUDGET} and less than max_tokens, which is {max_tokens}, or "
                "'adaptive'."
            )
        self.model = model
        self._given = client
        self._base_url = base_url
        self._api_key = api_key
        self._max_tokens = max_tokens
        self._thinking_budget = thinking_budget
        self._effort = effort
        if prompt_caching is True and not _knows_automatic_caching(client):
            prompt_caching = "blocks"
        self._prompt_caching: PromptCaching = prompt_caching
        self._think_tags: ThinkTags = think_tags
        self._extra_body = dict(extra_body or {})
        self._clients: Clients[AsyncAnthropic] = Clients(client, self._make, _again)
        self._conversations = Conversations(AnthropicConversation)

    def __repr__(self) -> str:
        return f"AnthropicModel({self.model!r})"

    @property
    def name(self) -> str:
        return f"{PROVIDER}:{self.model}"

    @property
    def provider(self) -> str:
        return PROVIDER

    @property
    def address(self) -> str:
        """Where requests go; what fails there is counted together."""
        given = self._given.base_url if self._given is not None else self._base_url
        return str(given or os.environ.get("ANTHROPIC_BASE_URL") or "").rstrip("/")

    def check(self) -> None:
        """Raise MissingKey where no credentials are to be found; sends nothing."""
        if self._given is not None or self._api_key or any(map(os.environ.get, _KEY_VARIABLES)):
            return
        if self._make().credentials is None:  # the SDK also knows profiles and federation
            raise MissingKey(
                f"There is no API key for {self.name}. Set the environment variable "
                "ANTHROPIC_API_KEY, or pass AnthropicModel(…, api_key=…). To try things without "
                "a key, use the offline model: Agent('offline:tour')."
            )

    def stream(self, request: Request) -> AsyncGenerator[ModelDelta, None]:
        """Answer a request; see `Model.stream`."""
        self.check()
        payload = self.payload(request)
        return deltas(
            self._clients.get,
            lambda client: _send(client, payload),
            tagged(AnthropicDecoder(), self._think_tags),
            provider="Anthropic",
            limit_s=request.stream_timeout_s,
            secrets=self._secrets,
        )

    def encode(self, request: Request) -> dict[str, Any]:
        """The request's body. Sends nothing."""
        return self.payload(request).body

    def payload(self, request: Request) -> Payload:
        """The body as values and as the bytes that go out. Sends nothing."""
        encoded = self._conversations.encode(request.messages)
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self._max_tokens,
            "stream": True,
        }
        if request.instructions.strip():
            system = {"type": "text", "text": clean(request.instructions)}
            body["system"] = [_marked(system)] if self._prompt_caching else system["text"]
        if request.tools:
            body["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": dict(t.schema)}
                for t in request.tools
            ]
        if thinking := self._thinking(encoded.items):
            body["thinking"] = thinking
        if self._effort is not None:
            body["output_config"] = {"effort": self._effort}
        if self._prompt_caching == "blocks":
            encoded = _marked_at_its_ends(encoded)
        elif self._prompt_caching:
            body["cache_control"] = EPHEMERAL
        return Payload(body | self._extra_body, "messages", encoded)

    def _thinking(self, wire: list[Wire]) -> Wire | None:
        budget = self._thinking_budget
        if budget == "adaptive":  # summarized: newer models show nothing of it otherwise
            return {"type": "adaptive", "display": "summarized"}
        if budget is None or not _may_think(wire):
            return None
        return {"type": "enabled", "budget_tokens": budget}

    def _make(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic

        # No timeout of the SDK's: a silence is judged in one place, and fairly (`silence.py`).
        return AsyncAnthropic(
            api_key=self._api_key, base_url=self._base_url, max_retries=0, timeout=None
        )

    def _secrets(self, client: AsyncAnthropic) -> list[str]:
        # Those of other platforms have neither.
        own = (getattr(client, name, None) for name in ("api_key", "auth_token"))
        held = (*own, *map(os.environ.get, _KEY_VARIABLES))
        return [key for key in held if isinstance(key, str) and key]


def _is_budget(budget: object, max_tokens: int) -> bool:
    if isinstance(budget, int):
        return MIN_THINKING_BUDGET <= budget < max_tokens
    return budget in (None, "adaptive")


def _send(client: AsyncAnthropic, payload: Payload) -> Opened:
    from anthropic import AsyncAnthropic, AsyncStream

    if type(client) is AsyncAnthropic:
        return posted(client, "/v1/messages", payload.content(), AsyncStream)
    return _typed(client, payload)


@asynccontextmanager
async def _typed(client: AsyncAnthropic, payload: Payload) -> AsyncGenerator[Response, None]:
    """The response by a client for another platform (Bedrock's, Vertex's, a user's own), through
    the SDK's typed stream: it alone knows how such a platform frames its events."""
    body = payload.plain_body()
    stream = await client.messages.create(
        model=body["model"],
        max_tokens=body["max_tokens"],
        messages=[],
        stream=True,
        extra_body=body,
    )
    async with stream:
        yield _Events(stream)


class _Events:
    """A typed stream's events as the bytes that they would have been."""

    def __init__(self, stream: AsyncStream[Any]) -> None:
        self._stream = stream

    async def iter_bytes(self) -> AsyncIterator[bytes]:
        async for event in self._stream:
            yield f"data: {event.to_json(indent=None)}\n\n".encode()


def _again(client: AsyncAnthropic) -> AsyncAnthropic | None:
    from anthropic import DefaultAsyncHttpxClient

    if not uses_default_http(client):
        return None
    return client.copy(http_client=DefaultAsyncHttpxClient())


# -- encoding


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


def _marked(block: Wire) -> Wire:
    return block | {"cache_control": EPHEMERAL}


def _knows_automatic_caching(client: AsyncAnthropic | None) -> bool:
    """The clients for other platforms (Bedrock's, Vertex's) are of other classes than the SDK's
    plain one, and those platforms refuse the request's own mark."""
    return client is None or type(client).__name__ == "AsyncAnthropic"


def _marked_at_its_ends(encoded: Encoded) -> Encoded:
    """Marks where this request ends, and where the one before it ended.

    The cache is looked up at a mark and at the 20 blocks before it, and one round can be longer;
    so the place that the request before has written is marked again. Marks are no part of what is
    compared: the prefix stays the same.
    """
    by_user = [i for i, message in enumerate(encoded.items) if message["role"] == "user"]
    for place in by_user[-2:]:
        *before, last = encoded.items[place]["content"]
        item = {"role": "user", "content": [*before, _marked(last)]}
        encoded = encoded.with_item(place, item)
    return encoded


def _may_think(wire: list[dict[str, Any]]) -> bool:
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
