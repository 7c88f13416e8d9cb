"""A model's arguments: what is read leniently, what is refused, what is shown and fingerprinted."""

from __future__ import annotations

import datetime
import enum
import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PrivateAttr, SecretStr, model_validator

from agentloop_nb.errors import ToolArgumentsError
from agentloop_nb.messages import ToolCall
from agentloop_nb.tools import Prepared, Tool, prepare, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: int
    y: int = 0


NO_NUMBERS: list[int] = []
AT_LEAST_ONE: int = Field(3, ge=1)
FRESH: list[int] = Field(default_factory=lambda: [1])
NO_KEY = SecretStr("d")


class Person(BaseModel):
    name: str
    tags: list[str] = []


def call(name: str, arguments: object) -> ToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall("c0.0", name, text)


def ready(made: Tool[..., Any], arguments: object) -> Prepared:
    return prepare(call(made.name, arguments), made)


def refusal(made: Tool[..., Any], arguments: object) -> str:
    with pytest.raises(ToolArgumentsError) as caught:
        ready(made, arguments)
    return str(caught.value)


@tool
def draw(
    p: Point,
    c: Colour = Colour.RED,
    xs: list[Point] | None = None,
    who: Person | None = None,
    mode: Literal["a", "b"] = "a",
) -> str:
    return ""


@tool
def flags(
    on: bool = False, n: int = 0, r: float = 0.0, xs: list[int] = NO_NUMBERS, s: str = ""
) -> str:
    return ""


@tool
def nothing() -> str:
    return ""


@tool
def anything(x: Any) -> str:
    return ""


# Instances


def test_arguments_arrive_as_instances():
    sent = {"p": {"x": 1}, "c": "blue", "xs": [{"x": 2, "y": 3}], "who": {"name": "Ada"}}
    got = ready(draw, sent).arguments
    assert got["p"] == Point(1)
    assert got["c"] is Colour.BLUE
    assert got["xs"] == [Point(2, 3)]
    assert got["who"] == Person(name="Ada")
    assert got["mode"] == "a"


@pytest.mark.parametrize("text", ["", "  \n", "{}", "null", '"{}"'])
def test_no_arguments_in_every_spelling(text: str):
    assert ready(nothing, text).arguments == {}
    assert "p: missing" in refusal(draw, text)


def test_null_means_the_default_where_null_does_not_fit():
    got = ready(flags, {"on": None, "xs": None, "s": None}).arguments
    assert got == {"on": False, "n": 0, "r": 0.0, "xs": [], "s": ""}


def test_null_is_passed_where_it_fits():
    @tool
    def f(a: str | None = "x", b: Any = 1) -> str:
        return ""

    assert ready(f, {"a": None, "b": None}).arguments == {"a": None, "b": None}


def test_a_required_null_is_refused():
    assert refusal(draw, {"p": None}).count("- p:") == 1


def test_pydantic_fields_as_defaults():
    @tool
    def f(a: int = AT_LEAST_ONE, b: list[int] = FRESH) -> str:
        return ""

    assert ready(f, {}).arguments == {"a": 3, "b": [1]}
    assert "a: input should be greater" in refusal(f, {"a": 0})


def test_awkward_parameter_names_arrive_under_their_own_names():
    @tool
    def f(schema: str, model_config: int, _x: Annotated[int, Field(alias="other")]) -> str:
        return ""

    sent = {"schema": "s", "model_config": 1, "_x": 2}
    assert ready(f, sent).arguments == sent


# JSON inside text


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ({"p": '{"x": 1}'}, Point(1)),
        ({"p": {"x": 1}, "xs": '[{"x": 2}]'}, Point(1)),
        ({"p": {"x": 1}, "xs": ['{"x": 2}']}, Point(1)),
        (json.dumps(json.dumps({"p": {"x": 1}})), Point(1)),
    ],
)
def test_json_text_is_decoded_where_a_list_or_object_is_wanted(sent: object, got: Point):
    prepared = ready(draw, sent)
    assert prepared.arguments["p"] == got
    assert prepared.arguments["xs"] in (None, [Point(2)])


def test_text_stays_text_where_text_is_wanted():
    @tool
    def f(s: str, either: str | list[int], any: Any, n: list[str]) -> str:
        return ""

    sent = {"s": "[1]", "either": "[1]", "any": "[1]", "n": ["[1]"]}
    assert ready(f, sent).arguments == sent


def test_text_that_is_no_json_gets_the_usual_error():
    assert "- xs: input should be a valid array" in refusal(flags, {"xs": "1, 2"})


# What does not fit


def test_the_error_names_the_argument_the_problem_and_what_fits():
    words = refusal(draw, {"p": {"x": "many"}, "c": "green"})
    assert "'draw'" in words
    assert "- p.x: " in words
    assert '(got "many")' in words
    assert "- c: input should be 'red' or 'blue'" in words
    assert "p (object with x, y, required)" in words
    assert 'c (one of "red", "blue")' in words
    assert "did not run" in words


def test_every_problem_is_told_at_once():
    words = refusal(flags, {"n": "x", "r": "y", "xs": [1, "z"]})
    assert [part in words for part in ("- n:", "- r:", "- xs[1]:")] == [True] * 3


def test_an_unknown_argument_names_the_right_one():
    assert "- pp: unknown argument; did you mean 'p'?" in refusal(draw, {"pp": {"x": 1}})
    assert "- z: unknown argument; known: none" in refusal(nothing, {"z": 1})


def test_an_unknown_key_inside_an_object_is_not_dropped_in_silence():
    words = refusal(draw, {"p": {"x": 1, "yy": 2}})
    assert "- p.yy: unknown argument; did you mean 'y'?" in words
    assert "- who.tag: unknown" in refusal(draw, {"p": {"x": 1}, "who": {"name": "A", "tag": "b"}})
    assert "- xs[0].z: unknown" in refusal(draw, {"p": {"x": 1}, "xs": [{"x": 1, "z": 2}]})


def test_keys_of_a_free_dict_are_all_kept():
    @tool
    def f(d: dict[str, int], e: dict[str, Point]) -> str:
        return ""

    got = ready(f, {"d": {"a": 1, "b": 2}, "e": {"k": {"x": 1}}}).arguments
    assert got == {"d": {"a": 1, "b": 2}, "e": {"k": Point(1)}}


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 1',
        "[1, 2]",
        "3",
        '"words"',
        '{"n": NaN}',
        '{"n": 1}{"n": 2}',
        '{"n": ' + "1" * 5000 + "}",
        '{"xs": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"s": "\\ud83c"}',
    ],
)
def test_what_is_no_json_object_is_told_and_crashes_nothing(text: str):
    assert "flags takes: on (boolean)" in refusal(flags, text)


def test_an_argument_given_twice_is_refused():
    assert "s: given twice" in refusal(flags, '{"s": "safe", "s": "rm -rf /"}')


@pytest.mark.parametrize(
    ("sent", "where"),
    [
        ({"on": 1}, "on"),
        ({"on": 0}, "on"),
        ({"on": "yes"}, "on"),
        ({"n": True}, "n"),
        ({"r": False}, "r"),
        ({"xs": [1, True]}, "xs[1]"),
        ({"n": 1.5}, "n"),
        ({"r": 2**60 + 1}, "r"),
        ({"s": 5}, "s"),
    ],
)
def test_a_value_is_not_turned_into_another_in_silence(sent: dict[str, Any], where: str):
    assert f"- {where}: " in refusal(flags, sent)


def test_truth_values_are_no_numbers_inside_objects_either():
    assert "- p.x: " in refusal(draw, {"p": {"x": True}})

    @tool
    def f(level: Level) -> str:
        return ""

    assert "- level: " in refusal(f, {"level": True})
    assert ready(f, {"level": 1}).arguments == {"level": Level.LOW}


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ({"n": "5"}, 5),
        ({"n": 5.0}, 5),
        ({"n": 5}, 5),
    ],
)
def test_what_loses_nothing_is_coerced(sent: dict[str, Any], got: int):
    assert ready(flags, sent).arguments["n"] == got
    assert ready(flags, {"on": "true"}).arguments["on"] is True


def test_a_validator_that_breaks_is_told_to_the_model():
    class Odd(BaseModel):
        n: int

        @model_validator(mode="after")
        def check(self) -> Odd:
            raise AttributeError("inner trouble")

    @tool
    def f(o: Odd) -> str:
        return ""

    assert "inner trouble" in refusal(f, {"o": {"n": 1}})


# Fingerprints


def same(made: Tool[..., Any], first: object, second: object) -> bool:
    return ready(made, first).fingerprint == ready(made, second).fingerprint


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"n": 1, "s": "a"}', '{ "s":"a",  "n":1 }'),
        ({"n": 1}, {"n": "1"}),
        ({"n": 1}, {"n": 1.0}),
        ({}, {"n": 0}),
        ({"xs": "[1]"}, {"xs": [1]}),
        ({"n": None}, {}),
    ],
)
def test_the_same_call_has_one_fingerprint(first: object, second: object):
    assert same(flags, first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"x": 1}, {"x": True}),
        ({"x": 1}, {"x": "1"}),
        ({"x": 1}, {"x": 1.0}),
        ({"x": [1, 2]}, {"x": [2, 1]}),
        ({"x": None}, {"x": "null"}),
        ({"x": {"a": 1}}, {"x": {"a": 2}}),
        ({"x": {}}, {"x": []}),
        ({"x": "a"}, {"x": "a\u200b"}),
    ],
)
def test_calls_that_differ_have_two(first: object, second: object):
    assert not same(anything, first, second)


def test_two_tools_never_share_a_fingerprint():
    assert ready(nothing, {}).fingerprint != ready(tool(name="other")(lambda: 0), {}).fingerprint


class Hiding(BaseModel):
    n: int = Field(exclude=True)
    _hidden: str = PrivateAttr("")

    @model_validator(mode="before")
    @classmethod
    def drop(cls, value: Any) -> Any:
        return {"n": 1}


@dataclass
class Stashing:
    n: int
    extra: Any = field(default=None, repr=False, compare=False)


def test_what_a_type_hides_still_counts():
    @tool
    def f(key: SecretStr = NO_KEY, h: Hiding | None = None, s: Stashing | None = None) -> str:
        return ""

    assert not same(f, {"key": "one"}, {"key": "two"})
    assert not same(f, {"h": {"n": 1}}, {"h": {"n": 2}})
    assert not same(f, {"s": {"n": 1, "extra": 1}}, {"s": {"n": 1, "extra": 2}})
    assert ready(f, {"key": "one"}).shown[0] == ("key", "one")


def test_a_fingerprint_is_the_same_in_another_process():
    code = (
        "import sys, pathlib, datetime\n"
        "from agentloop_nb.tools import tool, prepare\n"
        "from agentloop_nb.messages import ToolCall\n"
        "missing = object()\n"
        "def f(s: set[str], p: pathlib.Path, d: datetime.datetime, m: 'str | object' = 'x'): ...\n"
        "made = tool(f)\n"
        'text = \'{"s": ["a", "b", "c", "d"], "p": "/x", "d": "2026-01-02T03:04:05Z"}\'\n'
        "print(prepare(ToolCall('c0.0', 'f', text), made).fingerprint)\n"
    ).replace("'str | object'", "str")
    root = Path(__file__).parents[1]
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=root,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1
    assert len(seen.pop().strip()) == 64


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(JSON, JSON)
def test_fingerprints_are_equal_exactly_where_json_is(first: object, second: object):
    wanted = json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert same(anything, {"x": first}, {"x": second}) is wanted
    again = json.dumps({"x": first}, indent=3, sort_keys=True)
    assert same(anything, {"x": first}, again)


# What a dialog shows


@pytest.mark.parametrize(
    ("char", "spelt"),
    [
        ("\u202e", "\\u202e"),
        ("\u2066", "\\u2066"),
        ("\u200b", "\\u200b"),
        ("\u200d", "\\u200d"),
        ("\ufeff", "\\ufeff"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
        ("\x1b[2K", "\\u001b[2K"),
        ("\x00", "\\u0000"),
        ("\x85", "\\u0085"),
        ("\r", "\\r"),
        ("\t", "\\t"),
        ("\xa0", "\\u00a0"),
        ("\xad", "\\u00ad"),
        ("\u3164", "\\u3164"),
        ("\ufe0f", "\\ufe0f"),
        ("\U000e0041", "\\U000e0041"),
        ("\n", "\n"),
        ("é漢字🙂", "é漢字🙂"),
    ],
)
def test_what_cannot_be_seen_is_spelt_and_what_runs_is_unchanged(char: str, spelt: str):
    prepared = ready(flags, {"s": f"a{char}b"})
    assert ("s", f"a{spelt}b") in prepared.shown
    assert prepared.arguments["s"] == f"a{char}b"
    inside = ready(anything, {"x": {"k": f"a{char}b"}})
    if char != "\n":
        assert char not in inside.shown[0][1] or char.isprintable()
    assert inside.arguments == {"x": {"k": f"a{char}b"}}


def test_what_is_shown_is_the_coerced_call_with_its_defaults():
    sent = {"p": '{"x": "1"}', "c": "blue"}
    assert dict(ready(draw, sent).shown) == {
        "p": '{"x": 1, "y": 0}',
        "c": "blue",
        "xs": "null",
        "who": "null",
        "mode": "a",
    }


def test_values_of_the_standard_library_are_shown_readably():
    @tool
    def f(day: datetime.date, p: Path, b: bytes, s: set[int]) -> str:
        return ""

    sent = {"day": "2026-01-02", "p": "a/b", "b": "x", "s": [2, 1]}
    shown = dict(ready(f, sent).shown)
    assert shown == {"day": "2026-01-02", "p": "a/b", "b": "b'x'", "s": "[1, 2]"}


def test_an_approval_function_gets_coerced_arguments_and_cannot_change_them():
    seen: list[Point] = []

    def rule(p: Point) -> bool:
        seen.append(p)
        p.x = 99
        return p.y > 5

    made = tool(approval=rule)(draw.function)
    prepared = ready(made, {"p": {"x": 1, "y": 2}})
    assert prepared.needs_approval() is False
    assert prepared.arguments["p"] == Point(1, 2)
    assert ready(made, {"p": {"x": 1, "y": 6}}).needs_approval() is True
    assert isinstance(seen[0], Point)
