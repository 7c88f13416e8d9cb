"""Runs in other places than a plain notebook: papermill, nbconvert, a kernel that was patched or is
of another make, a script, IPython's terminal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.kernels import CHECKOUT, live_kernel
from tests.pages import NOBODY, SETUP, WAYS, Notebook

INTERRUPT_S = 5.0
"""Ten times what an interrupt may take."""

PROCESS_S = 60.0
"""The longest that another process may take; it takes two seconds."""


def in_process(folder: Path, *command: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run another Python process, without a notebook; returns when it has ended."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(CHECKOUT),
            "IPYTHONDIR": str(folder / "ipython"),
            "TERM": "dumb",
        },
        input=typed,
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
    )


def test_papermill_runs_a_notebook_to_its_end(tmp_path: Path) -> None:
    cells = [SETUP + NOBODY.format(0.2), *WAYS.values(), "(await run).text", "runs()[-1].result"]
    source, target = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    nbformat.write(
        nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        ),
        source,
    )
    done = in_process(tmp_path, "-m", "papermill", "in.ipynb", "out.ipynb", "--no-progress-bar")
    assert done.returncode == 0, done.stderr
    outputs = [out for c in nbformat.read(target, as_version=4).cells for out in c.outputs]
    results = [o["data"]["text/plain"] for o in outputs if o.output_type == "execute_result"]
    assert results[0] == "'All is written down.'"
    assert "end_turn" in results[1]
    assert not (tmp_path / "ran.txt").exists()


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A kernel in which the user has applied nest_asyncio before anything of ours came."""
    folder = tmp_path_factory.mktemp("patched")
    with live_kernel(folder) as kernel:
        kernel.run("import nest_asyncio; nest_asyncio.apply()")
        kernel.run(SETUP)
        yield Notebook(kernel, folder)


@pytest.mark.parametrize("way", WAYS)
def test_where_nest_asyncio_is_applied_an_approval_is_heard_too(
    patched: Notebook, way: str
) -> None:
    cell, view = patched.begin(WAYS[way])
    below = patched.kernel.cell("print('below')")
    view.until_asked()
    assert view.approve()["ok"]
    assert view.until_ended() == "end_turn"
    cell.ok()
    assert below.ok() == "below\n"
    assert patched.ran() == ["plum"]
    assert view.text() == "First I ask.|All is written down."
    assert patched.kernel.run("print((await runs()[-1]).exit_reason)") == "end_turn\n"


@pytest.mark.parametrize("way", ["await", "run_sync"])
def test_where_nest_asyncio_is_applied_an_interrupt_ends_the_run_too(
    patched: Notebook, way: str
) -> None:
    _, background = patched.begin("other = agent().start('In the background.')")
    background.until_asked()
    cell, view = patched.begin(WAYS[way])
    view.until_asked()
    patched.kernel.interrupt()
    assert cell.reply(INTERRUPT_S)["ename"] == "RunInterrupted"
    assert view.until_ended() == "user_cancel"
    assert patched.ran() == []
    assert background.approve()["ok"]
    assert patched.kernel.run("print((await other).exit_reason)") == "end_turn\n"
    assert patched.ran() == ["plum"]


PECULIAR = {
    "gui": "%gui asyncio",
    "uvloop": "import uvloop; uvloop.install()",
    "policy": (
        "import asyncio\n"
        "class Policy(asyncio.DefaultEventLoopPolicy):\n"
        "    def new_event_loop(self): raise RuntimeError('No loop from here.')\n"
        "asyncio.set_event_loop_policy(Policy())"
    ),
}


@pytest.mark.parametrize("what", PECULIAR)
def test_a_users_own_gui_uvloop_or_policy_does_no_harm(tmp_path: Path, what: str) -> None:
    if what == "uvloop":
        pytest.importorskip("uvloop", reason="there is none for this system")
    with live_kernel(tmp_path) as kernel:
        kernel.run(PECULIAR[what])
        kernel.run(SETUP)
        notebook = Notebook(kernel, tmp_path)
        for way in WAYS:
            cell, view = notebook.begin(WAYS[way])
            view.until_asked()
            assert view.approve()["ok"]
            assert view.until_ended() == "end_turn"
            cell.ok()
            assert notebook.ran() == ["plum"]


def test_a_kernel_that_lacks_the_parts_says_so_and_hangs_nowhere(tmp_path: Path) -> None:
    """As a later ipykernel might be. Background runs need none of what is private."""
    with live_kernel(tmp_path) as kernel:
        kernel.run(SETUP + NOBODY.format(0.2))
        kernel.run("from agentloop_nb.notebook import kernel as k; k.main_shell = lambda: None")
        notebook = Notebook(kernel, tmp_path)
        cell, view = notebook.begin("result = agent().run_sync('Write plum.')")
        cell.ok()
        assert "agent.start(...)" in cell.text("stderr")
        assert "ipykernel" in cell.text("stderr")
        view.until_ended()
        assert notebook.ran() == []
        kernel.run(NOBODY.format(5.0))
        _, view = notebook.begin("run = agent().start('Write plum.')")
        view.until_asked()
        assert view.approve()["ok"]
        assert view.until_ended() == "end_turn"
        assert notebook.ran() == ["plum"]


def test_nbconvert_executes_a_notebook_to_its_end_and_its_output_can_be_read(
    tmp_path: Path,
) -> None:
    cells = [SETUP + NOBODY.format(0.2), "result = agent().run_sync('Write plum.')", "result.text"]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, tmp_path / "in.ipynb")
    to = ["--execute", "--to", "markdown", "--output", "out.md"]
    done = in_process(tmp_path, "-m", "nbconvert", *to, "in.ipynb")
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "out.md").read_text("utf-8")
    assert "All is written down." in written
    assert "The view of run" in written
    assert not (tmp_path / "ran.txt").exists()


MADE = (
    SETUP
    + """
def made():
    rounds = [Reply("First I ask.", calls=[Call("touch", word="plum")]), "All is written down."]
    return Agent(OfflineModel(rounds), tools=[touch], on_question=lambda question: True)
"""
)


def test_in_a_script_run_and_run_sync_work_and_start_says_why_not(tmp_path: Path) -> None:
    done = in_process(
        tmp_path,
        "-c",
        MADE + "print(made().run_sync('Go.').text)\n"
        "print(asyncio.run(made().run('Go.')).text)\n"
        "made().start('Go.')",
    )
    *_, error = done.stderr.splitlines()
    assert error.startswith("agentloop_nb.errors.NoRunningLoop: agent.start(...) needs a running")
    assert "agent.run_sync(" in error
    assert done.stdout.splitlines() == ["All is written down."] * 2
    assert (tmp_path / "ran.txt").read_text() == "plum\n" * 2
    assert done.stderr.count(f"saves its sessions in {tmp_path / 'runs.agentloop'}\n") == 1


def test_in_a_script_start_works_where_a_loop_runs(tmp_path: Path) -> None:
    done = in_process(
        tmp_path,
        "-c",
        MADE + "async def main():\n    run = made().start('Go.')\n"
        "    kinds = [event.type async for event in run]\n"
        "    print(kinds[0], kinds[-1], (await run).text)\nasyncio.run(main())",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "run_start done All is written down.\n"


def test_in_ipythons_terminal_run_and_run_sync_work_and_start_says_why_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "made.py").write_text(MADE)
    done = in_process(
        tmp_path,
        *("-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"),
        typed="%run -i made.py\nmade().start('Go.')\nprint('sync', made().run_sync('Go.'))\n"
        "print('await', await made().run('Go.'))\nruns()[-1]\n",
    )
    assert done.returncode == 0, done.stderr
    assert "NoRunningLoop: agent.start(...) needs a running event loop" in done.stdout
    for text in ("sync All is written down.", "await All is written down.", ", Done in 2 rounds>"):
        assert text in done.stdout
    assert (tmp_path / "ran.txt").read_text() == "plum\n" * 2
