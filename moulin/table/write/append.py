"""Rows into segments of an event table, in this process and in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.model.schema.values import Schema
from moulin.storage.store import Store
from moulin.table.context import Context
from moulin.table.properties import effective
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import Inline, NumberSource, write_batches


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """The plan for tasks that append rows."""

    store: Store
    layout: Layout
    segment_bytes: int

    @classmethod
    def of(cls, context: Context, state: TableState) -> AppendPlan:
        return cls(context.store, Layout.of(state), effective(context.config, state.properties).append_segment_bytes)

    @property
    def source(self) -> Schema:
        return self.layout.schema

    @property
    def table(self) -> str:
        return self.layout.name


def append_rows(
    plan: AppendPlan, rows: Iterable[pa.RecordBatch], numbers: NumberSource, inline: Inline | None = None
) -> list[SegmentFacts]:
    """Write rows of the table's schema as segments, few as `inline` ones; nothing is committed."""
    return write_batches(plan.store, plan.layout, rows, numbers, segment_bytes=plan.segment_bytes, inline=inline)
