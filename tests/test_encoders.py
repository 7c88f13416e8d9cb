"""Encoders as pure functions: our history as each provider takes it, its own parts given back byte
for byte and everything another provider made left out in a way it accepts."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentloop_nb.errors import UsageError
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
from tests.loopback import check_anthropic

Wire = dict[str, Any]

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOL = ToolSpec("delete_file", "Delete one file.", SCHEMA)
PNG = Image("image/png", "iVBORw0KGgo=")

SIGNED = Opaque("anthropic", '{"type":"thinking","signature":"EqQB+/=="}')
REDACTED = Opaque("anthropic", '{"type":"redacted_thinking","data":"b3BhcXVl"}')
REASONING = Opaque(
    "openai", '{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"g"}'
)
CALL_ITEM = Opaque("openai", '{"id":"fc_1","status":"completed"}')
HEADS = Opaque(
    "openai",
    '{"id":"resp_1","messages":[{"id":"msg_1","status":"completed","phase":"commentary",'
    '"parts":["output_text"]}]}',
)


def call(id: str = "c0.0", provider_id: str = "", arguments: str = '{"path": "x"}') -> ToolCall:
    return ToolCall(id, "delete_file", arguments, provider_id)


def result(id: str = "c0.0", content: str = "done", **fields: Any) -> ToolResult:
    return ToolResult(id, "delete_file", content, **fields)


def reply(*blocks: Any, provider: str = "", **fields: Any) -> Message:
    return Message("assistant", blocks, provider, **fields)


def tools(*results: ToolResult) -> Message:
    return Message("tool", results)


def claude(*messages: Message, **options: Any) -> Wire:
    return AnthropicModel("claude-x", **options).encode(Request("Be brief.", messages, (TOOL,)))


def chat(*messages: Message, **options: Any) -> Wire:
    return OpenAIChatModel("gpt-x", **options).encode(Request("Be brief.", messages, (TOOL,)))


def responses(*messages: Message, model: str = "gpt-x", **options: Any) -> Wire:
    return OpenAIModel(model, **options).encode(Request("Be brief.", messages, (TOOL,)))


# -- Anthropic


def test_anthropic_request_has_everything_the_api_asks_for() -> None:
    assert claude(user("Hi"), max_tokens=4000, thinking_budget=1024) == {
        "model": "claude-x",
        "max_tokens": 4000,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "cache_control": {"type": "ephemeral"},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "tools": [
            {"name": "delete_file", "description": "Delete one file.", "input_schema": SCHEMA}
        ],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }


def test_anthropic_own_thinking_goes_back_byte_for_byte_and_in_its_place() -> None:
    blocks = (
        Thinking(" hm\n", SIGNED),
        Thinking("", REDACTED),
        Text("see"),
        call("c0.0", "toolu_1"),
    )
    wire = claude(user("Hi"), reply(*blocks, provider="anthropic"), tools(result()))
    assert wire["messages"][1]["content"] == [
        {"type": "thinking", "signature": "EqQB+/==", "thinking": " hm\n"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "see"},
        {"type": "tool_use", "id": "toolu_1", "name": "delete_file", "input": {"path": "x"}},
    ]


def test_anthropic_results_come_first_in_one_user_message_in_the_order_of_the_calls() -> None:
    wire = claude(
        user("Hi"),
        reply(call("c0.0", "t0"), call("c0.1", "t1"), provider="anthropic"),
        tools(result("c0.1", "second", outcome="declined"), result("c0.0", "first")),
        user("And look in src."),
    )
    assert wire["messages"][2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t0", "content": "first"},
            {"type": "tool_result", "tool_use_id": "t1", "content": "second", "is_error": True},
            {"type": "text", "text": "And look in src."},
        ],
    }


def test_anthropic_images_are_native_in_messages_and_in_results() -> None:
    shown = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
    }
    wire = claude(
        Message("user", (Text("This:"), PNG)), reply(call()), tools(result(images=(PNG,)))
    )
    assert wire["messages"][0]["content"][1] == shown
    assert wire["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "done"}, shown]


@pytest.mark.parametrize("arguments", ['{"path": ', "[1]", "no", '{"x": NaN}'])
def test_arguments_that_are_no_object_travel_as_one_in_every_format(arguments: str) -> None:
    wrong = (user("Hi"), reply(call(arguments=arguments)), tools(result()))
    assert claude(*wrong)["messages"][1]["content"][0]["input"] == {"INVALID_JSON": arguments}
    sent = chat(*wrong)["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"INVALID_JSON": arguments}
    assert json.loads(responses(*wrong)["input"][1]["arguments"]) == {"INVALID_JSON": arguments}


def test_anthropic_a_model_that_can_decides_itself_how_much_it_thinks() -> None:
    wire = claude(user("Hi"), thinking_budget="adaptive", effort="low")
    assert wire["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert wire["output_config"] == {"effort": "low"}


def marks(wire: Any, at: str = "") -> list[str]:
    """Where the marks of prompt caching stand."""
    here = [at] if isinstance(wire, dict) and "cache_control" in wire else []
    inside = wire.items() if isinstance(wire, dict) else enumerate(wire)
    found = [marks(e, f"{at}.{key}") for key, e in inside if isinstance(e, dict | list)]
    return here + [mark for more in found for mark in more]


TALK = (
    user("Hi"),
    reply(call("c0.0"), call("c0.1")),
    tools(result("c0.0"), result("c0.1")),
    reply(Text("So.")),
    user("On."),
)


def test_anthropic_marks_what_may_be_kept_without_touching_what_was_sent() -> None:
    assert marks(claude(*TALK)) == ["", ".system.0"]
    assert marks(claude(*TALK, prompt_caching=False)) == []
    assert claude(*TALK, prompt_caching=False)["system"] == "Be brief."


def test_anthropic_a_server_without_automatic_caching_gets_marks_at_both_ends() -> None:
    """Where this request ends and where the one before it did, however long the round between."""
    blocks = {"prompt_caching": "blocks"}
    ends = [marks({"messages": claude(*TALK[:n], **blocks)["messages"]}) for n in (1, 3, 5)]
    assert ends == [
        [".messages.0.content.0"],
        [".messages.0.content.0", ".messages.2.content.1"],
        [".messages.2.content.1", ".messages.4.content.0"],
    ]
    assert check_anthropic(claude(*TALK, **blocks)) == []
    without = claude(*TALK, prompt_caching=False)["messages"]
    assert unmarked(claude(*TALK, **blocks)["messages"]) == without


def unmarked(wire: Any) -> Any:
    if isinstance(wire, dict):
        return {key: unmarked(value) for key, value in wire.items() if key != "cache_control"}
    return [unmarked(element) for element in wire] if isinstance(wire, list) else wire


@pytest.mark.parametrize("budget", [1023, 16_384, "much"])
def test_anthropic_a_thinking_budget_that_cannot_be_is_refused(budget: int) -> None:
    with pytest.raises(UsageError, match="thinking_budget"):
        AnthropicModel("claude-x", thinking_budget=budget)


# -- Chat Completions


def test_chat_request_has_everything_the_api_asks_for() -> None:
    assert chat(user("Hi")) == {
        "model": "gpt-x",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "delete_file",
                    "description": "Delete one file.",
                    "parameters": SCHEMA,
                },
            }
        ],
    }


def test_chat_token_limit_has_the_name_that_its_server_knows() -> None:
    assert chat(user("Hi"), max_tokens=9)["max_completion_tokens"] == 9
    assert chat(user("Hi"), max_tokens=9, base_url="http://localhost:1/v1")["max_tokens"] == 9


def test_chat_images_of_results_follow_after_all_results_and_join_what_was_said() -> None:
    wire = chat(
        user("Hi"),
        reply(Text("see"), call("c0.0", "A"), call("c0.1", "B"), provider="openai-chat"),
        tools(result("c0.0", "", images=(PNG,)), result("c0.1")),
        user("Look."),
    )
    said, first, second, after = wire["messages"][2:]
    assert said["content"] == "see"
    assert [c["id"] for c in said["tool_calls"]] == ["A", "B"]
    assert said["tool_calls"][0]["function"]["arguments"] == '{"path": "x"}'
    assert first == {"role": "tool", "tool_call_id": "A", "content": "(the image follows)"}
    assert second == {"role": "tool", "tool_call_id": "B", "content": "done"}
    assert after["role"] == "user"
    assert [part["type"] for part in after["content"]] == ["text", "image_url", "text"]
    assert after["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="


def test_chat_has_one_system_message_and_no_role_twice_in_a_row() -> None:
    wire = chat(user("a"), user("b"), reply(Text("c")), reply(Text("d"), call()), tools(result()))
    assert [m["role"] for m in wire["messages"]] == ["system", "user", "assistant", "tool"]
    assert wire["messages"][1]["content"] == "a\n\nb"
    assert wire["messages"][2]["content"] == "c\n\nd"
    assert len(wire["messages"][2]["tool_calls"]) == 1


# -- Responses


def test_responses_request_has_everything_the_api_asks_for() -> None:
    wire = responses(user("Hi"), max_tokens=99, reasoning_summary="auto")
    assert wire == {
        "model": "gpt-x",
        "stream": True,
        "store": True,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "tools": [
            {
                "type": "function",
                "name": "delete_file",
                "description": "Delete one file.",
                "parameters": SCHEMA,
                "strict": False,
            }
        ],
        "max_output_tokens": 99,
        "reasoning": {"summary": "auto"},
    }


def test_responses_asks_no_encrypted_reasoning_of_a_model_that_does_not_reason() -> None:
    assert "include" not in responses(user("Hi"), model="gpt-4o-mini")


OWN = (Thinking("hm", REASONING), Text("see"), ToolCall("c0.0", "f", "{}", "call_A", CALL_ITEM))


def test_responses_items_of_a_whole_reply_go_back_whole_and_in_order() -> None:
    wire = responses(user("Hi"), reply(*OWN, provider="openai", opaque=HEADS), tools(result()))
    assert wire["input"][1:] == [
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "g"},
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "see", "annotations": []}],
        },
        {
            "id": "fc_1",
            "status": "completed",
            "type": "function_call",
            "call_id": "call_A",
            "name": "f",
            "arguments": "{}",
        },
        {"type": "function_call_output", "call_id": "call_A", "output": "done"},
    ]


def test_responses_a_reply_that_was_stopped_goes_back_without_reasoning_and_ids() -> None:
    # A reasoning item and what followed it are a pair; half of one is refused for ever.
    stopped = reply(*OWN, provider="openai", stop_reason="cancelled")
    items = responses(user("Hi"), stopped, tools(result()))["input"]
    assert [item.get("type") for item in items[1:]] == [
        "message",
        "function_call",
        "function_call_output",
    ]
    assert not any("id" in item for item in items)


def test_responses_reasoning_with_nothing_after_it_is_left_out() -> None:
    alone = reply(Thinking("hm", REASONING), provider="openai", opaque=HEADS)
    assert responses(user("a"), alone, user("b"))["input"] == [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
        }
    ]


def test_responses_images_of_results_are_part_of_the_output() -> None:
    wire = responses(user("Hi"), reply(call()), tools(result(images=(PNG,))))
    assert wire["input"][2]["output"] == [
        {"type": "input_text", "text": "done"},
        {
            "type": "input_image",
            "image_url": "data:image/png;base64,iVBORw0KGgo=",
            "detail": "auto",
        },
    ]


# -- all three

FORMATS = {"anthropic": claude, "openai-chat": chat, "openai": responses}


def texts_in(wire: Any) -> list[str]:
    """Every string of a request's conversation that is a text, not a name or an id."""
    found: list[str] = []
    if isinstance(wire, dict):
        for key, value in wire.items():
            if key in ("text", "content", "output") and isinstance(value, str):
                found.append(value)
            else:
                found += texts_in(value)
    elif isinstance(wire, list):
        for item in wire:
            found += texts_in(item)
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_blank_texts_and_messages_that_held_nothing_else_are_left_out(name: str) -> None:
    wire = FORMATS[name](
        user("a"),
        reply(Text("\n")),
        user(" "),
        reply(Text(" "), call()),
        tools(result(content=" ")),
        reply(),
        user("b"),
    )
    conversation = wire.get("messages") or wire["input"]
    assert all(text.strip() for text in texts_in(conversation))
    assert "a" in str(conversation)
    assert "b" in str(conversation)
    assert "(no output)" in str(conversation)


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_that_only_another_provider_can_read_is_sent(name: str) -> None:
    foreign = [
        reply(Thinking("t", SIGNED), Text("one"), provider="anthropic"),
        reply(*OWN, provider="openai", opaque=HEADS),
        tools(result()),
        reply(Thinking("plain"), Text("three"), provider="openai-chat"),
    ]
    history_of_others = [m for m in foreign if m.provider != name]
    sent = json.dumps(FORMATS[name](user("Hi"), *history_of_others, user("Go on")))
    own = {"anthropic": "EqQB", "openai": "rs_1", "openai-chat": "plain"}
    for provider, mark in own.items():
        assert mark not in sent or provider == name
    assert "Go on" in sent


def ids_of(wire: Wire) -> tuple[list[str], list[str]]:
    """The ids of calls and of results of a request, in their order."""
    calls, results = [], []
    for item in wire.get("input", ()):
        if item.get("type") == "function_call":
            calls.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            results.append(item["call_id"])
    for message in wire.get("messages", ()):
        calls += [c["id"] for c in message.get("tool_calls", ())]
        if message["role"] == "tool":
            results.append(message["tool_call_id"])
        for block in message.get("content") or ():
            if isinstance(block, dict) and block["type"] == "tool_use":
                calls.append(block["id"])
            elif isinstance(block, dict) and block["type"] == "tool_result":
                results.append(block["tool_use_id"])
    return calls, results


ALLOWED = {
    "anthropic": r"[A-Za-z0-9_-]{1,64}",
    "openai-chat": r".{1,40}",
    "openai": r".{1,64}",
}
STRANGE = ["functions.f:0", "x" * 43, "x" * 65, "", "call_c0_0", "a|b", "call_c0_0_2"]


@pytest.mark.parametrize("name", FORMATS)
def test_strange_ids_of_other_providers_are_mapped_on_both_sides_and_never_collide(
    name: str,
) -> None:
    turns: list[Message] = [user("Hi")]
    for maker in ("anthropic", "openai-chat", "openai", "elsewhere", ""):
        named = [call(f"c0.{i}", strange) for i, strange in enumerate(STRANGE)]
        turns += [
            reply(*named, provider=maker),
            tools(*(result(c.id, f"{maker} {c.id}") for c in reversed(named))),
        ]
    calls, results = ids_of(FORMATS[name](*turns))
    assert calls == results
    assert len(set(calls)) == len(calls) == 5 * len(STRANGE)
    assert all(re.fullmatch(ALLOWED[name], wire_id) for wire_id in calls)
    # A history that has grown begins as it did, or a prompt cache would be of no use.
    assert ids_of(FORMATS[name](*turns[:3]))[0] == calls[: len(STRANGE)]


@pytest.mark.parametrize("name", FORMATS)
def test_a_broken_history_is_still_sent_with_one_result_for_each_call(name: str) -> None:
    calls, results = ids_of(
        FORMATS[name](
            user("Hi"),
            tools(result("c9.9")),
            reply(call("c0.0"), call("c0.1")),
            tools(result("c0.1"), result("c7.7")),
            reply(call("c1.0")),
            user("Go on"),
            reply(call("c2.0")),
        )
    )
    assert calls == results
    assert len(calls) == 4


@pytest.mark.parametrize("name", FORMATS)
def test_lone_surrogates_never_reach_the_wire(name: str) -> None:
    wire = FORMATS[name](
        user("a\ud83c"),
        reply(Text("b\udf78"), call(arguments='{"path": "\\ud83c"}')),
        tools(result(content="c\ud83c")),
        user("\ud83c\udf78"),
    )
    json.dumps(wire, ensure_ascii=False).encode()
    assert "\U0001f378" in str(wire)


@pytest.mark.parametrize("name", FORMATS)
def test_a_reply_that_was_stopped_is_replayed_as_its_text(name: str) -> None:
    stopped = reply(Thinking("t"), Text("half a sen"), provider=name, stop_reason="cancelled")
    sent = json.dumps(FORMATS[name](user("Hi"), stopped, user("Go on")))
    assert "half a sen" in sent


BLOCKS = st.one_of(
    st.builds(Text, st.sampled_from(["", " ", "words"])),
    st.builds(Thinking, st.sampled_from(["", "t"]), st.sampled_from([None, SIGNED, REASONING])),
    st.builds(
        ToolCall,
        st.sampled_from(["c0.0", "c0.1"]),
        st.just("f"),
        st.sampled_from(["{}", "{", '{"a":1}']),
        st.sampled_from(["", "A", "B", "x:y"]),
    ),
)
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.sampled_from(["", "hello"])),
        st.builds(
            lambda blocks, maker: reply(*blocks, provider=maker),
            st.lists(BLOCKS, max_size=4, unique_by=lambda b: getattr(b, "id", id(b))),
            st.sampled_from(["", "anthropic", "openai", "openai-chat"]),
        ),
        st.builds(
            lambda ids: tools(*map(result, ids)), st.lists(st.sampled_from(["c0.0", "c0.1"]))
        ),
    ),
    max_size=8,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(MESSAGES)
def test_whatever_the_history_every_format_is_paired_and_alternates(
    messages: list[Message],
) -> None:
    for encode in FORMATS.values():
        wire = encode(*messages)
        calls, results = ids_of(wire)
        assert calls == results
        assert len(set(calls)) == len(calls)
    roles = [m["role"] for m in claude(*messages)["messages"]]
    assert all(a != b for a, b in pairwise(roles))
    assert all(m["content"] for m in claude(*messages)["messages"])
    turns = [m["role"] for m in chat(*messages)["messages"] if m["role"] != "tool"]
    assert ("user", "user") not in pairwise(turns)


def test_extra_body_is_sent_as_it_is() -> None:
    for encode in FORMATS.values():
        assert encode(user("Hi"), extra_body={"temperature": 0.1})["temperature"] == 0.1


def test_encoding_a_history_changes_nothing_in_it() -> None:
    messages = (user("a"), user("b"), reply(*OWN, provider="openai", opaque=HEADS), tools(result()))
    before = repr(messages)
    claude(*messages)
    assert repr(messages) == before
