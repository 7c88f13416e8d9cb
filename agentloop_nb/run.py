"""A run in a user's hands: await it, iterate its events, stop it, say something to it.

A `Run` is a thin shell over the loop's task. It owns nothing but the door in (`inbox`), the log
and a future that is set once, so any number of cells and threads may wait for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentloop_nb.errors import PromptError, RunCancelled, RunFailed, RunInterrupted, UsageError
from agentloop_nb.events import AnyEvent, ToolResultEvent
from agentloop_nb.exits import ExitReason
from agentloop_nb.governance.counters import count
from agentloop_nb.inbox import Inbox, Say, Stop
from agentloop_nb.log import EventLog
from agentloop_nb.messages import Message, Usage
from agentloop_nb.ports import Audience, Shown, find_host
from agentloop_nb.saver import Saver
from agentloop_nb.snapshot import SessionFiles
from agentloop_nb.transcript import SessionState

if TYPE_CHECKING:
    from agentloop_nb.session import Session

_END_WAIT_S = 10.0
"""How long an interrupted cell waits for its run to end tidily; it normally takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended.

    `text` is the answer: the text of the last reply, not of the rounds before it. `messages` is
    the session's whole history, `new_messages` this run's. `counters` counts rounds, tool calls,
    failed ones and the seconds it took. `error` says what failed, None where nothing did.
    """

    text: str
    exit_reason: ExitReason
    rounds: int
    usage: Usage
    messages: tuple[Message, ...]
    new_messages: tuple[Message, ...]
    counters: dict[str, float]
    error: str | None = None
    words: str = ""

    def __str__(self) -> str:
        return self.text

    def raise_for_exit(self) -> Result:
        """This result, where the run ended with `end_turn`; else raises RunFailed."""
        if self.exit_reason is ExitReason.END_TURN:
            return self
        raise RunFailed(self.exit_reason.value, self.error or self.words)


class Run:
    """One turn being executed, or executed. Made by `Agent.start` and its siblings."""

    def __init__(
        self,
        session: Session,
        run_id: str,
        log: EventLog,
        inbox: Inbox,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.session = session
        self.session_id = session.id
        self.run_id = run_id
        self.log = log
        self.inbox = inbox
        self.loop = loop
        self.files = SessionFiles(session.record.folder, session.id)
        self.saver: Saver | None = None
        self.audience: Audience | None = None
        self.task: asyncio.Task[None] | None = None  # held, or the loop may forget it
        self._future: concurrent.futures.Future[Result] = concurrent.futures.Future()
        # Running from the start, so that a cancelled waiter can never cancel the run.
        self._future.set_running_or_notify_cancel()

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """What governance did so far, by name and outcome (`governance/counters.py`)."""
        return count(self.log.since(0))

    # -- waiting

    def __await__(self) -> Generator[object, None, Result]:
        return self._waited(owned=False).__await__()

    async def owned(self) -> Result:
        """Wait as the run's owner: where the waiter is cancelled, the run is stopped."""
        return await self._waited(owned=True)

    async def _waited(self, *, owned: bool) -> Result:
        if not self._future.done():
            await self._attended(self._end(), owned=owned)
        return self._future.result()

    async def _end(self) -> None:
        await asyncio.wait({asyncio.shield(asyncio.wrap_future(self._future))})

    async def settled(self) -> None:
        """Until the run is over and its session is free, whatever came of it; on any loop."""
        if not self._future.done():
            await self._end()

    async def _attended(self, waiting: Coroutine[object, object, None], *, owned: bool) -> None:
        """Wait for something of the run, so that a notebook's interrupt stops the run."""
        host = find_host()
        with host.attend() if host is not None else nullcontext(lambda: False) as interrupted:
            try:
                await waiting
                return
            except (asyncio.CancelledError, KeyboardInterrupt):
                if owned or interrupted():
                    await self._end_tidily()
                if host is None or not interrupted():
                    raise
                in_cell = host.in_cell()
        words = self._interruption()
        raise (RunInterrupted(words) if in_cell else RunCancelled(words)) from None

    async def _end_tidily(self) -> None:
        self.stop()
        ended = asyncio.wrap_future(self._future)
        await asyncio.wait({ended}, timeout=_END_WAIT_S)

    def wait(self, timeout_s: float | None = None) -> Result:
        """Block until the run ends, for scripts; raises TimeoutError after `timeout_s` seconds.

        Raises UsageError on the thread that drives the run, which could then never end.
        """
        if not self._future.done() and self._drives_here():
            raise UsageError(
                "run.wait() would block the event loop that drives this run. "
                "Use `await run`, or agent.run_sync(prompt) in a plain cell."
            )
        return self._future.result(timeout_s)

    def _drives_here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    def block(self) -> Result:
        """Block the cell or script until the end; an interrupt stops the run (`run_sync`)."""
        host = find_host()
        try:
            if host is None:
                return self._future.result()
            host.block(self._future)
            return self._future.result()
        except KeyboardInterrupt:
            self.stop()
            concurrent.futures.wait({self._future}, timeout=_END_WAIT_S)
        raise RunInterrupted(self._interruption()) from None

    def _interruption(self) -> str:
        return (
            f"Interrupted: run {self.run_id} was stopped. What it had is at runs()[-1].result; "
            "a new message goes on from there."
        )

    # -- acting

    def stop(self) -> None:
        """End the run with `user_cancel`; returns at once. From any thread."""
        self.inbox.post(Stop())

    def say(self, text: str) -> None:
        """Add something in mid-run; the model sees it with its next request. From any thread.

        Raises PromptError for what is no text, and UsageError where the run has ended.
        """
        check_prompt(text)
        if self._future.done():
            raise UsageError("This run has ended. Go on with run.session.start(text).")
        self.inbox.post(Say(text))

    def snapshot(self) -> str:
        """Save now, and return the snapshot's path. Blocks for the disk; raises OSError."""
        if self.saver is None:
            raise UsageError("This run has not begun; call again in a moment.")
        self.saver.save_now()
        return str(self.saver.path)

    def follow_up(self, prompt: str) -> Shown:
        """See `ports.Shown`."""
        return self.session.follow_up(prompt, self)

    # -- looking

    @property
    def done(self) -> bool:
        return self._future.done()

    @property
    def result(self) -> Result | None:
        """The result, None while the run goes on."""
        return self._future.result() if self._future.done() else None

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        """All events so far."""
        return tuple(self.log.since(0))

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        """Every event from the first, however late it is begun; an interrupt stops the run."""
        position = 0
        while True:
            for event in self.log.since(position):
                position += 1
                yield event
            if self.log.closed and position >= len(self.log):
                return
            await self._attended(self.log.beyond(position), owned=False)

    def __repr__(self) -> str:
        result = self.result
        if result is None:
            return f"<Run {self.run_id}, running>"
        return f"<Run {self.run_id}, {result.words}>"

    def _ipython_display_(self) -> None:
        host = find_host()
        if host is None:
            print(repr(self))
        else:
            host.show_again(self)

    # -- the end, called by whoever drives the run

    def settle(self, state: SessionState) -> None:
        self._future.set_result(_result(state, self.log))

    def fail(self, error: BaseException) -> None:
        self._future.set_exception(error)


def check_prompt(prompt: object) -> None:
    """Raise PromptError for a prompt that is no text, or that says nothing."""
    if not isinstance(prompt, str):
        raise PromptError(
            f"A prompt is text; this is {type(prompt).__name__}. Pass a string, "
            "for example agent.start(str(value))."
        )
    if not prompt.strip():
        raise PromptError("The prompt is empty. Say what the agent should do.")


def _result(state: SessionState, log: EventLog) -> Result:
    run = state.run
    if run is None or run.exit_reason is None:
        raise AssertionError("A result is made from a run that ended.")
    new = state.messages[run.first :]
    replies = [m for m in new if m.role == "assistant"]
    return Result(
        text=replies[-1].text if replies else "",
        exit_reason=ExitReason(run.exit_reason),
        rounds=run.rounds,
        usage=run.usage,
        messages=state.messages,
        new_messages=new,
        counters=_counters(run.rounds, log),
        error=run.error,
        words=run.exit_words,
    )


def _counters(rounds: int, log: EventLog) -> dict[str, float]:
    events = log.since(0)
    results = [e for e in events if isinstance(e, ToolResultEvent)]
    return {
        "rounds": rounds,
        "tool_calls": len(results),
        "tool_errors": sum(e.is_error for e in results),
        "seconds": round(events[-1].t, 3) if events else 0.0,
    }
