"""Whole runs over real HTTP, for each provider: a tool round, a Stop in mid-stream, a refusal."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agentloop_nb import Agent
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from tests.loopback import Loopback, call, hold, refuse, reply, say, think

ADAPTERS: dict[str, Any] = {
    "anthropic": AnthropicModel,
    "openai": OpenAIModel,
    "openai-chat": OpenAIChatModel,
}
each_provider = pytest.mark.parametrize("provider", ADAPTERS)


def model_of(provider: str, server: Loopback) -> Any:
    return ADAPTERS[provider]("model-test", base_url=server.base_url, api_key="test")


@each_provider
def test_a_run_calls_its_tool_and_ends_with_the_answer(provider: str) -> None:
    touched: list[str] = []

    def touch(path: str) -> str:
        """Touch a file."""
        touched.append(path)
        return f"touched {path}"

    first = reply(think("A file."), say("One moment."), call("touch", {"path": "notes/a.txt"}))
    with Loopback([first, reply("It is done.")]) as server:
        result = Agent(model_of(provider, server), tools=[touch]).run_sync("Touch it")
        assert not server.complaints
        assert "touched notes/a.txt" in json.dumps(server.last.body)
    assert (result.exit_reason, result.rounds) == ("end_turn", 2)
    assert (result.text, touched) == ("It is done.", ["notes/a.txt"])
    assert result.usage.input_tokens > 0


@each_provider
def test_a_run_that_is_stopped_hangs_up_and_its_session_goes_on(provider: str) -> None:
    async def stop_and_go_on(server: Loopback) -> tuple[Any, Any]:
        run = Agent(model_of(provider, server)).start("Hello")
        async for event in run:
            if event.type == "text_delta":
                run.stop()
                break
        stopped = await run
        assert await asyncio.to_thread(server.wait_ended) == "gone"
        return stopped, await run.session.run("Go on")

    with Loopback([reply(think("Hm."), say("Half of", hold("never"))), reply("Yes.")]) as server:
        stopped, result = asyncio.run(stop_and_go_on(server))
        assert "Half of" in json.dumps(server.last.body)
        assert not server.complaints
    assert (stopped.exit_reason, result.exit_reason) == ("user_cancel", "end_turn")
    assert result.text == "Yes."


@each_provider
def test_a_run_whose_provider_refuses_ends_with_its_words(provider: str) -> None:
    vague = {"error": {"type": "invalid_request_error", "message": "No key here.", "code": None}}
    with Loopback([refuse(401, body=vague)]) as server:
        result = Agent(model_of(provider, server)).run_sync("Hello")
        assert len(server.requests) == 1
    assert result.exit_reason == "fatal_error"
    assert "No key here." in str(result.error)
    assert "Check the API key" in str(result.error)
