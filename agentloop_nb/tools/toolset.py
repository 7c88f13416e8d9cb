"""The tools of an agent, by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from agentloop_nb.errors import ToolDefinitionError
from agentloop_nb.models.base import ToolSpec
from agentloop_nb.tools.tool import Tool, as_tool

Given = Sequence[Tool[..., Any] | Callable[..., Any]]


class ToolSet:
    """Tools and plain functions as one set, in the order given.

    Those in `pool` are not told to the model, and run when it names one: a skill whose text names
    a tool, say. Raises ToolDefinitionError where one cannot be a tool, or two have one name.
    """

    def __init__(self, tools: Given = (), pool: Given = ()) -> None:
        for name, given in (("tools", tools), ("pool", pool)):
            if callable(given):
                raise ToolDefinitionError(
                    f"`{name}` is a list of tools or functions, as in "
                    f"`{name}=[search, delete_file]`."
                )
        self._by_name: dict[str, Tool[..., object]] = {}
        for each in tools:
            self._add(as_tool(each))
        self._told = len(self._by_name)
        for each in pool:
            self._add(as_tool(each))

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
        return islice(self._by_name.values(), self._told)

    def __len__(self) -> int:
        return self._told

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tools that the model is told of."""
        return tuple(self._by_name)[: self._told]

    @property
    def all_names(self) -> tuple[str, ...]:
        """Of all that it may call, those in the pool last."""
        return tuple(self._by_name)

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        return tuple(tool.spec for tool in self)

    def find(self, name: str) -> Tool[..., object] | None:
        return self._by_name.get(name)

    def nearest(self, name: str) -> str | None:
        """The name of the tool that was probably meant, None where none is close."""
        by_lower = {known.lower(): known for known in self.all_names}
        close = difflib.get_close_matches(name.lower(), list(by_lower), 1)
        return by_lower[close[0]] if close else None

    def latest(self) -> ToolSet:
        """The same tools as their modules define them now (see `Tool.latest`)."""
        latest = [tool.latest() for tool in self._by_name.values()]
        return ToolSet(latest[: self._told], latest[self._told :])
