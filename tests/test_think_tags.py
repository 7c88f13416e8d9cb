"""Think tags are taken out of texts: whole, cut anywhere, unclosed, in code; nothing is lost."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop_nb import Agent
from agentloop_nb.errors import ProviderError, StreamCut
from agentloop_nb.messages import Text, Thinking, ToolCall, Usage
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.assemble import Assembler
from agentloop_nb.models.base import (
    CallChunk,
    CallEnd,
    CallStart,
    Finish,
    ModelDelta,
    TextChunk,
    ThinkingChunk,
)
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from agentloop_nb.models.think_tags import ThinkTags, tagged
from tests.loopback import Loopback, reply, say

Pieces = list[tuple[str, str]]


class Plain:
    """A decoder of events that hold their deltas; an event without any breaks the stream."""

    def feed(self, event: Mapping[str, Any]) -> Iterator[ModelDelta]:
        if "deltas" not in event:
            raise ProviderError("broken", kind="server")
        yield from event["deltas"]

    def close(self) -> Iterator[ModelDelta]:
        raise StreamCut("test")


def split(texts: list[str], tags: ThinkTags = True) -> Pieces:
    """Text and thinking of one block, adjacent pieces of a kind as one."""
    decoder = tagged(Plain(), tags)
    deltas: list[ModelDelta] = []
    for text in texts:
        deltas.extend(decoder.feed({"deltas": [TextChunk(0, text)]}))
    deltas.extend(decoder.feed({"deltas": [Finish("end_turn", Usage())]}))
    return joined(deltas)


def joined(deltas: list[ModelDelta]) -> Pieces:
    pieces: Pieces = []
    numbers: list[int] = []
    for delta in deltas:
        if not isinstance(delta, TextChunk | ThinkingChunk):
            continue
        kind = "text" if isinstance(delta, TextChunk) else "thinking"
        if numbers and numbers[-1] == delta.block:
            assert pieces[-1][0] == kind
            pieces[-1] = (kind, pieces[-1][1] + delta.text)
        else:
            numbers.append(delta.block)
            pieces.append((kind, delta.text))
    assert numbers == sorted(numbers)
    return pieces


CASES: list[tuple[str, Pieces]] = [
    ("<think>a</think>B", [("thinking", "a"), ("text", "B")]),
    ("<think>a</think>\n\nB", [("thinking", "a"), ("text", "B")]),
    ("Hi <think>abc", [("text", "Hi "), ("thinking", "abc")]),
    ("a < b and </thi", [("text", "a < b and </thi")]),
    ("<think>a <b> < c", [("thinking", "a <b> < c")]),
    ("</think>\nB", [("text", "B")]),
    (" \n</think>B", [("text", " \n"), ("text", "B")]),
    ("A </think> B", [("text", "A </think> B")]),
    ("<think></think>B", [("text", "B")]),
    ("<think>a</think>B<think>c", [("thinking", "a"), ("text", "B"), ("thinking", "c")]),
    ("Write `<think>` and `</think>`.", [("text", "Write `<think>` and `</think>`.")]),
    ("``a ` <think>`` b", [("text", "``a ` <think>`` b")]),
    ("```x\n<think>x\n```\n<think>y", [("text", "```x\n<think>x\n```\n"), ("thinking", "y")]),
    ("~~~\n<think>\n```\n</think>\n~~~\n", [("text", "~~~\n<think>\n```\n</think>\n~~~\n")]),
    ("```a``` <think>b", [("text", "```a``` "), ("thinking", "b")]),
    ("A lone ` here.\n\n<think>b", [("text", "A lone ` here.\n\n"), ("thinking", "b")]),
    ("about ~20 <think>b", [("text", "about ~20 "), ("thinking", "b")]),
    ("<think>`</think>B", [("thinking", "`"), ("text", "B")]),
    ("<<think>a</think>", [("text", "<"), ("thinking", "a")]),
    ("<think>a</</think>B", [("thinking", "a</"), ("text", "B")]),
]  # fmt: skip


def as_one(pieces: Pieces) -> Pieces:
    """Adjacent pieces of a kind as one."""
    out: Pieces = []
    for kind, text in pieces:
        if out and out[-1][0] == kind:
            out[-1] = (kind, out[-1][1] + text)
        else:
            out.append((kind, text))
    return out


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_tags_are_told_apart_whole_and_cut_at_every_place(text: str, expected: Pieces) -> None:
    expected = as_one(expected)
    assert split([text]) == expected
    assert split(list(text)) == expected
    for at in range(1, len(text)):
        assert split([text[:at], text[at:]]) == expected


def test_a_template_that_opens_the_thinking_is_an_option() -> None:
    assert split(["a", "b</th", "ink>C"], "open") == [("thinking", "ab"), ("text", "C")]
    assert split(["a</think>C"], False) == [("text", "a</think>C")]


PARTS = ["<think>", "</think>", "<", "</", "think>", "`", "```", "~~~", "\n", " ", "a", "é", "<th"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=25), st.randoms(use_true_random=False))
def test_no_cut_changes_the_split_and_no_character_is_lost(
    parts: list[str], chance: random.Random
) -> None:
    text = "".join(parts)
    whole = split([text])
    cuts = sorted(chance.sample(range(len(text) + 1), min(4, len(text) + 1)))
    pieces = [text[i:j] for i, j in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert split(pieces) == whole
    kept = re.sub(r"</?think>|\s", "", "".join(piece for _, piece in whole))
    assert kept == re.sub(r"</?think>|\s", "", text) or "<think>" in kept


def test_what_is_held_back_comes_before_the_next_block_and_before_an_error() -> None:
    decoder = tagged(Plain(), True)
    call = [CallStart(1, "f", "id"), CallChunk(1, "{}"), CallEnd(1)]
    deltas = list(decoder.feed({"deltas": [TextChunk(0, "<think>a</think>b</th"), *call]}))
    deltas += decoder.feed({"deltas": [TextChunk(2, "c<")]})
    with pytest.raises(ProviderError):
        deltas.extend(decoder.feed({}))
    assembler = Assembler(0, "p")
    for delta in deltas:
        assembler.feed(delta)
    thinking, text, tool, last = assembler.partial().blocks
    assert (thinking, text, last) == (Thinking("a"), Text("b</th"), Text("c<"))
    assert isinstance(tool, ToolCall)


def test_a_stream_that_is_cut_keeps_what_was_held_back() -> None:
    decoder = tagged(Plain(), True)
    deltas = list(decoder.feed({"deltas": [TextChunk(0, "a </thi")]}))
    with pytest.raises(StreamCut):
        deltas.extend(decoder.close())
    assert joined(deltas) == [("text", "a </thi")]


@pytest.mark.parametrize(
    "filling", ["<", "`", "~", "\n", "</think", "<think>", "a<think>`</think>"]
)
def test_the_work_grows_with_the_text_and_not_with_its_square(filling: str) -> None:
    def seconds(times: int) -> float:
        text = filling * times
        began = time.process_time()
        split([text[i : i + 8] for i in range(0, len(text), 8)])
        return time.process_time() - began

    small = min(seconds(4_000) for _ in range(3))
    assert seconds(40_000) < 100 * 0.5 * max(small, 0.001)


@pytest.mark.parametrize("make", [AnthropicModel, OpenAIModel, OpenAIChatModel])
def test_every_adapter_takes_tags_out_where_it_is_told_to(make: Any) -> None:
    pieces = ("<thi", "nk>Let me see", ".</", "think>", "\n\nForty", "-two.")
    for tags, thinking, text in (
        (True, "Let me see.", "Forty-two."),
        (False, "", "".join(pieces)),
    ):
        with Loopback([reply(say(*pieces))]) as server:
            model = make("model-test", base_url=server.base_url, api_key="t", think_tags=tags)
            result = Agent(model).run_sync("What?")
            assert not server.complaints
        thought = [b.text for b in result.messages[-1].blocks if isinstance(b, Thinking)]
        assert ("".join(thought), result.text) == (thinking, text)


def test_by_default_only_the_format_of_open_models_is_looked_through() -> None:
    pieces = ("<think>", "Hm.", "</think>", "Yes.")
    texts = []
    for make in (AnthropicModel, OpenAIModel, OpenAIChatModel):
        with Loopback([reply(say(*pieces))]) as server:
            model: Any = make("model-test", base_url=server.base_url, api_key="t")
            texts.append(Agent(model).run_sync("Well?").text)
    assert texts == ["".join(pieces), "".join(pieces), "Yes."]
