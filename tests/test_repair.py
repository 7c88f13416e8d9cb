"""Laws of the repair: what leaves it can be sent, no word is lost, and twice is once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop_nb.messages import Message, Text, Thinking, ToolCall, ToolResult, user
from agentloop_nb.repair import NO_RESULT, Repair, repair
from tests.histories import histories, messages

any_history = st.lists(messages, max_size=9).map(tuple) | histories


@settings(max_examples=300)
@given(any_history)
def test_repairing_twice_is_repairing_once(history: tuple[Message, ...]) -> None:
    once = repair(history)
    assert repair(once) == once


@settings(max_examples=300)
@given(any_history)
def test_every_call_has_one_result_right_after_it_and_no_result_stands_alone(
    history: tuple[Message, ...],
) -> None:
    mended = repair(history)
    for message, after in pairwise((*mended, None)):
        assert message is not None
        calls = [call.id for call in message.calls]
        results = [r.id for r in after.results] if after and after.role == "tool" else []
        assert calls == results
    assert all(mended[i - 1].calls for i, m in enumerate(mended) if m.role == "tool")
    assert not mended or mended[0].role != "tool"


@settings(max_examples=300)
@given(any_history)
def test_nothing_is_blank_or_empty_and_no_user_speaks_twice(history: tuple[Message, ...]) -> None:
    mended = repair(history)
    assert all(message.blocks for message in mended)
    assert all(block.text.strip() for m in mended for block in m.blocks if isinstance(block, Text))
    ends = [m for m in mended if isinstance(m.blocks[-1], Thinking)]
    assert all(m.stop_reason == "pause_turn" for m in ends)
    assert ("user", "user") not in pairwise(m.role for m in mended)


@settings(max_examples=300)
@given(any_history)
def test_no_word_and_no_call_is_lost(history: tuple[Message, ...]) -> None:
    def kept(messages: Iterable[Message]) -> list[str]:
        blocks = (block for m in messages if m.role != "tool" for block in m.blocks)
        return [
            repr(block)
            for block in blocks
            if isinstance(block, ToolCall) or (isinstance(block, Text) and block.text.strip())
        ]

    assert kept(repair(history)) == kept(history)


@settings(max_examples=200)
@given(any_history, st.data())
def test_a_history_cut_anywhere_begins_as_the_whole_does(
    history: tuple[Message, ...], data: st.DataObject
) -> None:
    """What is settled never changes, so that what was sent once stays good."""
    stop = data.draw(st.integers(0, len(history)))
    mending = Repair()
    settled = tuple(m for message in history[:stop] for m in mending.add(message))
    assert repair(history)[: len(settled)] == settled
    assert repair(history[:stop]) == (*settled, *mending.rest())


def test_a_lost_result_is_said_to_be_lost_and_the_others_stay() -> None:
    calls = (ToolCall("c0.0", "read", "{}"), ToolCall("c0.1", "write", "{}"))
    history = (
        user("Go."),
        Message("assistant", calls),
        Message("tool", (ToolResult("c0.1", "write", "written"), ToolResult("c9.9", "x", "?"))),
    )
    lost, kept = repair(history)[2].results
    assert (lost.id, lost.content, lost.outcome) == ("c0.0", NO_RESULT, "unknown_outcome")
    assert kept == ToolResult("c0.1", "write", "written")
