"""Values with different forms in JSON (bytes, ISO times) and for people (KiB, words)."""

# Decisions: docs/decisions/0670

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


class Bytes(int):
    """A number of bytes, shown to people with a unit."""


class Moment(str):
    """A time in UTC as ISO 8601 with full precision, shown to people in seconds."""

    __slots__ = ()


def moment(nanos: int | None) -> Moment | None:
    """A stored time, in nanoseconds since 1970."""
    if nanos is None:
        return None
    seconds, rest = divmod(nanos, 1_000_000_000)
    digits = f"{rest:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return Moment(f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{digits and '.' + digits}Z")


def shown(value: Any, *, data: bool = False) -> str:
    """A value for people; with `data`, a value of user data, whose lists are shown as in Python."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Bytes():
            return size(value)
        case Moment():
            return f"{value[:10]} {value[11:19]}Z"
        case int() | float():
            return f"{value:,}"
        case bytes():
            return value.hex()
        case Mapping():
            return ", ".join(f"{key}={one if data else shown(one)}" for key, one in value.items())
        case list() | tuple() if not data:
            return ", ".join(f"({shown(one)})" if isinstance(one, Mapping) else shown(one) for one in value)
    return str(value)


def words(name: str) -> str:
    """The name of a value for people: `last_error` is "last error"."""
    return name.replace("_", " ")


def size(count: int) -> str:
    """Bytes for people."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"


__all__ = ["Bytes", "Moment", "moment", "shown", "size", "words"]
