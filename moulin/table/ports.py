"""Ports: protocols for Spark, DuckDB and Iceberg. `moulin.connect` provides the implementations.

A lake that was opened without them does everything else.
"""

# Decisions: docs/decisions/0202

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar
from uuid import UUID

import pyarrow as pa

from moulin.model.entities import TableState
from moulin.model.schema.values import Schema
from moulin.table.runner import TaskRunner

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession


class FramePlan(Protocol):
    """The plan of a kernel that writes rows. It is sent to every task."""

    @property
    def source(self) -> Schema:
        """The schema in which rows come to the kernel."""

    @property
    def table(self) -> str:
        """The name of the table that the rows are for."""


P = TypeVar("P", bound=FramePlan)
R = TypeVar("R")
FrameKernel = Callable[[P, Iterable[pa.RecordBatch], Callable[[], int]], Sequence[R]]
"""Writes rows of `plan.source` as segments, with numbers from a source; commits nothing."""


@dataclass(frozen=True, slots=True)
class BatchLoaded:
    """The argument of `progress` after each batch. Bytes are those of this call's new files."""

    number: int
    version: int
    files: int
    rows: int
    bytes_done: int
    bytes_total: int


@dataclass(slots=True)
class Backfilled:
    """The result of a call. `ignored` counts files of other formats, `changed` lists skipped files."""

    version: int
    batches: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    loaded_before: int = 0
    ignored: int = 0
    changed: tuple[str, ...] = ()


class RowExpression(Protocol):
    """The value of an expression for each row. `reads` are the columns that it needs."""

    reads: tuple[str, ...]

    def over(self, rows: pa.Table) -> pa.ChunkedArray:
        """The values, in the order of the rows."""


class Spark(Protocol):
    """Spark for one lake. Its session starts when it is first needed."""

    def session(self) -> SparkSession:
        """The session, started if there is none."""

    def attached(self, session: SparkSession | None = None) -> SparkSession:
        """A session, by default the one above, that knows the tables of the lake; see `Lake.attach`."""

    def sql(
        self,
        text: str,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        fresh: bool = True,
        safe: bool = False,
    ) -> DataFrame:
        """The result of a query over the tables of the lake; see `Lake.sql`."""

    def plan_view(
        self, database: str, name: str, text: str, columns: Sequence[tuple[str, str | None]]
    ) -> tuple[str, Schema]:
        """The text to store for a view, and its columns; `columns` are other names for them, with their comments.

        Raises InvalidInput for a text that is not a query of the lake's tables and views alone, or cannot be planned.
        """

    def read(self, state: TableState) -> DataFrame:
        """The rows of a table at the version of `state`."""

    def frame_schema(self, frame: DataFrame) -> pa.Schema:
        """The schema in which the rows of a frame come to tasks."""

    def map_frame(self, kernel: FrameKernel[P, R], plan: P, frame: DataFrame) -> Sequence[R]:
        """The results of a kernel over the rows of a frame, in the order of the tasks. Nothing is committed.

        REQUIRES: `kernel` is a function that other processes can import. Raises InvalidInput when the frame's columns
        do not fit `plan.source`.
        """

    def few_rows(self, frame: DataFrame) -> pa.Table | None:
        """All rows of a frame, if they are few; None when they are not, or may not be. No Python task runs."""

    def backfill(
        self,
        table_id: UUID,
        path: str,
        *,
        format: str | None = None,
        source: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        batch_bytes: int | None = None,
        changed: str = "error",
        progress: Callable[[BatchLoaded], None] | None = None,
    ) -> Backfilled:
        """Load the files of a folder; see `Table.backfill`."""

    def row_expression(self, schema: Schema, sql: str) -> RowExpression:
        """An expression over the columns of single rows. InvalidInput for one that Spark refuses, or that looks at
        other rows, or does not always give the same value.
        """

    def runner(self) -> TaskRunner | None:
        """A runner of slices, once the session has started."""

    def close(self) -> None:
        """Release files that were copied for Spark. The session stays open."""


@dataclass(frozen=True, slots=True)
class Export:
    """The result of an export: the version of the table, its metadata, and the amount written."""

    version: int
    metadata_location: str
    location: str
    files: int
    bytes: int


class Exporter(Protocol):
    """Writes tables of one lake as Iceberg tables of their own."""

    def __call__(self, table_id: UUID, directory: str, *, version: int | None, copy: bool) -> Export:
        """Write a table at `version`, by default now, into `directory`; see `Table.export_iceberg`."""


class Duck(Protocol):
    """DuckDB for one lake."""

    def connect(self, connection: DuckDBPyConnection | None, branches: Collection[str] = ()) -> DuckDBPyConnection:
        """A connection with the tables of the lake; see `Lake.duckdb`."""

    def close(self) -> None:
        """Close the connections of this lake."""


def is_frame(data: object) -> TypeGuard[DataFrame]:
    """Whether data is a Spark DataFrame, whose rows stay in Spark."""
    return hasattr(data, "mapInArrow")
