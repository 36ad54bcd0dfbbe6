"""Segments and their spans: what is live at a version, found by partition and by time.

A time range is answered from one index. Spans are put into classes by length (class k holds spans shorter than 2^k ns), so the
start of an overlapping span of class k lies within 2^k before the range: one short index scan per class that the table uses,
however many segments there are and however long the longest one is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin._proto.moulin.format.v1 import manifest_pb2 as pb
from moulin.catalog import schema as s
from moulin.formats import manifest as codec
from moulin.model.facts import LiveSegment, SegmentFacts, VectorFacts

NO_TIME = -1
_LAST_CLASS = 62

PartitionFilter = Callable[[int, tuple[bytes | None, ...]], bool]
TimeRange = tuple[int | None, int | None]


def time_class(time_min: int | None, time_max: int | None) -> int:
    """The class of a span by its length; NO_TIME when it has no event time."""
    if time_min is None or time_max is None:
        return NO_TIME
    return min((time_max - time_min).bit_length(), _LAST_CLASS)


def encode_partition(values: Sequence[bytes | None]) -> bytes:
    message = pb.PartitionTuple(values=[pb.PartitionValue(value=value) for value in values])
    return message.SerializeToString(deterministic=True)


def decode_partition(data: bytes) -> tuple[bytes | None, ...]:
    values = pb.PartitionTuple.FromString(data).values
    return tuple(value.value if value.HasField("value") else None for value in values)


def at_version(
    connection: sa.Connection,
    table_id: UUID,
    version: int,
    *,
    partition_filter: PartitionFilter | None = None,
    time_range: TimeRange | None = None,
    with_columns: bool = True,
) -> list[LiveSegment]:
    """The live segments of a table at `version`, in order of their numbers.

    `partition_filter` is asked once per partition of the table. `time_range` is a closed range of event time; None on a side
    leaves it open. Both may let through more than what matches, never less.
    """
    base = _live_query(table_id, version)
    partitions = _partitions(connection, table_id)
    if partition_filter is not None:
        kept = [key for key, (spec_id, values) in partitions.items() if partition_filter(spec_id, values)]
        if not kept:
            return []
        if len(kept) < len(partitions):
            base = base.where(s.segment_spans.c.partition_id.in_(kept))
    queries = [base]
    if time_range is not None and time_range != (None, None):
        classes = connection.execute(sa.select(s.tables.c.time_classes).where(s.tables.c.id == table_id)).scalar_one()
        queries = [_in_range(base, k, time_range) for k in range(_LAST_CLASS + 1) if classes >> k & 1]
    rows = [row for query in queries for row in connection.execute(query).all()]
    rows.sort(key=lambda row: row.number)
    return [_to_live(row, partitions, with_columns) for row in rows]


def by_number(connection: sa.Connection, numbers: Iterable[int], version: int) -> dict[int, LiveSegment]:
    """Those of the segments `numbers` that are live at `version`."""
    spans = s.segment_spans
    found: dict[int, LiveSegment] = {}
    wanted = list(numbers)
    for start in range(0, len(wanted), CHUNK):
        query = _query().where(
            spans.c.segment.in_(wanted[start : start + CHUNK]),
            spans.c.added_version <= version,
            spans.c.removed_version > version,
        )
        rows = connection.execute(query).all()
        places = _partition_rows(connection, {row.partition_id for row in rows})
        found.update({row.number: _to_live(row, places, True) for row in rows})
    return found


def count_rows(connection: sa.Connection, table_id: UUID, version: int) -> int:
    """Live rows at `version`, from facts alone."""
    spans, g, d = s.segment_spans, s.segments, s.deletion_vectors
    query = (
        sa.select(sa.func.sum(g.c.rows - sa.func.coalesce(d.c.cardinality, 0)))
        .select_from(spans.join(g, g.c.number == spans.c.segment).join(d, d.c.id == spans.c.vector_id, isouter=True))
        .where(*_is_live(table_id, version))
    )
    return int(connection.execute(query).scalar_one() or 0)


def _is_live(table_id: UUID, version: int) -> list[sa.ColumnElement[bool]]:
    spans = s.segment_spans
    return [
        spans.c.table_id == table_id,
        spans.c.branch == s.MAIN,
        spans.c.added_version <= version,
        spans.c.removed_version > version,
    ]


def _query() -> sa.Select[Any]:
    spans, g, d = s.segment_spans, s.segments, s.deletion_vectors
    return sa.select(
        g,
        d.c.id.label("vector_id"),
        d.c.path.label("vector_path"),
        d.c.offset,
        d.c.length,
        d.c.cardinality,
    ).select_from(spans.join(g, g.c.number == spans.c.segment).join(d, d.c.id == spans.c.vector_id, isouter=True))


def _live_query(table_id: UUID, version: int) -> sa.Select[Any]:
    return _query().where(*_is_live(table_id, version))


def _in_range(base: sa.Select[Any], k: int, time_range: TimeRange) -> sa.Select[Any]:
    low, high = time_range
    spans = s.segment_spans
    query = base.where(spans.c.time_class == k)
    if high is not None:
        query = query.where(spans.c.time_min <= high)
    if low is not None:
        query = query.where(s.segments.c.time_max >= low)
        if k < _LAST_CLASS:
            query = query.where(spans.c.time_min >= max(low - (1 << k), -(1 << 63)))
    return query


_Places = dict[int, tuple[int, tuple[bytes | None, ...]]]


def _partitions(connection: sa.Connection, table_id: UUID) -> _Places:
    p = s.partitions
    rows = connection.execute(sa.select(p.c.id, p.c.spec_id, p.c.tuple).where(p.c.table_id == table_id))
    return {row[0]: (row[1], decode_partition(row[2])) for row in rows}


def _partition_rows(connection: sa.Connection, ids: set[int]) -> _Places:
    p = s.partitions
    rows = connection.execute(sa.select(p.c.id, p.c.spec_id, p.c.tuple).where(p.c.id.in_(ids)))
    return {row[0]: (row[1], decode_partition(row[2])) for row in rows}


def _to_live(row: Any, partitions: _Places, with_columns: bool) -> LiveSegment:
    spec_id, partition = partitions[row.partition_id]
    stored = pb.SegmentColumns.FromString(row.facts) if with_columns else pb.SegmentColumns()
    facts = SegmentFacts(
        number=row.number,
        path=row.path,
        rows=row.rows,
        size=row.size,
        level=row.level,
        schema_id=row.schema_id,
        spec_id=spec_id,
        partition=partition,
        sha256=row.sha256,
        columns=codec.decode_columns(stored),
        time_min=row.time_min,
        time_max=row.time_max,
        has_lineage=row.has_lineage,
        seq_min=row.seq_min if row.has_lineage else None,
        seq_max=row.seq_max if row.has_lineage else None,
        key_min=row.key_min,
        key_max=row.key_max,
        sort_order_id=row.sort_order_id,
        split_offsets=tuple(stored.split_offsets),
    )
    vector = None
    if row.vector_id:
        vector = VectorFacts(row.vector_id, row.number, row.vector_path, row.offset, row.length, row.cardinality)
    return LiveSegment(facts, row.first_row_id, row.sequence, row.added_version, vector)
