"""Two values of each primitive type, and columns that hold them alone and inside structs, lists and maps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

_MOMENT, _OLD = datetime(2024, 1, 2, 3, 4, 5, 6), datetime(1960, 12, 31, 23, 59, 59)

VALUES: Mapping[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "int": (3, -(2**31)),
    "long": (4, -(2**63)),
    "float": (1.5, -0.25),
    "double": (2.5, 1e300),
    "decimal(9, 2)": (Decimal("1.25"), Decimal("-1234567.89")),
    "decimal(38, 5)": (Decimal("1.25000"), Decimal("-123456789012345678901234567890123.00001")),
    "date": (date(2024, 1, 2), date(1900, 1, 1)),
    "time": (time(1, 2, 3, 4), time(0)),
    "timestamp": (_MOMENT, _OLD),
    "timestamptz": (_MOMENT.replace(tzinfo=UTC), _OLD.replace(tzinfo=UTC)),
    "timestamp_ns": (_MOMENT, _OLD),
    "timestamptz_ns": (_MOMENT.replace(tzinfo=UTC), _OLD.replace(tzinfo=UTC)),
    "string": ("text", ""),
    "uuid": (UUID(int=7), UUID(int=2**127 + 5)),
    "fixed[4]": (b"abcd", b"\xff\x00\xff\x00"),
    "binary": (b"xyz", b""),
}


def columns(kind: str) -> list[tuple[str, str] | tuple[str, str, bool]]:
    return [
        ("id", "long", False),
        ("plain", kind),
        ("struct", f"struct<a: {kind}, b: int>"),
        ("list", f"list<{kind}>"),
        ("map", f"map<string, {kind}>"),
        ("key", f"map<{kind}, int>"),
        ("structs", f"list<struct<a: {kind}>>"),
        ("lists", f"struct<a: list<{kind}>>"),
    ]


def row(kind: str, number: int, index: int | None) -> dict[str, Any]:
    """A row with the value of this index, or with nulls."""
    if index is None:
        return {"id": number, **{column[0]: None for column in columns(kind)[1:]}}
    value = VALUES[kind][index]
    return {
        "id": number,
        "plain": value,
        "struct": {"a": value, "b": index},
        "list": [value, None, VALUES[kind][0]],
        "map": {"k": value, "none": None},
        "key": {value: index},
        "structs": [{"a": value}, {"a": None}],
        "lists": {"a": [value, value]},
    }


def shown(value: Any) -> Any:
    """A value in one form: maps as lists of pairs, times of one zone and type, however they were read."""
    match value:
        case dict() if "id" in value:
            return {name: _pairs(one) if name in ("map", "key") else shown(one) for name, one in value.items()}
        case dict():
            return {name: shown(one) for name, one in value.items()}
        case list() | tuple():
            return [shown(one) for one in value]
        case datetime():
            at = value.astimezone(UTC) if value.tzinfo is not None else value
            return at.isoformat(timespec="microseconds"), getattr(value, "nanosecond", 0)
        case bytes() if len(value) == 16:
            return str(UUID(bytes=value))
        case UUID():
            return str(value)
    return value


def _pairs(value: Any) -> Any:
    if value is None:
        return None
    return [[shown(key), shown(one)] for key, one in (value.items() if isinstance(value, dict) else value)]
