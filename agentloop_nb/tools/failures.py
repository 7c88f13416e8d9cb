"""A tool's exception, told twice: briefly to the model, with the user's own line to a person.

Frames of this package and of the machinery below a tool (asyncio, threading) say nothing to
either and are left out.
"""

from __future__ import annotations

import asyncio
import linecache
import os
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from agentloop_nb.codec import clean_text
from agentloop_nb.tools.places import place

_MACHINERY = (
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
    os.path.dirname(os.path.abspath(asyncio.__file__)) + os.sep,
    os.path.abspath(threading.__file__),
)
_INSTALLED = tuple(
    {path + os.sep for key, path in sysconfig.get_paths().items() if key.endswith("lib")}
)
_MOST_FRAMES = 20
_MOST_CAUSES = 5


@dataclass(frozen=True)
class Frame:
    """One line of a traceback. `mine` is False for code of the standard library or a package."""

    filename: str
    line: int
    function: str
    source: str

    @property
    def mine(self) -> bool:
        return not self.filename.startswith((*_INSTALLED, "<frozen "))

    def __str__(self) -> str:
        where = f"{place(self.filename, self.line)}, in {self.function}"
        return f"{where}\n    {self.source}" if self.source else where


def told_to_model(error: BaseException) -> str:
    """`ValueError: the message`, with what caused it. Never empty, never raises."""
    lines = [_line(error), *_notes(error), *_members(error)]
    lines += [f"caused by {_line(cause)}" for cause in _causes(error)]
    return clean_text("\n".join(lines))


def told_to_person(error: BaseException) -> str:
    """The user's own line first, then the error, then the way there. Never empty, never raises."""
    frames = list(_frames(error.__traceback__))
    own = next((frame for frame in reversed(frames) if frame.mine), None)
    parts = [] if own is None else [str(own)]
    parts += ["\n".join([_line(error), *_notes(error), *_members(error)])]
    if len(frames) > 1:
        parts.append("\n".join(["The way there:", *_cut([str(frame) for frame in frames])]))
    for cause in _causes(error):
        at = [str(frame) for frame in _frames(cause.__traceback__)][-1:]
        parts.append("\n".join([f"Caused by {_line(cause)}", *at]))
    return clean_text("\n\n".join(parts) if len(parts) > 2 else "\n".join(parts))


def _line(error: BaseException) -> str:
    name = type(error).__qualname__
    try:
        message = str(error).strip()
    except Exception as inner:
        return f"{name} (its message cannot be shown: {type(inner).__name__})"
    if isinstance(error, SyntaxError):
        message = traceback.format_exception_only(error)[-1].partition(": ")[2].strip()
    return f"{name}: {message}" if message else f"{name} (without a message)"


def _notes(error: BaseException) -> list[str]:
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)]


def _members(error: BaseException) -> list[str]:
    if not isinstance(error, BaseExceptionGroup):
        return []
    return [f"- {_line(member)}" for member in error.exceptions[:_MOST_CAUSES]]


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    for _ in range(_MOST_CAUSES):
        hidden = None if error.__suppress_context__ else error.__context__
        cause = error.__cause__ or hidden
        if cause is None or id(cause) in seen:
            return
        seen.add(id(cause))
        yield cause
        error = cause


def _frames(tb: TracebackType | None) -> Iterator[Frame]:
    for frame, line in traceback.walk_tb(tb):
        filename = frame.f_code.co_filename
        if not filename.startswith(_MACHINERY):
            source = linecache.getline(filename, line, frame.f_globals).strip()
            yield Frame(filename, line, frame.f_code.co_name, source)


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= _MOST_FRAMES:
        return lines
    half = _MOST_FRAMES // 2
    return [*lines[:half], f"… {len(lines) - 2 * half} more …", *lines[-half:]]
