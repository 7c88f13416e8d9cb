"""The adapter for OpenAI's Responses API: `OpenAIModel` and its encoder.

Wire format: https://platform.openai.com/docs/api-reference/responses and the types of the official
SDK, which does the request. Nothing is stored at the provider: every request carries the whole
conversation, with the reasoning items of earlier replies as they came (encrypted), in their place.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentloop_nb.errors import MissingKey, UsageError
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
from agentloop_nb.models import history, openai_client
from agentloop_nb.models.base import ModelDelta, Request
from agentloop_nb.models.clients import Clients
from agentloop_nb.models.responses_decoder import PROVIDER, ResponsesDecoder
from agentloop_nb.models.think_tags import ThinkTags, tagged
from agentloop_nb.models.transport import deltas
from agentloop_nb.models.wire import scrub_text as clean

if TYPE_CHECKING:
    from openai import AsyncOpenAI

WITHOUT_REASONING = ("gpt-3", "gpt-4", "chatgpt-4")
"""Models that do not reason, by the beginning of their names; they refuse a request that asks for
encrypted reasoning."""


class OpenAIModel:
    """A model behind OpenAI's Responses API, by its name there, `OpenAIModel("gpt-…")`.

    `client` is a ready `openai.AsyncOpenAI`; else `base_url` and `api_key`, or the SDK's own
    environment variables, say where to send. `max_tokens` is the longest reply, reasoning
    included, the model's own limit where None. `reasoning_effort` ("low", "high", …) and
    `reasoning_summary` ("auto", …: shows what the model thinks) are for models that reason.
    `think_tags` takes `<think>` tags out of the text (`think_tags.py`).
    `extra_body` is merged into every request as it is. Raises UsageError where `model` is empty.
    """

    def __init__(
        self,
        model: str,
        *,
        client: AsyncOpenAI | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_tokens: int | None = None,
        reasoning_effort: str | None = None,
        reasoning_summary: str | None = None,
        think_tags: ThinkTags = False,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if not model:
            raise UsageError("The model has no name. Write one, as in OpenAIModel('gpt-…').")
        self.model = model
        self._given = client
        self._base_url = base_url
        self._api_key = api_key
        self._max_tokens = max_tokens
        asked = {"effort": reasoning_effort, "summary": reasoning_summary}
        self._reasoning = {name: value for name, value in asked.items() if value}
        self._think_tags: ThinkTags = think_tags
        self._extra_body = dict(extra_body or {})
        self._clients: Clients[AsyncOpenAI] = Clients(client, self._make, openai_client.again)

    def __repr__(self) -> str:
        return f"OpenAIModel({self.model!r})"

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
        """Raise MissingKey where there is no key; sends nothing."""
        if self._given or self._api_key or os.environ.get("OPENAI_API_KEY"):
            return
        raise MissingKey(
            f"There is no API key for {self.name}. Set the environment variable OPENAI_API_KEY, "
            "or pass OpenAIModel(…, api_key=…). To try things without a key, use the offline "
            "model: Agent('offline:tour')."
        )

    async def stream(self, request: Request) -> AsyncGenerator[ModelDelta, None]:
        """Answer a request; see `Model.stream`."""
        self.check()
        payload = self.encode(request)
        client = await self._clients.get()
        stream = deltas(
            lambda: client.responses.with_streaming_response.create(
                model=self.model,
                input=[],  # the payload's own goes past the SDK's walk over every item
                stream=True,
                extra_body=payload,
            ),
            tagged(ResponsesDecoder(), self._think_tags),
            provider="OpenAI",
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
            "input": encode_input(request.messages),
            "store": False,
            "stream": True,
        }
        if not self.model.startswith(WITHOUT_REASONING):
            body["include"] = ["reasoning.encrypted_content"]
        if request.instructions.strip():
            body["instructions"] = clean(request.instructions)
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": t.name,
                    "description": t.description,
                    "parameters": dict(t.schema),
                    "strict": False,  # strict schemas allow no defaults; arguments are checked here
                }
                for t in request.tools
            ]
        if self._max_tokens is not None:
            body["max_output_tokens"] = self._max_tokens
        if self._reasoning:
            body["reasoning"] = self._reasoning
        return body | self._extra_body

    def _make(self) -> AsyncOpenAI:
        return openai_client.make(self._api_key, self._base_url)


def id_fits(call_id: str) -> bool:
    """Whether a call id may go out: the API refuses more than 64 characters."""
    return 0 < len(call_id) <= 64


def encode_input(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The conversation as the API's list of items, each reply's items whole and in their order."""
    items: list[dict[str, Any]] = []
    for message in history.prepare(messages, PROVIDER, id_fits):
        match message.role:
            case "user":
                items.append({"role": "user", "content": _content(message.blocks)})
            case "assistant":
                items.extend(_reply(message))
            case "tool":
                items.extend(_result(result) for result in message.results)
    return items


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
