"""What later rooms implement for earlier ones, as small protocols with a written contract.

The engine runs with none of them: no disk, no notebook, no page.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from agentloop_nb.inbox import Inbox
    from agentloop_nb.log import EventLog


class Checkpoint(Protocol):
    """Makes what happened durable before an effect follows from it."""

    async def durable(self) -> None:
        """Return when everything in the run's log now is on disk, or cannot be saved at all.

        Never raises for a disk: a failed save is reported through the inbox, and the run goes on.
        """
        ...


class NoCheckpoint:
    """For runs that are not saved."""

    async def durable(self) -> None:
        return


class Audience(Protocol):
    """Who could answer a question."""

    def present(self) -> bool:
        """True once a page has said hello. May be asked from any thread."""
        ...


class Shown(Protocol):
    """What a host needs of a run to show it."""

    session_id: str
    run_id: str
    log: EventLog
    inbox: Inbox
    loop: asyncio.AbstractEventLoop

    def follow_up(self, prompt: str) -> Shown:
        """Begin the next turn of the session, on the same loop; raises UsageError where that
        cannot be. Only ever from that loop's thread."""
        ...


class Host(Protocol):
    """The place where cells run: a notebook. Scripts and terminals have none."""

    def show(self, run: Shown) -> Audience:
        """Show a live view of the run in the current cell; main thread only."""
        ...

    def show_again(self, run: Shown) -> None:
        """Show the view once more, from the current cell."""
        ...

    def block(self, future: concurrent.futures.Future[Any]) -> None:
        """Wait for the future in a blocking cell, hearing the page meanwhile; main thread only.
        Raises KeyboardInterrupt at once when the notebook interrupts."""
        ...

    def attend(self) -> AbstractContextManager[Callable[[], bool]]:
        """While inside, the page is heard and an interrupt noticed though a cell awaits. What it
        yields tells whether the notebook interrupted since."""
        ...

    def in_cell(self) -> bool:
        """Whether the running task is the cell itself, and not one that the cell made."""
        ...

    def folder(self) -> Path | None:
        """The folder beside the notebook for its sessions, None where its path is not known."""
        ...


_finders: list[Callable[[], Host | None]] = []


def register_host(finder: Callable[[], Host | None]) -> None:
    """Name a function that gives the host of this process, or None where it is not there."""
    _finders.append(finder)


def find_host() -> Host | None:
    """The host of this process, if there is one."""
    return next((host for finder in _finders if (host := finder()) is not None), None)
