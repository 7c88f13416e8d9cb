"""A provider that misbehaves, over real HTTP and on a test clock: what is tried again, how often,
what a dead try leaves, the circuit breaker, and Stop in each of its states."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from agentloop_nb import Agent, Limits, OfflineModel, resilience
from agentloop_nb.asking import Asker
from agentloop_nb.codec import page_json
from agentloop_nb.errors import ProviderError, ProviderErrorKind
from agentloop_nb.events import AttemptDiscarded, CircuitEvent, RetryEvent
from agentloop_nb.inbox import RetryNow
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from agentloop_nb.models.retry_after import LONGEST_S, wait_asked
from agentloop_nb.resilience import Permit
from agentloop_nb.run import Run
from agentloop_nb.viewstate import fold, initial
from tests.clocks import TestClock
from tests.loopback import Loopback, call, cut, fail, hold, refuse, reply, say

ADAPTERS: dict[str, Any] = {
    "anthropic": AnthropicModel,
    "openai": OpenAIModel,
    "openai-chat": OpenAIChatModel,
}
each_provider = pytest.mark.parametrize("provider", ADAPTERS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> TestClock:
    clock = TestClock()
    monkeypatch.setattr(resilience, "clock", clock)
    return clock


def agent_of(provider: str, server: Loopback, **options: Any) -> Agent[Any]:
    model = ADAPTERS[provider]("model-test", base_url=server.base_url, api_key="test")
    return Agent(model, **options)


def long_waits(clock: TestClock) -> int:
    """How often a circuit was waited for: no pause of our own choosing is so long."""
    return sum(round(wait, 6) == 60.0 for wait in clock.waits)


def of_kind(run: Run, kind: type) -> list[Any]:
    return [event for event in run.events if isinstance(event, kind)]


def shown(run: Run) -> list[dict[str, Any]]:
    """The items of the view."""
    state = initial()
    for event in run.events:
        state = fold(state, page_json(event, whole=False))
    return [item for shown in state["turns"][-1]["rounds"] for item in shown["items"]]


# -- what is tried again


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
@each_provider
def test_a_failure_that_may_pass_is_tried_again(
    provider: str, status: int, clock: TestClock
) -> None:
    with Loopback([refuse(status), reply("Hello.")]) as server:
        result = agent_of(provider, server).run_sync("Hi")
        assert len(server.requests) == 2
    assert (result.exit_reason, result.text) == ("end_turn", "Hello.")


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
@each_provider
def test_a_failure_that_will_not_pass_ends_the_run_at_once(
    provider: str, status: int, clock: TestClock
) -> None:
    with Loopback([refuse(status), reply("Never sent.")]) as server:
        result = agent_of(provider, server).run_sync("Hi")
        assert len(server.requests) == 1
    assert result.exit_reason == "fatal_error"
    assert clock.waits == []


def test_a_spent_quota_is_one_request_and_a_clear_word(clock: TestClock) -> None:
    body = {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota."}}
    with Loopback([refuse(429, body=body), reply("Never sent.")]) as server:
        result = agent_of("openai", server).run_sync("Hi")
        assert len(server.requests) == 1
    assert result.exit_reason == "fatal_error"
    assert "credit and plan" in str(result.error)


def test_a_conversation_that_is_too_long_has_an_exit_reason_of_its_own(clock: TestClock) -> None:
    body = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"},
    }
    with Loopback([refuse(400, body=body)]) as server:
        result = agent_of("anthropic", server).run_sync("Hi")
        assert len(server.requests) == 1
    assert result.exit_reason == "context_overflow"


@pytest.mark.parametrize("tries", [1, 2, 3])
def test_no_call_is_tried_more_often_than_max_attempts(tries: int, clock: TestClock) -> None:
    with Loopback([refuse(500)] * 9) as server:
        limits = Limits(max_attempts=tries)
        result = agent_of("anthropic", server, limits=limits).run_sync("Hi")
        assert len(server.requests) == tries
    assert result.exit_reason == "fatal_error"


# -- what a dead try leaves

BREAKS = {
    "the connection breaks": cut(),
    "the body ends early": cut(clean=True),
    "the server says that it is overloaded": fail("overloaded_error"),
}


@pytest.mark.parametrize("how", BREAKS)
@each_provider
def test_a_retry_after_half_a_word_shows_the_whole_word_once(
    provider: str, how: str, clock: TestClock
) -> None:
    async def go(server: Loopback) -> Run:
        run = agent_of(provider, server).start("Hi")
        await run
        return run

    with Loopback([reply(say("Hel", BREAKS[how])), reply(say("Hel", "lo"))]) as server:
        run = asyncio.run(go(server))
        assert len(server.requests) == 2
    assert run.result is not None
    assert run.result.text == "Hello"
    assert len(run.result.messages) == 2
    assert [e.attempt for e in of_kind(run, AttemptDiscarded)] == [0]
    assert [item["text"] for item in shown(run) if item["kind"] == "text"] == ["Hello"]


@each_provider
def test_a_dead_try_leaves_no_phantom_call(provider: str, clock: TestClock) -> None:
    ran: list[str] = []

    def touch(path: str) -> str:
        """Touch a file."""
        ran.append(path)
        return "done"

    async def go(server: Loopback) -> Run:
        run = agent_of(provider, server, tools=[touch]).start("Hi")
        await run
        return run

    dead = reply(say("One. "), call("touch", ['{"path": "a', cut()]))
    whole = reply(say("Two. "), call("touch", {"path": "b"}))
    with Loopback([dead, whole, reply("Done.")]) as server:
        run = asyncio.run(go(server))
        assert not server.complaints
    assert ran == ["b"]
    calls = [item for item in shown(run) if item["kind"] == "call"]
    assert [(item["state"], item["input"]) for item in calls] == [("ok", {"path": "b"})]


# -- the pauses


@pytest.mark.parametrize(
    ("kind", "pauses"),
    [
        ("rate_limit", [1, 2, 4, 8, 16, 30, 30]),
        ("server", [0.5, 1, 2, 4, 8, 16, 30]),
        ("connection", [0.5, 1, 2]),
        ("timeout", [0, 0.5, 1, 2]),
        ("overloaded", [0, 0.5, 1, 2]),
    ],
)
def test_pauses_grow_and_jitter_takes_up_to_half(
    kind: ProviderErrorKind, pauses: list[float]
) -> None:
    error = ProviderError("x", kind=kind)
    tries = range(1, len(pauses) + 1)
    assert [resilience.pause_s(error, n, chance=0) for n in tries] == pauses
    assert [resilience.pause_s(error, n, chance=1) for n in tries] == [p / 2 for p in pauses]
    for n in tries:
        assert pauses[n - 1] / 2 <= resilience.pause_s(error, n) <= pauses[n - 1]


NOW = 1_790_000_000.0


def http_date(seconds: float) -> str:
    return format_datetime(datetime.fromtimestamp(NOW + seconds, UTC), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "999999"}, LONGEST_S),
        ({"retry-after": http_date(-100)}, 0),
        ({"retry-after": http_date(20)}, 20),
        ({"retry-after": http_date(9999)}, LONGEST_S),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}, LONGEST_S),
        ({"x-ratelimit-reset-tokens": "1s", "x-ratelimit-remaining-tokens": "0"}, 1),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-remaining-requests": "0"}, 0.02),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "7"}, None),
        (
            {
                "anthropic-ratelimit-tokens-reset": "2026-09-21T14:13:30Z",
                "anthropic-ratelimit-tokens-remaining": "0",
            },
            10,
        ),
        ({"x-ratelimit-reset-tokens": "later", "x-ratelimit-remaining-tokens": "0"}, None),
    ],
)
def test_what_a_provider_asks_for_is_read_and_clamped(
    headers: dict[str, str], wait: float | None
) -> None:
    found = wait_asked(headers, NOW)
    assert (None if found is None else round(found, 3)) == wait


@each_provider
def test_a_run_waits_as_long_as_the_provider_asks(provider: str, clock: TestClock) -> None:
    with Loopback([refuse(429, headers={"retry-after": "7"}), reply("Hello.")]) as server:
        assert agent_of(provider, server).run_sync("Hi").text == "Hello."
    assert clock.waits == [7.0]


# -- the circuit breaker


@pytest.mark.parametrize("status", [429, 500, 529])
@each_provider
def test_a_server_that_always_fails_sees_six_requests(
    provider: str, status: int, clock: TestClock
) -> None:
    async def go(server: Loopback) -> Run:
        run = agent_of(provider, server).start("Hi")
        await run
        return run

    with Loopback([refuse(status)] * 50) as server:
        run = asyncio.run(go(server))
        assert len(server.requests) == 6
    assert run.result is not None
    assert run.result.exit_reason == "circuit_breaker"
    assert "failed 6 times in a row" in str(run.result.error)
    assert [e.state for e in of_kind(run, CircuitEvent)] == ["open", "probe"]
    assert len(of_kind(run, RetryEvent)) == 5
    assert long_waits(clock) == 1


@pytest.mark.parametrize(("failures", "opens"), [(4, False), (5, True)])
def test_the_fifth_failure_in_a_row_opens_the_circuit(
    failures: int, opens: bool, clock: TestClock
) -> None:
    with Loopback([*[refuse(500)] * failures, reply("Hello.")]) as server:
        result = agent_of("anthropic", server).run_sync("Hi")
    assert result.text == "Hello."
    assert long_waits(clock) == int(opens)


def test_a_success_begins_the_count_anew(clock: TestClock) -> None:
    script = [*[refuse(500)] * 4, reply("One."), *[refuse(500)] * 4, reply("Two.")]
    with Loopback(script) as server:
        agent = agent_of("anthropic", server)
        assert [agent.run_sync("Hi").text for _ in range(2)] == ["One.", "Two."]
    assert long_waits(clock) == 0


def test_failures_that_will_not_pass_count_for_nothing(clock: TestClock) -> None:
    with Loopback([refuse(401)] * 9 + [reply("Hello.")]) as server:
        agent = agent_of("anthropic", server)
        for _ in range(9):
            assert agent.run_sync("Hi").exit_reason == "fatal_error"
        assert agent.run_sync("Hi").text == "Hello."
    assert clock.waits == []


async def opened(server: Loopback, clock: TestClock) -> Run:
    """A run that has failed five times and waits for the circuit."""
    clock.auto = True
    run = agent_of("anthropic", server).start("Hi")
    async for event in run:
        if isinstance(event, RetryEvent) and event.attempt == 4:
            clock.auto = False
        if isinstance(event, CircuitEvent):
            break
    await clock.asleep(1)
    return run


@pytest.mark.parametrize("heals", [True, False])
def test_of_two_runs_that_wait_one_probes(heals: bool, clock: TestClock) -> None:
    async def go(server: Loopback) -> list[str]:
        first = await opened(server, clock)
        second = agent_of("anthropic", server).start("Hi too")
        await clock.asleep(2)
        assert len(server.requests) == 5
        clock.advance(59.999)
        await asyncio.sleep(0)
        assert len(server.requests) == 5
        clock.advance(0.002)
        async with asyncio.timeout(20):
            return [(await run).exit_reason for run in (first, second)]

    last = [reply("Hello."), reply("Hello.")] if heals else [refuse(500)] * 20
    with Loopback([*[refuse(500)] * 5, *last]) as server:
        reasons = asyncio.run(go(server))
        assert len(server.requests) == (7 if heals else 6)
    assert reasons == (["end_turn"] * 2 if heals else ["circuit_breaker"] * 2)


def test_try_now_ends_the_wait_for_the_circuit(clock: TestClock) -> None:
    async def go(server: Loopback) -> str:
        run = await opened(server, clock)
        heard: list[tuple[bool, str]] = []
        run.inbox.post(RetryNow(), lambda ok, why: heard.append((ok, why)))
        async with asyncio.timeout(20):
            result = await run
        assert heard == [(True, "")]
        run.inbox.post(RetryNow(), lambda ok, why: heard.append((ok, why)))
        assert heard[1][0] is False
        return result.text

    with Loopback([*[refuse(500)] * 5, reply("Hello.")]) as server:
        assert asyncio.run(go(server)) == "Hello."
        assert len(server.requests) == 6


def test_stop_is_instant_in_a_pause_an_open_circuit_and_a_probe(clock: TestClock) -> None:
    async def stopped(run: Run) -> None:
        run.stop()
        async with asyncio.timeout(20):
            assert (await run).exit_reason == "user_cancel"

    async def go(server: Loopback) -> None:
        clock.auto = False
        run = agent_of("anthropic", server).start("Hi")
        await clock.asleep(1)  # in the pause after its first failure
        await stopped(run)
        assert len(server.requests) == 1
        resilience.forget()

        await stopped(await opened(server, clock))
        assert len(server.requests) == 6
        resilience.forget()

        run = await opened(server, clock)
        clock.advance(61)
        async for event in run:
            if isinstance(event, CircuitEvent) and event.state == "probe":
                break
        await stopped(run)
        # The probe's place is free again.
        async with asyncio.timeout(20):
            assert (await agent_of("anthropic", server).run("Hi")).text == "Hello."

    held = reply(say("Hm", hold("never")))
    script = [refuse(500), *[refuse(500)] * 5, *[refuse(500)] * 5]
    answers = iter([*script, held])

    def answer(body: dict[str, Any]) -> Any:
        return next(answers, reply("Hello."))

    with Loopback(answer) as server:
        asyncio.run(go(server))


def test_try_now_is_told_where_nothing_waits() -> None:
    async def go(server: Loopback) -> tuple[bool, str]:
        run = agent_of("anthropic", server).start("Hi")
        heard: list[tuple[bool, str]] = []
        async for event in run:
            if event.type == "text_delta":
                run.inbox.post(RetryNow(), lambda ok, why: heard.append((ok, why)))
                server.release("go")
        await run
        return heard[0]

    with Loopback([reply(say("Hel", hold("go"), "lo"))]) as server:
        ok, why = asyncio.run(go(server))
    assert not ok
    assert "not waiting" in why


# -- runs beside each other


def test_what_other_runs_hear_ends_no_pause_of_this_one(clock: TestClock) -> None:
    """Each failure and each success of one run is no reason for another to ask before its time."""
    clock.auto = False
    answers: dict[str, list[Any]] = {"slow": [], "quick": []}

    def script(body: dict[str, Any]) -> Any:
        who = "slow" if "slow" in str(body["messages"]) else "quick"
        answers[who].append(clock.time)
        first = who == "slow" and len(answers[who]) == 1
        return refuse(429, headers={"retry-after": "8"}) if first else reply("Hello.")

    async def go(server: Loopback) -> None:
        slow = agent_of("openai-chat", server).start("slow")
        await clock.asleep(1)
        for _ in range(3):
            assert (await agent_of("openai-chat", server).run("quick")).text == "Hello."
        clock.advance(7.9)
        await asyncio.sleep(0)
        assert len(answers["slow"]) == 1
        clock.advance(0.2)
        async with asyncio.timeout(20):
            assert (await slow).text == "Hello."

    with Loopback(script) as server:
        asyncio.run(go(server))
    assert [round(t - 1000, 3) for t in answers["slow"]] == [0.0, 8.1]


def test_a_probe_that_ends_while_a_run_begins_to_wait_for_it_is_heard() -> None:
    async def go() -> None:
        asker = Asker(OfflineModel(["x"]), Limits(), lambda event: event)
        breaker = asker._breaker
        breaker.failed(Permit.GO, 0.0, 1, 0.0)
        assert breaker.enter(1.0) is Permit.PROBE  # another run's
        enter = breaker.enter

        def enter_and_lose_the_probe(now: float) -> Any:
            answer = enter(now)
            patch.undo()
            breaker.gave_back(Permit.PROBE)  # on another thread, in just this moment
            return answer

        patch.setattr(breaker, "enter", enter_and_lose_the_probe)
        async with asyncio.timeout(20):
            assert await asker._enter(0) is Permit.PROBE

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(go())


# -- classes


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (refuse(500, "Internal", type="invalid_request_error"), "server"),
        (
            refuse(429, headers={"retry-after": "Wed, 21 Oct 99999999999999 07:28:00 GMT"}),
            "rate_limit",
        ),
        (
            refuse(
                429,
                body={
                    "error": {
                        "code": 429,
                        "message": "You exceeded your current quota. Please retry in 0.4s.",
                        "status": "RESOURCE_EXHAUSTED",
                    }
                },
            ),
            "rate_limit",
        ),
    ],
    ids=["500-that-says-invalid-request", "a-date-that-cannot-be", "a-quota-that-fills-again"],
)
def test_a_failure_that_reads_like_a_final_one_is_tried_again(
    refusal: Any, kind: str, clock: TestClock
) -> None:
    async def go(server: Loopback) -> Run:
        run = agent_of("openai-chat", server).start("Hi")
        await run
        return run

    with Loopback([refusal, reply("Hello.")]) as server:
        run = asyncio.run(go(server))
    assert [event.kind for event in of_kind(run, RetryEvent)] == [kind]
    assert run.result is not None
    assert run.result.text == "Hello."


@pytest.mark.parametrize("code", ["invalid_image", "image_too_large", "failed_to_download_image"])
def test_an_image_that_is_refused_is_not_sent_again(code: str, clock: TestClock) -> None:
    with Loopback([reply(fail(code)), reply("Never.")]) as server:
        result = agent_of("openai", server).run_sync("Hi")
        assert len(server.requests) == 1
    assert result.exit_reason == "fatal_error"
