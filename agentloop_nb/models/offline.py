"""The offline model: a script instead of a provider. No network, no key, the same every time.

    model = OfflineModel([
        Reply(thinking="The folder first.", calls=[Call("list_files")]),
        Reply("All tidy."),
    ])

A script is a list of replies, one per round, or a function from the request to a reply. Notebooks,
lessons and a user's own tests run on it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from agentloop_nb.errors import ModelNotFound, ProviderError, ProviderErrorKind, UsageError
from agentloop_nb.messages import StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from agentloop_nb.models.base import (
    CallChunk,
    CallEnd,
    CallStart,
    Finish,
    ModelDelta,
    Request,
    TextChunk,
    ThinkingChunk,
)
from agentloop_nb.models.silence import watch
from agentloop_nb.models.wire import compact

CHARS_PER_TOKEN = 4
"""The offline model's made-up tokens: four characters each, a common rule of thumb."""

_ARGUMENT_CHARS = 12  # so that a short call still arrives in pieces one can watch


@dataclass(frozen=True, slots=True)
class Pause:
    """A silence of so many seconds, among the pieces of a text or between calls."""

    seconds: float


@dataclass(frozen=True, slots=True, init=False)
class Call:
    """A tool call: `Call("delete_file", path="draft.txt")`."""

    name: str
    arguments: str

    def __init__(self, name: str, /, **arguments: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "arguments", compact(arguments))

    @classmethod
    def raw(cls, name: str, arguments: str) -> Call:
        """A call whose arguments are this very text, which need not be JSON."""
        call = cls(name)
        object.__setattr__(call, "arguments", arguments)
        return call


Script = str | Pause | Sequence[str | Pause]
"""Text of a reply, with pauses where they are wanted."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answers in one round: thinking first, then text, then calls.

    `pause_s` overrides the model's pause between two pieces. With `failure` (a kind such as
    "overloaded", or a ProviderError) the reply breaks off with that error where it would have
    ended. `stop_reason` overrides the natural one; with "max_tokens" the last call is cut.
    """

    text: Script = ""
    thinking: Script = ""
    calls: Sequence[Call | Pause] = ()
    pause_s: float | None = None
    failure: ProviderErrorKind | ProviderError | None = None
    stop_reason: StopReason | None = None


Round = Reply | str
"""One round of a script; a bare string is a reply of that text."""


class OfflineModel:
    """Plays a script: a sequence of rounds, or a function from the request to a round.

    Which round of a sequence comes next is read off the conversation, and nothing is counted
    inside: it is the number of replies there that were made under this model's name. So a script
    goes on from turn to turn of a session and after a resume, begins anew in a new session, and
    serves any number of runs at once. Two scripts that take turns in one session need two names.

    `pause_s` is the time between two pieces of a reply, in seconds. Token counts are made up:
    four characters each, of the request and of the reply. Raises UsageError for a script that is
    neither of the two.
    """

    def __init__(
        self,
        script: Sequence[Round] | Callable[[Request], Round],
        *,
        name: str = "offline",
        pause_s: float = 0.0,
    ) -> None:
        rounds = None if callable(script) else tuple(_as_list(script))
        for number, round in enumerate(rounds or ()):
            _checked(round, f"Round {number} of the script")
        self._function = script if callable(script) else None
        self._rounds = rounds or ()
        self._name = name
        self._pause_s = pause_s

    def __repr__(self) -> str:
        what = "a function" if self._function else f"{len(self._rounds)} rounds"
        return f"<OfflineModel {self._name!r}, {what}>"

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return self._name

    def check(self) -> None:
        """An offline model lacks nothing."""

    def reply(self, request: Request) -> Reply:
        """The reply that answers this request. A script that has ended says so in its own text."""
        if self._function is not None:
            return _checked(self._function(request), "What the script's function returned")
        number = sum(m.role == "assistant" and m.provider == self._name for m in request.messages)
        if number < len(self._rounds):
            return _checked(self._rounds[number], f"Round {number} of the script")
        return Reply(
            f"The script of this offline model has ended: it has {len(self._rounds)} rounds, and "
            f"this would be number {number + 1}. Add a Reply(…) to the script to go on."
        )

    async def stream(self, request: Request) -> AsyncGenerator[ModelDelta, None]:
        """Play one reply; see `Model.stream`."""
        async with aclosing(self._play(request)) as played:
            limit_s = request.stream_timeout_s
            async for delta in watch(played, limit_s, provider="the offline model"):
                yield delta

    async def _play(self, request: Request) -> AsyncGenerator[ModelDelta, None]:
        reply = self.reply(request)
        pause_s = self._pause_s if reply.pause_s is None else reply.pause_s
        written = 0
        for step in _steps(reply):
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                continue
            # Even without a pause each piece gives way, so that Stop is heard in mid-reply.
            await asyncio.sleep(pause_s)
            written += _size(step)
            yield step
        if reply.failure is not None:
            raise _failure(reply.failure)
        usage = Usage(_tokens(_request_size(request)), _tokens(written))
        yield Finish(_stop_reason(reply), usage)


def _as_list(script: object) -> Sequence[Round]:
    if isinstance(script, Sequence) and not isinstance(script, str):
        return script
    raise UsageError(
        f"The script is {type(script).__name__}, and must be a list of Reply(…) or a function "
        "from the request to one: OfflineModel([Reply('Hello.')])."
    )


def _checked(round: object, where: str) -> Reply:
    if isinstance(round, Reply):
        return round
    if isinstance(round, str):
        return Reply(round)
    raise UsageError(f"{where} is {type(round).__name__}, and must be a Reply(…) or a string.")


def _steps(reply: Reply) -> Iterator[ModelDelta | Pause]:
    """The deltas and pauses of a reply, in their order."""
    block = 0
    for script, chunk in ((reply.thinking, ThinkingChunk), (reply.text, TextChunk)):
        for piece in _pieces(script):
            yield piece if isinstance(piece, Pause) else chunk(block, piece)
        block += 1
    last = next((c for c in reversed(reply.calls) if isinstance(c, Call)), None)
    for call in reply.calls:
        if isinstance(call, Pause):
            yield call
            continue
        cut = reply.stop_reason == "max_tokens" and call is last
        yield from _call_steps(block, call, cut)
        block += 1


def _call_steps(block: int, call: Call, cut: bool) -> Iterator[ModelDelta]:
    yield CallStart(block, call.name, f"offline_{block}")
    text = call.arguments[: len(call.arguments) // 2] if cut else call.arguments
    for start in range(0, len(text), _ARGUMENT_CHARS):
        yield CallChunk(block, text[start : start + _ARGUMENT_CHARS])
    if not cut:
        yield CallEnd(block)


def _pieces(script: Script) -> Iterator[str | Pause]:
    """Words with the blanks after them, as a model streams; a long run of letters in parts."""
    parts = [script] if isinstance(script, str | Pause) else script
    for part in parts:
        if isinstance(part, Pause):
            yield part
        else:
            yield from re.findall(r"\S{1,16}\s*|\s+", part)


def _stop_reason(reply: Reply) -> StopReason:
    if reply.stop_reason is not None:
        return reply.stop_reason
    return "tool_use" if any(isinstance(c, Call) for c in reply.calls) else "end_turn"


def _failure(failure: ProviderErrorKind | ProviderError) -> ProviderError:
    if isinstance(failure, ProviderError):
        # A new one each time: a raised exception collects the tracebacks of every round.
        return ProviderError(
            str(failure),
            kind=failure.kind,
            status=failure.status,
            retry_after_s=failure.retry_after_s,
            what=failure.what,
        )
    text = f"The script of the offline model says that this request fails ({failure})."
    return ProviderError(text, kind=failure)


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)


def _size(delta: ModelDelta) -> int:
    match delta:
        case TextChunk(_, text) | ThinkingChunk(_, text) | CallChunk(_, text):
            return len(text)
        case CallStart(_, name):
            return len(name)
        case _:
            return 0


def _request_size(request: Request) -> int:
    size = len(request.instructions)
    size += sum(len(t.name) + len(t.description) + len(compact(t.schema)) for t in request.tools)
    for message in request.messages:
        for block in message.blocks:
            match block:
                case Text(text) | Thinking(text):
                    size += len(text)
                case ToolCall(name=name, arguments=arguments):
                    size += len(name) + len(arguments)
                case ToolResult(content=content):
                    size += len(content)
                case _:
                    pass
    return size


# -- what a script's function may want to know


def last_user_text(request: Request) -> str:
    """The text of the newest user message, "" where there is none."""
    users = (m.text for m in reversed(request.messages) if m.role == "user")
    return next(users, "")


def new_results(request: Request) -> tuple[ToolResult, ...]:
    """The tool results that came after the newest reply: what this round has to react to."""
    found: list[ToolResult] = []
    for message in reversed(request.messages):
        if message.role == "assistant":
            break
        found[:0] = message.results
    return tuple(found)


# -- models by name


def _echo(request: Request) -> Reply:
    return Reply(last_user_text(request))


def _tour(request: Request) -> Reply:
    from agentloop_nb.models.tour import tour

    return tour(request)


_NAMED: dict[str, tuple[Callable[[Request], Round], float]] = {
    "tour": (_tour, 0.02),
    "echo": (_echo, 0.0),
}


def names() -> Iterable[str]:
    """The strings that name an offline model."""
    return [f"offline:{name}" for name in _NAMED]


def named(name: str) -> OfflineModel:
    """The offline model `offline:NAME`. Raises ModelNotFound for a name that is none."""
    if name not in _NAMED:
        raise ModelNotFound(
            f"There is no offline model {name!r}. Write one of {', '.join(names())}, or make your "
            "own: OfflineModel([Reply('Hello.')])."
        )
    script, pause_s = _NAMED[name]
    return OfflineModel(script, name=f"offline:{name}", pause_s=pause_s)
