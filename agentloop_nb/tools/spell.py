"""Text made honest for a dialog: what cannot be seen, or turns its surroundings round, is spelt.

A right-to-left mark, a zero-width space, a line separator or an escape code can make a command
look like another one. Here each becomes `\\u202e` and the like; only what is shown changes.
"""

from __future__ import annotations

_KEPT = frozenset("\n\u3000")
"""Unprintable for Python, and plain to see: new lines and the wide space of CJK text."""

_SHORT = {"\t": "\\t", "\r": "\\r"}

_UNSEEN = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F),  # combining grapheme joiner
        (0x115F, 0x1160),  # Hangul fillers
        (0x17B4, 0x17B5),  # Khmer inherent vowels
        (0x180B, 0x180F),  # Mongolian variation selectors
        (0x2800, 0x2800),  # blank Braille pattern
        (0x3164, 0x3164),  # Hangul filler
        (0xFE00, 0xFE0F),  # variation selectors
        (0xFFA0, 0xFFA0),  # half-width Hangul filler
        (0xE0100, 0xE01EF),  # more variation selectors
    )
    for code in range(first, last + 1)
)
"""Letters and marks by their category, with no ink: Unicode's Default_Ignorable_Code_Point and
the blank Braille pattern. Controls, formats, surrogates and separators need no list."""


def spell(text: str) -> str:
    """`text` with every invisible, control, bidi or separator character written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _seen(c) else _escape(c) for c in text)


def _seen(char: str) -> bool:
    return (char.isprintable() or char in _KEPT) and char not in _UNSEEN


def _escape(char: str) -> str:
    code = ord(char)
    return _SHORT.get(char) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
