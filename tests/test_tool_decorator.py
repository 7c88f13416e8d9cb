"""What becomes a tool, what the model is told of it, and what is refused with which words."""

from __future__ import annotations

import ast
import enum
import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentloop_nb.errors import ToolDefinitionError, UsageError
from agentloop_nb.tools import Tool, ToolContext, ToolSet, as_tool, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


THIRD: int = Field(3, description="third")


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)


def properties(made: Tool[..., Any]) -> dict[str, Any]:
    return dict(made.spec.schema["properties"])


# Staying a function


def test_a_tool_is_still_called_like_the_function():
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    assert add(1) == 3
    assert add(1, b=5) == 6
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert add.__name__ == "add"
    assert add.__doc__ == "Add two numbers."


def test_options_reach_the_tool():
    def small(n: int) -> bool:
        return n > 3

    @tool(
        name="grow-it",
        description="Grows.",
        approval=small,
        concurrency="garden",
        timeout_s=4,
        return_direct=True,
        repeat_ok=True,
    )
    def grow(n: int) -> int:
        return n

    assert (grow.name, grow.description, grow.concurrency) == ("grow-it", "Grows.", "garden")
    assert (grow.timeout_s, grow.return_direct, grow.repeat_ok) == (4, True, True)
    assert grow.approval is small


def test_an_async_tool_is_known_as_such():
    @tool
    async def fetch(url: str) -> str:
        return url

    assert fetch.is_async
    assert not as_tool(lambda_named).is_async


def lambda_named(x: int) -> int:
    return x


def test_a_method_binds_to_its_object():
    class Counter:
        def __init__(self) -> None:
            self.n = 0

        @tool
        def add(self, by: int) -> int:
            """Count on."""
            self.n += by
            return self.n

        def plain(self, by: int) -> int:
            return self.n + by

        @tool
        @staticmethod
        def double(n: int) -> int:
            return 2 * n

    counter = Counter()
    bound = as_tool(counter.add)
    assert list(properties(bound)) == ["by"]
    assert bound(4) == 4
    assert counter.n == 4
    assert as_tool(counter.plain)(1) == 5
    assert as_tool(counter.double)(4) == 8
    with pytest.raises(ToolDefinitionError, match="without its object"):
        as_tool(Counter.add)


# The schema


def test_the_schema_says_types_defaults_and_what_is_required():
    @tool
    def search(
        query: str,
        limit: int = 10,
        colours: list[Colour] | None = None,
        mode: Literal["fast", "slow"] = "fast",
        where: Point | None = None,
        person: Person | None = None,
    ) -> str:
        return query

    schema = search.spec.schema
    assert schema["type"] == "object"
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    assert properties(search)["query"] == {"type": "string"}
    assert properties(search)["limit"] == {"type": "integer", "default": 10}
    assert properties(search)["mode"]["enum"] == ["fast", "slow"]
    assert schema["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert set(schema["$defs"]) == {"Colour", "Point", "Person"}


def test_a_tool_without_parameters_has_an_object_schema():
    @tool
    def now() -> str:
        return "now"

    assert now.spec.schema["type"] == "object"
    assert now.spec.schema["properties"] == {}


def test_descriptions_come_from_annotations_before_the_docstring():
    @tool
    def book(
        a: Annotated[int, "first"],
        b: Annotated[int, Field(description="second", ge=1)],
        c: int = THIRD,
        d: int = 4,
        e: int = 5,
    ) -> int:
        """Book a seat.

        More about it.

        Args:
            a: not this one
            d (int): fourth, which
                goes on
            e: fifth

        Returns:
            The seat.
        """
        return a

    said = {name: p.get("description") for name, p in properties(book).items()}
    assert said == {
        "a": "first", "b": "second", "c": "third", "d": "fourth, which goes on", "e": "fifth",
    }  # fmt: skip
    assert properties(book)["b"]["minimum"] == 1
    assert properties(book)["c"]["default"] == 3
    assert book.description == "Book a seat.\n\nMore about it.\n\nReturns:\n    The seat."


@pytest.mark.parametrize(
    ("doc", "left"),
    [
        ("Args:\n    n: how many\n", ""),
        ("Do it.\n\nKeyword Args:\n    n: how many", "Do it."),
        ("Do it.\n\n:param int n: how many\n:returns: it", "Do it.\n\n:returns: it"),
    ],
)
def test_docstring_layouts(doc: str, left: str):
    def f(n: int) -> int:
        return n

    f.__doc__ = doc
    assert properties(as_tool(f))["n"]["description"] == "how many"
    assert as_tool(f).description == left


def test_a_section_about_something_else_stays_in_the_description():
    def f(n: int) -> int:
        """Do it.

        Args:
            nothing of ours: really
        """
        return n

    assert "nothing of ours" in as_tool(f).description


def test_parameter_names_that_pydantic_keeps_for_itself():
    @tool
    def f(schema: str, model_config: int, _x: int, copy: bool, json: str = "") -> str:
        return schema

    assert list(properties(f)) == ["schema", "model_config", "_x", "copy", "json"]


def test_a_default_that_json_cannot_say_is_left_out_without_a_warning(
    recwarn: pytest.WarningsRecorder,
):
    nothing = object()

    @tool
    def f(x: Any = nothing, y: float = float("nan")) -> str:
        return ""

    assert "default" not in properties(f)["x"]
    assert properties(f)["y"].get("default") is None
    assert not recwarn.list


def test_types_of_a_functions_own_body_are_found_though_annotations_are_postponed():
    class Local(BaseModel):
        n: int

    @tool
    def f(item: Local, items: list[Local]) -> int:
        return item.n

    assert "Local" in f.spec.schema["$defs"]


def test_a_return_type_that_exists_only_for_type_checkers_does_no_harm():
    scope: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef f(n: int) -> Nowhere:\n    return n", scope)
    assert list(properties(as_tool(scope["f"]))) == ["n"]


@pytest.mark.parametrize(
    "annotation", ["ToolContext", "ToolContext[dict[str, int]]", "ToolContext | None"]
)
def test_the_context_is_not_in_the_schema(annotation: str):
    scope: dict[str, Any] = {"ToolContext": ToolContext}
    exec(f"def f(n: int, ctx: {annotation}) -> int:\n    return n", scope)
    made = as_tool(scope["f"])
    assert list(properties(made)) == ["n"]
    assert made.parameters.context == "ctx"


# What is refused


def refused(make: Callable[[], object]) -> str:
    with pytest.raises(ToolDefinitionError) as caught:
        make()
    assert isinstance(caught.value, UsageError)
    return str(caught.value)


def test_a_parameter_without_annotation_is_named_with_an_example():
    def f(path, depth=3):
        return path

    words = refused(lambda: tool(f))
    assert "'path'" in words
    assert "`path: str`" in words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def f(*names: str): ...", "take a list instead"),
        ("def f(**names: str): ...", "take a dict instead"),
        ("def f(a: int, /): ...", "positional-only"),
        ("def f(a: Nowhere): ...", "Nowhere"),
        ("def f(a: 'not a type'): ...", "annotation of 'a'"),
        ("def f(ok: int, a: object.__class__.mro): ...", "'a'"),
        ("def f(ok: int, a: type(lambda: 0)): ...", "'a'"),
        ("def f(a: ToolContext, b: ToolContext): ...", "two ToolContext parameters (a, b)"),
        ("def f(a: int):\n    yield a", "yields"),
        ("async def f(a: int):\n    yield a", "yields"),
        ("f = lambda: 0", "'<lambda>'"),
        ("class f: ...", "the class f"),
        ("f = 3", "int"),
    ],
)
def test_what_cannot_be_a_tool(code: str, words: str):
    scope: dict[str, Any] = {"ToolContext": ToolContext}
    exec(code, scope)
    said = refused(lambda: as_tool(scope["f"]))
    assert words in said


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "x" * 65, "a\n", 3])
def test_a_name_that_no_provider_takes(name: Any):
    assert 'name="…"' in refused(lambda: tool(name=name)(lambda_named))


def test_the_longest_legal_name():
    assert tool(name="x" * 64)(lambda_named).name == "x" * 64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"timeout_s": True}, "timeout_s"),
        ({"concurrency": ""}, "concurrency"),
        ({"approval": "always"}, "approval"),
        ({"approval": lambda y: True}, "wants y"),
    ],
)
def test_an_option_that_means_nothing(options: dict[str, Any], words: str):
    assert words in refused(lambda: tool(**options)(lambda_named))


def test_an_async_approval_function_is_refused():
    async def ask(x: int) -> bool:
        return True

    assert "async" in refused(lambda: tool(approval=ask)(lambda_named))


def test_decorating_twice_is_told():
    assert "already" in refused(lambda: tool(tool(lambda_named)))


def test_positional_options_are_told():
    assert "by keyword" in refused(lambda: tool("delete_file"))


# Approval


@pytest.mark.parametrize(
    ("approval", "asks"),
    [
        ("never", False),
        ("required", True),
        (lambda x: False, False),
        (lambda x: "never", False),
        (lambda x: True, True),
        (lambda x: "required", True),
        (lambda x: None, True),
        (lambda x: 0, True),
        (lambda x: 1 / 0, True),
        (lambda: False, False),
        (lambda **all_of_them: all_of_them != {"x": 7}, False),
    ],
)
def test_only_false_or_never_lets_a_call_run(approval: Any, asks: bool):
    assert tool(approval=approval)(lambda_named).asks({"x": 7}) is asks


# Sets


def test_two_tools_of_one_name_are_told_with_both_places():
    def twin(n: int) -> int:
        return n

    def other(n: int) -> int:
        return n

    words = refused(lambda: ToolSet([twin, tool(name="twin")(other)]))
    first = twin.__code__.co_firstlineno
    second = other.__code__.co_firstlineno
    assert f"test_tool_decorator.py, line {first}" in words
    assert f"test_tool_decorator.py, line {second}" in words


def test_a_set_finds_tools_and_knows_what_was_meant():
    def list_files(path: str) -> str:
        """List them."""
        return path

    tools = ToolSet([list_files, lambda_named])
    assert tools.names == ("list_files", "lambda_named")
    assert [spec.name for spec in tools.specs()] == ["list_files", "lambda_named"]
    assert tools.specs()[0].description == "List them."
    found = tools.find("list_files")
    assert found is not None
    assert found.name == "list_files"
    assert tools.find("nope") is None
    assert tools.nearest("listFiles") == "list_files"
    assert tools.nearest("zzz") is None
    assert ToolSet().nearest("x") is None


def test_one_function_in_place_of_a_list_is_told():
    assert "list of tools" in refused(lambda: ToolSet(lambda_named))


# New code after an edit


def test_an_edited_cell_gives_the_new_code():
    cell: dict[str, Any] = {"__name__": "__main__", "tool": tool}
    exec("@tool\ndef f(n: int) -> int:\n    return n\ndef g() -> int:\n    return 1", cell)
    old = ToolSet([cell["f"], cell["g"]])
    assert [made.function for made in old.latest()] == [made.function for made in old]
    exec("@tool\ndef f(n: int, m: int) -> int:\n    return m\ndef g() -> int:\n    return 2", cell)
    new = old.latest()
    f, g = new.find("f"), new.find("g")
    assert f is not None
    assert g is not None
    assert list(properties(f)) == ["n", "m"]
    assert (f(1, 5), g()) == (5, 2)
    assert cell["f"](1, 5) == 5


def test_a_name_used_for_something_else_does_not_replace_a_tool():
    cell: dict[str, Any] = {"__name__": "__main__", "tool": tool}
    exec("@tool\ndef f(n: int) -> int:\n    return n\ndef g() -> int:\n    return 1", cell)
    old = ToolSet([cell["f"], cell["g"]])
    exec("f = 3\nclass g: ...", cell)
    assert [made.function for made in old.latest()] == [made.function for made in old]


# The room


def test_importing_the_tools_loads_nothing_heavy():
    heavy = {"numpy", "pandas", "matplotlib", "PIL", "anthropic", "openai", "IPython", "anywidget"}
    code = "import sys; import agentloop_nb.tools; print(sorted(sys.modules))"
    root = Path(inspect.getfile(Tool)).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True
    )
    assert not heavy & set(ast.literal_eval(done.stdout))
