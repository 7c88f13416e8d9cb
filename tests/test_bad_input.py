"""Bad input, before a run exists: a clear error that says what to do, and nothing was started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentloop_nb import (
    Agent,
    AnthropicModel,
    Call,
    Limits,
    OfflineModel,
    OpenAIChatModel,
    OpenAIModel,
    Reply,
    RunFailed,
    UsageError,
    runs,
    tool,
)
from agentloop_nb.errors import (
    MissingKey,
    ModelNotFound,
    NoRunningLoop,
    PromptError,
    SessionBusy,
    ToolDefinitionError,
)
from agentloop_nb.models.base import Request


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic:claude-x", "ANTHROPIC_API_KEY"),
        ("openai:gpt-x", "OPENAI_API_KEY"),
        ("openai-chat:gpt-x", "OPENAI_API_KEY"),
    ],
)
def test_no_api_key_names_the_variable_and_a_way_without(model: str, variable: str) -> None:
    before = len(runs())
    with pytest.raises(MissingKey) as caught:
        Agent(model).run_sync("Go.")
    for word in (variable, "api_key=", "offline"):
        assert word in str(caught.value)
    assert len(runs()) == before
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("model", ["antropic:claude", "claude-x", "", ":", "openai"])
def test_an_unknown_provider_prefix_lists_the_known_ones(model: str) -> None:
    with pytest.raises(ModelNotFound) as caught:
        Agent(model)
    for prefix in ("anthropic:", "openai:", "openai-chat:", "offline:"):
        assert prefix in str(caught.value)


@pytest.mark.parametrize("model", [None, 7, object(), AnthropicModel])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(UsageError, match="model"):
        Agent(model)


def test_a_tool_without_annotations_names_the_parameter_and_shows_one() -> None:
    with pytest.raises(ToolDefinitionError) as caught:

        @tool
        def search(query, limit: int = 5):
            """Search."""

    assert "query" in str(caught.value)
    assert "query: str" in str(caught.value)


def test_two_tools_of_one_name_name_both_places() -> None:
    def make(answer: str) -> Any:
        @tool(name="same")
        def made() -> str:
            """Same."""
            return answer

        return made

    with pytest.raises(ToolDefinitionError) as caught:
        Agent("offline:echo", tools=[make("a"), make("b")])
    assert "'same'" in str(caught.value)
    assert str(caught.value).count("test_bad_input") == 2


@pytest.mark.parametrize("prompt", [None, 5, b"bytes", ["a"], "", "  \n"], ids=repr)
def test_a_prompt_that_is_not_text(prompt: Any) -> None:
    agent = Agent("offline:echo")
    before = len(runs())
    for call in (agent.run_sync, lambda p: asyncio.run(agent.run(p))):
        with pytest.raises(PromptError, match="prompt"):
            call(prompt)
    assert len(runs()) == before
    assert list(Path.cwd().iterdir()) == []


def test_start_without_a_running_loop_names_the_ways_that_work() -> None:
    with pytest.raises(NoRunningLoop) as caught:
        Agent("offline:echo").start("Go.")
    assert "run_sync" in str(caught.value)
    assert "asyncio.run" in str(caught.value)
    assert Agent("offline:echo", loop="thread").start("Go.").wait(30).text == "Go."


@pytest.mark.parametrize("name", ["loop", "snapshots"])
def test_a_word_that_is_no_choice_names_the_choices(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}='none': give '.+' or '.+'"):
        Agent("offline:echo", **{name: "none"})


def test_a_second_live_run_in_a_session_is_refused_with_what_to_do() -> None:
    async def main() -> None:
        session = Agent("offline:echo").session()
        run = session.start("One.")
        with pytest.raises(SessionBusy, match=r"run\.say"):
            session.start("Two.")
        await run
        assert (await session.run("Two.")).exit_reason == "end_turn"

    asyncio.run(main())


@pytest.mark.parametrize(
    "limits",
    [
        {"max_turns": 0},
        {"max_turns": -1},
        {"approval_timeout_s": 0},
        {"approval_timeout_s": None},
        {"tool_timeout_s": "soon"},
        {"tool_result_max_chars": True},
    ],
    ids=str,
)
def test_limits_that_make_no_sense_name_themselves(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(limits))):
        Limits(**limits)


def test_a_misspelt_limit_is_refused() -> None:
    with pytest.raises(TypeError, match="max_rounds"):
        Limits(max_rounds=3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Agent("offline:echo", snapshots="sometimes"),
        lambda: Agent("offline:echo", instructions=5),
        lambda: Agent("offline:echo", tools=tool),
        lambda: Agent("offline:echo", tools=["search"]),
        lambda: Agent("offline:echo", limits={"max_turns": 3}),
        lambda: Agent("offline:echo", on_question=5),
        lambda: Agent("offline:echo", folder=5),
        lambda: Agent("offline:echo").session(5),
        lambda: Agent("offline:echo").resume(5),
    ],
    ids=[
        "snapshots",
        "instructions",
        "tools-not-a-list",
        "tool-by-name",
        "limits-as-a-dict",
        "on-question",
        "folder",
        "session-by-number",
        "resume-by-number",
    ],
)
def test_an_agent_that_cannot_work_is_refused_when_made(wrong: Callable[[], Any]) -> None:
    with pytest.raises(UsageError):
        wrong()


def test_a_tool_that_changes_the_folder_does_not_split_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @tool
    def go_elsewhere() -> str:
        """Change the working directory."""
        monkeypatch.chdir("elsewhere")
        return "there"

    Path("elsewhere").mkdir()
    agent = Agent(
        OfflineModel([Reply(calls=[Call("go_elsewhere")]), "Done."]),
        tools=[go_elsewhere],
        folder="sessions",
    )
    session = agent.session()
    session.run_sync("Go.")
    assert not Path("sessions").exists()
    assert len(agent.session(session.id).messages) == 4


def test_resume_with_nothing_to_resume_says_how_to_go_on() -> None:
    agent = Agent("offline:echo")
    with pytest.raises(UsageError, match="No session is saved"):
        agent.resume()
    session = agent.session()
    session.run_sync("Hello.")
    with pytest.raises(UsageError, match=r"session\(.*\)\.start"):
        agent.resume(session.id)
    with pytest.raises(UsageError, match="No session 'nope'"):
        agent.resume("nope")


def test_a_model_without_its_key_starts_nothing_on_disk_also_with_start() -> None:
    async def main() -> None:
        for model in (AnthropicModel("claude-x"), OpenAIModel("gpt-x"), OpenAIChatModel("gpt-x")):
            with pytest.raises(MissingKey):
                Agent(model).start("Go.")

    asyncio.run(main())
    assert list(Path.cwd().iterdir()) == []


def test_a_bad_end_becomes_an_exception_on_request() -> None:
    def script(request: Request) -> str:
        raise RuntimeError("no answer today")

    result = Agent(OfflineModel(script)).run_sync("Go.")
    assert result.exit_reason == "fatal_error"
    with pytest.raises(RunFailed, match="no answer today") as caught:
        result.raise_for_exit()
    assert caught.value.exit_reason == "fatal_error"
    assert Agent("offline:echo").run_sync("Hi.").raise_for_exit().text
