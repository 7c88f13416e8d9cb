"""500 seeds of a wire that drops, repeats, delays and reorders, both ways, between real ends.

Whatever it does, each page ends with the text, the timeline and the decisions of the log, and every
command acts once. AGENTLOOP_NB_SEED plays one seed alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentloop_nb import log as log_module
from agentloop_nb import ports
from agentloop_nb.inbox import Inbox
from agentloop_nb.notebook import bridge as bridge_module
from agentloop_nb.notebook.bridge import Bridge
from hatch_build import install_packages, node_commands
from tests.hostile.clock import Clock, MadeUpTime, run
from tests.hostile.story import Story
from tests.hostile.wire import JS, Pages

SEEDS = 500
PARTS = 10
"""Seeds are played in so many tests, so that a failure says roughly where."""


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    command, npm, env = node_commands()
    install_packages(JS, npm, env)
    opened = Pages(command, env)
    yield opened
    opened.close()


def play(
    seed: int,
    pages: Pages,
    folder: Path,
    patch: pytest.MonkeyPatch,
    bridge: type[Bridge] = Bridge,
    **options: Any,
) -> list[str]:
    """Plays a seed to its end; returns what went wrong."""
    loop = MadeUpTime()

    async def main() -> list[str]:
        story = Story(seed, pages, folder, bridge, **options)
        for module in (log_module, bridge_module):
            patch.setattr(module, "time", Clock(loop))
        patch.setattr(ports, "_finders", [lambda: story])
        patch.setattr(Inbox, "post", story.watch(Inbox.post))
        await story.play()
        return story.wrongs()

    try:
        return run(loop, main())
    finally:
        patch.undo()


def chosen(part: int) -> range:
    if seed := os.environ.get("AGENTLOOP_NB_SEED"):
        return range(int(seed), int(seed) + 1) if part == 0 else range(0)
    return range(part * SEEDS // PARTS, (part + 1) * SEEDS // PARTS)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_hostile_wire_changes_nothing_of_what_pages_show_and_what_commands_do(
    part: int, pages: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in chosen(part):
        assert play(seed, pages, tmp_path, monkeypatch) == [], f"AGENTLOOP_NB_SEED={seed}"


class Forgetful(Bridge):
    """Acts on a command each time it comes."""

    def _command(self, client: str, content: dict[str, Any]) -> None:
        self._done.clear()
        super()._command(client, content)


TRIED = 20


def test_the_check_notices_a_bridge_that_acts_twice(
    pages: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [w for n in range(TRIED) for w in play(n, pages, tmp_path, monkeypatch, Forgetful)]
    assert any("was posted 2 times" in w or "took effect 2 times" in w for w in wrong), wrong


def test_the_check_notices_a_bridge_that_sends_nothing_again(
    pages: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = play(1, pages, tmp_path, monkeypatch, replays=False)
    assert any("shows something else" in w for w in wrong), wrong
