"""Values to JSON and back, in one place: strict, versioned, the same for the journal and the page.

An event of a type this version does not know becomes `Unknown` and is written back as it came.
Text that no UTF-8 can carry (lone surrogates) is replaced by U+FFFD, and NaN never gets out.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from agentloop_nb.errors import StoredDataError
from agentloop_nb.events import EVENT_TYPES, AnyEvent, Event, MessageEvent, Unknown

T = TypeVar("T")

FORMAT_VERSION = 1
"""Of the journal and the snapshot. A change that an old reader would misread raises it."""

_ENVELOPE = frozenset(f.name for f in fields(Event))
_BY_TYPE: dict[str, type[Event]] = {
    str(c.__dataclass_fields__["type"].default): c for c in EVENT_TYPES
}
_NAMES = {kind: frozenset(f.name for f in fields(cls)) for kind, cls in _BY_TYPE.items()}


@cache
def _event_adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_BY_TYPE[kind])


_adapters: dict[str, TypeAdapter[Any]] = {}


def _adapter(cls: type) -> TypeAdapter[Any]:
    name = f"{cls.__module__}.{cls.__qualname__}"
    if name not in _adapters:
        _adapters[name] = TypeAdapter(cls)
    return _adapters[name]


def event_to_json(event: AnyEvent) -> dict[str, Any]:
    """The event as JSON-able values, every field present."""
    if isinstance(event, Unknown):
        envelope = {name: getattr(event, name) for name in sorted(_ENVELOPE)}
        return {"type": event.type, **envelope, "path": list(event.path), **event.data}
    dumped = _event_adapter(event.type).dump_python(event, mode="json")
    return cast(dict[str, Any], clean(dumped))


def event_from_json(data: dict[str, Any]) -> AnyEvent:
    """The event that `event_to_json` was given.

    Raises StoredDataError where a field is missing, of another kind, or not known.
    """
    kind = data.get("type")
    if not isinstance(kind, str):
        raise StoredDataError("An event without a type.")
    if kind not in _BY_TYPE:
        return _unknown(kind, data)
    if extra := data.keys() - _NAMES[kind]:
        raise StoredDataError(
            f"An event {kind!r} has fields this version does not know "
            f"({', '.join(sorted(extra))}); it was probably written by a newer agentloop_nb. "
            "Update the package to read it."
        )
    return cast(AnyEvent, _validate(_event_adapter(kind), data, f"An event {kind!r}"))


def _unknown(kind: str, data: dict[str, Any]) -> Unknown:
    envelope = {k: v for k, v in data.items() if k in _ENVELOPE}
    envelope["path"] = tuple(envelope.get("path", ()))
    rest = {k: v for k, v in data.items() if k not in _ENVELOPE and k != "type"}
    return Unknown(type=kind, data=rest, **envelope)


def to_json(value: object) -> dict[str, Any]:
    """A frozen dataclass (a message, a state) as JSON-able values, opaque parts included."""
    return cast(dict[str, Any], clean(_adapter(type(value)).dump_python(value, mode="json")))


def from_json(cls: type[T], data: dict[str, Any]) -> T:
    """The value that `to_json` was given; raises StoredDataError where `data` is no `cls`."""
    return cast(T, _validate(_adapter(cls), data, f"A stored {cls.__name__}"))


def page_json(event: AnyEvent, *, whole: bool) -> dict[str, Any]:
    """The event as the page gets it: opaque provider parts stay here, and a message that has
    just been streamed goes without its blocks, which the page already holds (`whole` sends
    them, to a page that never saw the deltas)."""
    data = event_to_json(event)
    if isinstance(event, MessageEvent):
        message = data["message"]
        message.pop("opaque")
        for block in message["blocks"]:
            block.pop("opaque", None)
        if not whole:
            message["blocks"] = None
    return data


def dumps(value: Any) -> str:
    """Strict JSON on one line; raises ValueError on NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _validate(adapter: TypeAdapter[Any], data: dict[str, Any], what: str) -> Any:
    try:
        return adapter.validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise StoredDataError(f"{what} cannot be read at {place}: {first['msg']}.") from error


def clean(value: Any) -> Any:
    """The same JSON-able value with every string encodable and every number finite."""
    match value:
        case str():
            return value if value.isascii() or _encodable(value) else clean_text(value)
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(clean(k)): clean(v) for k, v in value.items()}
        case list() | tuple():
            return [clean(item) for item in value]
        case _:
            return value


def clean_text(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
