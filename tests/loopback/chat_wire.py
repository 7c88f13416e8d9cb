"""The Chat Completions API as its server writes it.

Source: https://platform.openai.com/docs/api-reference/chat-streaming. Reasoning, which OpenAI does
not show in this format, travels as compatible servers send it, in `reasoning_content`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentloop_nb.messages import Usage
from tests.loopback import openai_errors
from tests.loopback.chat_check import check_chat
from tests.loopback.checking import Complaint
from tests.loopback.script import Call, Fail, Part, Ping, Refusal, Reply, Say, Step, Think
from tests.loopback.sealed import token
from tests.loopback.wire import Frame, Out, compact, outs, sse

FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
CREATED = 1_700_000_000


class ChatWire:
    name = "openai-chat"
    path = "/chat/completions"

    def refuse_headers(self, headers: Mapping[str, str], key: str | None) -> Refusal | None:
        return openai_errors.refuse_headers(headers, key)

    def expand(self, body: dict[str, Any]) -> dict[str, Any]:
        return body

    def check(self, body: dict[str, Any]) -> list[Complaint]:
        return check_chat(body)

    def refusal(self, complaint: Complaint) -> Refusal:
        return openai_errors.refusal(complaint)

    def error_body(self, refusal: Refusal) -> Mapping[str, Any]:
        return openai_errors.error_body(refusal)

    def stream(self, reply: Reply, body: dict[str, Any], serial: int) -> Iterator[Out]:
        return _Stream(reply, body, serial).events()


class _Stream:
    """One reply being written."""

    def __init__(self, reply: Reply, body: dict[str, Any], serial: int) -> None:
        self._reply = reply
        self._token = token("chat", compact(body), str(serial), length=20)
        self._counts = bool((body.get("stream_options") or {}).get("include_usage"))
        self._calls = 0
        self._head = {
            "id": f"chatcmpl-{self._token}",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": body["model"],
        }

    def events(self) -> Iterator[Out]:
        yield Frame(self._chunk({"role": "assistant", "content": "", "refusal": None}))
        for part in self._reply.parts:
            yield from self._part(part)
        stop = self._reply.stop_reason
        yield Frame(self._chunk({}, "content_filter" if stop == "refusal" else FINISH.get(stop)))
        if self._counts:
            yield Frame(sse(self._head | {"choices": [], "usage": _usage(self._reply.usage)}))
        yield Frame(sse("[DONE]"), last=True)

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        rest = {"usage": None} if self._counts else {}
        return sse(self._head | {"choices": [choice]} | rest)

    def _part(self, part: Part) -> Iterator[Out]:
        match part:
            case Say(pieces):
                yield from outs(pieces, lambda t: self._chunk({"content": t}), self._step)
            case Think(pieces, kind):
                shown = [p for p in pieces if kind == "shown" or not isinstance(p, str)]
                yield from outs(shown, lambda t: self._chunk({"reasoning_content": t}), self._step)
            case Call():
                yield from self._call(part)
            case _:
                yield from self._step(part)

    def _call(self, call: Call) -> Iterator[Out]:
        index = self._calls
        self._calls += 1
        first = {
            "index": index,
            "id": call.id or f"call_{self._token}{index:02d}",
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        yield Frame(self._chunk({"tool_calls": [first]}))

        def more(text: str) -> bytes:
            piece = {"index": index, "function": {"arguments": text}}
            return self._chunk({"tool_calls": [piece]})

        yield from outs(call.pieces, more, self._step)

    def _step(self, step: Step) -> Iterator[Out]:
        match step:
            case Ping():
                yield Frame(b": ping\n\n")  # a comment, as proxies send
            case Fail(code, message):
                error = {"message": message, "type": "server_error", "param": None, "code": code}
                yield Frame(sse({"error": error}), last=True)
            case _:
                yield step


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
