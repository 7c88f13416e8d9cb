"""A kernel that dies in the middle of a tool, and what the page says after the resume."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import Open

SET_UP = """
import os, signal, threading
from agentloop_nb import Agent, Call, OfflineModel, Reply, tool

@tool
def charge(account: str, cents: int) -> str:
    \"\"\"Take money: must never happen twice.\"\"\"
    with open("charged.txt", "a") as file:
        print(account, cents, file=file, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"

def script(request):
    told = [r.content for m in request.messages for r in m.results]
    if told:
        return Reply("I was told: " + told[-1])
    return Reply("Charging.", calls=[Call("charge", account="A-7", cents=1250)])

agent = Agent(OfflineModel(script), tools=[charge])
"""


def test_the_page_and_the_model_both_say_that_the_outcome_is_unknown(
    open_notebook: Open, folder: Path
) -> None:
    notebook = open_notebook(
        [SET_UP, "run = agent.start('Charge account A-7.')", "run = agent.resume()"]
    )
    notebook.run(0)
    notebook.ended(0)
    notebook.run(1)
    # JupyterLab says that the kernel died, and starts another.
    died = notebook.page.locator(".jp-Dialog", has_text="restart")
    died.get_by_role("button", name="Ok").click()
    expect(died).to_have_count(0)
    notebook.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.context.sessionContext"
        ".session.kernel.status === 'idle'"
    )
    notebook.run(0)
    notebook.ended(0)
    notebook.run(2)
    view = notebook.view(2)
    view.ended("Done in 2 rounds")
    view.state("unknown_outcome", "charge")
    expect(view.call("charge")).to_contain_text("outcome unknown")
    view.says("The outcome of this call")
    expect(view.part("text").last).to_contain_text('"cents":1250')
    notebook.shoot("outcome-unknown")
    assert (folder / "charged.txt").read_text() == "A-7 1250\n"
