"""What a provider signs or encrypts, made so that a checker can tell its own from anything else.

Deterministic, with a key of the tests' own, and stateless: a signature given out by one server is
good at the next, as a provider's is, and one changed byte of it or of what it signs is noticed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

_KEY = b"loopback"
_MAC_BYTES = 24


def _mac(data: bytes) -> bytes:
    return hmac.new(_KEY, data, hashlib.sha256).digest()[:_MAC_BYTES]


def seal(text: str) -> str:
    """Ciphertext for a reader that holds the key, as base64."""
    data = hashlib.sha256(text.encode()).digest()
    return base64.b64encode(_mac(data) + data).decode()


def is_sealed(sealed: str) -> bool:
    """Whether this came from `seal` (or `sign`), unchanged."""
    data = _opened(sealed)
    return data is not None


def sign(text: str, *, hidden: bool = False) -> str:
    """A signature of reasoning that is shown (or withheld, where `hidden`), as base64."""
    data = (b"h" if hidden else b"s") + hashlib.sha256(text.encode()).digest()
    return base64.b64encode(_mac(data) + data).decode()


def is_signed(text: str, signature: str) -> bool:
    """Whether the signature is one of ours and of this text, or of text withheld ("")."""
    data = _opened(signature)
    if data is None or data[:1] not in (b"s", b"h"):
        return False
    if data[:1] == b"h":
        return text == ""
    return data[1:] == hashlib.sha256(text.encode()).digest()


def _opened(sealed: str) -> bytes | None:
    try:
        raw = base64.b64decode(sealed, validate=True)
    except ValueError:
        return None
    mac, data = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    return data if data and hmac.compare_digest(mac, _mac(data)) else None


def token(*parts: str, length: int = 24) -> str:
    """Letters and digits that follow from `parts`: what ids end in."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return digest[:length]
