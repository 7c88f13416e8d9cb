"""From bytes to wire events, and the small things every decoder needs. Pure; nothing awaits.

`EventStream` reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)
whose data is JSON. It works on bytes and ends lines at CR and LF only: the line iterators of HTTP
clients also break at U+2028 and U+0085, which may stand unescaped inside a JSON string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agentloop_nb.errors import ProviderError

WireEvent = Mapping[str, Any]

DONE: WireEvent = {"type": "[DONE]"}
"""Stands for the line `data: [DONE]`, which ends a Chat Completions stream and is no JSON."""


class EventStream:
    """Bytes in, wire events out, in whatever pieces the bytes come."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._name = b""
        self._after_cr = False
        self._broken: ProviderError | None = None
        self._other: list[bytes] = []  # lines that are none of an event stream
        self._any_field = False

    def feed(self, chunk: bytes) -> list[WireEvent]:
        """The events that are complete with this chunk.

        Raises ProviderError (kind `protocol`) on data that is not JSON: at once where it is the
        first event of its chunk, else with the next call, so that nothing before it is lost.
        """
        self._raise_broken()
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        self._after_cr = chunk.endswith(b"\r") or (not chunk and self._after_cr)
        lines = chunk.splitlines(keepends=True)
        events: list[WireEvent] = []
        for line in lines:
            if not line.endswith((b"\n", b"\r")):
                self._rest.append(line)
                continue
            if self._rest:
                line = b"".join((*self._rest, line))
                self._rest.clear()
            line = line.rstrip(b"\r\n")
            if line:
                self._field(line)
            elif self._data:
                try:
                    self._dispatch(events)
                except ProviderError as error:
                    self._broken = error
                    break
            else:
                self._name = b""
        if not events:
            self._raise_broken()
        return events

    def close(self) -> list[WireEvent]:
        """An event whose closing blank line never came, if its data is whole all the same."""
        self._raise_broken()
        events: list[WireEvent] = []
        rest = b"".join(self._rest)
        self._rest.clear()
        if rest:
            self._field(rest)
        with suppress(ProviderError):
            self._dispatch(events)
        if self._other and not self._any_field:
            events.append(_instead(b"\n".join(self._other)))
        return events

    def _raise_broken(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _field(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._any_field = True
        elif line.startswith(b"event:"):
            self._name = line[6:].strip()
            self._any_field = True
        elif line.startswith(_OTHER_FIELDS):
            self._any_field = True
        elif not self._any_field:
            self._other.append(line)

    def _dispatch(self, events: list[WireEvent]) -> None:
        data, self._data = b"\n".join(self._data), []
        name, self._name = self._name, b""
        if not data:
            return
        if data.startswith(b"[DONE]"):
            events.append(DONE)
            return
        try:
            event = _json(data)
        except ValueError:
            seen = data[:120].decode("utf-8", "replace")
            raise ProviderError(
                f"The server sent an event that is not JSON: {seen!r}. Look at the server or the "
                "proxy in between, and at the base URL.",
                kind="protocol",
            ) from None
        if not isinstance(event, dict):
            return
        if name == b"error" and event.get("type") != "error":  # told by the name alone
            event = {"type": "error", **({"error": event} if "error" not in event else event)}
            event["type"] = "error"
        events.append(event)


_OTHER_FIELDS = (b"id", b"retry", b":")


def _instead(body: bytes) -> WireEvent:
    """What came in place of a stream: an object with an error is one, anything else raises."""
    with suppress(ValueError):
        found = _json(body)
        if isinstance(found, dict) and found.get("error"):
            return {"type": "error", **found}
    seen = " ".join(body[:200].decode("utf-8", "replace").split())[:120]
    raise ProviderError(
        f"The server answered with no stream of events but with {seen!r}. Look at the base URL, "
        "and for a proxy or a sign-in page in between.",
        kind="protocol",
    )


_raw_decode = json.JSONDecoder().raw_decode


def _json(data: bytes) -> object:
    """What `json.loads` makes of it, less its look for other encodings: an event stream has one."""
    text = data.decode("utf-8", "surrogatepass").strip()
    value, end = _raw_decode(text)
    if end != len(text):
        raise ValueError("something follows")
    return value


class Halves:
    """Holds a high surrogate back until its other half comes.

    Some servers cut a character outside the basic plane between two events, each with one
    `\\uXXXX` escape; either half alone is text that cannot be encoded.
    """

    def __init__(self) -> None:
        self._held: dict[int, str] = {}

    def whole(self, block: int, text: str) -> str:
        """`text` with the half held for this block before it, less a half at its end."""
        if text.isascii() and not self._held:
            return text
        if held := self._held.pop(block, ""):
            text = held + text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held[block] = text[-1]
            text = text[:-1]
        return scrub_text(text)


def scrub_text(text: str) -> str:
    """`text` with split surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


# Wire events are what `json.loads` makes, so these ask for `dict`: asking for `Mapping` costs ten
# times as much, and one delta asks a dozen times.


def text_in(mapping: object, key: str) -> str:
    """The string at `key`, or "" where there is none (None and other types included)."""
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return value if isinstance(value, str) else ""


def count_in(mapping: object, key: str) -> int | None:
    """The number at `key`, or None."""
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return value if isinstance(value, int) else None


def part_of(mapping: object, key: str) -> WireEvent:
    """The object at `key`, or an empty one."""
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return value if isinstance(value, dict) else {}


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def compact(value: object) -> str:
    """JSON text without spaces, keys in the order they came."""
    return _encode(value)
