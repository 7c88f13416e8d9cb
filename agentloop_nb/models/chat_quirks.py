"""What some Chat Completions servers want otherwise: named, small, and chosen by what a user wrote.

A quirk is known by the model's name, by the server's address, or named as an option; none is
guessed from an error. What every server takes needs none: roles in turn, one system message first,
no empty content, images of results after them all.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, get_args

from agentloop_nb.errors import UsageError

Quirk = Literal[
    "reasoning_content", "short_ids", "no_user_after_tool", "no_stream_options", "max_tokens"
]
"""Each is one thing that a server wants:

- `reasoning_content`: a reply's thinking comes back with it, in the field of that name; without it
  DeepSeek and Kimi refuse a call's results
  (https://api-docs.deepseek.com/guides/thinking_mode#tool-calls).
- `short_ids`: ids of calls are nine letters and digits
  (https://mistralai.github.io/mistral-common/usage/tools).
- `no_user_after_tool`: no user speaks right after a result; Mistral's templates know no such turn.
- `no_stream_options`: the field is unknown, and the usage comes unasked.
- `max_tokens`: the limit of a reply has its older name. OpenAI's reasoning models refuse that,
  many other servers know no other.
"""

_BY_MODEL: tuple[tuple[str, frozenset[Quirk]], ...] = (
    (r"deepseek|kimi|moonshot", frozenset({"reasoning_content"})),
    (
        r"mistral|mixtral|ministral|magistral|codestral|devstral|pixtral",
        frozenset({"short_ids", "no_user_after_tool"}),
    ),
)
_BY_ADDRESS: tuple[tuple[str, frozenset[Quirk]], ...] = (
    (r"//api\.(?:deepseek|moonshot|kimi)\.", frozenset({"reasoning_content"})),
    (
        r"//(?:api|codestral)\.mistral\.ai\b",
        frozenset({"short_ids", "no_user_after_tool", "no_stream_options"}),
    ),
    (
        r"^(?!https://(?:[\w-]+\.)?api\.openai\.com/|https://[\w.-]+\.azure\.com/)\S",
        frozenset({"max_tokens"}),
    ),
)


def quirks_of(model: str, address: str, named: Collection[str] | None) -> frozenset[Quirk]:
    """The quirks of a server: those that are `named`, or the known ones where that is None.

    Raises UsageError where there is none of a name.
    """
    if named is not None:
        wanted = [quirk for quirk in get_args(Quirk) if quirk in named]
        if unknown := sorted(set(named) - set(wanted)):
            raise UsageError(
                f"There is no quirk {', '.join(map(repr, unknown))}. "
                f"There are {', '.join(get_args(Quirk))}."
            )
        return frozenset(wanted)
    found: set[Quirk] = set()
    for pattern, quirks in _BY_MODEL:
        if re.search(pattern, model, re.IGNORECASE):
            found |= quirks
    for pattern, quirks in _BY_ADDRESS:
        if re.search(pattern, address, re.IGNORECASE):
            found |= quirks
    return frozenset(found)
