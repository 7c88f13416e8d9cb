"""What goes wrong with streams elsewhere, each by its symptom: bytes through the real SDK, whole
and cut after every event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentloop_nb import Agent, Limits, resilience
from agentloop_nb.closing import MOST_PAUSES
from agentloop_nb.errors import ProviderError, StreamCut
from agentloop_nb.events import ToolResultEvent, ToolRunning
from agentloop_nb.messages import (
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    user,
)
from agentloop_nb.run import Run
from tests.clocks import TestClock
from tests.loopback import Loopback, cut, raw, reply, say, seal, sign
from tests.streams import (
    Frames,
    anthropic,
    assembled,
    block,
    calls,
    chat,
    choice,
    collect,
    finish_of,
    frame,
    model_of,
    piece,
    responses,
    said,
    tool_use,
    until_it_ends,
    whole_and_cut,
)

CHAT = "openai-chat"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> TestClock:
    clock = TestClock()
    monkeypatch.setattr(resilience, "clock", clock)
    return clock


def called(frames: Frames) -> list[tuple[str, Any]]:
    """The calls of a Chat Completions reply."""
    message = assembled(whole_and_cut(CHAT, frames), CHAT)
    return [(call.name, call.input) for call in message.calls]


def f(n: int) -> int:
    """A tool."""
    return n


def play(
    provider: str, script: list[Any], tools: Sequence[Any] = (), **options: Any
) -> tuple[Run, Any]:
    """A run over these answers, and the server's record of it."""

    async def go(server: Loopback) -> Run:
        limits = options.pop("limits", Limits())
        agent = Agent(model_of(provider, server, **options), tools=tools, limits=limits)
        run = agent.start("Hi")
        await run
        return run

    with Loopback(script) as server:
        run = asyncio.run(go(server))
        assert not server.complaints
        return run, server.requests


ONE_TWO = [("f", {"n": 1}), ("f", {"n": 2})]


# -- calls in pieces


def test_two_calls_at_one_index_are_not_fused_into_broken_json() -> None:
    frames = chat(calls(piece(0, "A", "f", '{"n":1}')), calls(piece(0, "B", "f", '{"n":2}')))
    assert called(frames) == ONE_TWO


def test_two_whole_calls_without_an_index_stay_two() -> None:
    both = calls(piece(None, "a", "f", '{"n":1}'), piece(None, "b", "f", '{"n":2}'))
    assert called(chat(both)) == ONE_TWO


def test_interleaved_pieces_without_an_id_go_to_their_index() -> None:
    frames = chat(
        calls(piece(0, "A", "f")),
        calls(piece(1, "B", "f")),
        calls(piece(0, args='{"n"')),
        calls(piece(1, args='{"n":2}')),
        calls(piece(0, args=":1}")),
    )
    assert called(frames) == ONE_TWO


def test_an_id_that_comes_late_belongs_to_the_call_that_has_begun() -> None:
    frames = chat(
        calls(piece(0, name="f", args='{"n":')),
        calls(piece(1, name="f", args='{"n":2}')),
        calls(piece(0, "A")),
        calls(piece(None, "A", args="1}")),
    )
    assert called(frames) == ONE_TWO


def test_a_name_sent_with_every_piece_is_not_repeated() -> None:
    frames = chat(
        calls(piece(0, "A", "f", '{"n"')),
        calls(piece(0, None, "f", ":1")),
        calls(piece(0, None, "f", "}")),
    )
    assert called(frames) == [("f", {"n": 1})]


@pytest.mark.parametrize("args", ["", None, "{}"], ids=["empty", "absent", "object"])
def test_a_call_without_arguments_means_an_empty_object(args: str | None) -> None:
    assert called(chat(calls(piece(0, "A", "f", args)))) == [("f", {})]


def test_a_call_without_what_its_tool_needs_is_told_to_the_model_and_raises_nothing() -> None:
    frames = chat(calls(piece(0, "A", "f", "")))
    run, requests = play(CHAT, [raw(*frames), reply("So.")], [f])
    assert run.result is not None
    assert run.result.exit_reason == "end_turn"
    results = [e for e in run.events if isinstance(e, ToolResultEvent)]
    assert [e.outcome for e in results] == ["invalid"]
    assert "n" in requests[-1].body["messages"][-1]["content"]


@pytest.mark.parametrize("finish", ["stop", "other", "tool_calls"])
def test_whole_calls_run_whatever_the_finish_reason_says(finish: str) -> None:
    three = [calls(piece(i, f"id{i}", "f", f'{{"n":{i}}}')) for i in range(3)]
    frames = chat({"content": "Let me see."}, *three, finish=finish)
    assert called(frames) == [("f", {"n": i}) for i in range(3)]
    run, _ = play(CHAT, [raw(*frames), reply("Done.")], [f])
    assert [e.content for e in run.events if isinstance(e, ToolResultEvent)] == ["0", "1", "2"]
    assert run.result is not None
    assert run.result.text == "Done."


CUT_CALLS: dict[str, Frames] = {
    "anthropic": anthropic(
        *tool_use(0, "t0", "f", '{"n": 1}'), *tool_use(1, "t1", "f", "{}"), stop="max_tokens"
    ),
    CHAT: chat(
        calls(piece(0, "A", "f", '{"n": 1}')), calls(piece(1, "B", "f", "{}")), finish="length"
    ),
    "openai": responses(
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "function_call", "call_id": "A", "name": "f", "arguments": '{"n":1}'},
        },
        {
            "type": "response.output_item.done",
            "output_index": 1,
            "item": {"type": "function_call", "call_id": "B", "name": "f", "arguments": "{}"},
        },
        end={
            "type": "response.incomplete",
            "response": {
                "id": "resp_1",
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
            },
        },
    ),
}


@pytest.mark.parametrize("provider", CUT_CALLS)
def test_a_call_cut_by_the_limit_is_not_run_though_it_parses_nor_is_any_beside_it(
    provider: str,
) -> None:
    whole_and_cut(provider, CUT_CALLS[provider])
    run, requests = play(provider, [raw(*CUT_CALLS[provider]), reply("Shorter.")], [f])
    assert not [e for e in run.events if isinstance(e, ToolRunning)]
    assert [e.outcome for e in run.events if isinstance(e, ToolResultEvent)] == ["invalid"] * 2
    assert "cut" in json.dumps(requests[-1].body)
    assert run.result is not None
    assert (run.result.text, run.result.rounds) == ("Shorter.", 2)


# -- chunks that are odd


def test_chunks_without_choices_are_skipped_and_their_usage_is_read() -> None:
    frames = (
        frame({"choices": []}),
        *chat({"content": "Hi"}, after=[{"choices": [], "usage": {"prompt_tokens": 7}}]),
    )
    deltas = whole_and_cut(CHAT, frames)
    assert finish_of(deltas).usage == Usage(7)
    assert assembled(deltas, CHAT).text == "Hi"


def test_text_after_the_finish_reason_is_not_missed() -> None:
    late = {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": None}]}
    assert assembled(whole_and_cut(CHAT, chat({"content": "Hel"}, after=[late])), CHAT).text == (
        "Hello"
    )


def test_usage_that_is_sent_again_and_again_is_not_added_up() -> None:
    again = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 8}}
    frames = anthropic(*said(0, "Hi"), again, out=15)
    assert finish_of(whole_and_cut("anthropic", frames)).usage == Usage(25, 15)


@pytest.mark.parametrize("where", ["last", "every", "nowhere"])
def test_usage_is_read_on_the_last_chunk_on_every_chunk_or_nowhere(where: str) -> None:
    counts = [{"prompt_tokens": 9, "completion_tokens": n} for n in (1, 2, 3)]
    chunks = [{"choices": [{"index": 0, "delta": {"content": str(n)}}]} for n in range(3)]
    if where == "every":
        chunks = [chunk | {"usage": count} for chunk, count in zip(chunks, counts, strict=True)]
    last = [{"choices": [], "usage": counts[-1]}] if where == "last" else []
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    frames = tuple(map(frame, [*chunks, end, *last, "[DONE]"]))
    usage = finish_of(whole_and_cut(CHAT, frames)).usage
    assert usage == (Usage() if where == "nowhere" else Usage(9, 3))


# -- thinking


@pytest.mark.parametrize(
    ("pieces", "thinking", "text"),
    [
        (["<think>a</th", "ink>B"], "a", "B"),
        (["Hi <think>abc"], "abc", "Hi "),
        (["a < b", " and </thi"], "", "a < b and </thi"),
        (["<thi", "nk>a", "</think>", "\n\nB"], "a", "B"),
        (["a</think>B"], "", "a</think>B"),
        (["\n</think>B"], "", "\nB"),
        (["`<think>` is a tag"], "", "`<think>` is a tag"),
    ],
    ids=["split", "unclosed", "no-tag", "all-split", "stray-closer", "leading-closer", "in-code"],
)
@pytest.mark.parametrize("provider", ["anthropic", "openai", CHAT])
def test_think_tags_are_told_from_text_however_they_are_cut(
    provider: str, pieces: list[str], thinking: str, text: str
) -> None:
    deltas = whole_and_cut(provider, texts(provider, *pieces), think_tags=True)
    message = assembled(deltas, provider)
    assert "".join(b.text for b in message.blocks if isinstance(b, Thinking)) == thinking
    assert message.text == text


def texts(provider: str, *pieces: str) -> Frames:
    """A reply that is only these pieces of text."""
    if provider == "anthropic":
        return anthropic(*said(0, *pieces))
    if provider == CHAT:
        return chat(*({"content": piece} for piece in pieces))
    at = {"output_index": 0, "content_index": 0}
    deltas = [{"type": "response.output_text.delta", **at, "delta": piece} for piece in pieces]
    item = {"type": "message", "content": [{"type": "output_text", "text": "".join(pieces)}]}
    return responses(
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
        *deltas,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    )


@pytest.mark.parametrize(
    "delta",
    [{"reasoning": "x"}, {"reasoning_content": "x"}, {"reasoning": "x", "reasoning_content": "x"}],
    ids=["reasoning", "reasoning_content", "both"],
)
def test_thinking_is_read_under_either_name_and_told_once(delta: dict[str, Any]) -> None:
    message = assembled(whole_and_cut(CHAT, chat(delta, {"content": "So."})), CHAT)
    assert message.blocks == (Thinking("x"), Text("So."))


@pytest.mark.parametrize("model", ["deepseek-reasoner", "kimi-k2-thinking"])
def test_a_second_step_brings_the_reasoning_back_that_its_server_asks_for(model: str) -> None:
    first = chat(
        {"reasoning_content": "I need"},
        {"reasoning_content": " f."},
        calls(piece(0, "A", "f", '{"n":1}')),
    )
    whole_and_cut(CHAT, first)

    def with_model(name: str) -> list[dict[str, Any]]:
        with Loopback([raw(*first), reply("Done.")]) as server:
            adapter = model_of(CHAT, server)
            named = type(adapter)(name, base_url=server.base_url, api_key="test")
            assert Agent(named, tools=[f]).run_sync("Hi").text == "Done."
            sent: list[dict[str, Any]] = server.last.body["messages"]
            return sent

    assert with_model(model)[1]["reasoning_content"] == "I need f."
    assert "reasoning_content" not in with_model("gpt-test")[1]


def test_redacted_thinking_and_signatures_come_back_byte_for_byte_through_a_snapshot(
    own_folder: Path,
) -> None:
    thought, sealed = "Two  steps:\u2028\n é", seal("secret")
    frames = anthropic(
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": thought[:4]},
            {"type": "thinking_delta", "thinking": thought[4:]},
            {"type": "signature_delta", "signature": sign(thought)},
        ),
        *block(1, {"type": "redacted_thinking", "data": sealed}),
        *tool_use(2, "toolu_1", "f", '{"n": 1}'),
        stop="tool_use",
    )
    whole_and_cut("anthropic", frames)
    with Loopback([raw(*frames), reply("Done."), reply("More.")]) as server:

        async def one() -> str:
            run = Agent(model_of("anthropic", server), tools=[f], folder=own_folder).start("Hi")
            await run
            return run.session_id

        session_id = asyncio.run(one())

        async def two() -> None:
            agent = Agent(model_of("anthropic", server), tools=[f], folder=own_folder)
            await agent.session(session_id).run("And?")

        asyncio.run(two())
        assert not server.complaints
        for request in server.requests[1:]:
            content = request.body["messages"][1]["content"]
            assert content[:2] == [
                {"type": "thinking", "signature": sign(thought), "thinking": thought},
                {"type": "redacted_thinking", "data": sealed},
            ]
            assert [b["type"] for b in content[2:]] == ["tool_use"]


@pytest.mark.parametrize("now", ["on", "off"])
def test_thinking_switched_on_or_off_in_mid_turn_is_taken(now: str) -> None:
    thought = Thinking(
        "Hm.", Opaque("anthropic", json.dumps({"type": "thinking", "signature": sign("Hm.")}))
    )
    call = ToolCall("c0.0", "f", '{"n": 1}', "toolu_1")
    reply_before = Message("assistant", (call,) if now == "on" else (thought, call), "anthropic")
    history = (user("Hi"), reply_before, Message("tool", (ToolResult("c0.0", "f", "1"),)))
    with Loopback([reply("Done.")]) as server:
        options = {"thinking_budget": 1024} if now == "on" else {}
        model = model_of("anthropic", server, **options)
        deltas = asyncio.run(collect(model, history))
        assert not server.complaints
        assert "thinking" not in server.last.body
    assert assembled(deltas, "anthropic").text == "Done."


# -- ends that are no ends

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def test_a_paused_turn_goes_back_unchanged_and_goes_on() -> None:
    asked = block(1, SEARCH, {"type": "input_json_delta", "partial_json": '{"query": "x"}'})
    paused = anthropic(*said(0, "Searching."), *asked, stop="pause_turn")
    rest = anthropic(*block(0, FOUND), *said(1, "Found."))
    whole_and_cut("anthropic", paused)
    run, requests = play("anthropic", [raw(*paused), raw(*rest), reply("More.")])
    assert run.result is not None
    assert (run.result.exit_reason, run.result.text) == ("end_turn", "Found.")
    again = requests[1].body["messages"]
    assert [m["role"] for m in again] == ["user", "assistant"]
    assert again[1]["content"] == [
        {"type": "text", "text": "Searching."},
        SEARCH | {"input": {"query": "x"}},
    ]


def test_a_turn_that_is_paused_again_and_again_ends_with_words_about_it() -> None:
    paused = raw(*anthropic(*said(0, "Hm."), *block(1, SEARCH), stop="pause_turn"))
    run, requests = play("anthropic", [paused] * 50)
    assert run.result is not None
    assert run.result.exit_reason == "no_tool_calls"
    assert "paused" in run.result.words
    assert len(requests) == MOST_PAUSES + 1


def test_what_a_person_says_after_a_pause_leaves_no_call_of_the_server_open() -> None:
    paused = anthropic(*said(0, "Searching."), *block(1, SEARCH), stop="pause_turn")
    with Loopback([raw(*paused), reply("Well.")]) as server:
        model = model_of("anthropic", server)

        async def go() -> None:
            session = Agent(model, limits=Limits(max_turns=1)).session()
            await session.run("Hi")
            await session.run("Never mind.")

        asyncio.run(go())
        assert not server.complaints
        assert "server_tool_use" not in json.dumps(server.last.body)


@pytest.mark.parametrize("begun", [False, True], ids=["nothing-said", "a-call-begun"])
def test_a_refusal_is_seen_is_not_asked_again_and_leaves_the_session_in_order(begun: bool) -> None:
    half = [*said(0, "I would"), *tool_use(1, "t0", "f", '{"n": 1}'), *tool_use(2, "t1", "f", "{")]
    refused = anthropic(*(half if begun else []), stop="refusal")
    whole_and_cut("anthropic", refused)
    with Loopback([raw(*refused), reply("Of course.")]) as server:

        async def go() -> tuple[Any, Any]:
            session = Agent(model_of("anthropic", server), tools=[f]).session()
            return await session.run("Hi"), await session.run("Another thing.")

        first, second = asyncio.run(go())
        assert not server.complaints
        assert len(server.requests) == 2
        assert "tool_use" not in [
            b["type"] for m in server.last.body["messages"] for b in m["content"]
        ]
        assert all(m["content"] for m in server.last.body["messages"])
    assert first.exit_reason == "no_tool_calls"
    assert "refused" in first.words
    assert (second.exit_reason, second.text) == ("end_turn", "Of course.")


def test_an_overload_inside_a_stream_that_began_with_200_is_tried_again(clock: TestClock) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    frames = (*anthropic(*said(0, "Hel"), stop=None), frame(error))
    with pytest.raises(ProviderError) as caught:
        whole_and_cut("anthropic", frames)
    assert caught.value.kind == "overloaded"
    run, requests = play("anthropic", [raw(*frames), reply("Hello.")])
    assert run.result is not None
    assert (run.result.text, len(requests)) == ("Hello.", 2)


RESPONSES_ENDS = {
    "failed": {
        "type": "response.failed",
        "response": {"error": {"code": "server_error", "message": "No."}},
    },
    "error": {"type": "error", "code": "server_error", "message": "No."},
}


@pytest.mark.parametrize("end", RESPONSES_ENDS)
def test_a_failed_response_is_an_error_and_no_success(end: str, clock: TestClock) -> None:
    frames = responses(
        {"type": "response.output_text.delta", "output_index": 0, "delta": "Hel"},
        end=RESPONSES_ENDS[end],
    )
    with pytest.raises(ProviderError, match=r"No\."):
        whole_and_cut("openai", frames)
    run, requests = play("openai", [raw(*frames), reply("Hello.")])
    assert run.result is not None
    assert (run.result.text, len(requests)) == ("Hello.", 2)


@pytest.mark.parametrize("provider", ["anthropic", "openai", CHAT])
def test_a_connection_that_breaks_in_mid_stream_is_tried_again_and_nothing_raw_escapes(
    provider: str, clock: TestClock
) -> None:
    run, requests = play(provider, [reply(say("Hel", cut())), reply("Hello.")])
    assert run.result is not None
    assert (run.result.text, len(requests)) == ("Hello.", 2)


@pytest.mark.parametrize("provider", ["anthropic", "openai", CHAT])
def test_a_body_that_ends_cleanly_but_early_is_no_answer(provider: str) -> None:
    with Loopback([raw(*texts(provider, "Hel")[:-2], cut(clean=True))]) as server:
        _, error = asyncio.run(until_it_ends(model_of(provider, server)))
    assert isinstance(error, StreamCut)


HALVES = ['{"n": 1, "t": "\\ud83c', "\\udf78 \\", 'n"}']


@pytest.mark.parametrize("provider", ["anthropic", "openai", CHAT])
def test_escapes_cut_in_their_middle_come_together_and_can_be_sent_again(provider: str) -> None:
    whole = "".join(HALVES)
    frames = {
        "anthropic": anthropic(*tool_use(0, "t0", "f", *HALVES), stop="tool_use"),
        CHAT: chat(
            calls(piece(0, "A", "f", HALVES[0])), *(calls(piece(0, args=h)) for h in HALVES[1:])
        ),
        "openai": responses(
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {"type": "function_call", "call_id": "A", "name": "f", "arguments": ""},
            },
            *(
                {
                    "type": "response.function_call_arguments.delta",
                    "output_index": 0,
                    "delta": half,
                }
                for half in HALVES
            ),
            {
                "type": "response.output_item.done",
                "output_index": 0,
                "item": {
                    "type": "function_call",
                    "call_id": "A",
                    "name": "f",
                    "arguments": whole,
                },
            },
        ),
    }[provider]
    (call,) = assembled(whole_and_cut(provider, frames), provider).calls
    assert call.input == {"n": 1, "t": "🍸 \n"}
    run, requests = play(provider, [raw(*frames), reply("So.")], [f])
    assert run.result is not None
    assert run.result.text == "So."
    assert "🍸" in json.dumps(requests[-1].body, ensure_ascii=False).replace("\\\\", "\\").replace(
        "\\ud83c\\udf78", "🍸"
    )


# -- what comes in place of a stream


@pytest.mark.parametrize("provider", ["anthropic", "openai", CHAT])
def test_a_web_page_in_place_of_a_stream_is_said_to_be_one(provider: str) -> None:
    page = b"<!doctype html>\n<title>Sign in</title>\n<p>Please sign in.</p>\n"
    with Loopback([raw(page)]) as server:
        deltas, error = asyncio.run(until_it_ends(model_of(provider, server)))
        assert len(server.requests) == 1
    assert deltas == []
    assert isinstance(error, ProviderError)
    assert error.kind == "protocol"
    assert "<!doctype html> <title>Sign in</title>" in str(error)
    assert "base URL" in str(error)


@pytest.mark.parametrize("provider", ["anthropic", "openai", CHAT])
def test_an_error_object_in_place_of_a_stream_is_that_error(provider: str) -> None:
    body = {
        "error": {"code": "rate_limit_exceeded", "type": "rate_limit_error", "message": "Slow."}
    }
    with Loopback([raw(json.dumps(body).encode())]) as server:
        _, error = asyncio.run(until_it_ends(model_of(provider, server)))
    assert isinstance(error, ProviderError)
    assert (error.kind, "Slow." in str(error)) == ("rate_limit", True)


def test_a_clean_stream_is_a_clean_stream() -> None:
    """The harness itself: it would notice a decoder that loses a piece."""
    with Loopback([raw(*chat({"content": "Hel"}, {"content": "lo"}))]) as server:
        deltas = asyncio.run(collect(model_of(CHAT, server)))
    assert assembled(deltas, CHAT).text == "Hello"


# -- found by a breaker, and mended as a kind


@pytest.mark.parametrize("depth", [99, 101, 260, 5000])
@pytest.mark.parametrize("snapshots", ["every_tool_round", "manual"])
def test_arguments_nested_too_deeply_neither_hang_the_run_nor_end_it(
    depth: int, snapshots: Any, own_folder: Path
) -> None:
    deep = '{"n": ' + "[" * depth + "]" * depth + "}"
    frames = anthropic(*tool_use(0, "t", "f", deep), stop="tool_use")
    with Loopback([raw(*frames), reply("So.")]) as server:

        async def go() -> Any:
            model = model_of("anthropic", server)
            agent = Agent(model, tools=[f], folder=own_folder, snapshots=snapshots)
            async with asyncio.timeout(20):
                return await agent.run("Hi")

        result = asyncio.run(go())
        assert not server.complaints
    assert (result.exit_reason, result.text) == ("end_turn", "So.")


HALF = "\\ud83c"


@pytest.mark.parametrize("provider", ["anthropic", "openai", CHAT])
def test_half_a_character_from_a_server_leaves_a_session_that_can_be_sent(provider: str) -> None:
    frames = {
        CHAT: chat(calls(piece(0, "call_HALF", "f", '{"n": 1}')), finish="tool_calls"),
        "anthropic": anthropic(
            *block(0, FOUND | {"content": [{"type": "web_search_result", "title": "HALF"}]}),
            *tool_use(1, "t", "f", '{"n": 1}'),
            stop="tool_use",
        ),
        "openai": responses(
            {
                "type": "response.output_item.done",
                "output_index": 0,
                "item": {"type": "web_search_call", "id": "ws_HALF", "status": "completed"},
            },
            {
                "type": "response.output_item.done",
                "output_index": 1,
                "item": {
                    "type": "function_call",
                    "call_id": "call_HALF",
                    "name": "f",
                    "arguments": '{"n": 1}',
                },
            },
        ),
    }[provider]
    broken = [frame.replace(b"HALF", HALF.encode()) for frame in frames]
    with Loopback([raw(*broken), reply("One."), reply("Two.")], check=False) as server:

        async def go() -> list[str]:
            session = Agent(model_of(provider, server), tools=[f]).session()
            return [(await session.run(prompt)).text for prompt in ("Hi", "Again")]

        assert asyncio.run(go()) == ["One.", "Two."]


def test_half_a_character_in_a_tools_description_can_be_sent() -> None:
    def odd() -> str:
        return "so"

    odd.__doc__ = "Odd \ud83c."
    run, _ = play("anthropic", [reply("Fine.")], [odd])
    assert run.result is not None
    assert run.result.text == "Fine."


def test_a_chat_stream_without_a_finish_reason_runs_no_call() -> None:
    """Its last call may be cut, however whole it looks."""
    frames = (frame(choice(calls(piece(0, "a", "f", '{"n": 1}')))), frame("[DONE]"))
    run, _ = play(CHAT, [raw(*frames), reply("So.")], [f])
    assert not [e for e in run.events if isinstance(e, ToolRunning)]
    assert run.result is not None
    assert run.result.text == "So."


def test_an_error_object_inside_a_chat_stream_is_an_error(clock: TestClock) -> None:
    error = {"object": "error", "message": "boom", "code": 500}
    run, requests = play(CHAT, [raw(frame(error), frame("[DONE]")), reply("So.")], [f])
    assert len(requests) == 2
    assert run.result is not None
    assert run.result.text == "So."


NAMED = {
    "anthropic": {"error": {"type": "billing_error", "message": "Your credit balance is too low."}},
    "openai": {"error": {"code": "insufficient_quota", "message": "You exceeded your quota."}},
    CHAT: {"error": {"code": "insufficient_quota", "message": "You exceeded your quota."}},
}


@pytest.mark.parametrize("bare", [False, True], ids=["wrapped", "bare"])
@pytest.mark.parametrize("provider", NAMED)
def test_an_error_that_only_its_events_name_tells_is_that_error(provider: str, bare: bool) -> None:
    error: dict[str, Any] = NAMED[provider]
    told = f"event: error\ndata: {json.dumps(error['error'] if bare else error)}\n\n".encode()
    run, requests = play(provider, [raw(told)] * 3)
    assert run.result is not None
    assert (run.result.exit_reason, len(requests)) == ("fatal_error", 1)
    assert error["error"]["message"] in str(run.result.error)


def test_a_refusal_beside_a_call_runs_nothing_with_responses_too() -> None:
    item = "response.output_item.done"
    said_no = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "No."}]}
    asked = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"n": 1}'}
    frames = responses(
        {"type": item, "output_index": 0, "item": said_no},
        {"type": item, "output_index": 1, "item": asked},
    )
    run, _ = play("openai", [raw(*frames)], [f])
    assert not [e for e in run.events if isinstance(e, ToolRunning)]
    assert run.result is not None
    assert (run.result.exit_reason, run.result.text) == ("no_tool_calls", "No.")


def test_output_that_stands_only_in_the_last_event_is_read() -> None:
    output = [
        {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"n": 1}'},
    ]
    end = {
        "type": "response.completed",
        "response": {"id": "resp_1", "status": "completed", "output": output},
    }
    run, _ = play("openai", [raw(*responses(end=end)), reply("Done.")], [f])
    assert [e.content for e in run.events if isinstance(e, ToolResultEvent)] == ["1"]
    assert run.result is not None
    assert run.result.messages[1].text == "I look."


def test_thinking_in_parts_of_the_content_is_thinking() -> None:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    frames = chat({"content": [part]}, {"content": [{"type": "text", "text": "So."}]})
    message = assembled(whole_and_cut(CHAT, frames), CHAT)
    assert message.blocks == (Thinking("Hm."), Text("So."))


def test_a_delta_whose_block_never_began_is_not_lost() -> None:
    def delta(index: int, **fields: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    frames = anthropic(
        delta(0, type="thinking_delta", thinking="Hm."),
        delta(1, type="text_delta", text="So."),
        delta(1, type="text_delta", text=" Yes."),
    )
    message = assembled(whole_and_cut("anthropic", frames), "anthropic")
    assert message.blocks == (Thinking("Hm."), Text("So. Yes."))


SHAPES: dict[str, list[tuple[bytes, ...]]] = {
    "anthropic": [anthropic({"type": "content_block_start", "index": [1], "content_block": {}})],
    "openai": [
        responses({"type": "response.output_item.added", "output_index": [1], "item": {}}),
        responses(
            {
                "type": "response.output_item.done",
                "output_index": 0,
                "item": {"type": "message", "content": 5},
            }
        ),
    ],
    CHAT: [(frame({"choices": 5}),), (frame(choice({"tool_calls": 5})), frame("[DONE]"))],
}


@pytest.mark.parametrize("provider", SHAPES)
def test_an_event_of_no_shape_that_the_format_has_is_a_typed_error(provider: str) -> None:
    for frames in SHAPES[provider]:
        with Loopback([raw(*frames)]) as server:
            _, error = asyncio.run(until_it_ends(model_of(provider, server)))
        assert isinstance(error, ProviderError)
        assert error.kind == "protocol"
        assert "not of its format" in str(error)


def test_a_chat_answer_that_came_whole_counts_though_its_connection_breaks() -> None:
    frames = chat({"content": "Hello."})[:-1]
    run, requests = play(CHAT, [raw(*frames, cut()), reply("Never.")])
    assert run.result is not None
    assert (run.result.text, len(requests)) == ("Hello.", 1)
