"""A kernel killed while a tool runs, restarted, and the run resumed, through each wire format.

The server's checker rejects what the real service rejects (`test_checkers.py` shows that it does),
so a history that it takes is one that can go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentloop_nb import AnthropicModel, OpenAIChatModel, OpenAIModel
from agentloop_nb.messages import user
from agentloop_nb.models.base import Request
from agentloop_nb.snapshot import SessionFiles, session_ids
from tests.kernels import live_kernel
from tests.loopback import (
    Loopback,
    Reply,
    call,
    check_anthropic,
    check_chat,
    check_responses,
    reply,
    say,
    think,
)

MODELS = ("AnthropicModel", "OpenAIModel", "OpenAIChatModel")

SET_UP = """
import os, threading
from agentloop_nb import Agent, AnthropicModel, OpenAIModel, OpenAIChatModel, runs, tool

@tool
def charge(account: str, cents: int) -> str:
    \"\"\"Take money: must never happen twice.\"\"\"
    with open("charged.txt", "a") as file:
        print(account, cents, file=file, flush=True)
    threading.Event().wait()
    return "never"

@tool
def look(what: str) -> str:
    \"\"\"Harmless.\"\"\"
    return "seen " + what

agent = Agent({model}("m-1", base_url={url!r}, api_key="test"), tools=[charge, look])
"""

RESUME = """
from agentloop_nb.codec import page_json
from agentloop_nb.viewstate import fold, initial

run = agent.resume()
result = await run
state = initial()
for position, event in enumerate(run.events):
    fold(state, page_json(event, whole=position < run.log.restored))
calls = [i for r in state["turns"][0]["rounds"] for i in r["items"] if i["kind"] == "call"]
import json
print(json.dumps({"exit": result.exit_reason, "text": result.text, "calls": calls}))
"""


def script(body: dict[str, Any]) -> Reply:
    """Asks for both tools, and says what it was told of them."""
    text = json.dumps(body)
    if "is unknown" in text:
        return reply(say("I will check the account first."))
    return reply(
        think("Charge it."),
        say("Charging."),
        call("look", {"what": "account"}),
        call("charge", {"account": "A-7", "cents": 1250}),
    )


@pytest.mark.parametrize("model", MODELS)
def test_the_resumed_history_is_accepted_and_the_tool_ran_once(model: str, tmp_path: Path) -> None:
    with Loopback(script) as server:
        set_up = SET_UP.format(model=model, url=server.base_url)
        with live_kernel(tmp_path) as first:
            first.cell(set_up).ok()
            first.cell("run = agent.start('Charge account A-7.')").ok()
            wait = (
                "import asyncio\nwhile not os.path.exists('charged.txt'): await asyncio.sleep(0.01)"
            )
            first.cell(wait).ok()
            first.die()
        with live_kernel(tmp_path) as second:
            second.cell(set_up).ok()
            shown = json.loads(second.cell(RESUME).ok().splitlines()[-1])
        assert server.complaints == []
        assert len(server.requests) == 2
        told = json.dumps(server.last.body)

    assert (tmp_path / "charged.txt").read_text().splitlines() == ["A-7 1250"]
    assert "is unknown" in told
    # The harmless call may have been at work too when the kernel died.
    assert any("1250" in part for part in told.split("is unknown")[1:])
    assert shown["exit"] == "end_turn"
    assert shown["text"] == "I will check the account first."
    (charged,) = [c for c in shown["calls"] if c["name"] == "charge"]
    assert charged["state"] == "unknown_outcome"
    assert charged["input"] == {"account": "A-7", "cents": 1250}
    assert "A-7" in charged["result"]["content"]

    (session,) = session_ids(next(tmp_path.glob("*.agentloop")))
    state = SessionFiles(next(tmp_path.glob("*.agentloop")), session).load().state
    for check, encode in FORMATS:
        body = encode(Request("Be careful.", (*state.messages, user("And now?"))))
        assert check(body) == [], check.__name__


FORMATS: tuple[tuple[Callable[[dict[str, Any]], Any], Callable[[Request], dict[str, Any]]], ...] = (
    (check_anthropic, AnthropicModel("m-1", api_key="k").encode),
    (check_responses, OpenAIModel("m-1", api_key="k").encode),
    (check_chat, OpenAIChatModel("m-1", api_key="k").encode),
)
