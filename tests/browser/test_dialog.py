"""An open question: reload, a second view, nobody answers, two answers at once, from a text box."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.cells import ANSWERS, BEGIN, TOOL
from tests.browser.conftest import Open
from tests.lab import Notebook

CLOCK = """
import time
asked = next(e for e in run.events if e.type == "question")
print("ends:", time.time() + asked.t + asked.question.timeout_s - run.log.now())
"""


@pytest.mark.parametrize("mode", ["start", "await", "run_sync"])
def test_reload_with_a_question_open_brings_back_view_and_question(
    open_notebook: Open, folder: Path, mode: str
) -> None:
    notebook = open_notebook([TOOL, BEGIN[mode], CLOCK, ANSWERS])
    notebook.run(0)
    notebook.run(1)
    notebook.view(1).asked()
    before = left_and_clock(notebook)
    notebook.save()
    notebook.reload()
    view = notebook.view(1)
    view.asked()
    view.says("First I ask.")
    after = left_and_clock(notebook)
    assert abs((before[0] - after[0]) - (after[1] - before[1])) <= 1.0, (before, after)
    if mode == "start":
        notebook.run(2)
        notebook.printed(2, "ends:")
        ends = float(notebook.text(2).split("ends:")[1])
        left, clock = next_second(notebook)
        assert abs(left - (ends - clock)) <= 1, (left, ends - clock)
    view.approve()
    view.ended("Done in 2 rounds")
    view.says("All is written down.")
    assert (folder / "ran.txt").read_text() == "plum\n"


def next_second(notebook: Notebook) -> tuple[float, float]:
    """What the countdown falls to next, and the page's clock of that moment: what it shows is just
    then not rounded up."""
    left, clock = notebook.view(1).root.evaluate(
        """e => new Promise(done => {
            const part = e.querySelector('[data-part=remaining]');
            new MutationObserver((_, watching) => {
                watching.disconnect();
                done([+part.dataset.seconds, Date.now() / 1000]);
            }).observe(part, { attributeFilter: ['data-seconds'] });
        })"""
    )
    return left, clock


def left_and_clock(notebook: Notebook) -> tuple[float, float]:
    """The countdown, and the page's clock of the same moment, both in seconds."""
    left, clock = notebook.view(1).root.evaluate(
        "e => [+e.querySelector('[data-part=remaining]').dataset.seconds, Date.now() / 1000]"
    )
    return left, clock


def test_a_second_view_in_the_same_page_answers_and_both_show_it(
    open_notebook: Open, folder: Path
) -> None:
    notebook = open_notebook([TOOL, BEGIN["start"], "run", ANSWERS])
    notebook.run_all()
    first, second = notebook.view(1), notebook.view(2)
    first.asked()
    second.asked()
    second.approve()
    for view in (first, second):
        view.ended("Done in 2 rounds")
        expect(view.part("approval")).to_have_count(0)
        expect(view.call()).to_contain_text("You approved this.")
    assert second.root.inner_text() == first.root.inner_text()
    assert (folder / "ran.txt").read_text() == "plum\n"


def test_a_second_page_shows_the_question_and_answers_it(open_notebook: Open, folder: Path) -> None:
    notebook = open_notebook([TOOL, BEGIN["await"]])
    notebook.run(0)
    notebook.run(1)
    first = notebook.view(1)
    first.asked()
    notebook.save()
    second = open_notebook().view(1)
    second.asked()
    second.approve()
    for view in (first, second):
        view.ended("Done in 2 rounds")
        expect(view.call()).to_contain_text("You approved this.")
    assert (folder / "ran.txt").read_text() == "plum\n"


def test_a_question_that_runs_out_is_unanswered_and_not_declined(
    open_notebook: Open, folder: Path
) -> None:
    told = "print([b for m in (await run).messages for b in m.blocks if b.type == 'tool_result'])"
    notebook = open_notebook([TOOL, "run = agent(approval_timeout_s=3).start('Write.')", told])
    notebook.run(0)
    notebook.run(1)
    view = notebook.view(1)
    view.asked()
    assert view.seconds <= 3
    view.ended("Done in 2 rounds")
    view.state("unanswered")
    expect(view.call()).to_contain_text("Nobody answered in time")
    expect(view.call().locator(".al-call-state")).to_contain_text("nobody answered")
    assert "You declined" not in view.root.inner_text()
    notebook.run(2)
    notebook.printed(2, "unanswered")
    assert "nobody answered" in notebook.text(2)
    assert "outcome='unanswered'" in notebook.text(2)
    assert not (folder / "ran.txt").exists()


def test_decline_with_a_reason_is_told_to_the_model(open_notebook: Open, folder: Path) -> None:
    told = "print([b for m in (await run).messages for b in m.blocks if b.type == 'tool_result'])"
    notebook = open_notebook([TOOL, BEGIN["start"], told])
    notebook.run(0)
    notebook.run(1)
    view = notebook.view(1)
    view.button("decline").click()
    notebook.page.keyboard.type("not that word")
    notebook.page.keyboard.press("Enter")
    view.state("declined")
    expect(view.call()).to_contain_text("You declined this. Reason: not that word")
    view.ended("Done in 2 rounds")
    notebook.run(2)
    notebook.printed(2, "not that word")
    assert not (folder / "ran.txt").exists()


def test_two_answers_at_once_count_as_one_and_both_pages_end_equal(
    open_notebook: Open, folder: Path
) -> None:
    notebook = open_notebook([TOOL, BEGIN["start"], ANSWERS])
    notebook.run(0)
    notebook.run(1)
    first = notebook.view(1)
    first.asked()
    notebook.save()
    second = open_notebook().view(1)
    second.asked()
    second.button("decline").click()
    # Each click returns before the kernel can have replied to the page.
    at = first.root.page.evaluate("Date.now()") + 1500
    for view, action in ((first, "approve"), (second, "decline-now")):
        view.button(action).evaluate(
            "(button, at) => { setTimeout(() => button.click(), at - Date.now()) }", at
        )
    for view in (first, second):
        view.ended("Done in 2 rounds")
    shown = [view.call().get_attribute("data-state") for view in (first, second)]
    assert shown[0] == shown[1]
    assert shown[0] in ("ok", "declined")
    notebook.run(2)
    notebook.printed(2, "exit: end_turn")
    approved = shown[0] == "ok"
    assert f"answers: [('person', {approved})]" in notebook.text(2)
    assert (folder / "ran.txt").exists() == approved
    late = second if approved else first
    expect(late.call()).to_contain_text("Your click had no effect")


def test_enter_and_typing_elsewhere_never_approve(open_notebook: Open, folder: Path) -> None:
    notebook = open_notebook([TOOL, BEGIN["start"], "x = 1"])
    notebook.run(0)
    notebook.run(1)
    view = notebook.view(1)
    view.asked()
    for key in ("Enter", "y", "a", "Escape", "Enter"):
        notebook.page.keyboard.press(key)
    view.part("say").locator("textarea").fill("Use another word.")
    notebook.page.keyboard.press("Enter")
    expect(view.part("say")).to_contain_text("Use another word.")
    expect(view.button("approve")).to_be_enabled()
    view.state("waiting")
    view.stop()
    view.ended("Stopped by you")
    assert not (folder / "ran.txt").exists()
