"""The change feed in Spark, in one batch or as a stream.

    spark.read.format("moulin").option("lake", uri).option("changes_since", 12).load("shop.orders")
    spark.readStream.format("moulin").option("lake", uri).option("changes_since", "now").load("shop.orders")

A stream's offset is the version up to which it has read. The driver plans from the catalog which segments changed;
tasks read them, and need no catalog. Rows of one version may come from several tasks, in any order; `_version` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from moulin.catalog.segments.feed import FeedEntry, FeedSegment
from moulin.errors import FailedPrecondition, InvalidInput, MoulinError
from moulin.lake import Lake
from moulin.model.columns.batching import packed
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.names import did_you_mean
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import ROW_ID
from moulin.model.schema.values import Schema
from moulin.pipeline.read.batches import spark_arrow_schema, to_spark
from moulin.pipeline.read.columns import spark_schema
from moulin.pipeline.source.errors import in_one_sentence
from moulin.pipeline.source.options import PARTITION_BYTES, FeedOptions, SourceTable
from moulin.table.commit.vectors import VectorCache
from moulin.table.read.feed import check_columns, optional
from moulin.table.read.feed_reader import CHANGE_TYPE, COMMIT_TIMESTAMP, VERSION, FeedReader, may_match

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
    """What Spark sees of a table's change feed."""
    check_columns(state, None)
    return StructType([*_FEED, *spark_schema(optional(state.schema))])


@dataclass(frozen=True, slots=True)
class _Part:
    """What one task reads of a version: all of `entry`, or the segments at the indexes `share`."""

    entry: FeedEntry
    share: tuple[int, ...] | None


@dataclass
class _Parts(InputPartition):
    """What one task reads, and how."""

    reader: FeedReader
    parts: tuple[_Part, ...]


class FeedSourceReader(DataSourceReader):
    """The change feed of one range of versions."""

    def __init__(self, source: SourceTable, feed: FeedOptions, columns: StructType) -> None:
        if feed.since is None:
            raise InvalidInput("changes_since takes the number of a version here; 'now' is for readStream.")
        if feed.max_versions is not None:
            raise InvalidInput("The option max_versions_per_batch is for readStream.")
        with source.open() as lake:
            state = feed.state(lake, source.table)
        self._source, self._since, self._until, self._net = source, feed.since, state.version, feed.net
        self._columns = columns
        _check(columns, state)

    def partitions(self) -> Sequence[InputPartition]:
        with in_one_sentence(), self._source.open() as lake:
            table_id = lake.table(self._source.table).id
            state = lake.catalog.state_until(table_id, self._since, self._until)
            if self._since < self._until:
                lake.catalog.pin(table_id, self._since)  # runs out by itself: nobody is told when the job has ended
            return plan(lake, state, self._since, self._columns, net=self._net)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with in_one_sentence():
            yield from read_parts(partition, self._columns)


class FeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The change feed of a table from a version on. Runs in a process of its own for as long as the query does."""

    def __init__(self, source: SourceTable, feed: FeedOptions | None, columns: StructType) -> None:
        if feed is None:
            raise InvalidInput(
                'readStream reads changes: give .option("changes_since", <version>), or "now" for those from now on.'
            )
        if feed.until is not None or feed.net:
            raise InvalidInput("A stream has no end to compare with: changes_until and changes_net are for read.")
        self._source, self._feed, self._columns = source, feed, columns
        self._target: int | None = None
        self._pin: UUID | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        with in_one_sentence(), self._source.open() as lake:
            state = self._feed.state(lake, self._source.table)
            return {"version": state.version if self._feed.since is None else self._feed.since, "table": str(state.id)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark only knows limits of its own; that of files stands for one of versions."""
        most = self._feed.max_versions
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        with in_one_sentence(), self._source.open() as lake:
            self._target = lake.version

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The last version that changed the table; versions of other tables make no batch."""
        with in_one_sentence(), self._source.open() as lake:
            table_id, since = self._check_table(lake, start), int(start["version"])
            newest = max(since, lake.version if self._target is None else self._target)
            if isinstance(limit, ReadMaxFiles):
                found = lake.catalog.changed_versions(table_id, since, newest, limit.max_files)
            else:
                found = [lake.catalog.state_until(table_id, since, newest).head_version]
            return {**start, "version": max([since, *found])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        since, until = int(start["version"]), int(end["version"])
        if since == until:
            return []
        with in_one_sentence(), self._source.open() as lake:
            table_id = self._check_table(lake, start)
            state = lake.catalog.state_until(table_id, since, until)
            _check(self._columns, state)
            pin = lake.catalog.pin(table_id, since)
            if self._pin is not None:
                lake.catalog.unpin(self._pin)
            self._pin = pin
            return plan(lake, state, since, self._columns)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with in_one_sentence():
            yield from read_parts(partition, self._columns)

    def stop(self) -> None:
        if self._pin is not None:
            with suppress(MoulinError), self._source.open() as lake:  # else it runs out by itself
                lake.catalog.unpin(self._pin)
            self._pin = None

    def _check_table(self, lake: Lake, start: Mapping[str, Any]) -> UUID:
        table_id = lake.table(self._source.table).id
        if start["table"] != str(table_id):
            raise FailedPrecondition(
                f"{self._source.table} is not the table that this query began to read; start it with a new checkpoint."
            )
        return table_id


class RefusedStream(DataSourceStreamReader):
    """Raises an error when it is first used. Spark hides those of the call that makes a reader behind its own."""

    def __init__(self, error: MoulinError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        with in_one_sentence():
            raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        with in_one_sentence():
            raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with in_one_sentence():
            raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with in_one_sentence():
            raise self._error


def plan(lake: Lake, state: TableState, since: int, columns: StructType, *, net: bool = False) -> list[InputPartition]:
    """The feed of (since, state.version], cut into parts of some size in version order. At least one: without any,
    Spark makes up one of its own.
    """
    schema = optional(state.schema)
    known = {field.name for field in schema.fields}
    names = tuple(name for name in columns.names if name in known)
    reader = FeedReader(
        lake.context.store, schema, names, Predicate.everything(schema), lake.context.config.scan_batch_rows
    )
    entries = lake.catalog.feed(state.id, since, state.version, net=net) if since < state.version else iter(())
    groups = packed(_parts(entries), lambda part: part[1], PARTITION_BYTES)
    return [_Parts(reader, tuple(part for part, _ in group)) for group in groups] or [_Parts(reader, ())]


def _parts(entries: Iterable[FeedEntry]) -> Iterator[tuple[_Part, int]]:
    """Each entry, cut into parts of some size, and about how many bytes each reads.

    Where rows must be matched, every part has the whole entry; else only the segments that it reads.
    """
    for entry in entries:
        slim = replace(entry, segments=tuple(map(_slim, entry.segments)))
        weights = [_weight(pair) for pair in slim.segments]
        matched = may_match(entry)
        most = max(PARTITION_BYTES, sum(weights) // _MATCHED_SHARES if matched else 0)
        shares = [*packed(range(len(weights)), weights.__getitem__, most)]
        for share in shares:
            weight = sum(weights[index] for index in share)
            if matched:
                yield _Part(slim, tuple(share) if len(shares) > 1 else None), weight
            else:
                yield _Part(replace(slim, segments=tuple(slim.segments[index] for index in share)), None), weight


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


def _check(columns: StructType, state: TableState) -> None:
    """Refuse columns that the feed no longer has, or has in another type: a stream keeps those it began with."""
    known = {column.name: column.dataType.simpleString() for column in feed_schema(state)}
    for column in columns:
        if column.name not in known:
            raise InvalidInput(
                f"The changes of {state.full_name} at version {state.version} have no column "
                f"{column.name!r}.{did_you_mean(column.name, known)} It has: {', '.join(known)}. "
                "Start a new query after a column was dropped or renamed."
            )
        if column.dataType.simpleString() != known[column.name]:
            raise InvalidInput(
                f"Column {column.name} of {state.full_name} is {known[column.name]} in Spark, not "
                f"{column.dataType.simpleString()}; start a new query after a column was widened."
            )
