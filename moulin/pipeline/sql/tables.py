"""The rows of tables as frames for statements: all of them, or those that a statement asks for, once that is known.

The versions that frames are made of are pinned, and the pins are collected for the creator of the frames (`holding`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from moulin.errors import Corrupt
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.predicate import Predicate
from moulin.model.schema import values
from moulin.pipeline.read.batches import shown_table
from moulin.pipeline.read.columns import located_schema, quoted, spark_schema
from moulin.pipeline.read.fresh import Fresh, FreshLane
from moulin.pipeline.read.hidden import hidden_of
from moulin.pipeline.read.reader import NamedFrame, TableReader
from moulin.pipeline.session import frame_of
from moulin.pipeline.sql.catalyst import Catalyst
from moulin.pipeline.sql.optimizer import StandIn
from moulin.pipeline.sql.pruning import Pruning, StandIns, Waiting
from moulin.table.pins import Hold, Pins
from moulin.table.read.quarantine import refuse_quarantined
from moulin.table.read.scan import plan_segments
from moulin.table.read.totals import COUNT, Wanted, may_be_known, totals_of

_HOLDS: ContextVar[list[Hold]] = ContextVar("holds")
_PRUNING: ContextVar[Pruning | None] = ContextVar("pruning", default=None)

_MOST_COUNTED = 1_000_000_000
"""Rows that Spark counts in about a second without reading any."""


@contextmanager
def holding() -> Iterator[list[Hold]]:
    """Gathers what pins the versions that frames are made of."""
    token = _HOLDS.set([])
    try:
        yield _HOLDS.get()
    finally:
        _HOLDS.reset(token)


def hold_for(pins: Pins, frame: object, holds: list[Hold]) -> None:
    """Keep pins for as long as a frame lives, and `pin_seconds` for frames that were made of it."""

    def release() -> None:
        for hold in holds:
            pins.release_later(hold)

    if holds:
        weakref.finalize(frame, release).atexit = False


@contextmanager
def waiting(pruning: Pruning | None) -> Iterator[None]:
    """Large tables that are named here wait for what is asked of them."""
    token = _PRUNING.set(pruning)
    try:
        yield
    finally:
        _PRUNING.reset(token)


class Tables:
    """The tables of one lake in one session. Thread-safe."""

    def __init__(self, lake: Lake, spark: SparkSession) -> None:
        self._lake, self._spark = lake, spark
        self._reader = TableReader(spark, lake.context)
        self._stand_ins = StandIns(spark)
        self._lane = FreshLane(spark, lake)

    def pruning(self, catalyst: Catalyst, *, every: bool = False, own: bool = False) -> Pruning:
        """For one statement; with `every`, small tables wait too. See `Pruning` for `own`."""
        return Pruning(catalyst, self._stand_ins, every=every, own=own)

    def take_fresh(self) -> Fresh | None:
        """What is stored and in no version yet; None on a replica."""
        return self._lane.take()

    def hold(self, state: TableState, version: int) -> None:
        """Pin a version of a table. REQUIRES: within `holding`."""
        _HOLDS.get().append(self._lake.context.pins.hold(state.id, version))

    def table(self, state: TableState, lane: Fresh | None = None, *, hidden: bool = False) -> NamedFrame:
        """The rows of a table, or what stands for them until it is known which are asked for.

        REQUIRES: within `holding`. With `hidden`, the hidden columns come last.
        """
        self.hold(state, state.version)
        pruning = _PRUNING.get()
        if pruning is None or not (pruning.every or self._is_large(state)):
            return self._rows(state, lane, Predicate.everything(state.schema), hidden=hidden)
        names = hidden_of([field.name for field in state.schema.fields]) if hidden else []
        columns = StructType([*spark_schema(state.schema).fields, *(StructField(name, LongType()) for name in names)])

        def read(asked: Predicate) -> NamedFrame:
            return self._rows(state, lane, asked, hidden=hidden)

        def count() -> DataFrame | None:
            return self._counted(state, columns, lane)

        def totals(wanted: Wanted, asked: Predicate) -> DataFrame | None:
            return self._totals(state, lane, wanted, asked)

        return NamedFrame(self._stand_in(pruning, state, columns, read, count, totals).frame, len(names))

    def located(self, state: TableState, pruning: Pruning) -> StandIn:
        """What stands for the rows of a table to change with where they are: see `pipeline.read.reader`."""

        def read(asked: Predicate) -> NamedFrame:
            return self._reader.located(state, asked)

        large = self._is_large(state)
        return self._stand_in(pruning, state, located_schema(state.schema), read, large=large)

    def located_rows(self, state: TableState) -> DataFrame:
        """The same rows themselves."""
        with readable(state.full_name):
            return self._reader.located(state, Predicate.everything(state.schema)).frame

    def close(self) -> None:
        """Remove copies of files."""
        self._reader.close()
        self._lane.close()

    def _stand_in(
        self,
        pruning: Pruning,
        state: TableState,
        columns: StructType,
        read: Callable[[Predicate], NamedFrame],
        count: Callable[[], DataFrame | None] = lambda: None,
        totals: Callable[[Wanted, Predicate], DataFrame | None] = lambda wanted, asked: None,
        *,
        large: bool = True,
    ) -> StandIn:
        def read_all(asked: Predicate) -> tuple[DataFrame, int]:
            with readable(state.full_name):
                found = read(asked)
            return found.frame, found.segments

        def total() -> int:
            return len(self._lake.catalog.segments(state.id, state.version, with_columns=False))

        key = (state.id, state.schema_id, tuple(columns.names))
        waits = Waiting(state.full_name, state.schema, columns, read_all, count, totals, total, large)
        return pruning.stand_in(key, waits)

    def _is_large(self, state: TableState) -> bool:
        """Whether it is worth asking which of its segments a statement needs."""
        config, catalog = self._lake.context.config, self._lake.catalog
        if config.sql_pruning != "on":
            return False
        return catalog.table_entry(state.id).segments >= config.sql_pruning_segments or bool(catalog.indexes(state.id))

    def _counted(self, state: TableState, columns: StructType, lane: Fresh | None) -> DataFrame | None:
        """As many rows as a table has, with null in every column; None when they are too many to be made."""
        refuse_quarantined(self._lake.catalog, state)
        rows = self._lake.catalog.count_rows(state.id, state.version)
        if rows > _MOST_COUNTED:
            return None
        nulls = [F.lit(None).cast(column.dataType).alias(column.name) for column in columns]
        counted = self._spark.range(0, rows, 1, 1).select(*nulls)
        fresh = None if lane is None else lane.frame(self._spark, state, Predicate.everything(state.schema))
        if fresh is None:
            return counted
        more = [F.lit(None).cast("bigint") for _ in columns.fields[len(fresh.columns) :]]
        return counted.union(fresh.select("*", *more))

    def _totals(self, state: TableState, lane: Fresh | None, wanted: Wanted, asked: Predicate) -> DataFrame | None:
        """Totals of a table's rows; None where facts are not exact. See `moulin.table.read.totals`."""
        if not may_be_known(state, wanted):
            return None
        if not wanted.columns:
            refuse_quarantined(self._lake.catalog, state)
            rows = self._lake.catalog.count_rows(state.id, state.version)
            found: pa.Table | None = pa.table({COUNT: pa.array([rows], pa.int64())})
        else:
            numbers = {field.field_id for field in state.schema.fields if field.name in wanted.columns}
            found = totals_of(state, plan_segments(self._lake.catalog, state, asked, numbers), wanted)
        if found is None:
            return None
        by, ends = ([state.schema.find_field(name).field_type for name in names] for names in (wanted.by, wanted.ends))
        totals = frame_of(self._spark, *shown_table(found, [*by, values.LongType(), *ends]))
        fresh = None if lane is None else lane.frame(self._spark, state, asked)
        if fresh is None:
            return totals
        own = {name: F.col(quoted(name)) for name in wanted.columns}
        columns = (*(own[name] for name in wanted.by), F.lit(1).cast("bigint"), *(own[name] for name in wanted.ends))
        return totals.union(fresh.select(*columns))

    def _rows(self, state: TableState, lane: Fresh | None, asked: Predicate, *, hidden: bool) -> NamedFrame:
        """The rows of a table, perhaps without some for which `asked` is not true.

        Hidden columns are null in rows that are in no version yet.
        """
        stored = self._reader.with_hidden(state, asked) if hidden else self._reader.frame(state, asked)
        fresh = None if lane is None else lane.frame(self._spark, state, asked)
        if fresh is None:
            return stored
        nulls = [F.lit(None).cast("bigint") for _ in range(stored.hidden)]
        return NamedFrame(stored.frame.union(fresh.select("*", *nulls)), stored.hidden, stored.segments)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Spark's refusal to read files of a table, without their addresses."""
    try:
        yield
    except (AnalysisException, FileNotFoundError):
        raise Corrupt(f"Files of {name} are missing or cannot be read: `moulin check` lists them.") from None
