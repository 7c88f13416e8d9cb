"""The `tool` decorator and the `Tool` it makes: a function with what a model and the engine need.

A Tool stays callable with its own signature and holds its function itself. Nothing is looked up
by name in a registry, so a cell that is edited and run again makes a new Tool with the new code.
"""

from __future__ import annotations

import inspect
import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Literal, ParamSpec, TypeVar, cast, overload

from agentloop_nb.errors import ToolDefinitionError
from agentloop_nb.models.base import ToolSpec
from agentloop_nb.tools.places import place_of
from agentloop_nb.tools.schema import Parameters, read_parameters

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
Q = ParamSpec("Q")
S = TypeVar("S")

Approval = Literal["never", "required"] | Callable[..., bool | str]
"""Whether a person has to approve a call. A function gets the coerced arguments it names, by
keyword; `False` or "never" lets the call run, anything else, an exception included, asks."""

Concurrency = str
""""parallel" (with any other call), "exclusive" (alone), or the name of a group whose calls run
one after the other."""

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What Anthropic's and OpenAI's APIs both take as a tool's name."""


@dataclass(frozen=True, eq=False, repr=False)
class Tool(Generic[P, R_co]):
    """A function that a model may call. Made by `tool`; calling it calls the function.

    `timeout_s` is in seconds, None for the agent's own limit. `decorated` is False for a plain
    function that was handed to an agent. `unbound` marks a method that has no object yet.
    """

    function: Callable[P, R_co]
    name: str
    description: str
    parameters: Parameters
    approval: Approval = "never"
    concurrency: Concurrency = "parallel"
    timeout_s: float | None = None
    return_direct: bool = False
    repeat_ok: bool = False
    decorated: bool = True
    unbound: bool = False

    def __post_init__(self) -> None:
        # What `functools.wraps` does, so that help(), `?` and inspect show the function.
        for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
            value = getattr(self.function, attribute, None)
            object.__setattr__(self, attribute, value)
        object.__setattr__(self, "__wrapped__", self.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R_co]:
        """A tool in a class body binds like any method."""
        if instance is None or not self.unbound:
            return self
        return replace(self, function=types.MethodType(self.function, instance), unbound=False)

    def __repr__(self) -> str:
        return f"<Tool {self.name} ({self.place or 'no source'})>"

    @property
    def is_async(self) -> bool:
        """Whether calling it makes a coroutine, which then runs on the loop."""
        return inspect.iscoroutinefunction(self.function)

    @cached_property
    def place(self) -> str:
        """Where it is written, as `Cell In[3], line 1` or `tools.py, line 12`."""
        return place_of(self.function)

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, self.parameters.schema)

    def asks(self, arguments: Mapping[str, object]) -> bool:
        """Whether this call, with these coerced arguments, needs a person's approval."""
        if not callable(self.approval):
            return self.approval != "never"
        taken = _accepted(self.approval)
        try:
            verdict: object = self.approval(
                **{k: v for k, v in arguments.items() if taken is None or k in taken}
            )
        except (Exception, SystemExit):
            return True
        return not (verdict is False or verdict == "never")

    def latest(self) -> Tool[..., object]:
        """The tool of the same name in the same module now, or this one.

        A cell that defines a tool may have been edited and run again since an agent got it. Only
        a module's own top-level name counts, and only one of the same kind: a Tool replaces a
        decorated function, a function replaces a plain one.
        """
        scope = getattr(inspect.unwrap(self.function), "__globals__", {})
        key = getattr(self.function, "__qualname__", "")
        found: object = scope.get(key)
        if self.decorated:
            same = isinstance(found, Tool) and found.function.__qualname__ == key
            return cast(Tool[..., object], found) if same else self
        if not inspect.isfunction(found) or found is self.function or found.__qualname__ != key:
            return self
        return as_tool(found)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = "never",
    concurrency: Concurrency = "parallel",
    timeout_s: float | None = None,
    return_direct: bool = False,
    repeat_ok: bool = False,
) -> Callable[[Callable[Q, S]], Tool[Q, S]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = "never",
    concurrency: Concurrency = "parallel",
    timeout_s: float | None = None,
    return_direct: bool = False,
    repeat_ok: bool = False,
) -> Tool[P, R] | Callable[[Callable[Q, S]], Tool[Q, S]]:
    """Make a function a tool: `@tool`, or `@tool(approval="required")`.

    The name, the description and the arguments' descriptions come from the function (its name,
    its docstring, its annotations) unless given. `return_direct` ends the run with this tool's
    result; `repeat_ok` exempts it from the guard against identical calls. Raises
    ToolDefinitionError where the function cannot be described to a model.
    """

    def make(plain: Callable[Q, S]) -> Tool[Q, S]:
        return _make(
            plain,
            name=name,
            description=description,
            approval=approval,
            concurrency=concurrency,
            timeout_s=timeout_s,
            return_direct=return_direct,
            repeat_ok=repeat_ok,
        )

    return (
        make if function is None else cast(Callable[[Callable[P, R]], Tool[P, R]], make)(function)
    )


def as_tool(function: object) -> Tool[..., object]:
    """A Tool as it is, a plain function or bound method made into one with all defaults."""
    if isinstance(function, types.MethodType) and isinstance(function.__func__, Tool):
        function = function.__func__.__get__(function.__self__)
    if not isinstance(function, Tool):
        function = replace(_make(cast(Callable[..., object], function)), decorated=False)
    if function.unbound:
        raise ToolDefinitionError(
            f"The tool {function.name!r} is a method without its object. Hand over the method of "
            f"an instance, as in `tools=[thing.{function.name}]`."
        )
    return function


def _make(
    function: Callable[P, R],
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = "never",
    concurrency: Concurrency = "parallel",
    timeout_s: float | None = None,
    return_direct: bool = False,
    repeat_ok: bool = False,
) -> Tool[P, R]:
    plain = _function(function)
    called = _name(name, plain)
    unbound = _is_method(plain)
    parameters = read_parameters(plain, called, skip_first=unbound)
    _check_options(called, concurrency, timeout_s)
    _check_approval(called, approval, parameters)
    return Tool(
        plain,
        called,
        parameters.description if description is None else inspect.cleandoc(description),
        parameters,
        approval,
        concurrency,
        timeout_s,
        return_direct,
        repeat_ok,
        unbound=unbound,
    )


def _function(given: Callable[P, R]) -> Callable[P, R]:
    """`given` where it is a function or a bound method; a staticmethod is opened."""
    if isinstance(given, staticmethod):
        given = given.__func__
    if isinstance(given, Tool):
        raise ToolDefinitionError(f"{given.name!r} is a tool already; use @tool once.")
    if not inspect.isroutine(given):
        raise ToolDefinitionError(
            f"A tool is made of a function, not of {_kind(given)}. Write `@tool` above a `def` "
            'with annotated parameters, and options by keyword: `@tool(name="…")`.'
        )
    target = inspect.unwrap(given)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise ToolDefinitionError(
            f"The tool {getattr(given, '__name__', '')!r} yields, and a tool gives one result. "
            "Return a list or a text instead, and show how far it is with ToolContext.progress."
        )
    return given


def _kind(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else f"{type(given).__name__}"


def _name(name: str | None, function: Callable[..., object]) -> str:
    called = getattr(function, "__name__", "") if name is None else name
    if not isinstance(called, str) or NAME.fullmatch(called) is None:
        raise ToolDefinitionError(
            f"{called!r} cannot be a tool's name: providers take 1 to 64 letters, digits, "
            '"_" and "-". Give one with `@tool(name="…")`.'
        )
    return called


def _is_method(function: Callable[..., object]) -> bool:
    """A `def` in a class body whose first parameter is a bare `self` or `cls`."""
    in_class = "." in function.__qualname__.rpartition("<locals>")[2].lstrip(".")
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or not in_class or not inspect.isfunction(function):
        return False
    return first.annotation is inspect.Parameter.empty and first.name in ("self", "cls")


def _check_options(name: str, concurrency: object, timeout_s: float | None) -> None:
    if not isinstance(concurrency, str) or not concurrency.strip():
        raise ToolDefinitionError(
            f'The tool {name!r}: concurrency is "parallel", "exclusive" or a group\'s name, '
            f"not {concurrency!r}."
        )
    if timeout_s is None:
        return
    if type(timeout_s) not in (int, float) or not math.isfinite(timeout_s) or timeout_s <= 0:
        raise ToolDefinitionError(
            f"The tool {name!r}: timeout_s is a number of seconds above 0, or None for the "
            f"agent's own limit, not {timeout_s!r}."
        )


def _check_approval(name: str, approval: object, parameters: Parameters) -> None:
    if not callable(approval):
        if approval not in ("never", "required"):
            raise ToolDefinitionError(
                f'The tool {name!r}: approval is "never", "required" or a function of the '
                f"arguments, not {approval!r}."
            )
        return
    if inspect.iscoroutinefunction(approval):
        raise ToolDefinitionError(
            f"The tool {name!r}: its approval function is async, and has to be a plain function "
            "that returns True (ask) or False (run)."
        )
    foreign = [key for key in _needed(approval) if key not in parameters.by_name]
    if foreign:
        raise ToolDefinitionError(
            f"The tool {name!r}: its approval function wants {', '.join(foreign)}, which the tool "
            f"has not. It gets these, by keyword: {', '.join(parameters.by_name) or 'none'}."
        )


def _accepted(function: Callable[..., object]) -> frozenset[str] | None:
    """The keywords a function takes; None for all of them, or where it cannot be told."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in listed):
        return None
    return frozenset(p.name for p in listed if p.kind in _BY_KEYWORD)


def _needed(function: Callable[..., object]) -> list[str]:
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    bare = inspect.Parameter.empty
    return [p.name for p in listed if p.default is bare and p.kind not in _VARIADIC]


_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
