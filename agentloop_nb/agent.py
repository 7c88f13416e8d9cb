"""`Agent`, a frozen configuration: a model, its instructions and tools, and how far a run may go.

It checks what it is given, opens sessions (new, saved, another agent's) and says where they lie.
"""

from __future__ import annotations

import secrets as random_secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, get_args

from typing_extensions import TypeVar

from agentloop_nb.errors import UsageError
from agentloop_nb.governance.chain import Interceptor
from agentloop_nb.governance.desk import OnQuestion
from agentloop_nb.limits import Limits
from agentloop_nb.models.base import Model
from agentloop_nb.models.resolve import resolve
from agentloop_nb.ports import find_host
from agentloop_nb.run import Result, Run
from agentloop_nb.session import Record, Session, stored_record
from agentloop_nb.snapshot import SessionFiles, session_ids
from agentloop_nb.tools import Tool, ToolSet

DepsT = TypeVar("DepsT", default=Any)
Snapshots = Literal["every_tool_round", "manual"]
WhichLoop = Literal["kernel", "thread"]


class Agent(Generic[DepsT]):
    """A model, its instructions and its tools, and how far a run may go.

    `model` is `"anthropic:NAME"`, `"openai:NAME"` (Responses), `"openai-chat:NAME"` (Chat
    Completions), `"offline:NAME"`, or a Model. `tools` are functions or what `@tool` made of
    them; those in `pool` are not told to the model and run when it names one. `deps` reaches
    tools through their ToolContext. `on_question` decides what no page can. `interceptors` may
    claim calls after the approval. `snapshots` says when a session is saved: at each step of a
    tool round and at the end, or only by `run.snapshot()`. `folder` is where, by default beside
    the notebook. `secrets` are values that are taken out of all that leaves a tool, as the keys
    in use and what has the shape of a key are. `loop="thread"` puts runs on an event loop in a
    thread of its own (the one `run_sync` always uses): they go on while cells block, and `start`
    works in a script too; async tools then run on that loop. The default, `"kernel"`, is the
    running loop.

    Raises UsageError (ModelNotFound, ToolDefinitionError) for what cannot work.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        instructions: str = "",
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        pool: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        limits: Limits | None = None,
        snapshots: Snapshots = "every_tool_round",
        deps: DepsT | None = None,
        interceptors: Sequence[Interceptor] = (),
        on_question: OnQuestion | None = None,
        secrets: Sequence[str] = (),
        folder: str | Path | None = None,
        loop: WhichLoop = "kernel",
    ) -> None:
        _check_words("snapshots", snapshots, get_args(Snapshots))
        _check_words("loop", loop, get_args(WhichLoop))
        _check_kinds(
            instructions=(instructions, str),
            limits=(limits, Limits | None),
            folder=(folder, str | Path | None),
        )
        if on_question is not None and not callable(on_question):
            raise UsageError("on_question= takes a function of a question, or nothing.")
        self.model = resolve(model)
        self.instructions = instructions
        self.tools = ToolSet(tools, pool)
        self.limits = limits if limits is not None else Limits()
        self.snapshots: Snapshots = snapshots
        self.loop: WhichLoop = loop
        self.deps = deps
        self.interceptors = tuple(interceptors)
        self.on_question = on_question
        self.secrets = _checked_secrets(secrets)
        # Absolute, since a tool may change the working directory.
        self._folder = Path(folder).absolute() if folder is not None else None

    def __repr__(self) -> str:
        names = ", ".join(self.tools.names)
        return f"<Agent {self.model.name}, {f'tools: {names}' if names else 'no tools'}>"

    # -- a new session

    def start(self, prompt: str) -> Run:
        """Begin a run, show it and return at once; it goes on while later cells run.

        Needs a running event loop, as every notebook cell has, or `loop="thread"`; raises
        NoRunningLoop where there is neither.
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
            return Session(self, Record(_new_id(), self._place()))
        record = stored_record(self._place(), session)
        if record.stored.state.unfinished is not None:
            raise UsageError(
                f"The last run of session {session} is unfinished. "
                f"Go on with agent.resume({session!r}) first."
            )
        return Session(self, record)

    def resume(self, session_id: str = "latest") -> Run:
        """Go on with an unfinished run after a crash or a kernel restart; shows it like `start`.

        `"latest"` is the session last written of those whose run is unfinished and live nowhere.
        Calls that were decided keep their decision, a call that had started is not started again:
        the model is told that its outcome is unknown. Raises UsageError where there is nothing to
        go on with, StoredDataError where the files cannot be read, and NoRunningLoop as `start`.
        """
        folder = self._place()
        if session_id == "latest":
            session_id = _latest_unfinished(folder)
        record = stored_record(folder, session_id)
        if record.stored.state.unfinished is None:
            raise UsageError(
                f"Session {session_id} has no unfinished run. "
                f"Go on with agent.session({session_id!r}).start(...)."
            )
        return Session(self, record).resume()

    def sessions(self, *, unfinished: bool = False) -> list[str]:
        """The ids of the sessions saved where this agent saves, oldest first by when they were
        last written; with `unfinished`, only those that `resume` can go on with.

        `unfinished=True` reads each session's files, and raises StoredDataError as `resume` does.
        """
        folder = self._place()
        saved = session_ids(folder)
        return [each for each in saved if not unfinished or _unfinished(folder, each)]

    def _place(self) -> Path:
        if self._folder is not None:
            return self._folder
        host = find_host()
        return (host.folder() if host is not None else None) or _working_folder()


def _latest_unfinished(folder: Path) -> str:
    saved = session_ids(folder)
    if not saved:
        raise UsageError(f"No session is saved in {folder}. Begin with agent.start(...).")
    for session_id in reversed(saved):
        if _unfinished(folder, session_id):
            return session_id
    raise UsageError(
        f"No session in {folder} has an unfinished run. "
        f"Go on with the last one by agent.session({saved[-1]!r}).start(...)."
    )


def _unfinished(folder: Path, session_id: str) -> bool:
    """Whether a session's last run has not ended and nobody, in this kernel or another, runs it."""
    files = SessionFiles(folder, session_id)
    return not files.live_somewhere() and files.load().state.unfinished is not None


def _checked_secrets(secrets: Sequence[str]) -> tuple[str, ...]:
    if isinstance(secrets, str) or not all(isinstance(each, str) for each in secrets):
        raise UsageError("secrets= is a list of texts, as in secrets=[os.environ['DB_PASSWORD']].")
    return tuple(secrets)


def _check_words(name: str, value: object, words: tuple[str, ...]) -> None:
    if value not in words:
        raise UsageError(f"{name}={value!r}: give {' or '.join(map(repr, words))}.")


def _check_kinds(**given: tuple[object, Any]) -> None:
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise UsageError(f"{name}= got {type(value).__name__}; see help(Agent).")


def _new_id() -> str:
    """Sorts by time, and two kernels do not meet."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{random_secrets.token_hex(2)}"


_told: set[Path] = set()


def _working_folder() -> Path:
    """Where sessions go when no notebook's path is known; said once, so that nobody wonders."""
    folder = Path.cwd() / "runs.agentloop"
    if folder not in _told:
        _told.add(folder)
        print(f"agentloop_nb saves its sessions in {folder}", file=sys.stderr)
    return folder
