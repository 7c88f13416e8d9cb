"""The adapter for OpenAI's Responses API: `OpenAIModel`.

Wire format: https://platform.openai.com/docs/api-reference/responses and the types of the official
SDK, which does the request. Where the provider stores its replies a request names the latest one
and carries what is new since; else, and where the provider has forgotten it, the whole
conversation, with the reasoning items of earlier replies as they came (encrypted), in their place.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentloop_nb.errors import MissingKey, UsageError
from agentloop_nb.models import openai_client
from agentloop_nb.models.base import ModelDelta, Request
from agentloop_nb.models.clients import Clients
from agentloop_nb.models.conversation import Conversations, Encoded, Payload
from agentloop_nb.models.responses_conversation import Previous, ResponsesConversation, Sent
from agentloop_nb.models.responses_decoder import FORGOTTEN, PROVIDER, ResponsesDecoder
from agentloop_nb.models.think_tags import ThinkTags, tagged
from agentloop_nb.models.transport import Opened, Response, deltas
from agentloop_nb.models.wire import scrub_text as clean

if TYPE_CHECKING:
    from openai import AsyncOpenAI

WITHOUT_REASONING = ("gpt-3", "gpt-4", "chatgpt-4")
"""Models that do not reason, by the beginning of their names; they refuse a request that asks for
encrypted reasoning."""

OWN_ADDRESSES = ("", "https://api.openai.com/v1")

FORGETS = 2
"""So many responses forgotten in a row say that a server keeps none."""


class OpenAIModel:
    """A model behind OpenAI's Responses API, by its name there, `OpenAIModel("gpt-…")`.

    `client` is a ready `openai.AsyncOpenAI`; else `base_url` and `api_key`, or the SDK's own
    environment variables, say where to send. `max_tokens` is the longest reply, reasoning
    included, the model's own limit where None. `reasoning_effort` ("low", "high", …) and
    `reasoning_summary` ("auto", …: shows what the model thinks) are for models that reason.
    `think_tags` takes `<think>` tags out of the text (`think_tags.py`). `store` lets the provider
    keep the replies, so that a request carries only what is new; None is yes at OpenAI's own
    address and no elsewhere, since a server that ignores `previous_response_id` would answer
    without the conversation. `extra_body` is merged into every request as it is. Raises UsageError
    where `model` is empty.
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
        store: bool | None = None,
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
        self._store = self.address in OWN_ADDRESSES if store is None else store
        self._forgotten = 0  # times in a row
        self._gone: set[str] = set()
        self._conversations = Conversations(ResponsesConversation)

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

    @property
    def keys(self) -> list[str]:
        """The keys it was given, which nothing may show."""
        of_client = (getattr(self._given, name, None) for name in ("api_key",))
        return [key for key in (self._api_key, *of_client) if isinstance(key, str) and key]

    def check(self) -> None:
        """Raise MissingKey where there is no key; sends nothing."""
        if self._given or self._api_key or os.environ.get("OPENAI_API_KEY"):
            return
        raise MissingKey(
            f"There is no API key for {self.name}. Set the environment variable OPENAI_API_KEY, "
            "or pass OpenAIModel(…, api_key=…). To try things without a key, use the offline "
            "model: Agent('offline:tour')."
        )

    def stream(self, request: Request) -> AsyncGenerator[ModelDelta, None]:
        """Answer a request; see `Model.stream`."""
        self.check()
        conversation = self._conversation(request)

        def forgotten() -> None:
            self._forget(conversation.previous)

        decoder = ResponsesDecoder(conversation.digest, forgotten)
        return deltas(
            self._clients.get,
            lambda client: self._send(client, request, conversation),
            tagged(decoder, self._think_tags),
            provider="OpenAI",
            limit_s=request.stream_timeout_s,
            secrets=openai_client.secrets,
        )

    @asynccontextmanager
    async def _send(
        self, client: AsyncOpenAI, request: Request, conversation: Sent
    ) -> AsyncGenerator[Response, None]:
        """The response to what is new, or, where the server has forgotten what it was new to, to
        the whole conversation."""
        previous = self._previous(conversation)
        async with AsyncExitStack() as stack:
            try:
                payload = self._payload(request, conversation.encoded, previous)
                response = await stack.enter_async_context(_create(client, payload))
                if previous is not None:
                    self._forgotten = 0
            except Exception as error:
                if previous is None or not _has_forgotten(error, previous.id):
                    raise
                self._forget(previous)
                payload = self._payload(request, conversation.encoded, None)
                response = await stack.enter_async_context(_create(client, payload))
            yield response

    @property
    def _chains(self) -> bool:
        """Whether requests go on from the reply before. A server that has forgotten twice in a row
        keeps nothing, whatever it says, and asking it each time would double every request."""
        return self._store and self._forgotten < FORGETS

    def _previous(self, conversation: Sent) -> Previous | None:
        """What a request goes on from: not from what the server has said it does not hold."""
        previous = conversation.previous if self._chains else None
        return None if previous is None or previous.id in self._gone else previous

    def _forget(self, previous: Previous | None) -> None:
        if previous is not None and previous.id not in self._gone:
            self._gone.add(previous.id)
            self._forgotten += 1

    def _conversation(self, request: Request) -> Sent:
        return self._conversations.at(request.messages, lambda c: c.sent(request.messages))

    def encode(self, request: Request) -> dict[str, Any]:
        """The request's body. Sends nothing."""
        return self.payload(request).body

    def payload(self, request: Request) -> Payload:
        """The body as values and as the bytes that go out. Sends nothing."""
        conversation = self._conversation(request)
        previous = self._previous(conversation)
        return self._payload(request, conversation.encoded, previous)

    def _payload(self, request: Request, encoded: Encoded, previous: Previous | None) -> Payload:
        body: dict[str, Any] = {
            "model": self.model,
            "store": self._store,
            "stream": True,
        }
        if previous is not None:
            encoded = encoded.since(previous.length)
            body["previous_response_id"] = previous.id
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
        return Payload(body | self._extra_body, "input", encoded)

    def _make(self) -> AsyncOpenAI:
        return openai_client.make(self._api_key, self._base_url)


def _create(client: AsyncOpenAI, payload: Payload) -> Opened:
    if openai_client.is_plain(client):
        return openai_client.post(client, "/responses", payload)
    return client.responses.with_streaming_response.create(
        model=payload.fields["model"], input=[], stream=True, extra_body=payload.plain_body()
    )


def _has_forgotten(error: Exception, id: str) -> bool:
    """Whether a server refused a request because it does not hold the response `id`.

    OpenAI says so with a code, or names the parameter (an account without storage); others answer
    404 and name the id.
    """
    if getattr(error, "status_code", None) not in (400, 404):
        return False
    named = (getattr(error, "code", None), getattr(error, "param", None))
    return bool({FORGOTTEN, "previous_response_id"} & {*named}) or (id in str(error))
