"""Dates, times and timestamps as text."""

from __future__ import annotations

import re
from datetime import date, time
from typing import NamedTuple

DAY_NS = 86_400_000_000_000


class Day(NamedTuple):
    days: int


class Instant(NamedTuple):
    """`zoned` when the text named a time zone; then `ns` is in UTC."""

    ns: int
    zoned: bool


class Clock(NamedTuple):
    ns: int


_TIME = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_TIME_PATTERN = re.compile(_TIME)
_DATE_PATTERN = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_INSTANT_PATTERN = re.compile(
    rf"(\d{{4}}-\d{{2}}-\d{{2}})(?:[T ]{_TIME}\s*(Z|UTC|[+-]\d{{2}}(?::?\d{{2}})?)?)?", re.IGNORECASE
)


def read_date(text: str) -> Day | None:
    """YYYY-MM-DD, or None."""
    found = _DATE_PATTERN.fullmatch(text.strip())
    try:
        return Day(date(*map(int, found.groups())).toordinal() - 719163) if found else None
    except ValueError:
        return None


def read_time(text: str) -> Clock | None:
    """HH:MM[:SS[.fraction]], or None."""
    found = _TIME_PATTERN.fullmatch(text.strip())
    return _clock(*found.groups()) if found else None


def read_instant(text: str) -> Instant | None:
    """A date, or a date and a time with or without a zone (Z, UTC, +HH:MM), or None."""
    found = _INSTANT_PATTERN.fullmatch(text.strip())
    if found is None:
        return None
    day, *parts, zone = found.groups()
    start = read_date(day)
    clock = Clock(0) if parts[0] is None else _clock(*parts)
    if start is None or clock is None:
        return None
    ns = start.days * DAY_NS + clock.ns
    if zone is None or zone.upper() in ("Z", "UTC"):
        return Instant(ns, zone is not None)
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 18 or minutes > 59:
        return None
    offset = (hours * 60 + minutes) * 60 * 1_000_000_000
    return Instant(ns - offset if zone[0] == "+" else ns + offset, True)


def _clock(hours: str, minutes: str, seconds: str | None, fraction: str | None) -> Clock | None:
    try:
        moment = time(int(hours), int(minutes), int(seconds or 0))
    except ValueError:
        return None
    whole = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return Clock(whole * 1_000_000_000 + int((fraction or "").ljust(9, "0")))
