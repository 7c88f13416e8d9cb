"""The event loop in a thread of its own that `run_sync` uses, because the cell blocks the kernel's.

One per process, started when first needed; a daemon, so that it never keeps a process alive.
"""

from __future__ import annotations

import asyncio
import threading

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def background_loop() -> asyncio.AbstractEventLoop:
    """The shared loop, running."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            # Made by the plain selector class: a loop patched by nest_asyncio or replaced by a
            # policy is the user's business on their thread, not on ours.
            _loop = asyncio.SelectorEventLoop()
            thread = threading.Thread(
                target=_run, args=(_loop,), name="agentloop run_sync", daemon=True
            )
            thread.start()
        return _loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
