"""`<think>` tags in a model's text, told apart from it: what stands between them is thinking. Pure.

Many open models write their reasoning into the answer, and servers pass it on as it is. `tagged`
puts a filter behind any decoder. A tag may be split over any number of deltas; what may be the
beginning of one is held back, at most seven characters, so the work is linear in the text.

- An opener counts anywhere in a text but in code (a fence, or a span between backticks), where a
  model writes about tags. One that is never closed runs to the end of its block.
- A closer before anything but blanks is dropped: the template held the opener. Where a template
  opens the thinking and the model writes on in it, say so with `think_tags="open"`: nothing in such
  a stream tells reasoning from an answer until its closer comes.
- Any other closer is text. Line breaks right after a closer belong to the tag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentloop_nb.errors import ProviderError
from agentloop_nb.models.base import (
    CallChunk,
    CallEnd,
    CallStart,
    Decoder,
    Finish,
    ModelDelta,
    OpaqueChunk,
    TextChunk,
    ThinkingChunk,
)

ThinkTags = bool | Literal["open"]
"""Whether tags are looked for; "open" where a reply begins inside of them."""

OPENER, CLOSER = "<think>", "</think>"

_MARK = re.compile(r"[<`~\n]")
_TOKEN = re.compile(r"</?think>|`+|~+|\n")
_BEGUN = re.compile(r"</?(?:t(?:h(?:i(?:n(?:k)?)?)?)?)?\Z")
_FENCE = 3  # backticks or tildes at the start of a line (CommonMark 4.5)

Piece = tuple[Literal["text", "thinking"], str]
_InBlock = TextChunk | ThinkingChunk | OpaqueChunk | CallStart | CallChunk | CallEnd


@dataclass(slots=True)
class _Code:
    """Code that has begun with `length` times `mark`."""

    mark: str
    length: int
    fence: bool
    first_line: bool = True


class _Markdown:
    """As much of Markdown as tells code from prose, one token at a time."""

    def __init__(self) -> None:
        self._code: _Code | None = None
        self._line_start = True
        self._mark, self._length, self._mark_at_start = "", 0, False

    @property
    def in_code(self) -> bool:
        return self._code is not None

    def prose(self, text: str) -> None:
        """What stands between two tokens."""
        if text:
            self._end_marks()
            self._line_start = self._line_start and not text.strip(" ")

    def marks(self, run: str) -> None:
        """Backticks or tildes; a run may come in several deltas."""
        if self._mark == run[0]:
            self._length += len(run)
            return
        self._end_marks()
        self._mark, self._length, self._mark_at_start = run[0], len(run), self._line_start
        self._line_start = False

    def line_end(self) -> None:
        self._end_marks()
        if self._code is not None:
            if self._line_start and not self._code.fence:
                self._code = None  # a span never goes beyond its paragraph
            else:
                self._code.first_line = False
        self._line_start = True

    def tag(self) -> None:
        self._end_marks()
        self._line_start = False

    def _end_marks(self) -> None:
        mark, length, self._mark = self._mark, self._length, ""
        if not mark:
            return
        begins_line = self._mark_at_start and length >= _FENCE
        code = self._code
        if code is None:
            if begins_line or mark == "`":
                self._code = _Code(mark, length, fence=begins_line)
        elif mark == code.mark and self._closes(code, length, begins_line):
            self._code = None

    @staticmethod
    def _closes(code: _Code, length: int, begins_line: bool) -> bool:
        if code.fence and not (code.first_line and code.mark == "`"):
            return begins_line and length >= code.length
        return length == code.length  # backticks after an opening fence make it a span after all


class _Splitter:
    """One block of text as pieces of text and of thinking."""

    def __init__(self, opened: bool) -> None:
        self._thinking = opened
        self._held = ""
        self._markdown = _Markdown()
        self._blank = True  # nothing but blanks so far
        self._after_closer = False

    def feed(self, text: str) -> list[Piece]:
        if text and not self._held and not self._after_closer and not _MARK.search(text):
            return self._plain(text)
        text = self._held + text
        begun = _BEGUN.search(text)
        end = begun.start() if begun else len(text)
        self._held = text[end:]
        return self._pieces(text[:end])

    def _plain(self, text: str) -> list[Piece]:
        """Most deltas: nothing in them that could be a tag, or tell code from prose."""
        if self._thinking:
            return [("thinking", text)]
        self._markdown.prose(text)
        self._blank = self._blank and not text.strip()
        return [("text", text)]

    def flush(self) -> list[Piece]:
        """What was held back and turned out to be no tag."""
        held, self._held = self._held, ""
        return self._pieces(held)

    def _pieces(self, text: str) -> list[Piece]:
        pieces: list[Piece] = []
        start = position = 0
        while position < len(text):
            if self._thinking:
                closer = text.find(CLOSER, position)
                if closer < 0:
                    break
                self._add(pieces, text[start:closer])
                self._thinking, self._after_closer = False, True
                start = position = closer + len(CLOSER)
            elif (tag := self._next_tag(text, position)) is not None:
                self._add(pieces, text[start : tag.start()])
                self._thinking = tag.group() == OPENER
                self._after_closer = not self._thinking
                start = position = tag.end()
            else:
                break
        self._add(pieces, text[start:])
        return pieces

    def _next_tag(self, text: str, position: int) -> re.Match[str] | None:
        """The next tag that counts as one, from `position` in a text that is no thinking."""
        for token in _TOKEN.finditer(text, position):
            gap, word = text[position : token.start()], token.group()
            self._markdown.prose(gap)
            self._blank = self._blank and not gap.strip()
            position = token.end()
            if word == "\n":
                self._markdown.line_end()
            elif word[0] in "`~":
                self._markdown.marks(word)
                self._blank = False
            else:
                self._markdown.tag()
                if not self._markdown.in_code and (word == OPENER or self._blank):
                    return token
                self._blank = False
        rest = text[position:]
        self._markdown.prose(rest)
        self._blank = self._blank and not rest.strip()
        return None

    def _add(self, pieces: list[Piece], text: str) -> None:
        if self._after_closer and not self._thinking:
            text = text.lstrip("\r\n")
            self._after_closer = not text
        if text:
            pieces.append(("thinking" if self._thinking else "text", text))


class _Tagged:
    """A decoder whose texts are split. Blocks are numbered anew, since one may become several."""

    def __init__(self, inner: Decoder, opened: bool) -> None:
        self._inner = inner
        self._opened = opened
        self._splitters: dict[int, _Splitter] = {}
        self._latest: int | None = None  # the text block that may hold something back
        self._numbers: dict[tuple[int, int], int] = {}
        # Of each block: the kind of its latest segment, which one that is, and its own number.
        self._segments: dict[int, tuple[str, int, int]] = {}

    def feed(self, event: Mapping[str, Any]) -> Iterator[ModelDelta]:
        """See `Decoder.feed`."""
        return self._filtered(lambda: self._inner.feed(event))

    def close(self) -> Iterator[ModelDelta]:
        """See `Decoder.close`."""
        yield from self._flush()
        yield from self._filtered(self._inner.close)

    def _filtered(self, decode: Callable[[], Iterable[ModelDelta]]) -> Iterator[ModelDelta]:
        try:
            for delta in decode():
                yield from self._split(delta)
        except ProviderError:
            yield from self._flush()  # an error takes nothing of what came before it
            raise

    def _split(self, delta: ModelDelta) -> list[ModelDelta]:
        if isinstance(delta, Finish):
            return [*self._flush(), delta]
        if delta.block != self._latest:
            return [*self._flush(), *self._of_its_block(delta)]
        return self._of_its_block(delta)

    def _of_its_block(self, delta: _InBlock) -> list[ModelDelta]:
        if not isinstance(delta, TextChunk):
            return [replace(delta, block=self._number(delta.block, 0))]
        splitter = self._splitters.get(delta.block)
        if splitter is None:
            splitter = self._splitters[delta.block] = _Splitter(self._opened)
            self._opened = False
        self._latest = delta.block
        return self._chunks(delta.block, splitter.feed(delta.text))

    def _flush(self) -> list[ModelDelta]:
        block, self._latest = self._latest, None
        return [] if block is None else self._chunks(block, self._splitters[block].flush())

    def _chunks(self, block: int, pieces: Iterable[Piece]) -> list[ModelDelta]:
        chunks: list[ModelDelta] = []
        for kind, text in pieces:
            held = self._segments.get(block)
            if held is None or held[0] != kind:
                segment = 0 if held is None else held[1] + 1
                held = self._segments[block] = (kind, segment, self._number(block, segment))
            number = held[2]
            chunks.append(
                TextChunk(number, text) if kind == "text" else ThinkingChunk(number, text)
            )
        return chunks

    def _number(self, block: int, segment: int) -> int:
        return self._numbers.setdefault((block, segment), len(self._numbers))


def tagged(decoder: Decoder, think_tags: ThinkTags) -> Decoder:
    """`decoder` with think tags taken out of its texts, or itself where they are not looked for."""
    return _Tagged(decoder, think_tags == "open") if think_tags else decoder
