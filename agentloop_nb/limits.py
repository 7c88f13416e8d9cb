"""What a run is held to. Only limits that the engine enforces stand here."""

from __future__ import annotations

from dataclasses import dataclass

from agentloop_nb.errors import UsageError

_ANSWER_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds where the name says `_s`; None is no limit.

    - `max_turns`: rounds in one run.
    - `approval_timeout_s`: how long an approval waits for a person; never longer than
      `stream_timeout_s` less 5 s.
    - `stream_timeout_s`: longest silence of a model's stream.
    - `tool_timeout_s`: longest time for one tool call; a tool may set its own.
    - `tool_result_max_chars`: longest tool result handed to the model.
    - `circuit_open_threshold`: consecutive failed requests that open the circuit breaker.
    - `circuit_open_wait_ms`: how long it then stays open, in milliseconds.
    - `max_attempts`: tries for one model call, where that is fewer than the breaker would allow.

    Raises UsageError for a limit that is not above zero, and for an approval that would wait
    for ever while a stream may not.
    """

    max_turns: int | None = 25
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
            if value is not None and not (_is_number(value) and value > 0):
                raise UsageError(f"Limits({name}={value!r}): give a number above 0, or None.")
        if self.approval_timeout_s is None and self.stream_timeout_s is not None:
            raise UsageError(
                "Limits(approval_timeout_s=None) waits for ever, which needs "
                "stream_timeout_s=None too. Give both, or a number of seconds."
            )

    @property
    def approval_wait_s(self) -> float | None:
        """The effective wait of an approval, in seconds."""
        if self.approval_timeout_s is None or self.stream_timeout_s is None:
            return self.approval_timeout_s
        return max(min(self.approval_timeout_s, self.stream_timeout_s - _ANSWER_MARGIN_S), 0.1)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
