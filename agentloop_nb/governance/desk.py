"""Where a run asks a person: one open question, its clock, and what each answer came to.

An answer counts by the moment it was posted, so one that waited behind a busy loop is honoured.
First decision on a call wins; late, second, foreign and malformed ones do nothing and are told so.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agentloop_nb.events import AnswerEvent, AnyEvent, QuestionEvent, Warning
from agentloop_nb.inbox import Answer, Letter
from agentloop_nb.ports import Audience
from agentloop_nb.questions import Approval, ApprovalItem, DecidedBy, Decision, Question
from agentloop_nb.tools.threads import on_thread

HELLO_WAIT_S = 5.0
"""How long a question waits for a page to say hello. A page does so within a second of being
shown (see "More measured facts": 0.1 to 0.5 s after a reload); papermill and nbconvert never do."""

Decided = bool | Mapping[str, bool]
OnQuestion = Callable[[Question], Decided | Awaitable[Decided]]
"""Decides a question where no page can: True or False for all its calls, or a mapping by call
id. Only an explicit True runs a call."""


class Desk:
    """Asks on behalf of one run. `drain` reads the run's inbox at once: a clock that runs out
    first looks at what has arrived."""

    def __init__(
        self,
        emit: Callable[[AnyEvent], AnyEvent],
        drain: Callable[[], None],
        *,
        audience: Audience | None,
        on_question: OnQuestion | None,
        wait_s: float | None,
    ) -> None:
        self._emit = emit
        self._drain = drain
        self._audience = audience
        self._on_question = on_question
        self._wait_s = wait_s
        self._open: _Open | None = None

    async def ask(self, question_id: str, items: Sequence[ApprovalItem], round: int) -> None:
        """Ask until every call is decided or nobody will. The rulings are in the events."""
        question = Approval(question_id, tuple(items), self._wait_s)
        self._open = _Open(question, round, self._wait_s)
        self._emit(QuestionEvent(question=question, round=round))
        try:
            await self._until_decided(self._open)
        except asyncio.CancelledError:
            self._close("stop")
            raise
        except Exception:
            self._close("error")
        finally:
            self._open = None

    async def _until_decided(self, open_: _Open) -> None:
        if self._audience is None:
            await self._without_a_page(open_)
            return
        if not await self._wait(open_, HELLO_WAIT_S) and not self._audience.present():
            await self._without_a_page(open_)
        elif not await self._wait(open_, None):
            self._close("timeout")

    async def _wait(self, open_: _Open, at_most_s: float | None) -> bool:
        """Whether all is decided, once it is, the clock ran out or `at_most_s` have passed."""
        waits = [s for s in (open_.remaining_s(), at_most_s) if s is not None]
        try:
            async with asyncio.timeout(max(min(waits), 0.0) if waits else None):
                await open_.decided.wait()
        except TimeoutError:
            self._drain()
        return open_.decided.is_set()

    async def _without_a_page(self, open_: _Open) -> None:
        if self._on_question is None:
            self._close("nobody")
            return
        try:
            async with asyncio.timeout(open_.remaining_s()):
                decisions = _read(await _put(self._on_question, open_.question), open_.undecided)
        except TimeoutError:
            self._close("timeout")
            return
        except _AskFailed as failure:
            self._emit(Warning(message=f"{failure} The call did not run.", round=open_.round))
            self._close("error")
            return
        if decisions:
            self._decide(open_, decisions, "on_question")
        self._close("error")  # what it left undecided

    def answer(self, letter: Letter, answer: Answer) -> None:
        """Take a person's decisions, as far as they belong to what is open."""
        open_ = self._open
        if open_ is None or open_.question.id != answer.question_id:
            letter.settle(False, "This question is closed.")
            return
        if letter.posted > open_.deadline:
            letter.settle(False, "The time to answer was over.")
            return
        wanted = {d.call_id: d for d in reversed(answer.decisions)}  # the first on a call wins
        decisions = [wanted[i] for i in open_.undecided if i in wanted]
        if not decisions:
            known = any(d.call_id in open_.all_ids for d in answer.decisions)
            why = "Already decided." if known else "No call of this question was named."
            letter.settle(False, why)
            return
        self._decide(open_, decisions, "person")
        letter.settle(True, "")

    def _decide(self, open_: _Open, decisions: Sequence[Decision], by: DecidedBy) -> None:
        for decision in decisions:
            open_.undecided.remove(decision.call_id)
        closed = not open_.undecided
        self._emit(
            AnswerEvent(
                id=open_.question.id,
                decisions=tuple(decisions),
                by=by,
                closed=closed,
                round=open_.round,
            )
        )
        if closed:
            open_.decided.set()

    def _close(self, by: DecidedBy) -> None:
        """Nobody decides the rest: not run."""
        if self._open is not None and self._open.undecided:
            open_ = self._open
            self._decide(open_, [Decision(i, False) for i in open_.undecided], by)


class _AskFailed(Exception):
    """`on_question` gave no answer that can be read."""


async def _put(on_question: OnQuestion, question: Question) -> object:
    """What `on_question` says: a plain function on a thread, so that it may block; an async one
    here. Whatever it raises becomes `_AskFailed`, but for our own cancellation."""
    try:
        if inspect.iscoroutinefunction(on_question):
            said: object = on_question(question)
        else:
            said, error = await on_thread("on_question", lambda: _attempt(on_question, question))
            if error is not None:
                raise error
        return await said if inspect.isawaitable(said) else said
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _AskFailed("on_question cancelled itself.") from error
    except BaseException as error:
        raise _AskFailed(f"on_question raised {type(error).__name__}: {error}.") from error


def _attempt(ask: OnQuestion, question: Question) -> tuple[object, BaseException | None]:
    try:
        return ask(question), None
    except BaseException as error:
        return None, error


def _read(said: object, undecided: Sequence[str]) -> list[Decision]:
    """The decisions in an answer of `on_question`. Only an explicit True approves."""
    if isinstance(said, bool):
        return [Decision(call_id, said) for call_id in undecided]
    if isinstance(said, Mapping) and all(isinstance(value, bool) for value in said.values()):
        return [Decision(call_id, said[call_id]) for call_id in undecided if call_id in said]
    raise _AskFailed(
        f"on_question returned {type(said).__name__}; it has to return True, False, or a mapping "
        "from call ids to these."
    )


class _Open:
    """The open question. `deadline` is a `time.monotonic()` reading."""

    def __init__(self, question: Approval, round: int, wait_s: float | None) -> None:
        self.question = question
        self.round = round
        self.deadline = float("inf") if wait_s is None else time.monotonic() + wait_s
        self.all_ids = [item.call_id for item in question.items]
        self.undecided = list(self.all_ids)
        self.decided = asyncio.Event()

    def remaining_s(self) -> float | None:
        if self.deadline == float("inf"):
            return None
        return self.deadline - time.monotonic()
