"""Parses times, steps and limits of Loki's clients."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final

from moulin.console.loki.logql import SECOND, duration
from moulin.errors import InvalidInput

_NUMBER: Final = re.compile(r"-?\d{1,19}(?:\.\d{1,12})?(?:[eE]\+?\d{1,2})?")
_HOUR: Final = 3600 * SECOND
_ZONED: Final = re.compile(r"(.*?)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)")


def moment_of(text: str | None, otherwise: int) -> int:
    """A time in Unix nanoseconds: as such, in seconds with a part, or as RFC 3339 writes it."""
    if not text:
        return otherwise
    if _NUMBER.fullmatch(text):
        if "." in text or "e" in text.lower():
            return _checked(int(float(text) * SECOND), text)
        return _checked(int(text) * (SECOND if len(text.lstrip("-")) <= 10 else 1), text)
    found = _ZONED.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        whole = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00")).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"A time is Unix nanoseconds, seconds, or such as 2026-01-31T12:00:00Z, not {text[:50]!r}."
        ) from None
    return _checked(int(whole.timestamp()) * SECOND + int((found[2] or "0").ljust(9, "0")), text)


def _checked(found: int, text: str) -> int:
    if not 0 <= found < 1 << 62:
        raise InvalidInput(f"The time {text[:50]!r} is too early or too late.")
    return found


def range_of(start: str | None, end: str | None, since: str | None, now: int) -> tuple[int, int]:
    """The range of a question: an hour back by default."""
    until = moment_of(end, now)
    begin = moment_of(start, until - (duration(since) if since else _HOUR))
    if begin > until:
        raise InvalidInput("The range is empty: its end must not be before its start.")
    return begin, until


def step_of(text: str | None, start: int, end: int) -> int:
    """A step: seconds, or a duration. By default about 250 of them fit, of a second at least."""
    if not text:
        return max(SECOND, (end - start) // 250 // SECOND * SECOND)
    if _NUMBER.fullmatch(text) and math.isfinite(found := float(text)) and 0 < found < 1 << 31:
        return max(1, int(found * SECOND))
    return duration(text)


__all__ = ["moment_of", "range_of", "step_of"]
