"""The Responses API as its server writes it: numbered events, with full response objects at both
ends and each item whole when it is done.

Source: https://platform.openai.com/docs/api-reference/responses-streaming. As there, a reasoning
item shows a summary only where the request asks for one, and is encrypted only where it says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentloop_nb.messages import Usage
from tests.loopback import openai_errors
from tests.loopback.checking import Complaint
from tests.loopback.responses_check import check_responses, follower_id
from tests.loopback.script import Call, Fail, Part, Ping, Refusal, Reply, Say, Step, Think
from tests.loopback.sealed import seal, token
from tests.loopback.wire import Frame, Out, compact, outs, sse, text_of

CREATED = 1_700_000_000
INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


class ResponsesWire:
    """`stored` holds the items that each response stands for, itself included; where not `stores`
    the service is one that keeps nothing and does not say so."""

    name = "openai"
    path = "/responses"

    def __init__(self, *, stores: bool = True) -> None:
        self.stores = stores
        self.stored: dict[str, list[Any]] = {}

    def expand(self, body: dict[str, Any]) -> dict[str, Any] | Refusal:
        id, new = body.get("previous_response_id"), body.get("input")
        if id is None or not isinstance(new, list):
            return body
        if id not in self.stored:
            return openai_errors.refusal(
                Complaint(
                    f"Previous response with id '{id}' not found.",
                    "previous_response_id",
                    "previous_response_not_found",
                )
            )
        return body | {"input": [*self.stored[id], *new]}

    def refuse_headers(self, headers: Mapping[str, str], key: str | None) -> Refusal | None:
        return openai_errors.refuse_headers(headers, key)

    def check(self, body: dict[str, Any]) -> list[Complaint]:
        return check_responses(body)

    def refusal(self, complaint: Complaint) -> Refusal:
        return openai_errors.refusal(complaint)

    def error_body(self, refusal: Refusal) -> Mapping[str, Any]:
        return openai_errors.error_body(refusal)

    def stream(self, reply: Reply, body: dict[str, Any], serial: int) -> Iterator[Out]:
        stream = _Stream(reply, body, serial)
        for out in stream.events():
            if stream.ended and self.stores and body.get("store", True):
                self.stored[stream.id] = [*body["input"], *stream.output]
            yield out


class _Stream:
    """One reply being written."""

    def __init__(self, reply: Reply, body: dict[str, Any], serial: int) -> None:
        self._reply = reply
        self._body = body
        self._token = token("responses", compact(body), str(serial), length=32)
        self._summary = bool((body.get("reasoning") or {}).get("summary"))
        self._encrypt = "reasoning.encrypted_content" in (body.get("include") or ())
        self._sequence = 0
        self.id = f"resp_{self._token}"
        self.output: list[dict[str, Any]] = []
        self.ended = False

    def events(self) -> Iterator[Out]:
        for kind in ("response.created", "response.in_progress"):
            yield self._frame(kind, response=self._response("in_progress"))
        for part in self._reply.parts:
            yield from self._part(part)
        reason = INCOMPLETE.get(self._reply.stop_reason)
        status = "incomplete" if reason else "completed"
        response = self._response(status) | {"usage": _usage(self._reply.usage)}
        if reason:
            response["incomplete_details"] = {"reason": reason}
        self.ended = True
        yield Frame(self._event(f"response.{status}", response=response), last=True)

    def _event(self, kind: str, **fields: Any) -> bytes:
        event = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return sse(event, kind)

    def _frame(self, kind: str, **fields: Any) -> Frame:
        return Frame(self._event(kind, **fields))

    def _response(self, status: str) -> dict[str, Any]:
        body = self._body
        return {
            "id": self.id,
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "model": body["model"],
            "output": list(self.output),
            "parallel_tool_calls": True,
            "previous_response_id": body.get("previous_response_id"),
            "reasoning": {"effort": None, "summary": None} | (body.get("reasoning") or {}),
            "store": body.get("store", True),
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": body.get("tools") or [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
            "metadata": {},
        }

    def _part(self, part: Part) -> Iterator[Out]:
        match part:
            case Say():
                yield from self._message(part)
            case Think():
                yield from self._reasoning(part)
            case Call():
                yield from self._call(part)
            case _:
                yield from self._step(part)

    def _id(self, prefix: str) -> str:
        before = self.output[-1] if self.output else {}
        if before.get("type") == "reasoning" and prefix != "rs":
            return follower_id(prefix, before["id"])
        return f"{prefix}_{self._token}{len(self.output):02d}"

    def _item(
        self, item: dict[str, Any], inner: Iterator[Out], done: dict[str, Any]
    ) -> Iterator[Out]:
        """An item from its beginning to `done`, with the events inside it."""
        index = len(self.output)
        yield self._frame("response.output_item.added", output_index=index, item=item)
        yield from inner
        yield self._frame("response.output_item.done", output_index=index, item=item | done)
        self.output.append(item | done)

    def _message(self, say: Say) -> Iterator[Out]:
        item = {
            "id": self._id("msg"),
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }
        at = {"item_id": item["id"], "output_index": len(self.output), "content_index": 0}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text_of(say)}

        def inner() -> Iterator[Out]:
            yield self._frame("response.content_part.added", **at, part=part | {"text": ""})
            kind = "response.output_text"
            yield from outs(
                say.pieces,
                lambda t: self._event(f"{kind}.delta", **at, delta=t, logprobs=[]),
                self._step,
            )
            yield self._frame(f"{kind}.done", **at, text=part["text"], logprobs=[])
            yield self._frame("response.content_part.done", **at, part=part)

        yield from self._item(item, inner(), {"status": "completed", "content": [part]})

    def _reasoning(self, think: Think) -> Iterator[Out]:
        item: dict[str, Any] = {"id": self._id("rs"), "type": "reasoning", "summary": []}
        shown = self._summary and think.kind == "shown"
        done: dict[str, Any] = {}
        if shown:
            done["summary"] = [{"type": "summary_text", "text": text_of(think)}]
        if self._encrypt:
            done["encrypted_content"] = seal(text_of(think))
        yield from self._item(item, self._summary_events(think, item["id"], shown), done)

    def _summary_events(self, think: Think, id: str, shown: bool) -> Iterator[Out]:
        at = {"item_id": id, "output_index": len(self.output), "summary_index": 0}
        kind = "response.reasoning_summary"
        if not shown:
            for piece in think.pieces:
                if not isinstance(piece, str):
                    yield from self._step(piece)
            return
        empty, whole = ({"type": "summary_text", "text": t} for t in ("", text_of(think)))
        yield self._frame(f"{kind}_part.added", **at, part=empty)
        yield from outs(
            think.pieces, lambda t: self._event(f"{kind}_text.delta", **at, delta=t), self._step
        )
        yield self._frame(f"{kind}_text.done", **at, text=whole["text"])
        yield self._frame(f"{kind}_part.done", **at, part=whole)

    def _call(self, call: Call) -> Iterator[Out]:
        item = {
            "id": self._id("fc"),
            "type": "function_call",
            "status": "in_progress",
            "arguments": "",
            "call_id": call.id or f"call_{self._token[:20]}{len(self.output):02d}",
            "name": call.name,
        }
        at = {"item_id": item["id"], "output_index": len(self.output)}
        kind = "response.function_call_arguments"

        def inner() -> Iterator[Out]:
            yield from outs(
                call.pieces, lambda t: self._event(f"{kind}.delta", **at, delta=t), self._step
            )
            yield self._frame(f"{kind}.done", **at, name=call.name, arguments=text_of(call))

        done = {"status": "completed", "arguments": text_of(call)}
        yield from self._item(item, inner(), done)

    def _step(self, step: Step) -> Iterator[Out]:
        match step:
            case Ping():
                yield Frame(b": ping\n\n")  # a comment, as proxies send
            case Fail(code, message, bare=True):
                frame = self._event("error", code=code, message=message, param=None)
                yield Frame(frame, last=True)
            case Fail(code, message):
                failed = self._response("failed") | {"error": {"code": code, "message": message}}
                yield Frame(self._event("response.failed", response=failed), last=True)
            case _:
                yield step


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
