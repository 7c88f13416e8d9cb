"""Where a run asks a person: one open question, its clock, and what each answer came to.

Time in which a cell holds the loop is not counted, and a clock that runs out first looks at what
has arrived, so an answer given to a busy kernel is honoured. First decision on a call wins; late,
second, foreign and malformed ones do nothing and are told so.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agentloop_nb.events import AnswerEvent, AnyEvent, QuestionEvent, Warning
from agentloop_nb.inbox import Answer, Letter
from agentloop_nb.patience import Patience
from agentloop_nb.ports import Audience
from agentloop_nb.questions import Approval, ApprovalItem, DecidedBy, Decision, Question
from agentloop_nb.tools.threads import on_thread

HELLO_WAIT_S = 5.0
"""How long a question waits for a page to say hello. A page does so within a second of being
shown (measured: 0.1 to 0.5 s after a reload); papermill and nbconvert never do."""

SEEN_S = 1.0
"""A countdown shows whole seconds: a question held up for so long is asked again."""

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
        self._open = open_ = _Open(question_id, items, round, self._wait_s)
        self._emit(QuestionEvent(question=open_.question, round=round))
        try:
            await self._until_decided(open_)
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
        hello = Patience(HELLO_WAIT_S)
        if not await self._wait(open_, open_.decided, hello) and not self._audience.present():
            await self._without_a_page(open_)
        elif not await self._wait(open_, open_.decided):
            self._close("timeout")

    async def _wait(
        self, open_: _Open, what: asyncio.Future[Any], at_most: Patience | None = None
    ) -> bool:
        """Whether something came about before the clock ran out, or another one did."""

        def held(late_s: float) -> None:
            if open_.move(late_s):  # or the page's countdown would run out before ours
                self._emit(QuestionEvent(question=open_.question, round=open_.round))

        if not await open_.patience.wait(what, at_most, held):
            self._drain()
        return what.done()

    async def _without_a_page(self, open_: _Open) -> None:
        if self._on_question is None:
            self._close("nobody")
            return
        asked = asyncio.ensure_future(_put(self._on_question, open_.question))
        try:
            if not await self._wait(open_, asked):
                self._close("timeout")
                return
            decisions = _read(asked.result(), open_.undecided)
        except _AskFailed as failure:
            self._emit(Warning(message=f"{failure} The call did not run.", round=open_.round))
            self._close("error")
            return
        finally:
            asked.cancel()
        if decisions:
            self._decide(open_, decisions, "on_question")
        self._close("error")  # what it left undecided

    def answer(self, letter: Letter, answer: Answer) -> None:
        """Take a person's decisions, as far as they belong to what is open."""
        open_ = self._open
        if open_ is None or open_.id != answer.question_id:
            letter.settle(False, "This question is closed.")
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
                id=open_.id,
                decisions=tuple(decisions),
                by=by,
                closed=closed,
                round=open_.round,
            )
        )
        if closed and not open_.decided.done():
            open_.decided.set_result(None)

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
    """The open question, and what is left of its time."""

    def __init__(
        self, question_id: str, items: Sequence[ApprovalItem], round: int, wait_s: float | None
    ) -> None:
        self.id = question_id
        self.round = round
        self.patience = Patience(wait_s)
        self.all_ids = [item.call_id for item in items]
        self.undecided = list(self.all_ids)
        self.decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._items = tuple(items)
        self._moved_s = 0.0

    @property
    def question(self) -> Approval:
        """What is still asked, with the time that is left."""
        items = tuple(item for item in self._items if item.call_id in self.undecided)
        return Approval(self.id, items, self.patience.left_s)

    def move(self, late_s: float) -> bool:
        """Whether the clock has by now been held for so long that a person would see it."""
        self._moved_s += late_s
        if self._moved_s < SEEN_S or self.patience.left_s is None:
            return False
        self._moved_s = 0.0
        return True
