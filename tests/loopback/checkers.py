"""The checkers: for each format, what the real service answers with a 400."""

from __future__ import annotations

from tests.loopback.anthropic_check import check_anthropic
from tests.loopback.chat_check import check_chat
from tests.loopback.checking import Complaint
from tests.loopback.responses_check import check_responses

__all__ = ["Complaint", "check_anthropic", "check_chat", "check_responses"]
