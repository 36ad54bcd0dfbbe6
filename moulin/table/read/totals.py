"""Counts, least and greatest values of a table's rows by facts of its segments, where these are exact.

A bound of a segment is exact when the segment has no deleted rows and the bound cannot have been cut or rounded: texts
and bytes are cut, a zero of a float has lost its sign, and NaN is above all numbers for Spark and in no bound. A bound
that is not exact does no harm when an exact one of another segment lies beyond it.
"""

# Decisions: docs/decisions/0302

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from moulin.model.entities import TableState
from moulin.model.facts import ColumnFacts, LiveSegment
from moulin.model.layout.bounds import bound_from_bytes
from moulin.model.layout.partition_spec import IdentityTransform, PartitionField
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.defaults import default_value
from moulin.model.schema.values import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

_FLOATS = (FloatType, DoubleType)
_TIMES = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_WHOLE = (BooleanType, IntegerType, LongType, DateType, DecimalType, *_TIMES)

COUNT = "rows"


class _Unknown(Exception):
    """Facts do not tell."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which totals: of the rows with the same values in the columns `by`, how many there are, and the least and the
    greatest values of other columns. All are columns of the table, by name.
    """

    by: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    greatest: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[str, ...]:
        return (*self.least, *self.greatest)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.by, *self.ends)


@dataclass(slots=True)
class _End:
    """The least or the greatest value of a column so far, and the furthest of those that are not exact."""

    is_beyond: Callable[[Any, Any], bool]
    exact: Any = None
    unsure: Any = None

    def add(self, value: Any, *, exact: bool) -> None:
        known = self.exact if exact else self.unsure
        if known is None or self.is_beyond(value, known):
            if exact:
                self.exact = value
            else:
                self.unsure = value

    @property
    def value(self) -> Any:
        """The value; None when all are null."""
        if self.unsure is not None and (self.exact is None or self.is_beyond(self.unsure, self.exact)):
            raise _Unknown
        return self.exact


@dataclass(slots=True)
class _Total:
    ends: list[_End]
    rows: int = 0


@dataclass(frozen=True)
class _Totals:
    state: TableState
    wanted: Wanted
    found: dict[tuple[Any, ...], _Total] = field(default_factory=dict)

    @cached_property
    def by(self) -> list[NestedField]:
        found = [self._field(name, (*_WHOLE, StringType)) for name in self.wanted.by]
        specs = self.state.specs.values()
        partitions = {one.source_id for spec in specs for one in spec.fields if _is_identity(one)}
        if any(isinstance(one.field_type, StringType) and one.field_id not in partitions for one in found):
            raise _Unknown
        return found

    @cached_property
    def ends(self) -> list[NestedField]:
        return [self._field(name, (*_WHOLE, *_FLOATS)) for name in self.wanted.ends]

    def _field(self, name: str, kinds: tuple[type[PrimitiveType], ...]) -> NestedField:
        found = next((one for one in self.state.schema.fields if one.name == name), None)
        if found is None or not isinstance(found.field_type, kinds):
            raise _Unknown
        return found

    def add(self, segment: LiveSegment) -> None:
        facts = {one.field_id: one for one in segment.facts.columns}
        key = tuple(self._constant(segment, one, facts.get(one.field_id)) for one in self.by)
        total = self.found.get(key)
        if total is None:
            least = len(self.wanted.least)
            ends = [_End(_is_less if index < least else _is_greater) for index in range(len(self.ends))]
            total = self.found[key] = _Total(ends)
        total.rows += segment.live_rows
        for index, (one, end) in enumerate(zip(self.ends, total.ends, strict=True)):
            self._add_end(segment, one, facts.get(one.field_id), end, least=index < len(self.wanted.least))

    def _add_end(
        self, segment: LiveSegment, column: NestedField, facts: ColumnFacts | None, end: _End, *, least: bool
    ) -> None:
        if self._is_null(segment, column, facts):
            return
        assert facts is not None
        floating = isinstance(column.field_type, _FLOATS)
        bound = facts.lower if least else facts.upper
        if bound is None or (floating and facts.nans != 0):
            raise _Unknown
        assert isinstance(column.field_type, PrimitiveType)
        value = bound_from_bytes(column.field_type, bound)
        end.add(value, exact=segment.vector is None and not (floating and value == 0))

    def _is_null(self, segment: LiveSegment, column: NestedField, facts: ColumnFacts | None) -> bool:
        """Whether all values of a column are null. Facts that say nothing of the column leave it unknown."""
        stored = self.state.schemas[segment.facts.schema_id]
        elsewhere = segment.facts.file_of(column.field_id) is not None
        if not elsewhere and column.field_id not in stored.field_ids and default_value(column) is None:
            return True
        if facts is None or facts.values != segment.facts.rows:
            raise _Unknown
        return facts.nulls == facts.values

    def _constant(self, segment: LiveSegment, column: NestedField, facts: ColumnFacts | None) -> Any:
        """The one value that a column has in a segment."""
        assert isinstance(column.field_type, PrimitiveType)
        spec = self.state.specs[segment.facts.spec_id]
        for one, value in zip(spec.fields, segment.facts.partition, strict=True):
            if one.source_id == column.field_id and _is_identity(one):
                return None if value is None else bound_from_bytes(column.field_type, value)
        if self._is_null(segment, column, facts):
            return None
        assert facts is not None
        known = facts.lower is not None and facts.lower == facts.upper and facts.nulls == 0
        if not known or not isinstance(column.field_type, _WHOLE):
            raise _Unknown
        assert facts.lower is not None
        return bound_from_bytes(column.field_type, facts.lower)

    def to_arrow(self) -> pa.Table:
        keys, totals = list(self.found), list(self.found.values())
        arrays = [_array(one, [key[index] for key in keys]) for index, one in enumerate(self.by)]
        arrays.append(pa.array([total.rows for total in totals], pa.int64()))
        arrays += [_array(one, [total.ends[index].value for total in totals]) for index, one in enumerate(self.ends)]
        names = [*(f"by {index}" for index in range(len(self.by))), COUNT]
        return pa.table(arrays, names=[*names, *(f"end {index}" for index in range(len(self.ends)))])


def may_be_known(state: TableState, wanted: Wanted) -> bool:
    """Whether facts of some segments can be exact for these columns. Without it `totals_of` returns None."""
    totals = _Totals(state, wanted)
    try:
        _ = totals.by, totals.ends
    except _Unknown:
        return False
    return True


def totals_of(state: TableState, segments: Sequence[LiveSegment], wanted: Wanted) -> pa.Table | None:
    """A row for each combination of values that live rows of these segments have; None where facts are not exact.

    The columns are those of `by`, the number of rows, least and greatest values, in this order.
    REQUIRES: segments come with facts of the wanted columns.
    """
    totals = _Totals(state, wanted)
    try:
        for segment in segments:
            if segment.live_rows:
                totals.add(segment)
        return totals.to_arrow()
    except _Unknown:
        return None


def _is_identity(field: PartitionField) -> bool:
    return isinstance(field.transform, IdentityTransform)


def _is_less(one: Any, other: Any) -> bool:
    return bool(one < other)


def _is_greater(one: Any, other: Any) -> bool:
    return bool(one > other)


def _array(column: NestedField, values: list[Any]) -> pa.Array:
    kind = arrow_type(column.field_type)
    if isinstance(column.field_type, DateType):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind) if isinstance(column.field_type, _TIMES) else pa.array(values, kind)
