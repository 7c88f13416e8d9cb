"""What went wrong on the way to a provider, as one ProviderError: the class that the engine acts
by, and words for a person. Shared by every adapter; imports no SDK.

SDK and transport exceptions are known by the names of their classes, because the same client may
stand on one of several HTTP libraries, and because an `except` must not import an SDK.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Any

from agentloop_nb.errors import ProviderError, ProviderErrorKind
from agentloop_nb.models.retry_after import wait_asked
from agentloop_nb.models.wire import part_of, text_in

_BY_WORD: dict[str, ProviderErrorKind] = {
    # https://platform.claude.com/docs/en/api/errors
    "invalid_request_error": "request",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "billing",
    "not_found_error": "model_not_found",
    "request_too_large": "request",
    "rate_limit_error": "rate_limit",
    "timeout_error": "timeout",
    "api_error": "server",
    "overloaded_error": "overloaded",
    # https://platform.openai.com/docs/guides/error-codes, and `ResponseError.code` of its SDK
    "insufficient_quota": "billing",
    "billing_hard_limit_reached": "billing",
    "invalid_api_key": "auth",
    "model_not_found": "model_not_found",
    "context_length_exceeded": "context_overflow",
    "rate_limit_exceeded": "rate_limit",
    "tokens": "rate_limit",
    "requests": "rate_limit",
    "server_error": "server",
    "internal_server_error": "server",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "invalid_prompt": "request",
    "previous_response_not_found": "server",  # tried again with the whole conversation
    **dict.fromkeys(
        (
            "invalid_image",
            "invalid_image_format",
            "invalid_base64_image",
            "invalid_image_url",
            "invalid_image_mode",
            "image_too_large",
            "image_too_small",
            "image_parse_error",
            "image_content_policy_violation",
            "image_file_too_large",
            "image_file_not_found",
            "unsupported_image_media_type",
            "empty_image_file",
            "failed_to_download_image",
        ),
        "request",
    ),
    "vector_store_timeout": "timeout",
}

_BY_STATUS: dict[int, ProviderErrorKind] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model_not_found",
    408: "timeout",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

_PASSES = re.compile(r"retry in \d|RESOURCE_EXHAUSTED|per minute", re.IGNORECASE)
"""Said of a quota that fills again by itself: a rate, not an empty account."""

_BY_TEXT: tuple[tuple[str, ProviderErrorKind], ...] = (
    (r"credit balance|exceeded your current quota|insufficient_quota", "billing"),
    (
        r"prompt is too long|maximum context length|context_length_exceeded"
        r"|context[ _]window|exceed\w* (?:the )?(?:available )?context",
        "context_overflow",
    ),
)
"""Where a provider says only in words what a program has to know. Tried on refusals alone."""

_ADVICE: dict[ProviderErrorKind, str] = {
    "rate_limit": "Wait a little and run the prompt again.",
    "timeout": "Run the prompt again.",
    "overloaded": "It is busy, not broken: run the prompt again in a little while.",
    "context_overflow": "The conversation is longer than the model can read: start a new session.",
    "auth": "Check the API key, and that it may use this model.",
    "billing": "Check the account's credit and plan; trying again will not help.",
    "model_not_found": "Check the model's name and, where one is set, the base URL.",
    "connection": "Check the network, the base URL and any proxy, then run the prompt again.",
    "server": "Run the prompt again; if it keeps happening, look at the provider's status page.",
    "request": "The request itself was not accepted; the message says what about it.",
    "protocol": "Look at the server or the proxy in between, and at the base URL.",
}

_KEY_SHAPES = re.compile(
    r"\bsk-[\w*.-]{6,}"
    r"|(?<=Bearer )[^\s\"',]+"
    r"|(?<=x-api-key: )[^\s\"',]+"
    r"|(?<=[?&]key=)[^&\s\"']+"
    r"|(?<=api_key=)[^&\s\"',)]+"
    r"|(?<=api-key=)[^&\s\"',)]+"
    r"|(?<=token=)[^&\s\"',)]+"
    r"|(?<=://)[^/\s@]+(?=@)",
    re.IGNORECASE,
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the given secrets and without anything that has the shape of a key."""
    for secret in secrets:
        if len(secret) >= 6:
            text = text.replace(secret, "[key]")
    return _KEY_SHAPES.sub("[key]", text)


def from_exception(
    error: Exception, provider: str, secrets: Iterable[str] = ()
) -> ProviderError | None:
    """The ProviderError that an SDK's or a transport's exception amounts to.

    None for an exception that neither raises on purpose: a fault in our own code, which must not
    pass for the provider's.
    """
    if isinstance(error, ProviderError):
        return error
    names = {cls.__name__ for cls in type(error).__mro__}
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        body = _body_of(error)
        made = from_body(body, provider, status=status, text=str(error), secrets=secrets)
        made.retry_after_s = _wait_asked(error)
        return made
    if names & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
        return _made("timeout", f"{provider} did not answer in time", error, secrets)
    if names & {"APIConnectionError", "RequestError", "EndOfStream"} or isinstance(
        error, ssl.SSLError | OSError
    ):
        return _made("connection", f"The connection to {provider} failed", error, secrets)
    if "APIError" in names:
        return from_body(_body_of(error), provider, text=str(error), secrets=secrets)
    if names & {"OpenAIError", "AnthropicError", "InvalidURL", "StreamError"}:
        return _made("request", f"The request to {provider} could not be made", error, secrets)
    return None


def from_body(
    body: Mapping[str, Any],
    provider: str,
    *,
    status: int | None = None,
    text: str = "",
    secrets: Iterable[str] = (),
) -> ProviderError:
    """The ProviderError for an error object of a provider: `{"type", "code", "message"}`.

    The words in the body decide before the status: an error inside a stream comes with status 200,
    and a spent quota comes as 429.
    """
    message = (text_in(body, "message") or text or "no details").strip()
    if status is None and isinstance(body.get("code"), int):
        status = body["code"]
    if status is not None and status < 400:
        status = None
    kind = _kind(body, status, message)
    which = f", status {status}" if status is not None else ""
    what = f"{provider} answered with an error ({kind.replace('_', ' ')}{which}): {message}"
    return _error(redact(what, secrets), kind, status)


def _kind(body: Mapping[str, Any], status: int | None, message: str) -> ProviderErrorKind:
    words = [_BY_WORD[w] for w in (text_in(body, "code"), text_in(body, "type")) if w in _BY_WORD]
    kind = words[0] if words else _kind_of_status(status)
    if kind in ("request", "server") and status is not None:
        # The two words that say least: OpenAI's `invalid_request_error` also comes with 401 or 403.
        kind = _BY_STATUS.get(status, "request" if status < 500 else "server")
    if kind in ("request", "rate_limit", "server"):
        for pattern, by_text in _BY_TEXT:
            if re.search(pattern, message, re.IGNORECASE):
                passes = by_text == "billing" and status == 429 and _passes(body, message)
                return "rate_limit" if passes else by_text
    if kind == "model_not_found" and "model" not in message.lower():
        return "request"
    return kind


def _passes(body: Mapping[str, Any], message: str) -> bool:
    return bool(_PASSES.search(message) or _PASSES.search(text_in(body, "status")))


def _kind_of_status(status: int | None) -> ProviderErrorKind:
    if status is None:
        return "server"
    return _BY_STATUS.get(status, "server" if status >= 500 else "request")


def _wait_asked(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return None
    return wait_asked({name.lower(): value for name, value in headers.items()}, time.time())


def _body_of(error: Exception) -> Mapping[str, Any]:
    """The error object in an SDK exception's body: some wrap it in `{"error": …}`."""
    body = getattr(error, "body", None)
    if not isinstance(body, Mapping):
        return {}
    return part_of(body, "error") or body


def _made(
    kind: ProviderErrorKind, what: str, error: Exception, secrets: Iterable[str]
) -> ProviderError:
    # The outermost text is often just "Connection error."; the cause says which.
    cause = error.__cause__ or error.__context__
    details = [str(e).strip() or type(e).__name__ for e in (error, cause) if e is not None]
    said = ": ".join(dict.fromkeys(detail.rstrip(".") for detail in details))
    return _error(redact(f"{what} ({said})", secrets), kind, None)


def _error(what: str, kind: ProviderErrorKind, status: int | None) -> ProviderError:
    what = what[:1].upper() + what[1:]
    what += "" if what.endswith((".", "!", "?")) else "."
    return ProviderError(f"{what} {_ADVICE[kind]}", kind=kind, status=status, what=what)
