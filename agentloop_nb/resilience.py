"""A provider that misbehaves: which failures are tried again, after what pause, and the circuit
breaker that keeps a kernel's runs from hammering a provider that is down.

Once for all adapters: the SDKs' own retries are off, so a request of ours is a request that the
server counts. The order of tries is in `asking.py`; here is what it decides by.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from contextlib import suppress
from enum import Enum
from typing import Protocol
from weakref import WeakKeyDictionary

from agentloop_nb.errors import ProviderError
from agentloop_nb.log import Bell
from agentloop_nb.models.base import Model

RATE_BASE_S = 1.0
"""First pause after a rate limit without a word on how long; doubles with each further one."""
SHORT_BASE_S = 0.5
"""First pause after any other failure; doubles too. The SDKs begin with the same half second."""
LONGEST_S = 30.0
"""The longest pause of our own choosing."""

_AGAIN = frozenset({"rate_limit", "timeout", "overloaded", "connection", "server"})
_AGAIN_STATUS = frozenset({408, 409})
_AT_ONCE = frozenset({"timeout", "overloaded"})


class Clock(Protocol):
    """Time, as this room needs it; tests have one that they move."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    async def wait(self, bell: Bell, seconds: float) -> None:
        """Until the bell rings, or so many seconds (perhaps infinite) are over."""
        ...


class SystemClock:
    """The clock outside of tests."""

    def now(self) -> float:
        return time.monotonic()

    async def wait(self, bell: Bell, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(bell.wait(), None if math.isinf(seconds) else seconds)


clock: Clock = SystemClock()


def worth_another_try(error: ProviderError) -> bool:
    """Whether the same request may succeed a little later."""
    return error.kind in _AGAIN or error.status in _AGAIN_STATUS


def pause_s(error: ProviderError, failures: int, chance: float | None = None) -> float:
    """Seconds before the next try, after so many `failures` of this call, at least 1.

    What the provider asks for is obeyed. Else a rate limit doubles from `RATE_BASE_S`, anything
    else from `SHORT_BASE_S`, and a timeout or overload is tried again at once the first time.
    `chance` from 0 to 1 is the jitter, which takes up to half away; random where None.
    """
    if error.retry_after_s is not None:
        return error.retry_after_s
    base, doublings = SHORT_BASE_S, failures - 1
    if error.kind == "rate_limit":
        base = RATE_BASE_S
    elif error.kind in _AT_ONCE:
        doublings -= 1
    if doublings < 0:
        return 0.0
    jitter = random.random() if chance is None else chance
    return min(base * 2.0 ** min(doublings, 10), LONGEST_S) * (1 - jitter / 2)


class Permit(Enum):
    """What a breaker says to who wants to send."""

    GO = "go"
    PROBE = "probe"


class Breaker:
    """The circuit breaker of one provider at one address; all its methods from any thread.

    Closed, it counts consecutive failures. Open, it lets nobody through until its time is over,
    and then one alone, the probe: if that succeeds it closes, if it fails it is open anew, and
    whoever waited gives up (`failed_probes` has grown).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until: float | None = None
        self._probing = False
        self._bells: set[Bell] = set()
        self.failed_probes = 0

    def listen(self, bell: Bell) -> None:
        """Ring this bell whenever it may be worth asking again."""
        with self._lock:
            self._bells.add(bell)

    def leave(self, bell: Bell) -> None:
        with self._lock:
            self._bells.discard(bell)

    def enter(self, now: float) -> Permit | float:
        """A permit, or the seconds to wait for one (infinite while another run probes)."""
        with self._lock:
            if self._open_until is None:
                return Permit.GO
            if self._probing:
                return math.inf
            if now < self._open_until:
                return self._open_until - now
            self._probing = True
            return Permit.PROBE

    @property
    def is_open(self) -> bool:
        with self._lock:
            return self._open_until is not None

    @property
    def failures(self) -> int:
        """Failures since the last success."""
        with self._lock:
            return self._failures

    def failed(self, permit: Permit, now: float, threshold: float, wait_s: float) -> None:
        """A request that was worth another try has failed."""
        with self._lock:
            self._failures += 1
            if permit is Permit.PROBE:
                self._probing = False
                self.failed_probes += 1
                self._open_until = now + wait_s
            elif self._open_until is None and self._failures >= threshold:
                self._open_until = now + wait_s
        self._ring()

    def succeeded(self) -> None:
        with self._lock:
            self._failures = 0
            self._open_until = None
            self._probing = False
        self._ring()

    def gave_back(self, permit: Permit) -> None:
        """A request ended in a way that says nothing of the provider's health."""
        if permit is Permit.PROBE:
            with self._lock:
                self._probing = False
            self._ring()

    def try_now(self, now: float) -> None:
        """A person does not want to wait: the next one to enter is the probe."""
        with self._lock:
            if self._open_until is not None:
                self._open_until = min(self._open_until, now)
        self._ring()

    def _ring(self) -> None:
        with self._lock:
            bells = tuple(self._bells)
        for bell in bells:
            bell.ring()


_by_address: dict[tuple[str, str], Breaker] = {}
_by_model: WeakKeyDictionary[Model, Breaker] = WeakKeyDictionary()
_finding = threading.Lock()


def breaker_of(model: Model) -> Breaker:
    """The breaker that all runs of this kernel share for the model's provider and address.

    A model that has no `address` (a string) is a provider of its own.
    """
    address = getattr(model, "address", None)
    with _finding:
        if isinstance(address, str):
            return _by_address.setdefault((model.provider, address), Breaker())
        try:
            return _by_model.setdefault(model, Breaker())
        except TypeError:  # a user's model that takes no weak reference, or is not hashable
            return Breaker()


def forget() -> None:
    """Close all circuits, as in a new kernel."""
    with _finding:
        _by_address.clear()
        _by_model.clear()
