"""The turn: what each round of tools may still do. Decided from what the turn remembers.

One per user message. It holds nothing of its own: its counts are a part of the run's state, which
the loop alone changes, from events; only `cancelled` may be set from any thread, and holds at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum

from agentloop_nb.limits import Limits
from agentloop_nb.messages import ToolCall
from agentloop_nb.transcript import RunState
from agentloop_nb.turnstate import TurnState, call_key

_NOTHING_YET = RunState(run_id="", first=0, prompt="")


class Verdict(Enum):
    """What a round of tools may do.

    - `CONTINUE`: run what the chain leaves.
    - `WRAP_UP`: nothing runs, and each call is told to answer now.
    - `HARD_STOP`: nothing runs, and the run ends.
    - `CANCELLED`: a person has stopped the run; nothing runs, and it ends.
    """

    CONTINUE = "continue"
    WRAP_UP = "wrap-up"
    HARD_STOP = "hard-stop"
    CANCELLED = "cancelled"


class AgentTurn:
    """Reads the run's state with `read`. `cancelled` is the run's own flag."""

    def __init__(
        self, read: Callable[[], RunState], limits: Limits, cancelled: threading.Event
    ) -> None:
        self._read = read
        self._limits = limits
        self.cancelled = cancelled

    @classmethod
    def detached(cls) -> AgentTurn:
        """A turn without bounds, for a pipeline that is used without a run."""
        unbounded = Limits(
            max_turns=None, max_identical_calls=None, interactions_per_round=None, max_errors=None
        )
        return cls(lambda: _NOTHING_YET, unbounded, threading.Event())

    def begin_round(self) -> Verdict:
        """What this round of tools may do. Rounds of tools are counted from 1."""
        if self.cancelled.is_set():
            return Verdict.CANCELLED
        number = self._read().tool_rounds
        if _over(number, self._limits.hard_rounds):
            return Verdict.HARD_STOP
        return Verdict.WRAP_UP if _over(number, self._limits.soft_rounds) else Verdict.CONTINUE

    @property
    def tool_rounds(self) -> int:
        """How many rounds of tools there were, this one included."""
        return self._read().tool_rounds

    @property
    def hard_rounds(self) -> int | None:
        """How many there may be before the run ends."""
        return self._limits.hard_rounds

    @property
    def failed_in_a_row(self) -> int:
        """How many calls have failed since the last one that did not."""
        return self._state.failed_in_a_row

    def times(self, call: ToolCall) -> int:
        """How often in a row this very call has run and come to the same result."""
        known = self._state.repeats.get(call_key(call))
        return 0 if known is None else known.count

    def is_repeat(self, times: int) -> bool:
        """Whether a call that has run so often is one too many."""
        most = self._limits.max_identical_calls
        return most is not None and times >= most

    def was_declined(self, call: ToolCall) -> bool:
        """Whether this turn has heard a no to this tool, or to this very call."""
        state = self._state
        return call.name in state.declined_tools or call_key(call) in state.declined_calls

    def may_ask(self) -> bool:
        """Whether one more dialog may open in this round."""
        most = self._limits.interactions_per_round
        return most is None or len(self._state.dialogs) < most

    def has_failed_enough(self) -> bool:
        """Whether as many calls in a row have failed as may."""
        most = self._limits.max_errors
        return most is not None and self._state.failed_in_a_row >= most

    @property
    def _state(self) -> TurnState:
        return self._read().turn


def _over(number: int, most: int | None) -> bool:
    return most is not None and number > most
