"""Nanoseconds in Python: a datetime that holds them, and rows of Arrow as dicts that hold such times."""

# Decisions: docs/decisions/0241, docs/decisions/0720

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Self

import pyarrow as pa
import pyarrow.types as pt

from moulin.model.schema.times import datetime_to_nanos

_EPOCH = datetime(1970, 1, 1)


class NanoDatetime(datetime):
    """A datetime with the nanoseconds that lie behind its microseconds, in `nanosecond`: 0 to 999.

    It equals another time when all digits do, sorts by all of them, and is shown with nine. Arithmetic goes as with any
    datetime, by microseconds. `value` is the number of nanoseconds since 1970 (UTC).
    """

    nanosecond: int = 0

    @classmethod
    def of(cls, nanos: int, *, zoned: bool) -> NanoDatetime:
        """The time that is `nanos` nanoseconds after 1970, in UTC or without a zone.

        >>> moment = moulin.NanoDatetime.of(1_769_860_800_123_456_789, zoned=True)
        >>> str(moment), moment.nanosecond
        ('2026-01-31 12:00:00.123456789+00:00', 789)
        """
        micros, rest = divmod(nanos, 1000)
        at = _EPOCH + timedelta(microseconds=micros)
        zone = UTC if zoned else None
        made = cls(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, zone)
        made.nanosecond = rest
        return made

    @property
    def value(self) -> int:
        """Nanoseconds since 1970 (UTC).

        >>> moment = moulin.NanoDatetime.of(1_769_860_800_123_456_789, zoned=True)
        >>> moment.value
        1769860800123456789
        """
        return datetime_to_nanos(self)

    def isoformat(self, sep: str = "T", timespec: str = "auto") -> str:
        """ISO 8601 with nine digits behind the second, unless `timespec` says otherwise.

        >>> moment = moulin.NanoDatetime.of(1_769_860_800_123_456_789, zoned=True)
        >>> moment.isoformat()
        '2026-01-31T12:00:00.123456789+00:00'
        """
        if timespec != "auto":
            return super().isoformat(sep, timespec)
        text = super().isoformat(sep, "microseconds")
        return f"{text[:26]}{self.nanosecond:03d}{text[26:]}"

    def __str__(self) -> str:
        return self.isoformat(" ")

    def __repr__(self) -> str:
        return f"NanoDatetime({self.isoformat()!r})"

    def replace(self, *parts: Any, **named: Any) -> Self:
        """The same time with other parts. The nanoseconds stay.

        >>> moment = moulin.NanoDatetime.of(1_769_860_800_123_456_789, zoned=True)
        >>> moment.replace(year=2027).isoformat()
        '2027-01-31T12:00:00.123456789+00:00'
        """
        made = super().replace(*parts, **named)
        made.nanosecond = self.nanosecond
        return made

    def astimezone(self, tz: tzinfo | None = None) -> Self:
        """The same moment in another zone.

        >>> moment = moulin.NanoDatetime.of(1_769_860_800_123_456_789, zoned=True)
        >>> from datetime import timedelta, timezone
        >>> moment.astimezone(timezone(timedelta(hours=1))).isoformat()
        '2026-01-31T13:00:00.123456789+01:00'
        """
        made = super().astimezone(tz)
        made.nanosecond = self.nanosecond
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, datetime) and super().__eq__(other) and self.nanosecond == _rest(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.nanosecond)) if self.nanosecond else super().__hash__()

    def __lt__(self, other: datetime) -> bool:  # type: ignore[override]
        return super().__lt__(other) or (super().__eq__(other) and self.nanosecond < _rest(other))

    def __le__(self, other: datetime) -> bool:  # type: ignore[override]
        return self < other or self == other

    def __gt__(self, other: datetime) -> bool:  # type: ignore[override]
        return not self <= other

    def __ge__(self, other: datetime) -> bool:  # type: ignore[override]
        return not self < other

    def __reduce_ex__(self, _: object) -> tuple[Any, ...]:
        return _rebuilt, (self.value, self.tzinfo is not None)


def _rebuilt(value: int, zoned: bool) -> NanoDatetime:
    return NanoDatetime.of(value, zoned=zoned)


def _rest(moment: datetime) -> int:
    """The nanoseconds behind the microseconds, which times of pandas have too."""
    return getattr(moment, "nanosecond", 0)


def to_rows(table: pa.Table | pa.RecordBatch, *, pairs: bool = False) -> list[dict[str, Any]]:
    """The rows as dicts of Arrow's values, but with NanoDatetime for times in nanoseconds, whatever is installed.

    Maps are dicts, of which a key that is stored twice has the last value. With `pairs`, and where keys are lists or
    structs, they are lists of pairs.
    """
    kinds = table.schema.types
    indexes = [index for index, kind in enumerate(kinds) if _has_nanos(kind) or (not pairs and _has_dicts(kind))]
    if not indexes:
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
    for index in indexes:
        field = table.schema.field(index)
        numbers = table.column(index).cast(_as_numbers(field.type))
        table = table.set_column(index, pa.field(field.name, numbers.type), numbers)
    found: list[dict[str, Any]] = table.to_pylist()
    for index in indexes:
        name = table.schema.names[index]
        for row in found:
            row[name] = to_python(row[name], kinds[index], pairs=pairs)
    return found


class SingleRows:
    """The rows of a batch one at a time, each as in `to_rows`, for callers that need only a few."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        kinds, names = batch.schema.types, batch.schema.names
        named = zip(names, kinds, strict=True)
        self._others = [(name, kind) for name, kind in named if _has_nanos(kind) or _has_dicts(kind)]
        columns = (column.cast(_as_numbers(kind)) for column, kind in zip(batch.columns, kinds, strict=True))
        self._values = [(name, _value_of(column)) for name, column in zip(names, columns, strict=True)]

    def row(self, index: int) -> dict[str, Any]:
        row = {name: value(index) for name, value in self._values}
        for name, kind in self._others:
            row[name] = to_python(row[name], kind)
        return row


def _value_of(column: pa.Array) -> Callable[[int], Any]:
    if (pt.is_integer(column.type) or pt.is_float64(column.type)) and not column.null_count:
        value: Callable[[int], Any] = memoryview(column.to_numpy()).__getitem__
        return value
    return lambda index: column[index].as_py()


@lru_cache(maxsize=4096)
def _has_nanos(kind: pa.DataType) -> bool:
    if pt.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return pt.is_nested(kind) and any(_has_nanos(kind.field(index).type) for index in range(kind.num_fields))


def _as_numbers(kind: pa.DataType) -> pa.DataType:
    """The type with longs in place of times in nanoseconds."""
    if not _has_nanos(kind):
        return kind
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_as_numbers(field.type)) for field in kind])
    if pt.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_as_numbers(key.type)), item.with_type(_as_numbers(item.type)))
    if pt.is_nested(kind):
        element = kind.value_field.with_type(_as_numbers(kind.value_type))
        return pa.list_(element, kind.list_size) if pt.is_fixed_size_list(kind) else pa.list_(element)
    return pa.int64()


@lru_cache(maxsize=4096)
def _has_dicts(kind: pa.DataType) -> bool:
    """Whether values have maps that Python's dicts can be."""
    if pt.is_map(kind):
        return not pt.is_nested(kind.key_type) or _has_dicts(kind.key_type) or _has_dicts(kind.item_type)
    return pt.is_nested(kind) and any(_has_dicts(kind.field(index).type) for index in range(kind.num_fields))


def to_python(value: Any, kind: pa.DataType, *, pairs: bool = False) -> Any:
    """`value`, of Arrow's type `kind` with numbers for times in nanoseconds and pairs for maps, as `to_rows` has it."""
    if value is None or not (_has_nanos(kind) or (not pairs and _has_dicts(kind))):
        return value
    if pt.is_struct(kind):
        return {field.name: to_python(value[field.name], field.type, pairs=pairs) for field in kind}
    if pt.is_map(kind):
        key, item = kind.key_type, kind.item_type
        found = [(to_python(one, key, pairs=pairs), to_python(other, item, pairs=pairs)) for one, other in value]
        return found if pairs or pt.is_nested(key) else dict(found)
    if pt.is_nested(kind):
        return [to_python(element, kind.value_type, pairs=pairs) for element in value]
    return NanoDatetime.of(value, zoned=kind.tz is not None)


__all__ = ["NanoDatetime", "SingleRows", "to_python", "to_rows"]
