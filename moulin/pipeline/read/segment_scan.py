"""Live rows of segments read by tasks in Python, for `format("moulin")` and for stores that Spark itself cannot
read.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from moulin.formats.segment.reader import SegmentReader
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import LAST_UPDATED_SEQUENCE, POSITION, ROW_ID
from moulin.model.schema.values import Schema
from moulin.pipeline.read.batches import spark_arrow_schema, to_spark
from moulin.pipeline.read.columns import LINEAGE, POSITION_COLUMN, SEGMENT, located_schema, spark_schema
from moulin.storage.store import Store
from moulin.table.commit.segment_rows import open_rows
from moulin.table.commit.vectors import read_vector

PARTITION_BYTES = 32 << 20
"""About how many bytes one task reads, where tasks are planned by size."""


@dataclass(frozen=True, slots=True)
class SegmentScan:
    """Reads live rows of segments, in the Arrow types that Spark expects. Sent to tasks.

    With `located`, the number of its segment and its position in it follow the columns of each row; with `lineage`, its
    row id and sequence number too.
    """

    store: Store
    schema: Schema
    columns: tuple[str, ...]
    predicate: Predicate
    located: bool = False
    lineage: bool = False

    @property
    def arrow_schema(self) -> pa.Schema:
        known = spark_schema(self.schema)
        return spark_arrow_schema(type(known)([known[name] for name in self.columns]))

    def batches(self, segments: Sequence[LiveSegment]) -> Iterator[pa.RecordBatch]:
        predicate, target = self.predicate, self.arrow_schema
        filtered = not predicate.is_true
        for segment in segments:
            facts = segment.facts
            reader = SegmentReader(open_rows(self.store, facts), self.schema, columns=list(self.columns), facts=facts)
            batches = reader.batches(
                deleted=None if segment.vector is None else read_vector(self.store, segment.vector, facts.rows),
                expression=predicate.expression if filtered else None,
                extra_columns=predicate.columns if filtered else (),
                keep_group=predicate.may_match if filtered else None,
                position=self.located,
                row_id=self.lineage,
                first_row_id=segment.first_row_id,
                sequence=self.lineage,
                sequence_number=segment.sequence,
            )
            for batch in batches:
                if batch.num_rows:
                    shown = to_spark(batch, self.schema, self.columns, target)
                    yield self._located(shown, facts.number, batch) if self.located else shown

    def _located(self, shown: pa.RecordBatch, segment: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = pa.repeat(pa.scalar(segment, pa.int64()), batch.num_rows)
        shown = shown.append_column(SEGMENT, numbers).append_column(POSITION_COLUMN, batch.column(POSITION))
        for name, stored in zip(LINEAGE, (ROW_ID, LAST_UPDATED_SEQUENCE), strict=True) if self.lineage else ():
            shown = shown.append_column(name, batch.column(stored))
        return shown


def planned_scan(
    spark: SparkSession,
    store: Store,
    schema: Schema,
    segments: Sequence[LiveSegment],
    *,
    located: bool = False,
    lineage: bool = False,
) -> DataFrame:
    """All rows of the segments, one task each; filters are applied by Spark afterwards."""
    names = tuple(field.name for field in schema.fields)
    scan = SegmentScan(store, schema, names, Predicate.everything(schema), located, lineage)
    pickled = [pickle.dumps(segment) for segment in segments]
    indexes = spark.range(0, len(segments), 1, len(segments))
    shown = located_schema(schema, lineage=lineage) if located else spark_schema(schema)
    return indexes.mapInArrow(partial(_read_indexes, scan, pickled), shown)


def _read_indexes(
    scan: SegmentScan, pickled: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    pa.set_cpu_count(1)
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield from scan.batches([pickle.loads(pickled[index])])
