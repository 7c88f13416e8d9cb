"""What servers want that speak Chat Completions in their own way: more that is refused.

Each is named as the adapter's quirk that answers it. Sources: https://docs.mistral.ai/api and
https://mistralai.github.io/mistral-common/usage/tools (ids, roles, fields),
https://api-docs.deepseek.com/guides/thinking_mode#tool-calls (reasoning that comes back).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from tests.loopback.checking import Complaint, Complaints, Json


def _short_ids(body: Json) -> Complaints:
    for message in body["messages"]:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        ids += [message["tool_call_id"]] if message["role"] == "tool" else []
        for id in ids:
            if not re.fullmatch(r"[a-zA-Z0-9]{9}", id):
                yield Complaint(
                    f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
                )


def _no_user_after_tool(body: Json) -> Complaints:
    for before, message in pairwise(body["messages"]):
        if (before["role"], message["role"]) == ("tool", "user"):
            yield Complaint("Unexpected role 'user' after role 'tool'")


def _no_stream_options(body: Json) -> Complaints:
    if "stream_options" in body:
        yield Complaint("body.stream_options: Extra inputs are not permitted")


def _max_tokens(body: Json) -> Complaints:
    if "max_completion_tokens" in body:
        yield Complaint("max_completion_tokens: Extra inputs are not permitted")


def _reasoning_content(body: Json) -> Complaints:
    for i, message in enumerate(body["messages"]):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            yield Complaint(
                f"Missing `reasoning_content` field in the assistant message at message index {i}"
            )


WISHES: dict[str, Callable[[Json], Complaints]] = {
    "reasoning_content": _reasoning_content,
    "short_ids": _short_ids,
    "no_user_after_tool": _no_user_after_tool,
    "no_stream_options": _no_stream_options,
    "max_tokens": _max_tokens,
}
