"""Where the built front end lies, and what to do when it does not."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent / "static"
BUILD_COMMAND = "uv sync --reinstall-package agentloop-nb"


def widget_js() -> Path:
    """The widget's script, an ES module. FileNotFoundError if the front end was never built."""
    return _built("widget.js")


def widget_css() -> Path:
    """The widget's style sheet. FileNotFoundError if the front end was never built."""
    return _built("widget.css")


def _built(name: str) -> Path:
    path = STATIC / name
    if not path.is_file():
        raise FileNotFoundError(
            f"The widget's file {name} is not built (looked in {STATIC}). "
            f"In a checkout, run `{BUILD_COMMAND}`; elsewhere, install agentloop-nb again."
        )
    return path
