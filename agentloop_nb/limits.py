"""What a run is held to. Only limits that the engine enforces stand here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from agentloop_nb.errors import UsageError

_ANSWER_MARGIN_S = 5.0


SOFT_ROUNDS, HARD_ROUNDS = 16, 18
USUAL_TURNS = 25


class NotGiven(Enum):
    """The value of a limit that nobody has set, where None means that there is none."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN = NotGiven.NOT_GIVEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds where the name says `_s`; None is no limit.

    - `max_turns`: rounds in one run.
    - `approval_timeout_s`: how long an approval waits for a person; never longer than
      `stream_timeout_s` less 5 s.
    - `stream_timeout_s`: longest silence of a model's stream.
    - `soft_max_rounds`, `hard_max_rounds`: in the rounds of tools after the first of these nothing
      runs any more and the model is told to answer; after the second the run ends. Where neither
      is given, 16 and 18, or, where `max_turns` is above 25 or None, two less than that and that.
      Where one is given, the other follows it at its distance, and a hard limit under the soft one
      is raised to it.
    - `max_identical_calls`: how often one call may run with the same arguments and the same result.
    - `interactions_per_round`: dialogs that may open in one round; all approvals of a round are
      one.
    - `max_errors`: consecutive failed tool calls.
    - `tool_timeout_s`: longest time for one tool call; a tool may set its own.
    - `tool_result_max_chars`: longest tool result handed to the model.
    - `circuit_open_threshold`: consecutive failed requests that open the circuit breaker.
    - `circuit_open_wait_ms`: how long it then stays open, in milliseconds.
    - `max_attempts`: tries for one model call, where that is fewer than the breaker would allow.

    Raises UsageError for a limit that is not above zero, and for an approval that would wait
    for ever while a stream may not.
    """

    max_turns: int | None = 25
    soft_max_rounds: int | NotGiven | None = NOT_GIVEN
    hard_max_rounds: int | NotGiven | None = NOT_GIVEN
    max_identical_calls: int | None = 3
    interactions_per_round: int | None = 1
    max_errors: int | None = None
    approval_timeout_s: float | None = 120.0
    stream_timeout_s: float | None = 300.0
    tool_timeout_s: float | None = None
    tool_result_max_chars: int = 12_000
    circuit_open_threshold: int | None = 5
    circuit_open_wait_ms: float | None = 60_000
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value not in (None, NOT_GIVEN) and not (_is_number(value) and value > 0):
                raise UsageError(f"Limits({name}={value!r}): give a number above 0, or None.")
        if self.approval_timeout_s is None and self.stream_timeout_s is not None:
            raise UsageError(
                "Limits(approval_timeout_s=None) waits for ever, which needs "
                "stream_timeout_s=None too. Give both, or a number of seconds."
            )

    @property
    def soft_rounds(self) -> int | None:
        """Rounds of tools that run."""
        return self._rounds[0]

    @property
    def hard_rounds(self) -> int | None:
        """Rounds of tools that are answered; the one after them ends the run."""
        return self._rounds[1]

    @property
    def _rounds(self) -> tuple[int | None, int | None]:
        soft, hard = self.soft_max_rounds, self.hard_max_rounds
        if isinstance(soft, NotGiven) and isinstance(hard, NotGiven):
            if self.max_turns is not None and self.max_turns <= USUAL_TURNS:
                return SOFT_ROUNDS, HARD_ROUNDS
            hard = self.max_turns
        if isinstance(soft, NotGiven):
            soft = None if hard is None or isinstance(hard, NotGiven) else _below(hard)
        if isinstance(hard, NotGiven):
            hard = None if soft is None else soft + HARD_ROUNDS - SOFT_ROUNDS
        if soft is not None and hard is not None:
            hard = max(hard, soft)
        return soft, hard

    @property
    def approval_wait_s(self) -> float | None:
        """The effective wait of an approval, in seconds."""
        if self.approval_timeout_s is None or self.stream_timeout_s is None:
            return self.approval_timeout_s
        return max(min(self.approval_timeout_s, self.stream_timeout_s - _ANSWER_MARGIN_S), 0.1)


def _below(hard: int) -> int:
    """The soft limit that goes with a hard one: at the usual distance, and at least one round."""
    return max(hard - (HARD_ROUNDS - SOFT_ROUNDS), 1)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
