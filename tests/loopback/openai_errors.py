"""What both of OpenAI's formats share: the key in the header, and error bodies.

Source: https://platform.openai.com/docs/guides/error-codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.loopback.checking import Complaint
from tests.loopback.script import Refusal

# status: (type, code, message)
BY_STATUS: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "Bad request."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", None, "Country, region, or territory not supported."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    503: ("server_error", "server_is_overloaded", "Our servers are currently overloaded."),
}


def refuse_headers(headers: Mapping[str, str], key: str | None) -> Refusal | None:
    given = headers.get("authorization", "").removeprefix("Bearer ")
    if not given or (key is not None and given != key):
        return Refusal(401)
    return None


def refusal(complaint: Complaint) -> Refusal:
    return Refusal(400, complaint.message, code=complaint.code, param=complaint.param)


def error_body(refusal: Refusal) -> Mapping[str, Any]:
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    default = (kind, None, "The server had an error while processing your request.")
    kind, code, message = BY_STATUS.get(refusal.status, default)
    error = {
        "message": refusal.message or message,
        "type": refusal.type or kind,
        "param": refusal.param or None,
        "code": refusal.code or (None if refusal.status == 400 else code),
    }
    return {"error": error}
