"""The two ends and what lies between: the Node process of the pages, and the wire that betrays."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

JS = Path(__file__).parents[2] / "js"
SCRIPT = Path(__file__).parent / "page.mjs"
DROPPED, TWICE, LATE = 0.2, 0.2, 0.15
"""The share of messages, each way, that are lost, that come twice, and that come seconds late."""
LATE_S = 5.0
DARK = 0.02
"""How likely a message begins a time in which nothing gets through."""
DARK_S = 12.0

Json = dict[str, Any]


class Pages:
    """The pages of one seed after another, all in one Node process."""

    def __init__(self, node: Sequence[str], env: dict[str, str]) -> None:
        self.sent: Callable[[str, Json], None] = lambda page, content: None
        self._process = subprocess.Popen(
            [*node, str(SCRIPT)],
            cwd=JS,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready\n"

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def __call__(self, op: str, **what: Any) -> Any:
        """Do something there; what the pages sent meanwhile goes to `sent`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, **what}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._line())
        for page, content in answer["sent"]:
            self.sent(page, content)
        return answer["said"]

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "Node ended."
        return line


class Wire:
    """Carries messages one way, and is not to be trusted."""

    def __init__(self, dice: random.Random, loop: asyncio.AbstractEventLoop) -> None:
        self._dice = dice
        self._loop = loop
        self._dark_until = 0.0

    def carry(self, deliver: Callable[[], None]) -> None:
        dice, now = self._dice, self._loop.time()
        if dice.random() < DARK:
            self._dark_until = now + dice.uniform(0, DARK_S)
        if now < self._dark_until or dice.random() < DROPPED:
            return
        for _ in range(2 if dice.random() < TWICE else 1):
            late = LATE_S if dice.random() < LATE else 0.05
            self._loop.call_later(dice.uniform(0, late), deliver)
