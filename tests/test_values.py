"""Values to JSON and back, the log, and the door."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import types
import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentloop_nb import codec
from agentloop_nb.errors import StoredDataError
from agentloop_nb.events import EVENT_TYPES, Done, TextDelta, Unknown
from agentloop_nb.inbox import ENDED, Inbox, Say, Stop
from agentloop_nb.log import EventLog
from agentloop_nb.messages import NO_USAGE, Message, Opaque, Text, Thinking, ToolCall

any_text = st.text(st.characters(codec=None, exclude_categories=[]), max_size=6)


def _values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field's annotation; what Hypothesis cannot infer for `Any` is JSON."""
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | any_text,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=2),
        max_leaves=4,
    )
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return json_values
    if kind is str:
        return any_text
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if origin is dict:
        return st.dictionaries(any_text, json_values, max_size=2)
    if origin is tuple and args[-1] is not Ellipsis:
        return st.tuples(*map(_values, args))
    if origin is tuple:
        return st.lists(_values(args[0]), max_size=2).map(tuple)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_values(arg) for arg in args])
    if dataclasses.is_dataclass(kind):
        return st.deferred(lambda: _instances(kind))
    return st.from_type(kind)


def _instances(cls: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    fields = {f.name: _values(hints[f.name]) for f in dataclasses.fields(cls) if f.name != "type"}
    return st.builds(cls, **fields)


@pytest.mark.parametrize("cls", EVENT_TYPES, ids=lambda c: c.__name__)
def test_every_event_comes_back_as_it_went(cls: Any) -> None:
    @given(_instances(cls))
    @settings(max_examples=30, suppress_health_check=list(HealthCheck))
    def there_and_back(event: Any) -> None:
        line = codec.dumps(codec.event_to_json(event))
        line.encode()
        back = codec.event_from_json(json.loads(line))
        again = codec.event_to_json(back)
        assert again == codec.event_to_json(event)
        assert type(back) is cls

    there_and_back()


def test_a_signature_comes_back_byte_for_byte() -> None:
    opaque = Opaque("anthropic", '{"type":"thinking","signature":"Eq+/==","z":1, "a":2}')
    message = Message(
        "assistant",
        (
            Thinking("", opaque),
            Text("hé\u202e"),
            ToolCall("c0.0", "x", '{"b":1,"a":[]}', "toolu_1"),
        ),
        "anthropic",
        "tool_use",
    )
    assert codec.from_json(Message, json.loads(codec.dumps(codec.to_json(message)))) == message


def test_an_event_of_a_later_version_is_kept_and_written_back_as_it_came() -> None:
    data = {"type": "teleport", "seq": 4, "at": 1, "t": 0.5, "path": [], "round": 2, "to": "mars"}
    event = codec.event_from_json(data)
    assert isinstance(event, Unknown)
    assert codec.event_to_json(event) == data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"seq": 1}, "without a type"),
        ({"type": "text_delta"}, "text"),
        ({"type": "text_delta", "text": 5}, "text"),
        ({"type": "text_delta", "text": "x", "seq": "1"}, "seq"),
        ({"type": "text_delta", "text": "x", "colour": "red"}, "colour"),
    ],
)
def test_an_event_that_cannot_be_read_says_where(data: dict[str, Any], says: str) -> None:
    with pytest.raises(StoredDataError, match=says):
        codec.event_from_json(data)


def test_unicode_surrogates_and_nan_never_get_out() -> None:
    event = TextDelta(text="a\ud83c b\ud83d\ude00")
    data = codec.event_to_json(event)
    codec.dumps(data).encode()
    assert data["text"] == "a\ufffd b\U0001f600"
    assert codec.clean({"x": float("nan"), "y": [float("inf"), 1.5]}) == {
        "x": None,
        "y": [None, 1.5],
    }


def test_only_one_thread_writes_a_log() -> None:
    log = EventLog()
    log.append(TextDelta(text="mine"))
    failures: list[BaseException] = []

    def other() -> None:
        try:
            log.append(TextDelta(text="theirs"))
        except AssertionError as error:
            failures.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(failures) == 1
    assert len(log) == 1


def test_nothing_comes_after_done() -> None:
    log = EventLog()
    log.append(Done(exit_reason="end_turn", message="", rounds=0, usage=NO_USAGE))
    with pytest.raises(AssertionError, match="last event"):
        log.append(TextDelta(text="late"))


def test_readers_on_several_loops_see_every_event_however_late_they_come() -> None:
    log = EventLog()
    seen: list[list[int]] = []

    async def read() -> None:
        seen.append([event.seq async for event in log.follow()])

    threads = [threading.Thread(target=lambda: asyncio.run(read())) for _ in range(3)]
    for thread in threads[:2]:
        thread.start()
    for i in range(200):
        log.append(TextDelta(text=str(i)))
    log.append(Done(exit_reason="end_turn", message="", rounds=0, usage=NO_USAGE))
    threads[2].start()
    for thread in threads:
        thread.join(30)
    assert seen == [list(range(201))] * 3


def test_a_reader_whose_loop_has_closed_does_not_stop_the_writer() -> None:
    log = EventLog()

    async def leave_open() -> None:
        reader = log.follow()
        log.append(TextDelta(text="a"))
        await anext(reader)

    asyncio.run(leave_open())
    log.append(TextDelta(text="b"))
    assert len(log) == 2


def test_a_restored_log_goes_on_with_its_numbers_and_its_clock() -> None:
    restored = [TextDelta(text="a", seq=0, t=1.0), TextDelta(text="b", seq=17, t=90.0)]
    log = EventLog(restored)
    event = log.append(TextDelta(text="c"))
    assert event.seq == 18
    assert event.t >= 90.0


def test_a_letter_from_any_thread_wakes_the_loop() -> None:
    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop())
        threading.Timer(0.01, inbox.post, [Say("hello")]).start()
        async with asyncio.timeout(20):
            await inbox.wait()
        assert [letter.message for letter in inbox.take()] == [Say("hello")]

    asyncio.run(main())


def test_stop_holds_from_the_moment_it_is_posted() -> None:
    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop())
        inbox.post(Stop("c0.0"))
        assert not inbox.stopping.is_set()
        inbox.post(Stop())
        assert inbox.stopping.is_set()

    asyncio.run(main())


def test_a_closed_door_says_that_the_run_has_ended() -> None:
    async def main() -> None:
        inbox = Inbox(asyncio.get_running_loop())
        told: list[str] = []
        inbox.post(Say("left"), lambda ok, why: told.append(why))
        inbox.close()
        inbox.post(Say("late"), lambda ok, why: told.append(why))
        assert told == [ENDED, ENDED]

    asyncio.run(main())
