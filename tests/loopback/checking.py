"""What the three checkers share: a complaint, and the few rules that are the same everywhere."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Complaint:
    """Why the service would answer 400: its message, and for OpenAI the parameter and the code."""

    message: str
    param: str = ""
    code: str = ""

    def __str__(self) -> str:
        return self.message


Complaints = Iterator[Complaint]

_MAGIC = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
IMAGE_TYPES = tuple(sorted(_MAGIC))


def image_fault(media_type: object, data: object) -> str:
    """What is wrong with an inline image, "" where nothing is."""
    if media_type not in _MAGIC:
        return f"media type {media_type!r} is none of {', '.join(IMAGE_TYPES)}"
    if not isinstance(data, str) or not data:
        return "no base64 data"
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return "invalid base64 data"
    if not raw.startswith(_MAGIC[str(media_type)]):
        return f"the image does not match the provided media type {media_type}"
    return ""


def schema_fault(schema: object) -> str:
    """What is wrong with a tool's schema at its top, "" where nothing is."""
    if not isinstance(schema, dict):
        return "it is not an object"
    if schema.get("type") != "object":
        return f'its type is {json.dumps(schema.get("type"))}, not "object"'
    if not isinstance(schema.get("properties", {}), dict):
        return "its properties are not an object"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "its required is not a list of names"
    return ""


def is_name(value: object, longest: int = 64) -> bool:
    """Whether a tool may have this name: letters, digits, `_` and `-`."""
    return isinstance(value, str) and bool(re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{longest}}}", value))


def is_count(value: object, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def doubles(values: Iterable[Hashable]) -> list[Any]:
    """What comes more than once, each once, in the order of its second coming."""
    seen: set[Hashable] = set()
    twice: dict[Hashable, None] = {}
    for value in values:
        if value in seen:
            twice[value] = None
        seen.add(value)
    return list(twice)


def kind_of(value: object) -> str:
    """A JSON value's type in OpenAI's words."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    if value is None:
        return "null"
    return names.get(type(value), "an integer" if isinstance(value, int) else "a number")
