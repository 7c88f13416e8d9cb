"""A call's arguments named and shown exactly: the fingerprint, and the text of a dialog.

Both are made from the coerced values. Where a value could hold more than can be seen (a secret, a
type of the user's own) what the model sent stands in for it, so that no two calls that differ
share a fingerprint or look alike.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import hashlib
import json
import pathlib
import uuid
from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from agentloop_nb.tools.spell import spell


def fingerprint(tool: str, arguments: Mapping[str, object], sent: Mapping[str, object]) -> str:
    """SHA-256 (hex) of a tool's name and its coerced arguments. `sent` holds the JSON values the
    model wrote; an argument not in it has its default."""
    named = {name: _argument(name, value, sent, True) for name, value in arguments.items()}
    return hashlib.sha256(_dumps([tool, named]).encode()).hexdigest()


def shown(
    arguments: Mapping[str, object], sent: Mapping[str, object]
) -> tuple[tuple[str, str], ...]:
    """(argument, text) for a dialog. Strings are shown as they are, anything else as JSON; what
    cannot be seen is spelt out."""
    return tuple(
        (name, spell(_text(_argument(name, value, sent, False))))
        for name, value in arguments.items()
    )


class _Opaque(Exception):
    """A value of which we cannot be sure to see everything."""


_BY_REPR = (
    *(datetime.date, datetime.time, datetime.timedelta, decimal.Decimal),
    *(uuid.UUID, pathlib.PurePath, bytes),
)
"""Types whose repr holds all of a value, the same in every process. A datetime is a date."""


def _argument(name: str, value: object, sent: Mapping[str, object], tagged: bool) -> object:
    try:
        return _plain(value, tagged)
    except (_Opaque, RecursionError):
        if name in sent:
            return ["as sent", sent[name]] if tagged else sent[name]
        return ["default"] if tagged else f"{type(value).__name__} (default)"


def _plain(value: object, tagged: bool) -> object:
    """`value` as JSON values. `tagged` adds type names and sorts what has no order."""
    kind = type(value).__qualname__
    match value:
        case enum.Enum():
            inner = _plain(value.value, tagged)
            return [kind, value.name, inner] if tagged else inner
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_plain(item, tagged) for item in value]
        case set() | frozenset():
            items = sorted((_plain(item, tagged) for item in value), key=_dumps)
            return ["set", items] if tagged else items
        case dict():
            return _pairs(kind, value.items(), tagged)
        case _ if isinstance(value, _BY_REPR):
            return [kind, repr(value)] if tagged else _said(value)
        case _:
            return _pairs(kind, _members(value), tagged)


def _members(value: object) -> Iterable[tuple[str, object]]:
    """The fields of a dataclass or a pydantic model that hides nothing beside them."""
    if isinstance(value, BaseModel):
        if value.__pydantic_private__:
            raise _Opaque
        return list(value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise _Opaque
    names = [field.name for field in dataclasses.fields(value)]
    if set(getattr(value, "__dict__", ())) - {*names, "__pydantic_fields_set__"}:
        raise _Opaque
    return [(name, getattr(value, name)) for name in names]


def _pairs(kind: str, pairs: Iterable[tuple[object, object]], tagged: bool) -> object:
    if not tagged:
        return {_text(_plain(key, False)): _plain(item, False) for key, item in pairs}
    return [kind, sorted(([_plain(k, True), _plain(v, True)] for k, v in pairs), key=_dumps)]


def _said(value: object) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return repr(value) if isinstance(value, bytes) else str(value)


def _dumps(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= 80 else json.dumps(value, ensure_ascii=False, indent=2)
