"""A table as a Spark DataFrame: native Parquet scans over the live segments, deleted rows left out in generated code.

Segments are grouped by what their scan must do: those without a deletion vector are read as they are, those with one
are joined with a broadcast bitmap per segment and tested by row index; files of older schemas that need converting
are scanned apart. The result is the union.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from moulin.formats import deletion_vector
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.pipeline.columns import SEGMENT, ColumnPlan, plan_columns, spark_schema
from moulin.pipeline.segment_scan import planned_scan
from moulin.pipeline.session import is_local
from moulin.pipeline.staging import Staging
from moulin.table.context import Context

_WORDS = "_moulin_words"
_PLACE = "_moulin_place"
_LIVE = f"(shiftright(get({_WORDS}, cast(shiftright({_PLACE}, 6) as int)), cast({_PLACE} & 63 as int)) & 1L) = 0L"
_FRAMES = 64
_BITMAPS = 16

_T = TypeVar("_T")


class TableReader:
    """Makes DataFrames of the tables of one lake in one session, and keeps the last few. Thread-safe."""

    def __init__(self, spark: SparkSession, context: Context) -> None:
        self._spark, self._context = spark, context
        self._staging = Staging(context.store)
        self._frames: _Recent[DataFrame] = _Recent(_FRAMES)
        self._bitmaps: _Recent[DataFrame] = _Recent(_BITMAPS)

    def frame(self, state: TableState) -> DataFrame:
        """The rows of the version that `state` describes."""
        return self._frames.get((state.id, state.head_version), lambda: self._build(state))

    def close(self) -> None:
        """Forget the frames and remove copies of files; frames handed out can no longer be read if they need those."""
        self._frames.clear()
        self._bitmaps.clear()
        self._staging.close()

    def _build(self, state: TableState) -> DataFrame:
        segments = self._context.catalog.segments(state.id, state.version, with_columns=False)
        if not segments:
            return self._spark.createDataFrame([], spark_schema(state.schema))
        if not self._context.store.is_local and not is_local(str(self._spark.sparkContext.master)):
            return planned_scan(self._spark, self._context.store, state.schema, segments)
        frames = []
        for plans, members in _groups(state, segments):
            plain = [s for s in members if s.vector is None]
            marked = [s for s in members if s.vector is not None]
            if plain:
                frames.append(self._scan(state, plans, plain).select(*(p.column() for p in plans)))
            if marked:
                frames.append(self._live(self._scan(state, plans, marked), marked).select(*(p.column() for p in plans)))
        return reduce(DataFrame.union, frames)

    def _scan(self, state: TableState, plans: Sequence[ColumnPlan], segments: Sequence[LiveSegment]) -> DataFrame:
        base, files = self._staging.locate(state.id, [s.facts for s in segments])
        declared = [plan.declared for plan in plans if plan.declared is not None]
        reader = self._spark.read.option("basePath", base).option("__globPaths__", "false")
        return reader.schema(StructType([*declared, StructField(SEGMENT, LongType())])).parquet(*files)

    def _live(self, frame: DataFrame, segments: Sequence[LiveSegment]) -> DataFrame:
        """The rows of `frame` that the deletion vectors of its segments leave."""
        key = frozenset(s.vector.id for s in segments if s.vector is not None)
        bitmaps = self._bitmaps.get(key, lambda: self._spark.createDataFrame(self._words(segments)))
        placed = frame.withColumn(_PLACE, F.col("_metadata.row_index"))
        return placed.join(F.broadcast(bitmaps), SEGMENT).where(_LIVE)

    def _words(self, segments: Sequence[LiveSegment]) -> pa.Table:
        """One row per segment: its number and its vector as a dense bitmap."""
        words = []
        for segment in segments:
            assert segment.vector is not None
            vector = self._context.vectors.get(self._context.store, segment.vector, segment.facts.rows)
            words.append(deletion_vector.words(vector, segment.facts.rows))
        ends = np.cumsum([0, *(len(part) for part in words)])
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(np.concatenate(words)))
        return pa.table({SEGMENT: pa.array([s.facts.number for s in segments], pa.int64()), _WORDS: lists})


def _groups(
    state: TableState, segments: Sequence[LiveSegment]
) -> list[tuple[tuple[ColumnPlan, ...], list[LiveSegment]]]:
    """Segments that one scan can read, with the plan of its columns."""
    plans = {n: plan_columns(state.schema, state.schemas[n]) for n in {s.facts.schema_id for s in segments}}
    groups: dict[Any, tuple[tuple[ColumnPlan, ...], list[LiveSegment]]] = {}
    for segment in segments:
        plan = plans[segment.facts.schema_id]
        groups.setdefault(tuple(p.key for p in plan), (plan, []))[1].append(segment)
    return list(groups.values())


class _Recent(Generic[_T]):
    """The last few results by key; the least recently used is dropped first. Two threads may build the same one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Hashable, _T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, build: Callable[[], _T]) -> _T:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        built = build()
        with self._lock:
            self._held[key] = built
            while len(self._held) > self._limit:
                self._held.popitem(last=False)
        return built

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
