"""A busy kernel is nobody's silence: time in which the loop was held does not count."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agentloop_nb.events import AnswerEvent, QuestionEvent, ToolResultEvent
from agentloop_nb.governance import desk
from agentloop_nb.inbox import Answer
from agentloop_nb.limits import Limits
from agentloop_nb.models.offline import Call, OfflineModel, Reply
from agentloop_nb.patience import Patience
from agentloop_nb.questions import Decision
from agentloop_nb.tools import tool
from tests.engine import Page, Rig, of, rig


def hold(seconds: float) -> None:
    """As a synchronous cell does it."""
    threading.Event().wait(seconds)


@tool(approval="required")
def guarded() -> str:
    """Do it."""
    return "did it"


def asks_once(**setup: Any) -> Rig:
    model = OfflineModel([Reply(calls=[Call("guarded")]), Reply("Done.")])
    return rig(model, [guarded], **{"audience": Page(), **setup})


def test_a_wait_ends_when_its_time_is_over() -> None:
    async def main() -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        patience = Patience(0.02)
        assert not await patience.wait(never)
        assert patience.left_s == 0
        assert not never.cancelled()
        assert not await Patience(None).wait(never, at_most=Patience(0.02))

    asyncio.run(main())


def test_a_wait_without_end_ends_with_what_it_waits_for() -> None:
    async def main() -> None:
        soon: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(soon.set_result, None)
        assert await Patience(None).wait(soon)
        assert await Patience(0).wait(soon)  # done before: no patience is needed

    asyncio.run(main())


def test_a_held_loop_takes_nothing_from_a_wait_but_the_piece_it_came_in() -> None:
    async def main() -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        patience, moved = Patience(30), list[float]()
        waiting = asyncio.ensure_future(patience.wait(never, on_held=moved.append))
        await asyncio.sleep(0)
        hold(2.5)
        while not moved:
            await asyncio.sleep(0)
        assert patience.left_s == 29
        assert moved[0] > 1
        waiting.cancel()

    asyncio.run(main())


def test_what_arrived_while_the_loop_was_held_is_looked_at_before_the_clock_rules() -> None:
    async def main() -> None:
        soon: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(Patience(0.02).wait(soon))
        await asyncio.sleep(0)
        hold(0.5)
        # Handed over only after some turns of the loop, as the kernel's own sockets do it.
        for _ in range(20):
            await asyncio.sleep(0)
        soon.set_result(None)
        assert await waiting

    asyncio.run(main())


def held_while_asked(
    act: Callable[[Rig, QuestionEvent], object], limits: Limits
) -> tuple[Rig, list[Any]]:
    """A run whose loop is held as soon as it has asked, and what `act` does about that."""

    async def main() -> tuple[Rig, list[Any]]:
        r = asks_once(limits=limits)

        async def person() -> None:
            async for event in r.log.follow():
                if isinstance(event, QuestionEvent):
                    await asyncio.sleep(0.01)  # the desk waits by now
                    act(r, event)
                    return

        task = asyncio.ensure_future(person())
        events = await r.start()
        task.cancel()
        return r, events

    return asyncio.run(main())


def test_an_answer_given_while_a_cell_held_the_loop_past_the_deadline_is_honoured() -> None:
    def act(r: Rig, event: QuestionEvent) -> None:
        hold(1.0)
        decisions = (Decision(event.question.items[0].call_id, True),)
        r.post(Answer(event.question.id, decisions))

    r, events = held_while_asked(act, Limits(approval_timeout_s=0.3))
    assert [answer.by for answer in of(events, AnswerEvent)] == ["person"]
    assert [result.content for result in of(events, ToolResultEvent)] == ["did it"]
    assert r.verdicts == [(True, "")]


def test_a_question_held_up_is_asked_again_with_the_time_that_is_left() -> None:
    def act(r: Rig, event: QuestionEvent) -> None:
        hold(1.5)

    _, events = held_while_asked(act, Limits(approval_timeout_s=0.3))
    first, again = (event.question for event in of(events, QuestionEvent))
    assert (again.id, again.items) == (first.id, first.items)
    assert first.timeout_s == 0.3
    assert again.timeout_s == 0.5  # there is always a moment left
    assert [answer.by for answer in of(events, AnswerEvent)] == ["timeout"]


def test_nobody_is_said_to_be_there_only_after_a_page_had_time_to_say_hello(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(desk, "HELLO_WAIT_S", 0.3)

    class Later:
        came = False

        def present(self) -> bool:
            return self.came

    async def main() -> None:
        page = Later()
        r = asks_once(audience=page)

        async def busy() -> None:
            async for event in r.log.follow():
                if isinstance(event, QuestionEvent):
                    await asyncio.sleep(0.01)
                    hold(1)  # longer than a page is waited for
                    await asyncio.sleep(0.05)
                    page.came = True
                    decisions = (Decision(event.question.items[0].call_id, True),)
                    r.post(Answer(event.question.id, decisions))
                    return

        task = asyncio.ensure_future(busy())
        events = await r.start()
        task.cancel()
        assert [answer.by for answer in of(events, AnswerEvent)] == ["person"]

    asyncio.run(main())
