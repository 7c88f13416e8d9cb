"""Histories drawn at random, far odder than the engine's own: blank texts, unknown tools, results
nobody asked for, calls nobody answered, thinking from anywhere; only the end is a person's word.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from agentloop_nb.messages import (
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user,
)
from agentloop_nb.models.base import ToolSpec
from agentloop_nb.models.wire import compact
from tests.loopback import seal, sign

TOOL = ToolSpec("read", "Read a file.", {"type": "object", "properties": {}})
GIF = Image("image/gif", "R0lGODlhAQABAAAAACwAAAAAAQABAAAC")
PROVIDERS = ("", "anthropic", "openai", "openai-chat", "offline")

texts = st.sampled_from(["", " \n", "Yes.", "Yes. ", "ünï 🍸", "\ud83c"]) | st.text(max_size=8)
call_ids = st.sampled_from(["c0.0", "c0.1", "c1.0"])
own_ids = st.sampled_from(["", "toolu_1", "call_1", "call|é", "x" * 80])
names = st.sampled_from(["read", "", "a.b", "n" * 99])
arguments = st.sampled_from(
    ["{}", "", '{"a": 1}', "[1]", '{"a": ', '{"a": NaN}', '{"a": "\\ud83c"}']
)
outcomes = st.sampled_from(["ok", "error", "declined", "unknown_outcome"])
images = st.sampled_from([(), (GIF,), (GIF, GIF)])


def signed(text: str) -> Thinking:
    return Thinking(text, anthropics({"type": "thinking", "signature": sign(text)}))


def anthropics(block: dict[str, Any]) -> Opaque:
    return Opaque("anthropic", compact(block))


REDACTED = Thinking("", anthropics({"type": "redacted_thinking", "data": seal("x")}))
ITEM = Opaque("openai", compact({"type": "reasoning", "id": "rs_1", "summary": []}))

thinking = st.one_of(
    st.sampled_from(["Hm.", "Look first."]).map(signed),
    st.just(REDACTED),
    st.builds(Thinking, texts, st.sampled_from([None, ITEM])),
)
calls = st.builds(ToolCall, call_ids, names, arguments, own_ids)
results = st.builds(ToolResult, call_ids, names, texts, outcomes, images)
messages = st.one_of(
    st.lists(st.builds(Text, texts) | st.just(GIF), max_size=3).map(
        lambda blocks: Message("user", tuple(blocks))
    ),
    st.lists(results, max_size=3, unique_by=lambda r: r.id).map(
        lambda blocks: Message("tool", tuple(blocks))
    ),
    st.builds(
        lambda thought, said, asked, provider, stop: Message(
            "assistant",
            (*said, *thought, *asked) if stop else (*thought, *said, *asked),
            provider,
            stop,
        ),
        st.lists(thinking, max_size=2),
        st.lists(st.builds(Text, texts), max_size=2),
        st.lists(calls, max_size=2, unique_by=lambda c: c.id),
        st.sampled_from(PROVIDERS),
        st.sampled_from([None, None, "end_turn", "pause_turn", "engine"]),
    ),
)
histories = st.lists(messages, max_size=7).map(
    lambda between: (user("Begin."), *between, user("Go on."))
)
