"""`Agent`, a frozen configuration, and `Session`, a conversation that it can carry on.

Here a run is put together: model and tools, the session's history, the log and the inbox, where it
is saved, who watches it, and which loop drives it. Nothing here knows Jupyter; the host does.
"""

from __future__ import annotations

import asyncio
import contextvars
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal

from typing_extensions import TypeVar

from agentloop_nb.background import background_loop
from agentloop_nb.errors import NoRunningLoop, SessionBusy, UsageError
from agentloop_nb.governance.chain import Interceptor
from agentloop_nb.governance.desk import OnQuestion
from agentloop_nb.inbox import Inbox
from agentloop_nb.limits import Limits
from agentloop_nb.log import EventLog
from agentloop_nb.loop import Loop, Setup
from agentloop_nb.messages import Message
from agentloop_nb.models.base import Model
from agentloop_nb.models.resolve import resolve
from agentloop_nb.ports import Audience, find_host
from agentloop_nb.run import Result, Run, check_prompt
from agentloop_nb.saver import Saver
from agentloop_nb.snapshot import SessionFiles, Stored, session_ids
from agentloop_nb.tools import Tool, ToolSet
from agentloop_nb.transcript import SessionState

DepsT = TypeVar("DepsT", default=Any)
Snapshots = Literal["every_tool_round", "manual"]

_RUNS: list[Run] = []


def runs() -> list[Run]:
    """This kernel's runs, oldest first. Any of them shows its view again as a cell's value."""
    return list(_RUNS)


class Agent(Generic[DepsT]):
    """A model, its instructions and its tools, and how far a run may go.

    `model` is `"anthropic:NAME"`, `"openai:NAME"` (Responses), `"openai-chat:NAME"` (Chat
    Completions), `"offline:NAME"`, or a Model. `tools` are functions or what `@tool` made of
    them. `deps` reaches tools through their ToolContext. `on_question` decides what no page can.
    `interceptors` may claim calls after the approval. `snapshots` says when a session is saved:
    at each step of a tool round and at the end, or only by `run.snapshot()`. `folder` is where,
    by default beside the notebook.

    Raises UsageError (ModelNotFound, ToolDefinitionError) for what cannot work.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        instructions: str = "",
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        limits: Limits | None = None,
        snapshots: Snapshots = "every_tool_round",
        deps: DepsT | None = None,
        interceptors: Sequence[Interceptor] = (),
        on_question: OnQuestion | None = None,
        folder: str | Path | None = None,
    ) -> None:
        if snapshots not in ("every_tool_round", "manual"):
            raise UsageError(f"snapshots={snapshots!r}: give 'every_tool_round' or 'manual'.")
        _check_kinds(
            instructions=(instructions, str),
            limits=(limits, Limits | None),
            folder=(folder, str | Path | None),
        )
        if on_question is not None and not callable(on_question):
            raise UsageError("on_question= takes a function of a question, or nothing.")
        self.model = resolve(model)
        self.instructions = instructions
        self.tools = ToolSet(tools)
        self.limits = limits if limits is not None else Limits()
        self.snapshots: Snapshots = snapshots
        self.deps = deps
        self.interceptors = tuple(interceptors)
        self.on_question = on_question
        # Absolute, since a tool may change the working directory.
        self._folder = Path(folder).absolute() if folder is not None else None

    def __repr__(self) -> str:
        names = ", ".join(self.tools.names)
        return f"<Agent {self.model.name}, {f'tools: {names}' if names else 'no tools'}>"

    # -- a new session

    def start(self, prompt: str) -> Run:
        """Begin a run, show it and return at once; it goes on while later cells run.

        Needs a running event loop, as every notebook cell has; NoRunningLoop elsewhere.
        """
        return self.session().start(prompt)

    async def run(self, prompt: str) -> Result:
        """Run to the end. Cancelling this stops the run; a notebook interrupt does too, and then
        raises RunInterrupted."""
        return await self.session().run(prompt)

    def run_sync(self, prompt: str) -> Result:
        """Run to the end in plain code. The cell blocks, its dialogs and its Stop do not."""
        return self.session().run_sync(prompt)

    # -- sessions

    def session(self, session: Session | str | None = None) -> Session:
        """A new session, a saved one by id, or another agent's, to be carried on by this one.

        Raises UsageError for an id that is not saved, or whose last run is unfinished.
        """
        if isinstance(session, Session):
            return Session(self, session.record)
        if session is None:
            return Session(self, _Record(_new_id(), self._place()))
        record = _stored_record(self._place(), session)
        if record.stored.state.unfinished is not None:
            raise UsageError(
                f"The last run of session {session} is unfinished. "
                f"Go on with agent.resume({session!r}) first."
            )
        return Session(self, record)

    def resume(self, session_id: str = "latest") -> Run:
        """Go on with an unfinished run after a crash or a kernel restart; shows it like `start`.

        Calls that were decided keep their decision, a call that had started is not started again:
        the model is told that its outcome is unknown. Raises UsageError where there is nothing to
        go on with, StoredDataError where the files cannot be read.
        """
        folder = self._place()
        if session_id == "latest":
            saved = session_ids(folder)
            if not saved:
                raise UsageError(f"No session is saved in {folder}. Begin with agent.start(...).")
            session_id = saved[-1]
        record = _stored_record(folder, session_id)
        if record.stored.state.unfinished is None:
            raise UsageError(
                f"Session {session_id} has no unfinished run. "
                f"Go on with agent.session({session_id!r}).start(...)."
            )
        return Session(self, record).resume()

    def sessions(self) -> list[str]:
        """The ids of the sessions saved where this agent saves, oldest first."""
        return session_ids(self._place())

    def _place(self) -> Path:
        if self._folder is not None:
            return self._folder
        host = find_host()
        return (host.folder() if host is not None else None) or _working_folder()


@dataclass(slots=True)
class _Record:
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

    def __init__(self, agent: Agent[Any], record: _Record) -> None:
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
        return self._begin(prompt, _running_loop())

    async def run(self, prompt: str) -> Result:
        """The next turn, as `Agent.run`."""
        return await self._begin(prompt, asyncio.get_running_loop()).owned()

    def run_sync(self, prompt: str) -> Result:
        """The next turn, as `Agent.run_sync`."""
        return self._begin(prompt, background_loop()).block()

    def resume(self) -> Run:
        """Go on with the session's unfinished run; see `Agent.resume`."""
        self.agent.model.check()
        stored = self.record.stored
        unfinished = stored.state.unfinished
        if unfinished is None:
            raise UsageError(f"Session {self.id} has no unfinished run.")
        return self._make(unfinished.run_id, EventLog(stored.events), _running_loop(), None)

    def follow_up(self, prompt: str, after: Run) -> Run:
        """The next turn in the view of the run before it, on that run's loop."""
        return self._begin(prompt, after.loop, audience=after.audience)

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
            checkpoint=saver,
        )


def _show(run: Run) -> Audience | None:
    host = find_host()
    return host.show(run) if host is not None else None


def _stored_record(folder: Path, session_id: str) -> _Record:
    live = next((r for r in _RUNS if r.session_id == session_id and not r.done), None)
    if live is not None:
        raise SessionBusy(f"Session {session_id} has a live run in this kernel, {live.run_id}.")
    return _Record(session_id, folder, SessionFiles(folder, session_id).load())


def _check_kinds(**given: tuple[object, Any]) -> None:
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise UsageError(f"{name}= got {type(value).__name__}; see help(Agent).")


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise NoRunningLoop(
            "agent.start(...) needs a running event loop to go on in the background, and there is "
            "none here (a script, or IPython's terminal). Use agent.run_sync(...), or "
            "asyncio.run(agent.run(...))."
        ) from None


def _new_id() -> str:
    """Sorts by time, and two kernels do not meet."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


_told: set[Path] = set()


def _working_folder() -> Path:
    """Where sessions go when no notebook's path is known; said once, so that nobody wonders."""
    folder = Path.cwd() / "runs.agentloop"
    if folder not in _told:
        _told.add(folder)
        print(f"agentloop_nb saves its sessions in {folder}", file=sys.stderr)
    return folder
