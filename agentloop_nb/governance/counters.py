"""What governance did in a run, counted from its events: the same numbers live and a year later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from agentloop_nb.events import AnswerEvent, AnyEvent, GuardEvent
from agentloop_nb.questions import DecidedBy

PER_ROUND = frozenset({"wrap-up", "hard-stop", "cancelled"})
_DECIDED: Mapping[DecidedBy, str] = {
    "timeout": "timeout",
    "error": "ask-failed",
    "nobody": "ask-failed",
}


def count(events: Iterable[AnyEvent]) -> dict[str, dict[str, int]]:
    """By name and outcome.

    `chat.tool.loop`: `wrap-up`, `hard-stop` and `cancelled` count rounds; `repeated`,
    `declined-repeat` and `interaction-budget` count calls. `mcp.hitl.decision` counts each gated
    call once: `approved`, `declined`, `timeout`, `ask-failed`.
    """
    loop: Counter[str] = Counter()
    decisions: Counter[str] = Counter()
    for event in events:
        match event:
            case GuardEvent(kind=kind, ids=ids):
                loop[kind] += 1 if kind in PER_ROUND else len(ids)
            case AnswerEvent(by=by, decisions=made) if by != "stop":
                for decision in made:
                    said = "approved" if decision.approved else "declined"
                    decisions[_DECIDED.get(by, said)] += 1
            case _:
                pass
    return {"chat.tool.loop": dict(loop), "mcp.hitl.decision": dict(decisions)}
