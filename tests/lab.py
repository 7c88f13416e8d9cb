"""A real JupyterLab for tests, and a page object that uses a notebook as a person does.

`serve` runs one server process on 127.0.0.1, at home in a temporary folder. It ends itself when its
standard input closes or its time is over, so it never outlives the tests. `Notebook` clicks and
types; what has no button of its own goes through Lab's own commands. Cells count from 0.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import psutil
from playwright.sync_api import ConsoleMessage, Locator, Page, expect

from tests.kernels import write_spec

CHECKOUT = Path(__file__).parents[1]
SHOTS = "AGENTLOOP_NB_SHOTS"
START_S = 60
LIFETIME_S = 1200
SERVER_LINES = 60  # of the server's log, in the report of a test that failed
WAIT_MS = 30_000
"""The longest wait for anything on a page; most of it takes well under a second."""

expect.set_options(timeout=WAIT_MS)

_SETTINGS = {
    "apputils-extension/notification": '{"checkForUpdates": false, "fetchNews": "false"}',
    "docmanager-extension/plugin": '{"autosave": false}',
}
_SERVER = """
import os, signal, sys, threading
def end():
    os.kill(os.getpid(), signal.SIGTERM)
def ends_with_its_input():
    sys.stdin.read()
    end()
timer = threading.Timer(float(sys.argv.pop(1)), end)
timer.daemon = True
timer.start()
threading.Thread(target=ends_with_its_input, daemon=True).start()
from jupyterlab.labapp import main
main()
"""


class Lab:
    """A running server. `root` is the folder it serves, `log` the lines that it and its kernels
    write to standard error."""

    def __init__(self, root: Path, url: str, token: str, log: list[str]) -> None:
        self.root = root
        self.url = url
        self.token = token
        self.log = log

    def write(self, path: str, cells: Sequence[str], kernel: str = "python3") -> Path:
        """Write a notebook of code cells for a kernelspec; returns its file."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell.strip("\n")) for cell in cells],
            metadata={"kernelspec": {"name": kernel, "display_name": kernel}},
        )
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, file)
        return file

    def offer(self, name: str, python: Path) -> None:
        """Have a kernelspec for an interpreter that has ipykernel."""
        write_spec(self.root.parent / "data" / "kernels", name, python)

    def address(self, path: str, app: str) -> str:
        """Of a notebook in JupyterLab (`doc/tree`) or in Notebook 7 (`notebooks`)."""
        return f"{self.url}{app}/{path}?token={self.token}"


@contextmanager
def serve(folder: Path) -> Iterator[Lab]:
    """Run a JupyterLab in this folder; ended by its pid, with its kernels, on the way out."""
    root = folder / "root"
    root.mkdir(parents=True)
    token = secrets.token_hex(16)
    command = [sys.executable, "-c", _SERVER, str(LIFETIME_S), *_options(root, token)]
    process = subprocess.Popen(
        command,
        cwd=root,
        env=_environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        log: list[str] = []
        yield Lab(root, _url(process, log), token, log)
    finally:
        _end(process)


def _options(root: Path, token: str) -> list[str]:
    return [
        "--no-browser",
        "--allow-root",  # in a container there often is no other user
        "--ServerApp.ip=127.0.0.1",
        "--ServerApp.port=0",
        f"--ServerApp.root_dir={root}",
        f"--IdentityProvider.token={token}",
        "--LabApp.expose_app_in_browser=True",
        "--JupyterNotebookApp.expose_app_in_browser=True",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]


def _environment(folder: Path) -> dict[str, str]:
    """A home of its own, and the checkout's package; the kernelspec is that of this Python."""
    settings = folder / "settings"
    for name, text in _SETTINGS.items():
        file = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    places = {
        "HOME": folder / "home",
        "JUPYTER_CONFIG_DIR": folder / "config",
        "JUPYTER_DATA_DIR": folder / "data",
        "JUPYTER_RUNTIME_DIR": folder / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": settings,
        "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces",
        "IPYTHONDIR": folder / "ipython",
        "PYTHONPATH": CHECKOUT,
    }
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANTHROPIC_", "OPENAI_"))}
    return {
        **kept,
        **{name: str(place) for name, place in places.items()},
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_PLATFORM_DIRS": "1",
    }


def _url(process: subprocess.Popen[str], log: list[str]) -> str:
    """The address that the server tells when it listens. Its log is read on, or it would block."""
    found: list[str] = []
    ready = threading.Event()

    def read() -> None:
        for line in process.stderr or ():
            log.append(line)
            match = re.search(r"http://127\.0\.0\.1:\d+/", line)
            if match and not found:
                found.append(match[0])
                ready.set()
        ready.set()

    threading.Thread(target=read, daemon=True).start()
    assert ready.wait(START_S), f"JupyterLab did not start in {START_S} s:\n{''.join(log)}"
    assert found, f"JupyterLab ended:\n{''.join(log)}"
    return found[0]


def _end(process: subprocess.Popen[str]) -> None:
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    process.terminate()
    _, alive = psutil.wait_procs(family, timeout=15)
    for left in alive:
        left.kill()
    process.wait(timeout=15)
    for pipe in (process.stdin, process.stderr):
        if pipe is not None:
            pipe.close()


NUDGE = """
const nudge = (kernel) => {
    kernel.requestKernelInfo().catch(() => {});
    // Lab keeps its messages back until its first question is answered, these too. Where that one
    // is stranded only a message over another connection frees it.
    window.nudges = (window.nudges ?? 0) + 1;
    if (window.nudges % 4 === 0) {
        const { kernels } = window.jupyterapp.serviceManager;
        const other = kernels.connectTo({ model: kernel.model, handleComms: false });
        other.info.catch(() => {}).then(() => other.dispose());
    }
};
"""


class Notebook:
    """A notebook open in a page."""

    def __init__(self, lab: Lab, page: Page, path: str, app: str = "doc/tree") -> None:
        self.lab = lab
        self.page = page
        self.path = path
        self.console: list[ConsoleMessage] = []
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: self.console.append(message))
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto(lab.address(path, app))
        self._ready()

    def _ready(self) -> None:
        """Until the notebook is there and its kernel is connected. The first question of Lab to a
        stock ipykernel 7.0 to 7.3 may be stranded, as in `begun`."""
        self.cell(0).wait_for()
        self.page.wait_for_function(
            "() => {"
            + NUDGE
            + """
                const session = window.jupyterapp?.shell.currentWidget?.context?.sessionContext;
                const kernel = session?.session?.kernel;
                const connected = kernel?.connectionStatus === 'connected';
                const ready = session?.isReady && connected && kernel.status !== 'unknown';
                if (connected && !ready) {
                    nudge(kernel);
                }
                return ready;
            }""",
            polling=500,
        )

    def reload(self) -> None:
        self.page.reload()
        self._ready()

    # -- cells

    def cell(self, index: int) -> Locator:
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"]')

    def shown(self, index: int) -> None:
        """Scroll to a cell: of a long notebook Lab has only those in sight on the page."""
        self.page.evaluate(
            "async i => { await window.jupyterapp.shell.currentWidget.content.scrollToItem(i) }",
            index,
        )
        self.cell(index).wait_for()

    def output(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-Cell-outputArea")

    def text(self, index: int) -> str:
        """What a cell printed and gave, without its views."""
        found = self.output(index).locator(".jp-RenderedText").all_inner_texts()
        return "\n".join(found)

    def prompt(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-InputArea-prompt")

    def run(self, index: int) -> None:
        """Run a cell by the keyboard."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")

    def edit(self, index: int, source: str) -> None:
        """Write a cell anew by the keyboard."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(source.strip("\n"))

    def run_all(self) -> None:
        """Run → Run All Cells."""
        self.menu("Run", "runmenu:run-all")

    def begun(self, index: int) -> None:
        """Until a cell has run, before a run of ours lives. Stock ipykernel 7.0 to 7.3 may strand
        it until any other message comes, before anything of ours is imported: so others come,
        whatever status the page shows, which may be the stranded message's own."""
        self.page.wait_for_function(
            "([cell, prompt]) => {"
            + NUDGE
            + """
                const { session } = window.jupyterapp.shell.currentWidget.context.sessionContext;
                nudge(session.kernel);
                const found = document.querySelector(cell)?.querySelector(prompt);
                return /\\[\\d+\\]/.test(found?.textContent ?? '');
            }""",
            arg=[
                f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"]',
                ".jp-InputArea-prompt",
            ],
            polling=500,
        )

    def ended(self, index: int) -> None:
        """Until a cell has run: its number stands where the star was."""
        expect(self.prompt(index)).to_have_text(re.compile(r"\[\d+\]"))

    def running(self, index: int) -> None:
        expect(self.prompt(index)).to_have_text(re.compile(r"\[\*\]"))

    def printed(self, index: int, words: str) -> None:
        """Until a cell's output holds these words."""
        expect(
            self.output(index).locator(".jp-RenderedText", has_text=words).first
        ).to_be_attached()

    # -- the notebook

    def menu(self, name: str, command: str) -> None:
        self.page.locator(".lm-MenuBar-item", has_text=re.compile(f"^{name}$")).click()
        self.page.locator(f'.lm-Menu-item[data-command="{command}"]').first.click()

    def interrupt(self) -> None:
        """The toolbar's button."""
        self.page.locator(
            '.jp-NotebookPanel-toolbar [data-command="notebook:interrupt-kernel"]'
        ).click()

    def save(self) -> None:
        self.page.keyboard.press("ControlOrMeta+s")
        self.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget.context.model.dirty === false"
        )

    def command(self, name: str, **args: Any) -> None:
        """One of Lab's own commands."""
        self.page.evaluate(
            "async ([name, args]) => { await window.jupyterapp.commands.execute(name, args) }",
            [name, args],
        )

    def theme(self, name: str) -> None:
        """`light` or `dark`."""
        self.command("apputils:change-theme", theme=f"JupyterLab {name.title()}")
        self.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light",
            arg=str(name == "light").lower(),
        )

    # -- views

    def view(self, index: int | None = None, number: int = 0) -> View:
        """The view in a cell's output; without a cell, of all on the page."""
        place = self.page if index is None else self.output(index)
        return View(place.locator('[data-agentloop="view"]').nth(number))

    # -- looking

    def errors(self) -> list[str]:
        """What the page's console holds of errors."""
        return [message.text for message in self.console if message.type == "error"]

    def shoot(self, name: str) -> None:
        """A picture, where `AGENTLOOP_NB_SHOTS` names a folder for them."""
        if folder := os.environ.get(SHOTS):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=Path(folder) / f"{name}.png")

    def evidence(self, folder: Path) -> str:
        """A picture and the console's log in `folder`, for a test that failed. Says where, and what
        can be told in words: the cells that have run or wait, and the end of the server's log."""
        folder.mkdir(parents=True, exist_ok=True)
        picture, log = folder / "page.png", folder / "console.log"
        log.write_text("\n".join(f"{m.type}: {m.text}" for m in self.console), encoding="utf-8")
        self.page.screenshot(path=picture)
        cells = self.page.evaluate(
            """() => [...document.querySelectorAll('.jp-CodeCell')].map((cell) =>
                [cell.querySelector('.jp-InputPrompt').textContent,
                 cell.querySelector('.jp-OutputArea').innerText.slice(0, 500)].join(' '))"""
        )
        ran = [f"{n} {cell}" for n, cell in enumerate(cells) if not cell.startswith("[ ]")]
        said = "".join(self.lab.log[-SERVER_LINES:])
        return f"picture: {picture}, console: {log}\n\n" + "\n".join([*ran, "", said])


class View:
    """A view of a run."""

    def __init__(self, root: Locator) -> None:
        self.root = root

    def part(self, name: str) -> Locator:
        return self.root.locator(f'[data-part="{name}"]')

    def button(self, action: str) -> Locator:
        return self.root.locator(f'[data-action="{action}"]')

    def call(self, name: str = "") -> Locator:
        """The calls, or those of one tool."""
        return self.root.locator("[data-call]", has_text=name)

    def approve(self) -> None:
        self.button("approve").first.click()

    def decline(self) -> None:
        self.button("decline").first.click()
        self.button("decline-now").first.click()

    def stop(self) -> None:
        self.button("stop").click()

    def asked(self) -> None:
        """Until a question is open."""
        expect(self.part("approval")).to_be_visible()

    def ended(self, words: str = "") -> None:
        """Until the newest turn has ended, with these words."""
        expect(self.part("end").last).to_contain_text(words)

    def says(self, words: str) -> None:
        """Until these words stand in a text of the model."""
        expect(self.part("text").filter(has_text=words).last).to_be_visible()

    def state(self, state: str, name: str = "") -> None:
        """Until the (last) call is in a state."""
        expect(self.call(name).last).to_have_attribute("data-state", state)

    @property
    def seconds(self) -> float:
        """What the countdown shows, in seconds."""
        return float(self.part("remaining").get_attribute("data-seconds") or "nan")

    @property
    def paints(self) -> int:
        return int(self.root.get_attribute("data-paints") or "0")

    @property
    def answer(self) -> str:
        return self.part("text").last.inner_text()
