"""A DataFrame into a table: every Spark task writes its rows as sorted segments, the driver commits once.

A keyed table gets runs: segments whose keys were located, so that they say which rows they replace.

There is no shuffle: a task's rows stay together, split by the table's partitions. What a failed or repeated attempt
wrote is named by no commit, and clean-up removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.model.rows.conversion import Misfit, Target, fit
from moulin.model.rows.rows import to_batches
from moulin.model.schema.values import Schema
from moulin.pipeline.read.batches import spark_arrow_schema
from moulin.pipeline.runner import RESULT_SCHEMA, collect_results, outcome
from moulin.storage.store import Store
from moulin.table.bulk.writer import RegionRun, RunPlan, WorkerTools, write_runs
from moulin.table.context import Context
from moulin.table.properties import effective
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import NumberSource, write_batches

# Segment numbers for one write: so many for each of so many tasks. How many tasks there will be is not known before the
# job runs, so numbers are reserved for as many as there can be; 63 bits last for two thousand million writes.
_TASKS = 1 << 16
_NUMBERS = 1 << 16


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
            raise FailedPrecondition(f"The DataFrame has more than {_TASKS} partitions; coalesce it first.")
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
class WriteJob:
    """What the tasks of one append must know. Sent to every task."""

    store: Store
    layout: Layout
    numbers: TaskNumbers
    segment_bytes: int

    @classmethod
    def of(cls, context: Context, state: TableState) -> WriteJob:
        """Reserve numbers for the segments."""
        config = effective(context.config, state.properties)
        numbers = TaskNumbers.reserve(context, state.full_name)
        return cls(context.store, Layout.of(state), numbers, config.append_segment_bytes)

    def write(self, task: int, batches: Iterable[pa.RecordBatch]) -> list[SegmentFacts]:
        """Write the rows of one task."""
        with _in_partition(task):
            return self.write_fitted(task, to_batches(batches, self.schema))

    def write_fitted(self, task: int, rows: Iterable[pa.RecordBatch]) -> list[SegmentFacts]:
        """Write the rows of one task, which are of `schema` already."""
        numbers = self.numbers.of(task)
        return write_batches(self.store, self.layout, rows, numbers, segment_bytes=self.segment_bytes)

    @property
    def schema(self) -> Schema:
        return self.layout.schema


@dataclass(frozen=True, slots=True)
class RunJob:
    """What the tasks of one bulk write to a keyed table must know. Sent to every task."""

    store: Store
    plan: RunPlan
    numbers: TaskNumbers

    @classmethod
    def of(cls, context: Context, plan: RunPlan, columns: StructType) -> RunJob:
        """Check that the columns of a DataFrame fit, and reserve numbers for its segments."""
        check_columns(plan.source, columns)
        return cls(context.store, plan, TaskNumbers.reserve(context, plan.layout.name))

    def write(self, task: int, batches: Iterable[pa.RecordBatch]) -> list[RegionRun]:
        """Write the rows of one task."""
        with _in_partition(task):
            return self.write_fitted(task, to_batches(batches, self.schema))

    def write_fitted(self, task: int, rows: Iterable[pa.RecordBatch]) -> list[RegionRun]:
        """Write the rows of one task, which are of `schema` already."""
        return write_runs(self.plan, WorkerTools.of(self.store), rows, self.numbers.of(task))

    @property
    def schema(self) -> Schema:
        return self.plan.source


@contextmanager
def _in_partition(task: int) -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"In partition {task} of the DataFrame: {error.message}") from error


def plan_write(context: Context, state: TableState, columns: StructType) -> WriteJob:
    """Check that the columns of a DataFrame fit the table, and reserve numbers for its segments."""
    check_columns(state.schema, columns)
    return WriteJob.of(context, state)


def frame_arrow_schema(columns: StructType) -> pa.Schema:
    """The Arrow schema in which rows of `columns` come to tasks; InvalidInput when there is none."""
    try:
        return spark_arrow_schema(columns)
    except PySparkException as error:
        raise InvalidInput(f"The DataFrame has a column whose type no table can hold: {str(error)[:300]}.") from None


def check_columns(schema: Schema, columns: StructType) -> None:
    """Refuse columns that `schema` lacks, types that do not fit, and required columns that are missing."""
    empty = frame_arrow_schema(columns).empty_table()
    to_batches(empty, schema)  # matches the names, at once; types only matter to it when there are rows
    for field in schema.fields:
        if field.name in empty.column_names:
            try:
                fit(pa.array([], empty.schema.field(field.name).type), Target.of(field))
            except Misfit as misfit:
                raise InvalidInput(f"Column {misfit.path}: {misfit.reason}") from None


def write_frame(job: WriteJob, frame: DataFrame) -> tuple[SegmentFacts, ...]:
    """Run the job: the segments of all rows, not yet committed."""
    results = collect_results(frame.mapInArrow(partial(_write_task, job), RESULT_SCHEMA))
    return tuple(facts for task in sorted(results) for facts in results[task])


def write_run_frame(job: RunJob, frame: DataFrame) -> list[RegionRun]:
    """Run the job: the runs of all rows in the order of the tasks, not yet committed."""
    results = collect_results(frame.mapInArrow(partial(_write_task, job), RESULT_SCHEMA))
    return [run for task in sorted(results) for run in results[task]]


def _write_task(job: WriteJob | RunJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    task = current_task()
    yield outcome(task, lambda: job.write(task, batches))


def current_task() -> int:
    """The number of the Spark task that this runs in; the same in every attempt at it."""
    context: Any = TaskContext.get()
    return int(context.partitionId())
