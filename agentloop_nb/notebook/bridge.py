"""Between a run and its pages: log to batches, commands to inbox. Knows no widget library.

The way to a page loses and reorders messages, so positions are numbered and nothing is believed
until a page says what it has. The positions of a bridge count through its tape: the logs of the
runs it shows, one after the other (a follow-up from the page's text box goes on with the tape).

Everything here runs on the loop of the run; `receive` alone may be called from any thread. With no
page nothing is sent: the log is the buffer.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentloop_nb.errors import AgentLoopError
from agentloop_nb.inbox import ENDED, Answer, RetryNow, Say, Stop
from agentloop_nb.log import Bell
from agentloop_nb.notebook.tape import Tape, take_batch
from agentloop_nb.ports import Shown
from agentloop_nb.questions import Decision

PROTOCOL = 1
BATCH_PAUSE_S = 0.024
"""With 50 ms, 95 of 100 deltas of a fast stream would be on the page within 75 ms, not 50: see
docs/adr/0003-wire-protocol.md and benchmarks/README.md."""
UNACKED_BYTES = 1_000_000
TICK_S = 1.0
HELD_S = 2.0
"""A run's loop that has not turned for so long is held: a tick is two of its beats late."""
CLIENT_GONE_S = 30.0
"""A page that has not acknowledged for so long gets nothing more until its next hello."""

_COMMANDS_KEPT = 1000
Content = dict[str, Any]


@dataclass(slots=True)
class _Client:
    """A page. `sent` is the next position to send; `unacked` what is on its way, in bytes."""

    sent: int
    unacked: deque[tuple[int, int]] = field(default_factory=deque)
    heard: float = field(default_factory=time.monotonic)
    last_batch: float = 0.0

    @property
    def full(self) -> bool:
        return sum(size for _, size in self.unacked) >= UNACKED_BYTES

    def ack(self, have: int) -> None:
        self.heard = time.monotonic()
        while self.unacked and self.unacked[0][0] <= have:
            self.unacked.popleft()


class Bridge:
    """One per widget. `send` takes a message for all pages; `on_shown` hears of each further run.

    `replays` off makes a lost batch stay lost; tests use it to show that they would notice.
    """

    def __init__(
        self,
        run: Shown,
        send: Callable[[Content], None],
        *,
        epoch: str,
        on_shown: Callable[[Shown], None] = lambda run: None,
        replays: bool = True,
    ) -> None:
        self.tape = Tape(run)
        self._loop = run.loop
        self._context = contextvars.copy_context()
        self._send = send
        self._epoch = epoch
        self._on_shown = on_shown
        self._replays = replays
        self._clients: dict[str, _Client] = {}
        self._done: OrderedDict[tuple[str, str], Content | None] = OrderedDict()
        self._bell = Bell(self._loop)
        self._pump_task: asyncio.Task[None] | None = None
        self._hello = False
        self._thread: int | None = None
        self._turned = 0.0
        run.log.on_append(self._bell.ring)

    def present(self) -> bool:
        """See `ports.Audience`: whether a page has ever said hello."""
        return self._hello

    # -- from the page

    def receive(self, content: object) -> None:
        """Take one message of a page, on any thread. Nonsense is answered or ignored, and where
        the run's loop is held the page hears at least that."""
        if isinstance(content, dict):
            # In the cell's context, whichever thread this is: ipykernel 7.0 sends in no other.
            self._loop.call_soon_threadsafe(self._take, content, context=self._context)
            if self._held():
                self._context.copy().run(self._tick, held=True)

    def _held(self) -> bool:
        """Whether a cell, or a tool that blocks, keeps the run's loop from turning."""
        elsewhere = self._thread not in (None, threading.get_ident())
        return elsewhere and self.tape.live and time.monotonic() - self._turned > HELD_S

    def _take(self, content: Content) -> None:
        kind, client = content.get("type"), content.get("client")
        if not isinstance(client, str):
            return
        if kind == "hello":
            self._welcome(client, content)
        elif kind == "ack":
            self._acked(client, content.get("seq"))
        else:
            self._command(client, content)
        self._wake()

    def _welcome(self, client: str, content: Content) -> None:
        have = content.get("have")
        known = content.get("epoch") == self._epoch and isinstance(have, int) and have >= -1
        position = min(have + 1, len(self.tape)) if known and isinstance(have, int) else 0
        if client not in self._clients or self._replays:
            self._clients[client] = _Client(position)
        self._hello = True
        self._send(
            {
                "type": "welcome",
                "to": client,
                "v": PROTOCOL,
                "epoch": self._epoch,
                "first": 0,
                "last": len(self.tape) - 1,
            }
        )

    def _acked(self, client: str, have: object) -> None:
        if client in self._clients and isinstance(have, int):
            self._clients[client].ack(have)

    def _command(self, client: str, content: Content) -> None:
        """Act once on a command, however often it comes; its reply is kept for the repeats."""
        command = content.get("id")
        if not isinstance(command, str):
            return
        key = (client, command)
        if key in self._done:
            if (reply := self._done[key]) is not None:
                self._send(reply)
            return
        self._done[key] = None
        while len(self._done) > _COMMANDS_KEPT:
            self._done.popitem(last=False)

        def settle(ok: bool, why: str) -> None:
            reply = {"type": "reply", "to": client, "id": command, "ok": ok, "why": why}
            self._done[key] = reply
            self._send(reply)

        self._act(content, settle)

    def _act(self, content: Content, settle: Callable[[bool, str], None]) -> None:
        run = self.tape.runs[-1]
        match content:
            case {"type": "stop"}:
                run.inbox.post(Stop(), settle)
            case {"type": "retry_now"}:
                run.inbox.post(RetryNow(), settle)
            case {"type": "say", "text": str(text)} if text.strip():
                self._say(run, text, settle)
            case {"type": "answer", "run_id": run_id, "question": str(question)}:
                decisions = _decisions(content.get("decisions"))
                asked = next((r for r in self.tape.runs if r.run_id == run_id), None)
                if asked is None or decisions is None:
                    settle(False, "This answer fits no question here.")
                else:
                    asked.inbox.post(Answer(question, decisions), settle)
            case _:
                settle(False, "The kernel does not know this command. Reload the page.")

    def _say(self, run: Shown, text: str, settle: Callable[[bool, str], None]) -> None:
        """Into the live run, or as the next turn where it has ended."""

        def settled(ok: bool, why: str) -> None:
            if ok or why != ENDED:
                settle(ok, why)
            else:
                # Soon: the run's task is just about to let go of the session.
                self._loop.call_soon(self._follow_up, run, text, settle)

        run.inbox.post(Say(text), settled)

    def _follow_up(self, run: Shown, text: str, settle: Callable[[bool, str], None]) -> None:
        if self.tape.runs[-1] is not run:  # another text was first to go on from there
            self._say(self.tape.runs[-1], text, settle)
            return
        try:
            following = run.follow_up(text)
        except AgentLoopError as error:
            settle(False, str(error))
            return
        self.tape.add(following)
        following.log.on_append(self._bell.ring)
        self._on_shown(following)
        settle(True, "")
        self._wake()

    # -- to the pages

    def _wake(self) -> None:
        self._bell.ring()
        if not self._work_left:
            return
        pump = self._pump_task
        if pump is None or (pump.done() and not pump.cancelled()):  # cancelled: the loop closes
            self._pump_task = self._loop.create_task(self._pump())

    async def _pump(self) -> None:
        """Send what there is, at its pace, and beat, until the run has ended and all pages have
        said that they have all of it. A page that comes later starts it again with its hello."""
        ticked = 0.0
        self._thread = threading.get_ident()
        while True:
            self._bell.clear()
            now = self._turned = time.monotonic()
            self._forget_the_gone(now)
            waits = [self._serve(name, client, now) for name, client in self._clients.items()]
            if not self._work_left:
                self._tick()
                return
            if now - ticked >= TICK_S:
                ticked = now
                self._tick()
            pause = min((w for w in waits if w is not None), default=TICK_S)
            if pause < TICK_S:
                await asyncio.sleep(pause)
            else:
                await self._until_rung(TICK_S)

    @property
    def _work_left(self) -> bool:
        # A page without a live run does not ask: the last batch, lost, would stay lost.
        return self.tape.live or any(
            client.unacked or self._lacks(client) for client in self._clients.values()
        )

    async def _until_rung(self, at_most_s: float) -> None:
        try:
            async with asyncio.timeout(at_most_s):
                await self._bell.wait()
        except TimeoutError:
            pass

    def _tick(self, *, held: bool = False) -> None:
        """A sign of life. With `held` it says that the run's loop cannot give one."""
        tick = {
            "type": "tick",
            "epoch": self._epoch,
            "last": len(self.tape) - 1,
            "now": round(self.tape.now(), 3),
        }
        self._send({**tick, "held": True} if held else tick)

    def _forget_the_gone(self, now: float) -> None:
        for name, client in list(self._clients.items()):
            if client.unacked and now - client.heard > CLIENT_GONE_S:
                del self._clients[name]

    def _lacks(self, client: _Client) -> bool:
        return client.sent < len(self.tape)

    def _serve(self, name: str, client: _Client, now: float) -> float | None:
        """Send a client its next batch if it is due; returns in how many seconds to look again,
        None where only an ack or an event changes anything."""
        if not self._lacks(client) or client.full:
            return None
        due = client.last_batch + BATCH_PAUSE_S - now
        if due > 0:
            return due
        events, before, restored = self.tape.since(client.sent)
        taken, count, size = take_batch(events, before, restored=restored)
        batch = {
            "type": "batch",
            "client": name,
            "epoch": self._epoch,
            "from": client.sent,
            "to": client.sent + count - 1,
            "now": round(self.tape.now(), 3),
            "events": taken,
        }
        client.sent += count
        client.unacked.append((client.sent - 1, size))
        client.last_batch = now
        self._send(batch)
        return BATCH_PAUSE_S if self._lacks(client) else None


def _decisions(value: object) -> tuple[Decision, ...] | None:
    """The decisions of an answer, None where it is malformed. Only an explicit True approves."""
    if not isinstance(value, list) or not value:
        return None
    decisions = []
    for item in value:
        match item:
            case {"call_id": str(call_id), "approved": bool(approved)}:
                reason = item.get("reason")
                text = reason if isinstance(reason, str) else ""
                decisions.append(Decision(call_id, approved, text))
            case _:
                return None
    return tuple(decisions)
