"""The context phase: the request that a round sends, made from the session's history. Pure.

Here is the place where a long history will be cut to what fits; for now all of it is sent.
"""

from __future__ import annotations

from agentloop_nb.limits import Limits
from agentloop_nb.models.base import Request
from agentloop_nb.tools import ToolSet
from agentloop_nb.transcript import SessionState


def build_request(
    state: SessionState, instructions: str, tools: ToolSet, limits: Limits
) -> Request:
    """What the model is asked next."""
    return Request(
        instructions=instructions,
        messages=state.messages,
        tools=tools.specs(),
        stream_timeout_s=limits.stream_timeout_s,
    )
