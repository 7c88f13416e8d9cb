"""What of a tool's output leaves it: no secrets, and to the model no more than it may read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentloop_nb.tools.capture import OutputStream
from agentloop_nb.tools.output import OnOutput
from agentloop_nb.tools.results import limit
from agentloop_nb.tools.threads import on_thread

Keep = Callable[[str], str]
"""Puts a text away and says where it lies. May block, and raise OSError."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """A result longer than `max_chars` is cut in the middle, with a word about how much is missing
    and where `keep` has put the whole. `redact` takes secrets out, before anything else sees the
    text."""

    max_chars: int | None = None
    keep: Keep | None = None
    redact: Callable[[str], str] = str

    async def content(self, text: str) -> str:
        """A result as the model gets it."""
        text, keep = self.redact(text), self.keep
        if keep is None or self.max_chars is None or len(text) <= self.max_chars:
            return limit(text, self.max_chars)

        def put_away() -> str:
            try:
                return keep(text)
            except OSError:  # a full disk takes nothing from the result that can be sent
                return ""

        return limit(text, self.max_chars, await on_thread("results", put_away))

    def display(self, text: str) -> str:
        """What a person sees of it."""
        return limit(self.redact(text), self.max_chars)

    def heard_by(self, on_output: OnOutput) -> OnOutput:
        """What is printed, without secrets. One that is printed in pieces, with a pause between
        them, is not known."""

        def say(stream: OutputStream, text: str, fraction: float | None) -> None:
            on_output(stream, self.redact(text), fraction)

        return say
