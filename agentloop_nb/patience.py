"""Waiting fairly: time in which the event loop did not turn counts against nobody.

A synchronous cell can hold the kernel's loop for minutes. Nothing of a run can move meanwhile, and
when the cell is over, the timers that ran out and what arrived in time are due together. So a wait
is made of short pieces, and a piece in which the loop was held costs only its own length; at the
end of such a wait there is always a moment left in which the loop hands over what has come.

For waits that end once. The silence of a stream, which ends with each chunk, is judged by the same
rule in `models/silence.py`, with one timer for all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

PIECE_S = 1.0
"""The longest piece of a wait, so the most that a held loop can take from it."""
LATE_S = 0.25
"""A piece that ends so much later than it should was not the loop's to use."""
GRACE_S = 0.5
"""What is always left after a held piece. What has arrived is handed over in milliseconds."""


class Patience:
    """What is left of a wait, `left_s`, in seconds in which the loop turned; None for no end."""

    def __init__(self, limit_s: float | None) -> None:
        self.left_s = None if limit_s is None else max(limit_s, 0.0)

    async def wait(
        self,
        what: asyncio.Future[Any],
        at_most: Patience | None = None,
        on_held: Callable[[float], None] = lambda _: None,
    ) -> bool:
        """Wait for a future, which stays as it is; whether it was done while there was patience.

        `at_most` is a second one that ends the wait too. `on_held` hears after each held piece by
        how many seconds the wait moved.
        """
        both = (self, at_most or ENDLESS)
        while not what.done() and not any(each.left_s == 0 for each in both):
            if (late := await self._piece(what, both)) and not what.done():
                on_held(late)
        return what.done()

    async def _piece(self, what: asyncio.Future[Any], both: tuple[Patience, Patience]) -> float:
        """One piece of the wait; returns by how many seconds the loop was held, 0 if it was not."""
        limits = [each.left_s for each in both if each.left_s is not None]
        piece = min(PIECE_S, *limits) if limits else None
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.wait({what}, timeout=piece)
        if piece is None:
            return 0.0
        late = loop.time() - began - piece
        held = late > LATE_S
        for each in both:
            each._spend(piece, held=held)
        return late if held else 0.0

    def _spend(self, piece: float, *, held: bool) -> None:
        if self.left_s is not None:
            self.left_s = max(self.left_s - piece, GRACE_S if held else 0.0)


ENDLESS = Patience(None)
