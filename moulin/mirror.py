"""Mirror: copies a lake to another storage root continuously, and reports how far the copy is behind.

At every moment the target is a complete lake at some version, usable by `moulin recover` and a read-only connect:
data files are copied first, then manifests in version order, and last the marker, without which it cannot be opened. A
killed mirror continues where it stopped: files with the same name and size are not copied again. Nothing is
deleted at the target, so it keeps more history than the lake. The exception are tables with erased rows: their
manifests are copied again, and files that the lake no longer has are deleted.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from moulin.catalog.identity import read_marker
from moulin.catalog.upkeep import mirror_source
from moulin.catalog.upkeep.erasure import erase
from moulin.catalog.upkeep.mirror_source import Source
from moulin.catalog.upkeep.verification import KnownFile
from moulin.errors import Corrupt, FailedPrecondition, NotFound, Unavailable
from moulin.lake import Lake
from moulin.model.columns.batching import batched
from moulin.storage import paths
from moulin.storage.store import Store, open_store

_THREADS = 4
_CHUNK = 8 << 20  # memory per thread
_AT_ONCE = 256  # copies queued for the threads
_ATTEMPTS = 5  # when clean-up removes files during a round

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """The copied files of one round, the version of the target, and how far the lake is ahead of it."""

    version: int
    objects: int
    bytes: int
    lag_versions: int
    lag_seconds: float


class Mirror:
    """Copies a lake to the storage at `target`. Two mirrors with the same target are safe, but duplicate work."""

    def __init__(self, lake: Lake, target: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._lake = lake
        self._target = open_store(target, storage_options)
        if self._target.uri == lake.store.uri:
            raise FailedPrecondition(f"{self._target.uri} is the lake itself: mirror it to another address.")
        self._there: dict[str, int] | None = None  # sizes of the target's files, after listing
        self._opened = False  # whether the target has its marker
        self._version = 0

    @property
    def target(self) -> Store:
        return self._target

    def run_once(self, progress: Progress | None = None) -> MirrorReport:
        """Copy up to the newest published version. The first round compares all files, later rounds only new ones."""
        if self._there is None:
            self._look()
        gone = ""
        for _ in range(_ATTEMPTS):
            source = mirror_source.take(self._lake.own_catalog(), self._version)
            if mirror_source.has_successor(self._lake.own_catalog(), self._target, source.version):
                raise FailedPrecondition(
                    f"The lake in {self._target.uri} was recovered and is now independent: choose another target."
                )
            try:
                objects, size = self._copy(source, progress or (lambda done, total: None))
                for table_id in sorted(source.erased):
                    self._erase(source, table_id)
                self._delete([path for path in source.gone if path in (self._there or ())])
            except NotFound as error:  # clean-up deleted it: a later version no longer uses it
                gone = error.message
                continue
            self._version = source.version
            return MirrorReport(
                source.version, objects, size, *mirror_source.lag(self._lake.own_catalog(), source.version)
            )
        raise Corrupt(f"A file of the lake is missing: {gone} Run `moulin check`, and restore the file.")

    def follow(
        self, interval: float, stop: threading.Event, report: Callable[[MirrorReport], None] = lambda report: None
    ) -> None:
        """Run rounds until `stop` is set, at least `interval` seconds apart. Temporary failures are retried."""
        while not stop.is_set():
            try:
                report(self.run_once())
            except Unavailable:
                behind = mirror_source.lag(self._lake.own_catalog(), self._version)
                report(MirrorReport(self._version, 0, 0, *behind))
                self._there = None  # the result of the copy is unknown
                self._version = 0
            stop.wait(interval)

    def _look(self) -> None:
        marker = read_marker(self._target)
        if marker is not None and UUID(str(marker["uuid"])) != self._lake.catalog.uuid:
            raise FailedPrecondition(f"{self._target.uri} contains another lake: mirror to an empty target.")
        if marker is None:
            self._target.check_put_if_absent()
        self._opened = marker is not None
        self._there = {info.path: info.size for info in self._target.list() if not paths.is_temporary(info.path)}

    def _copy(self, source: Source, progress: Progress) -> tuple[int, int]:
        assert self._there is not None
        files = [file for file in source.files if self._is_missing(file)]
        manifests = [KnownFile(name) for name in source.manifests if name not in self._there]
        total, done, size = len(files) + len(manifests) + (not self._opened), 0, 0
        progress(0, total)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="moulin-mirror") as pool:
            # Without the marker nobody sees manifests, whatever their order.
            in_order = map if self._opened else pool.map
            for jobs, run, copy in (
                (files, pool.map, self._copy_file),
                (manifests, in_order, partial(self._copy_manifest, source)),
            ):
                for batch in batched(jobs, _AT_ONCE):
                    for file, copied in zip(batch, run(copy, batch), strict=True):
                        self._there[file.path] = copied
                        done, size = done + 1, size + copied
                        progress(done, total)
        if not self._opened:
            self._target.put(paths.marker(), self._lake.store.get(paths.marker()))
            self._opened, done = True, done + 1
            progress(done, total)
        return done, size

    def _erase(self, source: Source, table_id: UUID) -> None:
        """Make a table at the target equal to that of the lake: copy manifests first, then delete removed files."""
        assert self._there is not None
        for name in source.manifests:
            found = paths.parse_table_manifest(name)
            if found is not None and found[0] == table_id:
                data = source.read_manifest(name)
                if self._target.get(name) != data:
                    self._target.put(name, data)
                    self._there[name] = len(data)
        listed = [info.path for info in self._target.list(paths.table_prefix(table_id))]
        self._delete(mirror_source.not_in_use(self._lake.own_catalog(), table_id, listed))

    def _delete(self, every: Sequence[str]) -> None:
        assert self._there is not None
        for batch in batched(every, _AT_ONCE):
            erase(self._target, batch, rows=True)
            for path in batch:
                self._there.pop(path, None)

    def _is_missing(self, file: KnownFile) -> bool:
        assert self._there is not None
        found = self._there.get(file.path)
        return found is None or (file.size is not None and found != file.size)

    def _copy_file(self, file: KnownFile) -> int:
        """Copy one file; it appears at the target only if it matches the catalog."""
        if file.verify is not None:
            return self._copy_whole(file)
        digest, size = hashlib.sha256(), 0
        with self._lake.store.reader(file.path, file.size) as source, self._target.writer(file.path) as target:
            while piece := source.read(_CHUNK):
                digest.update(piece)
                size += len(piece)
                target.write(piece)
            if file.sha256 is not None and digest.digest() != file.sha256:
                raise _damaged(file.path, "its SHA-256 does not match the catalog")
        return size

    def _copy_whole(self, file: KnownFile) -> int:
        """Copy a file with internal checksums, which are verified before it is written."""
        data = self._lake.store.get(file.path)
        if (problem := file.problem(data)) is not None:
            raise _damaged(file.path, problem)
        self._target.put(file.path, data)
        return len(data)

    def _copy_manifest(self, source: Source, file: KnownFile) -> int:
        data = source.read_manifest(file.path)
        self._target.put(file.path, data)
        return len(data)


def _damaged(path: str, problem: str) -> Corrupt:
    return Corrupt(f"{path} is damaged: {problem}. It was not copied; run `moulin check`.")


def describe(report: MirrorReport) -> dict[str, int | float]:
    """A report as plain values."""
    return {
        "version": report.version,
        "objects": report.objects,
        "bytes": report.bytes,
        "lag_versions": report.lag_versions,
        "lag_seconds": round(report.lag_seconds, 3),
    }


__all__ = ["Mirror", "MirrorReport", "describe"]
