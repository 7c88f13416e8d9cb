"""The exit phase: every way a run ends leads here, and leaves a history any provider accepts."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

from agentloop_nb import sentences
from agentloop_nb.errors import AgentLoopError, CircuitOpen, ProviderError
from agentloop_nb.events import (
    AnyEvent,
    Done,
    MessageEvent,
    RoundEnd,
    TextDelta,
    ToolResultEvent,
    Warning,
)
from agentloop_nb.exits import ExitReason, in_words
from agentloop_nb.governance.pipeline import Ran
from agentloop_nb.governance.turn import AgentTurn, Verdict
from agentloop_nb.messages import Message, Outcome, StopReason, Text, ToolCall, Usage
from agentloop_nb.transcript import RunState

Emit = Callable[[AnyEvent], AnyEvent]
T = TypeVar("T")

_ENGINE_BLOCK = 1_000_000
"""The block number of text that the engine writes: above any that a model uses."""

MOST_PAUSES = 8
"""So often in a row a provider may pause a reply and be asked to go on with it. A pause says that
its own tools have run for long (https://platform.claude.com/docs/en/api/handling-stop-reasons)."""

_STOP_WORDS: dict[StopReason, str] = {
    "max_tokens": "the reply was cut off at the model's token limit",
    "pause_turn": f"the provider paused the reply more than {MOST_PAUSES} times in a row",
    "refusal": "the model refused to answer",
    "unknown": "the provider gave a reason that is not known here",
}


def goes_on(messages: Sequence[Message]) -> bool:
    """Whether the last reply was paused by its provider, which is to be asked to go on with it."""
    pauses = 0
    for message in reversed(messages):
        if message.stop_reason != "pause_turn" or message.calls:
            break
        pauses += 1
    return 0 < pauses <= MOST_PAUSES


def answer_for(emit: Emit, call: ToolCall, text: str, outcome: Outcome, round: int) -> None:
    """Answer a call that does not run."""
    emit(
        ToolResultEvent(
            id=call.id,
            name=call.name,
            content=text,
            is_error=True,
            outcome=outcome,
            round=round,
        )
    )


def after_tools(
    emit: Emit, turn: AgentTurn, ran: Ran, reply: Message, round: int
) -> ExitReason | None:
    """The exit reason of a run that ends with this round of tools, None where it goes on. Says as
    the engine what the model has not said."""
    reason: ExitReason | None = None
    words = ""
    if ran.verdict is Verdict.CANCELLED:
        return ExitReason.USER_CANCEL
    if ran.terminal is not None:
        reason, words = ExitReason.END_TURN, ran.terminal.content
    elif ran.verdict is Verdict.HARD_STOP:
        undone = [call.name for call in reply.calls]
        words = sentences.stopped_past_tools(turn.tool_rounds, turn.hard_rounds or 0, undone)
        reason = ExitReason.MAX_ROUNDS
    elif turn.has_failed_enough():
        reason, words = ExitReason.MAX_ERRORS, sentences.stopped_by_errors(turn.failed_in_a_row)
    if reason is not None:
        say_as_engine(emit, words, round)
    return reason


def say_as_engine(emit: Emit, text: str, round: int) -> None:
    """Append an assistant message that no model wrote, as the answer of the run."""
    message = Message("assistant", (Text(text),), stop_reason="engine")
    emit(TextDelta(text=text, round=round, block=_ENGINE_BLOCK))
    emit(MessageEvent(message=message, round=round))


def close(
    emit: Emit, run: RunState, reason: ExitReason, *, usage: Usage, unseen: Sequence[str], last: str
) -> None:
    """The last events of a run. `usage` is the open round's, `unseen` what was said too late, and
    `last` the stop reason of the last reply."""
    round = max(run.round, 0)
    for call in run.unanswered:
        text = sentences.cancelled(call.name, started=call.id in run.running)
        answer_for(emit, call, text, "cancelled", round)
    if run.open_round:
        stopped: StopReason = "cancelled" if reason is ExitReason.USER_CANCEL else "unknown"
        emit(RoundEnd(usage=usage, stop_reason=stopped, round=round))
        usage = run.usage + usage
    else:
        usage = run.usage
    for text in unseen:
        emit(Warning(message=f"The run ended before the model saw this: {text}", round=round))
    words = in_words(reason, run.rounds, detail=_detail(reason, run, last))
    emit(Done(exit_reason=reason.value, message=words, rounds=run.rounds, usage=usage, round=round))


async def contained(work: Coroutine[object, object, T]) -> T:
    """The work, with nothing let out of its task that would tear down the event loop."""
    try:
        return await work
    except (KeyboardInterrupt, SystemExit) as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def explain(error: BaseException) -> str:
    """What failed, for a person: our own words are enough, anything else is named by its type."""
    if isinstance(error, AgentLoopError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def reason_of(error: BaseException) -> ExitReason:
    """The exit reason that an exception amounts to."""
    if isinstance(error, CircuitOpen):
        return ExitReason.CIRCUIT_BREAKER
    if isinstance(error, ProviderError) and error.kind == "context_overflow":
        return ExitReason.CONTEXT_OVERFLOW
    return ExitReason.FATAL_ERROR


def _detail(reason: ExitReason, run: RunState, last: str) -> str:
    if reason in (ExitReason.FATAL_ERROR, ExitReason.CIRCUIT_BREAKER, ExitReason.CONTEXT_OVERFLOW):
        return run.error or ""
    if reason is ExitReason.NO_TOOL_CALLS:
        return next((words for stop, words in _STOP_WORDS.items() if stop == last), "")
    return ""
