"""Model strings, keys and clients: what is found, what is refused, and what the refusal says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from agentloop_nb.errors import MissingKey, ModelNotFound, UsageError
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.base import Model, Request
from agentloop_nb.models.offline import OfflineModel
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from agentloop_nb.models.resolve import resolve

VARIABLES = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_PROFILE",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
]


@pytest.fixture(autouse=True)
def _bare_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    empty = str(tmp_path_factory.mktemp("home"))
    monkeypatch.setenv("HOME", empty)
    monkeypatch.setenv("XDG_CONFIG_HOME", empty)


@pytest.mark.parametrize(
    ("text", "kind", "provider"),
    [
        ("anthropic:claude-x", AnthropicModel, "anthropic"),
        ("openai:gpt-x", OpenAIModel, "openai"),
        ("openai-chat:org/llama:8b", OpenAIChatModel, "openai-chat"),
        ("offline:echo", OfflineModel, "offline:echo"),
        (" anthropic:claude-x ", AnthropicModel, "anthropic"),
    ],
)
def test_a_prefix_names_the_adapter_and_the_rest_the_model(
    text: str, kind: type, provider: str
) -> None:
    model = resolve(text)
    assert isinstance(model, kind)
    assert isinstance(model, Model)
    assert (model.name, model.provider) == (text.strip(), provider)


def test_a_model_is_its_own_answer() -> None:
    model = OfflineModel(["Hi"])
    assert resolve(model) is model


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("antropic:claude-x", "Did you mean 'anthropic:claude-x'?"),
        ("open-ai:gpt-x", "Did you mean 'openai:gpt-x'?"),
        ("claude-x", "Did you mean 'anthropic:claude-x'?"),
        ("gpt-x", "Did you mean 'openai:gpt-x'?"),
        ("mystery:x", "does not begin with a provider"),
        ("anthropic:", "no model's name"),
        ("offline", "no model's name"),
        ("", "does not begin with a provider"),
    ],
)
def test_an_unknown_string_is_refused_with_a_guess_and_the_four_ways(text: str, hint: str) -> None:
    with pytest.raises(ModelNotFound) as caught:
        resolve(text)
    message = str(caught.value)
    assert hint in message
    for way in ("'anthropic:NAME'", "'openai:NAME'", "'openai-chat:NAME'", "'offline:NAME'"):
        assert way in message


def test_an_unknown_offline_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelNotFound, match="offline:tour, offline:echo"):
        resolve("offline:tuor")


@pytest.mark.parametrize("odd", [None, 3, object(), OfflineModel, ["anthropic:claude-x"]])
def test_what_is_no_model_is_refused(odd: object) -> None:
    with pytest.raises(UsageError, match="must be a string such as") as caught:
        resolve(odd)
    assert not isinstance(caught.value, ModelNotFound)


KEYED = [
    (AnthropicModel, "ANTHROPIC_API_KEY"),
    (OpenAIModel, "OPENAI_API_KEY"),
    (OpenAIChatModel, "OPENAI_API_KEY"),
]


@pytest.mark.parametrize(("kind", "variable"), KEYED)
def test_a_missing_key_is_said_before_anything_is_sent(
    kind: Callable[[str], Model], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingKey) as caught:
        kind("m").check()
    for words in (variable, "api_key=", "offline:tour"):
        assert words in str(caught.value)
    monkeypatch.setenv(variable, "a-key")
    kind("m").check()


@pytest.mark.parametrize(("kind", "variable"), KEYED)
def test_an_empty_variable_is_no_key(
    kind: Callable[[str], Model], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "")
    with pytest.raises(MissingKey):
        kind("m").check()


def test_a_given_key_or_client_is_enough() -> None:
    import openai

    AnthropicModel("m", api_key="k").check()
    OpenAIModel("m", api_key="k").check()
    OpenAIModel("m", client=openai.AsyncOpenAI(api_key="k")).check()


def test_a_chat_server_named_by_its_url_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    OpenAIChatModel("m", base_url="http://localhost:1/v1").check()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    OpenAIChatModel("m").check()


def test_a_client_that_blocks_is_refused_with_the_name_of_the_right_one() -> None:
    import openai

    blocking: Any = openai.OpenAI(api_key="k")
    with pytest.raises(UsageError, match="AsyncOpenAI"):
        OpenAIChatModel("m", client=blocking)


@pytest.mark.parametrize("kind", [AnthropicModel, OpenAIModel, OpenAIChatModel])
def test_a_model_without_a_name_is_refused_and_no_repr_shows_a_key(kind: type) -> None:
    with pytest.raises(UsageError, match="no name"):
        kind("")
    assert "secret" not in repr(kind("m", api_key="secret"))


def test_no_sdk_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, agentloop_nb.models.resolve as r\n"
        "for name in ('anthropic:m', 'openai:m', 'openai-chat:m'): r.resolve(name)\n"
        "print([m for m in ('anthropic', 'openai', 'httpx2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("kind", "variable"), KEYED)
def test_a_stream_without_a_key_says_so_too(kind: Callable[[str], Model], variable: str) -> None:
    with pytest.raises(MissingKey, match=variable):
        asyncio.run(anext(kind("m").stream(Request("", ()))))
