"""The order of a scan: its columns, and the comparison of rows.

Nulls come first in ascending and last in descending columns, and NaN is greater than every number, as in Spark.
"""

# Decisions: docs/decisions/0313

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.facts import ColumnFacts
from moulin.model.names import did_you_mean
from moulin.model.predicate.condition import Column
from moulin.model.predicate.prune import state_of_facts
from moulin.model.schema.values import (
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    Schema,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

OrderBy: TypeAlias = "str | Sequence[str] | None"
"""The type of `order_by=`: "ts desc", or several, as a list or separated by commas."""

Rank: TypeAlias = tuple[int, Any]
"""The rank of a value in its column: below all, null, a value, NaN, above all."""

_BELOW, _NULL, _VALUE, _NAN, _ABOVE = range(5)
_LOWEST: Rank = (_BELOW, 0)
_HIGHEST: Rank = (_ABOVE, 0)
# Types whose bounds compare like their values, as Python integers, floats and strings.
_RANKED = (
    IntegerType | LongType | DateType | TimeType | FloatType | DoubleType | StringType
    | TimestampType | TimestamptzType | TimestampNanoType | TimestamptzNanoType
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Key:
    field: NestedField
    descending: bool


class Order:
    """`keys` are columns of one schema, the most significant first."""

    def __init__(self, keys: Sequence[_Key]) -> None:
        self.keys = tuple(keys)
        self.names = tuple(key.field.name for key in keys)
        self.first: NestedField = keys[0].field
        self._descending = keys[0].descending
        self._column = Column((self.first.name,), self.first.field_id, self.first.field_type)

    def best(self, facts: Mapping[int, ColumnFacts], rows: int) -> Rank:
        """A lower bound of the rank, by the first key, of all rows of a part with these statistics."""
        unknown = _HIGHEST if self._descending else _LOWEST
        if not isinstance(self.first.field_type, _RANKED):
            return unknown
        domain = state_of_facts([self._column], facts, rows).get(self.first.field_id)
        if domain is None:
            return unknown
        found: list[Rank] = [(_NULL, 0)] if domain.null else []
        found += [(_NAN, 0)] if domain.nan else []
        if domain.value:
            bound = domain.upper if self._descending else domain.lower
            found.append(unknown if bound is None else (_VALUE, bound))
        return (max if self._descending else min)(found, default=_LOWEST if self._descending else _HIGHEST)

    def rank(self, value: pa.Scalar) -> Rank:
        """The rank of a value of the first key."""
        if not value.is_valid:
            return (_NULL, 0)
        if not isinstance(self.first.field_type, _RANKED):
            return _LOWEST if self._descending else _HIGHEST
        if pt.is_temporal(value.type):
            return (_VALUE, value.value)
        plain = value.as_py()
        return (_NAN, 0) if plain != plain else (_VALUE, plain)

    def before(self, one: Rank, other: Rank) -> bool:
        return one > other if self._descending else one < other

    def may_beat(self, best: Rank, worst: Rank) -> bool:
        """Whether a part may hold a row before the rank `worst`; `best` is the rank of its best row."""
        return self.before(best, worst) or (best == worst and len(self.keys) > 1)

    def sorted(self, table: pa.Table, limit: int | None = None) -> pa.Table:
        """The first `limit` rows in this order; `table` has all columns of `names`."""
        if limit is not None and limit < table.num_rows:
            values, keys = self._sortable(table)
            table = table.take(pc.select_k_unstable(values, limit, keys))
        values, keys = self._sortable(table)
        return table.take(pc.sort_indices(values, keys))

    def _sortable(self, table: pa.Table) -> tuple[pa.Table, list[tuple[str, str]]]:
        """Columns to sort by, with directions. A key with nulls or NaN gets an extra column before it, because Arrow
        puts both at the same end."""
        columns: dict[str, pa.ChunkedArray] = {}
        keys: list[tuple[str, str]] = []
        for number, key in enumerate(self.keys):
            direction = "descending" if key.descending else "ascending"
            values = _plain(table.column(key.field.name))
            special = pc.is_null(values, nan_is_null=True) if pt.is_floating(values.type) else pc.is_null(values)
            if pc.any(special).as_py():
                nan = pc.and_(special, pc.is_valid(values))
                kind = pc.if_else(nan, _int8(_NAN), pc.if_else(special, _int8(_NULL), _int8(_VALUE)))
                columns[f"{number} kind"] = kind
                keys.append((f"{number} kind", direction))
            columns[f"{number}"] = values
            keys.append((f"{number}", direction))
        return pa.table(columns), keys


def parse_order(order_by: OrderBy, schema: Schema) -> Order | None:
    """Parse the order of a user. InvalidInput says what is wrong."""
    if order_by is None:
        return None
    own = {field.name: field for field in schema.fields}
    parts = order_by.split(",") if isinstance(order_by, str) and order_by not in own else order_by
    parts = [parts] if isinstance(parts, str) else list(parts)
    if not parts or not all(isinstance(part, str) and part.strip() for part in parts):
        raise InvalidInput("order_by takes one or more columns, each optionally with asc or desc: order_by='ts desc'.")
    keys = [_key(part, own) for part in parts]
    if len({key.field.name for key in keys}) < len(keys):
        raise InvalidInput("order_by names a column twice.")
    return Order(keys)


def _key(part: str, own: Mapping[str, NestedField]) -> _Key:
    name, descending = part, False
    if part not in own:
        name = part.strip()
        head, _, last = name.rpartition(" ")
        if head and last.lower() in ("asc", "desc"):
            name, descending = head.rstrip(), last.lower() == "desc"
        if name not in own and len(name) > 2 and name[0] == name[-1] and name[0] in '"`':
            name = name[1:-1]
    if name not in own:
        raise InvalidInput(f"order_by names {name!r}, which is not a column.{did_you_mean(name, own)}")
    if not isinstance(own[name].field_type, PrimitiveType):
        raise InvalidInput(
            f"order_by cannot use {name!r}: rows cannot be ordered by a column of type {own[name].field_type}."
        )
    return _Key(own[name], descending)


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that Arrow can sort in the same order."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
    return values.cast(pa.int8()) if pt.is_boolean(values.type) else values


def _int8(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int8())


__all__ = ["Order", "OrderBy", "Rank", "parse_order"]
