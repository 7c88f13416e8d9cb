"""The fold of a session: (state, event) to state. Pure, so that a journal replayed gives back
exactly what the loop had, and a resume is a history that ends in an unanswered call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce

from agentloop_nb.events import (
    AnswerEvent,
    AnyEvent,
    Delta,
    Done,
    ErrorEvent,
    MessageEvent,
    QuestionEvent,
    Resumed,
    RoundEnd,
    RoundStart,
    RunStart,
    Say,
    ToolResultEvent,
    ToolRunning,
)
from agentloop_nb.messages import NO_USAGE, Message, ToolCall, ToolResult, Usage, user
from agentloop_nb.questions import Approval, DecidedBy
from agentloop_nb.turnstate import TurnState


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was decided on one call, bound to the arguments that were shown."""

    call_id: str
    approved: bool
    reason: str
    by: DecidedBy
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """A run so far. `first` is where its messages begin in the session's.

    `calls` are those of the last reply, `results` the ones answered; when all are, they become
    one tool message. `round` is -1 before the first round; `replied` says whether the open round
    has its reply.
    """

    run_id: str
    first: int
    prompt: str
    round: int = -1
    open_round: bool = False
    replied: bool = False
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    running: tuple[str, ...] = ()
    rulings: tuple[Ruling, ...] = ()
    question: Approval | None = None
    usage: Usage = NO_USAGE
    turn: TurnState = field(default_factory=TurnState)
    tool_rounds: int = 0
    calls_made: int = 0
    calls_failed: int = 0
    error: str | None = None
    exit_reason: str | None = None
    exit_words: str = ""

    @property
    def rounds(self) -> int:
        """How many rounds began."""
        return self.round + 1

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        done = {result.id for result in self.results}
        return tuple(call for call in self.calls if call.id not in done)

    def ruling(self, call_id: str) -> Ruling | None:
        return next((r for r in self.rulings if r.call_id == call_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A session so far: its whole history, and its last run, finished or not."""

    session_id: str = ""
    messages: tuple[Message, ...] = ()
    runs: int = 0
    run: RunState | None = None

    @property
    def unfinished(self) -> RunState | None:
        return self.run if self.run is not None and self.run.exit_reason is None else None

    @property
    def reply_in_hand(self) -> Message | None:
        """The reply that the last run goes on from, None where the next thing is a request."""
        run = self.run
        if run is None:
            return None
        messages = self.messages[run.first :]
        if run.replied or messages[-1].role == "assistant":
            return next(m for m in reversed(messages) if m.role == "assistant")
        return None


def fold_all(state: SessionState, events: Iterable[AnyEvent]) -> SessionState:
    """The state after all of these."""
    return reduce(fold, events, state)


def fold(state: SessionState, event: AnyEvent) -> SessionState:
    """The state after one more event. Events that change nothing here give the same object."""
    if isinstance(event, Delta):
        return state
    if isinstance(event, RunStart):
        return _run_start(state, event)
    run = state.run
    if run is None or event.path:  # a sub-agent's events belong to its own session
        return state
    match event:
        case MessageEvent():
            return _message(state, run, event)
        case ToolResultEvent():
            return _result(state, run, event)
        case Say():
            return replace(state, messages=(*state.messages, user(event.text)))
        case _:
            changed = _fold_run(run, event)
            return state if changed is run else replace(state, run=changed)


def _fold_run(run: RunState, event: AnyEvent) -> RunState:
    match event:
        case RoundStart():
            turn = run.turn.round_began()
            return replace(run, round=event.round, open_round=True, replied=False, turn=turn)
        case ToolRunning():
            return replace(run, running=(*run.running, event.id))
        case Resumed():
            # What is still undecided is asked again, in place of the dialog that is gone.
            return replace(run, question=None, turn=run.turn.round_began())
        case QuestionEvent():
            return replace(run, question=event.question, turn=run.turn.asked(event.question.id))
        case AnswerEvent():
            return _answer(run, event)
        case RoundEnd():
            return replace(run, open_round=False, replied=False, usage=run.usage + event.usage)
        case ErrorEvent():
            return replace(run, error=event.message)
        case Done():
            return replace(
                run, exit_reason=event.exit_reason, exit_words=event.message, question=None
            )
        case _:
            return run


def _run_start(state: SessionState, event: RunStart) -> SessionState:
    return SessionState(
        session_id=event.session_id,
        messages=(*state.messages, user(event.prompt)),
        runs=state.runs + 1,
        run=RunState(run_id=event.run_id, first=len(state.messages), prompt=event.prompt),
    )


def _message(state: SessionState, run: RunState, event: MessageEvent) -> SessionState:
    message = event.message
    run = replace(
        run,
        replied=True,
        calls=message.calls,
        results=(),
        running=(),
        rulings=(),
        tool_rounds=run.tool_rounds + bool(message.calls),
        calls_made=run.calls_made + len(message.calls),
    )
    return replace(state, messages=(*state.messages, message), run=run)


def _result(state: SessionState, run: RunState, event: ToolResultEvent) -> SessionState:
    result = ToolResult(
        event.id, event.name, event.content, event.outcome, event.images, event.display
    )
    failed = event.outcome in ("error", "invalid", "timeout")
    call = next((call for call in run.calls if call.id == event.id), None)
    turn = run.turn if call is None else run.turn.answered(call, event.outcome, event.content)
    run = replace(
        run,
        results=(*run.results, result),
        calls_failed=run.calls_failed + int(failed),
        turn=turn,
    )
    if run.unanswered:
        return replace(state, run=run)
    by_id = {r.id: r for r in run.results}
    tool_message = Message("tool", tuple(by_id[call.id] for call in run.calls))
    run = replace(run, calls=(), results=(), running=())
    return replace(state, messages=(*state.messages, tool_message), run=run)


def _answer(run: RunState, event: AnswerEvent) -> RunState:
    shown = {item.call_id: item for item in run.question.items} if run.question else {}
    rulings = tuple(
        Ruling(d.call_id, d.approved, d.reason, event.by, shown[d.call_id].fingerprint)
        for d in event.decisions
        if d.call_id in shown
    )
    question = None if event.closed else run.question
    turn = run.turn
    calls = {call.id: call for call in run.calls}
    for d in event.decisions:
        if d.call_id in shown and d.call_id in calls and not d.approved:
            turn = turn.not_approved(calls[d.call_id], event.by, d.reason)
    return replace(run, rulings=(*run.rulings, *rulings), question=question, turn=turn)
