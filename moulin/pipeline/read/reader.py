"""A table as a Spark DataFrame: native Parquet scans over the live segments, deleted rows left out in generated code.

Segments are grouped by what their scan must do: those without a deletion vector are read directly; those with one are
tested by row index against a broadcast bitmap, and so are small ones without one if that saves a scan; files of older
schemas that need converting are scanned apart, and those below base paths are read by tasks in Python. The result is
the union.
"""

# Decisions: docs/decisions/0164, docs/decisions/0391

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from moulin.formats import deletion_vector
from moulin.model.columns.arrays import Integers
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import STORED_POSITION
from moulin.pipeline.read.columns import (
    POSITION_COLUMN,
    SEGMENT,
    ColumnPlan,
    float_fields,
    floats_of,
    located_schema,
    plan_columns,
    spark_schema,
)
from moulin.pipeline.read.files import scan_files
from moulin.pipeline.read.hidden import add_hidden, hidden_of, lineage_columns, stored_lineage
from moulin.pipeline.read.segment_scan import planned_scan
from moulin.pipeline.read.staging import Staging, by_owner
from moulin.pipeline.session import frame_of, is_local
from moulin.sized_cache import SizedCache
from moulin.storage.paths import parse_base_path
from moulin.table.commit.segment_rows import written_schema
from moulin.table.context import Context
from moulin.table.find.index_search import narrow
from moulin.table.read.scan import plan_segments

# Spark's Parquet reader fills a declared column of this name with the position of each row in its file. It is what
# `_metadata.row_index` is made from, but without a struct around every value, which costs a tenth of a query. Decoding
# a stored column of positions is faster still: see docs/decisions/0164-stored-positions.md.
_COUNTED = "_tmp_metadata_row_index"
_NO_POSITION = (
    f"A segment above level 0 has no column {STORED_POSITION}; rewrite it with table.compact(everything=True)."
)
_FRAMES = 64
_BITMAPS = 64
_MARKED = 256  # segments that one scan tests: with more, a slot for each takes too large a table
_FEW_ROWS = 1 << 18  # so many rows are tested in less time than a scan of their own takes to plan and to start


class TableReader:
    """Makes DataFrames of the tables of one lake in one session, and keeps the last few. Thread-safe."""

    def __init__(self, spark: SparkSession, context: Context) -> None:
        self._spark, self._context = spark, context
        self._staging = Staging(context.store)
        self._frames: SizedCache[Hashable, NamedFrame] = SizedCache(_FRAMES)
        self._bitmaps: SizedCache[Hashable, _Bitmap] = SizedCache(_BITMAPS)
        self._columns: SizedCache[Hashable, list[Column]] = SizedCache(_FRAMES)

    def frame(self, state: TableState, asked: Predicate | None = None) -> NamedFrame:
        """The rows of the version that `state` describes; perhaps without some for which `asked` is not true."""
        if asked is None or asked.is_true:
            every = partial(self._left, state, Predicate.everything(state.schema))
            return self._frames.get(_files_of(state), lambda: self._named(state, every()))
        left = self._left(state, asked)
        numbers = frozenset(segment.facts.number for segment in left)
        return self._frames.get((*_files_of(state), numbers), lambda: self._named(state, left))

    def located(self, state: TableState, asked: Predicate) -> NamedFrame:
        """The same rows, each followed by the number of its segment and its position in it."""
        segments = self._left(state, asked)
        return NamedFrame(self._build(state, segments, located=True), segments=len(segments))

    def with_hidden(self, state: TableState, asked: Predicate) -> NamedFrame:
        """The same rows, each followed by the hidden columns of `hidden.NAMES`."""
        segments = self._left(state, asked)
        rows = self._build(state, segments, located=True, lineage=True)
        hidden = len(hidden_of([field.name for field in state.schema.fields]))
        catalog = self._context.catalog
        versions, births = catalog.sequence_versions(state.id), catalog.birth_versions(state.id)
        frame = add_hidden(rows, segments, versions, births)
        return NamedFrame(frame, hidden, len(segments))

    def _named(self, state: TableState, segments: Sequence[LiveSegment]) -> NamedFrame:
        return NamedFrame(self._build(state, segments), segments=len(segments))

    def _left(self, state: TableState, asked: Predicate) -> Sequence[LiveSegment]:
        """The segments that may hold rows which are asked for, with what is known of NaN in them."""
        planned = plan_segments(self._context.catalog, state, asked, floats_of(state.schema))
        return narrow(self._context.catalog, self._context.secondary, state, asked, planned).segments

    def close(self) -> None:
        """Clear cached frames and remove copies of files; existing frames can no longer be read if they need those."""
        self._frames.clear()
        self._bitmaps.clear()
        self._staging.close()

    def _build(
        self, state: TableState, segments: Sequence[LiveSegment], *, located: bool = False, lineage: bool = False
    ) -> DataFrame:
        schema = located_schema(state.schema, lineage=lineage) if located else spark_schema(state.schema)
        if not segments:
            return frame_of(self._spark, [], schema)
        if not self._context.store.is_local and not is_local(str(self._spark.sparkContext.master)):
            store = self._context.store
            return planned_scan(self._spark, store, state.schema, segments, located=located, lineage=lineage)
        scans: list[DataFrame] = []
        if apart := [segment for segment in segments if parse_base_path(segment.facts.path) is not None]:
            store = self._context.store
            scans.append(planned_scan(self._spark, store, state.schema, apart, located=located, lineage=lineage))
            numbers = {segment.facts.number for segment in apart}
            segments = [segment for segment in segments if segment.facts.number not in numbers]
        if not is_local(str(self._spark.sparkContext.master)):
            beside = [s for s in segments if s.facts.files]  # no file holds all of their columns
            segments = [s for s in segments if not s.facts.files]
            if beside:
                store = self._context.store
                scans.append(planned_scan(self._spark, store, state.schema, beside, located=located, lineage=lineage))
        for plans, members in _groups(state, segments):
            for part in _by_lineage(members) if lineage else (members,):
                scans += self._scans(state, plans, part, located=located, lineage=lineage)
        return reduce(DataFrame.union, scans)

    def _scans(
        self,
        state: TableState,
        plans: Sequence[ColumnPlan],
        segments: Sequence[LiveSegment],
        *,
        located: bool,
        lineage: bool,
    ) -> Iterator[DataFrame]:
        """Scans of segments that are alike: of those with deletion vectors, and of the others."""
        columns = self._columns.get(tuple(plan.key for plan in plans), lambda: [plan.column() for plan in plans])
        stored = lineage and segments[0].facts.has_lineage
        more = stored_lineage() if stored else ()
        tail = lineage_columns(stored=stored) if lineage else ()
        plain: list[LiveSegment] = []
        for position, same in _by_position_column(segments):
            whole, tested = _tested(same)
            if whole and located:
                scan = self._scan(state, plans, whole, StructField(position, LongType()), *more)
                yield scan.select(*columns, *_place(position), *tail)
            elif whole:
                plain += whole
            for start in range(0, len(tested), _MARKED):
                part = tested[start : start + _MARKED]
                scan = self._scan(state, plans, part, StructField(position, LongType()), *more)
                live = scan.where(self._bitmap(part).is_live(F.col(position)))
                yield live.select(*columns, *(_place(position) if located else ()), *tail)
        if plain:
            yield self._scan(state, plans, plain).select(*columns)

    def _scan(
        self, state: TableState, plans: Sequence[ColumnPlan], segments: Sequence[LiveSegment], *more: StructField
    ) -> DataFrame:
        declared = [plan.declared for plan in plans if plan.declared is not None]
        columns, number = StructType([*declared, *more]), StructType([StructField(SEGMENT, LongType())])
        scans = []
        for owner, facts in by_owner(state.id, [s.facts for s in segments]).items():  # of a clone there may be two
            base, files = self._staging.locate(owner, facts)
            scans.append(scan_files(self._spark, base, files, columns, number))
        return reduce(DataFrame.union, scans)

    def _bitmap(self, segments: Sequence[LiveSegment]) -> _Bitmap:
        """The deletion vectors of these segments."""
        key = frozenset((s.facts.number, None if s.vector is None else s.vector.id) for s in segments)
        return self._bitmaps.get(key, lambda: self._build_bitmap(segments))

    def _build_bitmap(self, segments: Sequence[LiveSegment]) -> _Bitmap:
        slots = _slots(np.asarray([segment.facts.number for segment in segments]))
        none = max((segment.facts.rows for segment in segments if segment.vector is None), default=0)
        words = [np.zeros(slots, np.int64), np.zeros(-(-none // 64), np.int64)]  # shared by those without a vector
        words[0][:] = slots
        start = slots + len(words[1])
        for segment in segments:
            if segment.vector is not None:
                vector = self._context.vectors.get(self._context.store, segment.vector, segment.facts.rows)
                words[0][segment.facts.number % slots] = start
                words.append(deletion_vector.words(vector, segment.facts.rows))
                start += len(words[-1])
        row = pa.ListArray.from_arrays(pa.array([0, start], pa.int32()), pa.array(np.concatenate(words)))
        schema = StructType([StructField("words", ArrayType(LongType(), containsNull=False), nullable=False)])
        return _Bitmap(frame_of(self._spark, pa.table({"words": row}), schema), slots)


class NamedFrame:
    """A DataFrame, and the name of a temporary view of it that lives as long as this object: made when first asked for.

    Making and dropping a view takes Spark as long as it takes to plan a small query. The last `hidden` columns are for
    queries that name them. The rows of a table come from so many `segments`.
    """

    def __init__(self, frame: DataFrame, hidden: int = 0, segments: int = 0) -> None:
        self.frame, self.hidden, self.segments = frame, hidden, segments
        self._lock = threading.Lock()
        self._view: str | None = None

    @property
    def view(self) -> str:
        with self._lock:
            if self._view is None:
                view = f"_moulin_{uuid4().hex}"
                self.frame.createOrReplaceTempView(view)
                weakref.finalize(self, _drop_view, self.frame.sparkSession, view).atexit = False
                self._view = view
            return self._view


def _files_of(state: TableState) -> tuple[Hashable, ...]:
    """Names the files that a version has. Those of an older one change when rows are erased from it."""
    newer = state.newest_version if state.newest_version > state.head_version else 0
    return state.id, state.head_version, newer


def _drop_view(spark: SparkSession, name: str) -> None:
    """Ignores errors: the session may have ended."""
    with suppress(PySparkException, Py4JError, OSError):
        spark.catalog.dropTempView(name)


@dataclass(frozen=True)
class _Bitmap:
    """Deleted positions of several segments: a frame of one row with one array.

    Its first `slots` words hold, in slot `number % slots`, where the bits of a segment begin. A scalar sub-query hands
    it to the generated code as a constant: a broadcast join would look it up for every row again, which costs more.
    """

    frame: DataFrame
    slots: int

    def is_live(self, position: Column) -> Column:
        """Whether the row at this position of its segment is not deleted. It is an error that a position is unknown.

        An error in the end, and not where the position is read: every step of the way passes nulls on, and generated
        code that asks once is faster.
        """
        words = self.frame.scalar()
        start = words[F.col(SEGMENT) % self.slots]  # unlike F.get, this takes a long without a checked cast
        word = words[start + F.shiftright(position, 6)]
        bit = F.call_function("shiftright", word, position.bitwiseAND(F.lit(63)).cast("int"))
        live = bit.bitwiseAND(F.lit(1).cast("bigint")) == 0
        return F.coalesce(live, F.raise_error(F.lit(_NO_POSITION)).cast("boolean"))


def _place(position: str) -> tuple[Column, Column]:
    return F.col(SEGMENT), F.col(position).alias(POSITION_COLUMN)


def _by_lineage(segments: Sequence[LiveSegment]) -> Iterator[list[LiveSegment]]:
    """Segments that store row ids, and those that do not."""
    for stored in (True, False):
        if same := [s for s in segments if s.facts.has_lineage is stored]:
            yield same


def _tested(segments: Sequence[LiveSegment]) -> tuple[list[LiveSegment], list[LiveSegment]]:
    """Segments that are read as they are, and those whose rows are tested.

    Those with a deletion vector are, and beside them few rows without one.
    """
    plain = [s for s in segments if s.vector is None]
    marked = [s for s in segments if s.vector is not None]
    if marked and len(segments) <= _MARKED and sum(s.facts.rows for s in plain) <= _FEW_ROWS:
        return [], list(segments)
    return plain, marked


def _by_position_column(segments: Sequence[LiveSegment]) -> Iterator[tuple[str, list[LiveSegment]]]:
    """Segments by the column that has the position of each row."""
    for name, stored in ((STORED_POSITION, True), (_COUNTED, False)):
        yield name, [s for s in segments if (s.facts.level > 0) is stored]


def _slots(numbers: Integers) -> int:
    """A modulus, as small as it is quickly found, that tells these numbers apart."""
    slots = len(numbers)
    while len(np.unique(numbers % slots)) < len(numbers):
        slots += 1 + slots // 64
    return slots


def _stored_as(segment: LiveSegment) -> Hashable:
    """What says which columns the files of a segment have."""
    return segment.facts.schema_id, tuple(file.fields for file in segment.facts.files)


def _groups(
    state: TableState, segments: Sequence[LiveSegment]
) -> list[tuple[tuple[ColumnPlan, ...], list[LiveSegment]]]:
    """Segments that one scan can read, with the plan of its columns; those that may hold NaN apart."""
    one_of = {_stored_as(segment): segment.facts for segment in segments}
    written = {key: written_schema(state, facts) for key, facts in one_of.items()}
    plans = {key: plan_columns(state.schema, schema) for key, schema in written.items()}
    floats = {field.name: frozenset(float_fields(field)) for field in state.schema.fields}
    stored = {key: floats_of(schema) for key, schema in written.items()}
    groups: dict[Any, tuple[tuple[ColumnPlan, ...], list[LiveSegment], set[str]]] = {}
    for segment in segments:
        number = _stored_as(segment)
        none = {facts.field_id for facts in segment.facts.columns if facts.nans == 0}
        unsure = stored[number] - none
        nans = {name for name, fields in floats.items() if fields & unsure} if unsure else set()
        key = tuple(p.key for p in plans[number]), bool(nans)
        _, members, names = groups.setdefault(key, (plans[number], [], set()))
        members.append(segment)
        names |= nans
    return [
        (tuple(plan.unpruned() if plan.name in nans else plan for plan in chosen), members)
        for chosen, members, nans in groups.values()
    ]
