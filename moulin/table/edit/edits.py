"""Edits, and the plan for tasks that write them."""

# Decisions: docs/decisions/0248

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from moulin.model.facts import LiveSegment
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import IntegerType, LongType, NestedField, Schema
from moulin.storage.store import Store
from moulin.table.bulk.writer import BulkPlan
from moulin.table.read import hidden
from moulin.table.write.layout import Layout

CLAUSE = "_moulin_clause"
"""The index of an edit's clause."""

SEGMENT = "_moulin_segment"
"""The number of the segment that has the row to update or delete; null for an insert."""

POSITION = "_moulin_at"
"""The position of that row in its segment."""

PLACE: Mapping[str, str] = MappingProxyType({SEGMENT: hidden.SEGMENT, POSITION: hidden.SHOWN_POSITION})
"""The hidden columns of a table that have the same values, by which a query finds the row of an edit."""

_FIRST_ID = 2_000_000_000  # ids of these columns; a table's own are far below


class Action(StrEnum):
    """What a clause does with its rows. UPSERT is for keyed tables: a row replaces the one of the same key, if any."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of a statement. `columns` are those that it gives values for."""

    action: Action
    columns: tuple[str, ...] = ()


class EditSlice(Protocol):
    """The edits of some segments, which one core computes. Sent to a task."""

    @property
    def segments(self) -> Mapping[int, LiveSegment]:
        """The segments that have the rows to update and delete, by number."""

    def edits(self, source: Schema) -> Generator[pa.RecordBatch, None, Any]:
        """The edits, in the schema `source`. What it returns at the end goes to `EditSlices.rest`."""


def _nothing(source: Schema, reports: Sequence[Any]) -> Iterable[pa.RecordBatch]:
    return ()


@dataclass(frozen=True, slots=True)
class EditSlices:
    """Edits that slices compute and write, in this process or on Spark, and those that follow from their reports.

    With `here`, they are too large to be sent elsewhere.
    """

    slices: Sequence[EditSlice]
    rest: Callable[[Schema, Sequence[Any]], Iterable[pa.RecordBatch]] = _nothing
    here: bool = False

    @property
    def size(self) -> int:
        """The bytes of all segments to read."""
        return sum(segment.facts.size for one in self.slices for segment in one.segments.values())


@dataclass(frozen=True, slots=True)
class Edits:
    """The clauses of a statement and the rows they apply to: columns CLAUSE, SEGMENT and POSITION, and those that any
    clause gives. A column that the row's own clause does not give is ignored.

    `rows` is a Spark DataFrame, Arrow batches of `edit_schema`, or `EditSlices`.
    """

    clauses: tuple[Clause, ...]
    rows: object


@dataclass(frozen=True)
class EditPlan:
    """What a task that writes edits must know. Sent to every task.

    `segments` are those of the version that the edits were computed from, by number; `bulk` is there for a keyed table.
    """

    store: Store
    layout: Layout
    clauses: tuple[Clause, ...]
    segments: Mapping[int, LiveSegment]
    segment_bytes: int
    bulk: BulkPlan | None = None

    @property
    def table(self) -> str:
        return self.layout.name

    @cached_property
    def source(self) -> Schema:
        """The schema in which edits come."""
        return edit_schema(self.layout.schema, self.clauses)


def edit_schema(schema: Schema, clauses: Iterable[Clause]) -> Schema:
    """The columns of edits: the three of their own, and what any clause gives, which may be null."""
    given = {name for clause in clauses for name in clause.columns}
    return Schema(
        NestedField(_FIRST_ID, CLAUSE, IntegerType(), required=True),
        NestedField(_FIRST_ID + 1, SEGMENT, LongType(), required=False),
        NestedField(_FIRST_ID + 2, POSITION, LongType(), required=False),
        *(
            replace(field, required=False, initial_default=None, write_default=None)
            for field in schema.fields
            if field.name in given
        ),
    )


def edit_batch(
    source: Schema, clause: int, rows: int, values: Mapping[str, pa.Array], place: tuple[int, pa.Array] | None = None
) -> pa.RecordBatch:
    """Edits of one clause, in the schema `source`, with the values that it gives.

    `place` is the segment of the rows to update or delete, and their positions.
    """
    number, positions = (None, pa.nulls(rows, pa.int64())) if place is None else place
    given = {
        CLAUSE: pa.repeat(pa.scalar(clause, pa.int32()), rows),
        SEGMENT: pa.repeat(pa.scalar(number, pa.int64()), rows),
        POSITION: positions,
        **values,
    }
    schema = arrow_schema(source)
    columns = [given[column.name] if column.name in given else pa.nulls(rows, column.type) for column in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
