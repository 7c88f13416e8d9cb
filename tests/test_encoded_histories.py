"""Laws of encoding: whatever is in a history, an encoder makes of it a request that the service
takes; and a history that grew is encoded as if it had come at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop_nb.messages import Message, Text, ToolCall, ToolResult, user
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.anthropic_conversation import AnthropicConversation
from agentloop_nb.models.base import Request
from agentloop_nb.models.chat_conversation import ChatConversation
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from agentloop_nb.models.responses_conversation import ResponsesConversation
from agentloop_nb.models.wire import compact
from tests.histories import TOOL, histories
from tests.loopback import Complaint, check_anthropic, check_chat, check_responses

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


def made_anew(format: str) -> Any:
    """A model that has encoded nothing yet."""
    makers: dict[str, Callable[[], Any]] = {
        "anthropic": lambda: AnthropicModel("claude-test"),
        "anthropic-thinking": lambda: AnthropicModel("claude-test", thinking_budget=1024),
        "openai": lambda: OpenAIModel("gpt-test"),
        "openai-chat": lambda: OpenAIChatModel("gpt-test"),
    }
    return makers[format]()


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=100)
@given(history=histories, stops=st.sets(st.integers(1, 9)))
def test_a_history_that_grew_is_encoded_as_if_it_had_come_at_once(
    format: str, history: tuple[Message, ...], stops: set[int]
) -> None:
    grown = made_anew(format)
    for stop in sorted(stops):
        grown.encode(Request("Be brief.", history[:stop], (TOOL,)))
    last = Request("Be brief.", history, (TOOL,))
    assert grown.encode(last) == made_anew(format).encode(last)


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=100)
@given(history=histories, stops=st.sets(st.integers(1, 9)))
def test_the_bytes_that_go_out_are_the_body(
    format: str, history: tuple[Message, ...], stops: set[int]
) -> None:
    model = made_anew(format)
    for stop in sorted({*stops, len(history)}):
        request = Request("Be brief.", history[:stop], (TOOL,))
        payload = model.payload(request)
        assert json.loads(payload.content()) == payload.body == model.encode(request)


@pytest.mark.parametrize("format", FORMATS)
@given(history=histories)
def test_what_was_handed_out_is_never_changed_later(
    format: str, history: tuple[Message, ...]
) -> None:
    """It may be on its way to the network while the next request is encoded."""
    model = made_anew(format)
    handed_out = []
    for stop in range(1, len(history) + 1):
        body = model.encode(Request("", history[:stop], (TOOL,)))
        handed_out.append((body, compact(body)))
    assert all(compact(body) == before for body, before in handed_out)


@pytest.mark.parametrize("format", FORMATS)
def test_a_history_that_was_changed_in_its_middle_is_encoded_anew(format: str) -> None:
    model = made_anew(format)
    first = (user("One."), Message("assistant", (Text("Yes."),)), user("Two."))
    other = (user("Three."), *first[1:])
    for history in (first, other, first[:1], first):
        request = Request("", history, (TOOL,))
        assert model.encode(request) == made_anew(format).encode(request)


@pytest.mark.parametrize("format", FORMATS)
def test_each_message_is_encoded_once_however_many_rounds_follow(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a session would cost the square of its rounds. The last word alone may be done twice."""
    seen: Counter[str] = Counter()
    kind = {"anthropic": AnthropicConversation, "openai": ResponsesConversation}.get(
        format.removesuffix("-thinking"), ChatConversation
    )
    append = kind.append

    def counted(self: Any, wire: list[Any], message: Message) -> None:
        seen[repr(message)] += 1
        append(self, wire, message)

    monkeypatch.setattr(kind, "append", counted)
    model = made_anew(format)
    history: tuple[Message, ...] = (user("Begin."),)
    for n in range(50):
        model.encode(Request("", history, (TOOL,)))
        call = ToolCall(f"c{n}.0", "read", "{}")
        reply = Message("assistant", (Text(f"Step {n}."), call), "offline")
        history = (*history, reply, Message("tool", (ToolResult(call.id, "read", f"{n}"),)))
    assert len(seen) == 1 + 2 * 49
    assert seen.total() == len(seen) + 1  # "Begin." was the last word once
