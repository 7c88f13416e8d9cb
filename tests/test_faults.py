"""Every way in which a request can fail, over real HTTP, for all three adapters: its class, the
requests that the server counted, the exit reason, and the words. The table in the docs is made
here."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from agentloop_nb import Agent, Limits, resilience
from agentloop_nb.errors import ProviderError
from agentloop_nb.events import RetryEvent
from tests.clocks import TestClock
from tests.loopback import Loopback, cut, fail, hang, hold, raw, refuse, reply, reset, say
from tests.loopback.script import Answer
from tests.streams import ADAPTERS, model_at, until_it_ends
from tests.tables import assert_table

SILENCE_S = 0.15
QUOTA = {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota."}}
TOO_LONG = {"error": {"code": "context_length_exceeded", "message": "The prompt is too long."}}
HTML = "<!doctype html><title>502 Bad Gateway</title>"

ANSWERS: dict[str, Callable[[], Answer]] = {
    "400": lambda: refuse(400),
    "400, the context is too long": lambda: refuse(400, body=TOO_LONG),
    "401": lambda: refuse(401),
    "402": lambda: refuse(402),
    "403": lambda: refuse(403),
    "404": lambda: refuse(404, body={"error": {"message": "There is no model of this name."}}),
    "408": lambda: refuse(408),
    "409": lambda: refuse(409),
    "413": lambda: refuse(413),
    "422": lambda: refuse(422),
    "429, rate": lambda: refuse(429),
    "429, quota": lambda: refuse(429, body=QUOTA),
    "500": lambda: refuse(500),
    "502": lambda: refuse(502),
    "502, a body of HTML": lambda: refuse(502, body=HTML),
    "503": lambda: refuse(503),
    "529": lambda: refuse(529),
    "200, a body of HTML": lambda: raw(HTML.encode()),
    "reset before the first byte": reset,
    "reset after the first byte": lambda: reply(say("Hel", cut())),
    "a hang before the headers": hang,
    "a hang in mid-stream": lambda: reply(say("Hel", hold("never"))),
    "an error event inside a stream": lambda: reply(say("Hel"), fail("server_error")),
    "a clean end that is early": lambda: reply(say("Hel", cut(clean=True))),
}
ADDRESSES = {
    "connection refused": lambda server: "http://127.0.0.1:{closed}",
    "a TLS failure": lambda server: server.base_url.replace("http:", "https:"),
    "a name that cannot be resolved": lambda server: "http://no-such-host.invalid",
}
FAULTS = (*ANSWERS, *ADDRESSES)


@dataclass(frozen=True)
class Seen:
    """What came of a fault."""

    kind: str
    requests: int
    tries: int
    exit_reason: str
    words: str


@pytest.fixture(scope="module")
def clock() -> Iterator[TestClock]:
    clock = TestClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resilience, "clock", clock)
        yield clock


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that nobody listens at, and that nobody else gets meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def meet(fault: str, provider: str) -> Seen:
    """A run that meets this fault again and again; and one bare request, for its class."""
    with closed_port() as closed, Loopback(lambda _: ANSWERS.get(fault, hang)()) as server:
        address = ADDRESSES.get(fault, lambda server: server.base_url)(server)
        address = address.format(closed=closed)
        resilience.forget()

        async def go() -> tuple[Any, int, int, Exception | None]:
            model = model_at(provider, address)
            limits = Limits(stream_timeout_s=SILENCE_S if "hang" in fault else 30.0)
            run = Agent(model, limits=limits).start("Hi")
            result = await run
            tries = 1 + sum(isinstance(event, RetryEvent) for event in run.events)
            counted = len(server.requests)
            _, error = await until_it_ends(model, limits.stream_timeout_s)
            return result, tries, counted, error

        result, tries, counted, error = asyncio.run(go())
    assert isinstance(error, ProviderError)
    return Seen(error.kind, counted, tries, result.exit_reason.value, plain(str(result.error)))


def plain(words: str) -> str:
    """Without what differs from machine to machine: ports, and an operating system's own words."""
    words = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1", words)
    return re.sub(r"failed \(.*?\)\.", "failed (…).", words)


TABLE: dict[str, Seen] = {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_the_same_to_every_adapter(fault: str, clock: TestClock) -> None:
    seen = {provider: meet(fault, provider) for provider in ADAPTERS}
    first = TABLE[fault] = seen["anthropic"]
    for provider, other in seen.items():
        same = (other.kind, other.requests, other.tries, other.exit_reason)
        assert same == (first.kind, first.requests, first.tries, first.exit_reason), provider
        assert other.words, provider


def test_the_table_in_the_docs_is_what_was_seen() -> None:
    if set(TABLE) != set(FAULTS):
        pytest.skip("only some of the faults were met")
    rows = [
        [
            fault,
            f"`{seen.kind}`",
            str(seen.requests) + (f" ({seen.tries} tries)" if seen.tries != seen.requests else ""),
            f"`{seen.exit_reason}`",
            seen.words,
        ]
        for fault, seen in TABLE.items()
    ]
    assert_table("faults", ["fault", "class", "requests", "exit reason", "words"], rows)


def test_a_failure_that_may_pass_is_met_six_times_and_any_other_once() -> None:
    for fault, seen in TABLE.items():
        passes = seen.kind in ("rate_limit", "timeout", "overloaded", "connection", "server")
        again = passes or fault in ("408", "409")
        assert seen.tries == (6 if again else 1), fault
        expected = {"context_overflow": "context_overflow"}.get(seen.kind, "fatal_error")
        assert seen.exit_reason == ("circuit_breaker" if again else expected), fault
