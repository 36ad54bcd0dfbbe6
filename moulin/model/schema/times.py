"""Dates, times and timestamps as the numbers that are stored: days, microseconds or nanoseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_NANOS = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([+-]\d\d:\d\d)?")


def date_to_days(value: date) -> int:
    return value.toordinal() - _EPOCH.toordinal()


def days_to_date(days: int) -> date:
    return _EPOCH.date() + timedelta(days)


def time_to_micros(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def micros_to_time(micros: int) -> time:
    """The time of day, or ValueError for a number that is none."""
    seconds, rest = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, rest)


def datetime_to_micros(value: datetime) -> int:
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH.replace(tzinfo=UTC))) // _MICROSECOND


def datetime_to_nanos(value: datetime) -> int:
    """Nanoseconds, of which some datetimes (NanoDatetime, those of pandas) have more than microseconds say."""
    nanosecond: int = getattr(value, "nanosecond", 0)
    return datetime_to_micros(value) * 1_000 + nanosecond


def micros_to_timestamp(micros: int) -> datetime:
    """The moment without a zone, or OverflowError when Python has none for it."""
    return _EPOCH + timedelta(microseconds=micros)


def micros_to_timestamptz(micros: int) -> datetime:
    """The moment in UTC, or OverflowError when Python has none for it."""
    return micros_to_timestamp(micros).replace(tzinfo=UTC)


def text_to_datetime(text: str, *, zoned: bool) -> datetime:
    """The moment, in UTC if `zoned`, of ISO 8601 of at most six digits after the point.

    ValueError for a text that lacks the zone it needs, or has one.
    """
    found = _NANOS.fullmatch(text)
    if found is None or len(found[2] or "") > 6 or (found[3] is not None) is not zoned:
        raise ValueError(f"{text!r} is not a timestamp with{'' if zoned else 'out'} a zone.")
    value = datetime.fromisoformat(text)
    return value.astimezone(UTC) if zoned else value


def text_to_nanos(text: str, *, zoned: bool) -> int:
    """The nanoseconds of ISO 8601 of at most nine digits; ValueError when it lacks the zone it needs, or has one."""
    found = _NANOS.fullmatch(text)
    if found is None or (found[3] is not None) is not zoned:
        raise ValueError(f"{text!r} is not a timestamp with{'' if zoned else 'out'} a zone.")
    return datetime_to_nanos(datetime.fromisoformat(found[1] + (found[3] or ""))) + int((found[2] or "").ljust(9, "0"))


def nanos_to_text(nanos: int, *, zoned: bool) -> str:
    seconds, rest = divmod(nanos, 1_000_000_000)
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{rest:09d}{'+00:00' if zoned else ''}"
