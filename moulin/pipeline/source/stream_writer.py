"""`writeStream.format("moulin")`: every batch of a streaming query is one version, committed exactly once.

The query's id and the batch's number are the commit's request id: a batch that Spark runs again after a failure finds
itself committed. The id is the one that Spark keeps in the query's checkpoint; tasks know it. The option `query_id`
stands in for it, where a query must go on under another checkpoint. A keyed table is upserted into.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model import request_ids
from moulin.pipeline.source.errors import in_one_sentence
from moulin.pipeline.source.options import SourceTable
from moulin.pipeline.write.source_write import SourceWrite, WriteOptions, Written
from moulin.pipeline.write.writer import current_task

_QUERY_ID = "sql.streaming.queryId"  # the local property in which Spark tells tasks


@dataclass
class _Written(WriterCommitMessage):
    """What one task wrote or hands over, and for which query."""

    task: int
    written: Written
    query_id: str | None


class StreamTableWriter(DataSourceStreamArrowWriter):
    """Every task writes level-0 segments; the commit of a batch makes one version of them.

    Files of a batch that failed, or that had been committed before, are left for clean-up: whether an attempt failed
    before or after its commit is not always known.
    """

    def __init__(
        self, source: SourceTable, columns: StructType, overwrite: bool, query_id: str | None, options: WriteOptions
    ) -> None:
        if overwrite:
            raise InvalidInput('A stream can only append or upsert: use .outputMode("append").')
        if query_id == "":
            raise InvalidInput("The option query_id must not be empty.")
        with source.open() as lake:
            self._write = SourceWrite.plan(lake, source.state(lake), columns, options)
        self._source, self._query_id = source, query_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = current_task()
        with in_one_sentence():
            return _Written(task, self._write.write(task, iterator), self._query_id or _running_query())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        written = [message for message in messages if isinstance(message, _Written) and message.written]
        if not written:
            return
        query_id = written[0].query_id
        with in_one_sentence():
            if query_id is None or any(message.query_id != query_id for message in written):
                raise FailedPrecondition(
                    'Spark did not report which query this is; give .option("query_id", <a stable name>).'
                )
        summary = {"query-id": query_id, "batch-id": str(batchId)}
        with in_one_sentence(), self._source.open() as lake:
            request_id = f"{request_ids.STREAM}{query_id}:{batchId}"
            parts = self._write.gather({message.task: message.written for message in written})
            self._write.commit(lake, parts, request_id=request_id, summary=summary)


def _running_query() -> str | None:
    context: Any = TaskContext.get()
    found: str | None = context.getLocalProperty(_QUERY_ID)
    return found
