"""A provider that misbehaves, as a person sees it: half a word gives way to the whole one, an open
circuit is a countdown, and "Try now" does not wait for it."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.loopback import Loopback, cut, hold, refuse, reply, say

SHOWN_MS = 30_000
"""Four pauses of the engine's own are 3.5 s at most."""

RUN = """
from agentloop_nb import Agent, AnthropicModel
run = Agent(AnthropicModel("m-1", base_url={url!r}, api_key="test")).start("Say hello.")
"""


def test_a_retry_after_half_a_word_shows_the_whole_word_once(open_notebook: Open) -> None:
    script = [reply(say("Hel", hold("break"), cut())), reply(say("Hel", "lo"))]
    with Loopback(script) as server:
        notebook = open_notebook([RUN.format(url=server.base_url)])
        notebook.run(0)
        view = notebook.view(0)
        expect(view.part("text")).to_have_text("Hel", timeout=SHOWN_MS)
        server.release("break")
        view.ended("Done in 1 round")
        expect(view.part("text")).to_have_text("Hello")
        assert view.part("text").count() == 1
        expect(view.part("note")).to_contain_text("connection", ignore_case=True)
        assert len(server.requests) == 2


def test_an_open_circuit_counts_down_and_try_now_does_not_wait_for_it(open_notebook: Open) -> None:
    with Loopback([*[refuse(529)] * 5, reply("Hello.")]) as server:
        notebook = open_notebook([RUN.format(url=server.base_url)])
        notebook.run(0)
        view = notebook.view(0)
        pause = view.part("pause")
        expect(pause).to_contain_text("One more try in", timeout=SHOWN_MS)
        expect(view.part("status")).to_contain_text("Waiting to try again")
        assert len(server.requests) == 5
        notebook.shoot("circuit")
        view.button("retry-now").click()
        view.ended("Done in 1 round")
        view.says("Hello.")
        expect(pause).to_have_count(0)
        assert len(server.requests) == 6
