"""The tools of an agent, by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence

from agentloop_nb.errors import ToolDefinitionError
from agentloop_nb.models.base import ToolSpec
from agentloop_nb.tools.tool import Tool, as_tool


class ToolSet:
    """Tools and plain functions as one set, in the order given.

    Raises ToolDefinitionError where one cannot be a tool, or two have one name.
    """

    def __init__(self, tools: Sequence[Tool[..., object] | Callable[..., object]] = ()) -> None:
        if callable(tools):
            raise ToolDefinitionError(
                "`tools` is a list of tools or functions, as in `tools=[search, delete_file]`."
            )
        self._by_name: dict[str, Tool[..., object]] = {}
        for given in tools:
            self._add(as_tool(given))

    def _add(self, tool: Tool[..., object]) -> None:
        other = self._by_name.setdefault(tool.name, tool)
        if other is tool:
            return
        raise ToolDefinitionError(
            f"Two tools are named {tool.name!r}: one from {other.place or 'an unknown place'}, "
            f"one from {tool.place or 'an unknown place'}. Leave one out, or give one another "
            'name with `@tool(name="…")`.'
        )

    def __iter__(self) -> Iterator[Tool[..., object]]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        return tuple(tool.spec for tool in self)

    def find(self, name: str) -> Tool[..., object] | None:
        return self._by_name.get(name)

    def nearest(self, name: str) -> str | None:
        """The name of the tool that was probably meant, None where none is close."""
        by_lower = {known.lower(): known for known in self.names}
        close = difflib.get_close_matches(name.lower(), list(by_lower), 1)
        return by_lower[close[0]] if close else None

    def latest(self) -> ToolSet:
        """The same tools as their modules define them now (see `Tool.latest`)."""
        return ToolSet([tool.latest() for tool in self])
