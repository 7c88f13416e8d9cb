"""Run, watch and understand an agent in a Jupyter notebook cell.

An agent is a model that calls tools in a loop until it can answer. Start with `Agent` and `tool`;
`ARCHITECTURE.md` shows the rooms and the way data goes through them.

Importing this loads no provider's SDK and no widget library.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from agentloop_nb.agent import Agent
from agentloop_nb.errors import AgentLoopError, RunFailed, RunInterrupted, UsageError
from agentloop_nb.exits import ExitReason
from agentloop_nb.limits import Limits
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.offline import Call, OfflineModel, Pause, Reply
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from agentloop_nb.ports import register_host
from agentloop_nb.run import Result, Run
from agentloop_nb.session import Session, runs
from agentloop_nb.tools import ContextFilter, Tool, ToolContext, tool

if TYPE_CHECKING:
    from agentloop_nb.ports import Host

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentLoopError",
    "AnthropicModel",
    "Call",
    "ContextFilter",
    "ExitReason",
    "Limits",
    "OfflineModel",
    "OpenAIChatModel",
    "OpenAIModel",
    "Pause",
    "Reply",
    "Result",
    "Run",
    "RunFailed",
    "RunInterrupted",
    "Session",
    "Tool",
    "ToolContext",
    "UsageError",
    "__version__",
    "runs",
    "tool",
]


def _notebook() -> Host | None:
    """The notebook, where this process is a kernel; loaded only then."""
    if "ipykernel" not in sys.modules:
        return None
    from agentloop_nb.notebook.host import notebook_host

    return notebook_host()


register_host(_notebook)
