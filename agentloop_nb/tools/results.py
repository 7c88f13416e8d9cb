"""What a tool returned, made into what a model can read: text, and images beside it.

Objects of numpy, pandas, matplotlib and Pillow are known by what they can do, never by import.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pydantic import BaseModel

from agentloop_nb.codec import clean_text
from agentloop_nb.messages import Image, Outcome
from agentloop_nb.tools.failures import told_to_model, told_to_person

MAX_IMAGE_BYTES = 3_932_160
"""Largest image handed to a model, in bytes: 5 MiB once it is base64, Anthropic's limit."""

_MOST_ITEMS = 100_000
"""Most items taken from one iterator or array."""
_MOST_ROWS = 100
_DEEPEST = 60

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True)
class Normalised:
    """`content` and `images` for the model, `display` for a person where it says more."""

    content: str
    images: tuple[Image, ...] = ()
    display: str | None = None
    outcome: Outcome = "ok"


def normalise(value: object) -> Normalised:
    """Text as it is; anything else as strict JSON (NaN as "NaN"), a table, or an image.

    Never raises: an object whose own methods fail is described.
    """
    if isinstance(value, str):
        return Normalised(clean_text(value) if value.strip() else "(empty text)")
    if value is None:
        return Normalised("(no result)")
    try:
        return _normalised(value)
    except Exception as error:
        kind = type(value).__qualname__
        return Normalised(f"(a {kind} object that cannot be shown: {told_to_model(error)})")


def _normalised(value: object) -> Normalised:
    if (table := _table(value, least=1)) is not None:
        return Normalised(clean_text(table))
    walk = _Walk()
    plain = walk.plain(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return Normalised(clean_text(text) or "(empty text)", tuple(walk.images))


def failure(error: BaseException) -> Normalised:
    """What a raised exception says to the model, and to a person."""
    return Normalised(told_to_model(error), display=told_to_person(error), outcome="error")


def limit(text: str, max_chars: int | None, place: str = "") -> str:
    """`text` in at most `max_chars` characters: its head and tail, how many are missing, and
    where all of it lies."""
    if max_chars is None or len(text) <= max_chars:
        return text
    room = max_chars - len(_marker(len(text), place))
    if room <= 0 and place:
        return limit(text, max_chars)
    if room <= 0:
        return text[:max_chars]
    tail = room // 3
    head = room - tail
    return text[:head] + _marker(len(text) - room, place) + (text[-tail:] if tail else "")


def _marker(missing: int, place: str) -> str:
    where = f"; the whole text is in {place}" if place else ""
    return f"\n[… {missing} characters are missing here{where} …]\n"


class _Walk:
    """One value on its way to JSON. Images met on the way are collected in `images`."""

    def __init__(self) -> None:
        self.images: list[Image] = []
        self._above: list[int] = []

    def plain(self, value: object) -> object:
        match value:
            case str():
                return value
            case None | bool():
                return value
            case enum.Enum():
                return self.plain(value.value)
            case int():
                return int(value)
            case float():
                return float(value) if -_HUGE < value < _HUGE else _no_number(value)
            case bytes() | bytearray() | memoryview():
                return self._bytes(bytes(value))
            case Image():
                return self._image(value)
            case BaseException():
                return told_to_model(value)
        if id(value) in self._above or len(self._above) > _DEEPEST:
            return f"(a {type(value).__name__} inside itself)"
        self._above.append(id(value))
        try:
            return self._composed(value)
        finally:
            self._above.pop()

    def _composed(self, value: object) -> object:
        match value:
            case BaseModel():
                return self._mapping(value.model_dump(warnings=False))
            case Mapping():
                return self._mapping(value)
            case list() | tuple():
                return [self.plain(item) for item in value]
            case AbstractSet():
                return [self.plain(item) for item in sorted(value, key=_order)]
            case datetime.date() | datetime.time():
                return value.isoformat()
            case type():
                return value.__qualname__
        if dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            return self._mapping({f.name: getattr(value, f.name) for f in fields})
        return self._foreign(value)

    def _foreign(self, value: object) -> object:
        if drawn := _drawn(value):
            return self._bytes(drawn)
        if isinstance(value, Iterator):
            return self._drained(value)
        if (table := _table(value, least=2)) is not None:
            return table
        if (values := _array(value)) is not None:
            return self.plain(values)
        return _said(value)

    def _mapping(self, value: Mapping[object, object] | Mapping[str, object]) -> object:
        return {_key(key): self.plain(item) for key, item in value.items()}

    def _drained(self, values: Iterable[object]) -> object:
        items = [self.plain(item) for item in itertools.islice(values, _MOST_ITEMS)]
        if len(items) == _MOST_ITEMS:
            items.append(f"(only the first {_MOST_ITEMS} items were taken)")
        return items

    def _bytes(self, data: bytes) -> str:
        kind = sniff(data)
        if kind is None:
            return _text_of(data)
        if len(data) > MAX_IMAGE_BYTES:
            return (
                f"({kind} of {len(data)} bytes: too large to be shown, the limit is "
                f"{MAX_IMAGE_BYTES})"
            )
        return self._image(Image(kind, base64.b64encode(data).decode()))

    def _image(self, image: Image) -> str:
        self.images.append(image)
        return f"(image {len(self.images)}: {image.media_type})"


_HUGE = float("inf")


def sniff(data: bytes) -> str | None:
    """The media type of an image that models take, by its first bytes."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if data.startswith(start)), None)


def _no_number(value: float) -> str:
    """JSON has no word for these; null would read as "missing"."""
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _text_of(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"({len(data)} bytes, beginning {data[:16].hex(' ')})"
    return text if "\0" not in text else f"({len(data)} bytes, beginning {data[:16].hex(' ')})"


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, enum.Enum):
        return _key(key.value)
    return key.isoformat() if isinstance(key, datetime.date | datetime.time) else str(key)


def _order(value: object) -> tuple[str, str]:
    """A stable order for a set, whatever is in it, so that equal sets read the same."""
    return type(value).__name__, f"{value:>30}" if isinstance(value, int) else _said(value)


def _drawn(value: object) -> bytes | None:
    """A figure or image as PNG or JPEG bytes, by the methods that notebooks use."""
    for method in ("_repr_png_", "_repr_jpeg_"):
        if callable(draw := getattr(type(value), method, None)):
            made = draw(value)
            made = made[0] if isinstance(made, tuple) else made
            data = base64.b64decode(made) if isinstance(made, str) else made
            if isinstance(data, bytes) and sniff(data):
                return data
    if type(value).__module__.startswith("matplotlib."):
        figure = value if hasattr(value, "savefig") else getattr(value, "figure", None)
        if callable(save := getattr(figure, "savefig", None)):
            save(buffer := io.BytesIO(), format="png")
            return buffer.getvalue()
    return None


def _table(value: object, least: int) -> str | None:
    """A table of at least `least` dimensions as text, at most `_MOST_ROWS` rows of it (pandas'
    `to_string`). A series inside something else is better off as a list."""
    write = getattr(type(value), "to_string", None)
    if not callable(write) or len(getattr(value, "shape", ())) < least:
        return None
    return str(write(value, max_rows=_MOST_ROWS))


def _array(value: object) -> object | None:
    """An array, a series or a scalar of numpy or pandas as Python's own values."""
    convert = getattr(type(value), "tolist", None)
    if not callable(convert) or getattr(value, "size", 1) > _MOST_ITEMS:
        return None
    made: object = convert(value)
    return made if type(made) is not type(value) else None


def _said(value: object) -> str:
    """What an object says of itself; without the address, which would differ at each call."""
    if callable(markdown := getattr(type(value), "_repr_markdown_", None)):
        text = markdown(value)
        if isinstance(text, str) and text:
            return text
    kind = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return f"(a {kind.__qualname__} object)"
    return str(value)
