"""The pipeline of a tool round: shape, verdict, chain, execute. Nothing else executes a tool.

Every call of the reply leaves here answered: by an error that the model can read, by an
interceptor's claim, by a person's Stop, or by its tool. Results keep the model's order in the
history whatever order they came in (the fold in `transcript.py` sees to that).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agentloop_nb import sentences
from agentloop_nb.errors import ToolArgumentsError
from agentloop_nb.events import (
    AnyEvent,
    GuardEvent,
    GuardKind,
    ToolOutput,
    ToolResultEvent,
    ToolRunning,
)
from agentloop_nb.governance.chain import Interceptor, RoundView, run_chain
from agentloop_nb.governance.loop_guard import by_verdict
from agentloop_nb.governance.turn import AgentTurn, Verdict
from agentloop_nb.messages import ToolCall, ToolResult
from agentloop_nb.questions import ApprovalItem
from agentloop_nb.tools import Outlet, Prepared, ToolContext, ToolSet, execute, prepare
from agentloop_nb.tools.capture import OutputStream
from agentloop_nb.tools.output import OnOutput
from agentloop_nb.transcript import Ruling

Emit = Callable[[AnyEvent], AnyEvent]
_Ran = tuple[Prepared, ToolResult]


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a round: its verdict, and the terminal result where one was produced."""

    verdict: Verdict
    terminal: ToolResult | None = None


class Pipeline:
    """Runs the tools of one round at a time.

    `context_for` makes the ToolContext of a call; `durable` returns when all that was emitted is
    on disk; `outlet` is the way out of a tool; `ruling` and `ask` are what the run knows of a
    person's decisions and how it asks. Without a `turn` there are no bounds. `running` maps call
    ids to their tasks, so that one call can be stopped.
    """

    def __init__(
        self,
        tools: ToolSet,
        chain: Sequence[Interceptor],
        *,
        emit: Emit,
        durable: Callable[[], Awaitable[None]],
        context_for: Callable[[ToolCall], ToolContext[Any]],
        ruling: Callable[[str], Ruling | None],
        ask: Callable[[Sequence[ApprovalItem]], Awaitable[None]],
        turn: AgentTurn | None = None,
        timeout_s: float | None,
        outlet: Outlet | None = None,
    ) -> None:
        self._tools = tools
        self._chain = chain
        self._emit = emit
        self._durable = durable
        self._context_for = context_for
        self._ruling = ruling
        self._ask = ask
        self._turn = turn or AgentTurn.detached()
        self._timeout_s = timeout_s
        self._outlet = outlet
        self._running: dict[str, asyncio.Task[ToolResult]] = {}
        self._stopped: set[str] = set()

    async def run(self, calls: Sequence[ToolCall], round: int) -> Ran:
        """Answer every call."""
        ready = [p for call in calls if (p := self._shape(call, round)) is not None]
        verdict = self._turn.begin_round()
        if verdict is not Verdict.CONTINUE:
            self._guarded(round, verdict.value, [call.id for call in calls])
        claimed = await run_chain(self._chain, ready, self._view(round, verdict))
        for call_id, result in claimed.items():
            self._answer(result, round, ran_s=0.0, call_id=call_id)
        left = [prepared for prepared in ready if prepared.call.id not in claimed]
        if verdict is not Verdict.CONTINUE:  # whatever became of the guard, nothing runs
            for prepared in left:
                self._answer(by_verdict(verdict, prepared.call), round, ran_s=0.0)
            return Ran(verdict)
        results: list[_Ran] = []
        for segment in _segments(left):
            results += await _all(self._lane(lane, round) for lane in _lanes(segment))
        ends = [r for p, r in results if p.tool.return_direct and not r.is_error]
        return Ran(verdict, ends[0] if ends else None)

    def _view(self, round: int, verdict: Verdict) -> RoundView:
        def guarded(kind: GuardKind, ids: Sequence[str]) -> None:
            self._guarded(round, kind, ids)

        return RoundView(round, verdict, self._turn, self._ruling, self._ask, guarded)

    def _guarded(self, round: int, kind: GuardKind, ids: Sequence[str]) -> None:
        self._emit(GuardEvent(kind=kind, ids=tuple(ids), round=round))

    def stop_call(self, call_id: str) -> bool:
        """Stop one running call; False where no such call runs."""
        task = self._running.get(call_id)
        if task is None:
            return False
        self._stopped.add(call_id)
        task.cancel()
        return True

    def _shape(self, call: ToolCall, round: int) -> Prepared | None:
        """The call ready to run, or None where it was answered with what is wrong with it."""
        tool = self._tools.find(call.name)
        if tool is None:
            text = sentences.unknown_tool(
                call.name, self._tools.all_names, self._tools.nearest(call.name)
            )
        else:
            try:
                return prepare(call, tool)
            except ToolArgumentsError as error:
                text = str(error)
        self._answer(ToolResult(call.id, call.name, text, "invalid"), round, ran_s=0.0)
        return None

    async def _lane(self, lane: Iterable[Prepared], round: int) -> list[_Ran]:
        """One call after the other."""
        return [(prepared, await self._execute(prepared, round)) for prepared in lane]

    async def _execute(self, prepared: Prepared, round: int) -> ToolResult:
        call = prepared.call
        self._emit(ToolRunning(id=call.id, name=call.name, round=round))
        await self._durable()
        began = time.monotonic()
        work = execute(
            prepared,
            self._context_for(call),
            timeout_s=self._timeout_s,
            outlet=self._outlet,
            on_output=self._speaker(call, round),
        )
        task = self._running[call.id] = asyncio.ensure_future(work)
        try:
            result = await task
        except asyncio.CancelledError:
            if call.id not in self._stopped:
                raise
            result = ToolResult(
                call.id, call.name, sentences.cancelled(call.name, started=True), "cancelled"
            )
        finally:
            del self._running[call.id]
        self._answer(result, round, ran_s=time.monotonic() - began)
        return result

    def _speaker(self, call: ToolCall, round: int) -> OnOutput:
        """What a tool prints or reports, as events."""

        def say(stream: OutputStream, text: str, fraction: float | None) -> None:
            self._emit(
                ToolOutput(id=call.id, stream=stream, text=text, fraction=fraction, round=round)
            )

        return say

    def _answer(
        self, result: ToolResult, round: int, *, ran_s: float, call_id: str | None = None
    ) -> None:
        self._emit(
            ToolResultEvent(
                id=call_id or result.id,
                name=result.name,
                content=result.content,
                is_error=result.is_error,
                outcome=result.outcome,
                images=result.images,
                display=result.display,
                duration_s=round_s(ran_s),
                round=round,
            )
        )


def round_s(seconds: float) -> float:
    """Seconds to the millisecond: finer is noise in a journal."""
    return round(seconds, 3)


def _segments(calls: Sequence[Prepared]) -> list[list[Prepared]]:
    """The calls cut at each `exclusive` one, which runs alone."""
    segments: list[list[Prepared]] = []
    alone = True
    for prepared in calls:
        exclusive = prepared.tool.concurrency == "exclusive"
        if exclusive or alone:
            segments.append([])
        segments[-1].append(prepared)
        alone = exclusive
    return segments


def _lanes(segment: Sequence[Prepared]) -> list[list[Prepared]]:
    """Calls that may run side by side: each `parallel` one alone, a named group in one lane."""
    lanes: dict[str, list[Prepared]] = {}
    for prepared in segment:
        group = prepared.tool.concurrency
        lane = prepared.call.id if group == "parallel" else f"group {group}"
        lanes.setdefault(lane, []).append(prepared)
    return list(lanes.values())


async def _all(lanes: Iterable[Awaitable[list[_Ran]]]) -> list[_Ran]:
    """All of them; where one fails or we are cancelled, none is left running."""
    tasks = [asyncio.ensure_future(lane) for lane in lanes]
    try:
        return [ran for lane in await asyncio.gather(*tasks) for ran in lane]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
