"""One model call as the loop sees it: asked until there is a reply, or no use in asking on.

Each try is a `Reply`. A try that failed and is followed by another leaves nothing: what it showed
is void (`attempt_discarded`). A last one leaves what had come.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from agentloop_nb import resilience
from agentloop_nb.errors import CircuitOpen, ProviderError
from agentloop_nb.events import AnyEvent, CircuitEvent, RetryEvent
from agentloop_nb.limits import Limits
from agentloop_nb.log import Bell
from agentloop_nb.messages import NO_USAGE, Message, Usage
from agentloop_nb.models.base import Model, Request
from agentloop_nb.reply import Reply
from agentloop_nb.resilience import Permit


class Asker:
    """Asks one model for one run. `usage` is what the latest call cost, as far as is known."""

    def __init__(self, model: Model, limits: Limits, emit: Callable[[AnyEvent], AnyEvent]) -> None:
        self._model = model
        self._emit = emit
        self._threshold = _or_endless(limits.circuit_open_threshold)
        self._open_s = _or_endless(limits.circuit_open_wait_ms) / 1000
        self._most = _or_endless(limits.max_attempts)
        self._breaker = resilience.breaker_of(model)
        self._bell: Bell | None = None  # while a pause lasts
        self.usage: Usage = NO_USAGE

    async def ask(self, request: Request, round: int) -> Message:
        """The reply. Raises ProviderError: CircuitOpen where the provider failed again and again,
        or the error that there is no use in trying again after."""
        self.usage = NO_USAGE
        attempt = 0
        while True:
            permit = await self._enter(round)
            reply = Reply(self._model, round, attempt, self._emit)
            try:
                message = await self._once(reply, request, permit)
            except ProviderError as error:
                attempt += 1
                self._end_where_useless(error, permit, attempt, reply)
                reply.discard()
                await self._pause(error, attempt, round)
            else:
                if permit is Permit.PROBE:
                    self._emit(CircuitEvent(state="closed", round=round))
                return message

    def try_now(self) -> bool:
        """End the pause, if there is one; whether there was."""
        if self._bell is None:
            return False
        self._breaker.try_now(resilience.clock.now())
        self._bell.ring()
        return True

    async def _once(self, reply: Reply, request: Request, permit: Permit) -> Message:
        try:
            message = await reply.stream(request)
        except ProviderError as error:
            if resilience.worth_another_try(error):
                now = resilience.clock.now()
                self._breaker.failed(permit, now, self._threshold, self._open_s)
            else:
                self._breaker.gave_back(permit)
            raise
        except BaseException as error:
            self._breaker.gave_back(permit)
            if isinstance(error, asyncio.CancelledError):
                reply.keep_partial()
            raise
        finally:
            self.usage = reply.usage
        self._breaker.succeeded()
        return message

    def _end_where_useless(
        self, error: ProviderError, permit: Permit, attempt: int, reply: Reply
    ) -> None:
        again = resilience.worth_another_try(error)
        if again and permit is Permit.GO and attempt < self._most:
            return
        reply.keep_partial()
        if again and permit is Permit.PROBE:
            raise CircuitOpen(self._breaker.failures, error) from None
        raise error

    async def _pause(self, error: ProviderError, attempt: int, round: int) -> None:
        seconds = 0.0 if self._breaker.is_open else resilience.pause_s(error, attempt)
        self._emit(
            RetryEvent(
                attempt=attempt, kind=error.kind, message=error.what, wait_s=seconds, round=round
            )
        )
        if seconds > 0:  # what other runs hear of the provider ends no pause of this one
            async with self._waiting() as bell:
                await resilience.clock.wait(bell, seconds)

    async def _enter(self, round: int) -> Permit:
        """Wait for the breaker to let this run send."""
        before = self._breaker.failed_probes
        told = False
        while True:
            async with self._waiting() as bell:
                self._breaker.listen(bell)  # before the look: what rings between is not missed
                answer = self._breaker.enter(resilience.clock.now())
                if isinstance(answer, Permit):
                    if answer is Permit.PROBE:
                        self._emit(CircuitEvent(state="probe", round=round))
                    elif told:
                        self._emit(CircuitEvent(state="closed", round=round))
                    return answer
                if self._breaker.failed_probes != before:
                    raise CircuitOpen(self._breaker.failures, None)
                if not told:
                    seconds = None if math.isinf(answer) else round_up(answer)
                    self._emit(CircuitEvent(state="open", wait_s=seconds, round=round))
                    told = True
                await resilience.clock.wait(bell, answer)

    @asynccontextmanager
    async def _waiting(self) -> AsyncGenerator[Bell]:
        """A bell that "try now" rings while this lasts."""
        bell = self._bell = Bell(asyncio.get_running_loop())
        try:
            yield bell
        finally:
            self._breaker.leave(bell)
            self._bell = None


def round_up(seconds: float) -> float:
    """To the millisecond, as it is shown and stored."""
    return math.ceil(seconds * 1000) / 1000


def _or_endless(limit: float | None) -> float:
    return math.inf if limit is None else limit
