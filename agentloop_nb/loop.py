"""The loop: context, model call, tools, exit; and the one place where exceptions become an end.

One task works through the rounds in a straight line. Beside it one listener hears the inbox: it
keeps what was said for the next request, hands answers to the desk, and cancels the work on Stop.
Everything that happens is emitted as an event first; the state is the fold of those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentloop_nb import closing, sentences
from agentloop_nb.asking import Asker
from agentloop_nb.context.request import build_request
from agentloop_nb.events import (
    AnyEvent,
    ErrorEvent,
    Resumed,
    RoundEnd,
    RoundStart,
    RunStart,
    SnapshotEvent,
    Warning,
)
from agentloop_nb.events import Say as SayEvent
from agentloop_nb.exits import ExitReason
from agentloop_nb.governance.approval import ApprovalInterceptor
from agentloop_nb.governance.chain import Interceptor
from agentloop_nb.governance.desk import Desk, OnQuestion
from agentloop_nb.governance.loop_guard import LoopGuard
from agentloop_nb.governance.pipeline import Pipeline, Ran
from agentloop_nb.governance.turn import AgentTurn
from agentloop_nb.inbox import Answer, Inbox, Letter, Report, RetryNow, Say, Stop
from agentloop_nb.limits import Limits
from agentloop_nb.log import EventLog
from agentloop_nb.messages import NO_USAGE, Message, ToolCall
from agentloop_nb.models.base import Model
from agentloop_nb.ports import Audience, Checkpoint, NoCheckpoint
from agentloop_nb.questions import ApprovalItem
from agentloop_nb.tools import Outlet, ToolContext, ToolSet
from agentloop_nb.transcript import RunState, SessionState, fold

_CLOSING_S = 2.0
"""How long the work may take to end when the event loop itself is closing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What one run works with. `state` is the session before it, or the unfinished run's own."""

    model: Model
    tools: ToolSet
    log: EventLog
    inbox: Inbox
    state: SessionState
    instructions: str = ""
    limits: Limits = field(default_factory=Limits)
    deps: Any = None
    interceptors: Sequence[Interceptor] = ()
    on_question: OnQuestion | None = None
    audience: Audience | None = None
    outlet: Outlet = field(default_factory=Outlet)
    checkpoint: Checkpoint = field(default_factory=NoCheckpoint)


class Loop:
    """One run, from its first event to `done`. Lives on one event loop."""

    def __init__(self, setup: Setup) -> None:
        self._s = setup
        self.state = setup.state
        self._said: list[str] = []
        self._asker = Asker(setup.model, setup.limits, self._emit)
        self._work: asyncio.Task[ExitReason] | None = None
        self._desk = Desk(
            self._emit,
            self._read_letters,
            audience=setup.audience,
            on_question=setup.on_question,
            wait_s=setup.limits.approval_wait_s,
        )
        self._turn = AgentTurn(lambda: self._run, setup.limits, setup.inbox.stopping)
        self._pipeline = Pipeline(
            setup.tools,
            (LoopGuard(), ApprovalInterceptor(), *setup.interceptors),
            emit=self._emit,
            durable=setup.checkpoint.durable,
            context_for=self._tool_context,
            ruling=lambda call_id: self._run.ruling(call_id),
            ask=self._ask,
            turn=self._turn,
            timeout_s=setup.limits.tool_timeout_s,
            outlet=replace(setup.outlet, max_chars=setup.limits.tool_result_max_chars),
        )

    async def start(self, prompt: str, session_id: str, run_id: str) -> None:
        """A new run on a user's message."""
        self._emit(
            RunStart(
                session_id=session_id,
                run_id=run_id,
                prompt=prompt,
                model=self._s.model.name,
                instructions=self._s.instructions,
                tools=self._s.tools.names,
                max_turns=self._s.limits.max_turns,
            )
        )
        await self._until_done()

    async def resume(self) -> None:
        """Go on with the unfinished run that the state holds."""
        self._emit(Resumed(model=self._s.model.name, round=self._round))
        await self._until_done()

    # -- the two tasks: the work, and the listener beside it

    async def _until_done(self) -> None:
        work = self._work = asyncio.create_task(closing.contained(self._rounds()))
        try:
            await self._listen(work)
        except asyncio.CancelledError:  # the event loop is closing: end as a Stop would
            self._s.inbox.stopping.set()
            work.cancel()
            await asyncio.wait({work}, timeout=_CLOSING_S)
        reason = self._ending(work)
        closing.close(
            self._emit,
            self._run,
            reason,
            usage=self._asker.usage,
            unseen=self._said,
            last=self._last_stop(),
        )
        await self._s.checkpoint.durable()
        # Last, so that whoever hears from it that the run has ended may begin the next one.
        self._s.inbox.close()

    def _ending(self, work: asyncio.Task[ExitReason]) -> ExitReason:
        """How the work ended: the one place where an exception becomes an exit reason."""
        stopped = self._s.inbox.stopping.is_set()
        if not work.done() or (work.cancelled() and stopped):
            return ExitReason.USER_CANCEL
        error = (
            asyncio.CancelledError("nobody stopped it") if work.cancelled() else work.exception()
        )
        if error is None:
            return work.result()
        self._emit(ErrorEvent(message=closing.explain(error), round=self._round))
        return closing.reason_of(error)

    async def _listen(self, work: asyncio.Task[ExitReason]) -> None:
        while not work.done():
            mail = asyncio.ensure_future(self._s.inbox.wait())
            await asyncio.wait({work, mail}, return_when=asyncio.FIRST_COMPLETED)
            mail.cancel()
            self._read_letters()

    def _read_letters(self) -> None:
        for letter in self._s.inbox.take():
            self._hear(letter)

    def _hear(self, letter: Letter) -> None:
        match letter.message:
            case Say(text):
                self._said.append(text)
                letter.settle(True, "")
            case Answer() as answer:
                if self._s.inbox.stopping.is_set():  # Stop wins, also over an earlier answer
                    letter.settle(False, "The run is being stopped.")
                else:
                    self._desk.answer(letter, answer)
            case Stop(call_id=None):
                if self._work is not None:
                    self._work.cancel()
                letter.settle(True, "")
            case Stop(call_id=str(call_id)):
                found = self._pipeline.stop_call(call_id)
                letter.settle(found, "" if found else "This call is not running.")
            case RetryNow():
                waiting = self._asker.try_now()
                letter.settle(waiting, "" if waiting else "The run is not waiting to try again.")
            case Report(message, file):
                report = SnapshotEvent(file=file) if file else Warning(message=message)
                self._emit(replace(report, round=self._round))
                letter.settle(True, "")

    # -- the rounds

    async def _rounds(self) -> ExitReason:
        reply = self.state.reply_in_hand  # resumed after a reply, else None
        while True:
            if reply is None:
                if self._at_cap():
                    return self._hard_stop()
                reply = await self._ask_model(await self._open_round())
            if reply.stop_reason == "cancelled":  # resumed while a Stop was being carried out
                return ExitReason.USER_CANCEL
            if reply.stop_reason == "engine":  # resumed after our own last message
                return ExitReason.MAX_ROUNDS if self._at_cap() else ExitReason.END_TURN
            if ended := await self._tools(reply):
                return ended
            if closing.goes_on(self.state.messages):
                reply = None
                continue
            if not reply.calls and not self._said:
                natural = reply.stop_reason in ("end_turn", "stop_sequence")
                return ExitReason.END_TURN if natural else ExitReason.NO_TOOL_CALLS
            reply = None

    def _hard_stop(self) -> ExitReason:
        text = sentences.stopped_at_cap(self._run.rounds)
        closing.say_as_engine(self._emit, text, self._round)
        return ExitReason.MAX_ROUNDS

    def _at_cap(self) -> bool:
        cap = self._s.limits.max_turns
        return cap is not None and self._run.rounds >= cap and not self._run.open_round

    async def _open_round(self) -> int:
        """Begin a round (a resumed one begins again), with what was said since the last."""
        run = self._run
        number = run.round if run.open_round else run.round + 1
        self._asker.usage = NO_USAGE
        self._emit(RoundStart(round=number))
        said, self._said = self._said, []
        for text in said:
            self._emit(SayEvent(text=text, round=number))
        await self._s.checkpoint.durable()
        return number

    async def _ask_model(self, round: int) -> Message:
        s = self._s
        request = build_request(self.state, s.instructions, s.tools, s.limits)
        return await self._asker.ask(request, round)

    async def _tools(self, reply: Message) -> ExitReason | None:
        """Answer the calls of a reply and end its round; an exit reason where one ends the run."""
        ran = await self._answer_calls(reply)
        if self._run.open_round:
            usage, why = self._asker.usage, reply.stop_reason or "unknown"
            self._emit(RoundEnd(usage=usage, stop_reason=why, round=self._round))
        if ran is None:
            return None
        return closing.after_tools(self._emit, self._turn, ran, reply, self._round)

    async def _answer_calls(self, reply: Message) -> Ran | None:
        run = self._run
        for call in run.unanswered:
            if call.id in run.running:  # in a kernel that died: never started again on our own
                text = sentences.outcome_unknown(call.name, call.arguments)
                closing.answer_for(self._emit, call, text, "unknown_outcome", run.round)
            elif reply.stop_reason == "max_tokens":
                text = sentences.truncated(call.name)
                closing.answer_for(self._emit, call, text, "invalid", run.round)
        calls = self._run.unanswered
        if not calls:
            return None
        await self._s.checkpoint.durable()
        return await self._pipeline.run(calls, self._round)

    # -- small things

    @property
    def _run(self) -> RunState:
        if self.state.run is None:
            raise AssertionError("A run's first event is its run_start.")
        return self.state.run

    @property
    def _round(self) -> int:
        return max(self._run.round, 0)

    def _emit(self, event: AnyEvent) -> AnyEvent:
        stamped = self._s.log.append(event)
        self.state = fold(self.state, stamped)
        return stamped

    def _last_stop(self) -> str:
        replies = [m for m in self.state.messages[self._run.first :] if m.role == "assistant"]
        return (replies[-1].stop_reason or "") if replies else ""

    def _tool_context(self, call: ToolCall) -> ToolContext[Any]:
        return ToolContext(
            session_id=self.state.session_id,
            run_id=self._run.run_id,
            round=self._round,
            call_id=call.id,
            deps=self._s.deps,
            stopped=self._s.inbox.stopping.is_set,
        )

    async def _ask(self, items: Sequence[ApprovalItem]) -> None:
        await self._desk.ask(f"q{self._s.log.next_seq}", items, self._round)
