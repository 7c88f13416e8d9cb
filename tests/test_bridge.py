"""The bridge against pages that lose, repeat and lie. A page here is its messages, in a list."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentloop_nb.codec import page_json
from agentloop_nb.errors import SessionBusy
from agentloop_nb.events import (
    Done,
    MessageEvent,
    Resumed,
    RoundStart,
    RunStart,
    TextDelta,
    ThinkingDelta,
)
from agentloop_nb.inbox import Answer, Inbox, Say, Stop
from agentloop_nb.log import EventLog
from agentloop_nb.messages import NO_USAGE, Message, Opaque, Text, Thinking
from agentloop_nb.notebook import bridge as bridge_module
from agentloop_nb.notebook.bridge import UNACKED_BYTES, Bridge
from agentloop_nb.notebook.packing import whole
from agentloop_nb.notebook.tape import BATCH_BYTES, take_batch
from agentloop_nb.viewstate import fold, initial


class StandIn:
    """A run as a bridge sees it, with a log that the test writes."""

    def __init__(self, number: int = 0) -> None:
        self.session_id, self.run_id = "s", f"s.{number}"
        self.log = EventLog()
        self.loop = asyncio.get_running_loop()
        self.inbox = Inbox(self.loop)
        self.next: StandIn | None = None
        self.log.append(RunStart(session_id="s", run_id=self.run_id, prompt="Go.", model="m"))
        self.log.append(RoundStart(round=0))

    def follow_up(self, prompt: str) -> StandIn:
        if self.next is None:
            raise SessionBusy("A live run.")
        return self.next

    def write(self, text: str) -> None:
        self.log.append(TextDelta(text=text))

    def end(self) -> None:
        self.log.append(Done(exit_reason="end_turn", message="Done", rounds=1, usage=NO_USAGE))


class Page:
    """Applies batches as the protocol says and answers with acks."""

    def __init__(self, bridge: Bridge, name: str = "p") -> None:
        self.bridge, self.name = bridge, name
        self.have, self.epoch = -1, None
        self.last: dict[str, Any] | None = None
        self.state = initial()
        self.batches: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []
        self.changed = asyncio.Event()
        self.acks = True
        self.asks = True

    def hello(self) -> None:
        self.say({"type": "hello", "v": 1, "epoch": self.epoch, "have": self.have})

    def say(self, content: dict[str, Any]) -> None:
        self.bridge.receive({"client": self.name, **content})

    def hear(self, content: dict[str, Any]) -> None:
        kind = content["type"]
        if kind == "welcome" and content["to"] == self.name:
            if content["epoch"] != self.epoch:
                self.epoch, self.have, self.state = content["epoch"], -1, initial()
                self.last = None
        elif kind == "reply" and content["to"] == self.name:
            self.replies.append(content)
        elif kind == "batch" and content["client"] == self.name:
            self._batch(content)
        elif kind == "tick" and self.asks and content["last"] > self.have:
            self.hello()
        self.changed.set()

    def _batch(self, content: dict[str, Any]) -> None:
        if content["from"] > self.have + 1:
            self.hello()
            return
        if content["to"] > self.have:
            self.batches.append(content)
            for event in whole(content["events"], self.last):
                self.last = event
                fold(self.state, event)
            self.have = content["to"]
        if self.acks:
            self.say({"type": "ack", "seq": self.have})

    @property
    def text(self) -> str:
        items = (i for t in self.state["turns"] for r in t["rounds"] for i in r["items"])
        return "".join(i["text"] for i in items if i["kind"] == "text")

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def connect(run: StandIn, **options: Any) -> tuple[Bridge, Page]:
    pages: list[Page] = []

    def send(content: dict[str, Any]) -> None:
        for page in pages:
            run.loop.call_soon(page.hear, content)

    bridge = Bridge(run, send, epoch="e1", **options)
    pages.append(Page(bridge))
    return bridge, pages[0]


def test_nothing_is_sent_before_a_page_says_hello() -> None:
    async def main() -> None:
        run = StandIn()
        sent: list[Any] = []
        bridge = Bridge(run, sent.append, epoch="e1")
        run.write("hello")
        for _ in range(20):
            await asyncio.sleep(0)
        assert sent == []
        assert not bridge.present()

    asyncio.run(main())


def test_a_page_that_comes_late_gets_everything_in_order() -> None:
    async def main() -> None:
        run = StandIn()
        bridge, page = connect(run)
        for i in range(500):
            run.write(f"{i} ")
        run.end()
        page.hello()
        await page.until(lambda: page.have == len(run.log) - 1)
        assert page.text == "".join(f"{i} " for i in range(500))
        assert page.state["turns"][0]["exit_reason"] == "end_turn"
        assert bridge.present()

    asyncio.run(main())


def test_a_lost_batch_is_asked_for_again() -> None:
    async def main() -> None:
        run = StandIn()
        lose = random.Random(7)
        pages: list[Page] = []

        def send(content: dict[str, Any]) -> None:
            if content["type"] == "batch" and lose.random() < 0.4:
                return
            for page in pages:
                run.loop.call_soon(page.hear, content)

        bridge = Bridge(run, send, epoch="e1")
        page = Page(bridge)
        pages.append(page)
        page.hello()
        for i in range(400):
            run.write(f"{i} ")
            if i % 100 == 0:
                await asyncio.sleep(0.06)
        run.end()
        await page.until(lambda: page.have == len(run.log) - 1)
        assert page.text == "".join(f"{i} " for i in range(400))

    asyncio.run(main())


def test_with_replay_off_a_lost_batch_stays_lost() -> None:
    async def main() -> None:
        run = StandIn()
        pages: list[Page] = []
        sent = 0
        ended = asyncio.Event()

        def send(content: dict[str, Any]) -> None:
            nonlocal sent
            if content["type"] == "batch":
                sent += 1
                if sent == 2:
                    return
            if content["type"] == "tick" and run.log.closed:
                ended.set()
            for page in pages:
                run.loop.call_soon(page.hear, content)

        bridge = Bridge(run, send, epoch="e1", replays=False)
        page = Page(bridge)
        pages.append(page)
        page.hello()
        for part in "abcd":
            await page.until(lambda: True)
            run.write(part)
            await asyncio.sleep(0.06)
        run.end()
        await asyncio.wait_for(ended.wait(), 20)
        assert page.have < len(run.log) - 1
        assert page.text != "abcd"

    asyncio.run(main())


def test_the_last_batch_lost_after_the_end_is_asked_for_again() -> None:
    """A page without a live run does not ask by itself: the beat goes on until all is there."""

    async def main() -> None:
        run = StandIn()
        lost: list[dict[str, Any]] = []
        pages: list[Page] = []

        def send(content: dict[str, Any]) -> None:
            if content["type"] != "welcome" and len(lost) < 2:
                lost.append(content)
                return
            for page in pages:
                run.loop.call_soon(page.hear, content)

        run.end()
        page = Page(Bridge(run, send, epoch="e1"))
        pages.append(page)
        page.hello()
        await page.until(lambda: page.have == len(run.log) - 1)
        assert "batch" in [content["type"] for content in lost]

    asyncio.run(main())


def test_a_page_that_does_not_acknowledge_gets_no_more_than_a_megabyte() -> None:
    async def main() -> None:
        run = StandIn()
        _, page = connect(run)
        page.acks = page.asks = False
        for _ in range(400):
            run.write("x" * 10_000)
        run.end()
        page.hello()
        await page.until(lambda: sum(map(_size, page.batches)) >= UNACKED_BYTES)
        before = page.have
        await asyncio.sleep(0.3)
        assert page.have == before < len(run.log) - 1
        page.acks = True
        page.say({"type": "ack", "seq": page.have})
        await page.until(lambda: page.have == len(run.log) - 1)
        assert len(page.text) == 4_000_000

    asyncio.run(main())


def _size(batch: dict[str, Any]) -> int:
    return sum(len(e[1] if isinstance(e, list) else e.get("text", "")) for e in batch["events"])


def test_batches_stay_under_their_size_and_keep_their_pace() -> None:
    async def main() -> None:
        run = StandIn()
        _, page = connect(run)
        for _ in range(100):
            run.write("y" * 20_000)
        run.end()
        page.hello()
        await page.until(lambda: page.have == len(run.log) - 1)
        assert all(_size(b) <= BATCH_BYTES for b in page.batches)
        assert len(page.batches) >= 100 * 20_000 // BATCH_BYTES

    asyncio.run(main())


def test_one_event_larger_than_a_batch_still_gets_through() -> None:
    async def main() -> None:
        run = StandIn()
        _, page = connect(run)
        run.write("z" * (BATCH_BYTES * 3))
        run.end()
        page.hello()
        await page.until(lambda: page.have == len(run.log) - 1)
        assert len(page.text) == BATCH_BYTES * 3

    asyncio.run(main())


def test_a_command_sent_three_times_acts_once_and_is_replied_to_each_time() -> None:
    async def main() -> None:
        run = StandIn()
        _, page = connect(run)
        page.hello()
        for _ in range(3):
            page.say({"type": "say", "id": "p-1", "text": "hello"})
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (letter,) = run.inbox.take()
        assert letter.message == Say("hello")
        letter.settle(True, "")
        page.say({"type": "say", "id": "p-1", "text": "hello"})
        await page.until(lambda: len(page.replies) == 2)
        assert {r["ok"] for r in page.replies} == {True}
        assert run.inbox.take() == []

    asyncio.run(main())


@pytest.mark.parametrize(
    "content",
    [
        {"type": "answer", "id": "x", "run_id": "s.0", "question": "q1", "decisions": "yes"},
        {"type": "answer", "id": "x", "run_id": "s.0", "question": "q1", "decisions": []},
        {"type": "answer", "id": "x", "run_id": "s.9", "question": "q1", "decisions": [{}]},
        {
            "type": "answer",
            "id": "x",
            "run_id": "s.0",
            "question": "q1",
            "decisions": [{"call_id": "c0.0", "approved": 1}],
        },
        {"type": "say", "id": "x", "text": "   "},
        {"type": "say", "id": "x", "text": 7},
        {"type": "launch", "id": "x"},
    ],
    ids=["not-a-list", "empty", "foreign-run", "one-is-not-true", "blank", "number", "unknown"],
)
def test_a_malformed_command_does_nothing_and_is_told_so(content: dict[str, Any]) -> None:
    async def main() -> None:
        run = StandIn()
        _, page = connect(run)
        page.hello()
        page.say(content)
        await page.until(lambda: page.replies)
        assert page.replies[0]["ok"] is False
        assert page.replies[0]["why"]
        assert run.inbox.take() == []

    asyncio.run(main())


@pytest.mark.parametrize("nonsense", [None, 3, "hello", [], {}, {"type": "hello"}, {"client": 4}])
def test_nonsense_from_a_page_harms_nothing(nonsense: object) -> None:
    async def main() -> None:
        run = StandIn()
        bridge, page = connect(run)
        bridge.receive(nonsense)
        page.hello()
        await page.until(lambda: page.have == 1)

    asyncio.run(main())


def test_an_answer_reaches_the_inbox_as_it_was_given() -> None:
    async def main() -> None:
        run = StandIn()
        _, page = connect(run)
        page.say(
            {
                "type": "answer",
                "id": "x",
                "run_id": "s.0",
                "question": "q7",
                "decisions": [{"call_id": "c0.0", "approved": False, "reason": "no"}],
            }
        )
        page.say({"type": "stop", "id": "y"})
        while not (letters := run.inbox.take()):
            await asyncio.sleep(0)
        answer = letters[0].message
        assert isinstance(answer, Answer)
        assert (answer.question_id, answer.decisions[0].reason) == ("q7", "no")
        assert [type(x.message) for x in letters[1:]] in ([Stop], [])

    asyncio.run(main())


def test_the_text_box_after_the_end_begins_the_next_turn_on_the_same_tape() -> None:
    async def main() -> None:
        run = StandIn()
        shown: list[str] = []
        _, page = connect(run, on_shown=lambda r: shown.append(r.run_id))
        page.hello()
        run.write("first")
        run.end()
        run.inbox.close()
        run.next = StandIn(1)
        page.say({"type": "say", "id": "n", "text": "and now?"})
        await page.until(lambda: page.replies)
        assert page.replies[0]["ok"] is True
        run.next.write("second")
        run.next.end()
        await page.until(lambda: page.have == len(run.log) + len(run.next.log) - 1)
        assert [t["run_id"] for t in page.state["turns"]] == ["s.0", "s.1"]
        assert page.text == "firstsecond"
        assert shown == ["s.1"]

    asyncio.run(main())


def test_a_follow_up_that_cannot_be_says_why() -> None:
    async def main() -> None:
        run = StandIn()
        _, page = connect(run)
        run.end()
        run.inbox.close()
        page.say({"type": "say", "id": "n", "text": "and now?"})
        await page.until(lambda: page.replies)
        assert page.replies[0]["ok"] is False
        assert page.replies[0]["why"] == "A live run."

    asyncio.run(main())


def test_opaque_provider_parts_never_reach_a_page() -> None:
    secret = Opaque("anthropic", '{"signature":"SECRET"}')
    message = Message(
        "assistant", (Thinking("hm", secret), Text("hi")), "anthropic", "end_turn", secret
    )
    for blocks in (True, False):
        assert "SECRET" not in str(page_json(MessageEvent(message=message), whole=blocks))


deltas = st.lists(
    st.tuples(st.sampled_from([TextDelta, ThinkingDelta]), st.integers(0, 1), st.text(max_size=4)),
    max_size=30,
)


@given(deltas, st.randoms(use_true_random=False))
def test_merged_deltas_fold_to_the_same_view(
    pieces: list[tuple[type[TextDelta], int, str]], cut: random.Random
) -> None:
    log = EventLog()
    log.append(RunStart(session_id="s", run_id="s.0", prompt="p", model="m"))
    for kind, block, text in pieces:
        log.append(kind(text=text, block=block))
    events = log.since(0)
    one_by_one, merged = initial(), initial()
    for event in events:
        fold(one_by_one, page_json(event, whole=False))
    position, last = 0, None
    while position < len(events):
        end = cut.randint(position + 1, len(events))
        before = events[position - 1] if position else None
        taken, count, _ = take_batch(events[position:end], before)
        for event_json in whole(taken, last):
            last = event_json
            fold(merged, event_json)
        position += count
    assert merged == one_by_one


def test_a_resumed_run_is_shown_whole_and_not_before_it_goes_on() -> None:
    """Its journal may end in a question that nobody asks any more."""

    async def main() -> None:
        run = StandIn()
        run.log = EventLog(run.log.since(0))
        _, page = connect(run)
        page.hello()
        await page.until(lambda: page.epoch)
        assert page.batches == []
        run.log.append(Resumed(model="m"))
        await page.until(lambda: page.have == 2)
        types = [[event["type"] for event in batch["events"]] for batch in page.batches]
        assert types == [["run_start", "round_start", "resumed"]]

    asyncio.run(main())


@pytest.mark.parametrize("held", [True, False])
def test_a_page_that_speaks_while_the_loop_is_held_hears_at_least_that(
    held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_module, "HELD_S", 0.2)

    async def main() -> list[object]:
        sent: list[dict[str, Any]] = []
        run = StandIn()
        bridge = Bridge(run, sent.append, epoch="e1")
        hello = {"type": "hello", "client": "p", "epoch": None, "have": -1}
        bridge.receive(hello)
        async with asyncio.timeout(30):
            while not any(message["type"] == "tick" for message in sent):
                await asyncio.sleep(0)
        sent.clear()
        threading.Event().wait(0.3 if held else 0)  # a synchronous cell
        thread = threading.Thread(target=bridge.receive, args=(hello,))
        thread.start()
        thread.join()
        return [message["held"] for message in sent]

    assert asyncio.run(main()) == ([True] if held else [])
