"""How both OpenAI adapters make their SDK client. The SDK is imported when one is made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from agentloop_nb.models.clients import uses_default_http
from agentloop_nb.models.conversation import Payload
from agentloop_nb.models.transport import Opened, posted

if TYPE_CHECKING:
    from openai import AsyncOpenAI


def make(api_key: str | None, base_url: str | None) -> AsyncOpenAI:
    """A new client. No timeout of the SDK's: a silence is judged in one place (`silence.py`)."""
    from openai import AsyncOpenAI

    return AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0, timeout=None)


def again(client: AsyncOpenAI) -> AsyncOpenAI | None:
    """A client like `client` with new connections, or None where it has its own HTTP client."""
    from openai import DefaultAsyncHttpxClient

    if not uses_default_http(client):
        return None
    return client.copy(http_client=DefaultAsyncHttpxClient())


def is_plain(client: AsyncOpenAI) -> bool:
    """Whether this is the SDK's own client, and not one for another platform (Azure's)."""
    from openai import AsyncOpenAI

    return type(client) is AsyncOpenAI


def post(client: AsyncOpenAI, path: str, payload: Payload) -> Opened:
    """The response to a request; see `posted`."""
    from openai import AsyncStream

    return posted(client, path, payload.content(), AsyncStream)


def address(client: AsyncOpenAI | None, base_url: str | None) -> str:
    """Where requests go, "" for the SDK's own address."""
    given = client.base_url if client is not None else base_url
    return str(given or os.environ.get("OPENAI_BASE_URL") or "").rstrip("/")


def secrets(client: AsyncOpenAI) -> list[str]:
    """The keys that must not show in an error's text."""
    held = (client.api_key, os.environ.get("OPENAI_API_KEY"))
    return [key for key in held if key]
