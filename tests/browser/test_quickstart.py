"""What a newcomer does: the shipped notebook, a follow-up, an edited tool, a tool with an error."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import expect

from agentloop_nb.cli import shipped_notebook
from tests.browser.cells import TOOL
from tests.browser.conftest import Open

FIRST, RESULT, FOLLOW_UP, EVENTS = 4, 6, 8, 10
"""The quickstart's cells that are looked at here."""


def test_the_quickstart_ends_well_by_run_all_and_one_click(
    open_notebook: Open, folder: Path
) -> None:
    shutil.copy(shipped_notebook(), folder / "nb.ipynb")
    notebook = open_notebook()
    notebook.run_all()
    view = notebook.view(FIRST)
    view.asked()
    notebook.shoot("quickstart-asks")
    left = folder / "scratch" / "old-report.csv"
    assert left.exists()
    view.approve()
    view.ended("Done in 3 rounds")
    view.says("The folder is tidy.")
    notebook.ended(EVENTS)
    assert not left.exists()
    assert "end_turn after 3 rounds" in notebook.text(RESULT)
    notebook.view(FOLLOW_UP).ended("Done in")
    assert "done" in notebook.text(EVENTS)
    assert notebook.errors() == []
    notebook.shoot("quickstart-done")


def test_a_follow_up_from_the_text_box_goes_on_in_the_same_view(open_notebook: Open) -> None:
    echo = "from agentloop_nb import Agent, runs\nrun = Agent('offline:echo').start('One.')"
    known = "print(len(runs()), len({r.session_id for r in runs()}), (await runs()[-1]).text)"
    notebook = open_notebook([echo, known])
    notebook.run(0)
    view = notebook.view(0)
    view.ended("Done in 1 round")
    box = view.part("say").locator("textarea")
    box.click()
    notebook.page.keyboard.type("Two, please.")
    notebook.page.keyboard.press("Enter")
    view.says("Two, please.")
    expect(view.part("end")).to_have_count(2)
    expect(view.part("prompt").last).to_contain_text("Two, please.")
    expect(box).to_be_empty()
    notebook.run(1)
    notebook.printed(1, "2 1 Two, please.")


def test_words_said_while_it_runs_show_where_the_model_saw_them(open_notebook: Open) -> None:
    heard = "print([m.text for m in (await run).messages if m.role == 'user'])"
    notebook = open_notebook([TOOL, "run = agent().start('Write plum.')", heard])
    notebook.run(0)
    notebook.run(1)
    view = notebook.view(1)
    view.asked()
    box = view.part("say").locator("textarea")
    box.fill("And be brief.")
    view.button("say").click()
    expect(view.part("say")).to_contain_text("The agent sees this with its next request")
    view.approve()
    view.ended("Done in 2 rounds")
    expect(view.part("said")).to_contain_text("And be brief.")
    notebook.run(2)
    notebook.printed(2, "And be brief.")


GREET = """
from agentloop_nb import Agent, Call, OfflineModel, Reply, tool

@tool
def greet() -> str:
    \"\"\"Greet.\"\"\"
    return "OLD"
"""


def test_an_edited_tool_cell_counts_once_it_has_run_again(open_notebook: Open) -> None:
    script = "Reply('A.', calls=[Call('greet')]), Reply('B.')"
    notebook = open_notebook(
        [
            GREET,
            f"agent = Agent(OfflineModel([{script}]), tools=[greet])",
            "run = agent.start('Greet.')",
        ]
    )
    notebook.run_all()
    notebook.view(2).ended("Done in 2 rounds")
    expect(notebook.view(2).call("greet")).to_contain_text("OLD")
    notebook.edit(0, GREET.replace("OLD", "NEW"))
    notebook.page.keyboard.press("Shift+Enter")
    notebook.run(2)
    expect(notebook.view(2).call("greet")).to_contain_text("NEW")
    notebook.view(2).ended("Done in 2 rounds")


def test_an_exception_in_a_tool_shows_the_users_own_line(open_notebook: Open) -> None:
    broken = """
from agentloop_nb import Agent, Call, OfflineModel, Reply, tool

@tool
def divide(by: int) -> float:
    \"\"\"Divide one.\"\"\"
    return 1 / by  # the line to look at

run = Agent(
    OfflineModel([Reply("I divide.", calls=[Call("divide", by=0)]), Reply("It failed.")]),
    tools=[divide],
).start("Divide by zero.")
"""
    notebook = open_notebook([broken])
    notebook.run(0)
    view = notebook.view(0)
    view.ended("Done in 2 rounds")
    view.state("error", "divide")
    expect(view.call("divide")).to_contain_text("return 1 / by  # the line to look at")
    expect(view.call("divide")).to_contain_text("ZeroDivisionError")
    assert "site-packages" not in view.root.inner_text()
    notebook.shoot("tool-error")
