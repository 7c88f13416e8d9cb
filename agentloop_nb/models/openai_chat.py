"""The adapter for Chat Completions, OpenAI's and every compatible server's: `OpenAIChatModel`.

Wire format: https://platform.openai.com/docs/api-reference/chat-streaming and what compatible
servers (vLLM, Ollama, llama.cpp, LM Studio, proxies) are known to send in its name. What goes out
is put together in `chat_conversation.py`, what comes in is read in `chat_decoder.py`, and its tool
calls, which differ most, in `chat_calls.py`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import TYPE_CHECKING, Any

from agentloop_nb.errors import MissingKey, UsageError
from agentloop_nb.models import openai_client
from agentloop_nb.models.base import ModelDelta, Request
from agentloop_nb.models.chat_conversation import ChatConversation
from agentloop_nb.models.chat_decoder import PROVIDER, SERVER, ChatDecoder
from agentloop_nb.models.chat_quirks import Quirk, quirks_of
from agentloop_nb.models.clients import Clients
from agentloop_nb.models.conversation import Conversations, Payload
from agentloop_nb.models.think_tags import ThinkTags, tagged
from agentloop_nb.models.transport import Opened, deltas
from agentloop_nb.models.wire import scrub_text as clean

if TYPE_CHECKING:
    from openai import AsyncOpenAI

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

    @property
    def keys(self) -> list[str]:
        """The keys it was given, which nothing may show."""
        of_client = (getattr(self._given, name, None) for name in ("api_key",))
        return [key for key in (self._api_key, *of_client) if isinstance(key, str) and key]

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
