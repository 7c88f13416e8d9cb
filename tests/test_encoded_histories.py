"""A law: whatever is in a history, what an encoder makes of it is a request that the service takes.

Histories are drawn at random, far odder than the engine's own: blank texts, unknown tools, results
nobody asked for, calls nobody answered, thinking from anywhere; only the end is a person's word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
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
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.base import Request, ToolSpec
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from agentloop_nb.models.wire import compact
from tests.loopback import Complaint, check_anthropic, check_chat, check_responses, seal, sign

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
        lambda thought, said, asked, provider: Message(
            "assistant", (*thought, *said, *asked), provider
        ),
        st.lists(thinking, max_size=2),
        st.lists(st.builds(Text, texts), max_size=2),
        st.lists(calls, max_size=2, unique_by=lambda c: c.id),
        st.sampled_from(PROVIDERS),
    ),
)
histories = st.lists(messages, max_size=7).map(
    lambda between: (user("Begin."), *between, user("Go on."))
)

Check = Callable[[dict[str, Any]], list[Complaint]]
FORMATS: dict[str, tuple[Any, Check]] = {
    "anthropic": (AnthropicModel("claude-test"), check_anthropic),
    "anthropic-thinking": (AnthropicModel("claude-test", thinking_budget=1024), check_anthropic),
    "openai": (OpenAIModel("gpt-test"), check_responses),
    "openai-chat": (OpenAIChatModel("gpt-test"), check_chat),
}


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=150)
@given(history=histories)
def test_any_history_becomes_a_request_that_is_taken(
    format: str, history: tuple[Message, ...]
) -> None:
    model, check = FORMATS[format]
    body = model.encode(Request("", history, (TOOL,)))
    assert [str(complaint) for complaint in check(body)] == []
    compact(body).encode()  # text that can be sent


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=100)
@given(history=histories)
def test_a_history_that_stops_at_results_is_taken_too(
    format: str, history: tuple[Message, ...]
) -> None:
    """As in mid-turn, where the last word is the tools'."""
    model, check = FORMATS[format]
    last = Message("assistant", (Text("Reading."), ToolCall("c9.0", "read", "{}")), "offline")
    body = model.encode(Request("", (*history, last), (TOOL,)))
    assert [str(complaint) for complaint in check(body)] == []
