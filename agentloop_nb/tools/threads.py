"""Plain functions of a user, run off the event loop: each on a daemon thread of its own.

asyncio's default executor has too few threads, and waits for them when the process ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

from agentloop_nb.tools.capture import captured

T = TypeVar("T")


async def on_thread(name: str, work: Callable[[], T]) -> T:
    """`work()`, which must not raise, on a daemon thread in a copy of this context."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    variables = contextvars.copy_context()

    def deliver(value: T) -> None:
        if not future.done():
            future.set_result(value)

    def body() -> None:
        with captured():  # also for a thread that its call has left behind
            value = variables.run(work)
        try:
            loop.call_soon_threadsafe(deliver, value)
        except RuntimeError:
            return  # the loop is closed: nobody waits for this any more

    threading.Thread(target=body, name=name, daemon=True).start()
    return await future
