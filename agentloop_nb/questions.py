"""What a run asks a person, and what comes back. A closed union; approvals are its first member.

A question lists calls, and each call is decided by its own id, so answers may come in any order
and in parts. What was shown is what runs: `ApprovalItem.fingerprint` binds the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DecidedBy = Literal["person", "on_question", "timeout", "nobody", "error", "stop"]
"""Who decided. `timeout`: nobody answered in time. `nobody`: there was no page to ask on.
`error`: asking failed. `stop`: the run ended first. Only the first two can approve."""


@dataclass(frozen=True, slots=True)
class ApprovalItem:
    """One gated call. `shown` is what the dialog displays: (argument name, value as text) pairs,
    made from the coerced arguments with invisible characters spelt out."""

    call_id: str
    name: str
    shown: tuple[tuple[str, str], ...]
    fingerprint: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """May these calls run? `timeout_s` is the whole wait in seconds, None for no end."""

    id: str
    items: tuple[ApprovalItem, ...]
    timeout_s: float | None
    type: Literal["approval"] = "approval"


Question = Approval


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one call. `reason` is what the person typed when declining."""

    call_id: str
    approved: bool
    reason: str = ""
