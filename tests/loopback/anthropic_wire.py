"""The Messages API as its server writes it: events of a stream, error bodies, headers.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming and …/docs/en/api/errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentloop_nb.messages import Usage
from tests.loopback.anthropic_check import check_anthropic
from tests.loopback.checking import Complaint
from tests.loopback.script import Call, Fail, Part, Ping, Refusal, Reply, Say, Step, Think
from tests.loopback.sealed import seal, sign, token
from tests.loopback.wire import Frame, Out, compact, outs, sse, text_of

STATUS_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
MESSAGES = {
    401: "invalid x-api-key",
    404: "model: no such model",
    429: "This request would exceed your organization's rate limit.",
    500: "Internal server error",
    529: "Overloaded",
}


class AnthropicWire:
    name = "anthropic"
    path = "/messages"

    def refuse_headers(self, headers: Mapping[str, str], key: str | None) -> Refusal | None:
        given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if not given or (key is not None and given != key):
            return Refusal(401)
        if "anthropic-version" not in headers:
            return Refusal(400, "anthropic-version: header is required")
        return None

    def expand(self, body: dict[str, Any]) -> dict[str, Any]:
        return body

    def check(self, body: dict[str, Any]) -> list[Complaint]:
        return check_anthropic(body)

    def refusal(self, complaint: Complaint) -> Refusal:
        return Refusal(400, complaint.message)

    def error_body(self, refusal: Refusal) -> Mapping[str, Any]:
        status = refusal.status
        error = {
            "type": refusal.type or refusal.code or STATUS_TYPES.get(status, "api_error"),
            "message": refusal.message or MESSAGES.get(status, "Scripted."),
        }
        return {"type": "error", "error": error, "request_id": "req_loopback"}

    def stream(self, reply: Reply, body: dict[str, Any], serial: int) -> Iterator[Out]:
        return _Stream(reply, body, serial).events()


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, kind)


class _Stream:
    """One reply being written."""

    def __init__(self, reply: Reply, body: dict[str, Any], serial: int) -> None:
        self._reply = reply
        self._model = body["model"]
        self._token = token("anthropic", compact(body), str(serial), length=20)
        self._index = 0

    def events(self) -> Iterator[Out]:
        yield Frame(self._start())
        yield from self._step(Ping())
        for part in self._reply.parts:
            yield from self._part(part)
        stop: dict[str, Any] = {"stop_reason": self._reply.stop_reason, "stop_sequence": None}
        usage = {"output_tokens": self._reply.usage.output_tokens}
        yield Frame(_event("message_delta", delta=stop, usage=usage))
        yield Frame(_event("message_stop"), last=True)

    def _start(self) -> bytes:
        message = {
            "id": f"msg_01{self._token}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(self._reply.usage),
        }
        return _event("message_start", message=message)

    def _part(self, part: Part) -> Iterator[Out]:
        match part:
            case Say(pieces):
                block = {"type": "text", "text": ""}
                yield from self._block(block, pieces, _delta("text_delta", "text"))
            case Think(pieces, kind):
                yield from self._thinking(part, kind)
            case Call(name, pieces, id):
                id = id or f"toolu_01{self._token}{self._index:02d}"
                use = {"type": "tool_use", "id": id, "name": name, "input": {}}
                yield from self._block(use, pieces, _delta("input_json_delta", "partial_json"))
            case _:
                yield from self._step(part)

    def _thinking(self, part: Think, kind: str) -> Iterator[Out]:
        text = text_of(part)
        if kind == "redacted":
            steps = [piece for piece in part.pieces if not isinstance(piece, str)]
            block = {"type": "redacted_thinking", "data": seal(text)}
            yield from self._block(block, steps, _delta("", ""))
            return
        hidden = kind == "hidden"
        pieces = [p for p in part.pieces if not (hidden and isinstance(p, str))]
        block = {"type": "thinking", "thinking": "", "signature": ""}
        signature = {"type": "signature_delta", "signature": sign(text, hidden=hidden)}
        yield from self._block(block, pieces, _delta("thinking_delta", "thinking"), signature)

    def _block(
        self,
        block: Mapping[str, Any],
        pieces: Any,
        delta: Callable[[str], Mapping[str, str]],
        closing: Mapping[str, str] | None = None,
    ) -> Iterator[Out]:
        index = self._index
        yield Frame(_event("content_block_start", index=index, content_block=block))
        yield from outs(
            pieces,
            lambda piece: _event("content_block_delta", index=index, delta=delta(piece)),
            self._step,
        )
        if closing:
            yield Frame(_event("content_block_delta", index=index, delta=closing))
        yield Frame(_event("content_block_stop", index=index))
        self._index += 1

    def _step(self, step: Step) -> Iterator[Out]:
        match step:
            case Ping():
                yield Frame(_event("ping"))
            case Fail(code, message):
                error = {"type": code, "message": message}
                yield Frame(_event("error", error=error), last=True)
            case _:
                yield step


def _delta(kind: str, key: str) -> Callable[[str], Mapping[str, str]]:
    return lambda piece: {"type": kind, key: piece}


def _usage(usage: Usage) -> dict[str, int]:
    """The API's own convention: input tokens without those of the cache."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": 1,
    }
