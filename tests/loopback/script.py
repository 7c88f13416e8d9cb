"""What a loopback server can be told to answer, in no provider's words. Inert values.

A script is a list of answers, played one per request, or a function of the request's body. An
answer is a `Reply` (parts in the order they are streamed) or a `Refusal` (an HTTP error). Steps
may stand between the parts and, inside a part, between its pieces: each piece is one delta.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentloop_nb.messages import StopReason, Usage

PIECE_CHARS = 12
"""How many characters of a call's arguments one delta carries where the pieces are not given."""

# Steps: what happens between two deltas.


@dataclass(frozen=True)
class Pause:
    """Nothing is sent for so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """Nothing is sent until `server.release(name)`, or ever where nobody releases it."""

    name: str


@dataclass(frozen=True)
class Ping:
    """A sign that the connection lives and nothing else, where the format knows one."""


@dataclass(frozen=True)
class Cut:
    """The stream ends here: the connection breaks, or, where `clean`, the body ends as if whole."""

    clean: bool = False


@dataclass(frozen=True)
class Fail:
    """An error event in mid-stream, which ends it. `bare` picks the Responses API's `error` event
    over its `response.failed`."""

    code: str
    message: str
    bare: bool = False


Step = Pause | Hold | Ping | Cut | Fail
Piece = str | Step

# Parts: the blocks of a reply.


@dataclass(frozen=True)
class Say:
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Think:
    """Reasoning: `shown`, `hidden` (signed, its text withheld) or `redacted` (ciphertext only)."""

    pieces: tuple[Piece, ...]
    kind: Literal["shown", "hidden", "redacted"] = "shown"


@dataclass(frozen=True)
class Call:
    """A tool call. The pieces together are its arguments as JSON text; `id` "" lets the server
    make one as the provider would."""

    name: str
    pieces: tuple[Piece, ...]
    id: str = ""


Part = Say | Think | Call | Step


USAGE = Usage(input_tokens=25, output_tokens=12)
"""What a reply costs where its script does not say."""


@dataclass(frozen=True)
class Reply:
    """A streamed reply. `stop` None says what the parts call for; `pace` is deltas per second,
    None for as fast as the reader takes them."""

    parts: tuple[Part, ...]
    stop: StopReason | None = None
    usage: Usage = USAGE
    pace: float | None = None

    @property
    def stop_reason(self) -> StopReason:
        calls = any(isinstance(part, Call) for part in self.parts)
        return self.stop or ("tool_use" if calls else "end_turn")


@dataclass(frozen=True)
class Refusal:
    """An HTTP error. What is left empty is what the provider says with that status; `body` stands
    in place of the whole error body."""

    status: int
    message: str = ""
    type: str = ""
    code: str = ""
    param: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | str | None = None


@dataclass(frozen=True)
class Raw:
    """A stream's bytes as they are, for what no healthy server sends. Each frame is written for
    itself; steps may stand between them."""

    frames: tuple[bytes | Step, ...]


@dataclass(frozen=True)
class Hang:
    """No answer, not even its headers; or, where `reset`, the connection is torn down."""

    reset: bool = False


Answer = Reply | Refusal | Raw | Hang
Script = Iterable[Answer] | Callable[[dict[str, Any]], Answer]


# What a test writes.


def say(*pieces: Piece) -> Say:
    """A text, one delta per piece."""
    return Say(pieces)


def think(*pieces: Piece) -> Think:
    """Reasoning that is shown, and signed."""
    return Think(pieces)


def think_hidden(*pieces: Piece) -> Think:
    """Reasoning that is signed and whose text is withheld."""
    return Think(pieces, "hidden")


def think_redacted(*pieces: Piece) -> Think:
    """Reasoning of which only ciphertext is given."""
    return Think(pieces, "redacted")


def call(
    name: str, arguments: Mapping[str, Any] | str | Iterable[Piece] = "", id: str = ""
) -> Call:
    """A tool call with its arguments as an object, as JSON text, or as the pieces of it."""
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
    if isinstance(arguments, str):
        starts = range(0, len(arguments), PIECE_CHARS)
        arguments = [arguments[i : i + PIECE_CHARS] for i in starts]
    return Call(name, tuple(arguments), id)


def pause(seconds: float) -> Pause:
    return Pause(seconds)


def hold(name: str) -> Hold:
    return Hold(name)


def ping() -> Ping:
    return Ping()


def cut(*, clean: bool = False) -> Cut:
    return Cut(clean)


def fail(code: str, message: str = "Scripted.", *, bare: bool = False) -> Fail:
    return Fail(code, message, bare)


def reply(
    *parts: Part | str,
    stop: StopReason | None = None,
    usage: Usage | None = None,
    pace: float | None = None,
) -> Reply:
    """A reply of these parts; a plain string is `say` of it."""
    whole = tuple(Say((part,)) if isinstance(part, str) else part for part in parts)
    return Reply(whole, stop, usage or USAGE, pace)


def raw(*frames: bytes | Step) -> Raw:
    """These bytes."""
    return Raw(frames)


def hang() -> Hang:
    """Nothing, ever."""
    return Hang()


def reset() -> Hang:
    """A connection that breaks before the first byte."""
    return Hang(reset=True)


def refuse(status: int, message: str = "", **fields: Any) -> Refusal:
    """An HTTP error; `fields` are those of `Refusal`."""
    return Refusal(status, message, **fields)
