"""The fresh lane: what is stored in streams and not yet in segments, as rows of the tables it will go to.

One snapshot of the catalog says the version, how far each stream is in it, and the routing. A record is in a segment of
that version, or past its stream's offset and read here; never both. Objects are read and routed by the code that the
nursery runs, and of what they hold only the kinds that the tables of a query can take. What was decoded is kept as
files on this machine that Spark reads like segments.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from moulin.catalog.replica import ReplicaCatalog
from moulin.errors import NotFound, Unavailable
from moulin.ingest.backlog import backlog
from moulin.ingest.intake import Blob, Kind, Targets, candidates, take_in
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.ingest import StreamList
from moulin.pipeline.columns import plan_columns
from moulin.pipeline.session import is_local
from moulin.storage.store import Store, open_store
from moulin.table.layout import Layout
from moulin.table.segment_writer import write_segment

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
        files = []
        for blob, file in self._lane.decoded(self, state.id):
            stream = self._streams[blob.stream_id]
            merged = next((t.merged_offset for t in stream.tables if t.table_id == state.id), stream.frontier)
            if blob.offset > merged:
                files.append(file)
        if not files:
            return None
        plans = plan_columns(state.schema, state.schema)
        declared = [plan.declared for plan in plans if plan.declared is not None]
        reader = spark.read.option("__globPaths__", "false").schema(StructType(declared))
        return reader.parquet(*files).select(*(plan.column() for plan in plans))


class FreshLane:
    """The fresh lane of one lake in one session. Thread-safe."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.lake = lake
        self._folder: str | None = None
        self._held: dict[Hashable, _Decoded] = {}
        self._lock = threading.Lock()
        versions_alone = isinstance(lake.catalog, ReplicaCatalog) or not is_local(str(spark.sparkContext.master))
        self._catalog = None if versions_alone else lake.catalog

    def take(self) -> Fresh | None:
        """The fresh rows of now; None on a replica, and on a cluster, which cannot read local files."""
        return None if self._catalog is None else Fresh(self, self._catalog.ingest.snapshot())

    def decoded(self, fresh: Fresh, table_id: UUID) -> list[tuple[Blob, str]]:
        """The files that hold rows of a table, with the objects they come from."""
        with self._lock:
            self._forget()
            kinds = fresh.targets.kinds(table_id)
            keys = {blob: (blob, kinds, fresh.routing) for blob in fresh.blobs}
            missing = [blob for blob, key in keys.items() if key not in self._held]
            if missing:
                self._held |= self._decode({blob: keys[blob] for blob in missing}, kinds, fresh.targets)
            found = []
            for blob, key in keys.items():
                held = self._held[key]
                held.used_at = time.monotonic()
                if table_id in held.files:
                    found.append((blob, held.files[table_id]))
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
            # The lane is for sessions on this machine: Spark's processes would take longer to start than this does.
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
