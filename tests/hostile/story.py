"""One seed's story: an agent that streams and asks, one or two pages, and people who click.

The agent, its session and the bridge are the real ones; so are the pages' channel and store. What
the people did is written down, each act with a name of its own, to be counted afterwards.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentloop_nb import Agent, Call, Limits, OfflineModel, Pause, Reply, tool
from agentloop_nb.codec import page_json
from agentloop_nb.events import AnswerEvent, Say, Warning
from agentloop_nb.inbox import Answer, Inbox
from agentloop_nb.models.base import Request
from agentloop_nb.notebook.bridge import Bridge
from agentloop_nb.notebook.packing import pack
from agentloop_nb.ports import Shown
from agentloop_nb.viewstate import fold, initial
from tests.hostile.wire import Json, Pages, Wire

BEAT_S = 0.25
LOOK_S = 1.0
PATIENCE_S = 900.0
"""After the last event the pages have so long, in made-up seconds, to become right."""
TURNS = 3
PEAR = "\U0001f350"
WORDS = (
    "plum ",
    "**pear** ",
    "\n\n- quince",
    "`fig`",
    "\n# Medlar\n",
    PEAR,
    "```\ncode\n```\n",
)


class Story:
    """See the module. `bridge` is the class under test."""

    def __init__(
        self, seed: int, pages: Pages, folder: Path, bridge: type[Bridge] = Bridge, **options: Any
    ) -> None:
        self.dice = random.Random(seed)
        self.loop = asyncio.get_running_loop()
        self.ran: Counter[str] = Counter()
        self.posted: Counter[str] = Counter()
        self.acts: dict[str, tuple[str, str]] = {}
        """Name of an act → (page, key of the command in the page's store)."""
        self.runs: list[Shown] = []
        self._pages = pages
        self._folder = folder
        self._make_bridge = lambda run: bridge(
            run, self._to_pages, epoch=f"e{seed}", on_shown=self.runs.append, **options
        )
        self._down = Wire(self.dice, self.loop)
        self._up = Wire(self.dice, self.loop)
        self._names = ["one", "two"][: self.dice.choice((1, 2))]
        self._stops = self.dice.random() < 0.15
        self._calls = 0
        self._folded: tuple[int, Json] = (0, {})
        self._bridge: Bridge | None = None

    # -- the agent

    def agent(self) -> Agent:
        tools = [self._tool("free", "never"), self._tool("guarded", "required")]
        limits = Limits(approval_timeout_s=self.dice.choice((8.0, 60.0)), max_turns=6)
        model = OfflineModel(self._reply, pause_s=0.02)
        return Agent(model, tools=tools, limits=limits, snapshots="manual", folder=self._folder)

    def _tool(self, name: str, approval: Any) -> Any:
        async def act(key: str) -> str:
            """Do it, once."""
            self.ran[key] += 1
            print("doing", key)
            await asyncio.sleep(self.dice.uniform(0, 2))
            return f"did {key}"

        act.__name__ = name
        return tool(approval=approval)(act)

    def _reply(self, request: Request) -> Reply:
        dice = self.dice
        text = "".join(dice.choices(WORDS, k=dice.randint(1, 60)))
        thinking = "".join(dice.choices(WORDS, k=dice.randint(0, 40)))
        rounds = sum(message.role == "assistant" for message in request.messages)
        if rounds % 4 == 3 or dice.random() < 0.2:
            return Reply(text, thinking)
        calls = []
        for _ in range(dice.randint(1, 3)):
            self._calls += 1
            calls.append(Call(dice.choice(("free", "guarded")), key=f"k{self._calls}"))
        return Reply([text, Pause(dice.uniform(0, 3))], thinking, calls)

    # -- `ports.Host`, as far as a run needs one

    def show(self, run: Shown) -> Bridge:
        self.runs.append(run)
        self._bridge = self._make_bridge(run)
        return self._bridge

    def folder(self) -> Path:
        return self._folder

    # -- the way

    def _to_pages(self, message: Json) -> None:
        content = pack(message)
        for name in self._names:
            self._down.carry(lambda name=name: self._pages("hear", page=name, content=content))

    def _to_kernel(self, page: str, content: Json) -> None:
        bridge = self._bridge
        assert bridge is not None
        self._up.carry(lambda: bridge.receive(content))

    # -- what happens

    async def play(self) -> None:
        """From the first message until the pages show what the log holds; see `differences`."""
        self._pages("reset")
        self._pages.sent = self._to_kernel
        run = self.agent().start("Begin.")
        for name in self._names:
            self._pages("open", page=name)
        quiet = 0.0
        while quiet < PATIENCE_S:
            live = not all(each.log.closed for each in self.runs)
            pause = BEAT_S if live else LOOK_S
            await asyncio.sleep(pause)
            self._pages("turn", to=self.loop.time() * 1000)
            if live:
                quiet = 0.0
                self._people()
                continue
            quiet += pause
            if not self.differences():
                if len(self.runs) >= TURNS or not self._follow_up():
                    break
                quiet = 0.0
        assert run.done

    def _people(self) -> None:
        for name in self._names:
            if self.dice.random() < 0.1:
                self._decide(name, self._pages("show", page=name)["state"])
            if self.dice.random() < 0.01:
                self._say(name)
            if self._stops and self.dice.random() < 0.01:
                self._pages("do", page=name, method="stop", args=[])
                self.acts.setdefault("stop " + name, (name, "stop"))

    def _decide(self, page: str, state: Json) -> None:
        turn = state["turns"][-1] if state["turns"] else None
        question = turn["question"] if turn else None
        if turn is None or question is None:
            return
        items = [i["call_id"] for i in question["items"] if i["call_id"] not in question["decided"]]
        if not items:
            return
        call_id = self.dice.choice(items)
        name = f"act {len(self.acts)}"
        decision = {"call_id": call_id, "approved": self.dice.random() < 0.7, "reason": name}
        args = [turn["run_id"], question["id"], [decision]]
        self._pages("do", page=page, method="answer", args=args)
        self.acts[name] = (page, f"{turn['run_id']} {call_id}")

    def _say(self, page: str) -> None:
        name = f"act {len(self.acts)}"
        self._pages("do", page=page, method="say", args=[name])
        self.acts[name] = (page, "say")

    def _follow_up(self) -> bool:
        if self.dice.random() < 0.6:
            return False
        self._say(self.dice.choice(self._names))
        return True

    # -- what came of it

    def expected(self) -> Json:
        """What a page has to show: the fold of the logs."""
        length = sum(len(run.log) for run in self.runs)
        if self._folded[0] < length:
            state = initial()
            for run in self.runs:
                for event in run.log.since(0):
                    fold(state, page_json(event, whole=False))
            self._folded = length, state
        return self._folded[1]

    def differences(self) -> list[str]:
        """Why it is not over yet: pages that show something else, commands that hang."""
        expected = self.expected()
        found = []
        for name in self._names:
            page = self._pages("show", page=name)
            if page["state"] != expected:
                found.append(f"page {name} shows something else")
            if any(sent["status"] == "sent" for sent in page["commands"].values()):
                found.append(f"page {name} still waits for a reply")
        return found

    def wrongs(self) -> list[str]:
        """What must not be, whatever the wire did."""
        wrong = self.differences()
        wrong += [f"{key} ran {times} times" for key, times in self.ran.items() if times > 1]
        wrong += [f"{act} was posted {n} times" for act, n in self.posted.items() if n > 1]
        taken = self._taken()
        wrong += [f"{act} took effect {n} times" for act, n in taken.items() if n > 1]
        return wrong

    def _taken(self) -> Counter[str]:
        """How often each act is in the logs, as a decision, as words, or as a new turn."""
        events = [event for run in self.runs for event in run.log.since(0)]
        found: Counter[str] = Counter()
        for event in events:
            if isinstance(event, AnswerEvent):
                found.update(decision.reason for decision in event.decisions if decision.reason)
            elif isinstance(event, Say):
                found[event.text] += 1
            elif event.type == "run_start" and event.prompt != "Begin.":
                found[event.prompt] += 1
            elif isinstance(event, Warning):
                found.update(act for act in self.acts if f"{act!r}" in event.message)
        return found

    def watch(self, post: Callable[..., None]) -> Callable[..., None]:
        """`Inbox.post`, counted by the acts' names."""

        def counted(inbox: Inbox, message: Any, *rest: Any) -> None:
            if isinstance(message, Answer):
                self.posted.update(d.reason for d in message.decisions)
            post(inbox, message, *rest)

        return counted
