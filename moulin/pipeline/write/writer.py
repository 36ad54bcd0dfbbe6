"""A DataFrame into a table: every Spark task writes its rows as sorted segments, the driver commits once.

A keyed table gets runs: segments whose keys were located, so that they say which rows they replace.

There is no shuffle: a task's rows stay together, split by the table's partitions. A frame of more partitions than its
size is worth is coalesced. A task with few rows returns them instead, and the driver writes those of neighbouring tasks
together: small frames make one segment however many partitions they have. What a failed or repeated attempt wrote is
named by no commit, and clean-up removes it.
"""

# Decisions: docs/decisions/0228, docs/decisions/0342

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Generic

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model.rows.conversion import Misfit, Target, fit
from moulin.model.rows.rows import RowsOf, to_batches
from moulin.model.schema.arrow import empty_table
from moulin.model.schema.values import Schema
from moulin.pipeline.read.batches import spark_arrow_schema
from moulin.pipeline.runner import RESULT_SCHEMA, collect_results, outcome
from moulin.table.context import Context
from moulin.table.ports import FrameKernel, P, R
from moulin.table.write.segment_writer import NumberSource

# Segment numbers for one write: so many for each of so many tasks. How many tasks there will be is not known before the
# job runs, so numbers are reserved for as many as there can be; 63 bits last for two thousand million writes.
_TASKS = 1 << 16
_NUMBERS = 1 << 16

# How much tasks hand over is bounded without knowing how many there are: task n hands over the (n + 1)th part of this
# at most. That is 32 MiB for the first 32 tasks, 91 MiB for 200, and 276 MiB for as many tasks as there can be.
HELD_BYTES = 32 << 20
HELD_BYTES_OF_TASK = 1 << 20

# A task should have so many bytes of rows by Spark's estimate, unless that makes less than two tasks for each core.
TASK_BYTES = 128 << 20
_TASKS_PER_CORE = 2
_UNKNOWN = 1 << 60  # estimates of this much say that Spark does not know


@dataclass(frozen=True, slots=True)
class TaskNumbers:
    """The segment numbers of one write, reserved."""

    table: str
    first: int

    @classmethod
    def reserve(cls, context: Context, table: str) -> TaskNumbers:
        return cls(table, context.catalog.reserve_segments(_TASKS * _NUMBERS))

    def of(self, task: int) -> NumberSource:
        """Those of one task. An attempt that runs again uses the same numbers, but other file names."""
        if task >= _TASKS:
            raise FailedPrecondition(f"The DataFrame has more than {_TASKS} partitions: coalesce it first.")
        numbers = iter(range(self.first + task * _NUMBERS, self.first + (task + 1) * _NUMBERS))

        def following() -> int:
            number = next(numbers, None)
            if number is None:
                raise FailedPrecondition(
                    f"Task {task} would write more than {_NUMBERS} segments to {self.table}: its partitions are "
                    "too small. Sort the DataFrame by the partition columns, or partition the table more coarsely."
                )
            return number

        return following


@dataclass(frozen=True, slots=True)
class HeldRows:
    """The rows of a task that are too few for a segment of their own, as an Arrow stream."""

    stream: bytes

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch]) -> HeldRows:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return cls(sink.getvalue().to_pybytes())

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(self.stream) as reader:
            yield from reader


@dataclass(frozen=True, slots=True)
class FrameJob(Generic[P, R]):
    """What the tasks of one write must know: a kernel, its plan and the numbers of its segments. Sent to every task.

    `held_bytes` bounds what tasks hand over instead of writing it. `rows_of` is there for rows that a statement makes.
    """

    kernel: FrameKernel[P, R]
    plan: P
    numbers: TaskNumbers
    held_bytes: int
    rows_of: RowsOf | None = None

    @classmethod
    def of(
        cls,
        context: Context,
        kernel: FrameKernel[P, R],
        plan: P,
        columns: StructType | None = None,
        rows_of: RowsOf | None = None,
    ) -> FrameJob[P, R]:
        """Check that the columns of a DataFrame, if there is one, fit; reserve numbers for its segments."""
        if columns is not None:
            check_columns(plan.source, columns)
        return cls(kernel, plan, TaskNumbers.reserve(context, plan.table), HELD_BYTES, rows_of)

    def run(self, frame: DataFrame) -> list[R]:
        """The results of all tasks in their order; nothing is committed."""
        return self.gather(collect_results(coalesced(frame).mapInArrow(partial(_write_task, self), RESULT_SCHEMA)))

    def write(self, task: int, batches: Iterable[pa.RecordBatch]) -> Sequence[R] | HeldRows:
        """Write the rows of one task, or hand them over when they are few."""
        with self._in_partitions(task, task):
            rows = to_batches(batches, self.plan.source, self.rows_of)
            first, more = _first_bytes(rows, min(HELD_BYTES_OF_TASK, self.held_bytes // (task + 1)))
            if more or not first:
                return self.write_fitted(task, chain(first, rows))
            return HeldRows.of(first)

    def gather(self, written: Mapping[int, Sequence[R] | HeldRows]) -> list[R]:
        """What the tasks wrote, in their order. What neighbours handed over is written here, as by one task.

        In their order, because of equal keys the last one may count.
        """
        parts: list[R] = []
        held: dict[int, HeldRows] = {}
        for task, one in sorted(written.items(), key=lambda item: item[0]):
            if isinstance(one, HeldRows):
                held[task] = one
            elif one:
                parts += [*self._write_held(held), *one]
                held = {}
        return [*parts, *self._write_held(held)]

    def _write_held(self, held: Mapping[int, HeldRows]) -> Sequence[R]:
        if not held:
            return ()
        with self._in_partitions(min(held), max(held)):
            return self.write_fitted(min(held), (batch for rows in held.values() for batch in rows.batches()))

    def write_fitted(self, task: int, rows: Iterable[pa.RecordBatch]) -> Sequence[R]:
        """Write the rows of one task, which are of `plan.source` already."""
        return self.kernel(self.plan, rows, self.numbers.of(task))

    @contextmanager
    def _in_partitions(self, first: int, last: int) -> Iterator[None]:
        """Errors about rows say in which part of the DataFrame these are, unless it is that of a statement."""
        try:
            yield
        except InvalidInput as error:
            if self.rows_of is not None:
                raise
            where = f"partition {first}" if first == last else f"partitions {first} to {last}"
            raise InvalidInput(f"In {where} of the DataFrame: {error.message}") from error


def coalesced(frame: DataFrame) -> DataFrame:
    """The frame in no more partitions than its bytes, by Spark's estimate, are worth; but two for each core at least.

    As it is, where Spark has no estimate, or where the number of cores is not known because executors come and go.
    """
    session: Any = frame.sparkSession
    try:
        size = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    except PySparkException:  # Spark says why when the frame is computed
        return frame
    if size >= _UNKNOWN or session.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return frame
    cores = max(1, int(session.sparkContext.defaultParallelism))
    rounds = max(_TASKS_PER_CORE, -(-size // (TASK_BYTES * cores)))
    return frame.coalesce(int(min(cores * rounds, _TASKS)))


def _first_bytes(rows: Iterator[pa.RecordBatch], most: int) -> tuple[list[pa.RecordBatch], bool]:
    """The first batches, and whether they are more than `most` bytes; if not, they are all."""
    first: list[pa.RecordBatch] = []
    taken = 0
    for batch in rows:
        if batch.num_rows:
            first.append(batch)
            taken += batch.nbytes
            if taken > most:
                return first, True
    return first, False


def frame_arrow_schema(columns: StructType) -> pa.Schema:
    """The Arrow schema in which rows of `columns` come to tasks; InvalidInput when there is none."""
    try:
        return spark_arrow_schema(columns)
    except PySparkException as error:
        raise InvalidInput(f"The DataFrame has a column with an unsupported type: {str(error)[:300]}.") from None


def check_columns(schema: Schema, columns: StructType) -> None:
    """Refuse columns that `schema` lacks, types that do not fit, and required columns that are missing."""
    empty = empty_table(frame_arrow_schema(columns))
    to_batches(empty, schema)  # matches the names, at once; types only matter to it when there are rows
    for field in schema.fields:
        if field.name in empty.column_names:
            try:
                fit(pa.nulls(0, empty.schema.field(field.name).type), Target.of(field))
            except Misfit as misfit:
                raise InvalidInput(f"Column {misfit.path}: {misfit.reason}") from None


def _write_task(job: FrameJob[Any, Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    task = current_task()
    yield outcome(task, lambda: job.write(task, batches))


def current_task() -> int:
    """The number of the Spark task that this runs in; the same in every attempt at it."""
    context: Any = TaskContext.get()
    return int(context.partitionId())
