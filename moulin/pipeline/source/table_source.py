"""A table as `format("moulin")` reads and writes it in batches: which one, its reader and its writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from moulin.model.columns.batching import packed
from moulin.model.facts import LiveSegment
from moulin.model.where import parse_where
from moulin.pipeline.read.segment_scan import PARTITION_BYTES, SegmentScan
from moulin.pipeline.source.errors import in_one_sentence
from moulin.pipeline.source.options import SourceTable, checked_columns
from moulin.pipeline.write.source_write import SourceWrite, WriteOptions, Written
from moulin.pipeline.write.writer import current_task
from moulin.table.find.index_search import narrow
from moulin.table.read.scan import plan_segments


@dataclass
class _Segments(InputPartition):
    """What one task reads."""

    segments: tuple[LiveSegment, ...]


class TableSourceReader(DataSourceReader):
    """Reads the segments that the option `where` leaves, in groups of some size.

    It takes no filters from Spark, which hands those of one read of a frame to all later reads of it: see
    docs/decisions/0195 and docs/decisions/0460.
    """

    def __init__(self, source: SourceTable, columns: StructType) -> None:
        with source.open() as lake:
            state = source.state(lake)
            self._store, self._schema, self._version = (lake.context.store, state.schema, state.version)
        self._predicate = parse_where(source.where, state.schema)
        self._source = source
        self._columns = checked_columns(columns, state)

    def partitions(self) -> Sequence[InputPartition]:
        with in_one_sentence(), self._source.open() as lake:
            state = lake.table(self._source.table).state(self._version)
            lake.catalog.pin(state.id, state.version)  # runs out by itself: nothing reports the end of the job
            planned = plan_segments(lake.catalog, state, self._predicate)
            found = narrow(lake.catalog, lake.context.secondary, state, self._predicate, planned).segments
        groups = packed(map(_slim, found), lambda segment: segment.facts.size, PARTITION_BYTES)
        return [_Segments(tuple(group)) for group in groups] or [_Segments(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Segments)
        pa.set_cpu_count(1)
        scan = SegmentScan(self._store, self._schema, self._columns, self._predicate)
        with in_one_sentence():
            yield from scan.batches(partition.segments)


@dataclass
class _Written(WriterCommitMessage):
    """What one task wrote or hands over."""

    task: int
    written: Written


class TableSourceWriter(DataSourceArrowWriter):
    """Every task writes level-0 segments; the commit makes one version of them.

    What was written for a commit that failed is left for clean-up: whether it failed before or after the catalog
    decided is not always known, so an abort removes nothing.
    """

    def __init__(self, source: SourceTable, columns: StructType, overwrite: bool, options: WriteOptions) -> None:
        with source.open() as lake:
            self._write = SourceWrite.plan(lake, source.state(lake), columns, options, overwrite=overwrite)
        self._source = source

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = current_task()
        with in_one_sentence():
            return _Written(task, self._write.write(task, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = {message.task: message.written for message in messages if isinstance(message, _Written)}
        with in_one_sentence(), self._source.open() as lake:
            self._write.commit(lake, self._write.gather(written))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: see above."""


def _slim(segment: LiveSegment) -> LiveSegment:
    """Without the facts of columns, which tasks do not need."""
    return replace(segment, facts=replace(segment.facts, columns=()))
