"""Rows in, segments out: split by partition, sorted, written.

The kernel of append, overwrite and of Spark's write tasks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from moulin.formats.segment import SegmentWriter, segment_facts
from moulin.model.arrow import arrow_schema
from moulin.model.facts import SegmentFacts
from moulin.model.partition import split_by_partition
from moulin.model.sort import sort_indices
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.layout import Layout

NumberSource = Callable[[], int]

_WRITE_ROWS = 1 << 20  # rows taken in sorted order at a time, so that a sorted copy of everything is never held


def numbers_from(first: int, count: int) -> NumberSource:
    """Hand out a reserved block of segment numbers."""
    block = iter(range(first, first + count))
    return lambda: next(block)


def write_batches(
    store: Store,
    layout: Layout,
    batches: Iterable[pa.RecordBatch],
    next_number: NumberSource,
    *,
    segment_bytes: int,
    level: int = 0,
) -> list[SegmentFacts]:
    """Write batches that fit the table's schema; each run of about `segment_bytes` becomes one segment per partition.

    Nothing is committed. On an error the files written so far are left for clean-up.
    """
    written: list[SegmentFacts] = []
    for table in _runs(batches, layout, segment_bytes):
        for partition, part in split_by_partition(table, layout.spec, layout.schema):
            written.append(write_sorted(store, layout, part, partition, next_number(), level=level))
    return written


def write_sorted(
    store: Store,
    layout: Layout,
    table: pa.Table,
    partition: tuple[bytes | None, ...],
    number: int,
    *,
    level: int,
    lineage: bool = False,
) -> SegmentFacts:
    """Sort one partition's rows and write them as one segment. With `lineage`, `table` has the lineage columns too."""
    order = sort_indices(table, layout.sort_order, layout.schema)
    return write_segment(
        store,
        layout,
        [table] if order is None else _taken(table, order),
        partition,
        number,
        level=level,
        lineage=lineage,
    )


def write_segment(
    store: Store,
    layout: Layout,
    tables: Iterable[pa.Table],
    partition: tuple[bytes | None, ...],
    number: int,
    *,
    level: int,
    lineage: bool = False,
    spec_id: int | None = None,
) -> SegmentFacts:
    """Write rows that are in their final order as one segment."""
    path = paths.segment_path(layout.table_id, number, secrets.token_hex(4))
    with store.writer(path) as sink:
        writer = SegmentWriter(sink, schema=layout.schema, level=level, lineage=lineage)
        for table in tables:
            writer.write(table)
        written = writer.finish()
    event_time = None if layout.event_time is None else layout.schema.find_field(layout.event_time)
    return segment_facts(
        written,
        number=number,
        path=path,
        level=level,
        schema_id=layout.schema.schema_id,
        spec_id=layout.spec.spec_id if spec_id is None else spec_id,
        partition=partition,
        event_time_field=event_time,
        sort_order_id=layout.sort_order.order_id,
    )


def _taken(table: pa.Table, order: pa.Array) -> Iterator[pa.Table]:
    for start in range(0, len(order), _WRITE_ROWS):
        yield table.take(order[start : start + _WRITE_ROWS])


def _runs(batches: Iterable[pa.RecordBatch], layout: Layout, segment_bytes: int) -> Iterator[pa.Table]:
    """Whole tables of about `segment_bytes` each."""
    schema = arrow_schema(layout.schema)
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        size += batch.nbytes
        if size >= segment_bytes:
            yield pa.Table.from_batches(held, schema)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)
