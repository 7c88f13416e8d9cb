"""What the three wire formats share: frames of a stream, and the protocol a format implements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.loopback.checking import Complaint
from tests.loopback.script import Call, Cut, Hold, Pause, Piece, Refusal, Reply, Say, Step, Think


@dataclass(frozen=True)
class Frame:
    """Bytes of the stream. A `delta` is paced; after `last` nothing follows."""

    data: bytes
    delta: bool = False
    last: bool = False


Out = Frame | Pause | Hold | Cut
"""What a format makes of a reply: frames, and the steps that are the server's own to take."""


class Wire(Protocol):
    """One provider's format."""

    name: str
    path: str

    def refuse_headers(self, headers: Mapping[str, str], key: str | None) -> Refusal | None:
        """The refusal of a request without what its headers must hold, None where all is well."""
        ...

    def expand(self, body: dict[str, Any]) -> dict[str, Any] | Refusal:
        """The body with what the service itself holds of the conversation, or what it says where
        it does not hold it."""
        ...

    def check(self, body: dict[str, Any]) -> list[Complaint]: ...

    def refusal(self, complaint: Complaint) -> Refusal:
        """The 400 that the service answers with."""
        ...

    def error_body(self, refusal: Refusal) -> Mapping[str, Any]: ...

    def stream(self, reply: Reply, body: dict[str, Any], serial: int) -> Iterator[Out]:
        """The reply to this body, the `serial`th of the server's, from 0."""
        ...


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def sse(data: object, event: str = "") -> bytes:
    """One server-sent event whose data is JSON, or a text as it is."""
    text = data if isinstance(data, str) else compact(data)
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {text}\n\n".encode()


def text_of(part: Say | Think | Call) -> str:
    """A part's pieces in one."""
    return "".join(piece for piece in part.pieces if isinstance(piece, str))


def outs(
    pieces: Iterable[Piece], delta: Callable[[str], bytes], step: Callable[[Step], Iterator[Out]]
) -> Iterator[Out]:
    """The pieces of a part as frames, with the steps between them."""
    for piece in pieces:
        if isinstance(piece, str):
            yield Frame(delta(piece), delta=True)
        else:
            yield from step(piece)
