"""Environments with the ipykernels that people have, each made once by uv and kept.

`AGENTLOOP_NB_KERNELS` says which of them the tests of kernels use: `all`, or versions with spaces
between; `installed` is the one in this environment. They lie in `.kernels/` of the checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
INSTALLED = "installed"
ALL = ("6.29.5", "6.30.1", "6.31.0", "7.0.1", "7.1.0", "7.2.0", "7.3.0", INSTALLED)
IN_CI = (INSTALLED, "6.29.5", "7.1.0")
"""The newest; the oldest we promise; and one on which stock ipykernel can lose a queued cell."""

_WHAT = ("anthropic", "anywidget", "ipywidgets", "pydantic", "typing_extensions", "nest-asyncio")
"""What the kernel's side of the package imports in these tests; the rest is the server's."""

MAKE_S = 300


def chosen() -> tuple[str, ...]:
    asked = os.environ.get("AGENTLOOP_NB_KERNELS", "").split()
    return ALL if asked == ["all"] else tuple(asked) or IN_CI


def python_of(version: str) -> Path:
    """The interpreter of an environment with this ipykernel. Skips where it cannot be made, but
    fails under `CI=true`."""
    if version == INSTALLED:
        return Path(sys.executable)
    place = CHECKOUT / ".kernels" / version
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    made = place / "made"
    if not made.exists() or made.read_text() != " ".join(_WHAT):
        try:
            _make(place, python, version)
        except (OSError, subprocess.SubprocessError) as error:
            why = f"ipykernel {version} cannot be installed: {error}"
            if os.environ.get("CI") == "true":
                pytest.fail(why)
            pytest.skip(why)
        made.write_text(" ".join(_WHAT))
    return python


def _make(place: Path, python: Path, version: str) -> None:
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        raise OSError("there is no uv on PATH")
    _call(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place))
    what = (f"ipykernel=={version}", *_WHAT)
    _call(uv, "pip", "install", "--quiet", "--python", str(python), *what)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, timeout=MAKE_S, stdin=subprocess.DEVNULL)
