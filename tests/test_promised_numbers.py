"""The numbers that the design promises about models and their failures, each at one less, itself,
and one more: through `Agent`, over HTTP, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentloop_nb import Agent, Limits, UsageError, resilience
from agentloop_nb.closing import MOST_PAUSES
from agentloop_nb.events import CircuitEvent, QuestionEvent, RetryEvent, ToolRunning
from agentloop_nb.inbox import RetryNow
from agentloop_nb.messages import Message, ToolCall, ToolResult, user
from agentloop_nb.models.anthropic import MAX_TOKENS, AnthropicModel
from agentloop_nb.models.base import Request
from agentloop_nb.models.retry_after import LONGEST_S as LONGEST_ASKED_S
from agentloop_nb.questions import ApprovalItem
from agentloop_nb.resilience import LONGEST_S, RATE_BASE_S, SHORT_BASE_S
from agentloop_nb.run import Result, Run
from tests.clocks import TestClock
from tests.loopback import Loopback, call, hold, raw, refuse, reply, say
from tests.streams import anthropic, block, model_of, said

LIMIT_S = 30.0  # real time; what is waited for takes milliseconds
ANSWER = reply("Hello.")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> TestClock:
    clock = TestClock()
    monkeypatch.setattr(resilience, "clock", clock)
    monkeypatch.setattr(random, "random", lambda: 0.0)  # no jitter: pauses at their longest
    return clock


def play(
    script: list[Any], *, limits: Limits | None = None, **options: Any
) -> tuple[Result, Run, int]:
    """A run over these answers, and how many requests the server counted."""

    async def go(server: Loopback) -> Run:
        model = model_of(options.pop("provider", "anthropic"), server, **options)
        run = Agent(model, limits=limits or Limits()).start("Hi")
        async with asyncio.timeout(LIMIT_S):
            await run
        return run

    resilience.forget()
    with Loopback(script) as server:
        run = asyncio.run(go(server))
        assert run.result is not None
        return run.result, run, len(server.requests)


def opened(run: Run) -> bool:
    return any(isinstance(e, CircuitEvent) and e.state == "open" for e in run.events)


# -- circuit_open_threshold = 5, and the one probe after it


@pytest.mark.parametrize(
    ("failures", "opens", "ends"),
    [
        (4, False, "end_turn"),
        (5, True, "end_turn"),
        (6, True, "circuit_breaker"),
    ],
)
def test_five_failures_open_the_circuit_and_the_sixth_ends_the_run(
    failures: int, opens: bool, ends: str, clock: TestClock
) -> None:
    result, run, requests = play([*[refuse(500)] * failures, ANSWER])
    assert (opened(run), result.exit_reason) == (opens, ends)
    assert requests == min(failures + 1, 6)


@pytest.mark.parametrize("threshold", [1, 2, 3])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_another_threshold_holds_as_exactly(threshold: int, off: int, clock: TestClock) -> None:
    failures = threshold + off
    limits = Limits(circuit_open_threshold=threshold)
    result, run, _ = play([*[refuse(500)] * failures, ANSWER], limits=limits)
    assert opened(run) is (failures >= threshold)
    assert result.exit_reason == ("circuit_breaker" if failures > threshold else "end_turn")


# -- circuit_open_wait_ms = 60 000


@pytest.mark.parametrize(
    ("waited_ms", "goes_on"), [(59_999, False), (60_000, True), (60_001, True)]
)
def test_the_circuit_stays_open_for_sixty_seconds(
    waited_ms: int, goes_on: bool, clock: TestClock
) -> None:
    async def go(server: Loopback) -> str:
        run = Agent(model_of("anthropic", server)).start("Hi")
        async for event in run:
            if isinstance(event, RetryEvent) and event.attempt == 4:
                clock.auto = False
            if isinstance(event, CircuitEvent):
                break
        await clock.asleep(1)
        clock.advance(waited_ms / 1000)
        if not goes_on:
            await asyncio.sleep(0)
            assert len(server.requests) == 5
            run.stop()
        async with asyncio.timeout(LIMIT_S):
            return (await run).exit_reason.value

    with Loopback([*[refuse(500)] * 5, ANSWER]) as server:
        assert asyncio.run(go(server)) == ("end_turn" if goes_on else "user_cancel")
        assert len(server.requests) == (6 if goes_on else 5)


# -- max_attempts: None by default


@pytest.mark.parametrize(
    ("failures", "ends"), [(1, "end_turn"), (2, "end_turn"), (3, "fatal_error")]
)
def test_three_attempts_are_three_requests(failures: int, ends: str, clock: TestClock) -> None:
    result, _, requests = play([*[refuse(500)] * failures, ANSWER], limits=Limits(max_attempts=3))
    assert (result.exit_reason, requests) == (ends, min(failures + 1, 3))


# -- pauses: from 1 s and from 0.5 s, doubling, the first of a timeout at once, none over 30 s


@pytest.mark.parametrize(
    ("status", "pauses"),
    [
        (429, [RATE_BASE_S * 2**n for n in range(4)]),
        (500, [SHORT_BASE_S * 2**n for n in range(4)]),
        (529, [SHORT_BASE_S * 2**n for n in range(3)]),
        (408, [SHORT_BASE_S * 2**n for n in range(3)]),
    ],
)
def test_pauses_double_from_their_first(status: int, pauses: list[float], clock: TestClock) -> None:
    play([*[refuse(status)] * 5, ANSWER])
    assert clock.waits == [*pauses, 60.0]


@pytest.mark.parametrize("failures", [5, 6, 7, 8])
def test_no_pause_of_our_own_is_longer_than_thirty_seconds(failures: int, clock: TestClock) -> None:
    play([*[refuse(429)] * failures, ANSWER], limits=Limits(circuit_open_threshold=None))
    assert clock.waits[-1] == min(RATE_BASE_S * 2 ** (failures - 1), LONGEST_S)
    assert LONGEST_S == 30.0


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_what_a_provider_asks_for_is_obeyed_up_to_a_limit(off: int, clock: TestClock) -> None:
    asked = LONGEST_ASKED_S + off
    play([refuse(429, headers={"retry-after": f"{asked:g}"}), ANSWER])
    assert clock.waits == [min(asked, LONGEST_ASKED_S)]


# -- stream_timeout_s = 300, on a loop whose clock the test moves


class MovedLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


@contextmanager
def moved_loop() -> Iterator[Callable[[Any], Any]]:
    with asyncio.Runner(loop_factory=MovedLoop) as runner:
        yield runner.run


@pytest.mark.parametrize(
    ("silent_s", "ends"), [(299, "end_turn"), (300, "fatal_error"), (301, "fatal_error")]
)
@pytest.mark.parametrize("place", ["headers", "stream"])
def test_a_stream_may_be_silent_for_three_hundred_seconds(
    silent_s: float, ends: str, place: str, clock: TestClock
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def before_the_headers(body: dict[str, Any]) -> Any:
        asked.set()
        answer.wait(LIMIT_S)
        return ANSWER

    async def go(server: Loopback) -> Result:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MovedLoop)
        began = loop.time()
        run = Agent(model_of("anthropic", server), limits=Limits(max_attempts=1)).start("Hi")
        if place == "headers":
            assert await asyncio.to_thread(asked.wait, LIMIT_S)
        else:
            async for event in run:
                if event.type == "text_delta":
                    break
        # The silence began after the run did and before now: so it is at most, or at least, this.
        loop.ahead += silent_s - (loop.time() - began if silent_s < 300 else 0.0)
        if silent_s < 300:
            for _ in range(5):  # what is due fires in the loop's next turns
                await asyncio.sleep(0)
            answer.set()
            server.release("silence")
        async with asyncio.timeout_at(loop.time() + LIMIT_S):
            result = await run
        answer.set()
        return result

    script: Any = [reply(say("Hel", hold("silence"), "lo"))]
    if place == "headers":
        script = before_the_headers
    with Loopback(script) as server, moved_loop() as run:
        result = run(go(server))
    assert result.exit_reason == ends
    if ends == "fatal_error":
        assert "sent nothing for 300 seconds" in str(result.error)
    assert Limits().stream_timeout_s == 300


# -- what else has a number


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_paused_reply_is_gone_on_with_eight_times_in_a_row(off: int) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    paused = raw(*anthropic(*said(0, "Hm."), *block(1, search), stop="pause_turn"))
    result, _, requests = play([*[paused] * (MOST_PAUSES + off), ANSWER])
    goes_on = off <= 0
    assert result.exit_reason == ("end_turn" if goes_on else "no_tool_calls")
    assert requests == (MOST_PAUSES + off + 1 if goes_on else MOST_PAUSES + 1)
    assert MOST_PAUSES == 8


@pytest.mark.parametrize(("budget", "taken"), [(1023, False), (1024, True), (1025, True)])
def test_a_thinking_budget_is_at_least_1024_tokens(budget: int, taken: bool) -> None:
    if not taken:
        with pytest.raises(UsageError, match="at least 1024"):
            AnthropicModel("m", thinking_budget=budget)
        return
    result, _, _ = play([ANSWER], thinking_budget=budget)
    assert result.exit_reason == "end_turn"


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_thinking_budget_is_less_than_the_longest_reply(off: int) -> None:
    if off >= 0:
        with pytest.raises(UsageError, match=f"less than max_tokens, which is {MAX_TOKENS}"):
            AnthropicModel("m", thinking_budget=MAX_TOKENS + off)
        return
    result, _, _ = play([ANSWER], thinking_budget=MAX_TOKENS + off)
    assert result.exit_reason == "end_turn"


@pytest.mark.parametrize(
    ("provider", "longest"), [("openai-chat", 40), ("openai", 64), ("anthropic", 64)]
)
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_an_id_of_a_call_is_sent_back_as_it_came_up_to_a_length(
    provider: str, longest: int, off: int
) -> None:
    id = "x" * (longest + off)

    def look() -> str:
        """Look."""
        return "seen"

    async def go(server: Loopback) -> Result:
        return await Agent(model_of(provider, server), tools=[look]).run("Hi")

    with Loopback([reply(call("look", {}, id)), ANSWER]) as server:
        assert asyncio.run(go(server)).exit_reason == "end_turn"
        assert not server.complaints
        assert (id in str(server.last.body)) is (off <= 0)


@pytest.mark.parametrize("calls", [10, 11, 12])
def test_short_ids_stay_nine_letters_and_apart(calls: int) -> None:
    history = [user("Hi")]
    for n in range(calls):
        made = ToolCall("c0.0", "look", "{}")
        history += [
            Message("assistant", (made,), "anthropic"),
            Message("tool", (ToolResult("c0.0", "look", str(n)),)),
        ]
    with Loopback([]) as server:
        model = model_of("openai-chat", server, quirks={"short_ids"})
        sent = model.encode(Request("", tuple(history)))["messages"]
    ids = [m["tool_call_id"] for m in sent if m["role"] == "tool"]
    assert len(set(ids)) == calls
    assert {len(id) for id in ids} == {9}


def test_try_now_does_not_wait_for_any_of_it(clock: TestClock) -> None:
    async def go(server: Loopback) -> str:
        clock.auto = False
        run = Agent(model_of("anthropic", server)).start("Hi")
        await clock.asleep(1)
        run.inbox.post(RetryNow(), lambda ok, why: None)
        async with asyncio.timeout(LIMIT_S):
            return (await run).text

    with Loopback([refuse(500), ANSWER]) as server:
        assert asyncio.run(go(server)) == "Hello."
    assert not any(math.isinf(wait) for wait in clock.waits)


# -- governance: soft_max_rounds = 16, hard_max_rounds = 18, max_identical_calls = 3,
# -- interactions_per_round = 1


def counted(script: list[Any], tools: list[Any], **options: Any) -> tuple[Result, Run, int]:
    """A run with tools over these answers, and how many requests the server counted."""

    async def go(server: Loopback) -> Run:
        run = Agent(model_of("anthropic", server), tools=tools, **options).start("Hi")
        async with asyncio.timeout(LIMIT_S):
            await run
        return run

    with Loopback(script) as server:
        run = asyncio.run(go(server))
        assert run.result is not None
        assert not server.complaints
        return run.result, run, len(server.requests)


def look(n: int) -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize(
    ("rounds", "ran", "ends"),
    [
        (15, 15, "end_turn"),
        (16, 16, "end_turn"),
        (17, 16, "end_turn"),
        (18, 16, "end_turn"),
        (19, 16, "max_rounds"),
        (20, 16, "max_rounds"),
    ],
)
def test_tool_rounds_run_up_to_sixteen_and_end_the_run_in_the_nineteenth(
    rounds: int, ran: int, ends: str, clock: TestClock
) -> None:
    script = [reply(call("look", {"n": n})) for n in range(rounds)]
    result, run, requests = counted([*script, ANSWER], [look])
    assert result.exit_reason == ends
    assert sum(isinstance(event, ToolRunning) for event in run.events) == ran
    assert requests == min(rounds + 1, 19)
    guarded = run.counters["chat.tool.loop"]
    assert guarded.get("wrap-up", 0) == min(max(rounds - 16, 0), 2)
    assert guarded.get("hard-stop", 0) == (1 if rounds > 18 else 0)


@pytest.mark.parametrize(("times", "ran"), [(2, 2), (3, 3), (4, 3)])
def test_an_identical_call_runs_three_times(times: int, ran: int, clock: TestClock) -> None:
    script = [reply(call("look", {"n": 1}))] * times
    result, run, _ = counted([*script, ANSWER], [look])
    assert result.exit_reason == "end_turn"
    assert sum(isinstance(event, ToolRunning) for event in run.events) == ran
    assert run.counters["chat.tool.loop"].get("repeated", 0) == times - ran


class AsksFirst:
    """A user's interceptor that opens so many dialogs before its calls pass on."""

    fail_closed = False

    def __init__(self, dialogs: int) -> None:
        self.dialogs = dialogs
        self.opened = 0

    async def claim(self, calls: Any, view: Any) -> dict[str, Any]:
        for prepared in calls[: self.dialogs]:
            if view.turn.may_ask():
                await view.ask([ApprovalItem(prepared.call.id, "look", (), prepared.fingerprint)])
                self.opened += 1
        return {}


@pytest.mark.parametrize("wanted", [0, 1, 2])
@pytest.mark.parametrize("most", [1, 2])
def test_a_round_opens_as_many_dialogs_as_it_may(wanted: int, most: int, clock: TestClock) -> None:
    asks = AsksFirst(wanted)
    script = [reply(*(call("look", {"n": n}) for n in range(3))), ANSWER]
    result, run, _ = counted(
        script,
        [look],
        interceptors=[asks],
        on_question=lambda question: True,
        limits=Limits(interactions_per_round=most),
    )
    assert result.exit_reason == "end_turn"
    asked = sum(isinstance(event, QuestionEvent) for event in run.events)
    assert asked == asks.opened == min(wanted, most)
    assert Limits().interactions_per_round == 1
