"""20,000 deltas through the Anthropic SDK over HTTP, into a page: all of them, and seen on the way.

The same check is shown to fail where the bridge loses each tenth batch and may not send it again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from tests.lab import View
from tests.loopback import Loopback, flood, flood_text

STREAM_MS = 120_000
"""Twice what the paced stream of 20 s takes, three times over."""

PACES = {"paced": 1000.0, "unpaced": None}

RUN = """
from agentloop_nb import Agent, AnthropicModel
run = Agent(AnthropicModel("m-1", base_url={url!r}, api_key="test")).start("Flood me.")
"""
RESULT = """
result = await run
print("ended:", result.exit_reason, len(result.text))
"""
LOSSY = """
import agentloop_nb.notebook.host as host
import agentloop_nb.notebook.tape as tape
from agentloop_nb.notebook.bridge import Bridge

tape.BATCH_BYTES = 4000  # so that there are tens of batches, however fast the stream comes

class Lossy(Bridge):
    \"\"\"Loses each tenth batch, and sends none again.\"\"\"
    lost = 0

    def __init__(self, run, send, **options):
        batches = 0

        def lose_some(content):
            nonlocal batches
            batches += content["type"] == "batch"
            if content["type"] == "batch" and batches % 10 == 0:
                Lossy.lost += 1
            else:
                send(content)

        super().__init__(run, lose_some, **{**options, "replays": False})
        Lossy.last = self

host.Bridge = Lossy
"""


def assert_all_arrived(view: View) -> None:
    """The page's text is the text sent, and it was painted at least 50 times on the way."""
    text = view.part("text").evaluate("element => element.textContent")
    assert text == flood_text()
    assert view.paints >= 50


@pytest.mark.parametrize("pace", PACES)
def test_every_delta_of_a_long_stream_arrives_and_is_seen_on_the_way(
    open_notebook: Open, pace: str, record_property: Callable[[str, object], None]
) -> None:
    with Loopback(lambda body: flood(pace=PACES[pace])) as server:
        notebook = open_notebook([RUN.format(url=server.base_url), RESULT])
        notebook.run_all()
        view = notebook.view(0)
        expect(view.part("end")).to_be_attached(timeout=STREAM_MS)
        notebook.ended(1)
        assert "ended: end_turn 160000" in notebook.text(1)
        record_property("paints", view.paints)
        record_property("seconds", view.part("end").inner_text())
        assert_all_arrived(view)
        assert server.complaints == []


@pytest.mark.parametrize("pace", PACES)
def test_the_check_notices_a_bridge_that_loses_each_tenth_batch_for_good(
    open_notebook: Open, pace: str
) -> None:
    with Loopback(lambda body: flood(pace=PACES[pace])) as server:
        # All that it will ever send has been sent when its pump has ended.
        lost = RESULT + 'await Lossy.last._pump_task\nprint("lost:", Lossy.lost)'
        notebook = open_notebook([LOSSY, RUN.format(url=server.base_url), lost])
        notebook.run_all()
        expect(notebook.output(2)).to_contain_text("lost:", timeout=STREAM_MS)
        assert "ended: end_turn 160000" in notebook.text(2)
        assert "lost: 0" not in notebook.text(2)
        with pytest.raises(AssertionError):
            assert_all_arrived(notebook.view(1))
