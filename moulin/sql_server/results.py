"""The rows of a frame as responses of Connect: a schema, then Arrow streams of one batch each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyspark.sql.connect.proto as pb
from pyspark.sql import DataFrame

from moulin.pipeline.connect.session import schema_message

_ANSWER_BYTES = 4 << 20


def answers(frame: DataFrame) -> Iterator[pb.ExecutePlanResponse]:
    """All rows of a frame. Spark collects them at once, and fails beyond `spark.driver.maxResultSize`."""
    yield pb.ExecutePlanResponse(schema=schema_message(frame))
    offset = 0
    collect: Any = frame._collect_as_arrow
    for batch in collect(empty_list_if_zero_records=False):
        for part in _cut(batch):
            answer = pb.ExecutePlanResponse()
            answer.arrow_batch.row_count = part.num_rows
            answer.arrow_batch.start_offset = offset
            answer.arrow_batch.data = _stream(part)
            offset += part.num_rows
            yield answer


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of about the size that an answer should have."""
    rows = max(1, int(batch.num_rows * _ANSWER_BYTES / max(batch.nbytes, 1)))
    yield from (batch.slice(start, rows) for start in range(0, max(batch.num_rows, 1), rows))


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found
