"""Random streams in each format, written by hand, with what a reader should get of them.

Nothing here reads a stream: a generator writes frames and says of each what it adds, so a decoder
is compared with the writer and not with itself. All follows from the seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

Fault = Literal["none", "end", "break", "stall", "error"]

WORDS = (
    *(
        "a",
        "Hello ",
        "\n",
        "\n\n",
        "\r\n",
        "data: x\n\n",
        "event: error\n",
        "[DONE]",
        " ",
        "{",
        '"',
    ),
    *(
        "\\",
        "\\u0041",
        "é",
        "ß",
        "🍸",
        "👩\u200d👩\u200d👧",
        "\u2028",
        "\u0085",
        "\x00",
        "日本語",
        "</",
    ),
)


@dataclass
class Adds:
    """What a frame adds once it has been read: text, thinking, and the calls complete with it."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, str], ...] = ()


@dataclass
class RandomStream:
    """`frames` as bytes with what each adds, `calls` those that may run where nothing fails, and
    `stop` the stop reason in our words. The bytes come in `chunks`, and then `fault` happens;
    `read` is how many frames are whole by then."""

    format: str
    seed: int
    frames: list[tuple[bytes, Adds]] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    stop: str = ""
    fault: Fault = "none"
    chunks: list[bytes] = field(default_factory=list)
    read: int = 0

    def added(self, count: int) -> Adds:
        """What the first `count` frames add together."""
        parts = [adds for _, adds in self.frames[:count]]
        return Adds(
            "".join(p.text for p in parts),
            "".join(p.thinking for p in parts),
            tuple(call for p in parts for call in p.calls),
        )


def random_stream(format: str, seed: int) -> RandomStream:
    """The stream of this seed."""
    rng = Random(f"{format} {seed}")
    stream = RandomStream(format, seed)
    writer = _Writer(rng, stream)
    WRITERS[format](writer)
    writer.break_it()
    return stream


class _Writer:
    """Frames with the freedoms that the format of event streams gives."""

    def __init__(self, rng: Random, stream: RandomStream) -> None:
        self.rng = rng
        self.stream = stream
        self.newline = rng.choice(["\n", "\n", "\r\n"])
        self.ascii = rng.random() < 0.5

    def write(self, event: dict[str, Any] | str, adds: Adds | None = None) -> None:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=self.ascii)
        lines = [f"data: {data}"] if self.rng.random() < 0.8 else [f"data:{data}"]
        if isinstance(event, dict) and "type" in event and self.rng.random() < 0.9:
            lines.insert(0, f"event: {event['type']}")
        if self.rng.random() < 0.05:
            lines.insert(0, ": a comment")
        if self.rng.random() < 0.05:
            lines.insert(0, "id: 7")
        frame = self.newline.join([*lines, "", ""]).encode()
        self.stream.frames.append((frame, adds or Adds()))

    def pieces(self) -> list[str]:
        """A text in the pieces that it comes in."""
        return [
            "".join(self.rng.choices(WORDS, k=self.rng.randint(1, 3)))
            for _ in range(self.rng.randint(0, 5))
        ]

    def arguments(self) -> list[str]:
        """JSON text of an object, in pieces."""
        value = {"n": self.rng.randint(0, 9), "t": "".join(self.pieces())}
        text = json.dumps(value, ensure_ascii=self.rng.random() < 0.5)
        cuts = sorted(self.rng.sample(range(len(text) + 1), min(3, len(text))))
        parts = [text[i:j] for i, j in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        return [part for part in parts if part]

    def break_it(self) -> None:
        """Choose a fault and where it happens, and cut the bytes into chunks."""
        rng, stream = self.rng, self.stream
        stream.fault = rng.choice(["none", "none", "end", "break", "stall", "error"])
        frames = [frame for frame, _ in stream.frames]
        if stream.fault == "error":
            at = rng.randrange(len(frames))
            stream.read = at
            error = {
                "anthropic": {"type": "error", "error": {"type": "api_error", "message": "No."}},
                "openai": {"type": "error", "code": "server_error", "message": "No."},
                "openai-chat": {"error": {"code": "server_error", "message": "No."}},
            }[stream.format]
            data = b"".join(frames[:at]) + f"data: {json.dumps(error)}\n\n".encode()
        else:
            data = b"".join(frames)
            if stream.fault != "none":
                data = data[: rng.randrange(len(data))]
            length, stream.read = 0, 0
            for frame in frames:
                length += len(frame)
                stream.read += length <= len(data)
        most = rng.choice([1, 3, 50, 10_000])
        while data:
            size = rng.randint(1, most)
            stream.chunks.append(data[:size])
            data = data[size:]


# -- Anthropic


def _anthropic(w: _Writer) -> None:
    rng, stream = w.rng, w.stream
    w.write({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3}}})
    last_is_call = False
    for index in range(rng.randint(0, 5)):
        if rng.random() < 0.2:
            w.write({"type": rng.choice(["ping", "something_new"])})
        kind = rng.choice(["text", "text", "thinking", "tool_use", "redacted_thinking", "new"])
        last_is_call = kind == "tool_use"
        _anthropic_block(w, index, kind)
    reason = rng.choice(["end_turn", "tool_use", "max_tokens", "refusal", "stop_sequence", "new"])
    stream.stop = "unknown" if reason == "new" else reason
    if reason in ("max_tokens", "refusal") and last_is_call:
        stream.calls.pop()  # its block ends, and it may be cut all the same
    w.write({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}})
    w.write({"type": "message_stop"})


def _anthropic_block(w: _Writer, index: int, kind: str) -> None:
    heads: dict[str, dict[str, Any]] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"id": f"toolu_{index}", "name": f"tool{index}", "input": {}},
        "redacted_thinking": {"data": "b3BhcXVl"},
        "new": {"what": 1},
    }
    head = {"type": kind, **heads[kind]}
    w.write({"type": "content_block_start", "index": index, "content_block": head})

    def delta(type: str, key: str, text: str, adds: Adds | None = None) -> None:
        inner = {"type": type, key: text}
        w.write({"type": "content_block_delta", "index": index, "delta": inner}, adds)

    done = Adds()
    match kind:
        case "text":
            for piece in w.pieces():
                delta("text_delta", "text", piece, Adds(text=piece))
        case "thinking":
            for piece in w.pieces():
                delta("thinking_delta", "thinking", piece, Adds(thinking=piece))
            delta("signature_delta", "signature", "c2lnbmVk")
        case "tool_use":
            parts = w.arguments() if w.rng.random() < 0.8 else []
            for part in parts:
                delta("input_json_delta", "partial_json", part)
            call = (f"tool{index}", "".join(parts) or "{}")
            w.stream.calls.append(call)
            done = Adds(calls=(call,))
    w.write({"type": "content_block_stop", "index": index}, done)


# -- Chat Completions


def _chat(w: _Writer) -> None:
    rng, stream = w.rng, w.stream
    if rng.random() < 0.3:
        w.write({"choices": []})
    for _ in range(rng.randint(0, 4)):
        for piece in w.pieces():
            if rng.random() < 0.5:
                name = rng.choice(["reasoning", "reasoning_content"])
                _choice(w, {name: piece}, Adds(thinking=piece))
            else:
                _choice(w, {"content": piece}, Adds(text=piece))
    calls = [_chat_call(w, i) for i in range(rng.choice([0, 0, 1, 2, 3]))]
    reason = rng.choice(["stop", "tool_calls", "length", "content_filter", "new"])
    complete = calls[:-1] if reason in ("length", "content_filter") else calls
    words = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
    stream.stop = {"content_filter": "refusal"}.get(reason) or words.get(reason, "unknown")
    if complete and stream.stop in ("end_turn", "unknown"):
        stream.stop = "tool_use"
    stream.calls = complete
    _choice(w, {}, Adds(calls=tuple(complete)), reason)
    if rng.random() < 0.6:
        w.write({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    if rng.random() < 0.9:
        w.write("[DONE]")


def _choice(w: _Writer, delta: dict[str, Any], adds: Adds, reason: str | None = None) -> None:
    w.write({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}, adds)


def _chat_call(w: _Writer, i: int) -> tuple[str, str]:
    """One call, in one of the shapes that servers send."""
    parts = w.arguments() if w.rng.random() < 0.8 else []
    shape = w.rng.choice(["usual", "whole", "no index", "name again", "id again"])
    head: dict[str, Any] = {"index": i, "id": f"call_{i}"}
    name = {"name": f"tool{i}"}
    if shape == "no index":
        head.pop("index")
    if shape in ("whole", "no index"):
        entry = head | {"function": name | {"arguments": "".join(parts)}}
        _choice(w, {"tool_calls": [entry]}, Adds())
    else:
        _choice(w, {"tool_calls": [head | {"function": name | {"arguments": ""}}]}, Adds())
        for part in parts:
            entry = {"index": i, "function": {"arguments": part}}
            if shape == "name again":
                entry["function"] = name | {"arguments": part}
            if shape == "id again":
                entry["id"] = f"call_{i}"
            _choice(w, {"tool_calls": [entry]}, Adds())
    return f"tool{i}", "".join(parts) or "{}"


# -- Responses


def _responses(w: _Writer) -> None:
    rng, stream = w.rng, w.stream
    w.write({"type": "response.created", "response": {"id": "resp_1"}})
    last_is_call = refused = False
    for index in range(rng.randint(0, 5)):
        kind = rng.choice(["message", "message", "reasoning", "function_call", "web_search_call"])
        last_is_call = kind == "function_call"
        if rng.random() < 0.2:
            w.write({"type": "response.something.new", "output_index": index})
        match kind:
            case "message":
                refused = _message(w, index) or refused
            case "reasoning":
                _reasoning(w, index)
            case "function_call":
                _function_call(w, index)
            case _:
                item = {"type": kind, "id": f"ws_{index}", "status": "completed"}
                w.write(_item("added", index, item))
                w.write(_item("done", index, item))
    called = bool(stream.calls)
    end = rng.choice(["completed", "completed", "max_output_tokens", "content_filter"])
    response: dict[str, Any] = {"id": "resp_1", "status": "completed", "usage": {}}
    if end != "completed":
        response |= {"status": "incomplete", "incomplete_details": {"reason": end}}
        if last_is_call:
            stream.calls.pop()
    stream.stop = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}.get(end, "")
    stream.stop = stream.stop or ("refusal" if refused else "tool_use" if called else "end_turn")
    w.write({"type": f"response.{response['status']}", "response": response})


def _item(when: str, index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.output_item.{when}", "output_index": index, "item": item}


def _message(w: _Writer, index: int) -> bool:
    """A message of some parts, streamed or whole at its end; whether one of them refuses."""
    item = {"type": "message", "id": f"msg_{index}", "role": "assistant", "content": []}
    w.write(_item("added", index, item))
    streamed = w.rng.random() < 0.8
    content, refused, late = [], False, ""
    for i in range(w.rng.randint(0, 2)):
        refusal = w.rng.random() < 0.1
        pieces = w.pieces()
        kind, key = ("refusal", "refusal") if refusal else ("output_text", "text")
        content.append({"type": kind, key: "".join(pieces)})
        if streamed:
            at = {"output_index": index, "content_index": i}
            for piece in pieces:
                event = {"type": f"response.{kind}.delta", **at, "delta": piece}
                w.write(event, Adds(text=piece))
        else:
            late += "".join(pieces)
        refused = refused or refusal
    w.write(_item("done", index, item | {"content": content}), Adds(text=late))
    return refused


def _reasoning(w: _Writer, index: int) -> None:
    item: dict[str, Any] = {"type": "reasoning", "id": f"rs_{index}", "summary": []}
    w.write(_item("added", index, item))
    begun = False
    for i in range(w.rng.randint(0, 2)):
        pieces = w.pieces()
        item["summary"].append({"type": "summary_text", "text": "".join(pieces)})
        for j, piece in enumerate(pieces):
            at = {"output_index": index, "summary_index": i}
            event = {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
            w.write(event, Adds(thinking=("\n\n" if begun and j == 0 else "") + piece))
        begun = begun or bool(pieces)
    w.write(_item("done", index, item))


def _function_call(w: _Writer, index: int) -> None:
    parts = w.arguments() if w.rng.random() < 0.9 else []
    name, arguments = f"tool{index}", "".join(parts)
    item = {"type": "function_call", "call_id": f"call_{index}", "name": name, "arguments": ""}
    w.write(_item("added", index, item))
    if w.rng.random() < 0.8:
        for part in parts:
            kind = "response.function_call_arguments.delta"
            w.write({"type": kind, "output_index": index, "delta": part})
    call = (name, arguments or "{}")
    w.stream.calls.append(call)
    done = item | {"arguments": arguments, "status": "completed"}
    w.write(_item("done", index, done), Adds(calls=(call,)))


WRITERS: dict[str, Callable[[_Writer], None]] = {
    "anthropic": _anthropic,
    "openai": _responses,
    "openai-chat": _chat,
}


def streams(format: str, seeds: range) -> Iterator[RandomStream]:
    """The streams of these seeds."""
    return (random_stream(format, seed) for seed in seeds)
