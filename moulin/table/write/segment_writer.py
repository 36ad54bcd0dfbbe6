"""Rows in, segments out: split by partition, sorted, written.

The kernel of append, overwrite and of Spark's write tasks.
"""

# Decisions: docs/decisions/0163, docs/decisions/0240, docs/decisions/0340, docs/decisions/0343

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa
from pyroaring import BitMap64

from moulin.formats.segment.tuning import tuning
from moulin.formats.segment.writer import SegmentWriter, nan_fields, segment_facts
from moulin.model.columns.arrays import Integers
from moulin.model.facts import SegmentFacts
from moulin.model.layout.partition_rows import split_by_partition
from moulin.model.layout.sort_rows import sort_indices
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.write.key_index import SegmentKeys
from moulin.table.write.layout import Layout
from moulin.table.write.pieces import pieces

NumberSource = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Inline:
    """The size limit of inline appends, and numbers for inline segments, which have no files."""

    most_bytes: int
    next_number: NumberSource


# Row groups of keyed segments, at every level, unless the table says otherwise: a look-up of one row reads one of them.
KEYED_GROUP_BYTES = 8 << 20

# Appends of at least this size in memory, two row groups of level 1, are bulk loads.
BULK_BYTES = 2 * tuning(1).row_group_bytes

_WRITERS = 4  # segments of one bulk load that are written at once, at most
_INLINE_PARTS = 16  # partitions over which a small append may be spread and stay inline
_WRITE_ROWS = 1 << 20  # rows taken in sorted order at a time, so that a sorted copy of everything is never held


def bulk_level(rows: pa.Table) -> int:
    """The level of new rows of a partition: 1, laid out for scans at once, for a bulk load; 0 for fewer.

    Fewer will be compacted, which writes them again.
    """
    return int(rows.nbytes >= BULK_BYTES)


def numbers_from(first: int, count: int) -> NumberSource:
    """Returns numbers from a reserved block."""
    block = iter(range(first, first + count))
    return lambda: next(block)


def write_batches(
    store: Store,
    layout: Layout,
    batches: Iterable[pa.RecordBatch],
    next_number: NumberSource,
    *,
    segment_bytes: int,
    level: int | None = None,
    inline: Inline | None = None,
) -> list[SegmentFacts]:
    """Write batches that fit the table's schema; each piece of about `segment_bytes` becomes segments by partition.

    With no `level` given, `bulk_level` chooses it. With `inline`, a small piece in few partitions becomes inline
    segments. Nothing is committed. On an error, the files written stay for clean-up.
    """
    written: list[SegmentFacts] = []
    for table in pieces(batches, layout.schema, segment_bytes):
        parts = split_by_partition(table, layout.spec, layout.schema)
        numbers, is_inline = next_number, False
        if inline is not None and table.nbytes <= inline.most_bytes:
            parts = list(parts)
            if is_inline := len(parts) <= _INLINE_PARTS:
                numbers = inline.next_number
        for partition, part in parts:
            chosen = bulk_level(part) if level is None else level
            written += write_sorted(store, layout, part, partition, numbers, level=chosen, inline=is_inline)
            del part
        del table, parts
    return written


def write_sorted(
    store: Store,
    layout: Layout,
    table: pa.Table,
    partition: tuple[bytes | None, ...],
    next_number: NumberSource,
    *,
    level: int,
    lineage: bool = False,
    inline: bool = False,
) -> list[SegmentFacts]:
    """Sort one partition's rows and write them. With `lineage`, `table` has the lineage columns too."""
    order = sort_indices(table, layout.sort_order, layout.schema)
    return write_ordered(
        store, layout, table, partition, next_number, order=order, level=level, lineage=lineage, inline=inline
    )


def write_ordered(
    store: Store,
    layout: Layout,
    table: pa.Table,
    partition: tuple[bytes | None, ...],
    next_number: NumberSource,
    *,
    level: int,
    order: Integers | None = None,
    lineage: bool = False,
    region: int = 0,
    inline: bool = False,
) -> list[SegmentFacts]:
    """Write one partition's rows, in `order` or as they are, as one segment.

    Rows of several times `BULK_BYTES` become as many segments, one range of the order after the other, as threads can
    write at once.
    """
    parts = min(pa.cpu_count(), _WRITERS, table.nbytes // BULK_BYTES) if level else 1
    step = -(-table.num_rows // max(parts, 1))
    nans = nan_fields(table)

    def write(start: int, number: int) -> SegmentFacts:
        rows = [table.slice(start, step)] if order is None else _taken(table, order[start : start + step])
        return write_segment(
            store,
            layout,
            rows,
            partition,
            number,
            level=level,
            lineage=lineage,
            region=region,
            nans=nans,
            inline=inline,
        )

    starts = range(0, table.num_rows, step)
    numbers = [next_number() for _ in starts]
    if len(starts) == 1:
        return [write(0, numbers[0])]
    with ThreadPoolExecutor(len(starts)) as pool:
        return list(pool.map(write, starts, numbers))


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
    region: int = 0,
    nans: Collection[int] | None = None,
    group_bytes: int | None = None,
    inline: bool = False,
    erased: BitMap64 | None = None,
) -> SegmentFacts:
    """Write rows that are in their final order as one segment, and the key index of a keyed one.

    An inline one is not written to storage: its facts hold the file. Rows at `erased` positions have values of others,
    and the key index does not find them.

    `nans` are the ids of the columns that may hold NaN; they are looked for when `tables` is a list. Row groups hold at
    most `group_bytes` of rows in memory, or less at levels and in tables where they are smaller.
    """
    if nans is None and isinstance(tables, list):
        nans = frozenset[int]().union(*map(nan_fields, tables))
    path = layout.place + paths.segment_path(layout.table_id, number, secrets.token_hex(4))
    keys = None if layout.key is None else SegmentKeys(layout.key, erased)
    held = pa.BufferOutputStream() if inline else None
    with store.writer(path) if held is None else nullcontext(held) as sink:
        usual = tuning(level).row_group_bytes if keys is None else KEYED_GROUP_BYTES
        writer = SegmentWriter(
            sink,
            schema=layout.schema,
            level=level,
            lineage=lineage,
            row_group_bytes=usual if group_bytes is None else min(usual, group_bytes),
            nan_fields=nans,
            settings=layout.files,
        )
        for table in tables:
            writer.write(table)
            if keys is not None:
                keys.add(table)
        written = writer.finish()
    event_time = None if layout.event_time is None else layout.schema.find_field(layout.event_time)
    facts = segment_facts(
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
    if held is not None:
        return replace(facts, inline=held.getvalue().to_pybytes())
    return facts if keys is None else keys.write(store, replace(facts, region=region))


def _taken(table: pa.Table, order: Integers) -> Iterator[pa.Table]:
    for start in range(0, len(order), _WRITE_ROWS):
        yield table.take(order[start : start + _WRITE_ROWS])
