"""Results of queries that are read by and by."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame


def stream_batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """All rows in their order, no more than two partitions of the result in memory at a time.

    Spark's own iterator gives Python rows, whose times have lost their zone; so each batch comes packed, as Arrow.
    """

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as arrow

        for batch in batches:
            parts = batch.schema.serialize().to_pybytes(), batch.serialize().to_pybytes()
            columns = [arrow.array([part], arrow.binary()) for part in parts]
            yield arrow.RecordBatch.from_arrays(columns, ["schema", "batch"])

    for schema, batch in frame.mapInArrow(pack, "schema binary, batch binary").toLocalIterator(prefetchPartitions=True):
        yield pa.ipc.read_record_batch(pa.py_buffer(batch), pa.ipc.read_schema(pa.py_buffer(schema)))


__all__ = ["stream_batches"]
