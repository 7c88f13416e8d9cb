"""The longest silence of a stream, kept fairly: a timer that fires late first looks at what came.

A synchronous cell can hold the kernel's loop for minutes. When it lets go, the timer is due and so
are the bytes that arrived meanwhile, or the request has not even gone out. So time in which the
loop did not turn is not counted as the provider's silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeVar

from agentloop_nb.errors import ProviderError

T = TypeVar("T")

GRACE_S = 0.05
"""What a due timer waits before it rules, in turns of the loop that bring up what has arrived; and
how late a timer may fire before the loop counts as held."""


async def watch(
    source: AsyncIterator[T],
    limit_s: float | None,
    *,
    provider: str,
    is_life: Callable[[T], bool] = lambda _: True,
) -> AsyncGenerator[T, None]:
    """Pass `source` on, and raise ProviderError (kind `timeout`) after `limit_s` of silence.

    An item that is no sign of life (a ping) does not end a silence. Only the time spent waiting
    for the source counts, not the time its consumer takes. The caller closes `source`.
    """
    if limit_s is None:
        async for item in source:
            yield item
        return
    clock = _Clock(limit_s)
    try:
        while True:
            item = await clock.next(source)
            if is_life(item):
                clock.start_anew()
            yield item
    except StopAsyncIteration:
        return
    except _Silent:
        raise _too_quiet(provider, limit_s) from None
    finally:
        clock.stop()


class _Silent(Exception):
    """The limit passed and nothing came."""


class _Clock:
    """One timer for a whole stream: an item only moves the deadline, the timer finds it moved.

    `_left_s` is what is left of the limit, kept from one wait to the next unless started anew.
    """

    def __init__(self, limit_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit_s = limit_s
        self._left_s = limit_s
        self._deadline = 0.0
        self._grace_over = False
        self._rang = False
        self._waiter: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start_anew(self) -> None:
        """A sign of life came: the silence is over."""
        self._left_s = self._limit_s
        self._grace_over = False

    async def next(self, source: AsyncIterator[T]) -> T:
        """The next item. Raises _Silent when what was left of the limit and the grace are over."""
        task = asyncio.current_task()
        cancelled_before = task.cancelling() if task else 0
        self._waiter = task
        self._deadline = self._loop.time() + self._left_s
        if self._timer is None or self._timer.when() > self._deadline:
            self._set_timer()
        try:
            return await anext(source)
        except asyncio.CancelledError:
            # Our own cancellation and someone else's may have come together; theirs goes first.
            if self._rang and task and task.uncancel() <= cancelled_before:
                raise _Silent from None
            raise
        finally:
            self._waiter = None
            self._left_s = max(self._deadline - self._loop.time(), 0.0)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self.stop()
        self._timer = self._loop.call_at(self._deadline, self._due)

    def _due(self) -> None:
        due = self._timer.when() if self._timer else self._deadline
        self._timer = None
        if self._waiter is None:  # the consumer is busy; the next wait sets the timer again
            return
        late = self._loop.time() - due
        if self._deadline > due:
            self._set_timer()
        elif self._grace_over and late <= GRACE_S:
            self._rang = True
            self._waiter.cancel()
        else:
            self._grace_over = True
            self._deadline = self._loop.time() + max(GRACE_S, min(late, self._limit_s))
            self._set_timer()


def _too_quiet(provider: str, limit_s: float) -> ProviderError:
    who = provider[:1].upper() + provider[1:]
    what = f"{who} sent nothing for {limit_s:g} seconds, so the request was given up."
    return ProviderError(
        f"{what} Run the prompt again, or raise Limits(stream_timeout_s=…) for a model that thinks "
        "in silence.",
        kind="timeout",
        what=what,
    )
