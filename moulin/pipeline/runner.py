"""Slices of work on Spark: one Spark task for each, which calls its kernel; results go to the driver."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from moulin import errors
from moulin.errors import InvalidInput, MoulinError, Unavailable
from moulin.model.ids import new_id
from moulin.table.runner import Stopped, TaskDied, never

S = TypeVar("S")
R = TypeVar("R")

_WATCH_SECONDS = 0.2

RESULT_SCHEMA = "number bigint, result binary, error string, message string"
_RESULT = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("result", pa.binary()),
        pa.field("error", pa.string()),
        pa.field("message", pa.string()),
    ]
)


class SparkRunner:
    """Fills `moulin.table.runner.TaskRunner`: the slices of a call are one Spark job.

    A task that dies is tried again as often as Spark is configured to.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def cores(self) -> int:
        """The approximate number of concurrent slices."""
        return max(1, int(self._spark.sparkContext.defaultParallelism))

    def map(self, kernel: Callable[[S], R], slices: Sequence[S], *, stopped: Callable[[], bool] = never) -> list[R]:
        """The result of each slice, in their order. REQUIRES: `kernel` is a function that executors can import.

        Once `stopped()` is true, the job is cancelled, and Stopped is raised.
        """
        if not slices:
            return []
        pickled = [pickle.dumps((kernel, work)) for work in slices]
        numbers = self._spark.range(0, len(slices), 1, len(slices))
        frame = numbers.mapInArrow(partial(_run_slices, pickled), RESULT_SCHEMA)
        if stopped is never:
            results = collect_results(frame)
        else:
            try:
                with self._cancelled_by(stopped):
                    results = collect_results(frame)
            except (MoulinError, Py4JError) as error:  # a cancelled job ends as one of them
                if stopped():
                    raise Stopped from error
                raise
        return [results[number] for number in range(len(slices))]

    @contextmanager
    def _cancelled_by(self, stopped: Callable[[], bool]) -> Iterator[None]:
        """Cancels the jobs that this thread starts in the block as soon as `stopped()` is true."""
        context, tag, over = self._spark.sparkContext, f"moulin-{new_id()}", threading.Event()

        def watch() -> None:
            while not over.wait(_WATCH_SECONDS):
                if stopped():
                    context.cancelJobsWithTag(tag)  # repeatedly: the job may not have been submitted yet

        watcher = threading.Thread(target=watch, name="moulin-cancel", daemon=True)
        context.addJobTag(tag)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            context.removeJobTag(tag)
            watcher.join()


def _run_slices(pickled: Sequence[bytes], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield outcome(number, partial(_run_pickled, pickled[number]))


def _run_pickled(pickled: bytes) -> Any:
    kernel, work = pickle.loads(pickled)
    return kernel(work)


def outcome(number: int, run: Callable[[], Any]) -> pa.RecordBatch:
    """What `run` returns, or the error that another try would meet again, as one row of RESULT_SCHEMA.

    An error that another try may not meet is raised, so that Spark tries again.
    """
    pa.set_cpu_count(1)
    row: tuple[int, bytes | None, str | None, str | None]
    try:
        row = (number, pickle.dumps(run()), None, None)
    except MoulinError as error:
        if error.retryable:
            raise
        row = (number, None, type(error).__name__, error.message)
    return pa.RecordBatch.from_arrays(
        [pa.array([v], f.type) for v, f in zip(row, _RESULT, strict=True)], schema=_RESULT
    )


def collect_results(frame: DataFrame) -> dict[int, Any]:
    """Run the job of a frame of RESULT_SCHEMA: results by number. Raises the error of the first that failed."""
    try:
        rows = frame.collect()
    except (PySparkException, Py4JJavaError) as error:  # the second where PySpark has no class for Spark's own
        raise task_error(error) from error
    results = {}
    for row in sorted(rows, key=lambda row: int(row.number)):
        if row.error is not None:
            raise named_error(row.error, row.message)
        results[int(row.number)] = pickle.loads(row.result)
    return results


def named_error(name: str, message: str) -> MoulinError:
    """The error of this name in moulin.errors."""
    kind = getattr(errors, name, None)
    known = isinstance(kind, type) and issubclass(kind, MoulinError)
    return kind(message) if known and kind is not None else Unavailable(message)


# Spark's errors about values, by their SQL states: data exceptions, cardinality, and what raise_error raises.
_REFUSED = re.compile(r"\[[A-Z_.0-9]+\] (.+?) SQLSTATE: (?:22|21|P0)\w{3}", re.DOTALL)


def task_error(error: PySparkException | Py4JJavaError) -> MoulinError:
    """The error of a failed job: the last one of its Python task, if known."""
    text = str(error)
    if "[SPARK_JOB_CANCELLED]" in text:
        return Unavailable("The Spark job was cancelled. Nothing was committed: retry.")
    found = re.findall(r"^\s*moulin\.errors\.(\w+): (.+)$", text, re.MULTILINE)
    if found:
        return named_error(*found[-1])
    refused = _REFUSED.search(text)
    if refused:
        return InvalidInput(f"Spark rejects a value: {refused[1].rstrip('.')}.")
    raised = re.findall(r"^\s*([A-Za-z_][\w.]*(?:Error|Exception)): (.+)$", text, re.MULTILINE)
    reason = ": ".join(raised[-1]) if raised else text.splitlines()[0]
    return TaskDied(f"A Spark task failed: {reason[:500]}. Nothing was committed: retry.")
