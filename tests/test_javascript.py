"""The front end's own checks, run from here so that one command runs every test there is."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from hatch_build import HASH_FILE, install_packages, node_commands, source_hash

ROOT = Path(__file__).parent.parent
JS = ROOT / "js"
STATIC = ROOT / "agentloop_nb" / "notebook" / "static"
TIMEOUT_S = 300


@dataclass(frozen=True)
class Node:
    """Node of the Python wheel, with the front end's packages installed."""

    command: list[str]
    env: dict[str, str]

    def run(self, *arguments: str) -> str:
        """What `node arguments…` printed, in js/; the test fails with it on another exit than 0."""
        done = subprocess.run(
            [*self.command, *arguments],
            cwd=JS,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"node {' '.join(arguments)} failed:\n{said}"
        return said


@pytest.fixture(scope="module")
def node() -> Node:
    command, npm, env = node_commands()
    install_packages(JS, npm, env)
    return Node(command, {**env, "NO_COLOR": "1"})


def test_typescript_finds_no_error(node: Node) -> None:
    node.run("node_modules/typescript/bin/tsc", "--noEmit")


def test_biome_finds_nothing_to_change(node: Node) -> None:
    node.run("node_modules/@biomejs/biome/bin/biome", "check", "--error-on-warnings", ".")


def test_the_front_ends_unit_tests_pass(node: Node) -> None:
    said = node.run("node_modules/vitest/vitest.mjs", "run")
    assert re.search(r"Tests\s+\d+ passed", said), said
    assert not re.search(r"\b(skipped|todo)\b", said), said


def test_the_widget_is_one_module_under_its_limit(node: Node, tmp_path: Path) -> None:
    node.run("build.mjs", str(tmp_path))
    script = (tmp_path / "widget.js").read_text(encoding="utf-8")
    assert len(script.encode()) <= 150_000
    assert re.search(r"export\s*\{[^}]*\bas default\b", script), "no default export"
    assert not re.search(r"\bimport\s*[\"'{(]", script), "the widget would load another module"
    assert (tmp_path / "widget.css").stat().st_size > 0


def test_a_bundle_over_the_limit_is_refused_and_not_written(node: Node, tmp_path: Path) -> None:
    """The limit is the build's own, so it also holds where nobody runs the tests."""
    build = (JS / "build.mjs").read_text(encoding="utf-8")
    small = JS / "build-with-a-small-limit.mjs"
    small.write_text(build.replace("150_000", "100"), encoding="utf-8")
    try:
        with pytest.raises(AssertionError, match="Take something out; nothing was written"):
            node.run(small.name, str(tmp_path / "static"))
    finally:
        small.unlink()
    assert not (tmp_path / "static").exists()


def test_the_installed_widget_was_built_from_these_sources() -> None:
    built = (STATIC / HASH_FILE).read_text(encoding="utf-8").strip()
    assert built == source_hash(JS), (
        "The built front end is older than js/. Run: uv sync --reinstall-package agentloop-nb"
    )
