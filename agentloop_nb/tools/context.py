"""What a tool may know of the run that called it, and the same facts for every log record."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Generic, cast

from typing_extensions import TypeVar

DepsT = TypeVar("DepsT", default=Any)

SESSION_ID: ContextVar[str] = ContextVar("agentloop_session_id", default="")
RUN_ID: ContextVar[str] = ContextVar("agentloop_run_id", default="")
ROUND: ContextVar[int | None] = ContextVar("agentloop_round", default=None)
CALL_ID: ContextVar[str] = ContextVar("agentloop_call_id", default="")


def _silent(fraction: float, text: str) -> None:
    """Progress of a tool that nobody watches."""


_NO_DEPS = cast(Any, None)


def _never() -> bool:
    return False


@dataclass(frozen=True)
class ToolContext(Generic[DepsT]):
    """Give a tool a parameter annotated `ToolContext` and it gets this; the model does not see it.

    `round` counts from 0. `deps` is what the agent was given as `deps=`. Every field has a
    default, so that a tool can be called by hand: `my_tool("x", context=ToolContext())`.
    `stopped` says whether the whole run is being stopped; it may be called from any thread.
    """

    session_id: str = ""
    run_id: str = ""
    round: int = 0
    call_id: str = ""
    deps: DepsT = _NO_DEPS
    stopped: Callable[[], bool] = field(default=_never, repr=False)
    _report: Callable[[float, str], None] = field(default=_silent, repr=False)
    _ended: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @property
    def cancelled(self) -> bool:
        """True once this call's result is no longer wanted: a long loop should look and return."""
        return self._ended.is_set() or self.stopped()

    def cancel(self) -> None:
        """Make `cancelled` true, from any thread. It ends nothing by itself."""
        self._ended.set()

    def progress(self, fraction: float, text: str = "") -> None:
        """Show how far this call is: `fraction` from 0 to 1 (clamped), and a few words."""
        share = float(fraction)
        self._report(min(max(share, 0.0), 1.0) if share == share else 0.0, text)

    def reporting_to(self, report: Callable[[float, str], None]) -> ToolContext[DepsT]:
        """The same context, sharing its cancel flag, with its progress sent to `report`."""
        return replace(self, _report=report)


def enter(context: ToolContext[Any]) -> None:
    """Set the context variables of a call, in whatever contextvars context this runs."""
    SESSION_ID.set(context.session_id)
    RUN_ID.set(context.run_id)
    ROUND.set(context.round)
    CALL_ID.set(context.call_id)


class ContextFilter(logging.Filter):
    """Puts `session_id`, `run_id`, `round` and `call_id` on each record; lets all of them pass.

    Add it to a handler, so that it sees the records of every logger. Outside a tool the ids are
    "" and the round is None.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.session_id = SESSION_ID.get()
        record.run_id = RUN_ID.get()
        record.round = ROUND.get()
        record.call_id = CALL_ID.get()
        return True
