"""Running one call. Whatever a tool does, its call ends with a result of its own id.

A tool is run by a task of its own. A plain function runs on a daemon thread of ours (asyncio's
default executor has too few, and waits for them at exit), in a copy of the caller's context; an
async one runs on the loop. A thread cannot be ended: when its time is up it is left behind, what
it still prints is dropped, and `ToolContext.cancelled` tells it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable
from typing import Any, TypeVar

from agentloop_nb import sentences
from agentloop_nb.messages import ToolResult
from agentloop_nb.patience import Patience
from agentloop_nb.tools.arguments import Prepared
from agentloop_nb.tools.capture import SINK, captured
from agentloop_nb.tools.context import ToolContext, enter
from agentloop_nb.tools.outlet import Outlet
from agentloop_nb.tools.output import CallOutput, OnOutput
from agentloop_nb.tools.results import Normalised, failure, normalise
from agentloop_nb.tools.threads import on_thread
from agentloop_nb.tools.tool import Tool

T = TypeVar("T")

UNWIND_S = 0.1
"""Longest wait for a cancelled async tool to run its `finally` blocks."""


async def execute(
    prepared: Prepared,
    context: ToolContext[Any],
    *,
    timeout_s: float | None,
    on_output: OnOutput,
    outlet: Outlet | None = None,
) -> ToolResult:
    """Run a call and return its result, an error result included.

    `timeout_s` (seconds, None for none) holds where the tool sets none of its own. What leaves the
    tool goes by `outlet`, which lets everything through where it is None. `on_output` gets what
    the tool prints and its progress, on this loop, before this returns. Raises nothing of the
    tool's; a cancellation of the caller ends the wait at once and goes on.
    """
    tool, call = prepared.tool, prepared.call
    limit_s = timeout_s if tool.timeout_s is None else tool.timeout_s
    outlet = outlet or Outlet()
    output = CallOutput(outlet.heard_by(on_output))
    live = context.reporting_to(output.progress)
    variables = contextvars.copy_context()
    variables.run(_enter, live, output)
    arguments = dict(prepared.arguments)
    if tool.parameters.context is not None:
        arguments[tool.parameters.context] = live
    job = asyncio.get_running_loop().create_task(_run(tool, arguments), context=variables)
    try:
        done = await Patience(limit_s).wait(job)
    except asyncio.CancelledError:
        await _give_up(job, live, output)
        raise
    if not done:
        stubborn = await _give_up(job, live, output) or not tool.is_async
        text = sentences.timed_out(tool.name, limit_s or 0.0, still_running=stubborn)
        return ToolResult(call.id, call.name, text, "timeout")
    output.close()
    made = _result_of(job)
    content = await outlet.content(made.content)
    display = None if made.display is None else outlet.display(made.display)
    return ToolResult(call.id, call.name, content, made.outcome, made.images, display)


def _enter(context: ToolContext[Any], output: CallOutput) -> None:
    enter(context)
    SINK.set(output)


async def _give_up(
    job: asyncio.Task[Normalised], context: ToolContext[Any], output: CallOutput
) -> bool:
    """Stop waiting for a job. True where it goes on all the same."""
    context.cancel()
    job.cancel()
    _LEFT.add(job)
    job.add_done_callback(_LEFT.discard)
    try:
        await asyncio.wait({job}, timeout=UNWIND_S)
    finally:
        output.close(given_up=True)
    return not job.done()


_LEFT: set[asyncio.Task[Normalised]] = set()
"""Jobs given up but not yet over. The loop itself holds tasks only weakly."""


def _result_of(job: asyncio.Task[Normalised]) -> Normalised:
    if job.cancelled():
        return failure(asyncio.CancelledError("the tool cancelled its own task"))
    return job.result()


async def _run(tool: Tool[..., object], arguments: dict[str, object]) -> Normalised:
    """Call the tool where it belongs, and make what it returns or raises a result."""
    try:
        with captured():
            return await _outcome(tool, arguments)
    except BaseException as error:
        return failure(error)


async def _outcome(tool: Tool[..., object], arguments: dict[str, object]) -> Normalised:
    if tool.is_async:
        value = tool.function(**arguments)
    else:
        value = await on_thread(f"tool {tool.name}", lambda: _call(tool, arguments))
    if isinstance(value, Normalised):
        return value
    if inspect.isawaitable(value):
        value = await value
    if value is None or isinstance(value, str):
        return normalise(value)
    # The value's own methods are the user's code: a figure may take a second to draw.
    return await on_thread(f"tool {tool.name}", lambda: normalise(value))


def _call(tool: Tool[..., object], arguments: dict[str, object]) -> Normalised | Awaitable[object]:
    """On the thread: an awaitable goes back to the loop, anything else is a result here."""
    try:
        value = tool.function(**arguments)
        return value if inspect.isawaitable(value) else normalise(value)
    except BaseException as error:
        return failure(error)
