"""The change feed of a table in Spark: the driver plans the changed segments from the catalog, and tasks read them.

Tasks need no catalog. Rows of one version may come from several tasks, in any order; `_version` tells.
"""

# Decisions: docs/decisions/0251

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from moulin.catalog.segments.feed import FeedEntry, FeedSegment
from moulin.lake import Lake
from moulin.model.columns.batching import packed
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import ROW_ID
from moulin.model.schema.values import Schema
from moulin.model.where import Where, parse_where
from moulin.pipeline.read.batches import spark_arrow_schema, to_spark
from moulin.pipeline.read.columns import spark_schema
from moulin.pipeline.read.segment_scan import PARTITION_BYTES
from moulin.table.commit.vectors import VectorCache
from moulin.table.read.feed import check_columns, optional
from moulin.table.read.feed_reader import CHANGE_TYPE, COMMIT_TIMESTAMP, VERSION, FeedReader, may_match
from moulin.table.read.feed_schemas import shown_as_now
from moulin.table.read.quarantine import refuse_quarantined
from moulin.table.read.scan import facts_by_field

_MATCHED_SHARES = 64  # each of them is sent, and matches, the whole version

_FEED = StructType(
    [
        StructField(CHANGE_TYPE, StringType(), False),
        StructField(ROW_ID, LongType(), False),
        StructField(VERSION, LongType(), False),
        StructField(COMMIT_TIMESTAMP, TimestampType(), False),
    ]
)


def feed_schema(state: TableState) -> StructType:
    """The schema of a table's change feed in Spark."""
    check_columns(state, None)
    return StructType([*_FEED, *spark_schema(optional(state.schema))])


@dataclass(frozen=True, slots=True)
class _Part:
    """The input of one task from a version: all of `entry`, or the segments at the indexes `share`."""

    entry: FeedEntry
    share: tuple[int, ...] | None


@dataclass
class _Parts(InputPartition):
    """The input of one task, and its settings."""

    reader: FeedReader
    parts: tuple[_Part, ...]


def feed_frame(spark: SparkSession, lake: Lake, state: TableState, since: int) -> DataFrame:
    """The feed of (since, state.version] as rows that the tasks of a query read."""
    columns = feed_schema(state)
    parts = [pickle.dumps(part) for part in plan(lake, state, since, columns)]
    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(partial(_read_indexes, parts, columns), columns)


def _read_indexes(
    parts: Sequence[bytes], columns: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield from read_parts(pickle.loads(parts[index]), columns)


def plan(
    lake: Lake, state: TableState, since: int, columns: StructType, *, net: bool = False, where: Where = None
) -> list[InputPartition]:
    """The feed of (since, state.version], cut into parts of some size in version order. At least one: without any,
    Spark makes up one of its own. Segments without rows for which `where` is true are not read.
    """
    schema = optional(state.schema)
    known = {field.name for field in schema.fields}
    names = tuple(name for name in columns.names if name in known)
    predicate = parse_where(where, schema)
    reader = FeedReader(lake.context.store, schema, names, predicate, lake.context.config.scan_batch_rows)
    entries = lake.catalog.feed(state.id, since, state.version, net=net) if since < state.version else iter(())
    refuse_quarantined(lake.catalog, state)
    groups = packed(_parts(shown_as_now(state, entries), predicate), lambda part: part[1], PARTITION_BYTES)
    return [_Parts(reader, tuple(part for part, _ in group)) for group in groups] or [_Parts(reader, ())]


def _parts(entries: Iterable[FeedEntry], predicate: Predicate) -> Iterator[tuple[_Part, int]]:
    """Each entry, cut into parts of some size, and about how many bytes each reads.

    Where rows must be matched, every part has the whole entry; else only the segments that it reads.
    """
    for entry in entries:
        asked = [index for index, pair in enumerate(entry.segments) if _is_asked(pair, predicate)]
        slim = replace(entry, segments=tuple(map(_slim, entry.segments)))
        weights = [_weight(pair) for pair in slim.segments]
        matched = may_match(entry)
        most = max(PARTITION_BYTES, sum(weights) // _MATCHED_SHARES if matched else 0)
        for share in packed(asked, weights.__getitem__, most):
            weight = sum(weights[index] for index in share)
            if matched:
                yield _Part(slim, tuple(share) if len(share) < len(weights) else None), weight
            else:
                yield _Part(replace(slim, segments=tuple(slim.segments[index] for index in share)), None), weight


def _is_asked(pair: FeedSegment, predicate: Predicate) -> bool:
    """Whether a segment may hold matching rows."""
    if predicate.is_true:
        return True
    one = pair.after or pair.before  # the same file
    return one is not None and predicate.may_match(facts_by_field(one), one.facts.rows)


def _weight(pair: FeedSegment) -> int:
    """About how many bytes of a segment changed."""
    one = pair.after or pair.before
    assert one is not None
    if pair.before is None or pair.after is None:
        return one.facts.size
    changed = abs(pair.before.live_rows - pair.after.live_rows)
    return one.facts.size * changed // max(one.facts.rows, 1)


def _slim(pair: FeedSegment) -> FeedSegment:
    return FeedSegment(_without_facts(pair.before), _without_facts(pair.after))


def _without_facts(segment: LiveSegment | None) -> LiveSegment | None:
    return None if segment is None else replace(segment, facts=replace(segment.facts, columns=()))


def read_parts(partition: InputPartition, columns: StructType) -> Iterator[pa.RecordBatch]:
    """Run in a task: the rows of its parts, in the Arrow types that Spark expects."""
    assert isinstance(partition, _Parts)
    pa.set_cpu_count(1)
    vectors, target = VectorCache(), spark_arrow_schema(columns)
    for part in partition.parts:
        for batch in partition.reader.read(part.entry, vectors, part.share):
            yield _for_spark(batch, partition.reader.schema, partition.reader.columns, target)


def _for_spark(batch: pa.RecordBatch, schema: Schema, names: Sequence[str], target: pa.Schema) -> pa.RecordBatch:
    converted = to_spark(batch, schema, names, pa.schema([target.field(name) for name in names]))
    arrays = [
        converted.column(field.name) if field.name in names else batch.column(field.name).cast(field.type)
        for field in target
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)
