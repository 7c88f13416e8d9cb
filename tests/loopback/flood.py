"""A reply of very many deltas, all different, so that a lost or doubled one is noticed.

Each delta is one word of lower-case letters and a space (the last ends in a full stop): nothing in
it means anything to Markdown, and nothing is trimmed at its end.
"""

from __future__ import annotations

from tests.loopback.script import Reply, Say

DELTAS = 20_000
DELTA_CHARS = 8
_CONSONANTS = "bdfgklmnprst"
_VOWELS = "aeiou"


def word(i: int) -> str:
    """The `i`th word: 7 letters, consonants and vowels in turn, all different up to 2 592 000."""
    letters = []
    for place in range(DELTA_CHARS - 1):
        letters_here = _VOWELS if place % 2 else _CONSONANTS
        i, rest = divmod(i, len(letters_here))
        letters.append(letters_here[rest])
    return "".join(letters)


def flood_pieces(deltas: int = DELTAS) -> tuple[str, ...]:
    """The deltas, each of 8 characters."""
    return tuple(word(i) + (" " if i < deltas - 1 else ".") for i in range(deltas))


def flood_text(deltas: int = DELTAS) -> str:
    """The text they come to."""
    return "".join(flood_pieces(deltas))


def flood(deltas: int = DELTAS, *, pace: float | None = None) -> Reply:
    """The reply; `pace` is deltas per second, None for as fast as the reader takes them."""
    return Reply((Say(flood_pieces(deltas)),), pace=pace)
