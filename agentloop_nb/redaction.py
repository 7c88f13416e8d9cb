"""Secrets taken out of what leaves: values that are known, and what has the shape of a key.

A tool's result, what it prints and what it raises go to a model, a journal and a page. None of
them needs the key itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")
"""Where the SDKs look for their keys, whichever of them is in use."""

SHORTEST = 6
"""Shorter values are no secrets; taking them out would tear words apart."""

_KEYS = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic
    r"|\bgh[pousr]_[A-Za-z0-9]{30,}"  # GitHub
    r"|\bAKIA[0-9A-Z]{16}\b"  # AWS
    r"|\bAIza[0-9A-Za-z_-]{35}"  # Google
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|\bhf_[A-Za-z0-9]{30,}"  # Hugging Face
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    re.DOTALL,
)


class Redactor:
    """Takes `secrets` and key shapes out of texts. Called with a text, returns the same or a
    shorter one."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST}
        # The longest first: one may be a part of another.
        self._secrets = sorted(known, key=lambda secret: (-len(secret), secret))

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return _KEYS.sub("[secret]", text)


def keys_in_use(model: object) -> list[str]:
    """The keys that the SDKs would find, and those that an adapter was given (its `keys`)."""
    given = getattr(model, "keys", ())
    found = (*map(os.environ.get, VARIABLES), *given)
    return [key for key in found if isinstance(key, str) and key]
