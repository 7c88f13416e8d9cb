"""The command `agentloop-nb`. `demo` opens the shipped notebook, or checks that it works."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

NOTEBOOK = "quickstart.ipynb"
WORK_FOLDER = "agentloop-demo"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. SystemExit (2) on arguments it does not know."""
    options = _parser().parse_args(argv)
    return _check(options.folder) if options.check else _demo(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentloop-nb", description="Run and watch an agent in a Jupyter notebook."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="open the quickstart notebook in JupyterLab (no API key needed)",
        description="Copies the quickstart notebook into a work folder and opens it in JupyterLab.",
    )
    demo.add_argument(
        "--check",
        action="store_true",
        help="run the notebook without a browser, print what happened, fail unless its tool ran",
    )
    demo.add_argument("--no-browser", action="store_true", help="serve it, open no browser")
    demo.add_argument("--port", type=int, metavar="N", help="port (else a free one near 8888)")
    demo.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help=f"work folder (./{WORK_FOLDER}; with --check a temporary one)",
    )
    return parser


def shipped_notebook() -> Path:
    """The quickstart notebook of this installation. FileNotFoundError if it is not there."""
    package = Path(__file__).parent
    # The wheel carries the notebooks inside the package; in a checkout they lie beside it.
    places = (package / "notebooks" / NOTEBOOK, package.parent / "notebooks" / NOTEBOOK)
    for place in places:
        if place.is_file():
            return place
    raise FileNotFoundError(
        f"{NOTEBOOK} is not part of this installation (looked in "
        f"{' and '.join(str(place.parent) for place in places)}). Install agentloop-nb again."
    )


def copy_notebook(folder: Path) -> Path:
    """Copy the quickstart into `folder`, made if need be, and return the copy's path.

    A copy that is already there stays as it is: it may hold the user's own edits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / NOTEBOOK
    if target.exists():
        print(f"Keeping your copy of {target}. Delete it to start from a fresh one.")
    else:
        shutil.copyfile(shipped_notebook(), target)
        print(f"Copied the quickstart to {target}.")
    return target


def lab_command(notebook: Path, *, port: int | None, browser: bool) -> list[str]:
    """The command that opens `notebook` in the JupyterLab of this environment."""
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={notebook.parent}",
        # Not the file as an argument: the address that is printed would not lead to it.
        f"--LabApp.default_url=/lab/tree/{quote(notebook.name)}",
    ]
    if port is not None:
        command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # in a container there often is no other user
    return command


def lab_environment() -> dict[str, str]:
    """The variables to start JupyterLab with, so that its kernel is that of this environment.

    A kernel "python3" may be registered for the whole user, with another Python behind it.
    """
    return {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"}


def _demo(options: argparse.Namespace) -> int:
    notebook = copy_notebook((options.folder or Path(WORK_FOLDER)).resolve())
    command = lab_command(notebook, port=options.port, browser=not options.no_browser)
    print("Opening JupyterLab. Ctrl-C twice ends it.", flush=True)
    if os.name == "posix":
        os.execve(command[0], command, lab_environment())  # signals reach the server itself
    return subprocess.call(command, env=lab_environment())


def _check(folder: Path | None) -> int:
    from agentloop_nb.demo_check import run_check

    if folder is not None:
        return run_check(copy_notebook(folder.resolve()))
    with tempfile.TemporaryDirectory(prefix=WORK_FOLDER) as temporary:
        return run_check(copy_notebook(Path(temporary).resolve()))


if __name__ == "__main__":
    sys.exit(main())
