"""The fold that a view shows, held to the fixtures that its twin in TypeScript is held to."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentloop_nb.codec import page_json
from agentloop_nb.events import (
    AnyEvent,
    MessageEvent,
    RoundEnd,
    RunStart,
    TextDelta,
    ThinkingDelta,
    ToolUseDelta,
    ToolUseStart,
)
from agentloop_nb.messages import NO_USAGE, Block, Message, Opaque, Text, Thinking, ToolCall
from agentloop_nb.viewstate import fold, initial

ROOT = Path(__file__).parent.parent
FIXTURES = sorted((ROOT / "tests" / "fixtures" / "view").glob("*.json"))
DELTAS = ("text_delta", "thinking", "tool_use_delta")

Json = dict[str, Any]


def shown(events: Sequence[Json]) -> Json:
    state = initial()
    for event in events:
        state = fold(state, event)
    return state


def fixture(name: str) -> Json:
    path = ROOT / "tests" / "fixtures" / "view" / f"{name}.json"
    loaded: Json = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def items(state: Json, kind: str, turn: int = -1) -> list[Json]:
    rounds = state["turns"][turn]["rounds"]
    return [item for shown in rounds for item in shown["items"] if item["kind"] == kind]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_events_fold_to_the_state_of_the_fixture(path: Path) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    assert shown(data["events"]) == data["state"]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_events_stay_as_they_were_when_folded(path: Path) -> None:
    events = json.loads(path.read_text(encoding="utf-8"))["events"]
    before = copy.deepcopy(events)
    shown(events)
    assert events == before


def test_a_save_in_mid_text_does_not_break_the_text_in_two() -> None:
    (text,) = items(fixture("plain_answer")["state"], "text")
    assert text["text"] == "Hello, world. Bye."


def test_a_question_that_ran_out_does_not_read_as_declined() -> None:
    (call,) = items(shown(fixture("nobody_answered")["events"]), "call")
    assert call["state"] == "unanswered"
    assert call["decision"]["by"] == "timeout"


def test_no_call_is_left_arriving_after_the_end() -> None:
    for name in ("cancelled_in_mid_stream", "cancelled_with_only_a_half_call"):
        (call,) = items(shown(fixture(name)["events"]), "call")
        assert call["state"] == "cut", name


def test_the_question_of_a_dead_kernel_is_not_asked_again_by_the_view() -> None:
    state = shown(fixture("resumed_with_a_question_that_was_open")["events"])
    assert state["turns"][-1]["question"] is None
    assert [call["state"] for call in items(state, "call")] == ["queued"]


def test_half_an_answer_leaves_the_question_open_for_the_rest() -> None:
    state = shown(fixture("half_answered")["events"])
    assert state["turns"][-1]["question"]["decided"] == ["c0.1"]
    assert [call["state"] for call in items(state, "call")] == ["waiting", "declined"]


# -- a journal keeps no deltas, and a page must show the same from it

BLOCKS = st.one_of(
    st.builds(Text, st.text(min_size=1, max_size=12)),
    st.builds(Thinking, st.text(max_size=12), st.sampled_from([None, Opaque("p", "{}")])),
    st.just(ToolCall("", "look", '{"path": "."}')),
)


@st.composite
def replies(draw: st.DrawFn) -> list[Block]:
    blocks: list[Block] = []
    for index, block in enumerate(draw(st.lists(BLOCKS, min_size=1, max_size=5))):
        if isinstance(block, ToolCall):
            block = ToolCall(f"c0.{index}", block.name, block.arguments)
        blocks.append(block)
    return blocks


def pieces(block: Block, index: int, size: int) -> list[AnyEvent]:
    """The deltas a block came in, `size` characters each."""
    match block:
        case Text(text):
            return [TextDelta(text=part, block=index) for part in cut(text, size)]
        case Thinking(text):
            return [ThinkingDelta(text=part, block=index) for part in cut(text, size)]
        case ToolCall(call_id, name, arguments):
            parts: list[AnyEvent] = [ToolUseDelta(id=call_id, name=name, text="", block=index)]
            parts += [ToolUseDelta(id=call_id, text=p, block=index) for p in cut(arguments, size)]
            return parts
        case _:
            raise AssertionError(block)


def cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def run_of(blocks: Sequence[Block], deltas: Sequence[AnyEvent]) -> list[AnyEvent]:
    starts: list[AnyEvent] = [
        ToolUseStart(id=b.id, name=b.name, arguments=b.input)
        for b in blocks
        if isinstance(b, ToolCall)
    ]
    return [
        RunStart(session_id="s", run_id="s.0", prompt="Go", model="m"),
        *deltas,
        MessageEvent(message=Message("assistant", tuple(blocks), "p", "tool_use")),
        *starts,
        RoundEnd(usage=NO_USAGE, stop_reason="tool_use"),
    ]


@given(replies(), st.integers(1, 4))
def test_a_page_that_saw_the_deltas_shows_what_one_shows_that_got_the_journal(
    blocks: list[Block], size: int
) -> None:
    deltas = [piece for i, block in enumerate(blocks) for piece in pieces(block, i, size)]
    live = [page_json(event, whole=False) for event in run_of(blocks, deltas)]
    restored = [page_json(event, whole=True) for event in run_of(blocks, [])]
    assert shown(live) == shown(restored)


# -- adjacent deltas may be merged on the way


def merged(events: Sequence[Json], keep_apart: Callable[[], bool]) -> list[Json]:
    """The events with adjacent deltas of one block joined, except where told not to."""
    out: list[Json] = []
    for event in events:
        last = out[-1] if out else None
        if last is not None and _one_block(last, event) and not keep_apart():
            out[-1] = {**last, "text": last["text"] + event["text"], "upto": event["seq"]}
        else:
            out.append(event)
    return out


def _one_block(one: Json, other: Json) -> bool:
    same = ("type", "path", "round", "attempt", "block")
    return one["type"] in DELTAS and all(one[name] == other.get(name) for name in same)


@st.composite
def streams(draw: st.DrawFn) -> list[Json]:
    """Events of a fixture, its deltas cut into pieces of one to three characters."""
    events: list[Json] = []
    for event in json.loads(draw(st.sampled_from(FIXTURES)).read_text(encoding="utf-8"))["events"]:
        if event["type"] in DELTAS and event["text"]:
            parts = cut(event["text"], draw(st.integers(1, 3)))
            events += [{**event, "text": part} for part in parts]
        else:
            events.append(event)
    return events


@given(streams(), st.data())
def test_merging_adjacent_deltas_shows_the_same(events: list[Json], data: st.DataObject) -> None:
    mixed = merged(events, lambda: data.draw(st.booleans()))
    assert shown(mixed) == shown(events)
    assert shown(merged(events, lambda: False)) == shown(events)


# -- the types that the twin is written against


def generator() -> ModuleType:
    path = ROOT / "js" / "generate_events.py"
    spec = importlib.util.spec_from_file_location("generate_events", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_typescript_knows_the_events_of_this_version() -> None:
    written = (ROOT / "js" / "src" / "events.ts").read_text(encoding="utf-8")
    assert written == generator().generate(), "Run: uv run python js/generate_events.py"
