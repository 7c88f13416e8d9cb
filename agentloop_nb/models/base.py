"""What the engine asks of a model: a request goes in, deltas come out.

An adapter encodes a `Request` for its provider's SDK and decodes the stream into deltas. Decoding
is a pure object fed one wire event at a time (`Decoder`), so that a recorded stream can be tested
whole and cut anywhere. No adapter keeps the state of a stream on itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from agentloop_nb.messages import Message, Opaque, StopReason, Usage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. `schema` is a JSON Schema of type `object`."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One model call: the whole conversation, in our shape.

    `stream_timeout_s` is the longest silence of the stream in seconds, None for no limit.
    """

    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    stream_timeout_s: float | None = 300.0


# Deltas. `block` numbers the blocks of one reply in their order, from 0; a block has one kind.


@dataclass(frozen=True, slots=True)
class TextChunk:
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingChunk:
    block: int
    text: str


@dataclass(frozen=True, slots=True)
class OpaqueChunk:
    """What must go back to the provider with this block; replaces an earlier one."""

    block: int
    opaque: Opaque


@dataclass(frozen=True, slots=True)
class CallStart:
    block: int
    name: str
    provider_id: str


@dataclass(frozen=True, slots=True)
class CallChunk:
    """A piece of a call's arguments, as JSON text."""

    block: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The provider says this call is complete; one without it is cut and is not run."""

    block: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The terminal delta, exactly once and last. `usage` is the whole call's. `opaque` goes back
    with the message (a response id, say)."""

    stop_reason: StopReason
    usage: Usage
    opaque: Opaque | None = None


ModelDelta = TextChunk | ThinkingChunk | OpaqueChunk | CallStart | CallChunk | CallEnd | Finish


class Decoder(Protocol):
    """Wire events to deltas. Never awaits, keeps its own state, raises ProviderError only."""

    def feed(self, event: Mapping[str, Any]) -> Iterable[ModelDelta]:
        """The deltas that one wire event (its JSON object) amounts to, perhaps none."""
        ...

    def close(self) -> Iterable[ModelDelta]:
        """What is left when the stream has ended; raises StreamCut where no terminal event came."""
        ...


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests. Implementations are cheap to make and hold no stream."""

    @property
    def name(self) -> str:
        """Provider and model as the user writes them, `anthropic:claude-…`."""
        ...

    @property
    def provider(self) -> str:
        """What `Message.provider` and `Opaque.provider` say of this adapter's replies."""
        ...

    def check(self) -> None:
        """Raise a UsageError (MissingKey, say) where a request cannot succeed; sends nothing."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[ModelDelta]:
        """Answer a request. Ends with `Finish`, or raises ProviderError; closing the iterator
        closes the connection."""
        ...
