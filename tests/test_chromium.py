"""Finding a Chromium: what happens on machines where there is none, or a wrong one is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser

CONFTEST = Path(__file__).with_name("conftest.py")
BROWSER_TESTS = """
def test_one(chromium): pass
def test_two(chromium): pass
"""
ANOTHER_FILE = "def test_three(chromium): pass"


def run_browser_tests(folder: Path, **environment: str) -> str:
    """What pytest prints for three browser tests on a machine where nothing can be found or got."""
    shutil.copy(CONFTEST, folder)
    (folder / "test_browser.py").write_text(BROWSER_TESTS, encoding="utf-8")
    (folder / "test_another.py").write_text(ANOTHER_FILE, encoding="utf-8")
    nowhere = {
        "PATH": str(folder),
        "PLAYWRIGHT_BROWSERS_PATH": str(folder / "browsers"),
        "PLAYWRIGHT_DOWNLOAD_HOST": "http://127.0.0.1:9",
    }
    kept = {k: v for k, v in os.environ.items() if k not in ("CI", "AGENTLOOP_NB_CHROMIUM")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env={**kept, **nowhere, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


def test_without_a_chromium_browser_tests_skip_with_one_line(tmp_path: Path) -> None:
    said = run_browser_tests(tmp_path)
    skips = [line for line in said.splitlines() if line.startswith("SKIPPED")]
    assert len(skips) == 1, said
    assert "apt-get install chromium" in skips[0]
    assert "3 skipped" in said


def test_without_a_chromium_browser_tests_fail_in_ci(tmp_path: Path) -> None:
    said = run_browser_tests(tmp_path, CI="true")
    assert "3 errors" in said, said
    assert "apt-get install chromium" in said


def test_a_named_chromium_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    said = run_browser_tests(tmp_path, AGENTLOOP_NB_CHROMIUM=str(tmp_path / "missing"))
    assert "3 errors" in said, said
    assert "which is no file" in said


def test_the_systems_chromium_is_found_by_name(tmp_path: Path) -> None:
    program = tmp_path / "chromium-browser"
    program.write_text("", encoding="utf-8")
    program.chmod(0o755)
    assert "3 passed" in run_browser_tests(tmp_path)


def test_a_browser_shows_a_page(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<p>hello</p>")
    assert page.inner_text("p") == "hello"
