"""What all tests share: a place of their own, no keys, a Chromium, and nothing left running."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright

from agentloop_nb import resilience

CHROMIUM_VARIABLE = "AGENTLOOP_NB_CHROMIUM"
CHROMIUM_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
)
NO_CHROMIUM = (
    "No Chromium, and `playwright install chromium` could not fetch one. Install it (Debian: "
    f"apt-get install chromium) or name one in {CHROMIUM_VARIABLE}."
)
CHROMIUM_FLAGS = (
    "--no-sandbox",  # containers run as root, where Chromium's sandbox cannot work
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
)
INSTALL_TIMEOUT_S = 600

# The same examples on every run, on machines of any speed.
settings.register_profile("agentloop_nb", derandomize=True, deadline=None, database=None)
settings.load_profile("agentloop_nb")


@pytest.fixture(autouse=True)
def no_circuit_is_open() -> None:
    """A server of another test may have had the same address."""
    resilience.forget()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs in an empty folder, since sessions are saved in the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test can reach a provider by the keys and addresses of whoever runs it."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "OPENAI_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_running() -> Iterator[None]:
    """At the end no process that the tests started is alive; those that are get ended and named."""
    before = set(psutil.Process().children(recursive=True))
    yield
    started = set(psutil.Process().children(recursive=True)) - before
    _, alive = psutil.wait_procs(list(started), timeout=10)
    left = [f"{process.pid}: {_command(process)}" for process in alive]
    for process in alive:
        process.kill()
    assert not left, "Tests left processes running:\n" + "\n".join(left)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return "(ended meanwhile)"


@pytest.fixture(scope="session")
def chromium() -> Path:
    """A Chromium to test with. Where there is none and none can be fetched, its tests are skipped,
    but fail under CI=true: there a skip would hide a missing install step."""
    path = find_chromium()
    if path is not None:
        return path
    if os.environ.get("CI") == "true":
        pytest.fail(NO_CHROMIUM, pytrace=False)
    pytest.skip(NO_CHROMIUM)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips for want of a Chromium get one place, so that the summary folds them into one line."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and NO_CHROMIUM in report.longrepr[2]:
        report.longrepr = (__file__, 1, report.longrepr[2])
    return report


@pytest.fixture
def browser(chromium: Path) -> Iterator[Browser]:
    """A browser of the test's own. Playwright keeps an event loop while it is open, so a test
    with a browser uses no `asyncio.run`."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=str(chromium), args=list(CHROMIUM_FLAGS)
        )
        yield opened
        opened.close()


def find_chromium() -> Path | None:
    """The one that is named, one of the system's, Playwright's, or one fetched now."""
    return _given() or _installed() or _playwrights() or _fetched()


def _given() -> Path | None:
    given = os.environ.get(CHROMIUM_VARIABLE)
    if given is None:
        return None
    if not Path(given).is_file():
        pytest.fail(f"{CHROMIUM_VARIABLE} names {given}, which is no file.", pytrace=False)
    return Path(given)


def _installed() -> Path | None:
    for name in CHROMIUM_NAMES:
        if found := shutil.which(name):
            return Path(found)
    return None


def _playwrights() -> Path | None:
    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if path.is_file() else None


def _fetched() -> Path | None:
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return _playwrights()
