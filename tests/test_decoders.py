"""Decoders as pure objects: each recorded stream is fed whole, cut at every event, and in bytes of
every size; what servers are known to send beside the documented form has a test of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop_nb.errors import ProviderError, StreamCut
from agentloop_nb.messages import Message, Opaque, Text, Thinking, ToolCall, Usage
from agentloop_nb.models.anthropic_decoder import AnthropicDecoder
from agentloop_nb.models.assemble import Assembler
from agentloop_nb.models.base import (
    CallEnd,
    Decoder,
    Finish,
    ModelDelta,
    TextChunk,
    ThinkingChunk,
)
from agentloop_nb.models.chat_decoder import ChatDecoder
from agentloop_nb.models.responses_decoder import ResponsesDecoder, digest_of
from agentloop_nb.models.wire import DONE, EventStream

Event = dict[str, Any]


def decoded(decoder: Decoder, events: Sequence[Any]) -> list[ModelDelta]:
    deltas = [delta for event in events for delta in decoder.feed(event)]
    return [*deltas, *decoder.close()]


def assembled(decoder: Decoder, events: Sequence[Any]) -> tuple[Message, Assembler]:
    assembler = Assembler(0, "p")
    for delta in decoded(decoder, events):
        assembler.feed(delta)
    return assembler.finish(), assembler


# -- Anthropic


def a_start(index: int | None, **block: Any) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def a_delta(index: int | None, kind: str, **fields: Any) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def a_stop(index: int | None) -> Event:
    return {"type": "content_block_stop", "index": index}


def a_begin(**usage: int) -> Event:
    counts = {"input_tokens": 25, "output_tokens": 1, **usage}
    return {"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": counts}}


def a_end(reason: str, *outputs: int) -> list[Event]:
    deltas = [
        {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": n}}
        for n in outputs[:-1]
    ]
    last = {"output_tokens": outputs[-1] if outputs else 15}
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": last}
    return [*deltas, end, {"type": "message_stop"}]


ANTHROPIC: list[Event] = [
    a_begin(cache_read_input_tokens=100, cache_creation_input_tokens=10),
    {"type": "ping"},
    a_start(0, type="thinking", thinking="", signature=""),
    a_delta(0, "thinking_delta", thinking="I look "),
    a_delta(0, "thinking_delta", thinking="first."),
    a_delta(0, "signature_delta", signature="EqQB+/=="),
    a_stop(0),
    a_start(1, type="redacted_thinking", data="b3BhcXVl"),
    a_stop(1),
    a_start(2, type="text", text=""),
    a_delta(2, "text_delta", text="Let me "),
    {"type": "a_new_kind_of_event", "index": 2},
    a_delta(2, "text_delta", text="see."),
    a_stop(2),
    a_start(3, type="tool_use", id="toolu_A", name="list_files", input={}),
    a_delta(3, "input_json_delta", partial_json=""),
    a_delta(3, "input_json_delta", partial_json='{"folder": '),
    a_delta(3, "input_json_delta", partial_json='"src"}'),
    a_stop(3),
    a_start(4, type="tool_use", id="toolu_B", name="now", input={}),
    a_delta(4, "input_json_delta", partial_json=""),
    a_stop(4),
    *a_end("tool_use", 8, 15),
]


def test_anthropic_stream_becomes_a_message_with_everything_it_must_get_back() -> None:
    message, assembler = assembled(AnthropicDecoder(), ANTHROPIC)
    signed = Opaque("anthropic", '{"type":"thinking","signature":"EqQB+/=="}')
    redacted = Opaque("anthropic", '{"type":"redacted_thinking","data":"b3BhcXVl"}')
    assert message.blocks == (
        Thinking("I look first.", signed),
        Thinking("", redacted),
        Text("Let me see."),
        ToolCall("c0.0", "list_files", '{"folder": "src"}', "toolu_A"),
        ToolCall("c0.1", "now", "{}", "toolu_B"),
    )
    assert message.stop_reason == "tool_use"
    # The figures are cumulative: assigned, never added; the input includes both cache figures.
    assert assembler.usage == Usage(135, 15, 100, 10)


def test_anthropic_usage_of_repeated_deltas_is_not_added_up() -> None:
    events = [a_begin(), a_start(0, type="text", text="x"), a_stop(0), *a_end("end_turn", 8, 15)]
    assert assembled(AnthropicDecoder(), events)[1].usage == Usage(25, 15)


def test_anthropic_call_cut_by_the_token_limit_has_no_end_though_its_block_has() -> None:
    events = [
        a_begin(),
        a_start(0, type="tool_use", id="a", name="whole", input={}),
        a_stop(0),
        a_start(1, type="tool_use", id="b", name="cut", input={}),
        a_delta(1, "input_json_delta", partial_json='{"path": "x"}'),
        a_stop(1),
        *a_end("max_tokens"),
    ]
    message, assembler = assembled(AnthropicDecoder(), events)
    assert [call.name for call in message.calls] == ["whole"]
    assert assembler.cut_names == ("cut",)


def test_anthropic_arguments_given_whole_at_the_start_are_taken() -> None:
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}
    events = [a_begin(), a_start(0, **call), a_stop(0), *a_end("tool_use")]
    assert assembled(AnthropicDecoder(), events)[0].calls[0].input == {"x": 1}


def test_anthropic_blocks_of_a_servers_own_tools_are_kept_whole() -> None:
    events = [
        a_begin(),
        a_start(0, type="server_tool_use", id="s", name="web_search", input={}),
        a_delta(0, "input_json_delta", partial_json='{"query":"x"}'),
        a_stop(0),
        *a_end("pause_turn"),
    ]
    message, _ = assembled(AnthropicDecoder(), events)
    (block,) = message.blocks
    assert isinstance(block, Thinking)
    assert block.opaque is not None
    assert json.loads(block.opaque.data)["input"] == {"query": "x"}
    assert message.stop_reason == "pause_turn"


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "max_tokens"),
        ("something_new", "unknown"),
    ],
)
def test_anthropic_stop_reasons_are_ours(reason: str, ours: str) -> None:
    events = [a_begin(), *a_end(reason)]
    assert assembled(AnthropicDecoder(), events)[0].stop_reason == ours


def test_anthropic_overload_inside_a_stream_is_known_by_its_type() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ProviderError, match="Overloaded") as caught:
        decoded(AnthropicDecoder(), [a_begin(), error])
    assert caught.value.kind == "overloaded"
    assert caught.value.status is None


# -- Chat Completions


def chunk(finish: str | None = None, **delta: Any) -> Event:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def calls(*pieces: Event, finish: str | None = None) -> Event:
    return chunk(finish, tool_calls=list(pieces))


def piece(
    index: int | None = None, id: str | None = None, name: str | None = None, args: Any = None
) -> Event:
    wire: Event = {"function": {}}
    if index is not None:
        wire["index"] = index
    if id is not None:
        wire["id"] = id
    if name is not None:
        wire["function"]["name"] = name
    if args is not None:
        wire["function"]["arguments"] = args
    return wire


COUNTS = {
    "prompt_tokens": 50,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 32},
}

CHAT: list[Any] = [
    {"choices": [], "prompt_filter_results": []},
    chunk(role="assistant", content=""),
    chunk(reasoning_content="Look "),
    chunk(reasoning_content="first."),
    chunk(content="Let me "),
    chunk(content="see."),
    calls(piece(0, "call_A", "list_files", "")),
    calls(piece(0, args='{"folder": ')),
    calls(piece(0, args='"src"}')),
    calls(piece(1, "call_B", "now", None)),
    chunk("tool_calls"),
    {"choices": [], "usage": COUNTS},
    DONE,
]


def test_chat_stream_becomes_a_message_and_its_usage_is_read_from_a_chunk_without_choices() -> None:
    message, assembler = assembled(ChatDecoder(), CHAT)
    assert message.blocks == (
        Thinking("Look first."),
        Text("Let me see."),
        ToolCall("c0.0", "list_files", '{"folder": "src"}', "call_A"),
        ToolCall("c0.1", "now", "{}", "call_B"),
    )
    assert message.stop_reason == "tool_use"
    assert assembler.usage == Usage(50, 9, 32)


CALL_SHAPES: dict[str, list[Event]] = {
    "a new id at a used index opens a new call": [
        calls(piece(0, "A", "f", '{"n":1}')),
        calls(piece(0, "B", "f", '{"n":2}')),
    ],
    "whole calls without an index": [
        calls(piece(id="A", name="f", args='{"n":1}'), piece(id="B", name="f", args='{"n":2}')),
    ],
    "whole calls with neither id nor index": [
        calls(piece(name="f", args='{"n":1}')),
        calls(piece(name="f", args='{"n":2}')),
    ],
    "whole calls without ids at one index": [
        calls(piece(0, name="f", args='{"n":1}')),
        calls(piece(0, name="f", args='{"n":2}')),
    ],
    "interleaved pieces without an id": [
        calls(piece(0, "A", "f"), piece(1, "B", "f")),
        calls(piece(0, args='{"n"')),
        calls(piece(1, args='{"n":')),
        calls(piece(0, args=":1}")),
        calls(piece(1, args="2}")),
    ],
    "an id that comes late": [
        calls(piece(0, name="f", args='{"n":')),
        calls(piece(1, name="f", args='{"n":2}')),
        calls(piece(0, id="A", args="1}")),
    ],
    "an id on every piece, no index": [
        calls(piece(id="A", name="f", args='{"n":')),
        calls(piece(id="B", name="f", args='{"n":')),
        calls(piece(id="A", args="1}")),
        calls(piece(id="B", args="2}")),
    ],
    "one id for two calls": [
        calls(piece(0, "A", "f", '{"n":1}')),
        calls(piece(1, "A", "f", '{"n":2}')),
    ],
    "the full name on every piece": [
        calls(piece(0, "A", "f", '{"n":')),
        calls(piece(0, None, "f", "1}")),
        calls(piece(1, "B", "f", '{"n":')),
        calls(piece(1, "B", "f", "2}")),
    ],
    "arguments as an object": [
        calls(piece(0, "A", "f", {"n": 1}), piece(1, "B", "f", {"n": 2})),
    ],
    "the name before the id": [
        calls(piece(0, name="f")),
        calls(piece(0, id="A")),
        calls(piece(0, args='{"n":1}')),
        calls(piece(1, "B", "f", '{"n":2}')),
    ],
}


@pytest.mark.parametrize("shape", CALL_SHAPES)
@pytest.mark.parametrize("finish", ["tool_calls", "stop", "other"])
def test_chat_two_calls_stay_two_and_whole_with(shape: str, finish: str) -> None:
    message, assembler = assembled(ChatDecoder(), [*CALL_SHAPES[shape], chunk(finish), DONE])
    assert [(call.name, call.input) for call in message.calls] == [("f", {"n": 1}), ("f", {"n": 2})]
    assert message.stop_reason == "tool_use"  # decided by what is there, not by what is said
    assert not assembler.cut


@pytest.mark.parametrize("args", ["", None, "{}", {}])
def test_chat_a_call_without_arguments_is_a_call_with_an_empty_object(args: Any) -> None:
    message, _ = assembled(ChatDecoder(), [calls(piece(0, "A", "f", args)), chunk("tool_calls")])
    assert [(c.name, c.arguments) for c in message.calls] == [("f", "{}")]


def test_chat_calls_without_arguments_ids_and_indexes_do_not_fuse_their_names() -> None:
    events = [calls(piece(name="f"), piece(name="g")), chunk("stop"), DONE]
    assert [c.name for c in assembled(ChatDecoder(), events)[0].calls] == ["f", "g"]


def test_chat_a_name_in_pieces_is_joined() -> None:
    events = [
        calls(piece(0, "A", "list_")),
        calls(piece(0, None, "files", "")),
        calls(piece(0, args="{}")),
        chunk("tool_calls"),
    ]
    assert [c.name for c in assembled(ChatDecoder(), events)[0].calls] == ["list_files"]


def test_chat_a_call_that_never_gets_a_name_is_an_error_not_a_silence() -> None:
    with pytest.raises(ProviderError, match="without a name") as caught:
        decoded(ChatDecoder(), [calls(piece(0, "A", None, "{}")), chunk("tool_calls"), DONE])
    assert caught.value.kind == "protocol"


def test_chat_a_call_cut_by_the_token_limit_has_no_end_though_it_parses() -> None:
    events = [
        calls(piece(0, "A", "whole", "{}")),
        calls(piece(1, "B", "cut", '{"path":"x"}')),
        chunk("length"),
        DONE,
    ]
    message, assembler = assembled(ChatDecoder(), events)
    assert [call.name for call in message.calls] == ["whole"]
    assert assembler.cut_names == ("cut",)
    assert message.stop_reason == "max_tokens"


def test_chat_what_comes_after_the_finish_reason_is_not_missed() -> None:
    events = [chunk("stop", content="A"), chunk(content="B"), calls(piece(0, "A", "f", "{}")), DONE]
    message, _ = assembled(ChatDecoder(), events)
    assert message.text == "AB"
    assert [call.name for call in message.calls] == ["f"]


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x", "reasoning_content": "x"},
    ],
)
def test_chat_thinking_is_read_under_either_name_and_told_once(delta: Event) -> None:
    message, _ = assembled(ChatDecoder(), [chunk(**delta), chunk("stop", content="y"), DONE])
    assert message.blocks == (Thinking("x"), Text("y"))


def test_chat_a_refusal_is_seen_and_is_no_natural_end() -> None:
    message, _ = assembled(ChatDecoder(), [chunk(refusal="I can"), chunk("stop", refusal="not.")])
    assert (message.text, message.stop_reason) == ("I cannot.", "refusal")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "slow down", "code": "rate_limit_exceeded"}, "rate_limit"),
        ({"message": "Upstream is down", "code": 502}, "server"),
        ({"message": "no more", "type": "insufficient_quota"}, "billing"),
        ("plain words", "server"),
    ],
)
def test_chat_an_error_inside_a_stream_is_classed(error: Any, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        decoded(ChatDecoder(), [chunk(content="Hel"), {"error": error}])
    assert caught.value.kind == kind


def test_chat_a_server_that_sends_no_done_is_complete_with_its_finish_reason() -> None:
    assert assembled(ChatDecoder(), [chunk("stop", content="x")])[0].text == "x"


# -- Responses


def r(kind: str, **fields: Any) -> Event:
    return {"type": f"response.{kind}", **fields}


def r_item(index: int, done: bool, **item: Any) -> Event:
    kind = "output_item.done" if done else "output_item.added"
    return r(kind, output_index=index, item=item)


def r_text(index: int, text: str, part: int = 0) -> Event:
    return r("output_text.delta", output_index=index, content_index=part, delta=text)


def r_end(kind: str = "completed", **fields: Any) -> Event:
    usage = {
        "input_tokens": 40,
        "output_tokens": 7,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 5},
    }
    return r(kind, response={"id": "resp_1", "status": kind, "usage": usage, **fields})


REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Look first."}],
    "encrypted_content": "gAAA==",
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_A",
    "name": "list_files",
    "arguments": '{"folder": "src"}',
}
RESPONSES: list[Event] = [
    r("created", response={"id": "resp_1"}),
    r_item(0, False, id="rs_1", type="reasoning", summary=[]),
    r("reasoning_summary_part.added", output_index=0, summary_index=0),
    r("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="Look "),
    r("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="first."),
    r("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="Then act."),
    r_item(0, True, **REASONING),
    r_item(1, False, id="msg_1", type="message", content=[]),
    r("content_part.added", output_index=1, content_index=0),
    r_text(1, "Let me "),
    r("something.new", output_index=1),
    r_text(1, "see."),
    r_item(1, True, **MESSAGE),
    r_item(2, False, **{**CALL, "arguments": "", "status": "in_progress"}),
    r("function_call_arguments.delta", output_index=2, delta='{"folder": '),
    r("function_call_arguments.delta", output_index=2, delta='"src"}'),
    r("function_call_arguments.done", output_index=2, arguments='{"folder": "src"}'),
    r_item(2, True, **CALL),
    r_end(),
]


def test_responses_stream_becomes_a_message_with_its_items_beside_it() -> None:
    message, assembler = assembled(ResponsesDecoder(after="d1"), RESPONSES)
    thinking, text, call = message.blocks
    assert isinstance(thinking, Thinking)
    assert thinking.text == "Look first.\n\nThen act."
    assert thinking.opaque is not None
    assert json.loads(thinking.opaque.data) == REASONING
    assert text == Text("Let me see.")
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments, call.provider_id) == (
        "list_files",
        '{"folder": "src"}',
        "call_A",
    )
    assert message.opaque is not None
    head = {"id": "msg_1", "status": "completed", "phase": "commentary", "parts": ["output_text"]}
    assert json.loads(message.opaque.data) == {
        "id": "resp_1",
        "after": "d1",
        "said": digest_of(["Let me see.", '{"folder": "src"}']),
        "messages": [head],
    }
    assert message.stop_reason == "tool_use"
    assert assembler.usage == Usage(40, 7, 30, 5)


def test_responses_items_that_come_without_deltas_are_taken_from_their_end() -> None:
    events = [r_item(0, True, **REASONING), r_item(1, True, **MESSAGE), r_item(2, True, **CALL)]
    message, _ = assembled(ResponsesDecoder(), [*events, r_end()])
    assert message.text == "Let me see."
    assert [block.text for block in message.blocks if isinstance(block, Thinking)] == [
        "Look first."
    ]
    assert message.calls[0].input == {"folder": "src"}


def test_responses_summaries_that_are_empty_are_no_thinking() -> None:
    """Seed 553 of the random streams: two of them made a blank line."""
    empty = {"type": "summary_text", "text": ""}
    item = {"type": "reasoning", "id": "rs_1", "summary": [empty, empty]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    deltas = decoded(ResponsesDecoder(), [done, RESPONSES[-1]])
    assert not [delta for delta in deltas if isinstance(delta, ThinkingChunk)]


@pytest.mark.parametrize("status", ["incomplete", "completed"])
def test_responses_incomplete_is_a_cut_reply_and_its_last_call_has_no_end(status: str) -> None:
    cut = {**CALL, "status": status}
    end = r_end("incomplete", incomplete_details={"reason": "max_output_tokens"})
    message, assembler = assembled(ResponsesDecoder(), [r_item(0, True, **cut), end])
    assert message.stop_reason == "max_tokens"
    assert message.calls == ()
    assert assembler.cut_names == ("list_files",)


def test_responses_refusal_is_seen_and_is_no_natural_end() -> None:
    events = [
        r_item(0, False, type="message"),
        r("refusal.delta", output_index=0, content_index=0, delta="I cannot."),
        r_end(),
    ]
    message, _ = assembled(ResponsesDecoder(), events)
    assert (message.text, message.stop_reason) == ("I cannot.", "refusal")


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (r("failed", response={"error": {"code": "server_error", "message": "m"}}), "server"),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "m"}, "rate_limit"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "m"}}, "request"),
        (r("failed", response={"error": None}), "server"),
    ],
)
def test_responses_failures_are_errors_and_no_ends(event: Event, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        decoded(ResponsesDecoder(), [r_text(0, "Hel"), event])
    assert caught.value.kind == kind


# -- all three

STREAMS: dict[str, tuple[Callable[[], Decoder], list[Any], int]] = {
    # The last figure: how many events at the end come after the reply is complete.
    "anthropic": (AnthropicDecoder, ANTHROPIC, 0),
    "chat": (ChatDecoder, CHAT, 2),
    "responses": (ResponsesDecoder, RESPONSES, 0),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_at_any_event_is_never_taken_for_an_answer(name: str) -> None:
    make, events, after = STREAMS[name]
    for length in range(len(events) - after):
        decoder = make()
        deltas = [delta for event in events[:length] for delta in decoder.feed(event)]
        assert not any(isinstance(delta, Finish) for delta in deltas)
        with pytest.raises(StreamCut, match="ended before its last event"):
            list(decoder.close())


@pytest.mark.parametrize("name", STREAMS)
def test_the_last_delta_comes_once_and_last_whatever_follows_on_the_wire(name: str) -> None:
    make, events, _ = STREAMS[name]
    deltas = decoded(make(), [*events, *events])
    assert [i for i, d in enumerate(deltas) if isinstance(d, Finish)] == [len(deltas) - 1]
    assert deltas == decoded(make(), events)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("odd", [{}, {"type": None}, {"type": "new"}, {"index": "x"}])
def test_events_of_unknown_kinds_change_nothing(name: str, odd: Event) -> None:
    make, events, _ = STREAMS[name]
    between = [e for event in events for e in (odd, event)]
    assert decoded(make(), between) == decoded(make(), events)


SPLIT = {
    "anthropic": [
        a_begin(),
        a_start(0, type="text", text=""),
        a_delta(0, "text_delta", text="a\ud83c"),
        a_delta(0, "text_delta", text="\udf78b"),
        a_stop(0),
        *a_end("end_turn"),
    ],
    "chat": [chunk(content="a\ud83c"), chunk("stop", content="\udf78b"), DONE],
    "responses": [
        r_item(0, False, type="message"),
        r_text(0, "a\ud83c"),
        r_text(0, "\udf78b"),
        r_end(),
    ],
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_character_cut_into_two_halves_comes_out_whole(name: str) -> None:
    deltas = decoded(STREAMS[name][0](), SPLIT[name])
    texts = [delta.text for delta in deltas if isinstance(delta, TextChunk)]
    assert "".join(texts) == "a\U0001f378b"
    for text in texts:
        text.encode()  # raises where a half got out alone


# -- bytes


def sse(events: Sequence[Any], newline: str = "\n") -> bytes:
    out = []
    for event in events:
        data = "[DONE]" if event == DONE else json.dumps(event, ensure_ascii=False)
        out.append(f"event: x{newline}: a comment{newline}data: {data}{newline}{newline}")
    return "".join(out).encode()


TRICKY = [
    {"text": "line\u2028next\u0085\x0c \U0001f378"},
    {"type": "b", "n": [1, {"c": None}]},
    DONE,
]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_bytes_in_pieces_of_any_size_give_the_same_events(newline: str, size: int) -> None:
    data, stream = sse(TRICKY, newline), EventStream()
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    assert [e for p in pieces for e in stream.feed(p)] + stream.close() == TRICKY


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.data())
def test_bytes_cut_anywhere_give_the_same_events(data: st.DataObject) -> None:
    raw = sse(ANTHROPIC, "\r\n")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    stream = EventStream()
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert [e for p in pieces for e in stream.feed(p)] == ANTHROPIC


def test_an_event_without_its_closing_blank_line_counts_if_it_is_whole() -> None:
    stream = EventStream()
    assert stream.feed(b'data: {"a": 1}') == []
    assert stream.close() == [{"a": 1}]


def test_half_an_event_at_the_end_counts_for_nothing() -> None:
    stream = EventStream()
    assert stream.feed(b'data: {"a": 1}\n\ndata: {"a": ') == [{"a": 1}]
    assert stream.close() == []


def test_data_that_is_not_json_is_an_error_that_shows_it() -> None:
    with pytest.raises(ProviderError, match=r"not JSON.*html") as caught:
        EventStream().feed(b"data: <html>Bad gateway</html>\n\n")
    assert caught.value.kind == "protocol"


def test_an_end_of_a_call_follows_its_start_in_every_stream() -> None:
    for make, events, _ in STREAMS.values():
        kinds = [type(delta).__name__ for delta in decoded(make(), events)]
        assert kinds.index("CallStart") < kinds.index(CallEnd.__name__)
