"""A session: a conversation that an agent carries on, run after run, and this kernel's runs.

Here a run is put together: the session's history, the log and the inbox, where it is saved, who
watches it, and which loop drives it. Nothing here knows Jupyter; the host does.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentloop_nb.background import background_loop
from agentloop_nb.errors import NoRunningLoop, SessionBusy, UsageError
from agentloop_nb.inbox import Inbox
from agentloop_nb.log import EventLog
from agentloop_nb.loop import Loop, Setup
from agentloop_nb.messages import Message
from agentloop_nb.ports import Audience, find_host
from agentloop_nb.redaction import Redactor, keys_in_use
from agentloop_nb.run import Result, Run, check_prompt
from agentloop_nb.saver import Saver
from agentloop_nb.snapshot import SessionFiles, Stored
from agentloop_nb.tools import Outlet
from agentloop_nb.transcript import SessionState

if TYPE_CHECKING:
    from agentloop_nb.agent import Agent

_RUNS: list[Run] = []


def runs() -> list[Run]:
    """This kernel's runs, oldest first. Any of them shows its view again as a cell's value."""
    return list(_RUNS)


@dataclass(slots=True)
class Record:
    """What all handles of one session share."""

    id: str
    folder: Path
    stored: Stored = field(default_factory=lambda: Stored(SessionState(), (), 0, 0))
    live: Run | None = None
    begun: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.begun = self.stored.state.runs


class Session:
    """A conversation. One of its runs may be live; the next one sees the whole history."""

    def __init__(self, agent: Agent[Any], record: Record) -> None:
        self.agent = agent
        self.record = record

    def __repr__(self) -> str:
        return f"<Session {self.id}, {len(self.messages)} messages>"

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history of the finished runs."""
        return self.record.stored.state.messages

    def start(self, prompt: str) -> Run:
        """The next turn, as `Agent.start`. Raises SessionBusy while a run of it is live."""
        return self._begin(prompt, self._loop(_START_ELSEWHERE))

    async def run(self, prompt: str) -> Result:
        """The next turn, as `Agent.run`."""
        return await self._begin(prompt, self._loop(_START_ELSEWHERE)).owned()

    def run_sync(self, prompt: str) -> Result:
        """The next turn, as `Agent.run_sync`."""
        return self._begin(prompt, background_loop()).block()

    def resume(self) -> Run:
        """Go on with the session's unfinished run; see `Agent.resume`."""
        self.agent.model.check()
        loop = self._loop(_RESUME_ELSEWHERE)
        stored = self.record.stored
        unfinished = stored.state.unfinished
        if unfinished is None:
            raise UsageError(f"Session {self.id} has no unfinished run.")
        return self._make(unfinished.run_id, EventLog(stored.events), loop, None)

    def follow_up(self, prompt: str, after: Run) -> Run:
        """The next turn in the view of the run before it, on that run's loop."""
        return self._begin(prompt, after.loop, audience=after.audience)

    def _loop(self, elsewhere: str) -> asyncio.AbstractEventLoop:
        """Where the next run lives. Raises NoRunningLoop with the words for that."""
        if self.agent.loop == "thread":
            return background_loop()
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            raise NoRunningLoop(elsewhere) from None

    def _begin(
        self, prompt: str, loop: asyncio.AbstractEventLoop, audience: Audience | None = None
    ) -> Run:
        check_prompt(prompt)
        self.agent.model.check()
        run_id = f"{self.id}.{self.record.begun}"
        return self._make(run_id, EventLog(), loop, prompt, audience)

    def _make(
        self,
        run_id: str,
        log: EventLog,
        loop: asyncio.AbstractEventLoop,
        prompt: str | None,
        audience: Audience | None = None,
    ) -> Run:
        run = Run(self, run_id, log, Inbox(loop), loop)
        with self.record.lock:
            previous = self._take_over(run)
        try:
            shown = audience if audience is not None else _show(run)
        except BaseException:
            with self.record.lock:
                self.record.live = None
                run.files.release()
            raise
        if prompt is not None:
            self.record.begun += 1
        _RUNS.append(run)
        self._launch(run, prompt, shown, previous)
        return run

    def _take_over(self, run: Run) -> Run | None:
        """Make this the session's live run. One whose last event has come is as good as over: it
        hands on its files, and is waited for before the new run's first event."""
        previous = self.record.live
        if previous is not None and not previous.log.closed:
            raise SessionBusy(
                f"Session {self.id} has a live run, {previous.run_id}. Add to it with "
                "run.say(text), or wait for it or stop it first."
            )
        if previous is not None:
            run.files, previous.files = previous.files, SessionFiles(self.record.folder, self.id)
        else:
            run.files.claim()
        self.record.live = run
        return previous

    def _launch(
        self, run: Run, prompt: str | None, audience: Audience | None, previous: Run | None
    ) -> None:
        """Put the run's task on its loop, in the context (variables) of the caller."""
        run.audience = audience
        context = contextvars.copy_context()
        drive = self._drive(run, prompt, previous)

        def begin() -> None:
            run.task = run.loop.create_task(drive, context=context)

        run.loop.call_soon_threadsafe(begin)

    async def _drive(self, run: Run, prompt: str | None, previous: Run | None) -> None:
        """The run's task: whatever happens, whoever waits for the run hears of its end."""
        if previous is not None:
            await previous.settled()
        try:
            state = await self._carry_out(run, prompt)
        except BaseException as error:
            self._ended(run, None)
            run.fail(error)
            if not isinstance(error, Exception):
                raise
            return
        self._ended(run, state)
        run.settle(state)

    async def _carry_out(self, run: Run, prompt: str | None) -> SessionState:
        automatic = self.agent.snapshots != "manual"
        before = self.record.stored
        run.saver = Saver(run.log, run.inbox, run.files, before, automatic=automatic)
        loop = Loop(self._setup(run, run.saver))
        if prompt is None:
            await loop.resume()
        else:
            await loop.start(prompt, self.id, run.run_id)
        return loop.state

    def _ended(self, run: Run, state: SessionState | None) -> None:
        """Free the session. `state` is None where the run broke off: what is saved counts then."""
        with self.record.lock:
            if run.saver is not None:
                saved = run.saver.stored
                reached = saved.state if state is None else state
                self.record.stored = Stored(reached, (), saved.run_bytes, saved.journal_bytes)
            run.files.release()
            if self.record.live is run:
                self.record.live = None

    def _setup(self, run: Run, saver: Saver) -> Setup:
        agent = self.agent
        return Setup(
            model=agent.model,
            tools=agent.tools.latest(),
            log=run.log,
            inbox=run.inbox,
            state=self.record.stored.state,
            instructions=agent.instructions,
            limits=agent.limits,
            deps=agent.deps,
            interceptors=agent.interceptors,
            on_question=agent.on_question,
            audience=run.audience,
            outlet=Outlet(
                keep=run.files.keep_result if agent.snapshots != "manual" else None,
                redact=Redactor([*agent.secrets, *keys_in_use(agent.model)]),
            ),
            checkpoint=saver,
        )


def stored_record(folder: Path, session_id: str) -> Record:
    live = next((r for r in _RUNS if r.session_id == session_id and not r.done), None)
    if live is not None:
        raise SessionBusy(f"Session {session_id} has a live run in this kernel, {live.run_id}.")
    return Record(session_id, folder, SessionFiles(folder, session_id).load())


def _show(run: Run) -> Audience | None:
    host = find_host()
    return host.show(run) if host is not None else None


_START_ELSEWHERE = (
    "agent.start(...) needs a running event loop to go on in the background, and there is "
    "none here (a script, or IPython's terminal). Use agent.run_sync(...), "
    "asyncio.run(agent.run(...)), or Agent(..., loop='thread'), whose runs go on in a thread."
)
_RESUME_ELSEWHERE = (
    "agent.resume(...) needs a running event loop, and there is none here (a script, or IPython's "
    "terminal). Give the agent a loop of its own, Agent(..., loop='thread'), and wait with "
    "agent.resume().wait()."
)
