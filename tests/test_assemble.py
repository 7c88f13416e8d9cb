"""The assembler: deltas of any order that makes sense become one message, and no other does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop_nb.errors import ProviderError
from agentloop_nb.messages import Opaque, Text, Thinking, ToolCall, Usage
from agentloop_nb.models.assemble import Assembler
from agentloop_nb.models.base import (
    CallChunk,
    CallEnd,
    CallStart,
    Finish,
    ModelDelta,
    OpaqueChunk,
    TextChunk,
    ThinkingChunk,
)

SIGNATURE = Opaque("p", '{"signature":"s"}')
END = Finish("end_turn", Usage(3, 2), Opaque("p", '{"id":"r"}'))


def fed(*deltas: ModelDelta, round: int = 4) -> Assembler:
    assembler = Assembler(round, "p")
    for delta in deltas:
        assembler.feed(delta)
    return assembler


def test_a_reply_keeps_its_blocks_in_the_order_of_their_numbers() -> None:
    assembler = fed(
        ThinkingChunk(0, "hm"),
        TextChunk(1, "a"),
        ThinkingChunk(0, "m"),
        OpaqueChunk(0, SIGNATURE),
        CallStart(3, "f", "id-3"),
        CallStart(2, "g", "id-2"),
        CallChunk(3, '{"x":'),
        CallChunk(2, "{}"),
        CallChunk(3, "1}"),
        CallEnd(3),
        CallEnd(2),
        TextChunk(1, "b"),
        END,
    )
    message = assembler.finish()
    assert message.blocks == (
        Thinking("hmm", SIGNATURE),
        Text("ab"),
        ToolCall("c4.1", "g", "{}", "id-2"),
        ToolCall("c4.0", "f", '{"x":1}', "id-3"),
    )
    assert (message.provider, message.stop_reason) == ("p", "end_turn")
    assert message.opaque == END.opaque
    assert assembler.usage == Usage(3, 2)
    assert not assembler.cut


def test_a_call_has_its_id_as_soon_as_it_starts() -> None:
    assembler = fed(CallStart(7, "f", "x"), CallStart(9, "f", "y"))
    assert (assembler.call_id(7), assembler.call_id(9)) == ("c4.0", "c4.1")


def test_blocks_that_stayed_empty_are_not_in_the_message() -> None:
    assert fed(TextChunk(0, ""), ThinkingChunk(1, ""), END).finish().blocks == ()


def test_redacted_thinking_is_kept_though_it_has_no_text() -> None:
    assert fed(OpaqueChunk(0, SIGNATURE), END).finish().blocks == (Thinking("", SIGNATURE),)


def test_a_later_opaque_part_replaces_an_earlier_one() -> None:
    later = Opaque("p", "2")
    blocks = fed(OpaqueChunk(0, SIGNATURE), OpaqueChunk(0, later), END).finish().blocks
    assert blocks == (Thinking("", later),)


@pytest.mark.parametrize("written", ["", "  ", None])
def test_a_call_without_arguments_has_an_empty_object(written: str | None) -> None:
    pieces = [] if written is None else [CallChunk(0, written)]
    message = fed(CallStart(0, "f", "x"), *pieces, CallEnd(0), END).finish()
    assert message.calls[0].arguments == "{}"
    assert message.calls[0].input == {}


def test_a_cut_call_is_dropped_and_said_so_though_its_fragment_parses() -> None:
    assembler = fed(
        CallStart(0, "whole", "a"),
        CallChunk(0, "{}"),
        CallEnd(0),
        CallStart(1, "cut", "b"),
        CallChunk(1, '{"path":"x"}'),
        Finish("max_tokens", Usage()),
    )
    message = assembler.finish()
    assert [call.name for call in message.calls] == ["whole"]
    assert assembler.cut
    assert assembler.cut_names == ("cut",)
    assert message.stop_reason == "max_tokens"
    kept = assembler.finish(keep_cut=True).calls
    assert [(call.name, call.arguments) for call in kept] == [("whole", "{}"), ("cut", "{}")]


def test_arguments_cut_inside_an_escape_are_parsed_only_when_joined() -> None:
    pieces = ['{"drink":"\\ud83c', "\\", 'udf78 \\"', 'cold\\""}']
    deltas = [CallChunk(0, piece) for piece in pieces]
    message = fed(CallStart(0, "f", "x"), *deltas, CallEnd(0), END).finish()
    assert message.calls[0].input == {"drink": '\U0001f378 "cold"'}


def test_a_stopped_stream_leaves_its_text_and_complete_calls() -> None:
    assembler = fed(
        ThinkingChunk(0, "unsigned"),
        TextChunk(1, "half"),
        CallStart(2, "whole", "a"),
        CallEnd(2),
        CallStart(3, "begun", "b"),
        CallChunk(3, '{"a'),
    )
    partial = assembler.partial()
    assert partial.blocks == (
        Thinking("unsigned", None),
        Text("half"),
        ToolCall("c4.0", "whole", "{}", "a"),
    )
    assert partial.stop_reason == "cancelled"
    assert assembler.partial("unknown").stop_reason == "unknown"
    assert not assembler.finished


@pytest.mark.parametrize(
    "deltas",
    [
        [CallChunk(0, "{}")],
        [CallEnd(0)],
        [TextChunk(0, "a"), ThinkingChunk(0, "b")],
        [TextChunk(0, "a"), CallChunk(0, "b")],
        [CallStart(0, "f", "x"), CallStart(0, "g", "y")],
        [END, TextChunk(0, "late")],
        [END, END],
    ],
)
def test_deltas_that_make_no_sense_are_an_error_of_the_adapter(deltas: list[ModelDelta]) -> None:
    with pytest.raises(ProviderError, match="out of order") as caught:
        fed(*deltas)
    assert caught.value.kind == "protocol"


def test_a_message_without_a_last_delta_is_not_finished() -> None:
    with pytest.raises(ProviderError, match="without a last delta"):
        fed(TextChunk(0, "a")).finish()


def test_the_caller_may_say_why_a_reply_ended() -> None:
    assert fed(TextChunk(0, "a"), END).finish("engine").stop_reason == "engine"


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=5)), max_size=40))
def test_interleaved_blocks_lose_and_mix_nothing(pieces: list[tuple[int, str]]) -> None:
    message = fed(*(TextChunk(block, text) for block, text in pieces), END).finish()
    expected = ["".join(t for b, t in pieces if b == block) for block in range(4)]
    assert [block.text for block in message.blocks if isinstance(block, Text)] == [
        text for text in expected if text
    ]
