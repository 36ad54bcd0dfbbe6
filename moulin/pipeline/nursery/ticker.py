"""Structured Streaming as the clock of a nursery: its trigger, its progress and its page in Spark's UI.

A tick carries no data. Batches are planned from the catalog's offsets, so Spark's checkpoint has no influence, and
losing it loses nothing.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moulin.errors import MoulinError
from moulin.pipeline.nursery.nursery import Nursery, NurseryReport

_log = logging.getLogger(__name__)
NAME = "moulin nursery"


def start(
    spark: SparkSession,
    nursery: Nursery,
    *,
    interval: float | None = 2.0,
    on_batch: Callable[[NurseryReport], object] = lambda report: None,
) -> StreamingQuery:
    """Run the nursery at every tick, at least `interval` seconds apart; with None drain the backlog and end.

    A batch that fails is logged, and the next tick tries again; when draining, the query fails with it.
    """
    checkpoint = tempfile.mkdtemp(prefix="moulin-ticks-")

    def tick(batch: DataFrame, number: int) -> None:
        if interval is None:
            on_batch(nursery.drain())
            return
        try:
            report = nursery.run_once()
            on_batch(report)
            while report.more:
                report = nursery.run_once()
                on_batch(report)
        except MoulinError as error:
            _log.warning("A batch of the nursery failed and will be retried: %s", error.message)

    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    writer = ticks.writeStream.queryName(NAME).option("checkpointLocation", checkpoint).foreachBatch(tick)
    if interval is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(interval * 1000)} milliseconds")
    query = writer.start()
    weakref.finalize(query, shutil.rmtree, checkpoint, ignore_errors=True)
    return query
