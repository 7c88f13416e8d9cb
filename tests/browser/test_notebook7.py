"""Notebook 7, once: the view lives there as in JupyterLab, and its dialogs are heard."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.cells import ANSWERS, BEGIN, TOOL
from tests.browser.conftest import Open


@pytest.mark.parametrize("mode", ["start", "await", "run_sync"])
def test_a_click_on_approve_is_heard_in_notebook_7(
    open_notebook: Open, folder: Path, mode: str
) -> None:
    notebook = open_notebook(
        [TOOL, BEGIN[mode], "print('the cell', 'below')", ANSWERS], app="notebooks"
    )
    for cell in range(3):
        notebook.run(cell)
    view = notebook.view(1)
    view.asked()
    assert not (folder / "ran.txt").exists()
    notebook.shoot(f"notebook-7-{mode}")
    view.approve()
    view.state("ok", "note")
    view.ended("Done in 2 rounds")
    notebook.printed(2, "the cell below")
    notebook.run(3)
    notebook.printed(3, "answers: [('person', True)]")
    assert (folder / "ran.txt").read_text() == "plum\n"
