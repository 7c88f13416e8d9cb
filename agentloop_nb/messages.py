"""What a conversation is made of: messages of blocks. Inert values, no provider's shape.

Every value is a frozen dataclass with a literal `type` where it belongs to a union. Text that a
provider must get back byte for byte, and that means nothing to anyone else, travels as `Opaque`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal[
    "ok",
    "error",
    "invalid",
    "declined",
    "unanswered",
    "timeout",
    "cancelled",
    "guarded",
    "deferred",
    "unknown_outcome",
]
"""How a tool call ended. Only `ok` is a success; `is_error` follows from it."""

StopReason = Literal[
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "cancelled",
    "engine",
    "unknown",
]
"""Why a reply ended. `cancelled`: a person stopped it in mid-stream. `engine`: the engine itself
wrote the message (a hard stop). `unknown`: the provider gave a reason we have not heard of."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A part of a reply that only its own provider can read; replayed unchanged to that provider.

    `data` is JSON text, kept as text so that nothing re-orders or re-formats it.
    """

    provider: str
    data: str


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning the provider showed. `text` may be empty where it is redacted or hidden."""

    text: str
    opaque: Opaque | None = None
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True)
class Image:
    """An image, inline: `data` is base64, `media_type` like `image/png`."""

    media_type: str
    data: str
    type: Literal["image"] = "image"


DEEPEST = 100
"""Levels of nesting that arguments are shown and stored with; the journal's writer ends at 255."""


def _deeper(value: object, levels: int) -> bool:
    """Whether a JSON value has more levels than these."""
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for each in layer
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not layer:
            return False
    return any(isinstance(each, dict | list) for each in layer)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for.

    `id` is ours (`c<round>.<i>`), `provider_id` is what the provider called it; only adapters
    read the latter. `arguments` is the JSON text as the model wrote it (`{}` where it wrote none).
    """

    id: str
    name: str
    arguments: str
    provider_id: str = ""
    opaque: Opaque | None = None
    type: Literal["tool_call"] = "tool_call"

    @property
    def input(self) -> dict[str, Any] | str:
        """The arguments as a dict, or the text itself where it is no JSON object, or one that is
        nested deeper than anything that is meant."""
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return self.arguments
        return value if isinstance(value, dict) and not _deeper(value, DEEPEST) else self.arguments


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to: `content` and `images` for the model, `display` for the view.

    `display` is plain text that says more to a person than `content` does (the user's own line
    of a traceback, say); None where `content` says it all.
    """

    id: str
    name: str
    content: str
    outcome: Outcome = "ok"
    images: tuple[Image, ...] = ()
    display: str | None = None
    type: Literal["tool_result"] = "tool_result"

    @property
    def is_error(self) -> bool:
        return self.outcome != "ok"


Block = Text | Thinking | Image | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `user` holds Text and Image, `assistant` Text, Thinking and ToolCall, `tool`
    the ToolResults of the assistant message before it, in the order of its calls.

    `provider` names the adapter that produced an assistant message ("" for any other), and
    `opaque` what it must get back with it.
    """

    role: Literal["user", "assistant", "tool"]
    blocks: tuple[Block, ...]
    provider: str = ""
    stop_reason: StopReason | None = None
    opaque: Opaque | None = None

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolResult))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several requests, as the provider reported them.

    `input_tokens` counts all input, cache reads and writes included, whatever the provider's own
    convention; the two cache figures say how much of it was read from or written to a cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


NO_USAGE = Usage()


def user(text: str) -> Message:
    """A user message of one text."""
    return Message("user", (Text(text),))
