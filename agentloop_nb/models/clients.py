"""SDK clients, one per event loop: a client's connections belong to the loop that opened them.

Runs live on several loops (the kernel's, the one of `run_sync`, a new one at each `asyncio.run`).
Each loop gets a client of its own, which is closed when that loop shuts its async generators down.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Generic, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

from agentloop_nb.errors import UsageError


class SDKClient(Protocol):
    """What is used here of an async SDK client."""

    def copy(self, *, max_retries: int = ...) -> Self: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=SDKClient)


class Clients(Generic[C]):
    """The clients of one model. `given` is the user's own, `make` makes a new one.

    The first loop that asks gets `given`, with the SDK's retries off, because retrying is the
    engine's. `again` gives a client like it for another loop, or None where that cannot be.
    """

    def __init__(
        self, given: C | None, make: Callable[[], C], again: Callable[[C], C | None]
    ) -> None:
        if given is not None and "SyncAPIClient" in {c.__name__ for c in type(given).__mro__}:
            name = type(given).__name__
            raise UsageError(
                f"The client is a {name}, which blocks the notebook while it waits. "
                f"Pass an Async{name} with the same arguments."
            )
        self._given = given
        self._make = make
        self._again = again
        self._taken = False
        self._lock = threading.Lock()  # loops on several threads share a model
        self._by_loop: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[C, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()

    async def get(self) -> C:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            held = self._by_loop.get(loop)
            if held is not None:
                return held[0]
            self._forget_closed()
            client, ours = self._new()
            keeper = _close_with_loop(client, ours=ours)
            self._by_loop[loop] = (client, keeper)
        await anext(keeper)
        return client

    def _new(self) -> tuple[C, bool]:
        """A client for one more loop, and whether it is ours to close."""
        if self._given is None:
            return self._make(), True
        if not self._taken:
            self._taken = True
            return self._given.copy(max_retries=0), False
        client = self._again(self._given)
        if client is None:
            raise UsageError(
                "This model's client was given with an HTTP client of its own and already works "
                "on another event loop, where its connections belong. Make a second model with a "
                "new client for this run, or use only one of `start`, `run` and `run_sync` with it."
            )
        return client.copy(max_retries=0), True

    def _forget_closed(self) -> None:
        # A client reaches its loop through its connections, so a weak key alone would keep both.
        for loop in [loop for loop in self._by_loop if loop.is_closed()]:
            del self._by_loop[loop]


async def _close_with_loop(client: SDKClient, *, ours: bool) -> AsyncGenerator[None, None]:
    """A generator that the loop knows of: `asyncio.run` closes it at its end, and so the client."""
    try:
        yield
    finally:
        if ours:
            await client.close()


def uses_default_http(client: object) -> bool:
    """Whether a client's HTTP client is the one that the SDK made itself, so that a copy of the
    client may have a new one without losing a proxy or a transport that the user set."""
    http = getattr(client, "_client", None)
    return type(http).__name__ == "AsyncHttpxClientWrapper"
