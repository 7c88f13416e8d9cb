"""The notebook as the engine sees it: shows runs, waits in cells, knows the folder beside it.

Puts kernel, bridge and widget together; each of the three knows nothing of the other two.
"""

from __future__ import annotations

import concurrent.futures
import functools
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display as _display

from agentloop_nb.notebook import kernel, waiting
from agentloop_nb.notebook.bridge import Bridge
from agentloop_nb.notebook.paths import notebook_path, sessions_folder
from agentloop_nb.notebook.widget import RunWidget
from agentloop_nb.ports import Audience, Shown
from agentloop_nb.tools.capture import refuse_input_by

_EPOCH = secrets.token_hex(3)
"""Changes with the kernel: what a page holds of another one's runs is void."""


class NotebookHost:
    """See `ports.Host`."""

    def __init__(self) -> None:
        self._views: dict[str, tuple[RunWidget, int]] = {}
        for owner, name in kernel.input_places():
            refuse_input_by(owner, name)

    def show(self, run: Shown) -> Audience:
        """Show a live view in the current cell. Until the run ends the page is heard, whatever
        cells do meanwhile."""
        widget = RunWidget(
            lambda content: bridge.receive(content),
            session_id=run.session_id,
            run_id=run.run_id,
        )

        def shown(following: Shown) -> None:
            widget.run_id = following.run_id
            widget.ended = False
            self._views[following.run_id] = (widget, -1)
            attend(following)

        def attend(live: Shown) -> None:
            listening = ExitStack()
            listening.enter_context(kernel.hear_view(widget.model_id, bridge.receive))
            _at_end(live, listening.close)
            _at_end(live, lambda: setattr(widget, "ended", True))

        bridge = Bridge(run, widget.tell, epoch=_EPOCH, on_shown=shown)
        self._views[run.run_id] = (widget, _execution())
        attend(run)
        _put(widget)
        return bridge

    def show_again(self, run: Shown) -> None:
        """The view once more; one line of text in the execution that already shows it."""
        view = self._views.get(run.run_id)
        if view is None or view[1] == _execution():
            print(repr(run))
        else:
            _put(view[0])

    def block(self, future: concurrent.futures.Future[Any]) -> None:
        """See `ports.Host`."""
        _say_if_deaf()
        with kernel.hear_comms():
            waiting.block(future)

    @contextmanager
    def attend(self) -> Iterator[Callable[[], bool]]:
        """See `ports.Host`."""
        _say_if_deaf()
        with kernel.hear_comms(), waiting.awake(), waiting.noting_interrupts() as interrupted:
            yield interrupted

    def in_cell(self) -> bool:
        """See `ports.Host`."""
        return waiting.in_cell()

    def folder(self) -> Path | None:
        """See `ports.Host`."""
        shell = get_ipython()
        path = notebook_path(shell.user_ns if shell is not None else {})
        return sessions_folder(path) if path is not None else None


def _put(widget: RunWidget) -> None:
    show: Callable[[RunWidget], None] = _display  # IPython gives it no types
    show(widget)


@functools.cache
def _say_if_deaf() -> None:
    """Once: on a kernel where only background runs are safe, nobody should wonder."""
    if why := kernel.deaf():
        print(why, file=sys.stderr)


def _execution() -> int:
    shell = get_ipython()
    return shell.execution_count if shell is not None else -1


def _at_end(run: Shown, call: Callable[[], None]) -> None:
    """Have `call` run once, when the run's last event is in its log."""

    def look() -> None:
        if run.log.closed:
            leave()
            call()

    leave = run.log.on_append(look)


_host: NotebookHost | None = None


def notebook_host() -> NotebookHost | None:
    """The host, in a process that is a notebook's kernel; None elsewhere."""
    global _host
    if _host is None and kernel.in_kernel():
        _host = NotebookHost()
    return _host
