"""The approval interceptor: calls that a person has to allow, all of a round in one dialog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentloop_nb import sentences
from agentloop_nb.governance.chain import RoundView
from agentloop_nb.messages import ToolResult
from agentloop_nb.questions import ApprovalItem
from agentloop_nb.tools import Prepared
from agentloop_nb.transcript import Ruling


class ApprovalInterceptor:
    """Asks for what is gated and undecided, and claims what nobody allowed.

    A ruling holds for the exact call that was shown: where the fingerprint differs (the tool was
    edited, a journal was changed) it is asked again. It fails closed.
    """

    fail_closed = True

    async def claim(self, calls: Sequence[Prepared], view: RoundView) -> Mapping[str, ToolResult]:
        gated = [prepared for prepared in calls if prepared.needs_approval()]
        open_ = [prepared for prepared in gated if _ruled(prepared, view) is None]
        put_off: list[Prepared] = []
        if open_ and view.turn.may_ask():
            await view.ask([_item(prepared) for prepared in open_])
        elif open_:
            put_off = open_
            view.guarded("interaction-budget", [p.call.id for p in put_off])
        verdicts = ((p, _ruled(p, view)) for p in gated if p not in put_off)
        return {p.call.id: _deferred(p) for p in put_off} | {
            prepared.call.id: _refusal(prepared, ruling)
            for prepared, ruling in verdicts
            if ruling is None or not ruling.approved
        }


def _ruled(prepared: Prepared, view: RoundView) -> Ruling | None:
    ruling = view.ruling(prepared.call.id)
    return ruling if ruling and ruling.fingerprint == prepared.fingerprint else None


def _item(prepared: Prepared) -> ApprovalItem:
    tool = prepared.tool
    return ApprovalItem(
        prepared.call.id, tool.name, prepared.shown, prepared.fingerprint, tool.description
    )


def _deferred(prepared: Prepared) -> ToolResult:
    call = prepared.call
    return ToolResult(call.id, call.name, sentences.deferred(call.name), "deferred")


def _refusal(prepared: Prepared, ruling: Ruling | None) -> ToolResult:
    call = prepared.call
    if ruling is not None and ruling.by in ("person", "on_question"):
        text = sentences.declined(call.name, ruling.reason)
        return ToolResult(call.id, call.name, text, "declined")
    if ruling is not None and ruling.by == "timeout":
        return ToolResult(call.id, call.name, sentences.unanswered(call.name), "unanswered")
    nobody = ruling is not None and ruling.by == "nobody"
    text = sentences.nobody_to_ask(call.name) if nobody else sentences.ask_failed(call.name)
    return ToolResult(call.id, call.name, text, "unanswered")
