"""The loop through its events: what a run does, in which order, and how each ending leaves it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from itertools import pairwise

import pytest

from agentloop_nb import Call, Limits, OfflineModel, Pause, Reply, tool
from agentloop_nb.events import (
    AnswerEvent,
    Done,
    ErrorEvent,
    MessageEvent,
    QuestionEvent,
    RoundEnd,
    RoundStart,
    Say,
    TextDelta,
    ToolOutput,
    ToolResultEvent,
    ToolRunning,
    ToolUseDelta,
    ToolUseStart,
)
from agentloop_nb.events import Warning as WarningEvent
from agentloop_nb.inbox import Answer, Report, Stop
from agentloop_nb.inbox import Say as SayLetter
from agentloop_nb.log import EventLog
from agentloop_nb.messages import Message
from agentloop_nb.models.base import Request
from agentloop_nb.questions import Decision
from agentloop_nb.transcript import SessionState, fold_all
from tests.engine import Page, answer_with, of, rig, when


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(approval="required")
def guarded(path: str) -> str:
    """Something that needs a word."""
    return f"did {path}"


def tools_and_answer() -> OfflineModel:
    return OfflineModel(
        [Reply("Adding.", calls=[Call("add", a=1, b=2), Call("add", a=3, b=4)]), Reply("Done.")]
    )


def assert_valid(messages: tuple[Message, ...]) -> None:
    """Each call is answered by the message after it, in order, and only then."""
    for position, message in enumerate(messages):
        after = messages[position + 1] if position + 1 < len(messages) else None
        if message.calls:
            assert after is not None
            assert after.role == "tool"
            assert [r.id for r in after.results] == [c.id for c in message.calls]
        if message.role == "tool":
            assert messages[position - 1].calls


def test_a_run_reads_as_rounds_of_message_then_tools_then_end() -> None:
    async def main() -> None:
        r = rig(tools_and_answer(), [add])
        events = await r.start()
        kinds = [e.type for e in events if not isinstance(e, TextDelta | ToolUseDelta)]
        assert kinds[:5] == [
            "run_start",
            "round_start",
            "message",
            "tool_use_start",
            "tool_use_start",
        ]
        assert sorted(kinds[5:9]) == ["tool_result", "tool_result", "tool_running", "tool_running"]
        assert kinds[9:] == ["round_end", "round_start", "message", "round_end", "done"]
        assert [e.seq for e in events] == list(range(len(events)))
        assert all(a.t <= b.t for a, b in pairwise(events))
        assert events[-1].exit_reason == "end_turn"
        assert_valid(r.loop.state.messages)

    asyncio.run(main())


def test_the_state_of_the_loop_is_the_fold_of_its_log() -> None:
    async def main() -> None:
        r = rig(tools_and_answer(), [add])
        events = await r.start()
        assert fold_all(SessionState(), events) == r.loop.state

    asyncio.run(main())


def test_results_are_in_the_models_order_though_the_second_call_is_faster() -> None:
    first_may_end = threading.Event()

    @tool
    def slow() -> str:
        """Waits for the other."""
        assert first_may_end.wait(20)
        return "slow"

    @tool
    def fast() -> str:
        """Lets the other go."""
        first_may_end.set()
        return "fast"

    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("slow"), Call("fast")]), "Done."])
        r = rig(model, [slow, fast])
        events = await r.start()
        assert [e.name for e in of(events, ToolResultEvent)] == ["fast", "slow"]
        assert [x.name for x in r.loop.state.messages[2].results] == ["slow", "fast"]

    asyncio.run(main())


def test_an_approved_call_runs_and_its_running_comes_after_the_answer() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("guarded", path="x")]), "Done."])
        r = rig(model, [guarded], audience=Page())
        person = asyncio.create_task(when(r.log, QuestionEvent, answer_with(r, True)))
        events = await r.start()
        await person
        (answer,) = of(events, AnswerEvent)
        (running,) = of(events, ToolRunning)
        assert answer.seq < running.seq
        assert (answer.by, answer.closed) == ("person", True)
        assert of(events, ToolResultEvent)[0].content == "did x"
        assert r.verdicts == [(True, "")]

    asyncio.run(main())


def test_a_declined_call_is_not_run_and_the_reason_reaches_the_model() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("guarded", path="x")]), "Done."])
        r = rig(model, [guarded], audience=Page())
        act = answer_with(r, False, reason="not today")
        person = asyncio.create_task(when(r.log, QuestionEvent, act))
        events = await r.start()
        await person
        (result,) = of(events, ToolResultEvent)
        assert result.outcome == "declined"
        assert "not today" in result.content
        assert not of(events, ToolRunning)

    asyncio.run(main())


def test_a_dialog_that_nobody_answers_is_not_a_no() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("guarded", path="x")]), "Done."])
        r = rig(model, [guarded], audience=Page(), limits=Limits(approval_timeout_s=0.1))
        events = await r.start()
        (answer,) = of(events, AnswerEvent)
        (result,) = of(events, ToolResultEvent)
        assert (answer.by, answer.closed) == ("timeout", True)
        assert result.outcome == "unanswered"
        assert "nobody answered" in result.content.lower()
        assert events[-1].exit_reason == "end_turn"

    asyncio.run(main())


def test_without_a_page_the_question_goes_to_on_question() -> None:
    async def main() -> None:
        model = OfflineModel(
            [Reply(calls=[Call("guarded", path="a"), Call("guarded", path="b")]), "Done."]
        )
        r = rig(model, [guarded], on_question=lambda q: {q.items[0].call_id: True})
        results = of(await r.start(), ToolResultEvent)
        assert {x.id: x.outcome for x in results} == {"c0.0": "ok", "c0.1": "unanswered"}

    asyncio.run(main())


@pytest.mark.parametrize(
    "decided",
    [
        "yes",
        1,
        None,
        [True],
        {"c0.0": "yes"},
        {"c9.9": True},
        {},
        ValueError("broken"),
        SystemExit(2),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_only_an_explicit_true_runs_a_call(decided: object, is_async: bool) -> None:
    def plain(question: object) -> object:
        if isinstance(decided, BaseException):
            raise decided
        return decided

    async def asynchronous(question: object) -> object:
        return plain(question)

    on_question = asynchronous if is_async else plain

    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("guarded", path="a")]), "Done."])
        events = await rig(model, [guarded], on_question=on_question).start()
        assert not of(events, ToolRunning)
        assert of(events, ToolResultEvent)[0].outcome == "unanswered"
        assert events[-1].exit_reason == "end_turn"

    asyncio.run(main())


def test_a_blocking_on_question_stops_neither_the_clock_nor_a_stop() -> None:
    never = threading.Event()

    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("guarded", path="a")]), "Done."])
        r = rig(model, [guarded], on_question=lambda q: never.wait(60))
        person = asyncio.create_task(when(r.log, QuestionEvent, lambda e: r.post(Stop())))
        events = await r.start()
        await person
        assert events[-1].exit_reason == "user_cancel"
        short = Limits(approval_timeout_s=0.1)
        r = rig(model, [guarded], on_question=lambda q: never.wait(60), limits=short)
        assert of(await r.start(), AnswerEvent)[0].by == "timeout"

    asyncio.run(main())
    never.set()


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr
)
def test_a_model_that_tries_to_end_the_process_ends_its_run_only(error: BaseException) -> None:
    def script(request: Request) -> Reply:
        raise error

    async def main() -> None:
        events = await rig(OfflineModel(script)).start()
        assert events[-1].exit_reason == "fatal_error"
        assert type(error).__name__ in of(events, ErrorEvent)[0].message

    asyncio.run(main())


def test_nobody_to_ask_is_told_apart_from_a_no_and_the_run_ends() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("guarded", path="x")]), "Done."])
        events = await rig(model, [guarded]).start()
        (answer,) = of(events, AnswerEvent)
        (result,) = of(events, ToolResultEvent)
        assert (answer.by, result.outcome) == ("nobody", "unanswered")
        assert "no one to ask" in result.content

    asyncio.run(main())


def test_each_parallel_approval_is_decided_by_its_own_id_in_any_order() -> None:
    async def main() -> None:
        calls = [Call("guarded", path=p) for p in ("a", "b", "c")]
        r = rig(OfflineModel([Reply(calls=calls), "Done."]), [guarded], audience=Page())

        def act(event: QuestionEvent) -> None:
            for call_id, yes in (("c0.2", True), ("c0.0", False), ("c0.1", True)):
                r.post(Answer(event.question.id, (Decision(call_id, yes),)))

        person = asyncio.create_task(when(r.log, QuestionEvent, act))
        events = await r.start()
        await person
        results = {x.id: x.outcome for x in of(events, ToolResultEvent)}
        assert results == {"c0.0": "declined", "c0.1": "ok", "c0.2": "ok"}
        assert len(of(events, QuestionEvent)) == 1
        assert [e.closed for e in of(events, AnswerEvent)] == [False, False, True]

    asyncio.run(main())


def test_the_first_of_two_answers_wins_and_the_second_is_told_so() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("guarded", path="x")]), "Done."])
        r = rig(model, [guarded], audience=Page())

        def act(event: QuestionEvent) -> None:
            r.post(Answer(event.question.id, (Decision("c0.0", True),)))
            r.post(Answer(event.question.id, (Decision("c0.0", False),)))
            r.post(Answer("q999", (Decision("c0.0", False),)))
            r.post(Answer(event.question.id, ()))

        person = asyncio.create_task(when(r.log, QuestionEvent, act))
        events = await r.start()
        await person
        assert of(events, ToolResultEvent)[0].outcome == "ok"
        assert [ok for ok, _ in r.verdicts] == [True, False, False, False]
        assert all(why for ok, why in r.verdicts if not ok)

    asyncio.run(main())


def test_stop_beats_an_answer_of_the_same_moment() -> None:
    async def main() -> None:
        model = OfflineModel([Reply("Let me.", calls=[Call("guarded", path="x")]), "Done."])
        r = rig(model, [guarded], audience=Page())

        def act(event: QuestionEvent) -> None:
            r.post(Answer(event.question.id, (Decision("c0.0", True),)))
            r.post(Stop())

        person = asyncio.create_task(when(r.log, QuestionEvent, act))
        events = await r.start()
        await person
        assert events[-1].exit_reason == "user_cancel"
        assert not of(events, ToolRunning)
        assert of(events, AnswerEvent)[-1].by == "stop"
        assert [ok for ok, _ in r.verdicts] == [False, True]
        assert_valid(r.loop.state.messages)

    asyncio.run(main())


def test_stop_in_mid_stream_keeps_the_text_that_came() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(text=["Half of it", Pause(60), " and the rest"])])
        r = rig(model)
        person = asyncio.create_task(when(r.log, TextDelta, lambda e: r.post(Stop())))
        events = await r.start()
        await person
        said = "".join(e.text for e in of(events, TextDelta))
        assert said
        assert r.loop.state.messages[-1].text == said
        assert r.loop.state.messages[-1].stop_reason == "cancelled"
        assert events[-1].exit_reason == "user_cancel"

    asyncio.run(main())


def test_stop_while_a_tool_runs_answers_its_call_and_ends() -> None:
    async def main() -> None:
        started = asyncio.Event()

        @tool
        async def forever() -> str:
            """Never ends."""
            started.set()
            await asyncio.Event().wait()
            return ""

        r = rig(OfflineModel([Reply(calls=[Call("forever")]), "Done."]), [forever])

        async def stop() -> None:
            await started.wait()
            r.post(Stop())

        person = asyncio.create_task(stop())
        events = await r.start()
        await person
        (result,) = of(events, ToolResultEvent)
        assert result.outcome == "cancelled"
        assert events[-1].exit_reason == "user_cancel"
        assert_valid(r.loop.state.messages)

    asyncio.run(main())


def test_stopping_one_call_leaves_the_run_and_its_sibling() -> None:
    async def main() -> None:
        @tool
        async def forever() -> str:
            """Never ends."""
            r.post(Stop("c0.0"))
            await asyncio.Event().wait()
            return ""

        model = OfflineModel([Reply(calls=[Call("forever"), Call("add", a=1, b=1)]), "Done."])
        r = rig(model, [forever, add])
        events = await r.start()
        outcomes = {e.id: e.outcome for e in of(events, ToolResultEvent)}
        assert outcomes == {"c0.0": "cancelled", "c0.1": "ok"}
        assert events[-1].exit_reason == "end_turn"

    asyncio.run(main())


def test_what_is_said_in_mid_run_reaches_the_next_request_and_shows_there() -> None:
    asked: list[Request] = []

    def script(request: Request) -> Reply:
        asked.append(request)
        return Reply(calls=[Call("add", a=1, b=1)]) if len(asked) == 1 else Reply("Done.")

    async def main() -> None:
        r = rig(OfflineModel(script), [add])
        act = when(r.log, ToolRunning, lambda e: r.post(SayLetter("look in src first")))
        person = asyncio.create_task(act)
        events = await r.start()
        await person
        assert asked[-1].messages[-1].text == "look in src first"
        (said,) = of(events, Say)
        assert said.round == 1

    asyncio.run(main())


def test_what_is_said_at_the_end_causes_another_round() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(text=["One.", Pause(0.05)]), Reply("Two.")])
        r = rig(model)
        act = when(r.log, TextDelta, lambda e: r.post(SayLetter("wait")))
        person = asyncio.create_task(act)
        events = await r.start()
        await person
        assert len(of(events, RoundStart)) == 2
        assert r.loop.state.messages[-1].text == "Two."

    asyncio.run(main())


def test_what_was_said_too_late_is_not_lost_silently() -> None:
    async def main() -> None:
        r = rig(OfflineModel([Reply(text=["One.", Pause(60)])]))

        def act(event: TextDelta) -> None:
            r.post(SayLetter("too late"))
            r.post(Stop())

        person = asyncio.create_task(when(r.log, TextDelta, act))
        events = await r.start()
        await person
        assert any("too late" in e.message for e in of(events, WarningEvent))

    asyncio.run(main())


def test_the_cap_on_rounds_ends_with_a_message_that_says_so_and_asks_no_more() -> None:
    asked: list[Request] = []

    def script(request: Request) -> Reply:
        asked.append(request)
        return Reply(calls=[Call("add", a=len(asked), b=1)])

    async def main() -> None:
        r = rig(OfflineModel(script), [add], limits=Limits(max_turns=3))
        events = await r.start()
        assert len(asked) == 3
        assert events[-1].exit_reason == "max_rounds"
        last = r.loop.state.messages[-1]
        assert (last.role, last.stop_reason) == ("assistant", "engine")
        assert "3 rounds" in last.text
        assert_valid(r.loop.state.messages)

    asyncio.run(main())


def test_an_unknown_tool_is_answered_with_a_hint_and_its_sibling_runs() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("ad", a=1), Call("add", a=1, b=1)]), "Done."])
        events = await rig(model, [add]).start()
        results = {e.id: e for e in of(events, ToolResultEvent)}
        assert results["c0.0"].outcome == "invalid"
        assert "'add'" in results["c0.0"].content
        assert results["c0.1"].content == "2"

    asyncio.run(main())


def test_arguments_that_do_not_fit_open_no_dialog() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("guarded", wrong=1)]), "Done."])
        events = await rig(model, [guarded], audience=Page()).start()
        (result,) = of(events, ToolResultEvent)
        assert result.outcome == "invalid"
        assert "path" in result.content
        assert not of(events, QuestionEvent)

    asyncio.run(main())


def test_a_reply_cut_by_the_token_limit_runs_none_of_its_calls() -> None:
    async def main() -> None:
        cut = Reply(calls=[Call("add", a=1, b=2), Call("add", a=3, b=4)], stop_reason="max_tokens")
        events = await rig(OfflineModel([cut, "Done."]), [add]).start()
        assert not of(events, ToolRunning)
        assert [e.outcome for e in of(events, ToolResultEvent)] == ["invalid", "invalid"]
        assert "cut off" in of(events, ToolResultEvent)[0].content
        assert events[-1].exit_reason == "end_turn"

    asyncio.run(main())


@pytest.mark.parametrize("stop_reason", ["max_tokens", "refusal", "unknown"])
def test_an_unnatural_stop_is_named(stop_reason: str) -> None:
    async def main() -> None:
        events = await rig(OfflineModel([Reply("Half", stop_reason=stop_reason)])).start()
        assert events[-1].exit_reason == "no_tool_calls"

    asyncio.run(main())


def test_a_provider_failure_is_a_fatal_error_in_words_with_the_partial_text() -> None:
    async def main() -> None:
        r = rig(OfflineModel([Reply("Some text", failure="request")]))
        events = await r.start()
        assert events[-1].exit_reason == "fatal_error"
        assert of(events, ErrorEvent)[0].message
        assert r.loop.state.messages[-1].text == "Some text"
        assert r.inbox.take() == []

    asyncio.run(main())


def test_a_fault_in_a_models_own_code_still_ends_the_run() -> None:
    def script(request: Request) -> Reply:
        raise ZeroDivisionError("a bug in the script")

    async def main() -> None:
        events = await rig(OfflineModel(script)).start()
        assert events[-1].exit_reason == "fatal_error"
        assert "ZeroDivisionError: a bug in the script" in of(events, ErrorEvent)[0].message

    asyncio.run(main())


def test_a_terminal_result_ends_the_run_with_it() -> None:
    @tool(return_direct=True)
    def answer() -> str:
        """The answer itself."""
        return "forty-two"

    async def main() -> None:
        r = rig(OfflineModel([Reply(calls=[Call("answer")]), "Never."]), [answer])
        events = await r.start()
        assert events[-1].exit_reason == "end_turn"
        assert r.loop.state.messages[-1].text == "forty-two"
        assert len(of(events, RoundStart)) == 1
        assert_valid(r.loop.state.messages)

    asyncio.run(main())


def test_what_a_tool_prints_belongs_to_its_call() -> None:
    @tool
    def chatty() -> str:
        """Prints."""
        print("hello from the tool")
        return "ok"

    async def main() -> None:
        events = await rig(OfflineModel([Reply(calls=[Call("chatty")]), "Done."]), [chatty]).start()
        outputs = of(events, ToolOutput)
        assert "".join(e.text for e in outputs) == "hello from the tool\n"
        assert {e.id for e in outputs} == {"c0.0"}
        assert outputs[-1].seq < of(events, ToolResultEvent)[0].seq

    asyncio.run(main())


def test_exclusive_calls_run_alone() -> None:
    live: set[str] = set()
    met: list[frozenset[str]] = []

    async def body(name: str) -> str:
        live.add(name)
        met.append(frozenset(live))
        for _ in range(5):
            await asyncio.sleep(0)
        live.discard(name)
        return name

    @tool(concurrency="exclusive")
    async def alone(n: int) -> str:
        """Alone."""
        return await body(f"alone{n}")

    @tool
    async def together(n: int) -> str:
        """With others."""
        return await body(f"together{n}")

    async def main() -> None:
        calls = [
            Call("together", n=0),
            Call("together", n=1),
            Call("alone", n=2),
            Call("together", n=3),
        ]
        await rig(OfflineModel([Reply(calls=calls), "Done."]), [alone, together]).start()
        assert frozenset({"together0", "together1"}) in met
        assert all(len(names) == 1 for names in met if any("alone" in n for n in names))

    asyncio.run(main())


def test_after_the_end_letters_are_told_that_the_run_has_ended() -> None:
    async def main() -> None:
        r = rig(OfflineModel(["Done."]))
        await r.start()
        r.post(Stop())
        r.post(SayLetter("hello?"))
        assert [ok for ok, _ in r.verdicts] == [False, False]
        assert r.log.closed

    asyncio.run(main())


def test_a_report_of_a_failed_save_is_a_warning_and_the_run_goes_on() -> None:
    async def main() -> None:
        r = rig(OfflineModel([Reply(text=["One.", Pause(0.05)])]))
        act = when(r.log, TextDelta, lambda e: r.post(Report("The disk is full.")))
        person = asyncio.create_task(act)
        events = await r.start()
        await person
        assert [e.message for e in of(events, WarningEvent)] == ["The disk is full."]
        assert events[-1].exit_reason == "end_turn"

    asyncio.run(main())


def test_a_run_cut_at_any_event_goes_on_and_starts_no_tool_twice() -> None:
    """Every prefix of a journal, resumed: one done, a valid history, no call run again."""
    ran: list[int] = []

    @tool
    def once(n: int) -> str:
        """Counts."""
        ran.append(n)
        return f"ran {n}"

    def model() -> OfflineModel:
        return OfflineModel(
            [
                Reply("One.", calls=[Call("once", n=1), Call("once", n=2)]),
                Reply(calls=[Call("once", n=3)]),
                Reply("Done."),
            ]
        )

    async def main() -> None:
        whole = await rig(model(), [once]).start()
        kept = [e for e in whole if not isinstance(e, TextDelta | ToolUseDelta)]
        for cut in range(1, len(kept)):
            journal = kept[:cut]
            state = fold_all(SessionState(), journal)
            started = {(e.round, e.id) for e in journal if isinstance(e, ToolRunning)}
            r = rig(model(), [once], state=state, log=EventLog(journal))
            await r.loop.resume()
            events = r.log.since(0)
            assert isinstance(events[-1], Done)
            assert events[-1].exit_reason == "end_turn", cut
            assert_valid(r.loop.state.messages)
            roles = [m.role for m in r.loop.state.messages]
            assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"], cut
            again = [e for e in events[cut:] if isinstance(e, ToolRunning)]
            assert not started & {(e.round, e.id) for e in again}, cut
            results = [e.id for e in events if isinstance(e, ToolResultEvent)]
            assert len(results) == len(set(results)) == 3, cut
            assert [e.seq for e in events] == sorted({e.seq for e in events})

    asyncio.run(main())


def test_a_decision_from_before_the_crash_is_honoured_and_a_changed_call_is_asked_again() -> None:
    async def main() -> None:
        model = OfflineModel([Reply(calls=[Call("guarded", path="x")]), "Done."])
        first = rig(model, [guarded], audience=Page())
        person = asyncio.create_task(when(first.log, QuestionEvent, answer_with(first, True)))
        events = await first.start()
        await person
        end = next(i for i, e in enumerate(events) if isinstance(e, AnswerEvent)) + 1
        journal = [e for e in events[:end] if not isinstance(e, TextDelta | ToolUseDelta)]

        kept = rig(model, [guarded], state=fold_all(SessionState(), journal), log=EventLog(journal))
        await kept.loop.resume()
        assert of(kept.log.since(0), ToolResultEvent)[0].outcome == "ok"
        assert len(of(kept.log.since(0), QuestionEvent)) == 1

        changed = [_with_other_arguments(e) for e in journal]
        asked = rig(
            model, [guarded], state=fold_all(SessionState(), changed), log=EventLog(changed)
        )
        await asked.loop.resume()
        assert len(of(asked.log.since(0), QuestionEvent)) == 2
        assert of(asked.log.since(0), ToolResultEvent)[0].outcome == "unanswered"

    asyncio.run(main())


def _with_other_arguments(event: object) -> object:
    if isinstance(event, MessageEvent):
        blocks = tuple(replace(c, arguments='{"path":"y"}') for c in event.message.calls)
        return replace(event, message=replace(event.message, blocks=blocks))
    return event


def test_usage_is_summed_over_rounds() -> None:
    async def main() -> None:
        events = await rig(tools_and_answer(), [add]).start()
        rounds = of(events, RoundEnd)
        total = sum(e.usage.input_tokens for e in rounds)
        assert events[-1].usage.input_tokens == total > 0

    asyncio.run(main())


def test_a_complete_call_shows_its_arguments_once_parsed() -> None:
    async def main() -> None:
        events = await rig(tools_and_answer(), [add]).start()
        assert [e.arguments for e in of(events, ToolUseStart)] == [
            {"a": 1, "b": 2},
            {"a": 3, "b": 4},
        ]

    asyncio.run(main())
