"""The offline model: a script plays the same every time, and its place is read off the history."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agentloop_nb.errors import ProviderError, UsageError
from agentloop_nb.messages import Message, Outcome, Text, ToolResult, user
from agentloop_nb.models.assemble import Assembler
from agentloop_nb.models.base import CallChunk, Finish, ModelDelta, Request, TextChunk, ToolSpec
from agentloop_nb.models.offline import (
    Call,
    OfflineModel,
    Pause,
    Reply,
    last_user_text,
    named,
    new_results,
)


async def stream(model: OfflineModel, request: Request) -> list[ModelDelta]:
    return [delta async for delta in model.stream(request)]


def play(model: OfflineModel, request: Request) -> list[ModelDelta]:
    return asyncio.run(stream(model, request))


def answer(model: OfflineModel, *messages: Message, round: int = 0) -> Message:
    assembler = Assembler(round, model.provider)
    for delta in play(model, Request("", messages)):
        assembler.feed(delta)
    return assembler.finish()


def results(message: Message, outcome: Outcome = "ok", content: str = "done") -> Message:
    return Message("tool", tuple(ToolResult(c.id, c.name, content, outcome) for c in message.calls))


LESSON = [
    Reply(thinking="The folder first.", text="I look.", calls=[Call("list_files")]),
    Reply(calls=[Call("delete_file", path="draft.txt"), Call("now")]),
    "All tidy.",
]


def test_a_script_of_rounds_plays_to_its_end_and_then_says_so() -> None:
    model, messages = OfflineModel(LESSON), [user("Tidy")]
    for round in range(4):
        reply = answer(model, *messages, round=round)
        messages.append(reply)
        if reply.calls:
            messages.append(results(reply))
    replies = [m for m in messages if m.role == "assistant"]
    assert [[c.name for c in m.calls] for m in replies] == [
        ["list_files"],
        ["delete_file", "now"],
        [],
        [],
    ]
    assert replies[0].text == "I look."
    assert replies[1].calls[0].input == {"path": "draft.txt"}
    assert replies[2].text == "All tidy."
    assert "it has 3 rounds" in replies[3].text
    assert "Reply(" in replies[3].text
    assert [m.stop_reason for m in replies] == ["tool_use", "tool_use", "end_turn", "end_turn"]


def test_the_place_in_the_script_is_read_off_the_history_alone() -> None:
    model = OfflineModel(LESSON)
    first = answer(model, user("a"))
    said = [user("a"), first, results(first), user("said meanwhile")]
    assert [c.name for c in answer(model, *said).calls] == ["delete_file", "now"]
    assert answer(OfflineModel(LESSON), *said) == answer(model, *said)  # after a restart
    assert answer(model, user("a new session")) == first
    by_the_engine = Message("assistant", (Text("stopped"),), stop_reason="engine")
    assert answer(model, user("a"), by_the_engine, user("b")) == first


def test_two_scripts_that_take_turns_count_only_their_own_replies() -> None:
    one, two = OfflineModel(["1", "2"], name="one"), OfflineModel(["a", "b"], name="two")
    messages = [user("x")]
    for model, text in ((one, "1"), (two, "a"), (one, "2"), (two, "b")):
        messages += [answer(model, *messages), user("go on")]
        assert messages[-2].text == text


def test_two_runs_of_one_model_at_once_do_not_disturb_each_other() -> None:
    model = OfflineModel(LESSON)

    async def both() -> Any:
        request = Request("", (user("a"),))
        return await asyncio.gather(stream(model, request), stream(model, request))

    left, right = asyncio.run(both())
    assert left == right


def test_a_reply_arrives_in_pieces_and_arguments_do_too() -> None:
    text = "Ein  längerer Text.\n\n" + "字" * 40
    model = OfflineModel([Reply(text, calls=[Call("f", path="a/rather/long/path.txt")])])
    deltas = play(model, Request("", (user("a"),)))
    texts = [d.text for d in deltas if isinstance(d, TextChunk)]
    arguments = [d.text for d in deltas if isinstance(d, CallChunk)]
    assert len(texts) > 5
    assert "".join(texts) == text
    assert len(arguments) > 2
    assert "".join(arguments) == '{"path":"a/rather/long/path.txt"}'
    assert isinstance(deltas[-1], Finish)


def test_usage_is_made_up_and_the_same_every_time() -> None:
    model = OfflineModel([Reply("x" * 10, thinking="y" * 3)])
    tool = ToolSpec("t" * 4, "d" * 4, {})
    request = Request("i" * 5, (user("u" * 7),), (tool,))
    ends = [play(model, request)[-1] for _ in range(2)]
    assert ends[0] == ends[1]
    assert isinstance(ends[0], Finish)
    # (5 instructions + 7 user + 8 and "{}" for the tool) / 4, and 13 / 4, each rounded up.
    assert (ends[0].usage.input_tokens, ends[0].usage.output_tokens) == (6, 4)


def test_pauses_are_waited_for_between_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await real(0)

    monkeypatch.setattr("agentloop_nb.models.offline.asyncio.sleep", sleep)
    script = [
        Reply(["one ", Pause(2.5), "two"], calls=[Pause(7.0), Call("f")]),
        Reply("x", pause_s=9),
    ]
    model = OfflineModel(script, pause_s=0.5)
    request = Request("", (user("a"),), stream_timeout_s=None)
    first = play(model, request)
    assert [s for s in waited if s not in (0, 0.5)] == [2.5, 7.0]
    assert waited.index(2.5) < waited.index(7.0)
    assert waited.count(0.5) == len(first) - 1  # every delta but the last
    waited.clear()
    play(model, replace(request, messages=(user("a"), Message("assistant", (), "offline"))))
    assert set(waited) == {9}


def test_a_pause_longer_than_the_streams_timeout_is_a_timeout() -> None:
    request = Request("", (user("a"),), stream_timeout_s=0.02)
    with pytest.raises(ProviderError, match="sent nothing for") as caught:
        play(OfflineModel([Reply(["a", Pause(60), "b"])]), request)
    assert caught.value.kind == "timeout"


@pytest.mark.parametrize(
    "failure", ["overloaded", ProviderError("busy", kind="overloaded", status=529)]
)
def test_a_failure_breaks_the_reply_off_where_it_would_have_ended(failure: Any) -> None:
    model = OfflineModel([Reply("Hel", failure=failure)])

    seen: list[ModelDelta] = []

    async def until_it_breaks() -> None:
        nonlocal seen
        async for delta in model.stream(Request("", (user("a"),))):
            seen += [delta]

    with pytest.raises(ProviderError) as caught:
        asyncio.run(until_it_breaks())
    assert seen == [TextChunk(1, "Hel")]
    assert caught.value.kind == "overloaded"
    assert caught.value is not failure


def test_the_last_call_of_a_reply_that_hit_the_token_limit_is_cut() -> None:
    calls = [Call("whole"), Call("cut", path="x")]
    model = OfflineModel([Reply(calls=calls, stop_reason="max_tokens")])
    assembler = Assembler(0, "offline")
    for delta in play(model, Request("", (user("a"),))):
        assembler.feed(delta)
    assert [c.name for c in assembler.finish().calls] == ["whole"]
    assert assembler.cut_names == ("cut",)


def test_a_call_may_have_any_argument_names_and_any_text() -> None:
    assert Call("f", name="x", self=1).arguments == '{"name":"x","self":1}'
    assert Call.raw("f", '{"path": ').arguments == '{"path": '
    assert (
        answer(OfflineModel([Reply(calls=[Call.raw("f", "{")])]), user("a")).calls[0].input == "{"
    )


def test_a_function_sees_the_request_and_reacts_to_results() -> None:
    def script(request: Request) -> Reply | str:
        if results := new_results(request):
            return f"{results[0].name} said {results[0].content}"
        return Reply(calls=[Call("ask", about=last_user_text(request))])

    model = OfflineModel(script)
    first = answer(model, user("old"), user("weather"))
    assert first.calls[0].input == {"about": "weather"}
    second = answer(model, user("weather"), first, results(first, content="sun"), user("and?"))
    assert second.text == "ask said sun"


@pytest.mark.parametrize("script", ["Hello", 3, None, [Reply("a"), 3], [Call("f")]])
def test_a_script_that_is_none_is_refused_when_it_is_made(script: Any) -> None:
    with pytest.raises(UsageError, match="must be a"):
        OfflineModel(script)


def test_a_function_that_returns_no_reply_is_told_so() -> None:
    def odd(_: Request) -> Any:
        return None

    with pytest.raises(UsageError, match="function returned is NoneType"):
        play(OfflineModel(odd), Request("", (user("a"),)))


def test_closing_the_stream_ends_it_at_once() -> None:
    async def scenario() -> list[ModelDelta]:
        model = OfflineModel([Reply(["a", Pause(600), "b"])])
        running = model.stream(Request("", (user("a"),)))
        first = await anext(running)
        await running.aclose()
        return [first, *[delta async for delta in running]]

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == [TextChunk(1, "a")]


# -- models by name

LIST = ToolSpec("list_files", "", {"type": "object", "properties": {}})
DELETE = ToolSpec(
    "delete_file",
    "",
    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)


def tour_to_its_end(listing: str, outcome: Outcome = "ok") -> list[Message]:
    model, messages = named("tour"), [user("Tidy the folder.")]
    for round in range(5):
        request = Request("", tuple(messages), (LIST, DELETE))
        reply = replace(model.reply(request), pause_s=0)
        messages.append(
            answer(
                OfflineModel(lambda _, reply=reply: reply, name=model.provider),
                *messages,
                round=round,
            )
        )
        if not messages[-1].calls:
            return messages
        listed = messages[-1].calls[0].name == "list_files"
        messages.append(
            results(messages[-1], content=listing) if listed else results(messages[-1], outcome)
        )
    raise AssertionError("the tour did not end")


@pytest.mark.parametrize(
    "listing",
    [
        '["data.csv", "notes.md", "old-report.csv"]',
        "data.csv\nold-report.csv (12 bytes)\nfolder.txt",
        "- gold.csv\n- old-report.csv",
    ],
)
def test_the_tour_looks_thinks_asks_and_reports(listing: str) -> None:
    messages = tour_to_its_end(listing)
    replies = [m for m in messages if m.role == "assistant"]
    assert [[(c.name, c.input) for c in m.calls] for m in replies] == [
        [("list_files", {})],
        [("delete_file", {"name": "old-report.csv"})],
        [],
    ]
    assert any(block.type == "thinking" for block in replies[0].blocks)
    final = replies[-1].text
    for part in ("\n- ", "\n```python\n", "\n|---|---|---|\n", "`old-report.csv` is gone"):
        assert part in final


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ("declined", "You declined"),
        ("unanswered", "Nobody answered"),
        ("unknown_outcome", "I do not know whether"),
        ("error", "did not work"),
    ],
)
def test_the_tour_says_what_became_of_its_call(outcome: Outcome, says: str) -> None:
    final = tour_to_its_end('["old.txt"]', outcome)[-1].text
    assert says in final
    assert "is gone" not in final


def test_the_tour_deletes_nothing_that_looks_wanted() -> None:
    assert "nothing to tidy" in tour_to_its_end('["data.csv", "folder.md"]')[-1].text


def test_the_tour_without_its_tools_says_which_it_needs() -> None:
    text = answer(named("tour"), user("Hi")).text
    assert "`list_files`" in text
    assert "`delete_file`" in text


def test_the_echo_repeats_what_was_said_last() -> None:
    model = named("echo")
    assert answer(model, user("a"), answer(model, user("a")), user("b  c")).text == "b  c"
