"""The interceptor chain: who may claim a call before it executes, in a fixed order.

An interceptor is stateless. It gets the calls that nobody has claimed and returns results by call
id; a claimed call is answered with that result, never runs, and is not seen by later ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentloop_nb import sentences
from agentloop_nb.events import GuardKind
from agentloop_nb.governance.turn import AgentTurn, Verdict
from agentloop_nb.messages import ToolResult
from agentloop_nb.questions import ApprovalItem
from agentloop_nb.tools import Prepared
from agentloop_nb.transcript import Ruling


@dataclass(frozen=True, slots=True)
class RoundView:
    """What an interceptor sees of the run: its round and what it may do, the turn, rulings on
    calls, how to ask, and how to say that it has guarded some calls."""

    round: int
    verdict: Verdict
    turn: AgentTurn
    ruling: Callable[[str], Ruling | None]
    ask: Callable[[Sequence[ApprovalItem]], Awaitable[None]]
    guarded: Callable[[GuardKind, Sequence[str]], None]


class Interceptor(Protocol):
    """Claims calls. Where `fail_closed` is true and `claim` raises, every call it was looking at
    is declined; otherwise they pass on."""

    fail_closed: bool

    async def claim(
        self, calls: Sequence[Prepared], view: RoundView
    ) -> Mapping[str, ToolResult]: ...


async def run_chain(
    chain: Sequence[Interceptor], calls: Sequence[Prepared], view: RoundView
) -> dict[str, ToolResult]:
    """The claims of all interceptors, by call id."""
    claimed: dict[str, ToolResult] = {}
    for interceptor in chain:
        left = [prepared for prepared in calls if prepared.call.id not in claimed]
        if not left:
            break
        try:
            claims = await interceptor.claim(left, view)
        except Exception:
            claims = {p.call.id: _not_decided(p) for p in left} if interceptor.fail_closed else {}
        allowed = {p.call.id for p in left}
        claimed |= {call_id: result for call_id, result in claims.items() if call_id in allowed}
    return claimed


def _not_decided(prepared: Prepared) -> ToolResult:
    call = prepared.call
    return ToolResult(call.id, call.name, sentences.ask_failed(call.name), "unanswered")
