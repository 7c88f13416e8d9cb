"""What the Chat Completions API answers with a 400, as a function of the request's body. Pure.

Sources: https://platform.openai.com/docs/api-reference/chat/create (fields, roles, parts, tools),
https://platform.openai.com/docs/guides/function-calling (where a call's result has to stand).
"""

from __future__ import annotations

from typing import Any

from tests.loopback.checking import (
    Complaint,
    Complaints,
    Json,
    doubles,
    image_fault,
    is_count,
    is_name,
    kind_of,
    schema_fault,
)

FIELDS = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "n",
        "stop",
        "seed",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "user",
        "frequency_penalty",
        "presence_penalty",
        "response_format",
        "reasoning_effort",
        "verbosity",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "modalities",
        "prediction",
    }
)
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
PARTS = {
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text",),
    "function": ("text",),
    "assistant": ("text", "refusal"),
    "user": ("text", "image_url", "input_audio", "file"),
}
LONGEST_ID = 40
MOST_TOOLS = 128


def check_chat(body: Json) -> list[Complaint]:
    """Everything that the Chat Completions API would refuse this request for."""
    found = [*_top(body), *_tools(body)]
    messages = body.get("messages")
    if not isinstance(messages, list):
        return [*found, Complaint("Missing required parameter: 'messages'.", "messages")]
    if not messages:
        return [*found, _too_short("messages")]
    shape = [c for i, message in enumerate(messages) for c in _message(message, f"messages[{i}]")]
    if shape:
        return found + shape
    return [*found, *_pairs(messages)]


def _too_short(param: str) -> Complaint:
    return Complaint(
        f"Invalid '{param}': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead.",
        param,
        "empty_array",
    )


def _wrong_type(param: str, wanted: str, got: object) -> Complaint:
    return Complaint(
        f"Invalid type for '{param}': expected {wanted}, but got {kind_of(got)} instead.",
        param,
        "invalid_type",
    )


def _wrong_value(param: str, got: object, allowed: tuple[str, ...]) -> Complaint:
    names = ", ".join(f"'{name}'" for name in allowed)
    return Complaint(
        f"Invalid value: '{got}'. Supported values are: {names}.", param, "invalid_value"
    )


# -- the request around the messages


def _top(body: Json) -> Complaints:
    for name in body.keys() - FIELDS:
        yield Complaint(f"Unrecognized request argument supplied: {name}", name)
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield Complaint("you must provide a model parameter", "model")
    for name in ("max_tokens", "max_completion_tokens"):
        if name in body and not is_count(body[name]):
            yield Complaint(f"Invalid '{name}': expected a value >= 1.", name)
    if "stream_options" in body and not body.get("stream"):
        yield Complaint(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    if body.get("tool_choice") and not body.get("tools"):
        yield Complaint("'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")


def _tools(body: Json) -> Complaints:
    if "tools" not in body:
        return
    tools = body["tools"]
    if not tools:
        yield _too_short("tools")
    if len(tools) > MOST_TOOLS:
        yield Complaint(f"Invalid 'tools': array too long, more than {MOST_TOOLS}.", "tools")
    for i, tool in enumerate(tools):
        if tool.get("type") != "function":
            yield _wrong_value(f"tools[{i}].type", tool.get("type"), ("function", "custom"))
            continue
        yield from function_faults(tool.get("function") or {}, f"tools[{i}].function")
    for name in doubles((tool.get("function") or {}).get("name") for tool in tools):
        yield Complaint(f"Invalid 'tools': the function name '{name}' is not unique.", "tools")


def function_faults(function: Json, at: str) -> Complaints:
    """What is wrong with a function that a model may call. Shared with the Responses API."""
    name = function.get("name")
    yield from name_faults(name, f"{at}.name")
    schema = function.get("parameters")
    if schema is None:
        return
    if fault := schema_fault(schema):
        yield Complaint(
            f"Invalid schema for function '{name}': {fault}.",
            f"{at}.parameters",
            "invalid_function_parameters",
        )
    elif function.get("strict") and (
        schema.get("additionalProperties") is not False
        or set(schema.get("required", ())) != set(schema.get("properties", ()))
    ):
        yield Complaint(
            f"Invalid schema for function '{name}': a strict one needs 'additionalProperties' to "
            "be supplied and to be false, and every property in 'required'.",
            f"{at}.parameters",
            "invalid_function_parameters",
        )


def name_faults(name: object, param: str) -> Complaints:
    """What is wrong with a function's name. Shared with the Responses API."""
    if not isinstance(name, str):
        yield Complaint(
            f"Missing required parameter: '{param}'.", param, "missing_required_parameter"
        )
    elif not name:
        yield Complaint(f"Invalid '{param}': empty string.", param, "empty_string")
    elif len(name) > 64:
        yield string_too_long(param, 64, name)
    elif not is_name(name):
        yield Complaint(
            f"Invalid '{param}': string does not match pattern. Expected a string that matches "
            "the pattern '^[a-zA-Z0-9_-]+$'.",
            param,
            "invalid_value",
        )


def string_too_long(param: str, most: int, got: str) -> Complaint:
    return Complaint(
        f"Invalid '{param}': string too long. Expected a string with maximum length {most}, but "
        f"got a string with length {len(got)} instead.",
        param,
        "string_above_max_length",
    )


# -- the shape of each message


def _message(message: Any, at: str) -> Complaints:
    if not isinstance(message, dict):
        yield _wrong_type(at, "an object", message)
        return
    role = message.get("role")
    if role not in ROLES:
        yield _wrong_value(f"{at}.role", role, ROLES)
        return
    content = message.get("content")
    if content is None:
        yield from _no_content(message, at)
    elif isinstance(content, list):
        yield from _parts(content, str(role), f"{at}.content")
    elif not isinstance(content, str):
        yield _wrong_type(f"{at}.content", "one of a string or array of objects", content)
    if role == "tool":
        yield from _id(message.get("tool_call_id"), f"{at}.tool_call_id")
    if "tool_calls" in message:
        yield from _calls(message, at)


def _no_content(message: Json, at: str) -> Complaints:
    if message["role"] == "assistant" and (message.get("tool_calls") or message.get("refusal")):
        return
    yield Complaint("Invalid value for 'content': expected a string, got null.", f"{at}.content")


def _parts(parts: list[Any], role: str, at: str) -> Complaints:
    if not parts:
        yield _too_short(at)
    for j, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, dict) else kind_of(part)
        if kind == "image_url" and role != "user":
            yield Complaint(
                f"Invalid '{at}'. Image URLs are only allowed for messages with role 'user', but "
                f"this message with role '{role}' contains an image URL.",
                at,
            )
        elif kind not in PARTS[role]:
            yield _wrong_value(f"{at}[{j}].type", kind, PARTS[role])
        elif kind == "text" and not isinstance(part.get("text"), str):
            yield _wrong_type(f"{at}[{j}].text", "a string", part.get("text"))
        elif kind == "image_url":
            yield from image_url_faults((part.get("image_url") or {}).get("url"), f"{at}[{j}]")


def image_url_faults(url: object, param: str) -> Complaints:
    """What is wrong with an image's address. Shared with the Responses API."""
    if not isinstance(url, str):
        yield _wrong_type(param, "an image URL", url)
        return
    if url.startswith(("https://", "http://")):
        return
    head, _, data = url.removeprefix("data:").partition(";base64,")
    if not url.startswith("data:") or (fault := image_fault(head, data)):
        why = fault if url.startswith("data:") else "it is no URL"
        yield Complaint(f"Invalid image_url: {why}.", param, "invalid_image_url")


def _calls(message: Json, at: str) -> Complaints:
    if message["role"] != "assistant":
        yield Complaint(f"Unrecognized request argument supplied: tool_calls ({at})", at)
        return
    calls = message["tool_calls"]
    if not isinstance(calls, list):
        yield _wrong_type(f"{at}.tool_calls", "an array of objects", calls)
        return
    if not calls:
        yield _too_short(f"{at}.tool_calls")
    for j, call in enumerate(calls):
        where = f"{at}.tool_calls[{j}]"
        yield from _id(call.get("id"), f"{where}.id")
        if call.get("type") != "function":
            yield _wrong_value(f"{where}.type", call.get("type"), ("function", "custom"))
        function = call.get("function") or {}
        yield from name_faults(function.get("name"), f"{where}.function.name")
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            yield _wrong_type(f"{where}.function.arguments", "a string", arguments)


def _id(value: Any, param: str) -> Complaints:
    if not isinstance(value, str) or not value:
        yield Complaint(
            f"Missing required parameter: '{param}'.", param, "missing_required_parameter"
        )
    elif len(value) > LONGEST_ID:
        yield string_too_long(param, LONGEST_ID, value)


# -- how the messages go together


def _pairs(messages: list[Json]) -> Complaints:
    pending: dict[str, None] = {}
    open_ids: set[str] = set()
    seen: set[str] = set()
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            yield from _answer(message, pending, open_ids, i)
            continue
        yield from _unanswered(pending, i)
        ids = [call["id"] for call in message.get("tool_calls", ())]
        for id in [*doubles(ids), *sorted(seen & set(ids))]:
            yield Complaint(f"Invalid 'messages[{i}].tool_calls': duplicate id '{id}'.", "messages")
        seen |= set(ids)
        pending, open_ids = dict.fromkeys(ids), set(ids)
    yield from _unanswered(pending, len(messages))


def _answer(message: Json, pending: dict[str, None], open_ids: set[str], i: int) -> Complaints:
    id = message["tool_call_id"]
    if id not in open_ids:
        yield Complaint(
            "Invalid parameter: messages with role 'tool' must be a response to a preceding "
            "message with 'tool_calls'.",
            f"messages.[{i}].role",
        )
    elif id not in pending:
        yield Complaint(
            f"Invalid 'messages[{i}].tool_call_id': duplicate response to '{id}'.", "messages"
        )
    pending.pop(id, None)


def _unanswered(pending: dict[str, None], i: int) -> Complaints:
    if pending:
        yield Complaint(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(pending)}",
            f"messages.[{i}].role",
        )
