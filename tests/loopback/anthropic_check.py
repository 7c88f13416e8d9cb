"""What the Messages API answers with a 400, as a function of the request's body. Pure.

Sources, all under https://platform.claude.com/docs/en/: api/messages (fields, tool names, roles),
api/errors (common validation errors), agents-and-tools/tool-use/handle-tool-calls (where results
stand), build-with-claude/extended-thinking (signed thinking). Where models or years of the service
differ, the stricter rule is the one here.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from tests.loopback.checking import (
    Complaint,
    Complaints,
    Json,
    doubles,
    image_fault,
    is_count,
    is_name,
    schema_fault,
)
from tests.loopback.sealed import is_sealed, is_signed

FIELDS = frozenset(
    {
        "model",
        "max_tokens",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "stream",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "metadata",
        "service_tier",
        "container",
        "output_config",
        "cache_control",
    }
)
BLOCK_FIELDS = {
    "text": {"text", "citations"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "tool_use": {"id", "name", "input", "caller", "toolset_name"},
    "tool_result": {"tool_use_id", "content", "is_error", "toolset_name"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
OF_USER = frozenset({"text", "image", "document", "tool_result"})
OF_ASSISTANT = frozenset({"text", "tool_use", "thinking", "redacted_thinking"})
IN_RESULTS = ("text", "image", "document", "search_result")
THINKING = ("thinking", "redacted_thinking")
LEAST_BUDGET = 1024
MOST_MARKS = 4
EFFORTS = ("low", "medium", "high", "xhigh", "max")


def check_anthropic(body: Json) -> list[Complaint]:
    """Everything that the Messages API would refuse this request for."""
    found = [*_top(body), *_tools(body)]
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, Complaint("messages: at least one message is required")]
    shape = list(_shapes(messages))
    if shape:  # pairing can only be read in messages that have their shape
        return found + shape
    found += _marks(body)
    return [*found, *_pairs(messages), *_order(messages), *_turn(messages, body)]


# -- the request around the messages


def _top(body: Json) -> Complaints:
    for name in body.keys() - FIELDS:
        yield Complaint(f"{name}: Extra inputs are not permitted")
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield Complaint("model: Field required")
    if "max_tokens" not in body:
        yield Complaint("max_tokens: Field required")
    elif not is_count(body["max_tokens"]):
        yield Complaint("max_tokens: Input should be greater than or equal to 1")
    system = body.get("system", "")
    if isinstance(system, list):
        for i, block in enumerate(system):
            yield from _text(block, f"system.{i}")
    elif not isinstance(system, str):
        yield Complaint("system: Input should be a valid string")
    effort = (body.get("output_config") or {}).get("effort", "high")
    if effort not in EFFORTS:
        yield Complaint(f"output_config.effort: Input should be one of {', '.join(EFFORTS)}")
    yield from _thinking_config(body)


def _thinking_config(body: Json) -> Complaints:
    if not _thinks(body):
        kind = (body.get("thinking") or {"type": "disabled"}).get("type")
        if kind not in ("adaptive", "disabled"):
            yield Complaint(
                f"thinking: Input tag '{kind}' found using 'type' does not match any of the "
                "expected tags: 'adaptive', 'disabled', 'enabled'"
            )
        return
    budget = body["thinking"].get("budget_tokens")
    if not is_count(budget, LEAST_BUDGET):
        yield Complaint(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        )
    elif is_count(body.get("max_tokens")) and budget >= body["max_tokens"]:
        yield Complaint("`max_tokens` must be greater than `thinking.budget_tokens`")
    if body.get("temperature", 1) != 1:
        yield Complaint("`temperature` may only be set to 1 when thinking is enabled")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield Complaint("Thinking may not be enabled when tool_choice forces tool use.")


def _thinks(body: Json) -> bool:
    return (body.get("thinking") or {}).get("type") == "enabled"


def _tools(body: Json) -> Complaints:
    tools = body.get("tools") or []
    for i, tool in enumerate(tools):
        at = f"tools.{i}.custom"
        if not is_name(tool.get("name")):
            yield Complaint(f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        if "input_schema" not in tool:
            yield Complaint(f"{at}.input_schema: Field required")
        elif fault := schema_fault(tool["input_schema"]):
            yield Complaint(f"{at}.input_schema: Input should be a schema of an object: {fault}")
        elif top := {"oneOf", "allOf", "anyOf"} & tool["input_schema"].keys():
            yield Complaint(f"{at}.input_schema: {min(top)} is not supported at the top level")
        if not isinstance(tool.get("description", ""), str):
            yield Complaint(f"{at}.description: Input should be a valid string")
    if doubles(tool.get("name") for tool in tools):
        yield Complaint("tools: Tool names must be unique.")
    if body.get("tool_choice") and not tools:
        yield Complaint("tool_choice may only be specified while providing tools")


def _marks(body: Json) -> Complaints:
    """build-with-claude/prompt-caching: at most four, none on thinking, none on nothing."""
    system = body["system"] if isinstance(body.get("system"), list) else []
    blocks = [*(body.get("tools") or ()), *system, *_all_blocks(body["messages"])]
    marked = [block for block in blocks if block.get("cache_control")]
    if len(marked) > MOST_MARKS:
        yield Complaint(
            f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. "
            f"Found {len(marked)}."
        )
    for block in marked:
        if block["cache_control"].get("type") != "ephemeral":
            yield Complaint("cache_control.type: Input should be 'ephemeral'")
        if block.get("type") in THINKING:
            yield Complaint(f"cache_control cannot be set for {block['type']} blocks")
        if block.get("type") == "text" and not block["text"]:
            yield Complaint("cache_control cannot be set for empty text blocks")


def _all_blocks(messages: list[Json]) -> list[Json]:
    return [block for message in messages for block in _blocks(message)]


# -- the shape of each message


def _shapes(messages: list[Any]) -> Complaints:
    for i, message in enumerate(messages):
        at = f"messages.{i}"
        if not isinstance(message, dict):
            yield Complaint(f"{at}: Input should be an object")
            continue
        role = message.get("role")
        if role not in ("user", "assistant"):
            yield Complaint(f'messages: Unexpected role "{role}". Allowed: "user", "assistant"')
            continue
        for name in message.keys() - {"role", "content"}:
            yield Complaint(f"{at}.{name}: Extra inputs are not permitted")
        content = message.get("content")
        if isinstance(content, str):
            yield from _text({"text": content}, f"{at}.content")
        elif not isinstance(content, list):
            yield Complaint(f"{at}.content: Field required")
        elif not content:
            yield Complaint(f"{at}: all messages must have non-empty content")
        else:
            for j, block in enumerate(content):
                yield from _block(block, role, f"{at}.content.{j}")


def _block(block: Any, role: str, at: str) -> Complaints:
    if not isinstance(block, dict):
        yield Complaint(f"{at}: Input should be an object")
        return
    kind = block.get("type")
    allowed = OF_USER if role == "user" else OF_ASSISTANT
    if kind not in BLOCK_FIELDS:
        if not str(kind).startswith(("server_tool_", "web_", "code_execution_")):
            yield Complaint(f"{at}: Input tag '{kind}' does not match any of the expected tags")
        return
    if kind not in allowed:
        yield Complaint(f"{at}: `{kind}` blocks are not allowed in `{role}` messages")
        return
    for name in block.keys() - BLOCK_FIELDS[kind] - {"type", "cache_control"}:
        yield Complaint(f"{at}.{kind}.{name}: Extra inputs are not permitted")
    match kind:
        case "text":
            yield from _text(block, at)
        case "image":
            yield from _image(block, at)
        case "tool_use":
            yield from _tool_use(block, at)
        case "tool_result":
            yield from _tool_result(block, at)
        case "thinking":
            yield from _thinking(block, at)
        case "redacted_thinking" if not is_sealed(str(block.get("data"))):
            yield Complaint(f"{at}: Invalid `data` in `redacted_thinking` block")


def _text(block: Json, at: str) -> Complaints:
    text = block.get("text")
    if not isinstance(text, str):
        yield Complaint(f"{at}.text: Input should be a valid string")
    elif not text:
        yield Complaint(f"{at}: text content blocks must be non-empty")
    elif not text.strip():
        yield Complaint(f"{at}: text content blocks must contain non-whitespace text")


def _image(block: Json, at: str) -> Complaints:
    source = block.get("source") or {}
    if source.get("type") in ("url", "file"):
        return
    if fault := image_fault(source.get("media_type"), source.get("data")):
        yield Complaint(f"{at}.image.source.base64: {fault}")


def _tool_use(block: Json, at: str) -> Complaints:
    if not is_name(block.get("id"), 256):
        yield Complaint(f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not is_name(block.get("name"), 200):
        yield Complaint(
            f"{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'"
        )
    if not isinstance(block.get("input"), dict):
        yield Complaint(f"{at}.tool_use.input: Input should be a valid dictionary")


def _tool_result(block: Json, at: str) -> Complaints:
    if not is_name(block.get("tool_use_id"), 256):
        yield Complaint(
            f"{at}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        )
    content, is_error = block.get("content"), block.get("is_error", False)
    if not isinstance(is_error, bool):
        yield Complaint(f"{at}.tool_result.is_error: Input should be a valid boolean")
    if is_error is True and not content:
        yield Complaint(f"{at}.tool_result: content cannot be empty if `is_error` is true")
    if content is None or isinstance(content, str):
        return
    if is_error is True and any(inner.get("type") != "text" for inner in content):
        yield Complaint(f"{at}.tool_result: all content must be `text` if `is_error` is true")
    if not isinstance(content, list):
        yield Complaint(f"{at}.tool_result.content: Input should be a valid string or list")
        return
    for k, inner in enumerate(content):
        where = f"{at}.tool_result.content.{k}"
        if isinstance(inner, dict) and inner.get("type") not in IN_RESULTS:
            yield Complaint(f"{where}: Input tag '{inner.get('type')}' is not expected here")
        elif not isinstance(inner, dict) or inner["type"] in ("text", "image"):
            yield from _block(inner, "user", where)


def _thinking(block: Json, at: str) -> Complaints:
    if not isinstance(block.get("signature"), str):
        yield Complaint(f"{at}.thinking.signature: Field required")
    elif not isinstance(block.get("thinking"), str):
        yield Complaint(f"{at}.thinking.thinking: Field required")
    elif not is_signed(block["thinking"], block["signature"]):
        yield Complaint(f"{at}: Invalid `signature` in `thinking` block")


# -- how the messages go together


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _ids(message: Json, kind: str, key: str) -> list[Any]:
    return [block[key] for block in _blocks(message) if block["type"] == kind]


def _pairs(messages: list[Json]) -> Complaints:
    seen: set[str] = set()
    asked: list[str] = []
    for i, message in enumerate(messages):
        yield from _answers(message, asked, i)
        asked = _ids(message, "tool_use", "id")
        for id in asked:
            if id in seen:
                yield Complaint(f"messages.{i}: `tool_use` ids must be unique: {id}")
            seen.add(id)
    if asked:
        yield _unanswered(asked, len(messages) - 1)


def _answers(message: Json, asked: list[str], i: int) -> Complaints:
    """The results of a message against the calls of the one before it."""
    leading = takewhile(lambda block: block["type"] == "tool_result", _blocks(message))
    first = [block["tool_use_id"] for block in leading]
    if missing := [id for id in asked if id not in first]:
        yield _unanswered(missing, i - 1)
    every = _ids(message, "tool_result", "tool_use_id")
    for id in every:
        if id not in asked:
            yield Complaint(
                f"messages.{i}.content: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{id}. Each `tool_result` block must have a corresponding `tool_use` block in the "
                "previous message."
            )
    for id in doubles(every):
        yield Complaint(
            f"messages.{i}.content: each tool_use must have a single result. Found multiple "
            f"`tool_result` blocks with id: {id}"
        )
    if len(every) > len(first):
        yield Complaint(f"messages.{i}.content: `tool_result` blocks must come first in a message")


def _unanswered(ids: list[str], i: int) -> Complaint:
    return Complaint(
        f"messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in "
        "the next message."
    )


def _order(messages: list[Json]) -> Complaints:
    if messages[0]["role"] != "user":
        yield Complaint('messages: first message must use the "user" role')
    for i, message in enumerate(messages):
        if message["role"] == "assistant" and _blocks(message)[-1]["type"] in THINKING:
            yield Complaint(
                f"messages.{i}: The final block in an assistant message cannot be `thinking`."
            )
    last = _blocks(messages[-1])[-1]
    if messages[-1]["role"] == "assistant" and last["type"] in OF_ASSISTANT:
        yield Complaint(
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )
        if last["type"] == "text" and last["text"] != last["text"].rstrip():
            yield Complaint("messages: final assistant content cannot end with trailing whitespace")


def _turn(messages: list[Json], body: Json) -> Complaints:
    """With thinking on, a turn that is in its tool calls has to begin with thinking."""
    i = len(messages)
    while i and (messages[i - 1]["role"] == "assistant" or _starts_with_result(messages[i - 1])):
        i -= 1
    if not _thinks(body) or i == len(messages):
        return
    first = _blocks(messages[i])[0]["type"]
    if messages[i]["role"] == "assistant" and first not in THINKING:
        yield Complaint(
            f"messages.{i}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{first}`. When `thinking` is enabled, a final `assistant` message must start with "
            "a thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks)."
        )


def _starts_with_result(message: Json) -> bool:
    first: str = _blocks(message)[0]["type"]
    return first == "tool_result"
