"""Why a run ends: the eleven names, and the words a person reads for each."""

from __future__ import annotations

from enum import StrEnum


class ExitReason(StrEnum):
    """Every run ends with exactly one of these."""

    END_TURN = "end_turn"
    NO_TOOL_CALLS = "no_tool_calls"
    MAX_ROUNDS = "max_rounds"
    MAX_BUDGET = "max_budget"
    DEADLINE = "deadline"
    MAX_ERRORS = "max_errors"
    CIRCUIT_BREAKER = "circuit_breaker"
    USER_CANCEL = "user_cancel"
    CONTEXT_OVERFLOW = "context_overflow"
    COMPACTION_EXHAUSTED = "compaction_exhausted"
    FATAL_ERROR = "fatal_error"


def in_words(reason: ExitReason, rounds: int, *, detail: str = "") -> str:
    """One short line for the view, the terminal and `raise_for_exit`.

    `rounds` is how many rounds began; `detail` is what the reason alone does not tell.
    """
    count = f"{rounds} round" if rounds == 1 else f"{rounds} rounds"
    match reason:
        case ExitReason.END_TURN:
            return f"Done in {count}"
        case ExitReason.NO_TOOL_CALLS:
            return f"Ended after {count} without a natural stop{_tail(detail)}"
        case ExitReason.MAX_ROUNDS:
            return f"Stopped after {count}"
        case ExitReason.USER_CANCEL:
            return f"Stopped by you in round {max(rounds - 1, 0)}"
        case ExitReason.FATAL_ERROR:
            return f"Failed after {count}{_tail(detail)}"
        case _:
            return f"Ended after {count}: {reason.value.replace('_', ' ')}{_tail(detail)}"


def _tail(detail: str) -> str:
    return f": {detail}" if detail else ""
