"""The adapter for Anthropic's Messages API: `AnthropicModel`.

Wire format: https://platform.claude.com/docs/en/build-with-claude/streaming and the types of the
official SDK, which does the request. The SDK is imported when the first request is made.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from agentloop_nb.errors import MissingKey, UsageError
from agentloop_nb.models.anthropic_conversation import (
    EPHEMERAL,
    AnthropicConversation,
    marked,
    marked_at_its_ends,
    may_think,
)
from agentloop_nb.models.anthropic_decoder import PROVIDER, AnthropicDecoder
from agentloop_nb.models.base import ModelDelta, Request
from agentloop_nb.models.clients import Clients, uses_default_http
from agentloop_nb.models.conversation import Conversations, Payload, Wire
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

    @property
    def keys(self) -> list[str]:
        """The keys it was given, which nothing may show."""
        of_client = (getattr(self._given, name, None) for name in ("api_key", "auth_token"))
        return [key for key in (self._api_key, *of_client) if isinstance(key, str) and key]

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
            body["system"] = [marked(system)] if self._prompt_caching else system["text"]
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
            encoded = marked_at_its_ends(encoded)
        elif self._prompt_caching:
            body["cache_control"] = EPHEMERAL
        return Payload(body | self._extra_body, "messages", encoded)

    def _thinking(self, wire: list[Wire]) -> Wire | None:
        budget = self._thinking_budget
        if budget == "adaptive":  # summarized: newer models show nothing of it otherwise
            return {"type": "adaptive", "display": "summarized"}
        if budget is None or not may_think(wire):
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


def _knows_automatic_caching(client: AsyncAnthropic | None) -> bool:
    """The clients for other platforms (Bedrock's, Vertex's) are of other classes than the SDK's
    plain one, and those platforms refuse the request's own mark."""
    return client is None or type(client).__name__ == "AsyncAnthropic"
