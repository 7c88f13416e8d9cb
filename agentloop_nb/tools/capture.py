"""What a tool prints goes to its call, not to whatever cell happens to run.

While tools run, stand-ins sit in `sys.stdout`, `sys.stderr`, `sys.stdin`, `builtins.input` and
`getpass.getpass`. They look at a context variable: inside a tool they serve its call, anywhere
else they pass everything on to what they stand in for. The last tool to end takes them away again;
one that somebody kept (a `redirect_stdout` that outlives the tool) goes on passing on.
"""

from __future__ import annotations

import builtins
import getpass
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NoReturn, Protocol

OutputStream = Literal["stdout", "stderr", "progress"]

NO_INPUT = (
    "A tool cannot read input(): it runs where no one types. Take what it needs as an argument, "
    'or have the call approved by a person with @tool(approval="required").'
)


class InputRefused(RuntimeError):
    """A tool asked for typed input."""


class Sink(Protocol):
    """Where a call's output goes. `open` is False once its call is over."""

    @property
    def open(self) -> bool: ...

    def write(self, stream: OutputStream, text: str) -> None: ...


SINK: ContextVar[Sink | None] = ContextVar("agentloop_sink", default=None)


def _sink() -> Sink | None:
    sink = SINK.get()
    return sink if sink is not None and sink.open else None


class _StandIn:
    """Passes on every attribute that it does not have itself."""

    def __init__(self, original: object) -> None:
        self.original = original

    def __getattr__(self, name: str) -> object:
        return getattr(self.original, name)


class _Output(_StandIn):
    stream: OutputStream

    def write(self, text: str) -> int:
        sink = _sink()
        if sink is not None and isinstance(text, str):
            sink.write(self.stream, text)
            return len(text)
        write: Callable[[str], int] | None = getattr(self.original, "write", None)
        return len(text) if write is None else write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if _sink() is None and self.original is not None:
            getattr(self.original, "flush", lambda: None)()


class _Stdout(_Output):
    stream = "stdout"


class _Stderr(_Output):
    stream = "stderr"


def _refuse() -> NoReturn:
    raise InputRefused(NO_INPUT)


class _Stdin(_StandIn):
    def read(self, size: int = -1) -> str:
        return self._pass("read", size)

    def readline(self, size: int = -1) -> str:
        return self._pass("readline", size)

    def readlines(self, hint: int = -1) -> list[str]:
        return list(self) if _sink() is None else _refuse()

    def __iter__(self) -> Iterator[str]:
        return iter(self.readline, "")

    def _pass(self, method: str, size: int) -> str:
        if _sink() is not None:
            _refuse()
        read: Callable[[int], str] = getattr(self.original, method)
        return read(size)


class _Input(_StandIn):
    def __call__(self, *args: object, **kwargs: object) -> str:
        if _sink() is not None:
            _refuse()
        ask: Callable[..., str] = vars(self)["original"]
        return ask(*args, **kwargs)


_places: list[tuple[object, str, type[_StandIn]]] = [
    (sys, "stdout", _Stdout),
    (sys, "stderr", _Stderr),
    (sys, "stdin", _Stdin),
    (builtins, "input", _Input),
    (getpass, "getpass", _Input),
]
_lock = threading.Lock()
_users = 0


def refuse_input_by(owner: object, name: str) -> None:
    """Also refuse what tools ask by this attribute of an object. A notebook's kernel puts its own
    functions into `builtins` for each cell, over the stand-ins of a tool that runs meanwhile."""
    _places.append((owner, name, _Input))


@contextmanager
def captured() -> Iterator[None]:
    """The stand-ins are in place inside, for any number of tools on any thread."""
    _take(1)
    try:
        yield
    finally:
        _take(-1)


def _take(step: int) -> None:
    global _users
    with _lock:
        _users += step
        for owner, name, stand_in in _places:
            now = getattr(owner, name)
            if step > 0 and not isinstance(now, _StandIn):
                setattr(owner, name, stand_in(now))
            elif _users == 0 and isinstance(now, _StandIn):
                # Whoever replaced ours meanwhile keeps theirs.
                setattr(owner, name, now.original)
