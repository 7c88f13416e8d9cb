"""What a turn remembers of its calls: how often each ran, what was declined, who was asked. Pure.

A part of the run's fold (`transcript.py`), so a resume goes on with the same counts. What follows
from them is decided in `governance/turn.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agentloop_nb.messages import Outcome, ToolCall
from agentloop_nb.questions import DecidedBy

_RAN = frozenset({"ok", "error", "timeout"})
_FAILED = frozenset({"error", "timeout", "invalid"})


@dataclass(frozen=True, slots=True)
class Repeat:
    """How often in a row a call came to the same result; `result` is that result's digest."""

    count: int
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """A turn so far. `repeats` goes by `call_key`; `declined_tools` are names, `declined_calls`
    keys; `dialogs` are the questions of this round; `failed_in_a_row` counts calls."""

    repeats: Mapping[str, Repeat] = field(default_factory=dict)
    declined_tools: tuple[str, ...] = ()
    declined_calls: tuple[str, ...] = ()
    dialogs: tuple[str, ...] = ()
    failed_in_a_row: int = 0

    def round_began(self) -> TurnState:
        return replace(self, dialogs=()) if self.dialogs else self

    def asked(self, question_id: str) -> TurnState:
        """A dialog opened. One that is shown anew, with a moved clock, is the same one."""
        if question_id in self.dialogs:
            return self
        return replace(self, dialogs=(*self.dialogs, question_id))

    def not_approved(self, call: ToolCall, by: DecidedBy, reason: str) -> TurnState:
        """A no marks the tool; one with a reason marks this call alone, so that a corrected one
        may be asked for. Nobody's answer in time is as good as a no; where nobody could be asked
        nothing is marked."""
        if by in ("person", "on_question") and reason.strip():
            return replace(self, declined_calls=_with(self.declined_calls, call_key(call)))
        if by in ("person", "on_question", "timeout"):
            return replace(self, declined_tools=_with(self.declined_tools, call.name))
        return self

    def answered(self, call: ToolCall, outcome: Outcome, content: str) -> TurnState:
        """A call has its result. One that did not run neither counts nor resets anything."""
        if outcome not in _RAN | _FAILED:
            return self
        failed = self.failed_in_a_row + 1 if outcome in _FAILED else 0
        if outcome not in _RAN:
            return replace(self, failed_in_a_row=failed)
        key, result = call_key(call), _digest(outcome, content)
        before = self.repeats.get(key)
        count = before.count + 1 if before is not None and before.result == result else 1
        return replace(
            self,
            repeats={**self.repeats, key: Repeat(count, result)},
            failed_in_a_row=failed,
        )


def call_key(call: ToolCall) -> str:
    """Equal for equal calls: the tool and its canonical arguments. Key order and white space do
    not count, list order does, `1` is not `true`."""
    try:
        value = json.loads(call.arguments or "{}")
        if isinstance(value, str):  # JSON text in JSON text, as some models send it
            value = json.loads(value)
        arguments = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        arguments = call.arguments.strip()
    return _digest(call.name, arguments)


def _digest(*parts: str) -> str:
    text = "\0".join(parts)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _with(known: tuple[str, ...], one: str) -> tuple[str, ...]:
    return known if one in known else (*known, one)
