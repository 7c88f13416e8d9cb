"""A law: whatever happens in whatever order at a run with several open questions, each gated call
is decided once, none runs without an approval, and nothing of the run is left behind.

Answers (for some of the calls, for calls of nobody, to closed questions, again), the clock running
out, words, a Stop, in any order that hypothesis finds. What views do is tested beside them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop_nb import Call, Limits, OfflineModel, Reply, patience, tool
from agentloop_nb.events import (
    AnswerEvent,
    AnyEvent,
    Done,
    QuestionEvent,
    ToolResultEvent,
    ToolRunning,
)
from agentloop_nb.inbox import Answer, RetryNow, Say, Stop
from agentloop_nb.questions import Decision
from agentloop_nb.transcript import SessionState, fold_all
from tests.engine import Page, of, rig

CALLS = ("c0.0", "c0.1", "c0.2", "c1.0", "c1.1", "c2.0", "c9.9", "")
LIMIT_S = 20.0

decisions = st.builds(
    Decision, st.sampled_from(CALLS), st.booleans(), st.sampled_from(["", "Not so.", " "])
)
answers = st.builds(
    lambda which, made: ("answer", which, tuple(made)),
    st.sampled_from(["open", "open", "open", "q0", ""]),
    st.lists(decisions, max_size=4),
)
actions = st.lists(
    st.one_of(
        answers,
        answers,
        answers,
        st.sampled_from([("turn",), ("turn",), ("say",), ("retry",), ("twice",)]),
        st.sampled_from([("stop",), ("time is up",)]),
    ),
    max_size=14,
)


@tool(approval="required")
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


SCRIPT = [
    Reply(calls=[Call("delete", path=p) for p in "abc"]),
    Reply(calls=[Call("delete", path=p) for p in "de"]),
    Reply(calls=[Call("delete", path="f")]),
    "Done.",
]


async def scenario(todo: list[Any]) -> tuple[list[AnyEvent], list[tuple[Any, bool]], int]:
    """The events, how each answer was received, and the tasks that are left."""
    before = len(asyncio.all_tasks())
    r = rig(OfflineModel(SCRIPT), [delete], audience=Page(), limits=Limits(max_turns=9))
    run = asyncio.create_task(r.start())
    heard: list[tuple[Any, bool]] = []
    latest: Answer | None = None

    def post(message: Any) -> None:
        r.inbox.post(message, lambda ok, why: heard.append((message, ok)))

    async def asked() -> None:
        """Until a question is open, or the run is over."""
        while not run.done() and r.loop.state.run is None:
            await asyncio.sleep(0)
        while not run.done() and r.loop._run.question is None:
            await asyncio.sleep(0)

    async def closed_or_over(open_: Any) -> None:
        while not run.done() and r.loop._desk._open is open_:
            await asyncio.sleep(0)

    for action in todo:
        match action:
            case ("turn",):
                await asyncio.sleep(0)
            case ("say",):
                post(Say("Go on."))
            case ("retry",):
                post(RetryNow())
            case ("stop",):
                post(Stop())
            case ("twice",) if latest is not None:
                post(latest)
            case ("time is up",):
                await asked()
                open_ = r.loop._desk._open
                if open_ is not None:
                    open_.patience.left_s = 0.0  # heard at the end of the current piece
                    await closed_or_over(open_)
            case ("answer", which, made):
                await asked()
                question = r.loop._run.question if r.loop.state.run else None
                id = question.id if which == "open" and question is not None else which
                latest = Answer(id, made)
                post(latest)
    post(Stop())
    async with asyncio.timeout(LIMIT_S):
        events = await run
    await asyncio.sleep(0)
    return events, heard, len(asyncio.all_tasks()) - before


@settings(max_examples=200, deadline=None)
@given(actions)
def test_each_call_is_decided_once_and_none_runs_without_an_approval(todo: list[Any]) -> None:
    threads = threading.active_count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "PIECE_S", 0.002)  # of a wait, so that its end is heard at once
        events, heard, left = asyncio.run(scenario(todo))
    assert isinstance(events[-1], Done)
    assert sum(isinstance(e, Done) for e in events) == 1
    assert left == 0  # no waiter, no timer's task, no listener
    assert threading.active_count() <= threads + 1
    made = [d for e in of(events, AnswerEvent) for d in e.decisions]
    assert all(n == 1 for n in Counter(d.call_id for d in made).values())
    approved = {d.call_id for d in made if d.approved}
    running = [e.id for e in of(events, ToolRunning)]
    assert set(running) <= approved
    assert all(n == 1 for n in Counter(running).values())
    results = Counter(e.id for e in of(events, ToolResultEvent))
    assert all(n == 1 for n in results.values())
    asked = {item.call_id for e in of(events, QuestionEvent) for item in e.question.items}
    assert {d.call_id for d in made} <= asked <= set(results)
    # What was received well did something, and everyone was told.
    acted = sum(ok for message, ok in heard if isinstance(message, Answer))
    assert acted == sum(e.by == "person" for e in of(events, AnswerEvent))
    state = fold_all(SessionState(), events)
    assert state.run is not None
    assert state.run.question is None
    assert state.run.unanswered == ()


def test_a_clock_that_is_put_forward_closes_the_question() -> None:
    """The harness reaches into the clock; it would be of no use if that did nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "PIECE_S", 0.002)
        events, _, _ = asyncio.run(scenario([("time is up",)]))
    assert [e.by for e in of(events, AnswerEvent)] == ["timeout"]
