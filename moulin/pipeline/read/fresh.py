"""The fresh lane: what is stored in streams and not yet in segments, as rows of the tables it will go to.

One snapshot of the catalog says the version, how far each stream is in it, and the routing. A record is in a segment of
that version, or past its stream's offset and read here; never both. Objects are read and routed by the code that the
nursery runs, and of what they hold only the kinds that the tables of a query can take. What was decoded is kept as
files on this machine that Spark reads like segments. Executors of a cluster cannot read those: there, the query's own
tasks decode the objects.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from uuid import UUID

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from moulin.catalog.replica import ReplicaCatalog
from moulin.errors import NotFound, Unavailable
from moulin.ingest.backlog import backlog
from moulin.ingest.intake import Blob, Kind, Targets, batches_of, candidates, take_in
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.ingest import StreamList
from moulin.model.schema.values import Schema
from moulin.pipeline.read.batches import spark_arrow_schema, to_spark
from moulin.pipeline.read.columns import plan_columns, spark_schema
from moulin.pipeline.session import is_local
from moulin.storage.store import Store, open_store
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import write_segment

_KEPT_SECONDS = 3600.0  # files are there for so long after a query last used them, like the objects they come from


@dataclass(frozen=True, slots=True)
class FreshTask:
    """Decode what one object holds for the tables that take these kinds, into files below a local folder."""

    store: Store
    folder: str
    blob: Blob
    kinds: frozenset[Kind]
    targets: Targets


def decode_blob(task: FreshTask) -> dict[UUID, str]:
    """The file of each such table that the object has rows for."""
    intake = take_in(task.store, [task.blob], task.targets, task.kinds)
    scratch = open_store(task.folder)
    files = {}
    for table_id, tables in intake.rows.items():
        if task.targets.kinds(table_id) != task.kinds:
            continue
        layout = task.targets.layouts[table_id]
        facts = write_segment(scratch, layout, tables, (), task.blob.offset, level=0)
        if facts.rows:
            files[table_id] = str(scratch.local_path(facts.path))
    return files


@dataclass(slots=True)
class _Decoded:
    files: dict[UUID, str]
    used_at: float


class Fresh:
    """The fresh rows of one moment, which belong on top of `version`. They are looked for when a table is asked for."""

    def __init__(self, lane: FreshLane, listed: StreamList) -> None:
        self.version = listed.version
        self._lane, self._listed = lane, listed
        self._tables = candidates(listed)
        self._streams = {stream.id: stream for stream in listed.streams if not stream.is_drained}

    @cached_property
    def blobs(self) -> list[Blob]:
        """The objects past the frontiers; the same for all tables of a query."""
        store = self._lane.lake.store
        return [blob for stream in self._streams.values() for blob in backlog(store, stream).blobs]

    @cached_property
    def targets(self) -> Targets:
        """Layouts as of the version, so that files have the columns that its rows have."""
        layouts = {}
        for table_id in self._tables:
            try:
                state = self._lane.lake.catalog.table_by_id(table_id, self.version)
            except NotFound:
                continue  # dropped: no query sees it
            if not state.schema.identifier_field_ids:
                layouts[table_id] = Layout.of(state)
        return Targets(self._listed.routing, self._listed.tables, layouts)

    @cached_property
    def routing(self) -> Hashable:
        """What decides, beside an object itself, which rows it gives to which table."""
        schemas = tuple(sorted((t, layout.schema.schema_id) for t, layout in self.targets.layouts.items()))
        return self._listed.routing_seq, schemas

    def frame(self, spark: SparkSession, state: TableState) -> DataFrame | None:
        """The fresh rows of a table at that version; None when there are none."""
        if state.id not in self._tables or not self.blobs:
            return None
        blobs = [blob for blob in self.blobs if blob.offset > self._merged(blob.stream_id, state.id)]
        if not self._lane.is_local:
            return _planned(spark, self._lane.lake.store, blobs, self.targets, state) if blobs else None
        files = self._lane.decoded(self, blobs, state.id)
        if not files:
            return None
        plans = plan_columns(state.schema, state.schema)
        declared = [plan.declared for plan in plans if plan.declared is not None]
        reader = spark.read.option("__globPaths__", "false").schema(StructType(declared))
        return reader.parquet(*files).select(*(plan.column() for plan in plans))

    def _merged(self, stream_id: UUID, table_id: UUID) -> int:
        """The last object of a stream that a table has rows of in segments, or need not have."""
        stream = self._streams[stream_id]
        return next((table.merged_offset for table in stream.tables if table.table_id == table_id), stream.frontier)


def _planned(
    spark: SparkSession, store: Store, blobs: Sequence[Blob], targets: Targets, state: TableState
) -> DataFrame:
    """The rows of a table in these objects, decoded by tasks of the query, one for each object."""
    shown = spark_schema(state.schema)
    decoder = _Decoder(store, tuple(blobs), targets, state.id, state.schema, spark_arrow_schema(shown))
    return spark.range(0, len(blobs), 1, len(blobs)).mapInArrow(decoder, shown)


@dataclass(frozen=True, slots=True)
class _Decoder:
    """Gives the rows of a table for numbers of objects. Sent to tasks."""

    store: Store
    blobs: tuple[Blob, ...]
    targets: Targets
    table_id: UUID
    schema: Schema
    shown: pa.Schema

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self.schema.fields]
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            intake = take_in(self.store, [self.blobs[number]], self.targets, self.targets.kinds(self.table_id))
            for batch in batches_of(intake.rows.get(self.table_id, ())):
                yield to_spark(batch, self.schema, names, self.shown)


class FreshLane:
    """The fresh lane of one lake in one session. Thread-safe."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.lake = lake
        self._folder: str | None = None
        self._held: dict[Hashable, _Decoded] = {}
        self._lock = threading.Lock()
        self.is_local = is_local(str(spark.sparkContext.master))
        self._catalog = None if isinstance(lake.catalog, ReplicaCatalog) else lake.catalog

    def take(self) -> Fresh | None:
        """The fresh rows of now; None on a replica."""
        return None if self._catalog is None else Fresh(self, self._catalog.ingest.snapshot())

    def decoded(self, fresh: Fresh, blobs: Iterable[Blob], table_id: UUID) -> list[str]:
        """The files that hold the rows of a table in these objects."""
        with self._lock:
            self._forget()
            kinds = fresh.targets.kinds(table_id)
            keys = {blob: (blob, kinds, fresh.routing) for blob in blobs}
            missing = [blob for blob, key in keys.items() if key not in self._held]
            if missing:
                self._held |= self._decode({blob: keys[blob] for blob in missing}, kinds, fresh.targets)
            found = []
            for key in keys.values():
                held = self._held[key]
                held.used_at = time.monotonic()
                if table_id in held.files:
                    found.append(held.files[table_id])
            return found

    def close(self) -> None:
        with self._lock:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self._held.clear()

    def _decode(
        self, blobs: Mapping[Blob, Hashable], kinds: frozenset[Kind], targets: Targets
    ) -> dict[Hashable, _Decoded]:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="moulin-fresh-")
        tasks = [FreshTask(self.lake.store, self._folder, blob, kinds, targets) for blob in blobs]
        try:
            # Spark's processes would take longer to start than this does.
            with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="moulin-fresh") as pool:
                found = list(pool.map(decode_blob, tasks))
        except NotFound as error:
            raise Unavailable(f"Fresh data was merged and deleted meanwhile; run the query again. {error}") from error
        return {key: _Decoded(files, time.monotonic()) for key, files in zip(blobs.values(), found, strict=True)}

    def _forget(self) -> None:
        before = time.monotonic() - _KEPT_SECONDS
        for key in [key for key, decoded in self._held.items() if decoded.used_at < before]:
            for file in self._held.pop(key).files.values():
                Path(file).unlink(missing_ok=True)
