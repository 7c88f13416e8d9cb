"""Three ways to run on each ipykernel, and a real mouse: approve, run all, stop, interrupt.

`AGENTLOOP_NB_KERNELS=all` runs them on every version; its table is in docs/kernels.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.cells import ANSWERS, BACKGROUND, BEGIN, OTHER_ENDED, TOOL
from tests.browser.conftest import Open
from tests.kernel_envs import INSTALLED, chosen, python_of
from tests.lab import Lab, Notebook

MODES = ["start", "await", "run_sync"]
QUEUED = 200
"""Cells below the run, all queued by "Run All" before it has ended."""


@pytest.fixture(params=chosen(), scope="module")
def kernel_name(lab: Lab, request: pytest.FixtureRequest) -> str:
    """Notebooks of this module are opened with each of these kernels."""
    version: str = request.param
    if version == INSTALLED:
        return "python3"
    name = f"ipykernel-{version}"
    lab.offer(name, python_of(version))
    return name


@pytest.mark.parametrize("mode", MODES)
def test_a_click_on_approve_is_heard_once_and_run_all_loses_no_cell(
    open_notebook: Open, folder: Path, mode: str
) -> None:
    notebook = open_notebook([TOOL, BEGIN[mode], "print('the cell', 'below')", ANSWERS])
    notebook.run_all()
    notebook.begun(0)
    view = notebook.view(1)
    view.asked()
    if mode == "start":
        notebook.printed(2, "the cell below")
    else:
        notebook.running(1)
    assert not (folder / "ran.txt").exists()
    view.approve()
    view.state("ok", "note")
    view.says("All is written down.")
    view.ended("Done in 2 rounds")
    notebook.printed(2, "the cell below")
    notebook.ended(3)
    notebook.run(3)
    notebook.printed(3, "text: All is written down.")
    assert "answers: [('person', True)]" in notebook.text(3)
    assert (folder / "ran.txt").read_text() == "plum\n"


@pytest.mark.parametrize("mode", MODES)
def test_none_of_200_queued_cells_is_lost(open_notebook: Open, folder: Path, mode: str) -> None:
    queued = [f"seen.append({number})" for number in range(QUEUED)]
    last = 3 + QUEUED
    notebook = open_notebook(
        [TOOL, "seen = ['above']", BEGIN[mode], *queued, "print(len(seen), 'seen', *seen)"]
    )
    notebook.run_all()
    notebook.begun(0)
    view = notebook.view(2)
    view.asked()
    view.approve()
    view.ended("Done in 2 rounds")
    notebook.shown(last)
    notebook.printed(last, " ".join(map(str, [1 + QUEUED, "seen above", *range(QUEUED)])))
    assert (folder / "ran.txt").read_text() == "plum\n"


@pytest.mark.parametrize("mode", MODES)
def test_stop_with_a_question_open_ends_the_run_and_keeps_its_text(
    open_notebook: Open, folder: Path, mode: str
) -> None:
    notebook = open_notebook([TOOL, BEGIN[mode], "print('the cell', 'below')", ANSWERS])
    notebook.run_all()
    notebook.begun(0)
    view = notebook.view(1)
    view.asked()
    view.stop()
    view.ended("Stopped by you in round 0")
    view.says("First I ask.")
    view.state("cancelled")
    notebook.printed(2, "the cell below")
    stopped_with_partial_text(notebook, 3)
    assert not (folder / "ran.txt").exists()


IN_IT = "The kernel is in this cell."
WAITS = {
    "start": [BEGIN["start"], f"print('{IN_IT}')\nawait run"],
    "await": [f"print('{IN_IT}')\n{BEGIN['await']}"],
    "run_sync": [f"print('{IN_IT}')\n{BEGIN['run_sync']}"],
}
"""The last cell waits, and says when it has begun: its star is there as soon as Lab has sent it,
and a kernel that is at no cell yet ignores an interrupt, or loses the cell (stock ipykernel 6)."""


@pytest.mark.parametrize("mode", MODES)
def test_interrupt_with_a_question_open_ends_that_run_alone(
    open_notebook: Open, folder: Path, mode: str
) -> None:
    notebook = open_notebook([ANSWERS, OTHER_ENDED, TOOL, BACKGROUND, *WAITS[mode]])
    view, other, waiting = notebook.view(4), notebook.view(3), 3 + len(WAITS[mode])
    for cell in (2, 3):
        notebook.run(cell)
        notebook.begun(cell)
    other.asked()  # a blocking cell freezes the loop of the runs in the background
    for cell in range(4, waiting + 1):
        notebook.run(cell)
    view.asked()
    notebook.printed(waiting, IN_IT)
    notebook.running(waiting)
    notebook.interrupt()
    view.ended("Stopped by you in round 0")
    view.says("First I ask.")
    notebook.ended(waiting)
    assert "Interrupted: run" in one_line(notebook, waiting)
    stopped_with_partial_text(notebook, 0)
    assert not (folder / "ran.txt").exists()
    other.approve()
    other.ended("Done in 2 rounds")
    notebook.run(1)
    notebook.printed(1, "other: end_turn All is written down.")
    assert (folder / "ran.txt").read_text() == "plum\n"


def stopped_with_partial_text(notebook: Notebook, cell: int) -> None:
    notebook.run(cell)
    notebook.printed(cell, "exit: user_cancel")
    assert "text: First I ask." in notebook.text(cell)
    assert "'person', True" not in notebook.text(cell)


def one_line(notebook: Notebook, cell: int) -> str:
    """What the interrupt made a cell say: one line, and no traceback."""
    own, *said = filter(None, notebook.text(cell).splitlines())
    assert own == IN_IT
    assert len(said) == 1, said
    assert "Traceback" not in said[0]
    return said[0]
