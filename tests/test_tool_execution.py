"""Running tools: nothing that a tool does reaches its siblings, the loop, or another cell."""

from __future__ import annotations

import asyncio
import base64
import builtins
import contextvars
import dataclasses
import enum
import io
import json
import linecache
import logging
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentloop_nb.messages import Image, ToolCall, ToolResult
from agentloop_nb.tools import (
    ContextFilter,
    Tool,
    ToolContext,
    as_tool,
    execute,
    limit,
    prepare,
    tool,
)
from agentloop_nb.tools.outlet import Outlet
from agentloop_nb.tools.output import MAX_OUTPUT_CHARS
from agentloop_nb.tools.results import MAX_IMAGE_BYTES, normalise

PATIENCE_S = 20.0
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Heard:
    """Collects a call's output."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, str, float | None]] = []

    def __call__(self, stream: str, text: str, fraction: float | None) -> None:
        self.pieces.append((stream, text, fraction))

    def text(self, stream: str = "stdout") -> str:
        return "".join(text for kind, text, _ in self.pieces if kind == stream)


async def go(
    function: Callable[..., Any],
    arguments: dict[str, Any] | None = None,
    *,
    call_id: str = "c0.0",
    timeout_s: float | None = None,
    heard: Heard | None = None,
    context: ToolContext[Any] | None = None,
    max_chars: int | None = None,
) -> ToolResult:
    made: Tool[..., Any] = as_tool(function)
    prepared = prepare(ToolCall(call_id, made.name, json.dumps(arguments or {})), made)
    return await execute(
        prepared,
        context or ToolContext(session_id="s", run_id="s.0", round=3, call_id=call_id),
        timeout_s=timeout_s,
        on_output=heard or Heard(),
        outlet=Outlet(max_chars),
    )


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await work

    return asyncio.run(bounded())


async def heard_of(event: threading.Event) -> None:
    """Wait for a thread's event without a thread of the default executor."""
    while not event.is_set():
        await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def _streams_are_left_as_they_were():
    before = (sys.stdout, sys.stderr, sys.stdin, builtins.input)
    yield
    # A thread that was left behind keeps the stand-ins until it ends.
    for thread in threading.enumerate():
        if thread.name.startswith("tool "):
            thread.join(PATIENCE_S)
    assert (sys.stdout, sys.stderr, sys.stdin, builtins.input) == before


# Where a tool runs


def test_plain_functions_run_side_by_side_off_the_loop_in_daemon_threads():
    many = 50
    gate = threading.Barrier(many, timeout=PATIENCE_S)

    def meet() -> str:
        gate.wait()
        return f"{threading.current_thread().daemon} {threading.current_thread().name}"

    async def work() -> list[ToolResult]:
        return await asyncio.gather(*(go(meet, call_id=f"c0.{i}") for i in range(many)))

    results = run(work())
    assert [r.id for r in results] == [f"c0.{i}" for i in range(many)]
    assert {r.content for r in results} == {"True tool meet"}


def test_the_loop_goes_on_while_a_plain_function_blocks():
    free = threading.Event()

    def block() -> str:
        return str(free.wait(PATIENCE_S))

    async def work() -> ToolResult:
        task = asyncio.create_task(go(block))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()
        free.set()
        return await task

    assert run(work()).content == "True"


def test_an_async_tool_runs_on_the_loop():
    async def here() -> bool:
        return asyncio.get_running_loop() is loop and threading.current_thread() is main

    async def work() -> ToolResult:
        nonlocal loop
        loop = asyncio.get_running_loop()
        return await go(here)

    loop: asyncio.AbstractEventLoop | None = None
    main = threading.current_thread()
    assert run(work()).content == "true"


def test_a_plain_function_that_returns_a_coroutine_is_awaited():
    async def inner(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    def outer(n: int) -> Any:
        return inner(n)

    assert run(go(outer, {"n": 1})).content == "2"


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def test_tools_see_the_callers_context_and_cannot_change_it():
    def plain() -> str:
        seen = VARIABLE.get()
        VARIABLE.set("plain was here")
        return seen

    async def on_loop() -> str:
        seen = VARIABLE.get()
        VARIABLE.set("async was here")
        return seen

    async def work() -> list[str]:
        VARIABLE.set("callers")
        seen = [(await go(f)).content for f in (plain, on_loop, plain)]
        return [*seen, VARIABLE.get()]

    assert run(work()) == ["callers"] * 4


def test_the_interpreter_ends_though_a_tool_hangs():
    code = (
        "import asyncio, threading\n"
        "from agentloop_nb.tools import as_tool, execute, prepare, ToolContext\n"
        "from agentloop_nb.messages import ToolCall\n"
        "def hang() -> str:\n"
        "    threading.Event().wait()\n"
        "made = prepare(ToolCall('c0.0', 'hang', ''), as_tool(hang))\n"
        "work = execute(made, ToolContext(), timeout_s=0.05, on_output=print)\n"
        "print(asyncio.run(work).outcome)\n"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, "timeout"), done.stderr


# What the context tells


def test_the_context_reaches_the_tool_and_shares_its_deps():
    def look(n: int, ctx: ToolContext[dict[str, int]]) -> list[Any]:
        return [n, ctx.session_id, ctx.run_id, ctx.round, ctx.call_id, ctx.deps["a"]]

    context = ToolContext(session_id="s", run_id="s.1", round=4, call_id="c4.0", deps={"a": 7})
    assert json.loads(run(go(look, {"n": 1}, context=context)).content) == [
        1, "s", "s.1", 4, "c4.0", 7,
    ]  # fmt: skip


def test_progress_is_clamped_and_heard_in_order():
    heard = Heard()

    def slow(ctx: ToolContext) -> str:
        print("before")
        ctx.progress(0.5, "half")
        print("between")
        ctx.progress(7, "more than all")
        ctx.progress(float("nan"))
        return "done"

    run(go(slow, heard=heard))
    half = heard.pieces.index(("progress", "half", 0.5))
    before, after = heard.pieces[:half], heard.pieces[half:]
    assert "".join(text for _, text, _ in before) == "before\n"
    assert "".join(text for kind, text, _ in after if kind == "stdout") == "between\n"
    assert after[-1] == ("progress", "", 0.0)
    assert all(0 <= f <= 1 for kind, _, f in heard.pieces if kind == "progress" and f is not None)


def test_a_tool_can_be_called_by_hand_with_a_context_of_its_own():
    @tool
    def f(n: int, ctx: ToolContext) -> int:
        ctx.progress(0.1)
        return n if not ctx.cancelled else 0

    assert f(3, ToolContext()) == 3


def test_log_records_of_a_tool_carry_its_ids():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(ContextFilter())
    handler.setFormatter(logging.Formatter("%(session_id)s|%(run_id)s|%(round)s|%(call_id)s"))
    log = logging.getLogger("test_tool_execution.log")
    log.addHandler(handler)
    log.propagate = False

    def speak() -> None:
        log.warning("x")

    async def speak_async() -> None:
        log.warning("x")

    log.warning("outside")
    run(go(speak))
    run(go(speak_async, call_id="c0.1"))
    log.removeHandler(handler)
    assert stream.getvalue().split() == ["||None|", "s|s.0|3|c0.0", "s|s.0|3|c0.1"]


def test_cancelled_follows_the_runs_stop_and_its_own():
    stopping = threading.Event()
    context = ToolContext(stopped=stopping.is_set)
    seen = context.reporting_to(lambda fraction, text: None)
    assert not seen.cancelled
    stopping.set()
    assert seen.cancelled
    other = ToolContext()
    again = other.reporting_to(lambda fraction, text: None)
    other.cancel()
    assert again.cancelled


# Failures


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raiser(error: BaseException, *, on_loop: bool) -> Callable[[], Any]:
    def fails() -> None:
        raise error

    async def fails_async() -> None:
        raise error

    return fails_async if on_loop else fails


@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError (without a message)"),
        (asyncio.CancelledError(), "CancelledError (without a message)"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (StopIteration(5), "StopIteration"),
        (GeneratorExit(), "GeneratorExit"),
        (BaseException("base"), "BaseException: base"),
        (RecursionError("deep"), "RecursionError: deep"),
        (Silent(), "Silent (its message cannot be shown: RuntimeError)"),
        (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "- KeyError: 'b'"),
    ],
)
def test_whatever_a_tool_raises_is_its_own_calls_error(
    error: BaseException, words: str, on_loop: bool
):
    def fine() -> str:
        return "fine"

    async def work() -> list[ToolResult]:
        bad = go(raiser(error, on_loop=on_loop), call_id="c0.0")
        return await asyncio.gather(bad, go(fine, call_id="c0.1"))

    bad, good = run(work())
    assert (bad.id, bad.outcome, bad.is_error) == ("c0.0", "error", True)
    assert words in bad.content
    assert bad.display
    assert (good.id, good.content, good.outcome) == ("c0.1", "fine", "ok")


def test_an_async_tool_that_cancels_its_own_task():
    async def at_once() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "ended all the same"

    async def later() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    assert run(go(later)).outcome == "error"
    assert run(go(at_once)).content.startswith("CancelledError")


def test_arguments_that_the_function_itself_refuses():
    def f(n: int) -> int:
        return n

    made = dataclasses.replace(as_tool(f), function=lambda: 0)
    prepared = prepare(ToolCall("c0.0", "f", '{"n": 1}'), made)
    work = execute(prepared, ToolContext(), timeout_s=None, on_output=Heard())
    assert run(work).content.startswith("TypeError: ")


CELL = """
def divide(n: int) -> float:
    half = n / 2
    return half / 0

def parse(text: str) -> object:
    import json
    return json.loads(text)

async def late(n: int) -> None:
    import asyncio
    await asyncio.wait_for(asyncio.Event().wait(), 0.001)

def chained(n: int) -> None:
    try:
        {}["key"]
    except KeyError as error:
        raise ValueError("no such thing") from error
"""


def cell(name: str) -> dict[str, Any]:
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    scope: dict[str, Any] = {}
    exec(compile(CELL, name, "exec"), scope)
    return scope


def test_a_failure_in_a_cell_shows_the_users_own_line_first():
    name = "<ipython-input-3-abcdef>"
    display = run(go(cell(name)["divide"], {"n": 1})).display
    first, second, third = display.splitlines()[:3]
    assert first == f"{name}, line 4, in divide"
    assert second.strip() == "return half / 0"
    assert third == "ZeroDivisionError: float division by zero"


def test_a_failure_in_a_real_cell_names_the_cell_as_ipython_does():
    code = (
        "import asyncio\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from agentloop_nb.tools import as_tool, execute, prepare, ToolContext\n"
        "from agentloop_nb.messages import ToolCall\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('1')\n"
        "shell.run_cell('def f() -> int:\\n    return 1 / 0', store_history=True)\n"
        "made = as_tool(shell.user_ns['f'])\n"
        "print(made.place)\n"
        "call = prepare(ToolCall('c0.0', 'f', ''), made)\n"
        "work = execute(call, ToolContext(), timeout_s=None, on_output=print)\n"
        "print(asyncio.run(work).display)\n"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=60
    )
    lines = done.stdout.splitlines()[-4:]
    assert lines[0].startswith("Cell In["), done.stderr
    assert lines[0].endswith("], line 1")
    assert lines[1:3] == [lines[0].replace("line 1", "line 2, in f"), "    return 1 / 0"]


def test_a_failure_below_the_users_code_still_leads_with_the_users_line():
    display = run(go(cell("<ipython-input-4-abc>")["parse"], {"text": "{"})).display
    assert display.splitlines()[1].strip() == "return json.loads(text)"
    assert "decoder.py, line" in display


def test_a_failure_of_an_async_tool_shows_no_machinery():
    result = run(go(cell("<ipython-input-5-abc>")["late"], {"n": 1}))
    assert result.content.startswith("TimeoutError")
    lines = result.display.splitlines()
    assert lines[1].strip() == "await asyncio.wait_for(asyncio.Event().wait(), 0.001)"
    for machinery in ("asyncio/tasks.py", "execute.py", "threading.py"):
        assert machinery not in result.display


def test_the_chain_of_an_exception_is_told():
    result = run(go(cell("<ipython-input-6-abc>")["chained"], {"n": 1}))
    assert result.content == "ValueError: no such thing\ncaused by KeyError: 'key'"
    assert result.display.splitlines()[1].strip() == 'raise ValueError("no such thing") from error'
    assert "Caused by KeyError: 'key'" in result.display


def test_a_deep_recursion_is_told_in_a_few_lines():
    def deep(n: int) -> int:
        return deep(n + 1)

    result = run(go(deep, {"n": 0}))
    assert result.content.startswith("RecursionError")
    assert result.display is not None
    assert len(result.display.splitlines()) < 60
    assert "return deep(n + 1)" in result.display.splitlines()[1]


def test_lone_surrogates_and_notes_in_an_exception():
    def f() -> None:
        error = ValueError("\ud83c")
        error.add_note("a note")
        raise error

    result = run(go(f))
    assert result.content == "ValueError: \ufffd\na note"
    assert result.display is not None
    result.display.encode()


# Time


def test_a_timeout_ends_the_wait_and_the_late_result_is_dropped():
    free, ended = threading.Event(), threading.Event()
    flags: list[bool] = []
    heard = Heard()

    def stuck(ctx: ToolContext) -> str:
        print("early")
        free.wait(PATIENCE_S)
        flags.append(ctx.cancelled)
        print("late")
        ended.set()
        return "too late"

    async def work() -> ToolResult:
        result = await go(stuck, timeout_s=0.05, heard=heard)
        free.set()
        await heard_of(ended)
        await asyncio.sleep(0.12)
        return result

    outside = io.StringIO()
    with redirect_stdout(outside):
        result = run(work())
    assert result.outcome == "timeout"
    assert "0.05 seconds" in result.content
    assert "may still be running" in result.content
    assert flags == [True]
    assert (heard.text(), outside.getvalue()) == ("early\n", "")


def test_an_async_tool_that_times_out_is_cancelled_and_cleans_up():
    seen: list[str] = []

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned")
        return ""

    result = run(go(slow, timeout_s=0.02))
    assert result.outcome == "timeout"
    assert "was ended" in result.content
    assert seen == ["cleaned"]


def test_an_async_tool_that_refuses_to_end_does_not_hold_the_run():
    free = asyncio.Event()

    async def stubborn() -> str:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async def work() -> ToolResult:
        result = await go(stubborn, timeout_s=0.02)
        free.set()
        await asyncio.sleep(0)
        return result

    result = run(work())
    assert (result.outcome, "may still be running" in result.content) == ("timeout", True)


def test_a_tools_own_timeout_goes_before_the_agents():
    @tool(timeout_s=0.02)
    async def slow() -> str:
        await asyncio.Event().wait()
        return ""

    @tool(timeout_s=PATIENCE_S)
    async def quick() -> str:
        await asyncio.sleep(0.05)
        return "done"

    assert "0.02 seconds" in run(go(slow, timeout_s=PATIENCE_S)).content
    assert run(go(quick, timeout_s=0.01)).content == "done"


def blocks_the_loop(until: threading.Event, for_s: float) -> None:
    """What a synchronous cell does: the loop stands still, threads do not."""
    until.wait(PATIENCE_S)
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        pass


@pytest.mark.parametrize("on_loop", [False, True])
def test_a_timer_that_fires_late_first_looks_for_the_result(on_loop: bool):
    started = threading.Event()

    def plain() -> str:
        started.set()
        return "in time"

    async def several_steps() -> str:
        started.set()
        for _ in range(30):
            await asyncio.sleep(0)
        return "in time"

    async def work() -> ToolResult:
        task = asyncio.create_task(go(several_steps if on_loop else plain, timeout_s=0.1))
        while not started.is_set():
            await asyncio.sleep(0)
        blocks_the_loop(started, 0.4)
        return await task

    assert run(work()).content == "in time"


# Cancellation from outside


@pytest.mark.parametrize("on_loop", [False, True])
def test_a_cancelled_run_leaves_at_once_and_tells_the_tool(on_loop: bool):
    started, free = threading.Event(), threading.Event()
    contexts: list[ToolContext[Any]] = []

    def plain(ctx: ToolContext) -> str:
        contexts.append(ctx)
        started.set()
        free.wait(PATIENCE_S)
        return "late"

    async def waiting(ctx: ToolContext) -> str:
        contexts.append(ctx)
        started.set()
        await asyncio.Event().wait()
        return "never"

    async def work() -> float:
        task = asyncio.create_task(go(waiting if on_loop else plain))
        await heard_of(started)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    took = run(work())
    free.set()
    assert contexts[0].cancelled
    assert took < 2


def test_a_stubborn_async_tool_does_not_hold_a_cancelled_run():
    free = asyncio.Event()

    async def stubborn() -> str:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async def work() -> None:
        task = asyncio.create_task(go(stubborn))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        free.set()
        await asyncio.sleep(0)

    run(work())


# Output


def test_what_a_tool_prints_goes_to_its_call_and_to_no_cell():
    first, second = Heard(), Heard()
    gate = threading.Barrier(2, timeout=PATIENCE_S)

    def speak(word: str) -> str:
        gate.wait()
        print(word)
        print(word, "again", file=sys.stderr)
        sys.stdout.writelines([word, "\n"])
        sys.stdout.flush()
        gate.wait()
        return word

    async def work() -> None:
        await asyncio.gather(
            go(speak, {"word": "one"}, heard=first), go(speak, {"word": "two"}, heard=second)
        )

    cell_output = io.StringIO()
    with redirect_stdout(cell_output):
        run(work())
    assert (first.text(), first.text("stderr")) == ("one\none\n", "one again\n")
    assert (second.text(), second.text("stderr")) == ("two\ntwo\n", "two again\n")
    assert cell_output.getvalue() == ""


def test_what_is_printed_outside_while_a_tool_runs_goes_where_it_always_goes():
    started, free = threading.Event(), threading.Event()
    heard = Heard()

    def wait() -> str:
        print("inside")
        thread = threading.Thread(target=lambda: print("its own thread"))
        thread.start()
        thread.join()
        started.set()
        free.wait(PATIENCE_S)
        return ""

    async def work() -> None:
        task = asyncio.create_task(go(wait, heard=heard))
        await heard_of(started)
        print("another cell")
        free.set()
        await task

    cell_output = io.StringIO()
    with redirect_stdout(cell_output):
        run(work())
        assert sys.stdout is cell_output
    assert cell_output.getvalue() == "its own thread\nanother cell\n"
    assert heard.text() == "inside\n"


def test_a_stream_that_someone_put_in_place_meanwhile_is_left_alone():
    mine, theirs = io.StringIO(), io.StringIO()
    started, free = threading.Event(), threading.Event()

    def wait() -> str:
        started.set()
        free.wait(PATIENCE_S)
        return ""

    async def work() -> None:
        task = asyncio.create_task(go(wait))
        await heard_of(started)
        with redirect_stdout(theirs):
            free.set()
            await task
            assert sys.stdout is theirs
        print("after", end="")  # the stand-in that was put back passes on
        await go(lambda_tool)

    with redirect_stdout(mine):
        run(work())
        assert sys.stdout is mine
    assert mine.getvalue() == "after"


def lambda_tool() -> str:
    return "x"


def test_the_stand_in_has_what_the_stream_has():
    class Special(io.StringIO):
        def set_parent(self, parent: str) -> str:
            return f"parent {parent}"

    def look() -> list[Any]:
        stream: Any = sys.stdout
        return [stream.set_parent("p"), stream.encoding, stream.closed]

    with redirect_stdout(Special()):
        assert json.loads(run(go(look)).content) == ["parent p", None, False]


def test_a_task_left_behind_prints_to_the_cell_once_its_call_is_over():
    heard, cell_output = Heard(), io.StringIO()
    later = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def background() -> None:
        print("during")
        await later.wait()
        print("after")

    async def spawn() -> str:
        tasks.append(asyncio.create_task(background()))
        await asyncio.sleep(0)
        return "spawned"

    async def work() -> None:
        await go(spawn, heard=heard)
        later.set()
        await tasks[0]

    with redirect_stdout(cell_output):
        run(work())
    assert (heard.text(), cell_output.getvalue()) == ("during\n", "after\n")


def test_a_flood_of_prints_is_merged_complete_and_in_order():
    heard = Heard()

    def flood() -> None:
        for i in range(20_000):
            print(i)

    run(go(flood, heard=heard))
    assert heard.text() == "".join(f"{i}\n" for i in range(20_000))
    assert len(heard.pieces) < 1000


def test_what_one_call_may_print_has_an_end():
    heard = Heard()

    def flood() -> None:
        for _ in range(30):
            print("x" * 100_000)

    run(go(flood, heard=heard))
    assert heard.text().startswith("x" * 100_000)
    assert len(heard.text().partition("\n[more")[0]) == MAX_OUTPUT_CHARS
    assert heard.text().count("cut here") == 1


def test_exactly_as_much_as_may_be_printed_is_not_cut():
    heard = Heard()

    def much() -> None:
        sys.stdout.write("x" * MAX_OUTPUT_CHARS)

    run(go(much, heard=heard))
    assert heard.text() == "x" * MAX_OUTPUT_CHARS


@pytest.mark.parametrize(
    "ask",
    [
        lambda: input("Really? "),
        lambda: sys.stdin.readline(),
        lambda: sys.stdin.read(),
        lambda: sys.stdin.readlines(),
        lambda: next(iter(sys.stdin)),
    ],
)
def test_input_is_refused_with_what_to_do(ask: Callable[[], object]):
    def tool_that_asks() -> str:
        return str(ask())

    async def async_tool_that_asks() -> str:
        return str(ask())

    for function in (tool_that_asks, async_tool_that_asks):
        result = run(go(function))
        assert result.outcome == "error"
        assert "cannot read input()" in result.content
        assert 'approval="required"' in result.content


def test_input_outside_a_tool_still_works_while_one_runs(monkeypatch: pytest.MonkeyPatch):
    started, free = threading.Event(), threading.Event()

    def wait() -> str:
        started.set()
        free.wait(PATIENCE_S)
        return ""

    async def work() -> list[Any]:
        task = asyncio.create_task(go(wait))
        await heard_of(started)
        typed = [input("?"), sys.stdin.readline(), next(iter(sys.stdin)), sys.stdin.read()]
        free.set()
        await task
        return typed

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "input", lambda prompt="": f"typed after {prompt}")
        patch.setattr(sys, "stdin", io.StringIO("a line\nanother\nmore\n"))
        assert run(work()) == ["typed after ?", "a line\n", "another\n", "more\n"]


# Results


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: float
    colour: Colour = Colour.RED


class Person(BaseModel):
    name: str


class Array:
    """What numpy's and pandas' values can do, as far as we ask it."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def tolist(self) -> Any:
        return self.values


class Table(Array):
    shape = (3, 2)

    def to_string(self, max_rows: int) -> str:
        return f"a table of at most {max_rows} rows"


class Drawn:
    def _repr_png_(self) -> bytes:
        return PNG


class Titled:
    def _repr_markdown_(self) -> str:
        return "# Title"


class Broken:
    def __repr__(self) -> str:
        raise ValueError("no repr")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text\n", "text\n"),
        ("", "(empty text)"),
        (" \n", "(empty text)"),
        ("a\ud83cb", "a\ufffdb"),
        ("\ud83c\udf78", "🍸"),
        (None, "(no result)"),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        ({"a": float("nan"), "b": [float("inf"), -float("inf")]},
         '{"a": "NaN", "b": ["Infinity", "-Infinity"]}'),
        ({"a": "\ud83c", 1: None, Colour.RED: (1, 2)}, '{"a": "\ufffd", "1": null, "red": [1, 2]}'),
        (Point(1.0), '{"x": 1.0, "colour": "red"}'),
        ([Person(name="é")], '[{"name": "é"}]'),
        ({3, 1, 2}, "[1, 2, 3]"),
        (deque([1]), "deque([1])"),
        (Path("a/b"), str(Path("a/b"))),
        (b"plain", "plain"),
        (b"\xff\x00", "(2 bytes, beginning ff 00)"),
        (object(), "(a object object)"),
        (Titled(), "# Title"),
        (Colour.RED, "red"),
        ({"s": Array([1, float("nan")]), "n": Array(1.5)}, '{"s": [1, "NaN"], "n": 1.5}'),
        (Table([]), "a table of at most 100 rows"),
        ({"t": Table([])}, '{"t": "a table of at most 100 rows"}'),
        ((i for i in range(3)), "[0, 1, 2]"),
        (ValueError("as a value"), "ValueError: as a value"),
        (int, "int"),
    ],
)  # fmt: skip
def test_results_become_text_that_any_provider_takes(value: object, content: str):
    made = normalise(value)
    assert made.content == content
    assert made.outcome == "ok"
    made.content.encode()


def test_a_result_that_cannot_be_shown_is_described():
    words = normalise(Broken()).content
    assert words == "(a Broken object that cannot be shown: ValueError: no repr)"
    assert "cannot be shown" in normalise({"a": Broken()}).content


def test_a_result_that_holds_itself():
    loop: list[Any] = [1]
    loop.append(loop)
    assert normalise(loop).content == '[1, "(a list inside itself)"]'
    twice = [1]
    assert normalise([twice, twice]).content == "[[1], [1]]"


def test_an_endless_iterator_is_cut():
    def endless() -> Any:
        while True:
            yield 0

    assert "only the first 100000 items" in normalise(endless()).content


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0abc", "image/jpeg"),
        (b"GIF89a...", "image/gif"),
        (b"RIFF....WEBPVP8 ", "image/webp"),
    ],
)
def test_image_bytes_become_images(data: bytes, kind: str):
    made = normalise(data)
    assert made.images == (Image(kind, base64.b64encode(data).decode()),)
    assert made.content == f"(image 1: {kind})"


def test_figures_and_images_inside_other_values_are_found():
    made = normalise({"text": "see", "plots": [Drawn(), bytearray(PNG)]})
    assert [image.media_type for image in made.images] == ["image/png"] * 2
    assert json.loads(made.content) == {
        "text": "see", "plots": ["(image 1: image/png)", "(image 2: image/png)"],
    }  # fmt: skip


def test_an_image_that_is_too_large_is_described():
    exact = PNG + b"\0" * (MAX_IMAGE_BYTES - len(PNG))
    assert len(normalise(exact).images) == 1
    larger = normalise(exact + b"\0")
    assert larger.images == ()
    assert "too large" in larger.content


@pytest.mark.parametrize("length", [11_999, 12_000, 12_001, 5_000_000])
def test_a_long_result_keeps_head_and_tail_and_says_what_is_missing(length: int):
    text = "".join(chr(97 + i % 26) for i in range(length))
    cut = limit(text, 12_000)
    if length <= 12_000:
        assert cut == text
        return
    assert len(cut) <= 12_000
    head, marker, tail = cut.partition("\n[… ")[0], cut.split("… ")[1], cut.rpartition("…]\n")[2]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert min(len(head), len(tail)) > 3000
    assert int(marker.split()[0]) == length - len(head) - len(tail)


def test_no_limit_and_a_tiny_one():
    assert limit("x" * 100, None) == "x" * 100
    assert limit("x" * 100, 10) == "x" * 10


def test_the_limit_holds_for_errors_and_their_display_too():
    def f() -> None:
        raise ValueError("x" * 100_000)

    result = run(go(f, max_chars=1000))
    assert len(result.content) <= 1000
    assert "characters are missing" in result.content
    assert result.display is not None
    assert len(result.display) <= 1000
