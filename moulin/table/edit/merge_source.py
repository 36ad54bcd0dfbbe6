"""The source of a merge: rows of many kinds, as one Arrow table in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.rows.rows import to_batches
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema
from moulin.table.bulk.commit import source_schema
from moulin.table.context import Context
from moulin.table.ports import is_frame

FRAME_BYTES = 64 << 20  # of a DataFrame, as Arrow


@dataclass(frozen=True, slots=True)
class MergeSource:
    """Rows as they were given, in a form that can be read more than once, and their Arrow schema."""

    rows: Any
    schema: pa.Schema

    @classmethod
    def of(cls, context: Context, rows: object, table: Schema) -> MergeSource:
        """REQUIRES: `table` is the schema of the table; Python values of its columns are of its types."""
        if is_frame(rows):
            return cls(rows, context.spark().frame_schema(rows))
        if isinstance(rows, list | tuple) and not rows:
            return cls(rows, arrow_schema(table))
        return cls(*source_schema(rows, table))

    def table(self, context: Context, schema: Schema, name: str) -> pa.Table:
        """All rows, in `schema`. InvalidInput for a DataFrame that is too large to hold; `name` is the table's."""
        batches: Iterable[pa.RecordBatch]
        if is_frame(self.rows):
            plan = _FramePlan(schema, name)
            size = sum(context.spark().map_frame(_measure, plan, self.rows))
            if size > FRAME_BYTES:
                raise InvalidInput(
                    f"The DataFrame has {size >> 20} MiB of rows, but a merge with a condition accepts at most "
                    f'{FRAME_BYTES >> 20} MiB: use lake.sql("merge into {name} ..."), with the DataFrame as a view.'
                )
            batches = context.spark().map_frame(_collect, plan, self.rows)
        else:
            batches = to_batches(self.rows, schema)
        return pa.Table.from_batches(batches, arrow_schema(schema))


@dataclass(frozen=True, slots=True)
class _FramePlan:
    """Fills `moulin.table.ports.FramePlan`."""

    source: Schema
    table: str


def _measure(plan: _FramePlan, rows: Iterable[pa.RecordBatch], numbers: Callable[[], int]) -> list[int]:
    return [sum(batch.nbytes for batch in rows)]


def _collect(plan: _FramePlan, rows: Iterable[pa.RecordBatch], numbers: Callable[[], int]) -> list[pa.RecordBatch]:
    return list(rows)
