"""The loop guard: the first interceptor, which ends what would go on for ever.

It claims every call of a round past the limits, a call that has come to the same result too often,
and a call of what was declined in this turn, which nobody is asked twice. A count goes by the call
and not by its place, so a cycle of several calls is caught as each of them comes round too often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from agentloop_nb import sentences
from agentloop_nb.governance.chain import RoundView
from agentloop_nb.governance.turn import Verdict
from agentloop_nb.messages import ToolCall, ToolResult
from agentloop_nb.tools import Prepared
from agentloop_nb.turnstate import call_key


class LoopGuard:
    """Stateless: all that it knows is the turn's."""

    fail_closed = False

    async def claim(self, calls: Sequence[Prepared], view: RoundView) -> Mapping[str, ToolResult]:
        if view.verdict is not Verdict.CONTINUE:
            return {p.call.id: by_verdict(view.verdict, p.call) for p in calls}
        claims: dict[str, ToolResult] = {}
        beside: Counter[str] = Counter()  # the same call, earlier in this round
        for prepared in calls:
            call, key = prepared.call, call_key(prepared.call)
            if view.turn.was_declined(call):
                claims[call.id] = _guarded(call, sentences.declined_before(call.name))
                view.guarded("declined-repeat", [call.id])
                continue
            times = view.turn.times(call) + beside[key]
            if not prepared.tool.repeat_ok and view.turn.is_repeat(times):
                claims[call.id] = _guarded(call, sentences.repeated(call.name, times))
                view.guarded("repeated", [call.id])
            else:
                beside[key] += 1
        return claims


def by_verdict(verdict: Verdict, call: ToolCall) -> ToolResult:
    """What a call is answered with in a round that runs nothing."""
    match verdict:
        case Verdict.CANCELLED:
            text = sentences.cancelled(call.name, started=False)
            return ToolResult(call.id, call.name, text, "cancelled")
        case Verdict.HARD_STOP:
            return _guarded(call, sentences.hard_stop(call.name))
        case _:
            return _guarded(call, sentences.wrap_up(call.name))


def _guarded(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, call.name, text, "guarded")
