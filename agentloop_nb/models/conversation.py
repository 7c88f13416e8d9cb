"""A conversation in a provider's shape, kept while it grows: each message is encoded once.

Without this a session of many rounds would cost the square of their number. What is kept is only
ever added to: a request that begins as a kept conversation takes it over, any other starts anew.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agentloop_nb.messages import Message
from agentloop_nb.models.history import Fitting
from agentloop_nb.models.wire import compact, scrub_text

KEPT = 4
"""How many conversations a model remembers the encoding of: more than one notebook keeps going at
a time, few enough that old ones do not pile up. One that is not remembered is encoded anew."""

Wire = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Encoded:
    """The items of a conversation, and each of them as JSON text."""

    items: list[Wire]
    texts: list[str]

    def since(self, start: int) -> Encoded:
        """The items from `start` on."""
        return Encoded(self.items[start:], self.texts[start:])

    def after(self, first: Wire) -> Encoded:
        """The same behind one more item."""
        return Encoded([first, *self.items], [compact(first), *self.texts])

    def with_item(self, place: int, item: Wire) -> Encoded:
        """The same with another item at `place`."""
        items, texts = list(self.items), list(self.texts)
        items[place], texts[place] = item, compact(item)
        return Encoded(items, texts)


@dataclass(frozen=True, slots=True)
class Payload:
    """A request's body, `encoded` being the conversation, which stands in it at `key`."""

    fields: Wire
    key: str
    encoded: Encoded

    @property
    def body(self) -> Wire:
        """The body as values."""
        return {self.key: self.encoded.items} | self.fields

    def content(self) -> bytes:
        """The body as it goes out, put together from texts that were made once. Halves of a
        character, which no UTF-8 can carry, are replaced: no history may be one that cannot be
        sent."""
        text = compact(self.fields)
        if self.key not in self.fields:  # else it is the user's own
            text = f'{{"{self.key}":[{",".join(self.encoded.texts)}],{text[1:]}'
        return scrub_text(text).encode()

    def plain_body(self) -> Wire:
        """The body as values that can go out, for a client that rewrites it."""
        body: Wire = json.loads(self.content())
        return body


class Conversation(ABC):
    """One conversation in a provider's shape, each message of it encoded once and kept."""

    def __init__(self, fitting: Fitting) -> None:
        self._fitting = fitting
        self._messages: tuple[Message, ...] = ()
        self._settled: list[Wire] = []
        self._texts: list[str] = []  # of what is settled, as JSON

    def __len__(self) -> int:
        return len(self._messages)

    def begins(self, messages: tuple[Message, ...]) -> bool:
        """Whether `messages` are these and perhaps more. The same objects are not looked into."""
        return messages[: len(self._messages)] == self._messages

    def encode(self, messages: tuple[Message, ...]) -> Encoded:
        """All of `messages`, which begin as these do. What is returned is never changed here."""
        for message in messages[len(self._messages) :]:
            for settled in self._fitting.add(message):
                self.settle(settled)
        self._messages = messages
        wire = list(self._settled)
        for last in self._fitting.rest():
            self.append(wire, last)
        return Encoded(wire, _texts(wire, self._settled, self._texts))

    def settle(self, message: Message) -> None:
        """Take a message in for good."""
        before = self._settled[-1:]
        kept = len(self._settled)
        self.append(self._settled, message)
        if before and self._settled[kept - 1] is not before[0]:
            kept -= 1
        self._texts[kept:] = map(compact, self._settled[kept:])

    @abstractmethod
    def append(self, wire: list[Wire], message: Message) -> None:
        """Put a message behind `wire`. Its last item may be replaced by a new one, never changed:
        it may be part of a request that is being sent."""


def _texts(wire: list[Wire], settled: list[Wire], texts: list[str]) -> list[str]:
    """The texts of `wire`, which is what is settled, perhaps with another last item, and more."""
    known = len(settled)
    if settled and wire[known - 1] is not settled[-1]:
        known -= 1
    return [*texts[:known], *map(compact, wire[known:])]


C = TypeVar("C", bound=Conversation)
T = TypeVar("T")


class Conversations(Generic[C]):
    """The conversations that one model is having, the latest first. Safe from any thread."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._kept: list[C] = []
        self._lock = threading.Lock()

    def encode(self, messages: tuple[Message, ...]) -> Encoded:
        """The items of this conversation."""
        return self.at(messages, lambda found: found.encode(messages))

    def at(self, messages: tuple[Message, ...], use: Callable[[C], T]) -> T:
        """What `use` makes of the kept conversation that these messages go on from, alone with
        it."""
        with self._lock:
            going_on = [kept for kept in self._kept if kept.begins(messages)]
            found = max(going_on, key=len, default=None)
            if found is None:
                found = self._make()
            others = [kept for kept in self._kept if kept is not found]
            self._kept = others  # an exception in the middle would leave it half grown
            used = use(found)
            self._kept = [found, *others][:KEPT]
            return used
