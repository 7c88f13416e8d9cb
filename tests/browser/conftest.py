"""One server and one browser for all tests here; a notebook, and so a kernel, for each test."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ViewportSize, sync_playwright

from tests.conftest import CHROMIUM_FLAGS
from tests.lab import Lab, Notebook, serve

Open = Callable[..., Notebook]
OPENED = pytest.StashKey[list[Notebook]]()
WIDE: ViewportSize = {"width": 1280, "height": 900}


@pytest.fixture(scope="package")
def lab(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with serve(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="package")
def browser(chromium: Path) -> Iterator[Browser]:
    """Ends with this package: while it is open an event loop runs in the tests' thread."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=str(chromium), args=list(CHROMIUM_FLAGS)
        )
        yield opened
        opened.close()


@pytest.fixture(scope="package")
def context(browser: Browser) -> BrowserContext:
    """One for all pages, so that Lab's scripts are fetched once."""
    return browser.new_context(viewport=WIDE)


@pytest.fixture
def folder(lab: Lab, request: pytest.FixtureRequest) -> Path:
    """The test's own folder under the server's root."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    place = lab.root / name
    place.mkdir()
    return place


@pytest.fixture
def kernel_name() -> str:
    """The kernelspec of the test's notebook. Tests of several kernels override it."""
    return "python3"


@pytest.fixture
def open_notebook(
    lab: Lab,
    context: BrowserContext,
    folder: Path,
    kernel_name: str,
    request: pytest.FixtureRequest,
) -> Iterator[Open]:
    """Writes a notebook of these cells and opens it; without cells, opens it in one more page.

    Where the test fails, pictures and consoles are kept, and the report names them.
    """
    opened: list[Notebook] = []
    request.node.stash[OPENED] = opened
    path = f"{folder.name}/nb.ipynb"

    def open_it(cells: Sequence[str] = (), app: str = "doc/tree") -> Notebook:
        if cells:
            lab.write(path, cells, kernel_name)
        notebook = Notebook(lab, context.new_page(), path, app)
        opened.append(notebook)
        return notebook

    yield open_it
    for notebook in opened[:1]:
        notebook.command("kernelmenu:shutdown")
    for notebook in opened:
        notebook.page.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where a test failed, while its pages are still open: keep what they show."""
    report = yield
    if report.when == "call" and report.failed:
        for number, notebook in enumerate(item.stash.get(OPENED, [])):
            place = notebook.lab.root.parent / "failed" / item.name / str(number)
            report.sections.append((f"notebook {number}", notebook.evidence(place)))
    return report
