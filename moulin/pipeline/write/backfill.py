"""Loads folders of files into a table: every file once, in batches, even if the load is killed and restarted.

A batch is bound to its number by its commit: the request id is (table, source, number), and the digest kept with it
names an object that lists the files of the batch. So what was loaded is what is committed, and of two loads at once one
commits each number; the other looks again. Nothing is planned ahead that a changed folder could contradict.
"""

# Decisions: docs/decisions/0120

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa

from moulin.catalog.commit import backfills
from moulin.errors import AlreadyExists, Conflict, FailedPrecondition, InvalidInput, NotFound
from moulin.formats.backfill_batch import BackfillBatch, LoadedFile, decode, digest, encode, source_key
from moulin.formats.row_file import RowFormat, checked_format, format_of, read_rows
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.names import did_you_mean
from moulin.pipeline.runner import SparkRunner
from moulin.pipeline.write.source_write import AppendJob, BulkJob, Part, SourceWrite
from moulin.pipeline.write.writer import FrameJob
from moulin.storage import paths
from moulin.storage.store import ObjectInfo, Store, open_store
from moulin.table.bulk.commit import plan_bulk
from moulin.table.bulk.writer import write_bulk
from moulin.table.keyed.tables import keyed_table
from moulin.table.ports import Backfilled, BatchLoaded
from moulin.table.write.append import AppendPlan, append_rows
from moulin.table.write.writes import Outcome

BATCH_BYTES = 512 << 20
_NULL = "__HIVE_DEFAULT_PARTITION__"  # what Hive and Spark write for null in the name of a folder
_CHANGED = ("error", "skip")


@dataclass(frozen=True, slots=True)
class _File:
    """A file to load, and what it is."""

    loaded: LoadedFile
    kind: RowFormat


@dataclass(frozen=True, slots=True)
class LoadSlice:
    """What one task reads and writes. Files of the slices of a batch follow each other in their order."""

    index: int
    source: Store
    files: tuple[_File, ...]
    job: AppendJob | BulkJob


def backfill(
    lake: Lake,
    runner: SparkRunner,
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
    """See `Table.backfill`."""
    if changed not in _CHANGED:
        raise InvalidInput(f"changed must be error or skip, not {changed!r}.{did_you_mean(changed, _CHANGED)}")
    batch_bytes = BATCH_BYTES if batch_bytes is None else batch_bytes
    if batch_bytes < 1:
        raise InvalidInput("batch_bytes must be at least 1.")
    if source is not None and not source.strip():
        raise InvalidInput("The name of a source must not be empty.")
    folder, only = _open_source(path, storage_options)
    kind = None if format is None else checked_format(format)
    files, ignored = _files(folder, only, kind)
    load = _Load(lake, runner, table_id, folder, files, batch_bytes, _Ledger(lake, table_id, source or folder.uri))
    return load.run(ignored, changed, progress or (lambda done: None))


@dataclass(slots=True)
class _Ledger:
    """The batches of a source that are committed, as far as they were read."""

    lake: Lake
    table_id: UUID
    source: str
    next: int = 0
    files: dict[str, LoadedFile] = field(default_factory=dict)

    def request_id(self, number: int) -> str:
        return backfills.request_id(self.table_id, source_key(self.source), number)

    def catch_up(self) -> None:
        """Read what was committed since."""
        while (done := self.lake.catalog.committed(self.request_id(self.next))) is not None:
            if done.digest is None:
                raise FailedPrecondition(f"The request id {self.request_id(self.next)} was used for something else.")
            name = paths.backfill_batch(self.table_id, source_key(self.source), self.next, done.digest)
            batch = decode(self.lake.store.get(name), done.digest, name=name)
            self.files.update({file.path: file for file in batch.files})
            self.next += 1

    def announce(self, files: Sequence[_File]) -> bytes:
        """Store the list of the files of the next batch; its digest, which makes it count when it is committed."""
        data = encode(BackfillBatch(self.source, self.next, tuple(file.loaded for file in files)))
        key = digest(data)
        name = paths.backfill_batch(self.table_id, source_key(self.source), self.next, key)
        with suppress(AlreadyExists):  # from a load that was killed: the name tells the bytes
            self.lake.store.put_if_absent(name, data)
        return key


@dataclass(slots=True)
class _Load:
    """One call."""

    lake: Lake
    runner: SparkRunner
    table_id: UUID
    folder: Store
    files: list[_File]
    batch_bytes: int
    ledger: _Ledger

    def run(self, ignored: int, changed: str, progress: Callable[[BatchLoaded], None]) -> Backfilled:
        self.ledger.catch_up()
        result = Backfilled(self.lake.catalog.head_version(self.table_id), ignored=ignored)
        waiting = self._waiting(changed, result)
        result.loaded_before = len(self.files) - len(waiting) - len(result.changed)
        total = sum(file.loaded.size for file in waiting)
        while waiting:
            batch, number = _first_batch(waiting, self.batch_bytes), self.ledger.next
            done = self._load(batch)
            if done is None:  # another load committed this number: what it took is not taken again
                waiting = self._waiting(changed, result)
                continue
            waiting = waiting[len(batch) :]
            rows = done.rows_added + done.rows_updated
            result.version = done.version
            result.batches += bool(rows)
            result.files += len(batch)
            result.rows += rows
            result.bytes += sum(file.loaded.size for file in batch)
            left = sum(file.loaded.size for file in waiting)
            progress(BatchLoaded(number, done.version, len(batch), rows, total - left, total))
        return result

    def _waiting(self, changed: str, result: Backfilled) -> list[_File]:
        """The files that no batch has. One that is not as it was loaded is an error, or noted."""
        other = [
            file.loaded.path
            for file in self.files
            if self.ledger.files.get(file.loaded.path, file.loaded) != file.loaded
        ]
        if other and changed == "error":
            raise FailedPrecondition(
                f"{len(other):,} files changed after they were loaded from {self.ledger.source}; the first is "
                f"{other[0]}. Put new rows into new files; to skip the changed files, pass changed='skip' (--changed "
                f"skip)."
            )
        result.changed = tuple(other)
        return [file for file in self.files if file.loaded.path not in self.ledger.files]

    def _load(self, files: Sequence[_File]) -> Outcome | None:
        """Load one batch; None when another load took its number. A batch without rows takes no version."""
        state = self.lake.catalog.table_by_id(self.table_id)
        job = self._job(state)
        shares = _shares(files, self.runner.cores)
        slices = [LoadSlice(index, self.folder, share, job) for index, share in enumerate(shares)]
        parts = [part for written in self.runner.map(load_files, slices) for part in written]
        if not parts:
            return Outcome(state.head_version)
        number, key = self.ledger.next, self.ledger.announce(files)
        request_id = self.ledger.request_id(number)
        write = SourceWrite(self.table_id, state.version, job, overwrite=False)
        summary = {"source": self.ledger.source, "batch": str(number), "files": str(len(files))}
        outcome = write.commit(self.lake, parts, request_id=request_id, digest=key, summary=summary)
        self.ledger.catch_up()
        committed = self.lake.catalog.committed(request_id)
        return outcome if committed is not None and committed.digest == key else None

    def _job(self, state: TableState) -> AppendJob | BulkJob:
        keyed = keyed_table(self.lake.context, self.table_id)
        if keyed is None:
            return FrameJob.of(self.lake.context, append_rows, AppendPlan.of(self.lake.context, state))
        plan = plan_bulk(self.lake.context, keyed, duplicates="last")
        return FrameJob.of(self.lake.context, write_bulk, plan)


def load_files(work: LoadSlice) -> Sequence[Part]:
    """Write the rows of the files of one slice. Conflict if one of them changes."""
    pa.set_cpu_count(1)
    return tuple(work.job.write_fitted(work.index, _rows(work)))


def _rows(work: LoadSlice) -> Iterator[pa.RecordBatch]:
    columns = {field.name for field in work.job.plan.source.fields}
    for file in work.files:
        path = file.loaded.path
        constants = {name: value for name, value in _folder_values(path).items() if name in columns}
        shown = f"{work.source.uri.rstrip('/')}/{path}"
        opener = partial(work.source.reader, path, file.loaded.size)
        yield from read_rows(shown, file.kind, work.job.plan.source, opener, constants)
        if _loaded(work.source.head(path)) != file.loaded:
            raise Conflict(f"{shown} changed while it was read: its batch was not loaded. Run the load again.")


def _folder_values(path: str) -> dict[str, str | None]:
    """The columns that folders such as `day=2024-05-01` name, as Hive and Spark lay out partitioned data."""
    pairs = (part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    return {unquote(name): None if value == _NULL else unquote(value) for name, value in pairs}


def _open_source(path: str, options: Mapping[str, str] | None) -> tuple[Store, str | None]:
    """The folder, and the one file in it that is meant when the path is that of a file."""
    local = Path(path)
    if "://" not in path and local.is_file():
        return open_store(os.path.abspath(local.parent), create=False), local.name
    return open_store(path if "://" in path else os.path.abspath(path), options, create=False), None


def _files(folder: Store, only: str | None, kind: RowFormat | None) -> tuple[list[_File], int]:
    """The files to load in the order of their paths, and how many others there are.

    Without a format, those whose ending tells one; with it, all but those whose ending tells another. Names that begin
    with a dot or an underscore are not data, as everywhere.
    """
    found: list[_File] = []
    ignored = 0
    for info in [folder.head(only)] if only is not None else folder.list():
        if only is None and any(part.startswith((".", "_")) and "=" not in part for part in info.path.split("/")):
            continue
        told = format_of(info.path)
        chosen = told if kind is None else kind
        if chosen is None or (kind is not None and told not in (None, kind)):
            ignored += 1
        else:
            found.append(_File(_loaded(info), chosen))
    if not found:
        hint = f", and {ignored:,} of other kinds" if ignored else ""
        raise NotFound(
            f"There are no files to load in {folder.uri}{hint}: pass format= if their extensions do not tell."
        )
    return sorted(found, key=lambda file: file.loaded.path), ignored


def _loaded(info: ObjectInfo) -> LoadedFile:
    return LoadedFile(info.path, info.size, info.etag or info.modified.isoformat())


def _first_batch(files: Sequence[_File], size: int) -> Sequence[_File]:
    """The first files, up to `size` bytes, and always one."""
    taken = 0
    for index, file in enumerate(files):
        taken += file.loaded.size
        if taken > size and index:
            return files[:index]
    return files


def _shares(files: Sequence[_File], cores: int) -> list[tuple[_File, ...]]:
    """The files in as many parts of about equal size as there are cores."""
    target = max(1, -(-sum(file.loaded.size for file in files) // cores))
    shares: list[list[_File]] = [[]]
    size = 0
    for file in files:
        if shares[-1] and size + file.loaded.size > target and len(shares) < cores:
            shares.append([])
            size = 0
        shares[-1].append(file)
        size += file.loaded.size
    return [tuple(share) for share in shares]


__all__ = ["BATCH_BYTES", "backfill"]
