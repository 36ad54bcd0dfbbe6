"""The change feed in Spark, in one batch or as a stream.

    spark.read.format("moulin").option("lake", uri).option("changes_since", 12).load("shop.orders")
    spark.readStream.format("moulin").option("lake", uri).option("changes_since", "now").load("shop.orders")

`.option("where", "id > 5")` leaves out rows, and segments without any. Each row of the feed counts by itself: of an
update one side may be left. A stream's offset is the version up to which it has read. Who reads what is planned in
read/feed.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from moulin.errors import FailedPrecondition, InvalidInput, MoulinError
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.names import did_you_mean
from moulin.model.where import parse_where
from moulin.pipeline.read.feed import feed_schema, plan, read_parts
from moulin.pipeline.source.errors import in_one_sentence
from moulin.pipeline.source.options import FeedOptions, SourceTable
from moulin.table.read.feed import optional


class FeedSourceReader(DataSourceReader):
    """The change feed of one range of versions."""

    def __init__(self, source: SourceTable, feed: FeedOptions, columns: StructType) -> None:
        if feed.since is None:
            raise InvalidInput("changes_since must be the number of a version here; 'now' is only for readStream.")
        if feed.max_versions is not None:
            raise InvalidInput("The option max_versions_per_batch is only for readStream.")
        with source.open() as lake:
            state = feed.state(lake, source.table)
        self._source, self._since, self._until, self._net = source, feed.since, state.version, feed.net
        self._columns = columns
        _check(columns, state)
        parse_where(source.where, optional(state.schema))

    def partitions(self) -> Sequence[InputPartition]:
        with in_one_sentence(), self._source.open() as lake:
            table_id = lake.table(self._source.table).id
            state = lake.catalog.state_until(table_id, self._since, self._until)
            if self._since < self._until:
                lake.catalog.pin(table_id, self._since)  # runs out by itself: nobody is told when the job has ended
            return plan(lake, state, self._since, self._columns, net=self._net, where=self._source.where)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with in_one_sentence():
            yield from read_parts(partition, self._columns)


class FeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The change feed of a table from a version on. Runs in a process of its own for as long as the query does."""

    def __init__(self, source: SourceTable, feed: FeedOptions | None, columns: StructType) -> None:
        if feed is None:
            raise InvalidInput(
                'readStream reads changes: give .option("changes_since", <version>), or "now" to start from now.'
            )
        if feed.until is not None or feed.net:
            raise InvalidInput("changes_until and changes_net are only for read, not for readStream.")
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
            return plan(lake, state, since, self._columns, where=self._source.where)

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
                f"{self._source.table} is not the table that this query started with: start it with a new checkpoint."
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
