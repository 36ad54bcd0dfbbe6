"""The fresh lane: stored records that are not yet in segments, as rows of their tables.

One snapshot of the catalog says the version, how far each stream is in it, and the routing. A record is in a segment of
that version, or past its stream's offset and read here; never both. Baby segments are read and routed by the code that
the nursery runs, and of what they hold only the kinds that the tables of a query can take. What was decoded is kept as
files on this machine that Spark reads like segments. Executors of a cluster cannot read those: there, the query's own
tasks decode the baby segments.
"""

# Decisions: docs/decisions/0078

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from moulin.errors import NotFound, Unavailable
from moulin.ingest.intake.fresh import FreshSegments
from moulin.ingest.intake.intake import BabySegmentFacts, Kind, Targets, batches_of, take_in
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFacts
from moulin.model.ingest import StreamList
from moulin.model.predicate import Predicate
from moulin.model.schema.values import Schema
from moulin.pipeline.read.batches import spark_arrow_schema, to_spark
from moulin.pipeline.read.columns import plan_columns, spark_schema
from moulin.pipeline.session import is_local
from moulin.storage.store import Store, open_store
from moulin.table.write.segment_writer import write_segment

_KEPT_SECONDS = 3600.0  # files stay for so long after a query last used them, like the baby segments they come from


@dataclass(frozen=True, slots=True)
class FreshFile:
    """A file of decoded rows, and what is known of them."""

    path: str
    rows: int
    columns: Mapping[int, ColumnFacts]


@dataclass(frozen=True, slots=True)
class FreshTask:
    """Decode one baby segment for the tables that accept these kinds, into local files."""

    store: Store
    folder: str
    baby_segment: BabySegmentFacts
    kinds: frozenset[Kind]
    targets: Targets


def decode_baby_segment(task: FreshTask) -> dict[UUID, FreshFile]:
    """The file of each such table that the baby segment has rows for."""
    intake = take_in(task.store, [task.baby_segment], task.targets, task.kinds)
    scratch = open_store(task.folder)
    files = {}
    for table_id, tables in intake.rows.items():
        if task.targets.kinds(table_id) != task.kinds:
            continue
        layout = task.targets.layouts[table_id]
        facts = write_segment(scratch, layout, tables, (), task.baby_segment.offset, level=0)
        if facts.rows:
            path = str(scratch.local_path(facts.path))
            files[table_id] = FreshFile(path, facts.rows, {column.field_id: column for column in facts.columns})
    return files


@dataclass(slots=True)
class _Decoded:
    files: dict[UUID, FreshFile]
    used_at: float


class Fresh(FreshSegments):
    """The fresh rows at one moment, in addition to `version`. They are listed on first use of a table."""

    def __init__(self, lane: FreshLane, listed: StreamList) -> None:
        super().__init__(lane.lake.store, lane.lake.catalog, listed)
        self._lane = lane

    def frame(self, spark: SparkSession, state: TableState, asked: Predicate) -> DataFrame | None:
        """The fresh rows of a table at that version, perhaps without some for which `asked` is not true.

        None when there are none.
        """
        if not (baby_segments := self.of(state.id)):
            return None
        if not self._lane.is_local:
            return _planned(spark, self._lane.lake.store, baby_segments, self.targets, state, asked)
        files = self._lane.decoded(self, baby_segments, state.id, asked)
        if not files:
            return None
        plans = plan_columns(state.schema, state.schema)
        declared = [plan.declared for plan in plans if plan.declared is not None]
        reader = spark.read.option("__globPaths__", "false").schema(StructType(declared))
        return reader.parquet(*files).select(*(plan.column() for plan in plans))


def _planned(
    spark: SparkSession,
    store: Store,
    baby_segments: Sequence[BabySegmentFacts],
    targets: Targets,
    state: TableState,
    asked: Predicate,
) -> DataFrame:
    """The rows of a table in these baby segments, decoded by tasks of the query, one for each baby segment."""
    shown = spark_schema(state.schema)
    decoder = _Decoder(store, tuple(baby_segments), targets, state.id, state.schema, asked, spark_arrow_schema(shown))
    return spark.range(0, len(baby_segments), 1, len(baby_segments)).mapInArrow(decoder, shown)


@dataclass(frozen=True, slots=True)
class _Decoder:
    """Gives the rows of a table that are asked for, for numbers of baby segments. Sent to tasks."""

    store: Store
    baby_segments: tuple[BabySegmentFacts, ...]
    targets: Targets
    table_id: UUID
    schema: Schema
    asked: Predicate
    shown: pa.Schema

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self.schema.fields]
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            intake = take_in(self.store, [self.baby_segments[number]], self.targets, self.targets.kinds(self.table_id))
            for batch in batches_of(intake.rows.get(self.table_id, ())):
                rows = batch if self.asked.is_true else batch.filter(self.asked.mask(batch))
                if rows.num_rows:
                    yield to_spark(rows, self.schema, names, self.shown)


class FreshLane:
    """The fresh lane of one lake in one session. Thread-safe."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.lake = lake
        self._folder: str | None = None
        self._held: dict[Hashable, _Decoded] = {}
        self._lock = threading.Lock()
        self.is_local = is_local(str(spark.sparkContext.master))
        self._catalog = None if lake.catalog.is_replica else lake.catalog

    def take(self) -> Fresh | None:
        """The current fresh rows; None on a replica."""
        return None if self._catalog is None else Fresh(self, self._catalog.ingest.snapshot())

    def decoded(
        self, fresh: Fresh, baby_segments: Iterable[BabySegmentFacts], table_id: UUID, asked: Predicate
    ) -> list[str]:
        """The files that hold the rows of a table in these baby segments; those alone that `asked` may be true in."""
        with self._lock:
            self._forget()
            kinds = fresh.targets.kinds(table_id)
            keys = {baby_segment: (baby_segment, kinds, fresh.routing) for baby_segment in baby_segments}
            missing = [baby_segment for baby_segment, key in keys.items() if key not in self._held]
            if missing:
                self._held |= self._decode(
                    {baby_segment: keys[baby_segment] for baby_segment in missing}, kinds, fresh.targets
                )
            found = []
            for key in keys.values():
                held = self._held[key]
                held.used_at = time.monotonic()
                file = held.files.get(table_id)
                if file is not None and asked.may_match(file.columns, file.rows):
                    found.append(file.path)
            return found

    def close(self) -> None:
        with self._lock:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self._held.clear()

    def _decode(
        self, baby_segments: Mapping[BabySegmentFacts, Hashable], kinds: frozenset[Kind], targets: Targets
    ) -> dict[Hashable, _Decoded]:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="moulin-fresh-")
        tasks = [
            FreshTask(self.lake.store, self._folder, baby_segment, kinds, targets) for baby_segment in baby_segments
        ]
        try:
            # Spark's processes would take longer to start than this does.
            with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="moulin-fresh") as pool:
                found = list(pool.map(decode_baby_segment, tasks))
        except NotFound as error:
            raise Unavailable(
                f"Fresh data was committed and deleted during the query; run the query again. {error}"
            ) from error
        return {
            key: _Decoded(files, time.monotonic()) for key, files in zip(baby_segments.values(), found, strict=True)
        }

    def _forget(self) -> None:
        before = time.monotonic() - _KEPT_SECONDS
        for key in [key for key, decoded in self._held.items() if decoded.used_at < before]:
            for file in self._held.pop(key).files.values():
                Path(file.path).unlink(missing_ok=True)
