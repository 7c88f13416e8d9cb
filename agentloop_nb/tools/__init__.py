"""Tools: what the model may call, how a call is checked, and how it runs."""

from agentloop_nb.tools.arguments import Prepared, prepare
from agentloop_nb.tools.context import ContextFilter, ToolContext
from agentloop_nb.tools.execute import execute
from agentloop_nb.tools.outlet import Outlet
from agentloop_nb.tools.results import limit
from agentloop_nb.tools.tool import Tool, as_tool, tool
from agentloop_nb.tools.toolset import ToolSet

__all__ = [
    "ContextFilter",
    "Outlet",
    "Prepared",
    "Tool",
    "ToolContext",
    "ToolSet",
    "as_tool",
    "execute",
    "limit",
    "prepare",
    "tool",
]
