"""Where code lives, in words a person understands: a notebook cell or a file, and the line."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable


def place(filename: str, line: int) -> str:
    """`Cell In[3], line 4` for a notebook's cell, `tools.py, line 4` for a file."""
    return f"{_cell(filename) or _short(filename)}, line {line}"


def place_of(function: Callable[..., object]) -> str:
    """Where `function` is written, or "" where that cannot be told (one made in C, say)."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else place(code.co_filename, code.co_firstlineno)


def _short(filename: str) -> str:
    """The path as seen from the working directory where it lies below it."""
    if filename.startswith("<"):
        return filename
    below = os.path.join(os.getcwd(), "")
    return filename.removeprefix(below)


def _cell(filename: str) -> str:
    """IPython's own name for a cell. Asked only where IPython is loaded already."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = None if name_of is None else name_of(filename)
    return " ".join(found) if found else ""
