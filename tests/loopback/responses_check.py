"""What the Responses API answers with a 400, as a function of the request's body. Pure.

Sources: https://platform.openai.com/docs/api-reference/responses/create (items, parts, fields),
https://platform.openai.com/docs/guides/reasoning (reasoning items, encrypted or stored, and what
has to follow them) and https://platform.openai.com/docs/guides/function-calling.
"""

from __future__ import annotations

from typing import Any

from tests.loopback.chat_check import (
    function_faults,
    image_url_faults,
    name_faults,
    string_too_long,
)
from tests.loopback.checking import Complaint, Complaints, Json, doubles, is_count, kind_of
from tests.loopback.sealed import is_sealed

FIELDS = frozenset(
    {
        "model",
        "input",
        "instructions",
        "include",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "stream",
        "stream_options",
        "parallel_tool_calls",
        "previous_response_id",
        "conversation",
        "reasoning",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_p",
        "top_logprobs",
        "truncation",
        "user",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "background",
    }
)
INCLUDES = frozenset({"reasoning.encrypted_content", "message.output_text.logprobs"})
ROLES = ("assistant", "system", "developer", "user")
INPUT_PARTS = ("input_text", "input_image", "input_file")
OUTPUT_PARTS = ("output_text", "refusal")
ITEMS = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "item_reference",
    "custom_tool_call",
    "custom_tool_call_output",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "compaction",
)
ID_PREFIX = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
LONGEST_ID = 64
LEAST_OUTPUT_TOKENS = 16
DO_NOT_REASON = ("gpt-3", "gpt-4", "chatgpt-4")


def check_responses(body: Json) -> list[Complaint]:
    """Everything that the Responses API would refuse this request for."""
    found = [*_top(body), *_tools(body)]
    items = body.get("input")
    if isinstance(items, str):
        return found
    if not isinstance(items, list) or not items:
        return [*found, Complaint("Missing required parameter: 'input'.", "input", MISSING)]
    shape = [c for i, item in enumerate(items) for c in _item(item, f"input[{i}]", body)]
    if shape:
        return found + shape
    return [*found, *_ids(items), *_pairs(items), *_followers(items)]


MISSING = "missing_required_parameter"


def _value(param: str, got: object, allowed: tuple[str, ...]) -> Complaint:
    names = ", ".join(f"'{name}'" for name in allowed)
    return Complaint(
        f"Invalid value: '{got}'. Supported values are: {names}.", param, "invalid_value"
    )


def _type(param: str, wanted: str, got: object) -> Complaint:
    if got is None:
        return Complaint(f"Missing required parameter: '{param}'.", param, MISSING)
    return Complaint(
        f"Invalid type for '{param}': expected {wanted}, but got {kind_of(got)} instead.",
        param,
        "invalid_type",
    )


# -- the request around the items


def _top(body: Json) -> Complaints:
    for name in body.keys() - FIELDS:
        yield Complaint(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield Complaint("Missing required parameter: 'model'.", "model", MISSING)
    if not isinstance(body.get("instructions", ""), str):
        yield _type("instructions", "a string", body["instructions"])
    if "max_output_tokens" in body and not is_count(body["max_output_tokens"], LEAST_OUTPUT_TOKENS):
        yield Complaint(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= "
            f"{LEAST_OUTPUT_TOKENS}.",
            "max_output_tokens",
            "integer_below_min_value",
        )
    for i, name in enumerate(body.get("include") or ()):
        if name not in INCLUDES:
            yield _value(f"include[{i}]", name, tuple(sorted(INCLUDES)))
        elif "encrypted" in name and str(body.get("model")).startswith(DO_NOT_REASON):
            yield Complaint("Encrypted content is not supported with this model.", "include")
    if body.get("tool_choice") not in (None, "auto", "none") and not body.get("tools"):
        yield Complaint("Tool choice must be 'auto' or 'none' without tools.", "tool_choice")


def _tools(body: Json) -> Complaints:
    functions = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
    for i, tool in enumerate(body.get("tools") or ()):
        if tool.get("type") == "function":
            yield from function_faults(tool, f"tools[{i}]")
        elif not isinstance(tool.get("type"), str):
            yield Complaint(f"Missing required parameter: 'tools[{i}].type'.", "tools", MISSING)
    for name in doubles(tool.get("name") for tool in functions):
        yield Complaint(f"Invalid 'tools': the function name '{name}' is not unique.", "tools")


# -- the shape of each item


def _item(item: Any, at: str, body: Json) -> Complaints:
    if not isinstance(item, dict):
        yield _type(at, "an input item", item)
        return
    kind = _kind(item)
    if kind not in ITEMS:
        yield _value(at, kind, ITEMS)
        return
    yield from _item_id(item, kind, at)
    match kind:
        case "message":
            yield from _message(item, at)
        case "reasoning":
            yield from _reasoning(item, at, stored=body.get("store", True))
        case "function_call":
            yield from _call_id(item.get("call_id"), f"{at}.call_id")
            yield from name_faults(item.get("name"), f"{at}.name")
            if not isinstance(item.get("arguments"), str):
                yield _type(f"{at}.arguments", "a string", item.get("arguments"))
        case "function_call_output":
            yield from _call_id(item.get("call_id"), f"{at}.call_id")
            yield from _output(item.get("output"), f"{at}.output")


def _kind(item: Json) -> Any:
    return item.get("type", "message" if "role" in item else None)


def _item_id(item: Json, kind: str, at: str) -> Complaints:
    id, prefix = item.get("id"), ID_PREFIX.get(kind)
    if id is None:
        if kind == "reasoning":
            yield _type(f"{at}.id", "a string", None)
    elif prefix and not str(id).startswith(prefix):
        yield Complaint(
            f"Invalid '{at}.id': '{id}'. Expected an ID that begins with '{prefix}'.",
            f"{at}.id",
            "invalid_value",
        )
    elif len(str(id)) > LONGEST_ID:
        yield string_too_long(f"{at}.id", LONGEST_ID, str(id))


def _message(item: Json, at: str) -> Complaints:
    role = item.get("role")
    if role not in ROLES:
        yield _value(f"{at}.role", role, ROLES)
        return
    content = item.get("content")
    if isinstance(content, str):
        return
    allowed = OUTPUT_PARTS if role == "assistant" else INPUT_PARTS
    yield from _parts(content, allowed, f"{at}.content")


def _parts(parts: object, allowed: tuple[str, ...], at: str) -> Complaints:
    if not isinstance(parts, list):
        yield _type(at, "one of an array of objects or string", parts)
        return
    if not parts:
        yield Complaint(f"Invalid '{at}': empty array.", at, "empty_array")
    for j, part in enumerate(parts):
        kind, where = part.get("type") if isinstance(part, dict) else None, f"{at}[{j}]"
        if kind not in allowed:
            yield _value(f"{where}.type", kind, allowed)
        elif kind == "input_image":
            yield from image_url_faults(part.get("image_url"), f"{where}.image_url")
        elif kind in ("input_text", "output_text") and not isinstance(part.get("text"), str):
            yield _type(f"{where}.text", "a string", part.get("text"))
        elif kind == "refusal" and not isinstance(part.get("refusal"), str):
            yield _type(f"{where}.refusal", "a string", part.get("refusal"))


def _output(output: object, at: str) -> Complaints:
    if not isinstance(output, str):
        yield from _parts(output, INPUT_PARTS, at)


def _call_id(value: object, param: str) -> Complaints:
    if value is not None and not isinstance(value, str):
        yield _type(param, "a string", value)
    elif not value:
        yield Complaint(f"Missing required parameter: '{param}'.", param, MISSING)
    elif len(value) > LONGEST_ID:
        yield string_too_long(param, LONGEST_ID, value)


def _reasoning(item: Json, at: str, *, stored: bool) -> Complaints:
    if not isinstance(item.get("summary"), list):
        yield _type(f"{at}.summary", "an array of objects", item.get("summary"))
    sealed = item.get("encrypted_content")
    if sealed is None:
        if not stored:
            yield Complaint(
                f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` "
                "is set to false. Try again with `store` set to true, or remove this item from "
                "your input.",
                "input",
            )
    elif not isinstance(sealed, str) or not is_sealed(sealed):
        yield Complaint(
            f"The encrypted content for item {item.get('id')} could not be verified.",
            "input",
            "invalid_encrypted_content",
        )


# -- how the items go together


def _ids(items: list[Json]) -> Complaints:
    for id in doubles(item["id"] for item in items if item.get("id")):
        yield Complaint(
            f"Duplicate item found with id {id}. Remove duplicate items from your input and try "
            "again.",
            "input",
        )
    for kind in ("function_call", "function_call_output"):
        for id in doubles(item["call_id"] for item in items if item.get("type") == kind):
            yield Complaint(f"Duplicate {kind} found for call_id {id}.", "input")


def _pairs(items: list[Json]) -> Complaints:
    called: set[str] = set()
    answered = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    for item in items:
        match item.get("type"):
            case "function_call":
                called.add(item["call_id"])
                if item["call_id"] not in answered:
                    yield Complaint(
                        f"No tool output found for function call {item['call_id']}.", "input"
                    )
            case "function_call_output" if item["call_id"] not in called:
                yield Complaint(
                    f"No tool call found for function call output with call_id {item['call_id']}.",
                    "input",
                )


def _followers(items: list[Json]) -> Complaints:
    """A reasoning item stands right before the item that it led to, which tells by its id."""
    before: Json = {}
    for item in [*items, {}]:
        if _kind(before) == "reasoning" and not _follows(item):
            yield Complaint(
                f"Item '{before['id']}' of type 'reasoning' was provided without its required "
                "following item.",
                "input",
            )
        led_by = reasoning_of(str(item.get("id", "")))
        if led_by and before.get("id") != led_by:
            yield Complaint(
                f"Item '{item['id']}' of type '{_kind(item)}' was provided without its required "
                f"'reasoning' item: '{led_by}'.",
                "input",
            )
        before = item


def _follows(item: Json) -> bool:
    by_model = _kind(item) in ("reasoning", "function_call", "custom_tool_call", "web_search_call")
    return by_model or (_kind(item) == "message" and item.get("role") == "assistant")


def follower_id(prefix: str, reasoning_id: str) -> str:
    """The id of the item that a reasoning item led to: it holds the other's."""
    return f"{prefix}_led{reasoning_id.removeprefix('rs_')}"


def reasoning_of(id: str) -> str:
    """The reasoning item that led to the item of this id, "" where none did."""
    _, led, rest = id.partition("_led")
    return f"rs_{rest}" if led else ""
