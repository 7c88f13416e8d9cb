"""Responses, going on from the reply before: only what is new is sent, and where the server has
forgotten, or keeps nothing, the whole conversation is sent once and the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentloop_nb import Agent, Limits
from agentloop_nb.messages import Message, Text, user
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.base import Request
from agentloop_nb.models.openai_responses import OpenAIModel
from agentloop_nb.run import Result
from agentloop_nb.session import Session
from tests.loopback import Loopback, call, hold, raw, refuse, reply, say, think
from tests.loopback.script import Reply
from tests.loopback.scripts import rounds
from tests.streams import responses

WHOLE = ["user", "reasoning", "message", "function_call", "function_call_output"]


def look(path: str) -> str:
    """Look at a file."""
    return f"{path} is empty."


def model(server: Loopback, **options: Any) -> OpenAIModel:
    options = {"store": True} | options
    return OpenAIModel("gpt-test", base_url=server.base_url, api_key="test", **options)


def turn() -> list[Reply]:
    """One tool round and an answer."""
    return [reply(think("Hm."), say("Looking."), call("look", {"path": "a"})), reply("Done.")]


def sent(server: Loopback) -> list[tuple[bool, list[str]]]:
    """Of each request: whether it goes on from a reply, and the kinds of its items."""
    return [
        (
            "previous_response_id" in request.body,
            [item.get("type", item.get("role")) for item in request.body["input"]],
        )
        for request in server.requests
    ]


def talk(agent: Agent, *prompts: str, between: Callable[[], object] = lambda: None) -> list[Result]:
    """A session of several turns."""

    async def turns() -> list[Result]:
        session, results = agent.session(), []
        for prompt in prompts:
            results.append(await session.run(prompt))
            between()
        return results

    return asyncio.run(turns())


def test_step_two_sends_the_results_alone_and_nothing_twice() -> None:
    with Loopback([*turn(), *turn()]) as server:
        agent = Agent(model(server), tools=[look], instructions="Be brief.")
        assert [r.text for r in talk(agent, "Look.", "Again.")] == ["Done.", "Done."]
        assert sent(server) == [
            (False, ["user"]),
            (True, ["function_call_output"]),
            (True, ["user"]),
            (True, ["function_call_output"]),
        ]
        # What does not travel with the reply is sent each time.
        assert {request.body["instructions"] for request in server.requests} == {"Be brief."}
        assert all(request.body["tools"] for request in server.requests)
        assert not server.complaints


def test_a_server_that_has_forgotten_gets_the_whole_once_and_the_run_goes_on() -> None:
    with Loopback([*turn(), *turn()]) as server:
        agent = Agent(model(server), tools=[look])
        results = talk(agent, "Look.", "Again.", between=server.forget)
        assert [(r.text, r.exit_reason) for r in results] == [("Done.", "end_turn")] * 2
        assert sent(server)[2:] == [
            (True, ["user"]),  # refused: forgotten
            (False, [*WHOLE, "message", "user"]),
            (True, ["function_call_output"]),
        ]
        assert not server.complaints


def test_a_server_that_keeps_nothing_is_asked_in_vain_twice_and_no_more() -> None:
    with Loopback(rounds(6, 1), stores=False) as server:
        result = Agent(model(server), tools=[look]).run_sync("Look.")
        assert result.exit_reason == "end_turn"
        chained = [goes_on for goes_on, _ in sent(server)]
        assert chained == [False, True, False, True, False, False, False, False, False]
        assert not server.complaints


@pytest.mark.parametrize(
    "options", [{"store": False}, {"store": None}], ids=["switched-off", "another-address"]
)
def test_without_storage_every_request_is_whole(options: dict[str, Any]) -> None:
    with Loopback(turn()) as server:
        Agent(model(server, **options), tools=[look]).run_sync("Look.")
        assert sent(server) == [(False, ["user"]), (False, WHOLE)]
        assert all(request.body["store"] is False for request in server.requests)
        assert not server.complaints


def test_at_openais_own_address_replies_are_stored_unless_switched_off() -> None:
    request = Request("", (user("Hi"),))
    assert OpenAIModel("gpt-test").encode(request)["store"] is True
    assert OpenAIModel("gpt-test", store=False).encode(request)["store"] is False


def test_a_new_kernel_goes_on_from_the_reply_in_the_snapshot(own_folder: Path) -> None:
    with Loopback([*turn(), *turn()]) as server:
        first = Agent(model(server), tools=[look], folder=own_folder).start

        async def one() -> str:
            run = first("Look.")
            await run
            return run.session_id

        session_id = asyncio.run(one())

        async def two() -> Result:
            agent = Agent(model(server), tools=[look], folder=own_folder)
            return await agent.session(session_id).run("Again.")

        assert asyncio.run(two()).text == "Done."
        assert sent(server)[2:] == [(True, ["user"]), (True, ["function_call_output"])]
        assert not server.complaints


def test_another_providers_turn_in_between_is_sent_along() -> None:
    with Loopback([*turn(), *turn(), *turn()]) as server:
        ours = Agent(model(server), tools=[look])
        claude = AnthropicModel("claude-test", base_url=server.base_url, api_key="test")
        other = Agent(claude, tools=[look])

        async def three() -> None:
            session: Session = ours.session()
            await session.run("Look.")
            await other.session(session).run("And you.")
            await ours.session(session).run("Again.")

        asyncio.run(three())
        chained, items = sent_to_responses(server)[2]
        assert chained
        assert items == [
            *["user", "message", "function_call", "function_call_output", "message"],
            "user",
        ]
        assert not server.complaints


def sent_to_responses(server: Loopback) -> list[tuple[bool, list[str]]]:
    return [
        ("previous_response_id" in r.body, [i.get("type", i.get("role")) for i in r.body["input"]])
        for r in server.requests
        if r.format == "openai"
    ]


def test_a_reply_that_was_stopped_is_sent_after_the_one_before_it() -> None:
    async def stopped_in_its_middle(server: Loopback) -> None:
        session = Agent(model(server), tools=[look]).session()
        await session.run("Look.")
        run = session.start("Again.")
        async for event in run:
            if event.type == "text_delta":
                run.stop()
        await session.run("Go on.")

    with Loopback([*turn(), reply(say("Half", hold("never"))), reply("Whole.")]) as server:
        asyncio.run(stopped_in_its_middle(server))
        assert sent(server)[3] == (True, ["user", "message", "user"])
        assert not server.complaints


def test_a_history_that_was_changed_before_the_reply_is_sent_whole() -> None:
    with Loopback(turn()) as server:
        adapter = model(server)
        (result,) = talk(Agent(adapter, tools=[look]), "Look.")
        same = (*result.messages, user("Again."))
        assert "previous_response_id" in adapter.encode(Request("", same))
        changed = (user("Look, please."), *same[1:])
        body = adapter.encode(Request("", changed))
        assert "previous_response_id" not in body
        assert body["input"][0]["content"][0]["text"] == "Look, please."


def test_a_reply_that_was_cut_by_its_limit_is_not_gone_on_from() -> None:
    """The server holds a call of it that nobody can answer."""
    cut_call = reply(call("look", ['{"pa']), stop="max_tokens")
    with Loopback([cut_call, reply("Done.")]) as server:
        result = Agent(model(server), tools=[look], limits=Limits(max_turns=3)).run_sync("Look.")
        assert result.text == "Done."
        assert sent(server)[1][0] is False
        assert not server.complaints


def test_another_refusal_is_not_taken_for_a_forgotten_reply() -> None:
    with Loopback([turn()[0], refuse(400, "Your input is odd.")]) as server:
        result = Agent(model(server), tools=[look]).run_sync("Look.")
        assert len(server.requests) == 2
    assert result.exit_reason == "fatal_error"
    assert "Your input is odd." in str(result.error)


def test_a_request_always_holds_something() -> None:
    """A history that ends with the reply itself has nothing new in it."""
    with Loopback(turn()) as server:
        adapter = model(server)
        (result,) = talk(Agent(adapter, tools=[look]), "Look.")
    body = adapter.encode(Request("", result.messages))
    assert body["input"]
    engine = Message("assistant", (Text("Stopped."),), stop_reason="engine")
    assert adapter.encode(Request("", (*result.messages, engine)))["input"]


def test_a_reply_that_was_edited_is_not_gone_on_from() -> None:
    with Loopback([reply("The key is SECRET.")]) as server:
        adapter = model(server)
        (result,) = talk(Agent(adapter), "Hi")
    asked, said = result.messages
    kept = adapter.encode(Request("", (asked, said, user("Go on."))))
    assert "previous_response_id" in kept
    edited = replace(said, blocks=(Text("The key is [removed]."),))
    body = adapter.encode(Request("", (asked, edited, user("Go on."))))
    assert "previous_response_id" not in body
    assert "[removed]" in str(body["input"])


def test_a_server_that_says_in_mid_stream_that_it_has_forgotten_gets_the_whole() -> None:
    end = {
        "type": "error",
        "code": "previous_response_not_found",
        "message": "Previous response with id 'resp_1' not found.",
    }

    def script(body: dict[str, Any]) -> Any:
        return raw(*responses(end=end)) if "previous_response_id" in body else reply("Hello.")

    with Loopback(script) as server:
        results = talk(Agent(model(server)), "One.", "Two.")
        assert [r.text for r in results] == ["Hello.", "Hello."]
        assert [goes_on for goes_on, _ in sent(server)] == [False, True, False]


def test_what_was_forgotten_is_asked_for_once_however_the_whole_fares() -> None:
    failing = iter([refuse(500), refuse(500)])

    def script(body: dict[str, Any]) -> Any:
        later = len(body["input"]) > 1
        return next(failing, reply("Hello.")) if later else reply("Hello.")

    with Loopback(script) as server:
        agent = Agent(model(server))
        talk(agent, "One.", "Two.", between=server.forget)
        assert [goes_on for goes_on, _ in sent(server)] == [False, True, False, False, False]


def test_a_reply_that_uses_an_id_again_is_sent_and_not_gone_on_from() -> None:
    """Its call goes by an id of ours here, which the server could not find in what it holds."""
    again = reply(call("look", {"path": "a"}, id="call_0"))
    with Loopback([again, again, reply("Done.")]) as server:
        result = Agent(model(server), tools=[look]).run_sync("Look twice.")
        assert result.text == "Done."
        assert sent(server)[2] == (
            True,  # from the first reply
            ["function_call_output", "function_call", "function_call_output"],
        )
        assert not server.complaints
