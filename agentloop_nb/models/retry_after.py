"""How long a provider asks us to wait before the next request, read from its headers. Pure.

`Retry-After` in seconds or as a date (RFC 9110, 10.2.3), `retry-after-ms`, and the reset headers of
Anthropic (RFC 3339 times) and OpenAI (durations such as `6m0s`) of whatever is used up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 60.0
"""The longest wait that is obeyed: as long as the circuit breaker waits by default."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


def wait_asked(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, from 0 to `LONGEST_S`; None where the headers do not say or make no sense.

    `headers` has lower-case names; `now` is seconds since 1970, what dates are counted from.
    """
    asked = _number(headers.get("retry-after-ms", ""))
    if asked is not None:
        asked /= 1000
    else:
        after = headers.get("retry-after", "").strip()
        asked = _number(after)
        if asked is None:
            asked = _until(after, now)
    if asked is None:
        asked = _reset(headers, now)
    return None if asked is None else min(max(asked, 0.0), LONGEST_S)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _until(text: str, now: float) -> float | None:
    """Seconds to an HTTP date or an RFC 3339 time."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            when = parse(text)
            return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now
        except (ValueError, OverflowError):
            continue
    return None


def _reset(headers: Mapping[str, str], now: float) -> float | None:
    """The latest reset of a limit of which nothing remains."""
    waits = []
    for name, value in headers.items():
        if "ratelimit" in name and "reset" in name:
            if headers.get(name.replace("reset", "remaining"), "").strip() != "0":
                continue
            wait = _duration(value.strip())
            waits.append(_until(value.strip(), now) if wait is None else wait)
    return max((wait for wait in waits if wait is not None), default=None)


def _duration(text: str) -> float | None:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
