"""The adapter for Anthropic's Messages API: `AnthropicModel`, and its encoder.

Wire format: https://platform.claude.com/docs/en/build-with-claude/streaming and the types of the
official SDK, which does the request. The SDK is imported when the first request is made.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

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
from agentloop_nb.models.think_tags import ThinkTags, tagged
from agentloop_nb.models.transport import deltas
from agentloop_nb.models.wire import scrub_text as clean

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

MAX_TOKENS = 16_384
"""Longest reply asked for where the caller names no other; the API demands a number."""

MIN_THINKING_BUDGET = 1024  # `ThinkingConfigEnabledParam` of the SDK

_KEY_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class AnthropicModel:
    """A Claude model by its name at the provider, `AnthropicModel("claude-…")`.

    `client` is a ready `anthropic.AsyncAnthropic`; else `base_url` and `api_key`, or the SDK's own
    environment variables, say where to send. `max_tokens` is the longest reply, thinking included.
    `thinking_budget` (tokens, at least 1024 and under `max_tokens`) turns extended thinking on.
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
        thinking_budget: int | None = None,
        think_tags: ThinkTags = False,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if not model:
            raise UsageError("The model has no name. Write one, as in AnthropicModel('claude-…').")
        if thinking_budget is not None and not MIN_THINKING_BUDGET <= thinking_budget < max_tokens:
            raise UsageError(
                f"thinking_budget is {thinking_budget}; it must be at least {MIN_THINKING_BUDGET} "
                f"and less than max_tokens, which is {max_tokens}."
            )
        self.model = model
        self._given = client
        self._base_url = base_url
        self._api_key = api_key
        self._max_tokens = max_tokens
        self._thinking_budget = thinking_budget
        self._think_tags: ThinkTags = think_tags
        self._extra_body = dict(extra_body or {})
        self._clients: Clients[AsyncAnthropic] = Clients(client, self._make, _again)

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

    async def stream(self, request: Request) -> AsyncGenerator[ModelDelta, None]:
        """Answer a request; see `Model.stream`."""
        self.check()
        payload = self.encode(request)
        client = await self._clients.get()
        stream = deltas(
            lambda: client.messages.with_streaming_response.create(
                model=self.model,
                max_tokens=self._max_tokens,
                messages=[],  # the payload's own go past the SDK's walk over every message
                stream=True,
                extra_body=payload,
            ),
            tagged(AnthropicDecoder(), self._think_tags),
            provider="Anthropic",
            limit_s=request.stream_timeout_s,
            secrets=self._secrets(client),
        )
        async with aclosing(stream):
            async for delta in stream:
                yield delta

    def encode(self, request: Request) -> dict[str, Any]:
        """The request's body. Pure."""
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self._max_tokens,
            "messages": encode_messages(request.messages),
            "stream": True,
        }
        if request.instructions.strip():
            body["system"] = clean(request.instructions)
        if request.tools:
            body["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": dict(t.schema)}
                for t in request.tools
            ]
        if self._thinking_budget is not None and _may_think(body["messages"]):
            body["thinking"] = {"type": "enabled", "budget_tokens": self._thinking_budget}
        return body | self._extra_body

    def _make(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic

        # No timeout of the SDK's: a silence is judged in one place, and fairly (`silence.py`).
        return AsyncAnthropic(
            api_key=self._api_key, base_url=self._base_url, max_retries=0, timeout=None
        )

    def _secrets(self, client: AsyncAnthropic) -> list[str]:
        held = (client.api_key, client.auth_token, *map(os.environ.get, _KEY_VARIABLES))
        return [key for key in held if key]


def _again(client: AsyncAnthropic) -> AsyncAnthropic | None:
    from anthropic import DefaultAsyncHttpxClient

    if not uses_default_http(client):
        return None
    return client.copy(http_client=DefaultAsyncHttpxClient())


# -- encoding


def id_fits(call_id: str) -> bool:
    """Whether the API takes a tool use id: letters, digits, `_` and `-` only."""
    return re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call_id) is not None


def encode_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The conversation as the API takes it: user and assistant in turn, tool results as the first
    blocks of a user message."""
    wire: list[dict[str, Any]] = []
    for message in history.prepare(messages, PROVIDER, id_fits):
        role = "assistant" if message.role == "assistant" else "user"
        content = [_encode_block(block) for block in message.blocks]
        content.extend(map(_encode_block, _images_of_failures(message.results)))
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"].extend(content)
        else:
            wire.append({"role": role, "content": content})
    return wire


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
