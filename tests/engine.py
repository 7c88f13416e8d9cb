"""The engine in a test: a run on a loop of the test's own, and a person who answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from agentloop_nb.events import AnyEvent, Event, QuestionEvent
from agentloop_nb.inbox import Answer, Message
from agentloop_nb.limits import Limits
from agentloop_nb.log import EventLog
from agentloop_nb.loop import Inbox, Loop, Setup
from agentloop_nb.models.base import Model
from agentloop_nb.questions import Decision
from agentloop_nb.tools import ToolSet
from agentloop_nb.transcript import SessionState


class Page:
    """An audience that is there."""

    def present(self) -> bool:
        return True


@dataclass
class Rig:
    """A loop with its log and inbox, not yet started."""

    loop: Loop
    log: EventLog
    inbox: Inbox
    verdicts: list[tuple[bool, str]] = field(default_factory=list)

    def post(self, message: Message) -> None:
        self.inbox.post(message, lambda ok, why: self.verdicts.append((ok, why)))

    async def start(self, prompt: str = "Go.") -> list[AnyEvent]:
        await self.loop.start(prompt, "s", "s.0")
        return self.log.since(0)


def rig(model: Model, tools: Iterable[Any] = (), **setup: Any) -> Rig:
    """Made inside a running loop."""
    state = setup.pop("state", SessionState())
    log = setup.pop("log", None) or EventLog()
    inbox = Inbox(asyncio.get_running_loop())
    setup.setdefault("limits", Limits())
    loop = Loop(
        Setup(model=model, tools=ToolSet(list(tools)), log=log, inbox=inbox, state=state, **setup)
    )
    return Rig(loop, log, inbox)


async def when(log: EventLog, kind: type[Event], act: Callable[[Any], Any]) -> None:
    """Wait for the first event of a kind, then act on it."""
    async for event in log.follow():
        if isinstance(event, kind):
            done = act(event)
            if isinstance(done, Awaitable):
                await done
            return


def answer_with(rig_: Rig, *approved: bool, reason: str = "") -> Callable[[QuestionEvent], None]:
    """What a person does with a question: a decision for each of its calls, in order."""

    def act(event: QuestionEvent) -> None:
        items = event.question.items
        decisions = tuple(
            Decision(item.call_id, yes, reason) for item, yes in zip(items, approved, strict=True)
        )
        rig_.post(Answer(event.question.id, decisions))

    return act


def of(events: Iterable[AnyEvent], kind: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]
