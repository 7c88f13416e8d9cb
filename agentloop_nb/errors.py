"""The error tree, by who is at fault. A message says what happened, then what to do next.

    AgentLoopError
    ├── UsageError                the calling code; raised before a run exists
    │   ├── ToolDefinitionError   a tool that cannot be described to a model
    │   ├── ModelNotFound         a model string that names no adapter
    │   ├── MissingKey            a provider without its API key
    │   ├── PromptError           a prompt that is not text
    │   ├── NoRunningLoop         `start` where nothing could drive the run
    │   └── SessionBusy           a second live run in one session
    ├── ProviderError             the provider or the way to it; ends a run with `fatal_error`
    │   ├── StreamCut             a stream that ended before its terminal event
    │   └── CircuitOpen           it failed again and again; ends a run with `circuit_breaker`
    ├── StoredDataError           a file that we wrote once and cannot read now
    ├── ToolArgumentsError        the model: arguments that do not fit a tool's schema
    └── RunFailed                 what `Result.raise_for_exit()` raises

`RunInterrupted` stands apart: it is a KeyboardInterrupt, so that "Run All" stops and no
`except Exception` swallows it. Inside a task of a cell's it is `RunCancelled`.
"""

from __future__ import annotations

import asyncio
from typing import Literal

ProviderErrorKind = Literal[
    "rate_limit",
    "timeout",
    "overloaded",
    "context_overflow",
    "auth",
    "billing",
    "model_not_found",
    "connection",
    "server",
    "request",
    "protocol",
]


class AgentLoopError(Exception):
    """Everything this package raises on purpose, but for `RunInterrupted`."""


class UsageError(AgentLoopError):
    """The calling code asked for something that cannot be; nothing was started or sent."""


class ToolDefinitionError(UsageError):
    """A function cannot become a tool."""


class ModelNotFound(UsageError):
    """A model string names no adapter."""


class MissingKey(UsageError):
    """A provider's API key is neither given nor in the environment."""


class PromptError(UsageError, TypeError):
    """A prompt is not text, or is empty."""


class NoRunningLoop(UsageError):
    """`start` was called where no event loop runs, so nothing could drive the run."""


class SessionBusy(UsageError):
    """A session has one live run; a second was asked for."""


class ProviderError(AgentLoopError):
    """The provider refused, failed or could not be reached.

    `kind` is the class that the engine acts by; `status` is the HTTP status where there was one;
    `retry_after_s` is how long the provider asked us to wait, in seconds, None where it did not.
    `what` is the message without its advice, for when the engine itself tries again.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ProviderErrorKind,
        status: int | None = None,
        retry_after_s: float | None = None,
        what: str = "",
    ) -> None:
        super().__init__(message)
        self.what = what or message
        self.kind: ProviderErrorKind = kind
        self.status = status
        self.retry_after_s = retry_after_s


class StreamCut(ProviderError):
    """A stream ended cleanly but before its terminal event: what came is not an answer."""

    def __init__(self, provider: str) -> None:
        what = f"The stream from {provider} ended before its last event: the reply is incomplete."
        super().__init__(
            f"{what} Run the prompt again; if it keeps happening, look at the server or proxy in "
            "between.",
            kind="connection",
            what=what,
        )


class CircuitOpen(ProviderError):
    """A provider failed so often in a row that asking on is no use. `last` is its latest failure,
    None where another run met it."""

    def __init__(self, failures: int, last: ProviderError | None) -> None:
        words = "" if last is None else f" The last failure: {last.what}"
        super().__init__(
            f"The provider failed {failures} times in a row, the last time after a pause, so the "
            "run was ended. Wait a few minutes, or use another model, and send a new message: the "
            f"session goes on from here.{words}",
            kind="overloaded" if last is None else last.kind,
            status=None if last is None else last.status,
        )


class StoredDataError(AgentLoopError):
    """A stored session cannot be read; the message names the file and the place in it."""


class ToolArgumentsError(AgentLoopError):
    """The model's arguments do not fit the tool's schema; the text is written for the model."""


class RunFailed(AgentLoopError):
    """A run ended for a reason other than a natural one.

    `exit_reason` is the value of the run's `ExitReason`.
    """

    def __init__(self, exit_reason: str, message: str) -> None:
        super().__init__(message)
        self.exit_reason = exit_reason


class _OneLine(BaseException):
    def _render_traceback_(self) -> list[str]:
        # IPython shows these lines in place of a traceback: there is nothing to debug here.
        return [str(self)]


class RunInterrupted(_OneLine, KeyboardInterrupt):
    """The notebook's interrupt (or Ctrl-C) ended the run that this cell waited for."""


class RunCancelled(_OneLine, asyncio.CancelledError):
    """The same, where a task of the cell's waited and not the cell itself. A KeyboardInterrupt
    raised there would be carried out of the event loop, and end the kernel with it."""
