"""Results of queries, read incrementally."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from moulin.errors import InvalidInput


def batches(frame: DataFrame, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows, or all of them by and by. A query that fails is one sentence; Spark prints nothing of it."""
    frame.sparkSession.sparkContext.setLogLevel("OFF")
    with _one_sentence():
        yield from stream_batches(frame) if limit is None else frame.limit(limit).toArrow().to_batches()


def columns_of(frame: DataFrame) -> pa.Schema:
    """The columns of a result that has no rows."""
    return to_arrow_schema(frame.schema, timezone="UTC")


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        cause = next((line for line in lines if "[" in line and "SQLSTATE" in line), lines[0])
        raise InvalidInput(f"The query failed: {cause[cause.find('[') if 'SQLSTATE' in cause else 0 :]}") from None


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


__all__ = ["batches", "columns_of", "stream_batches"]
