"""Where a notebook's sessions lie: `NAME.agentloop` beside `NAME.ipynb`. Local hints only."""

from __future__ import annotations

import os
from pathlib import Path


def notebook_path(namespace: dict[str, object]) -> Path | None:
    """The running notebook's file, or None where no hint names one that is there.

    `namespace` is the user's. The hints: what VS Code puts there, and the name that Jupyter's
    server gives the kernel's session.
    """
    hints = (namespace.get("__vsc_ipynb_file__"), os.environ.get("JPY_SESSION_NAME"))
    for hint in hints:
        if isinstance(hint, str) and hint.endswith(".ipynb"):
            # The server's name may be relative to its root; the kernel runs in the notebook's
            # own folder, so the last part is enough to find it.
            for path in (Path(hint), Path.cwd() / Path(hint).name):
                if path.is_file():
                    return path.resolve()
    return None


def sessions_folder(notebook: Path) -> Path:
    """`analysis.agentloop` for `analysis.ipynb`."""
    return notebook.with_suffix(".agentloop")
