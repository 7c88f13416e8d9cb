"""What governance does to a turn, through the engine and its events: verdicts, repeats, declines,
the interaction budget, the chain, and what a snapshot brings back of it."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import agentloop_nb
from agentloop_nb import Agent, Call, Limits, OfflineModel, Reply, tool
from agentloop_nb.codec import from_json, to_json
from agentloop_nb.events import (
    AnyEvent,
    Done,
    GuardEvent,
    MessageEvent,
    QuestionEvent,
    ToolOutput,
    ToolResultEvent,
    ToolRunning,
)
from agentloop_nb.governance.chain import RoundView
from agentloop_nb.governance.counters import count
from agentloop_nb.governance.loop_guard import LoopGuard
from agentloop_nb.governance.pipeline import Pipeline
from agentloop_nb.governance.turn import Verdict
from agentloop_nb.inbox import Say
from agentloop_nb.messages import ToolCall, ToolResult
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.base import Request
from agentloop_nb.questions import ApprovalItem
from agentloop_nb.redaction import Redactor
from agentloop_nb.snapshot import SessionFiles
from agentloop_nb.tools import Prepared, ToolContext, ToolSet
from agentloop_nb.transcript import RunState, SessionState, fold, fold_all
from agentloop_nb.turnstate import call_key
from tests.engine import Page, answer_with, of, rig, when
from tests.loopback import Loopback, call, reply, say
from tests.loopback.script import Answer, Part

Events = list[AnyEvent]


@tool
def look(path: str = "a") -> str:
    """Look at a file."""
    return f"{path} is empty."


@tool(repeat_ok=True)
def poll() -> str:
    """Ask again."""
    return "not yet"


@tool(approval="required")
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def play(script: Any, tools: Sequence[Any], **setup: Any) -> Events:
    """The events of a run."""

    async def main() -> Events:
        return await rig(OfflineModel(script), tools, **setup).start()

    return asyncio.run(main())


def outcomes(events: Events, name: str = "") -> list[str]:
    return [e.outcome for e in of(events, ToolResultEvent) if not name or e.name == name]


def exit_of(events: Events) -> str:
    """Why the run ended."""
    done = events[-1]
    assert isinstance(done, Done)
    return done.exit_reason


def rounds_of(*calls: Call, times: int) -> list[Any]:
    """So many rounds of these calls, and then an answer."""
    return [*[Reply(calls=list(calls))] * times, "Done."]


def distinct(times: int) -> list[Any]:
    """So many rounds of a call that is another one each time."""
    return [*[Reply(calls=[Call("look", path=str(n))]) for n in range(times)], "Done."]


# -- the verdict


@pytest.mark.parametrize(
    ("tool_rounds", "ran", "ends", "requests"),
    [
        (15, 15, "end_turn", 16),
        (16, 16, "end_turn", 17),
        (17, 16, "end_turn", 18),
        (18, 16, "end_turn", 19),
        (19, 16, "max_rounds", 19),
        (20, 16, "max_rounds", 19),
    ],
)
def test_sixteen_rounds_run_two_are_told_to_wrap_up_and_the_next_ends_the_run(
    tool_rounds: int, ran: int, ends: str, requests: int
) -> None:
    asked: list[Request] = []
    script = distinct(tool_rounds)

    def model(request: Request) -> Any:
        asked.append(request)
        return script[len(asked) - 1]

    events = play(model, [look])
    assert len(of(events, ToolRunning)) == ran
    assert exit_of(events) == ends
    assert len(asked) == requests
    told = outcomes(events)[ran:]
    assert told == ["guarded"] * len(told)


def test_the_last_words_of_a_hard_stop_say_how_many_rounds_the_limit_and_what_is_not_done() -> None:
    limits = Limits(soft_max_rounds=1, hard_max_rounds=2)
    events = play(distinct(9), [look], limits=limits)
    last = of(events, MessageEvent)[-1].message
    assert last.stop_reason == "engine"
    assert "3 rounds of tools" in last.text
    assert "the limit of this turn is 2" in last.text
    assert "Not done: look" in last.text
    assert count(events)["chat.tool.loop"] == {"wrap-up": 1, "hard-stop": 1}


@pytest.mark.parametrize(
    ("given", "soft", "hard"),
    [
        ({}, 16, 18),
        ({"max_turns": 25}, 16, 18),
        ({"max_turns": 5}, 16, 18),
        ({"max_turns": 26}, 24, 26),
        ({"max_turns": 60}, 58, 60),
        ({"max_turns": None}, None, None),
        ({"soft_max_rounds": 5, "hard_max_rounds": 9}, 5, 9),
        ({"soft_max_rounds": 5, "hard_max_rounds": 4}, 5, 5),
        ({"soft_max_rounds": 5}, 5, 7),
        ({"hard_max_rounds": 5}, 3, 5),
        ({"hard_max_rounds": 1}, 1, 1),
        ({"soft_max_rounds": None, "hard_max_rounds": 9}, None, 9),
        ({"soft_max_rounds": 5, "hard_max_rounds": None}, 5, None),
        ({"max_turns": None, "soft_max_rounds": 5}, 5, 7),
    ],
)
def test_the_two_limits_follow_from_what_is_given(
    given: dict[str, Any], soft: int | None, hard: int | None
) -> None:
    limits = Limits(**given)
    assert (limits.soft_rounds, limits.hard_rounds) == (soft, hard)


def test_a_round_past_the_limits_opens_no_dialog() -> None:
    script = [Reply(calls=[Call("look")]), Reply(calls=[Call("delete", path="x")]), "Done."]
    limits = Limits(soft_max_rounds=1, hard_max_rounds=3)
    events = play(script, [look, delete], limits=limits, audience=Page())
    assert of(events, QuestionEvent) == []
    assert outcomes(events, "delete") == ["guarded"]


def test_a_stopped_turn_runs_nothing_more() -> None:
    async def main() -> None:
        r = rig(OfflineModel(distinct(3)), [look])
        r.inbox.stopping.set()  # from any thread, before the loop next turns
        events = await r.start()
        assert of(events, ToolRunning) == []
        assert outcomes(events) == ["cancelled"]
        assert events[-1].exit_reason == "user_cancel"

    asyncio.run(main())


# -- repeats


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("off", [-1, 0, 1, 2])
def test_a_call_runs_as_often_as_it_may_and_no_more(most: int, off: int) -> None:
    limits = Limits(max_identical_calls=most)
    events = play(rounds_of(Call("look"), times=most + off), [look], limits=limits)
    assert len(of(events, ToolRunning)) == min(most, most + off)
    assert outcomes(events).count("guarded") == max(off, 0)
    assert Limits().max_identical_calls == 3


def test_the_same_calls_side_by_side_in_one_round_count_too() -> None:
    events = play([Reply(calls=[Call("look")] * 5), "Done."], [look])
    assert sorted(outcomes(events)) == ["guarded", "guarded", "ok", "ok", "ok"]


def test_polling_with_a_result_that_changes_is_no_repeat() -> None:
    seen: list[int] = []

    @tool
    def ask() -> str:
        """Ask."""
        seen.append(1)
        return f"{len(seen)} of 12"

    events = play(rounds_of(Call("ask"), times=12), [ask])
    assert outcomes(events) == ["ok"] * 12


def test_a_cycle_of_calls_is_caught_though_no_two_in_a_row_are_the_same() -> None:
    script = [Reply(calls=[Call("look", path="ab"[n % 2])]) for n in range(10)]
    events = play([*script, "Done."], [look])
    assert len(of(events, ToolRunning)) == 6
    assert outcomes(events)[6:] == ["guarded"] * 4


def test_a_tool_that_may_be_repeated_is_exempt() -> None:
    assert outcomes(play(rounds_of(Call("poll"), times=9), [poll])) == ["ok"] * 9


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1, "b": [1, 2]}', '{ "b":[1,2],"a":1 }', True),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": {"x": 1, "y": 2}}', '{"a": {"y": 2, "x": 1}}', True),
        ("", "{}", True),
        ('"{\\"a\\": 1}"', '{"a": 1}', True),
        ("no json ", "no json", True),
    ],
)
def test_calls_are_the_same_by_their_canonical_arguments(one: str, other: str, same: bool) -> None:
    keys = {call_key(ToolCall("c0.0", "f", arguments)) for arguments in (one, other)}
    assert len(keys) == (1 if same else 2)
    assert call_key(ToolCall("c0.0", "g", one)) not in keys


# -- what was declined


def asked_with(script: list[Any], act: Any, **setup: Any) -> Events:
    """A run with a person who acts on the first question, and says no to any other."""

    async def main() -> Events:
        r = rig(OfflineModel(script), [delete, look], audience=Page(), **setup)
        run = asyncio.create_task(r.start())
        await when(r.log, QuestionEvent, act(r))
        try:
            async with asyncio.timeout(20):
                return await run
        finally:
            run.cancel()

    return asyncio.run(main())


def test_a_tool_that_was_declined_is_not_asked_about_again_this_turn() -> None:
    script = [Reply(calls=[Call("delete", path=p)]) for p in ("a", "a", "b")]
    events = asked_with([*script, "Done."], lambda r: answer_with(r, False))
    assert len(of(events, QuestionEvent)) == 1
    assert outcomes(events) == ["declined", "guarded", "guarded"]
    assert count(events) == {
        "chat.tool.loop": {"declined-repeat": 2},
        "mcp.hitl.decision": {"declined": 1},
    }


def test_after_a_no_with_a_reason_a_corrected_call_may_ask_and_the_same_may_not() -> None:
    script = [Reply(calls=[Call("delete", path=p)]) for p in ("a", "a", "b")]

    def id_of(event: QuestionEvent) -> str:
        return event.question.items[0].call_id

    async def all_of_it() -> Events:
        r = rig(OfflineModel([*script, "Done."]), [delete], audience=Page())
        run = asyncio.create_task(r.start())
        async for event in r.log.follow():
            if isinstance(event, QuestionEvent):
                first = id_of(event) == "c0.0"
                answer_with(r, not first, reason="Not that one." if first else "")(event)
        return await run

    events = asyncio.run(all_of_it())
    assert [id_of(e) for e in of(events, QuestionEvent)] == ["c0.0", "c2.0"]
    assert outcomes(events) == ["declined", "guarded", "ok"]


def test_nobodys_answer_in_time_marks_the_tool() -> None:
    script = [Reply(calls=[Call("delete", path=p)]) for p in ("a", "b")]
    events = play(
        [*script, "Done."], [delete], audience=Page(), limits=Limits(approval_timeout_s=0.05)
    )
    assert len(of(events, QuestionEvent)) == 1
    assert outcomes(events) == ["unanswered", "guarded"]


def test_where_nobody_could_be_asked_nothing_is_marked() -> None:
    script = [Reply(calls=[Call("delete", path=p)]) for p in ("a", "b")]
    events = play([*script, "Done."], [delete])
    assert outcomes(events) == ["unanswered", "unanswered"]
    assert count(events)["mcp.hitl.decision"] == {"ask-failed": 2}


def test_the_next_message_may_ask_again() -> None:
    script = [
        Reply(calls=[Call("delete", path="a")]),
        "No.",
        Reply(calls=[Call("delete", path="a")]),
        "Yes.",
    ]
    said = iter([False, True])
    agent = Agent(OfflineModel(script), tools=[delete], on_question=lambda q: next(said))

    async def main() -> list[str]:
        session = agent.session()
        first = await session.run("Delete it.")
        second = await session.run("Do.")
        results = [m.results[0].outcome for m in second.messages if m.role == "tool"]
        assert first.text == "No."
        return list(results)

    assert asyncio.run(main()) == ["declined", "ok"]


# -- one dialog a round


class Asks:
    """A user's interceptor that asks about every call of `look`."""

    fail_closed = False

    async def claim(self, calls: Sequence[Prepared], view: RoundView) -> Mapping[str, ToolResult]:
        if view.turn.may_ask():
            looks = [p for p in calls if p.call.name == "look"]
            await view.ask([ApprovalItem(p.call.id, "look", (), p.fingerprint) for p in looks])
        return {}


@pytest.mark.parametrize(("most", "put_off"), [(1, True), (2, False), (None, False)])
def test_a_second_dialog_of_a_round_is_put_off(most: int | None, put_off: bool) -> None:
    class First(Asks):
        """Opens the round's first dialog before the approvals are looked at."""

    events = play_with_a_dialog_before([First()], most)
    assert outcomes(events, "delete") == (["deferred"] if put_off else ["ok"])
    budget = count(events)["chat.tool.loop"].get("interaction-budget", 0)
    assert budget == (1 if put_off else 0)


def play_with_a_dialog_before(chain: list[Any], most: int | None) -> Events:
    """A round with a call of `look` and one that is gated, and an interceptor before the chain."""

    async def main() -> Events:
        script = [Reply(calls=[Call("look"), Call("delete", path="x")]), "Done."]
        limits = Limits(interactions_per_round=most)
        r = rig(OfflineModel(script), [look, delete], audience=Page(), limits=limits)
        r.loop._pipeline._chain = (*chain, *r.loop._pipeline._chain)
        run = asyncio.create_task(r.start())
        async for event in r.log.follow():
            if isinstance(event, QuestionEvent):
                answer_with(r, *[True] * len(event.question.items))(event)
        return await run

    return asyncio.run(main())


# -- errors in a row


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_so_many_failed_calls_in_a_row_end_the_run(most: int, off: int) -> None:
    @tool
    def fails(n: int) -> str:
        """Fail."""
        raise ValueError(f"no {n}")

    script = [Reply(calls=[Call("fails", n=n)]) for n in range(most + off)]
    events = play([*script, "Done."], [fails], limits=Limits(max_errors=most))
    assert exit_of(events) == ("max_errors" if off >= 0 else "end_turn")


def test_a_success_begins_the_count_of_errors_anew_and_a_guarded_call_does_not_count() -> None:
    bad, good = Call("look", paths=1), Call("look", path="x")
    script = [Reply(calls=[c]) for c in (bad, bad, good, bad, bad)]
    events = play([*script, "Done."], [look], limits=Limits(max_errors=3))
    assert exit_of(events) == "end_turn"


# -- the chain and the pipeline


class Raises:
    """A user's interceptor that breaks."""

    fail_closed = False

    async def claim(self, calls: Sequence[Prepared], view: RoundView) -> Mapping[str, ToolResult]:
        raise RuntimeError("broken")


def test_an_interceptor_that_raises_passes_its_calls_on() -> None:
    events = play([Reply(calls=[Call("look")]), "Done."], [look], interceptors=[Raises()])
    assert outcomes(events) == ["ok"]


def test_past_the_limits_nothing_runs_even_where_the_guard_itself_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(self: LoopGuard, calls: Any, view: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(LoopGuard, "claim", broken)
    events = play(distinct(4), [look], limits=Limits(soft_max_rounds=1, hard_max_rounds=3))
    assert len(of(events, ToolRunning)) == 1
    assert outcomes(events) == ["ok", "guarded", "guarded", "guarded"]


def test_the_order_of_the_chain_is_fixed_and_a_users_own_come_last() -> None:
    async def main() -> list[str]:
        r = rig(OfflineModel(["Hi."]), [], interceptors=[Raises()])
        return [type(each).__name__ for each in r.loop._pipeline._chain]

    assert asyncio.run(main()) == ["LoopGuard", "ApprovalInterceptor", "Raises"]


def test_no_file_but_the_pipeline_executes_tools() -> None:
    package = Path(agentloop_nb.__file__).parent
    callers = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id == "execute":
                callers.add(path.name)
    assert callers == {"pipeline.py"}


def test_a_pipeline_without_a_turn_has_no_bounds() -> None:
    async def main() -> list[str]:
        events: Events = []

        def emit(event: AnyEvent) -> AnyEvent:
            events.append(event)
            return event

        async def durable() -> None:
            return None

        async def ask(items: Sequence[ApprovalItem]) -> None:
            raise AssertionError("nothing here is gated")

        pipeline = Pipeline(
            ToolSet([look]),
            (LoopGuard(),),
            emit=emit,
            durable=durable,
            context_for=lambda call: ToolContext(
                session_id="s", run_id="r", round=0, call_id=call.id, deps=None, stopped=False
            ),
            ruling=lambda call_id: None,
            ask=ask,
            timeout_s=None,
        )
        calls = [ToolCall(f"c0.{n}", "look", "{}") for n in range(30)]
        ran = await pipeline.run(calls, 0)
        assert ran.verdict is Verdict.CONTINUE
        return outcomes(events)

    assert asyncio.run(main()) == ["ok"] * 30


# -- what a snapshot brings back


def test_the_turn_is_a_fold_of_the_events_and_comes_back_from_a_snapshot() -> None:
    script = [
        Reply(calls=[Call("look"), Call("delete", path="a")]),
        Reply(calls=[Call("look")]),
        Reply(calls=[Call("look", paths=1)]),
        "Done.",
    ]
    events = asked_with(script, lambda r: answer_with(r, False))
    state = SessionState()
    for event in events:
        state = fold(state, event)
        if state.run is not None:
            assert from_json(RunState, to_json(state.run)) == state.run
    assert state == fold_all(SessionState(), events)
    assert state.run is not None
    turn = state.run.turn
    assert turn.declined_tools == ("delete",)
    assert [r.count for r in turn.repeats.values()] == [2]
    assert turn.failed_in_a_row == 1


def test_a_say_is_the_same_turn_and_lifts_nothing() -> None:
    async def main() -> Events:
        script = [
            Reply(calls=[Call("delete", path="a")]),
            Reply(calls=[Call("delete", path="b")]),
            "Done.",
        ]
        r = rig(OfflineModel(script), [delete], audience=Page())
        run = asyncio.create_task(r.start())

        def act(event: QuestionEvent) -> None:
            r.post(Say("Go on, please."))
            answer_with(r, False)(event)

        await when(r.log, QuestionEvent, act)
        return await run

    assert outcomes(asyncio.run(main())) == ["declined", "guarded"]


# -- a model that runs away


SEEDS = range(200)
SOFT, HARD = 4, 6


class Runaway:
    """A model that repeats, alternates, ignores what it is told, asks for what was declined and
    invents tools: by seed. Counts what it asked for."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"runaway {seed}")
        self.asked = 0
        self.rounds = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        if "Go on." in json.dumps(body["messages"][-1]):
            return reply("I am here.")
        self.rounds += 1
        parts: list[Part] = [say("One more.")] if self._rng.random() < 0.5 else []
        for _ in range(self._rng.randint(1, 4)):
            parts.append(self._call())
            self.asked += 1
        return reply(*parts)

    def _call(self) -> Part:
        path = self._rng.choice(["a", "a", "b"])
        kind = self._rng.choice(["look", "look", "poll", "delete", "no_such", "wrong"])
        match kind:
            case "look" | "delete":
                return call(kind, {"path": path})
            case "wrong":
                return call("look", {"paths": 1})
            case _:
                return call(kind, {})


def test_a_model_that_runs_away_is_ended_by_governance_alone_whatever_it_does() -> None:
    limits = Limits(max_turns=None, soft_max_rounds=SOFT, hard_max_rounds=HARD)

    async def one(seed: int) -> None:
        model = Runaway(seed)
        with Loopback(model) as server:
            adapter = AnthropicModel("m", base_url=server.base_url, api_key="test")
            agent = Agent(
                adapter,
                tools=[look, poll, delete],
                limits=limits,
                on_question=lambda q: False,
                snapshots="manual",
            )
            run = agent.start("Go.")
            result = await run
            assert result.exit_reason == "max_rounds", seed
            assert model.rounds == len(server.requests) == HARD + 1, seed
            assert f"the limit of this turn is {HARD}" in result.text
            assert f"{HARD + 1} rounds of tools" in result.text
            assert "Not done: " in result.text
            results = [e for e in run.events if isinstance(e, ToolResultEvent)]
            executed = [e for e in run.events if isinstance(e, ToolRunning)]
            claimed = [
                e for e in results if e.outcome in ("guarded", "declined", "invalid", "deferred")
            ]
            assert len(executed) + len(claimed) == len(results) == model.asked, seed
            assert not any(e.name == "delete" for e in executed)
            assert (await run.session.run("Go on.")).text == "I am here."
            assert not server.complaints, seed

    async def all_of_them() -> None:
        for seed in SEEDS:
            await one(seed)

    asyncio.run(all_of_them())


def test_guard_events_name_the_calls() -> None:
    events = play(rounds_of(Call("look"), times=4), [look])
    (guard,) = of(events, GuardEvent)
    assert (guard.kind, guard.ids) == ("repeated", ("c3.0",))


def test_a_history_may_hold_a_guarded_call(own_folder: Path) -> None:
    """Ended at a hard stop, saved, and gone on with in another agent."""

    async def main() -> str:
        limits = Limits(soft_max_rounds=1, hard_max_rounds=1)
        agent = Agent(OfflineModel(distinct(5)), tools=[look], limits=limits, folder=own_folder)
        run = agent.start("Go.")
        await run
        other = Agent(OfflineModel(["Yes."], name="other"), folder=own_folder)
        return (await other.session(run.session_id).run("And?")).text

    assert asyncio.run(main()) == "Yes."


# -- the pool, and a round of everything


def test_a_tool_of_the_pool_is_not_told_and_runs_when_it_is_named() -> None:
    seen: list[Request] = []

    def script(request: Request) -> Any:
        seen.append(request)
        return [Reply(calls=[Call("poll")]), Reply(calls=[Call("pol")]), "Done."][len(seen) - 1]

    async def main() -> Events:
        run = Agent(OfflineModel(script), tools=[look], pool=[poll]).start("Go.")
        await run
        return list(run.events)

    events = asyncio.run(main())
    assert [spec.name for spec in seen[0].tools] == ["look"]
    first, second = of(events, ToolResultEvent)
    assert (first.outcome, second.outcome) == ("ok", "invalid")
    assert "Did you mean 'poll'?" in second.content
    assert "look, poll" in second.content


def test_a_round_of_everything_is_answered_in_the_models_order_with_one_dialog() -> None:
    """An unknown name, a bad argument, a repeat, a declined tool, two gated and two plain calls."""
    before = [
        Reply(calls=[Call("look", path="same")] * 3),
        Reply(calls=[Call("drop", path="x")]),
    ]
    names = ["no_such", "look", "look", "drop", "delete", "delete", "look", "poll"]
    arguments: list[dict[str, Any]] = [
        {},
        {"paths": 1},
        {"path": "same"},
        {"path": "y"},
        {"path": "one"},
        {"path": "two"},
        {"path": "other"},
        {},
    ]
    everything = [Call(n, **a) for n, a in zip(names, arguments, strict=True)]

    @tool(approval="required")
    def drop(path: str) -> str:
        """Drop a file."""
        return f"dropped {path}"

    async def main() -> tuple[Events, Any]:
        script = [*before, Reply(calls=everything), "Done."]
        r = rig(OfflineModel(script), [look, poll, delete, drop], audience=Page())
        run = asyncio.create_task(r.start())
        async for event in r.log.follow():
            if isinstance(event, QuestionEvent):
                first = event.round == 1
                answer_with(r, *([False] if first else [True, False]))(event)
        return await run, r.loop.state

    events, state = asyncio.run(main())
    results = next(m for m in reversed(state.messages) if m.role == "tool").results
    assert [(r.name, r.outcome) for r in results] == [
        ("no_such", "invalid"),
        ("look", "invalid"),
        ("look", "guarded"),
        ("drop", "guarded"),
        ("delete", "ok"),
        ("delete", "declined"),
        ("look", "ok"),
        ("poll", "ok"),
    ]
    assert [e.round for e in of(events, QuestionEvent)] == [1, 2]
    assert count(events) == {
        "chat.tool.loop": {"repeated": 1, "declined-repeat": 1},
        "mcp.hitl.decision": {"declined": 2, "approved": 1},
    }


@pytest.mark.parametrize("breaks", ["LoopGuard", "ApprovalInterceptor", "Raises"])
def test_each_interceptor_may_break_and_only_the_approval_fails_closed(breaks: str) -> None:
    class Breaks(Raises):
        fail_closed = breaks == "ApprovalInterceptor"

    async def main() -> Events:
        script = [Reply(calls=[Call("delete", path="x"), Call("look")]), "Done."]
        r = rig(OfflineModel(script), [look, delete], audience=Page(), interceptors=[Raises()])
        chain = r.loop._pipeline._chain
        r.loop._pipeline._chain = tuple(
            Breaks() if type(each).__name__ == breaks else each for each in chain
        )
        run = asyncio.create_task(r.start())
        async for event in r.log.follow():
            if isinstance(event, QuestionEvent):
                answer_with(r, True)(event)
        return await run

    events = asyncio.run(main())
    closed = breaks == "ApprovalInterceptor"
    assert outcomes(events, "delete") == (["unanswered"] if closed else ["ok"])
    assert outcomes(events, "look") == (["unanswered"] if closed else ["ok"])


# -- long results


@tool
def long(chars: int) -> str:
    """Return so many characters."""
    return "".join(chr(97 + n % 26) for n in range(chars))


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_result_over_the_limit_is_cut_and_the_whole_of_it_can_be_read(
    off: int, own_folder: Path
) -> None:
    most = Limits().tool_result_max_chars
    script = [Reply(calls=[Call("long", chars=most + off)]), "Done."]
    agent = Agent(OfflineModel(script), tools=[long], folder=own_folder)
    result = agent.run_sync("Go.")
    (sent,) = next(m for m in result.messages if m.role == "tool").results
    kept = list((own_folder / "results").glob("*")) if (own_folder / "results").exists() else []
    if off <= 0:
        assert (len(sent.content), kept) == (most + off, [])
        return
    assert len(sent.content) <= most
    assert "characters are missing here; the whole text is in " in sent.content
    place = Path(sent.content.partition("the whole text is in ")[2].partition(" …]")[0])
    assert [place.resolve()] == [path.resolve() for path in kept]
    assert len(place.read_text("utf-8")) == most + 1


@pytest.mark.parametrize("how", ["manual", "full disk"])
def test_a_long_result_that_is_not_kept_is_cut_all_the_same(
    how: str, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "full disk":

        def full(self: Any, text: str) -> str:
            raise OSError("No space left on device")

        monkeypatch.setattr(SessionFiles, "keep_result", full)
    script = [Reply(calls=[Call("long", chars=13_000)]), "Done."]
    snapshots: Any = "manual" if how == "manual" else "every_tool_round"
    agent = Agent(OfflineModel(script), tools=[long], folder=own_folder, snapshots=snapshots)
    result = agent.run_sync("Go.")
    (sent,) = next(m for m in result.messages if m.role == "tool").results
    assert len(sent.content) <= 12_000
    assert "characters are missing here …]" in sent.content
    assert not (own_folder / "results").exists()


# -- secrets

KEY = "hunter2-hunter2"
SHAPED = "sk-" + "a1B2" * 8


@tool
def leak(how: str) -> str:
    """Let a secret out."""
    text = f"key={KEY} other={SHAPED} own={OWN}"
    if how == "prints":
        print(text)
    if how == "raises":
        raise ValueError(text)
    return text if how == "returns" else "done " + "x" * 13_000 + text


OWN = "given-to-the-model-0123"


@pytest.mark.parametrize("how", ["returns", "prints", "raises", "returns too much"])
def test_no_secret_leaves_a_tool(
    how: str, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env-0123456789abcdef")

    async def main(server: Loopback) -> Events:
        adapter = AnthropicModel("m", base_url=server.base_url, api_key=OWN)
        agent = Agent(adapter, tools=[leak], secrets=[KEY], folder=own_folder)
        run = agent.start("Go.")
        await run
        assert KEY not in json.dumps(server.last.body)
        return list(run.events)

    with Loopback([reply(call("leak", {"how": how})), reply("Done.")]) as server:
        events = asyncio.run(main(server))
    assert len(of(events, ToolResultEvent)) == 1
    for path in (p for p in own_folder.rglob("*") if p.is_file()):
        kept = path.read_text("utf-8", "replace")
        assert not any(secret in kept for secret in (KEY, SHAPED, OWN)), path
    shown = repr(of(events, ToolResultEvent)) + repr(of(events, ToolOutput))
    assert not any(secret in shown for secret in (KEY, SHAPED, OWN))
    assert "[secret]" in shown or how == "returns too much"


def test_short_words_and_words_that_only_look_alike_stay() -> None:
    redact = Redactor(["abc", "longer-secret", "longer-secret-still"])
    assert redact("abc sk-learn task-sk- ghp_x AKIA") == "abc sk-learn task-sk- ghp_x AKIA"
    assert redact("longer-secret-still!") == "[secret]!"
