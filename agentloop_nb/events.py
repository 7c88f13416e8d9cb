"""The closed union of events: frozen facts about a run. The log stamps `seq`, `at` and `t`.

Whoever watches a run (the page, the trace, the snapshot, `async for event in run`) sees these and
nothing else. The TypeScript types in `js/src/events.ts` are generated from this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from agentloop_nb.messages import Image, Message, Outcome, StopReason, Usage
from agentloop_nb.questions import DecidedBy, Decision, Question

UNSTAMPED = -1
"""The number of an event that no log has taken yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The envelope. `at` is UTC in ms, for display only; `t` is seconds since the run began, on a
    monotonic clock. `path` holds the call ids of the sub-agents an event came by."""

    seq: int = UNSTAMPED
    at: int = 0
    t: float = 0.0
    path: tuple[str, ...] = ()
    round: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(Event):
    """A piece of a growing block. Adjacent deltas of equal (path, round, attempt, block) and
    type may be merged into one that stands for the numbers `seq` to `upto`."""

    text: str
    attempt: int = 0
    block: int = 0
    upto: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(Delta):
    type: Literal["text_delta"] = "text_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta(Delta):
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseDelta(Delta):
    """Arguments of a call as they arrive. `name` may be empty on all but the first."""

    id: str
    name: str = ""
    type: Literal["tool_use_delta"] = "tool_use_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart(Event):
    """First event of a run. `max_turns` is the cap the header shows, None for none."""

    session_id: str
    run_id: str
    prompt: str
    model: str
    instructions: str = ""
    tools: tuple[str, ...] = ()
    max_turns: int | None = None
    type: Literal["run_start"] = "run_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """An unfinished run goes on in another kernel; the events before it came from its journal."""

    model: str
    type: Literal["resumed"] = "resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStart(Event):
    attempt: int = 0
    type: Literal["round_start"] = "round_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent(Event):
    """The complete assistant message, before any of its tools starts."""

    message: Message
    type: Literal["message"] = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseStart(Event):
    """A complete call. `arguments` is the parsed object, or the raw text where it is none."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    type: Literal["tool_use_start"] = "tool_use_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRunning(Event):
    """The call is about to start; durable before it does, so it is never started twice."""

    id: str
    name: str
    type: Literal["tool_running"] = "tool_running"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput(Event):
    """What a tool printed (`stdout`, `stderr`) or reported (`progress`, with `fraction` 0 to 1)."""

    id: str
    stream: Literal["stdout", "stderr", "progress"]
    text: str
    fraction: float | None = None
    type: Literal["tool_output"] = "tool_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultEvent(Event):
    """A call is answered. `duration_s` is 0 for a call that never ran."""

    id: str
    name: str
    content: str
    is_error: bool
    outcome: Outcome
    images: tuple[Image, ...] = ()
    display: str | None = None
    duration_s: float = 0.0
    type: Literal["tool_result"] = "tool_result"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionEvent(Event):
    """A question opened. It closes at `t + question.timeout_s` on the run's clock."""

    question: Question
    type: Literal["question"] = "question"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerEvent(Event):
    """Decisions on a question, in the order they came; `closed` when none is left open."""

    id: str
    decisions: tuple[Decision, ...]
    by: DecidedBy
    closed: bool
    type: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Say(Event):
    """What a person added in mid-run, at the place where the model saw it."""

    text: str
    type: Literal["say"] = "say"


GuardKind = Literal[
    "wrap-up", "hard-stop", "cancelled", "repeated", "declined-repeat", "interaction-budget"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardEvent(Event):
    """Governance answered these calls in place of their tools: a whole round's (`wrap-up`,
    `hard-stop`, `cancelled`), or single ones."""

    kind: GuardKind
    ids: tuple[str, ...]
    type: Literal["guard"] = "guard"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEnd(Event):
    """A round is over, its tools included. `usage` is this round's."""

    usage: Usage
    stop_reason: StopReason
    type: Literal["round_end"] = "round_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDiscarded(Event):
    """What this attempt at a model call streamed is void; the next one begins anew."""

    attempt: int
    type: Literal["attempt_discarded"] = "attempt_discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvent(Event):
    """A request failed and is tried again in `wait_s` seconds; `attempt` failed so far, `kind` is
    the class of the failure, `message` says it for a person."""

    attempt: int
    kind: str
    message: str
    wait_s: float
    type: Literal["retry"] = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitEvent(Event):
    """The circuit breaker of this run's provider: `open` for `wait_s` more seconds (None while
    another run probes), `probe` when this run tries, `closed` when all is well again."""

    state: Literal["open", "probe", "closed"]
    wait_s: float | None = None
    type: Literal["circuit"] = "circuit"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEvent(Event):
    """Where this session is being saved; once per run, when the first save is on disk."""

    file: str
    type: Literal["snapshot"] = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning(Event):
    message: str
    type: Literal["warning"] = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEvent(Event):
    """Why a run failed, in words a person understands."""

    message: str
    type: Literal["error"] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Event):
    """Last event of a run. `message` says the exit reason in plain words."""

    exit_reason: str
    message: str
    rounds: int
    usage: Usage
    type: Literal["done"] = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Event):
    """An event of a type this version does not know, kept as it came."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)


AnyEvent = (
    TextDelta
    | ThinkingDelta
    | ToolUseDelta
    | RunStart
    | Resumed
    | RoundStart
    | MessageEvent
    | ToolUseStart
    | ToolRunning
    | ToolOutput
    | ToolResultEvent
    | QuestionEvent
    | AnswerEvent
    | Say
    | GuardEvent
    | RoundEnd
    | AttemptDiscarded
    | RetryEvent
    | CircuitEvent
    | SnapshotEvent
    | Warning
    | ErrorEvent
    | Done
    | Unknown
)

EVENT_TYPES: tuple[type[Event], ...] = tuple(c for c in get_args(AnyEvent) if c is not Unknown)
