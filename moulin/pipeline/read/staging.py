"""Provides segment files to Spark: in place if the lake is a folder, else as local copies.

A segment with column files is copied as one file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from moulin.errors import Corrupt, Unavailable
from moulin.model.facts import SegmentFacts
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.commit.segment_rows import open_rows

_THREADS = 8
_CHUNK = 16 << 20


def by_owner(table_id: UUID, segments: Sequence[SegmentFacts]) -> dict[UUID, list[SegmentFacts]]:
    """Segments of a table by the table in whose folder they lie: a clone has those of its base, too."""
    found: dict[UUID, list[SegmentFacts]] = {}
    for facts in segments:
        parsed = paths.parse_segment_path(facts.path)
        found.setdefault(table_id if parsed is None else parsed[0], []).append(facts)
    return found


def _copy_path(facts: SegmentFacts) -> str:
    """Where the copy of a segment lies: a name of its own for each set of column files that it is stitched with."""
    if not facts.files:
        return facts.path
    names = hashlib.sha256("|".join(file.path for file in facts.files).encode()).hexdigest()[:16]
    return f"{facts.path.removesuffix('.parquet')}-{names}.parquet"


class Staging:
    """Returns local paths for segments. Each object is copied once and kept until `close`. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder: Path | None = None
        self._lock = threading.Lock()

    def locate(self, table_id: UUID, segments: Sequence[SegmentFacts]) -> tuple[str, list[str]]:
        """The folder that holds the table's segment folders, and the file of each segment, which lies below it."""
        prefix = paths.data_prefix(table_id)
        root = self._store.local_path(prefix)
        if root is not None and all(facts.inline is None and not facts.files for facts in segments):
            below = [paths.checked(facts.path).removeprefix(prefix) for facts in segments]
            return str(root), [f"{root}{path}" for path in below]
        base = self._copies()
        files = [base / _copy_path(facts) for facts in segments]
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="moulin-stage") as pool:
            list(pool.map(self._fetch, segments, files))
        return str(base / prefix), list(map(str, files))

    def close(self) -> None:
        """Remove the copies."""
        with self._lock:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _copies(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="moulin-stage-"))
            return self._folder

    def _fetch(self, facts: SegmentFacts, target: Path) -> None:
        if target.exists():
            return
        part = target.with_name(f".{target.name}.{threading.get_ident()}.part")
        local = self._store.local_path(facts.path) if facts.inline is None and not facts.files else None
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if local is not None:  # in a folder beside inline segments: Spark wants all of them below one
                with suppress(FileExistsError):
                    target.symlink_to(local)
                return
            with open_rows(self._store, facts, page_indexes=False) as source, open(part, "wb") as copy:
                while chunk := source.read(_CHUNK):
                    copy.write(chunk)
            if not facts.files and part.stat().st_size != facts.size:
                raise Corrupt(
                    f"{facts.path} has {part.stat().st_size} bytes, but {facts.size} were written: restore it."
                )
            os.replace(part, target)
        except OSError as error:
            raise Unavailable(f"{facts.path} could not be copied to {target.parent} for Spark: {error}.") from error
        finally:
            part.unlink(missing_ok=True)
