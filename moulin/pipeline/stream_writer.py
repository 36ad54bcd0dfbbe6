"""`writeStream.format("moulin")`: every batch of a streaming query is one append, done once however often it is tried.

The query's id and the batch's number are the commit's request id: a batch that Spark runs again after a failure finds
itself committed. The id is the one that Spark keeps in the query's checkpoint; tasks know it. The option `query_id`
stands in for it, where a query must go on under another checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from moulin.errors import FailedPrecondition, InvalidInput, Unsupported
from moulin.model.facts import SegmentFacts
from moulin.model.operations import Kind
from moulin.pipeline.writer import current_task, plan_write
from moulin.table.change import DataChange

if TYPE_CHECKING:
    from moulin.pipeline.datasource import Place

STREAM_OPTIONS = ("query_id",)
_QUERY_ID = "sql.streaming.queryId"  # the local property in which Spark tells tasks


@dataclass
class _Written(WriterCommitMessage):
    """What one task wrote, into which table and for which query."""

    table_id: UUID
    segments: tuple[SegmentFacts, ...]
    query_id: str | None


class StreamTableWriter(DataSourceStreamArrowWriter):
    """Every task writes level-0 segments; the commit of a batch makes one version of them.

    Files of a batch that failed, or that had been committed before, are left for clean-up: whether an attempt failed
    before or after its commit is not always known.
    """

    def __init__(self, place: Place, columns: StructType, overwrite: bool, query_id: str | None) -> None:
        if overwrite:
            raise InvalidInput('A stream appends to a table: use .outputMode("append").')
        if query_id == "":
            raise InvalidInput("The option query_id must not be empty.")
        with place.open() as lake:
            state = place.state(lake)
            if state.schema.identifier_field_ids:
                raise Unsupported(
                    f"Table {state.full_name} has a primary key; streams can only be appended to tables without one."
                )
            self._job = plan_write(lake.context, state, columns)
        self._version, self._place, self._query_id = state.version, place, query_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        pa.set_cpu_count(1)
        query_id = self._query_id or _running_query()
        return _Written(self._job.layout.table_id, tuple(self._job.write(current_task(), iterator)), query_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        written = [message for message in messages if isinstance(message, _Written) and message.segments]
        if not written:
            return
        (first, *others), added = written, tuple(facts for message in written for facts in message.segments)
        if first.query_id is None or any(other.query_id != first.query_id for other in others):
            raise FailedPrecondition(
                'Spark did not tell which query this is; give .option("query_id", <a name that lasts>).'
            )
        summary = {"query-id": first.query_id, "batch-id": str(batchId)}
        change = DataChange(first.table_id, self._version, Kind.APPEND, added, summary=summary)
        with self._place.open() as lake:
            lake.context.committer.commit([change], request_id=f"stream:{first.query_id}:{batchId}")


def _running_query() -> str | None:
    context: Any = TaskContext.get()
    found: str | None = context.getLocalProperty(_QUERY_ID)
    return found
