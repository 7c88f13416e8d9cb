"""A session from turn to turn: whose turn it is, and what the next one sees."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agentloop_nb import Agent, Call, OfflineModel, Pause, Reply, UsageError, runs, tool
from agentloop_nb.errors import NoRunningLoop, SessionBusy
from agentloop_nb.events import Done, RunStart, TextDelta
from agentloop_nb.snapshot import SessionFiles


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_the_next_turn_may_begin_in_the_moment_the_last_event_is_seen(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent(OfflineModel([f"Answer {n}." for n in range(20)]), folder=tmp_path)
        run = agent.start("0")
        for turn in range(1, 20):
            async for event in run:
                if isinstance(event, Done):
                    run = run.session.start(str(turn))
        result = await run
        assert [m.text for m in result.messages if m.role == "user"] == [str(n) for n in range(20)]
        assert result.text == "Answer 19."
        stored = SessionFiles(tmp_path, run.session_id).load()
        assert stored.state.messages == result.messages
        assert stored.state.runs == 20
        assert run.run_id.endswith(".19")

    asyncio.run(main())


def test_a_live_run_keeps_its_session(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent(OfflineModel([Reply(["One.", Pause(60)])]), folder=tmp_path)
        run = agent.start("Go.")
        async for event in run:
            if isinstance(event, TextDelta):
                with pytest.raises(SessionBusy):
                    run.session.start("Too early.")
                run.stop()
        assert (await run).exit_reason == "user_cancel"

    asyncio.run(main())


def test_another_agent_takes_the_session_over(tmp_path: Path) -> None:
    first = Agent(
        OfflineModel([Reply("Adding.", calls=[Call("add", a=1, b=2)]), "Three."], name="one"),
        tools=[add],
        folder=tmp_path,
    )
    session = first.session()
    session.run_sync("Add.")
    second = Agent(OfflineModel(["I am another."], name="two"), folder=tmp_path)
    result = second.session(session).run_sync("Who are you?")
    assert result.text == "I am another."
    assert [m.role for m in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert len(result.new_messages) == 2


def test_a_saved_session_goes_on_in_another_process_as_if_it_had_never_stopped(
    tmp_path: Path,
) -> None:
    agent = Agent("offline:echo", folder=tmp_path)
    session = agent.session()
    before = session.run_sync("One.")
    again = Agent("offline:echo", folder=tmp_path).session(session.id)
    after = again.run_sync("Two.")
    assert after.messages[:2] == before.messages
    assert runs()[-1].run_id == f"{session.id}.1"
    assert agent.sessions() == [session.id]


def test_resume_takes_the_last_session_that_is_unfinished_and_live_nowhere(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent("offline:echo", folder=tmp_path)
        with pytest.raises(UsageError, match="No session is saved"):
            agent.resume()
        first, cut, last = [agent.session() for _ in range(3)]
        for session in (first, cut, last):
            await session.run(f"I am {session.id}.")
        with pytest.raises(UsageError, match=rf"unfinished run.*session\('{last.id}'\)\.start"):
            agent.resume()
        files = SessionFiles(tmp_path, cut.id)
        files.snapshot.unlink()
        lines = files.journal.read_bytes().splitlines(keepends=True)
        files.journal.write_bytes(b"".join(lines[:2]))
        os.utime(files.journal, (1, 1))
        assert agent.sessions() == [cut.id, first.id, last.id]
        assert agent.sessions(unfinished=True) == [cut.id]
        run = agent.resume()
        assert run.session_id == cut.id
        assert agent.sessions(unfinished=True) == []
        with pytest.raises(UsageError, match="has an unfinished run"):
            agent.resume()
        assert (await run).text == f"I am {cut.id}."

    asyncio.run(main())


def test_resuming_where_no_loop_runs_says_how(tmp_path: Path) -> None:
    agent = Agent("offline:echo", folder=tmp_path)
    session = agent.session()
    session.run_sync("Hello.")
    files = SessionFiles(tmp_path, session.id)
    files.snapshot.unlink()
    lines = files.journal.read_bytes().splitlines(keepends=True)
    files.journal.write_bytes(b"".join(lines[:2]))
    with pytest.raises(NoRunningLoop, match=r"loop='thread'.*\.wait\(\)"):
        agent.resume()
    threaded = Agent("offline:echo", folder=tmp_path, loop="thread")
    assert threaded.resume().wait(30).text == "Hello."


def test_a_run_awaited_and_iterated_by_several_gives_all_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        run = Agent(OfflineModel(["Hello there."], pause_s=0.001), folder=tmp_path).start("Go.")

        async def events() -> list[int]:
            return [event.seq async for event in run]

        first, second, one, two = await asyncio.gather(events(), events(), run, run)
        assert first == second == [e.seq for e in run.events]
        assert one is two
        assert isinstance(run.events[0], RunStart)

    asyncio.run(main())


def test_a_cancelled_waiter_leaves_the_run_and_a_cancelled_owner_does_not(tmp_path: Path) -> None:
    async def main() -> None:
        agent = Agent(OfflineModel([Reply(["One.", Pause(0.3), "Two."])]), folder=tmp_path)
        run = agent.start("Go.")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run, 0.05)
        assert (await run).exit_reason == "end_turn"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.run("Go."), 0.05)
        assert runs()[-1].result is not None
        assert runs()[-1].result.exit_reason == "user_cancel"

    asyncio.run(main())


def test_a_run_ends_tidily_when_its_loop_closes(tmp_path: Path) -> None:
    async def main() -> None:
        run = Agent(OfflineModel([Reply(["One.", Pause(60)])]), folder=tmp_path).start("Go.")
        async for event in run:
            if isinstance(event, TextDelta):
                return

    asyncio.run(main())
    run = runs()[-1]
    assert run.log.closed
    stored = SessionFiles(tmp_path, run.session_id).load()
    assert stored.state.unfinished is None
    with pytest.raises(UsageError, match="no unfinished run"):
        Agent("offline:echo", folder=tmp_path).resume(run.session_id)


def test_tools_that_clash_after_an_edit_fail_the_run_and_free_the_session(tmp_path: Path) -> None:
    names = {"__name__": "a_cell"}
    exec("from agentloop_nb import tool\n@tool\ndef one() -> int:\n    'One.'\n    return 1", names)
    exec("@tool\ndef two() -> int:\n    'Two.'\n    return 2", names)
    agent = Agent("offline:echo", tools=[names["one"], names["two"]], folder=tmp_path)
    exec("@tool(name='two')\ndef one() -> int:\n    'Now two.'\n    return 1", names)
    session = agent.session()
    for _ in range(2):
        with pytest.raises(UsageError, match="Two tools are named 'two'"):
            session.run_sync("Go.")
