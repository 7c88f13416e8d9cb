"""From a function's signature to what a model sees of it: a JSON Schema, made by pydantic.

A parameter becomes a field of a pydantic model under a name of ours (`p0`, `p1`, …) with its own
name as alias, so that any parameter name is legal (`schema`, `model_config`, `_x`).
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FrameType, UnionType
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from agentloop_nb.codec import clean
from agentloop_nb.errors import ToolDefinitionError
from agentloop_nb.tools.context import ToolContext
from agentloop_nb.tools.docstrings import split_docstring

JsonSchema = Mapping[str, Any]

_REFUSED: Mapping[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*{name} has no fixed name that a model could fill; take a "
    "list instead, as in `{name}: list[str]`",
    inspect.Parameter.VAR_KEYWORD: "**{name} has no fixed names that a model could fill; take a "
    "dict instead, as in `{name}: dict[str, str]`",
    inspect.Parameter.POSITIONAL_ONLY: "{name} is positional-only, and a model passes arguments "
    "by name; remove the `/` from the signature",
}


@dataclass(frozen=True)
class Parameter:
    """One argument as the model may send it. `field` is its name in the pydantic model."""

    name: str
    field: str
    annotation: object
    default: object = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        if isinstance(self.default, FieldInfo):
            return self.default.is_required()
        return self.default is inspect.Parameter.empty

    def omitted(self) -> object:
        """The value of an argument that was not sent: Python's own default."""
        if isinstance(self.default, FieldInfo):
            return self.default.get_default(call_default_factory=True, validated_data={})
        return self.default


@dataclass(frozen=True)
class Parameters:
    """A signature, read. `context` names the parameter that gets the ToolContext."""

    by_name: Mapping[str, Parameter]
    model: type[BaseModel]
    schema: JsonSchema
    description: str
    context: str | None = None


class _Schema(GenerateJsonSchema):
    """Without the titles pydantic makes of names; a default that JSON cannot say is left out."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """No warnings: the schema is right without what could not be said."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def read_parameters(function: Callable[..., object], name: str, *, skip_first: bool) -> Parameters:
    """Read a signature. `skip_first` leaves out an unbound method's `self`.

    Raises ToolDefinitionError for what a model could not fill, naming the parameter.
    """
    listed = list(inspect.signature(function).parameters.values())[skip_first:]
    hints = {p.name: _hint(function, name, p) for p in listed}
    contexts = [key for key, hint in hints.items() if is_context(hint)]
    if len(contexts) > 1:
        raise ToolDefinitionError(
            f"The tool {name!r} has two ToolContext parameters ({', '.join(contexts)}); keep one."
        )
    sent = [p for p in listed if p.name not in contexts]
    by_name = {
        p.name: Parameter(p.name, f"p{i}", hints[p.name], p.default) for i, p in enumerate(sent)
    }
    doc, said = split_docstring(inspect.getdoc(function) or "", set(by_name))
    model = _model(name, by_name, said)
    return Parameters(by_name, model, _schema(name, by_name, model), doc, *contexts)


def is_context(hint: object) -> bool:
    """Whether an annotation asks for the ToolContext: bare, with its deps, or optional."""
    origin = typing.get_origin(hint)
    if origin is Annotated or origin is typing.Union or origin is UnionType:
        return any(is_context(part) for part in typing.get_args(hint))
    return hint is ToolContext or origin is ToolContext


def _hint(function: Callable[..., object], tool: str, parameter: inspect.Parameter) -> object:
    name, annotation = parameter.name, parameter.annotation
    if reason := _REFUSED.get(parameter.kind):
        raise ToolDefinitionError(f"The tool {tool!r}: {reason.format(name=name)}.")
    if annotation is inspect.Parameter.empty:
        raise ToolDefinitionError(
            f"The tool {tool!r} has a parameter {name!r} without a type, so the model cannot be "
            f"told what to send. Annotate it, for example `{name}: {_guess(parameter.default)}`."
        )
    try:
        return _resolve(function, name, annotation)
    except Exception as error:
        raise ToolDefinitionError(
            f"The tool {tool!r}: the annotation of {name!r}, `{annotation}`, cannot be read "
            f"({type(error).__name__}: {error}). Define or import its type above the tool."
        ) from error


def _guess(default: object) -> str:
    kind = type(default).__name__
    return kind if isinstance(default, (str, bool, int, float, list, dict)) else "str"


def _resolve(function: Callable[..., object], name: str, annotation: object) -> object:
    """The annotation with postponed parts looked up, as the code around the tool sees them."""

    def shim() -> None: ...

    shim.__annotations__ = {name: annotation}
    known = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(shim, known, include_extras=True)[name]
    except NameError:
        # A type defined in a function's body is in no global; the frames above us hold it.
        around = _locals_of_callers(inspect.currentframe())
        return typing.get_type_hints(shim, known, around, include_extras=True)[name]


def _locals_of_callers(frame: FrameType | None) -> dict[str, object]:
    names: dict[str, object] = {}
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(__package__):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _model(tool: str, by_name: Mapping[str, Parameter], said: Mapping[str, str]) -> type[BaseModel]:
    try:
        return _create({p.field: _field(p, said.get(p.name, "")) for p in by_name.values()})
    except Exception as error:
        raise _undescribable(tool, by_name.values(), error) from error


def _create(fields: Mapping[str, Any]) -> type[BaseModel]:
    config = ConfigDict(extra="forbid", protected_namespaces=())
    made: type[BaseModel] = create_model(
        "Arguments", __config__=config, **cast(dict[str, Any], fields)
    )
    made.model_rebuild()
    return made


def _field(parameter: Parameter, said: str) -> object:
    """What `create_model` wants of one field: its type, and its default where it has one."""
    default = parameter.default
    by_field = [default] if isinstance(default, FieldInfo) else []
    text = _described([*getattr(parameter.annotation, "__metadata__", ()), *by_field]) or said
    name = parameter.name
    ours = Field(
        alias=name, validation_alias=name, serialization_alias=name, description=text or None
    )
    kind = cast(Any, Annotated)[(parameter.annotation, *by_field, ours)]
    return kind if by_field or parameter.required else (kind, default)


def _described(metadata: Iterable[object]) -> str:
    """The description in an annotation: a plain string, a pydantic Field's, or a `Doc`'s."""
    for item in metadata:
        text = item if isinstance(item, str) else getattr(item, "description", None)
        text = text or getattr(item, "documentation", None)
        if isinstance(text, str) and text:
            return text
    return ""


def _schema(tool: str, by_name: Mapping[str, Parameter], model: type[BaseModel]) -> JsonSchema:
    try:
        made = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    except PydanticUserError as error:
        raise _undescribable(tool, by_name.values(), error) from error
    made.pop("title", None)
    made.setdefault("properties", {})
    return cast(JsonSchema, clean(made))


def _undescribable(
    tool: str, parameters: Iterable[Parameter], error: Exception
) -> ToolDefinitionError:
    """Which parameter it was: each is tried alone."""
    for parameter in parameters:
        try:
            _create({parameter.field: _field(parameter, "")}).model_json_schema()
        except Exception as reason:
            first = str(reason).strip().splitlines()[0]
            return ToolDefinitionError(
                f"The tool {tool!r}: a model cannot be told what to send for {parameter.name!r}, "
                f"annotated `{_shown(parameter.annotation)}` ({first}). Use types that JSON can "
                "carry: str, int, float, bool, list, dict, an Enum, a dataclass, a pydantic model."
            )
    return ToolDefinitionError(f"The tool {tool!r} cannot be described to a model: {error}")


def _shown(annotation: object) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)


# Reading a JSON Schema back


def resolve(schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    """`schema` with a reference into `root`'s `$defs` followed."""
    seen: set[str] = set()
    while isinstance(ref := schema.get("$ref"), str) and ref not in seen:
        seen.add(ref)
        schema = root.get("$defs", {}).get(ref.rpartition("/")[2], {})
    return schema


def alternatives(schema: JsonSchema, root: JsonSchema) -> list[JsonSchema]:
    """The schemas of which a value has to fit one, references followed, unions flattened."""
    found = resolve(schema, root)
    members = found.get("anyOf") or found.get("oneOf")
    if not members:
        return [found]
    return [leaf for member in members for leaf in alternatives(member, root)]


def kinds(schema: JsonSchema, root: JsonSchema) -> frozenset[str]:
    """The JSON types a value may have; `any` where the schema leaves it open."""
    names: set[str] = set()
    for option in alternatives(schema, root):
        kind = option.get("type", "any")
        names.update([kind] if isinstance(kind, str) else kind)
    return frozenset(names)


def in_words(schema: JsonSchema, root: JsonSchema) -> str:
    """What fits, in a few words: `integer`, `one of "red", "blue"`, `list of string or null`."""
    return " or ".join(dict.fromkeys(_words(o, root) for o in alternatives(schema, root)))


def _words(schema: JsonSchema, root: JsonSchema) -> str:
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(v, ensure_ascii=False) for v in schema["enum"])
    kind = schema.get("type", "any value")
    if kind == "array":
        items = schema.get("items")
        return f"list of {in_words(items, root)}" if isinstance(items, Mapping) else "list"
    if kind == "object" and schema.get("properties"):
        return "object with " + ", ".join(schema["properties"])
    return kind if isinstance(kind, str) else " or ".join(kind)
