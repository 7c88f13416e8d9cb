"""From a model's call to arguments that fit: parsed, checked, coerced, fingerprinted, shown.

A call that does not fit raises ToolArgumentsError, whose text is for the model. Nothing here runs
a tool or asks a person; `Prepared` binds what a dialog shows to what will run.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from agentloop_nb import sentences
from agentloop_nb.errors import ToolArgumentsError
from agentloop_nb.messages import ToolCall
from agentloop_nb.tools.exact import fingerprint, shown
from agentloop_nb.tools.schema import JsonSchema, Parameters, alternatives, in_words, kinds
from agentloop_nb.tools.tool import Tool


@dataclass(frozen=True)
class Prepared:
    """A call that fits its tool. `arguments` are coerced instances by name, defaults filled in.

    `fingerprint` (SHA-256, hex) is equal for equal calls, over processes too: key order and white
    space do not count, list order does, `1` is not `true`. `shown` is (argument, text) for a
    dialog, with invisible characters spelt out.
    """

    call: ToolCall
    tool: Tool[..., object]
    arguments: Mapping[str, object]
    fingerprint: str
    shown: tuple[tuple[str, str], ...]

    def needs_approval(self) -> bool:
        """Whether a person has to approve. An approval function gets arguments of its own, so
        that it cannot change what was shown and will run."""
        if not callable(self.tool.approval):
            return self.tool.asks({})
        return self.tool.asks(prepare(self.call, self.tool).arguments)


def prepare(call: ToolCall, tool: Tool[..., object]) -> Prepared:
    """Check and coerce a call's arguments.

    Raises ToolArgumentsError: which argument, what is wrong, what fits.
    """
    parameters = tool.parameters
    try:
        sent = _sent(call.arguments, parameters)
        arguments = _coerced(sent, parameters)
    except _Misfit as misfit:
        text = sentences.bad_arguments(tool.name, misfit.problems, _fits(tool))
        raise ToolArgumentsError(text) from misfit.__cause__
    return Prepared(
        call, tool, arguments, fingerprint(tool.name, arguments, sent), shown(arguments, sent)
    )


class _Misfit(Exception):
    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems


# Reading what was sent


def _sent(text: str, parameters: Parameters) -> dict[str, object]:
    """The call's arguments as JSON values, with null dropped where it can only mean "default"."""
    value = _parse(text)
    if isinstance(value, str):  # JSON text in JSON text, as some models send it
        value = _parse(value)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise _Misfit(f"the arguments have to be one JSON object, not {_brief(value)}")
    schema, problems = parameters.schema, list[str]()
    for name, parameter in parameters.by_name.items():
        if parameter.required or name not in value or value[name] is not None:
            continue
        if not kinds(schema["properties"][name], schema) & {"null", "any"}:
            del value[name]
    fitted = _fit(value, schema, schema, "", problems)
    if problems or not isinstance(fitted, dict):
        raise _Misfit(*problems)
    return fitted


def _parse(text: str) -> object:
    if not text.strip():
        return {}
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError:
        raise _Misfit("the arguments are nested too deeply") from None
    except ValueError as error:
        raise _Misfit(f"the arguments are not valid JSON: {error}") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Misfit(f"{twice}: given twice; which one is meant cannot be told")
    return value


def _no_constant(word: str) -> object:
    raise ValueError(f"{word} is no JSON value")


def _fit(
    value: object, schema: JsonSchema, root: JsonSchema, where: str, problems: list[str]
) -> object:
    """`value` with JSON text decoded where only a list or an object can be meant. A key that an
    object does not have is a problem: dropping it in silence would run another call."""
    options = alternatives(schema, root)
    if isinstance(value, str):
        value = _decoded(value, kinds(schema, root))
    if isinstance(value, list) and (option := _only("array", options)):
        return [
            _fit(item, _item(option, i), root, f"{where}[{i}]", problems)
            for i, item in enumerate(value)
        ]
    if isinstance(value, dict) and (option := _only("object", options)):
        return {
            key: _fit(item, inner, root, f"{where}.{key}".lstrip("."), problems)
            for key, item in value.items()
            if (inner := _property(option, key, where, problems)) is not None
        }
    return value


def _decoded(text: str, wanted: frozenset[str]) -> object:
    if wanted & {"string", "any"} or not wanted & {"array", "object"}:
        return text
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text
    fits = (isinstance(value, list) and "array" in wanted) or (
        isinstance(value, dict) and "object" in wanted
    )
    return value if fits else text


def _only(kind: str, options: list[JsonSchema]) -> JsonSchema | None:
    found = [option for option in options if option.get("type") == kind]
    return found[0] if len(found) == 1 else None


def _item(schema: JsonSchema, index: int) -> JsonSchema:
    first = schema.get("prefixItems", [])
    inner = first[index] if index < len(first) else schema.get("items")
    return inner if isinstance(inner, Mapping) else {}


def _property(schema: JsonSchema, key: str, where: str, problems: list[str]) -> JsonSchema | None:
    known: JsonSchema | None = schema.get("properties")
    other = schema.get("additionalProperties", known is None)
    if known is not None and key in known:
        inner: JsonSchema = known[key]
        return inner
    if other is False:
        names = list(known or ())
        close = difflib.get_close_matches(key, names, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"
        problems.append(f"{f'{where}.{key}'.lstrip('.')}: unknown argument; {hint}")
        return None
    return other if isinstance(other, Mapping) else {}


# Checking and coercing


def _coerced(sent: dict[str, object], parameters: Parameters) -> dict[str, object]:
    try:
        model = parameters.model.model_validate_json(json.dumps(sent))
    except ValidationError as error:
        raise _Misfit(*_problems(error)) from error
    except (RecursionError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise _Misfit(f"the arguments cannot be read: {error}") from error
    values = {
        name: getattr(model, parameter.field) if name in sent else parameter.omitted()
        for name, parameter in parameters.by_name.items()
    }
    lost = [line for name, raw in sent.items() for line in _lost(raw, values[name], name)]
    if lost:
        raise _Misfit(*lost)
    return values


def _problems(error: ValidationError) -> Iterator[str]:
    for item in error.errors(include_url=False):
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in item["loc"])
        if item["type"] == "missing":
            yield f"{where.lstrip('.')}: missing"
        else:
            message = item["msg"][:1].lower() + item["msg"][1:]
            yield f"{where.lstrip('.')}: {message} (got {_brief(item['input'])})"


def _lost(raw: object, got: object, where: str) -> Iterator[str]:
    """What pydantic's lax mode let pass although the value changed its meaning."""
    if isinstance(got, enum.Enum):
        got = got.value
    match raw:
        case bool() if isinstance(got, (int, float)) and not isinstance(got, bool):
            yield f"{where}: input should be a number, not a truth value (got {_brief(raw)})"
        case bool():
            return
        case int() | float() if isinstance(got, bool):
            yield f"{where}: input should be true or false, not a number (got {_brief(raw)})"
        case int() if isinstance(got, float) and got != raw:
            yield f"{where}: this number is too large to be kept exactly (got {_brief(raw)})"
        case str() if isinstance(got, bool) and raw.strip().lower() not in ("true", "false"):
            yield f"{where}: input should be true or false (got {_brief(raw)})"
        case list() if isinstance(got, (list, tuple)):
            for i, (inner, made) in enumerate(zip(raw, got, strict=False)):
                yield from _lost(inner, made, f"{where}[{i}]")
        case dict():
            for key, inner in raw.items():
                yield from _lost(inner, _member(got, key), f"{where}.{key}")


def _member(value: object, key: str) -> object:
    if isinstance(value, Mapping):
        return value.get(key)
    known = dataclasses.is_dataclass(value) or isinstance(value, BaseModel)
    return getattr(value, key, None) if known else None


def _fits(tool: Tool[..., object]) -> str:
    """One line: every argument with what it takes."""
    schema = tool.parameters.schema
    parts = [
        f"{p.name} ({in_words(schema['properties'][p.name], schema)}"
        f"{', required' if p.required else ''})"
        for p in tool.parameters.by_name.values()
    ]
    return (
        f"{tool.name} takes: {'; '.join(parts)}." if parts else f"{tool.name} takes no arguments."
    )


def _brief(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 80 else f"{text[:77]}…"
