"""The fresh lane: what is stored in streams and not yet in segments, as rows of the tables it will go to.

One snapshot of the catalog says the version, how far each stream is in it, and the routing. A record is in a segment of
that version, or past its stream's offset and read here; never both. Objects are read and routed by the code that the
nursery runs. What they hold is kept, once decoded, as files on this machine that Spark reads like segments.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from moulin.catalog.replica import ReplicaCatalog
from moulin.errors import NotFound, Unavailable
from moulin.ingest.backlog import backlog
from moulin.ingest.intake import Blob, Targets, candidates, take_in
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.ingest import StreamList
from moulin.pipeline.columns import plan_columns
from moulin.pipeline.runner import SparkRunner
from moulin.pipeline.session import is_local
from moulin.storage.store import Store, open_store
from moulin.table.layout import Layout
from moulin.table.segment_writer import write_segment

_KEPT_SECONDS = 3600.0  # files are there for so long after a query last used them, like the objects they come from


@dataclass(frozen=True, slots=True)
class FreshTask:
    """Decode one object into files below a local folder."""

    store: Store
    folder: str
    blob: Blob
    targets: Targets


def decode_blob(task: FreshTask) -> dict[UUID, str]:
    """The file of each table that an object has rows for."""
    intake = take_in(task.store, [task.blob], task.targets)
    scratch = open_store(task.folder)
    files = {}
    for table_id, tables in intake.rows.items():
        layout = task.targets.layouts[table_id]
        facts = write_segment(scratch, layout, tables, (), task.blob.offset, level=0)
        if facts.rows:
            files[table_id] = str(scratch.local_path(facts.path))
    return files


@dataclass(slots=True)
class _Decoded:
    files: dict[UUID, str]
    used_at: float


@dataclass(frozen=True, slots=True)
class Fresh:
    """The fresh rows of one moment: `version`, and files by table that belong on top of it."""

    version: int
    files: dict[UUID, list[str]]

    def frame(self, spark: SparkSession, state: TableState) -> DataFrame | None:
        """The fresh rows of a table at that version; None when there are none."""
        files = self.files.get(state.id)
        if not files:
            return None
        plans = plan_columns(state.schema, state.schema)
        declared = [plan.declared for plan in plans if plan.declared is not None]
        reader = spark.read.option("__globPaths__", "false").schema(StructType(declared))
        return reader.parquet(*files).select(*(plan.column() for plan in plans))


class FreshLane:
    """The fresh lane of one lake in one session. Thread-safe."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark, self._lake = spark, lake
        self._folder: str | None = None
        self._held: dict[Hashable, _Decoded] = {}
        self._lock = threading.Lock()
        versions_alone = isinstance(lake.catalog, ReplicaCatalog) or not is_local(str(spark.sparkContext.master))
        self._catalog = None if versions_alone else lake.catalog

    def take(self) -> Fresh | None:
        """The fresh rows of now; None on a replica, and on a cluster, which cannot read local files."""
        if self._catalog is None:
            return None
        listed = self._catalog.ingest.snapshot()
        with self._lock:
            return Fresh(listed.version, self._files(listed))

    def close(self) -> None:
        with self._lock:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            self._held.clear()

    def _files(self, listed: StreamList) -> dict[UUID, list[str]]:
        streams = {stream.id: stream for stream in listed.streams if not stream.is_drained}
        blobs = [blob for stream in streams.values() for blob in backlog(self._lake.store, stream).blobs]
        self._forget()
        if not blobs:
            return {}
        targets = self._targets(listed)
        schemas = tuple(sorted((t, layout.schema.schema_id) for t, layout in targets.layouts.items()))
        keys = {blob: (blob, listed.routing_seq, schemas) for blob in blobs}
        self._decode([blob for blob in blobs if keys[blob] not in self._held], keys, targets)
        merged = {(s.id, table.table_id): table.merged_offset for s in streams.values() for table in s.tables}
        files: dict[UUID, list[str]] = {}
        for blob in blobs:
            decoded = self._held[keys[blob]]
            decoded.used_at = time.monotonic()
            for table_id, file in decoded.files.items():
                if blob.offset > merged.get((blob.stream_id, table_id), streams[blob.stream_id].frontier):
                    files.setdefault(table_id, []).append(file)
        return files

    def _decode(self, blobs: Sequence[Blob], keys: Mapping[Blob, Hashable], targets: Targets) -> None:
        if not blobs:
            return
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="moulin-fresh-")
        tasks = [FreshTask(self._lake.store, self._folder, blob, targets) for blob in blobs]
        try:
            if sum(blob.size for blob in blobs) >= self._lake.config.nursery_local_bytes:
                found = SparkRunner(self._spark).map(decode_blob, tasks)
            else:
                with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="moulin-fresh") as pool:
                    found = list(pool.map(decode_blob, tasks))
        except NotFound as error:
            raise Unavailable(f"Fresh data was merged and deleted meanwhile; run the query again. {error}") from error
        now = time.monotonic()
        for blob, files in zip(blobs, found, strict=True):
            self._held[keys[blob]] = _Decoded(files, now)

    def _targets(self, listed: StreamList) -> Targets:
        """Layouts as of the version, so that files have the columns that its rows have."""
        assert self._catalog is not None
        layouts = {}
        for table_id in candidates(listed):
            try:
                state = self._catalog.table_by_id(table_id, listed.version)
            except NotFound:
                continue  # dropped: no query sees it
            if not state.schema.identifier_field_ids:
                layouts[table_id] = Layout.of(state)
        return Targets(listed.routing, listed.tables, layouts)

    def _forget(self) -> None:
        before = time.monotonic() - _KEPT_SECONDS
        for key in [key for key, decoded in self._held.items() if decoded.used_at < before]:
            for file in self._held.pop(key).files.values():
                Path(file).unlink(missing_ok=True)
