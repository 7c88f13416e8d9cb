"""Each checker takes what the service takes and refuses what it refuses, for the right reason.

A broken history is a good one with one change; its id names the symptom.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.loopback import check_anthropic, check_chat, check_responses, seal, sign
from tests.loopback.checking import Complaint, image_fault
from tests.loopback.responses_check import follower_id

Body = dict[str, Any]
Change = Callable[[Body], object]

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5E"
    "rkJggg=="
)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
THOUGHT = "Two files are to be read."


def broken(*cases: tuple[str, Change, str]) -> pytest.MarkDecorator:
    """Parameters of a test: a change that breaks a good body, and what the complaint says."""
    return pytest.mark.parametrize(
        ("change", "says"), [pytest.param(change, says, id=name) for name, change, says in cases]
    )


def put(*path: str | int, value: Any) -> Change:
    """Set what is at a place of the body."""

    def change(body: Body) -> None:
        at: Any = body
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


def drop(*path: str | int) -> Change:
    """Remove what is at a place of the body."""

    def change(body: Body) -> None:
        at: Any = body
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]

    return change


def insert(*path: str | int, value: Any) -> Change:
    """Put a value before what is at a place of a list."""

    def change(body: Body) -> None:
        at: Any = body
        for key in path[:-1]:
            at = at[key]
        at.insert(path[-1], value)

    return change


def assert_refused(complaints: list[Complaint], says: str) -> None:
    assert any(says in complaint.message for complaint in complaints), complaints


# -- Anthropic


def anthropic() -> Body:
    """Thinking, two calls at once with their results, an image, a failed call, a second turn."""
    text = {"type": "text", "text": "And now?"}
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
    }
    return {
        "model": "claude-test",
        "max_tokens": 4096,
        "stream": True,
        "system": "Be brief.",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "read", "description": "Read a file.", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Read both."}, image]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": THOUGHT, "signature": sign(THOUGHT)},
                    {"type": "redacted_thinking", "data": seal("secret")},
                    {"type": "text", "text": "Reading."},
                    {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {"path": "b"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]},
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "content": "No such file.",
                        "is_error": True,
                    },
                    text,
                ],
            },
            {"role": "assistant", "content": "One is a picture."},
            {"role": "user", "content": [text]},
        ],
    }


def anthropic_in_turn() -> Body:
    """The same, waiting for what comes after the results."""
    body = anthropic()
    del body["messages"][3:]
    return body


def two_of_a_role() -> Body:
    """Messages of one role in a row, which the service joins."""
    body = anthropic()
    body["messages"].append({"role": "user", "content": "Please."})
    return body


def withheld_thinking() -> Body:
    body = anthropic_in_turn()
    block = {"type": "thinking", "thinking": "", "signature": sign(THOUGHT, hidden=True)}
    body["messages"][1]["content"][0] = block
    return body


def no_thinking_when_off() -> Body:
    body = anthropic_in_turn()
    del body["thinking"]
    del body["messages"][1]["content"][:2]
    return body


@pytest.mark.parametrize(
    "body",
    [anthropic, anthropic_in_turn, two_of_a_role, withheld_thinking, no_thinking_when_off],
    ids=lambda body: body.__name__,
)
def test_anthropic_takes_a_good_history(body: Callable[[], Body]) -> None:
    assert check_anthropic(body()) == []


@broken(
    ("no-model", drop("model"), "model: Field required"),
    ("no-max-tokens", drop("max_tokens"), "max_tokens: Field required"),
    ("max-tokens-zero", put("max_tokens", value=0), "max_tokens: Input should be greater"),
    ("unknown-field", put("store", value=False), "store: Extra inputs"),
    ("budget-over-max-tokens", put("max_tokens", value=1024), "must be greater than `thinking"),
    ("budget-too-small", put("thinking", "budget_tokens", value=9), "or equal to 1024"),
    ("temperature-with-thinking", put("temperature", value=0.2), "`temperature` may only be"),
    ("forced-tool-with-thinking", put("tool_choice", value={"type": "any"}), "forces tool use"),
    (
        "tool-choice-without-tools",
        lambda b: b.update(tools=[], tool_choice={"type": "auto"}),
        "only be specified while providing tools",
    ),
    ("blank-system-block", put("system", value=[{"type": "text", "text": " "}]), "system.0"),
    (
        "tool-schema-not-an-object",
        put("tools", 0, "input_schema", value={"type": "array"}),
        "of an object",
    ),
    ("tool-without-schema", drop("tools", 0, "input_schema"), "input_schema: Field required"),
    ("tool-name-with-a-dot", put("tools", 0, "name", value="fs.read"), "should match pattern"),
    ("tool-name-of-65", put("tools", 0, "name", value="x" * 65), "{1,64}"),
    (
        "two-tools-of-one-name",
        insert("tools", 0, value={"name": "read", "input_schema": SCHEMA}),
        "Tool names must be unique",
    ),
    ("no-messages", put("messages", value=[]), "at least one message is required"),
    ("system-as-a-role", put("messages", 0, "role", value="system"), 'Unexpected role "system"'),
    ("tool-as-a-role", put("messages", 2, "role", value="tool"), 'Unexpected role "tool"'),
    ("assistant-first", drop("messages", 0), 'first message must use the "user" role'),
    ("no-content", put("messages", 0, "content", value=[]), "must have non-empty content"),
    ("empty-text", put("messages", 0, "content", 0, "text", value=""), "must be non-empty"),
    ("blank-text", put("messages", 3, "content", value=" \n"), "non-whitespace text"),
    ("foreign-block", put("messages", 0, "content", 0, "type", value="input_text"), "Input tag"),
    ("extra-field-in-a-block", put("messages", 1, "content", 3, "status", value="x"), "Extra in"),
    ("call-of-the-user", put("messages", 2, "content", 0, "type", value="tool_use"), "not allowed"),
    (
        "result-of-the-assistant",
        insert(
            "messages", 1, "content", 0, value={"type": "tool_result", "tool_use_id": "toolu_1"}
        ),
        "not allowed in `assistant`",
    ),
    (
        "call-without-result",
        drop("messages", 2, "content", 1),
        "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_2",
    ),
    ("call-at-the-end", lambda b: b.update(messages=b["messages"][:2]), "ids were found without"),
    (
        "message-between-call-and-result",
        insert("messages", 2, value={"role": "user", "content": "Wait."}),
        "ids were found without",
    ),
    (
        "text-before-the-results",
        insert("messages", 2, "content", 0, value={"type": "text", "text": "Here:"}),
        "must come first",
    ),
    (
        "result-without-call",
        drop("messages", 1, "content", 4),
        "unexpected `tool_use_id` found in `tool_result` blocks: toolu_2",
    ),
    (
        "result-of-an-older-call",
        lambda b: b["messages"][4]["content"].insert(0, b["messages"][2]["content"][0]),
        "unexpected `tool_use_id`",
    ),
    (
        "two-results-of-one-call",
        lambda b: b["messages"][2]["content"].insert(0, b["messages"][2]["content"][0]),
        "must have a single result",
    ),
    ("two-calls-of-one-id", put("messages", 1, "content", 4, "id", value="toolu_1"), "be unique"),
    ("call-id-with-a-dot", put("messages", 1, "content", 3, "id", value="c0.0"), "tool_use.id"),
    (
        "call-name-with-a-dot",
        put("messages", 1, "content", 3, "name", value="a.b"),
        "tool_use.name",
    ),
    ("arguments-as-text", put("messages", 1, "content", 3, "input", value="{}"), "dictionary"),
    ("error-without-content", put("messages", 2, "content", 1, "content", value=""), "is_error"),
    (
        "error-with-an-image",
        lambda b: b["messages"][2]["content"][0].update(is_error=True),
        "all content must be `text` if `is_error`",
    ),
    (
        "empty-text-in-a-result",
        put("messages", 2, "content", 0, "content", value=[{"type": "text", "text": ""}]),
        "must be non-empty",
    ),
    ("thinking-unsigned", drop("messages", 1, "content", 0, "signature"), "signature: Field requ"),
    ("thinking-altered", put("messages", 1, "content", 0, "thinking", value="No."), "Invalid `sig"),
    ("thinking-emptied", put("messages", 1, "content", 0, "thinking", value=""), "Invalid `sig"),
    (
        "signature-altered",
        put("messages", 1, "content", 0, "signature", value=sign("another")),
        "Invalid `signature`",
    ),
    ("redacted-altered", put("messages", 1, "content", 1, "data", value="b3Bh"), "Invalid `data`"),
    (
        "thinking-last",
        put("messages", 3, "content", value=[{"type": "redacted_thinking", "data": seal("x")}]),
        "cannot be `thinking`",
    ),
    (
        "thinking-of-the-user",
        insert("messages", 0, "content", 0, value={"type": "redacted_thinking", "data": seal("x")}),
        "not allowed in `user`",
    ),
    (
        "image-of-no-known-type",
        put("messages", 0, "content", 1, "source", "media_type", value="x"),
        "is none of",
    ),
    ("image-not-base64", put("messages", 0, "content", 1, "source", "data", value="%"), "base64"),
    ("assistant-last", drop("messages", 4), "does not support assistant message prefill"),
    (
        "blank-at-the-end-of-the-assistant",
        lambda b: b["messages"].append({"role": "assistant", "content": "So "}),
        "cannot end with trailing whitespace",
    ),
)
def test_anthropic_refuses_a_broken_history(change: Change, says: str) -> None:
    body = copy.deepcopy(anthropic())  # parts of it are in it twice
    change(body)
    assert_refused(check_anthropic(body), says)


def test_anthropic_wants_thinking_at_the_head_of_a_turn_in_its_calls() -> None:
    body = anthropic_in_turn()
    del body["messages"][1]["content"][:2]
    assert_refused(check_anthropic(body), "Expected `thinking` or `redacted_thinking`, but found")


# -- Chat Completions


def chat() -> Body:
    """Two calls at once with their results, an image after them, a second turn."""
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    function = {"name": "read", "description": "Read a file.", "parameters": SCHEMA}
    calls = [
        {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}
        for id, arguments in (("call_1", '{"path": "a"}'), ("call_2", "{}"))
    ]
    return {
        "model": "gpt-test",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Read both."}, image]},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_2", "content": "No such file."},
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "A"}]},
            {"role": "user", "content": [image]},
            {"role": "assistant", "content": "One is a picture."},
            {"role": "user", "content": "And now?"},
        ],
    }


def chat_in_turn() -> Body:
    """The same, waiting for what comes after the results."""
    body = chat()
    del body["messages"][5:]
    return body


def text_beside_calls() -> Body:
    body = chat()
    body["messages"][2]["content"] = "Reading."
    return body


def refusal_without_content() -> Body:
    body = chat()
    body["messages"][6] = {"role": "assistant", "content": None, "refusal": "No."}
    return body


def no_content_key_beside_calls() -> Body:
    body = chat()
    del body["messages"][2]["content"]
    return body


@pytest.mark.parametrize(
    "body",
    [chat, chat_in_turn, text_beside_calls, refusal_without_content, no_content_key_beside_calls],
    ids=lambda body: body.__name__,
)
def test_chat_takes_a_good_history(body: Callable[[], Body]) -> None:
    assert check_chat(body()) == []


CALL = ("messages", 2, "tool_calls", 0)


@broken(
    ("no-model", drop("model"), "you must provide a model"),
    ("unknown-field", put("thinking", value={}), "Unrecognized request argument supplied: think"),
    ("usage-without-stream", drop("stream"), "only allowed when 'stream' is enabled"),
    ("max-tokens-zero", put("max_tokens", value=0), "Invalid 'max_tokens'"),
    ("no-tools-in-the-list", put("tools", value=[]), "Invalid 'tools': empty array"),
    (
        "tool-choice-without-tools",
        lambda b: (b.pop("tools"), b.update(tool_choice="auto")),
        "only allowed when 'tools' are specified",
    ),
    ("too-many-tools", lambda b: b.update(tools=b["tools"] * 129), "array too long"),
    ("tool-of-unknown-type", put("tools", 0, "type", value="fn"), "Invalid value: 'fn'"),
    (
        "tool-schema-not-an-object",
        put("tools", 0, "function", "parameters", value={"type": "string"}),
        "Invalid schema for function 'read'",
    ),
    ("tool-name-with-a-dot", put("tools", 0, "function", "name", value="a.b"), "match pattern"),
    ("tool-name-of-65", put("tools", 0, "function", "name", value="x" * 65), "maximum length 64"),
    ("tool-without-name", drop("tools", 0, "function", "name"), "Missing required parameter"),
    ("two-tools-of-one-name", lambda b: b.update(tools=b["tools"] * 2), "'read' is not unique"),
    (
        "strict-tool-with-an-open-schema",
        put("tools", 0, "function", "strict", value=True),
        "'additionalProperties'",
    ),
    ("no-messages", put("messages", value=[]), "Invalid 'messages': empty array"),
    ("unknown-role", put("messages", 0, "role", value="model"), "Invalid value: 'model'"),
    ("message-that-is-text", put("messages", 0, value="Hi"), "expected an object"),
    ("null-without-calls", put("messages", 6, "content", value=None), "got null"),
    ("null-of-the-user", put("messages", 7, "content", value=None), "got null"),
    ("content-a-number", put("messages", 7, "content", value=7), "but got an integer instead"),
    ("no-parts", put("messages", 1, "content", value=[]), "empty array"),
    ("foreign-part", put("messages", 1, "content", 0, "type", value="input_text"), "Invalid value"),
    ("text-part-null", put("messages", 1, "content", 0, "text", value=None), "expected a string"),
    (
        "image-in-a-tool-message",
        lambda b: b["messages"][4].update(content=b["messages"][5]["content"]),
        "only allowed for messages with role 'user'",
    ),
    (
        "image-of-the-assistant",
        lambda b: b["messages"][6].update(content=b["messages"][5]["content"]),
        "only allowed for messages with role 'user'",
    ),
    (
        "image-not-base64",
        put("messages", 5, "content", 0, "image_url", "url", value="data:image/png;base64,%"),
        "Invalid image_url",
    ),
    ("no-calls-in-the-list", put("messages", 2, "tool_calls", value=[]), "empty array"),
    ("call-without-id", drop(*CALL, "id"), "Missing required parameter"),
    ("call-id-of-41", put(*CALL, "id", value="x" * 41), "maximum length 40"),
    ("call-without-type", drop(*CALL, "type"), "Supported values are: 'function'"),
    ("arguments-an-object", put(*CALL, "function", "arguments", value={}), "but got an object"),
    ("arguments-missing", drop(*CALL, "function", "arguments"), "but got null"),
    ("call-name-with-a-dot", put(*CALL, "function", "name", value="a.b"), "match pattern"),
    ("call-name-empty", put(*CALL, "function", "name", value=""), "empty string"),
    ("result-without-id", drop("messages", 3, "tool_call_id"), "Missing required parameter"),
    ("result-id-of-41", put("messages", 3, "tool_call_id", value="x" * 41), "maximum length 40"),
    ("call-without-result", drop("messages", 3), "did not have response messages: call_2"),
    (
        "calls-at-the-end",
        lambda b: b.update(messages=b["messages"][:3]),
        "did not have response messages: call_1, call_2",
    ),
    (
        "message-between-call-and-result",
        insert("messages", 4, value={"role": "user", "content": "Wait."}),
        "did not have response messages: call_1",
    ),
    ("result-without-call", drop("messages", 2), "must be a response to a preceding message"),
    (
        "result-of-an-older-call",
        lambda b: b["messages"].append(b["messages"][3]),
        "must be a response to a preceding message",
    ),
    (
        "two-results-of-one-call",
        lambda b: b["messages"].insert(4, b["messages"][3]),
        "duplicate response to 'call_2'",
    ),
    ("two-calls-of-one-id", put(*CALL, "id", value="call_2"), "duplicate id 'call_2'"),
    (
        "call-id-of-an-older-turn",
        lambda b: b.update(messages=b["messages"][:7] + b["messages"][1:5]),
        "duplicate id 'call_1'",
    ),
)
def test_chat_refuses_a_broken_history(change: Change, says: str) -> None:
    body = copy.deepcopy(chat())
    change(body)
    assert_refused(check_chat(body), says)


# -- Responses


def responses() -> Body:
    """Reasoning that leads to a call, two calls at once, an image, an answer, a second turn."""
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
    say = {"type": "output_text", "text": "One is a picture.", "annotations": []}
    return {
        "model": "gpt-test",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "read", "parameters": SCHEMA, "strict": False}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Read both."}, image]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": seal(THOUGHT)},
            call_item("call_1", follower_id("fc", "rs_1")),
            call_item("call_2", "fc_2"),
            {"type": "function_call_output", "call_id": "call_1", "output": [image]},
            {"type": "function_call_output", "call_id": "call_2", "output": "No such file."},
            {"type": "message", "role": "assistant", "id": "msg_1", "content": [say]},
            {"role": "user", "content": "And now?"},
        ],
    }


def call_item(call_id: str, id: str) -> Body:
    item = {"type": "function_call", "id": id, "call_id": call_id, "name": "read"}
    return item | {"arguments": '{"path": "a"}', "status": "completed"}


def responses_in_turn() -> Body:
    """The same, waiting for what comes after the results."""
    body = responses()
    del body["input"][6:]
    return body


def text_alone() -> Body:
    return {"model": "gpt-test", "input": "Hello."}


def items_without_ids() -> Body:
    """How another provider's history goes: no reasoning, and no ids but those of the calls."""
    body = responses()
    del body["input"][1]
    for item in body["input"]:
        item.pop("id", None)
    return body


def reasoning_that_is_stored() -> Body:
    body = responses()
    del body["store"], body["input"][1]["encrypted_content"]
    return body


@pytest.mark.parametrize(
    "body",
    [responses, responses_in_turn, text_alone, items_without_ids, reasoning_that_is_stored],
    ids=lambda body: body.__name__,
)
def test_responses_takes_a_good_history(body: Callable[[], Body]) -> None:
    assert check_responses(body()) == []


@broken(
    ("no-model", drop("model"), "Missing required parameter: 'model'"),
    ("no-input", put("input", value=[]), "Missing required parameter: 'input'"),
    ("unknown-field", put("messages", value=[]), "Unknown parameter: 'messages'"),
    ("instructions-a-list", put("instructions", value=[]), "Invalid type for 'instructions'"),
    ("max-tokens-15", put("max_output_tokens", value=15), "Expected a value >= 16"),
    ("unknown-include", put("include", value=["usage"]), "Invalid value: 'usage'"),
    ("encrypted-where-none-reasons", put("model", value="gpt-4.1"), "Encrypted content is not"),
    (
        "tool-choice-without-tools",
        lambda b: (b.pop("tools"), b.update(tool_choice="required")),
        "Tool choice must be",
    ),
    ("tool-schema-not-an-object", put("tools", 0, "parameters", value={}), "Invalid schema for"),
    ("tool-name-with-a-dot", put("tools", 0, "name", value="a.b"), "match pattern"),
    (
        "tool-as-chat-has-it",
        put("tools", 0, value={"type": "function", "function": {}}),
        "[0].name",
    ),
    ("two-tools-of-one-name", lambda b: b.update(tools=b["tools"] * 2), "'read' is not unique"),
    ("strict-tool-with-an-open-schema", put("tools", 0, "strict", value=True), "additionalProp"),
    ("unknown-item", put("input", 3, "type", value="tool_call"), "Invalid value: 'tool_call'"),
    ("item-without-type", put("input", 3, value={"text": "Hi"}), "Invalid value: 'None'"),
    ("item-that-is-text", put("input", 0, value="Hi"), "expected an input item"),
    ("tool-as-a-role", put("input", 7, "role", value="tool"), "Invalid value: 'tool'"),
    ("message-without-content", drop("input", 7, "content"), "'input[7].content'"),
    ("no-parts", put("input", 0, "content", value=[]), "empty array"),
    (
        "output-part-of-the-user",
        put("input", 0, "content", 0, "type", value="output_text"),
        "Supported values are: 'input_text'",
    ),
    (
        "input-part-of-the-assistant",
        put("input", 6, "content", 0, "type", value="input_text"),
        "Supported values are: 'output_text'",
    ),
    ("chat-part", put("input", 0, "content", 1, "type", value="image_url"), "'image_url'"),
    ("image-not-base64", put("input", 0, "content", 1, "image_url", value="x"), "Invalid image"),
    ("image-as-chat-has-it", put("input", 0, "content", 1, "image_url", value={}), "an image URL"),
    ("arguments-an-object", put("input", 2, "arguments", value={}), "but got an object instead"),
    ("arguments-missing", drop("input", 2, "arguments"), "'input[2].arguments'"),
    ("call-name-with-a-dot", put("input", 2, "name", value="a.b"), "match pattern"),
    ("call-without-call-id", drop("input", 2, "call_id"), "'input[2].call_id'"),
    ("call-id-of-65", put("input", 2, "call_id", value="x" * 65), "maximum length 64"),
    ("output-missing", drop("input", 5, "output"), "'input[5].output'"),
    ("output-an-object", put("input", 5, "output", value={}), "expected one of an array"),
    ("call-item-id-of-another-kind", put("input", 3, "id", value="call_2"), "begins with 'fc'"),
    ("message-id-of-another-kind", put("input", 6, "id", value="chatcmpl-1"), "begins with 'msg'"),
    ("item-id-of-65", put("input", 3, "id", value="fc" + "x" * 63), "maximum length 64"),
    (
        "an-item-twice",
        lambda b: b["input"].append(b["input"][6]),
        "Duplicate item found with id msg_1",
    ),
    ("two-calls-of-one-id", put("input", 3, "call_id", value="call_1"), "Duplicate function_call"),
    (
        "two-results-of-one-call",
        lambda b: b["input"].append(b["input"][5]),
        "Duplicate function_call_output",
    ),
    ("call-without-result", drop("input", 5), "No tool output found for function call call_2"),
    ("result-without-call", drop("input", 3), "with call_id call_2"),
    (
        "result-before-its-call",
        lambda b: b["input"].insert(1, b["input"].pop(5)),
        "No tool call found for function call output with call_id call_2",
    ),
    ("reasoning-without-id", drop("input", 1, "id"), "'input[1].id'"),
    ("reasoning-without-summary", drop("input", 1, "summary"), "'input[1].summary'"),
    (
        "reasoning-without-what-followed",
        lambda b: (
            b.update(input=[*b["input"][:2], *b["input"][6:]], store=True)
            or b["input"].insert(2, {"role": "user", "content": "Hm."})
        ),
        "without its required following item",
    ),
    ("reasoning-last", lambda b: b["input"].append(b["input"].pop(1)), "required following item"),
    ("reasoning-left-out", drop("input", 1), "without its required 'reasoning' item: 'rs_1'"),
    (
        "reasoning-moved-away",
        lambda b: b["input"].insert(3, b["input"].pop(1)),
        "without its required 'reasoning' item",
    ),
    ("reasoning-neither-stored-nor-sent", drop("input", 1, "encrypted_content"), "not persisted"),
    (
        "reasoning-altered",
        put("input", 1, "encrypted_content", value=seal(THOUGHT)[:-4] + "AAAA"),
        "could not be verified",
    ),
)
def test_responses_refuses_a_broken_history(change: Change, says: str) -> None:
    body = copy.deepcopy(responses())
    change(body)
    assert_refused(check_responses(body), says)


# -- shared rules


@pytest.mark.parametrize(
    ("media_type", "data", "says"),
    [
        ("image/png", PNG, ""),
        ("image/jpeg", PNG, "does not match"),
        ("image/svg+xml", PNG, "is none of"),
        ("image/png", "", "no base64"),
        ("image/png", "***", "invalid base64"),
    ],
)
def test_an_image_has_to_be_what_it_says(media_type: str, data: str, says: str) -> None:
    fault = image_fault(media_type, data)
    assert says in fault
    assert bool(says) == bool(fault)


def test_a_seal_is_the_same_each_time_and_tells_one_text_from_another() -> None:
    assert seal("a") == seal("a") != seal("b")
    assert sign("a") == sign("a") != sign("a", hidden=True)
