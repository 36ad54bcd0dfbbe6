"""The deletion oracle: watches every delete that Moulin makes in a lake's storage, and notes those that must not be.

An object must live while it is named by a segment, vector, journal, index file or projection of a version that is kept
or pinned, while its number is handed out, while it is a manifest that recovery starts from, or a part of a log or
stream that is in no segment yet. It is asked before the bytes go, and fails the test at its end: nothing that the code
under test catches can hide it. Deletes that a test makes itself, to damage a lake, do not count.
"""

# Decisions: docs/decisions/0193

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.replica import ReplicaCatalog
from moulin.catalog.segments import key_indexes
from moulin.catalog.sql import schema as s
from moulin.catalog.upkeep import erasure
from moulin.errors import MoulinError
from moulin.storage import paths
from moulin.storage.file_kinds import FileKind, KnownFile, identify
from moulin.storage.interface import Store
from moulin.storage.local import LocalStore
from moulin.storage.remote import RemoteStore

VARIABLE = "TEST_DELETIONS_FILE"  # the file to which processes that tests start write what they see
_MOULIN = str(Path(sys.modules[Catalog.__module__].__file__ or "").parent.parent)
_STORAGE = f"{_MOULIN}{os.sep}storage"
_CLEAN_UP = str(erasure.__file__)
_CATALOGS: weakref.WeakSet[Catalog] = weakref.WeakSet()


def install() -> None:
    """Watch the stores of this process, once."""
    if hasattr(LocalStore.delete, "__wrapped__"):
        return
    for kind in (LocalStore, RemoteStore):
        kind.delete = _watched(kind.delete)  # type: ignore[method-assign]
    made = Catalog.__init__

    def register(self: Catalog, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        _CATALOGS.add(self)

    Catalog.__init__ = register  # type: ignore[method-assign]


def _watched(delete: Callable[[Any, Iterable[str]], None]) -> Callable[[Any, Iterable[str]], None]:
    @wraps(delete)
    def watched(self: Store, objects: Iterable[str]) -> None:
        caller = _caller()
        if not caller.startswith(_MOULIN):
            return delete(self, objects)
        return delete(self, _asked(self, objects, is_clean_up=caller == _CLEAN_UP))

    return watched


def _caller() -> str:
    """The file of whoever deletes."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_STORAGE):
        frame = frame.f_back
    return frame.f_code.co_filename


def _asked(store: Store, objects: Iterable[str], *, is_clean_up: bool) -> Iterator[str]:
    """The same objects, asked about in blocks: a folder of a purged table is listed while it is deleted."""
    block: list[str] = []
    for path in objects:
        block.append(path)
        if len(block) == 500:
            _ask(store, block, is_clean_up)
            yield from block
            block = []
    _ask(store, block, is_clean_up)
    yield from block


def _in_base(store: Store, every: list[str]) -> tuple[Catalog, list[str]] | None:
    """The catalog that has the root of a store as a base path, and the addresses that objects of it have there."""
    for catalog in [*_CATALOGS]:
        if isinstance(catalog, ReplicaCatalog) or catalog.pool.is_closed:
            continue
        with suppress(MoulinError):  # a catalog whose folder is gone has none
            for base in catalog.bases():
                if base.uri == store.uri:
                    return catalog, [paths.base_path(base.id, path) for path in every]
    return None


def _ask_base(catalog: Catalog, every: list[str], is_clean_up: bool) -> None:
    known = {path: found for path in every if (found := identify(path)) is not None}
    for path, found in known.items():
        if found.kind is FileKind.ADOPTED:
            _note(f"{path} was deleted although it is somebody else's.")
    for path, why in living(catalog, known, is_clean_up=is_clean_up):
        _note(f"{path} was deleted although {why}.")


def _ask(store: Store, every: list[str], is_clean_up: bool) -> None:
    if every and (based := _in_base(store, every)) is not None:
        _ask_base(*based, is_clean_up)
        return
    known = {path: found for path in every if (found := identify(path)) is not None}
    wanted = {path: found for path, found in known.items() if found.kind is not FileKind.TEMPORARY}
    if not wanted:
        return
    for catalog in [*_CATALOGS]:
        if catalog.store.uri == store.uri and not (isinstance(catalog, ReplicaCatalog) or catalog.pool.is_closed):
            for path, why in living(catalog, wanted, is_clean_up=is_clean_up):
                _note(f"{path} was deleted although {why}.")
            return


def _note(text: str) -> None:
    with Path(os.environ[VARIABLE]).open("a") as out:
        out.write(text + "\n")


def living(catalog: Catalog, files: dict[str, KnownFile], *, is_clean_up: bool) -> Iterator[tuple[str, str]]:
    """Those of `files` that must not be deleted now, each with the reason. Who wrote a file may take it back."""
    try:
        with catalog.pool.read() as connection:
            yield from [*_Asker(catalog, connection, is_clean_up).run(files)]
    except MoulinError:  # the catalog is gone: nobody can say
        return


class _Asker:
    def __init__(self, catalog: Catalog, connection: sa.Connection, is_clean_up: bool) -> None:
        self.catalog, self.connection, self.is_clean_up = catalog, connection, is_clean_up
        self.now = catalog.pool.now(connection)
        self.in_use = catalog.pool.in_use()

    def run(self, files: dict[str, KnownFile]) -> Iterator[tuple[str, str]]:
        owners = {found.owner for found in files.values() if found.owner is not None}
        t = s.tables
        rows = self.connection.execute(sa.select(t.c.id, t.c.oldest_version, t.c.delete_at).where(t.c.id.in_(owners)))
        kept = {r.id: r.oldest_version for r in rows if r.delete_at is None or r.delete_at > self.now}
        for path, found in files.items():
            if found.kind is FileKind.LAKE_MANIFEST:
                why = self._lake_manifest(found)
            elif found.kind is FileKind.BABY_SEGMENT:
                why = self._baby(found)
            elif found.owner in kept:
                why = self._of_table(path, found, kept[found.owner])
            else:
                why = ""
            if why:
                yield path, why

    def _of_table(self, path: str, found: KnownFile, oldest: int) -> str:
        assert found.owner is not None
        match found.kind:
            case FileKind.SEGMENT:
                number = found.number or 0
                return self._segment(path, found.owner, oldest) or self._staged(number) or self._reserved(path, number)
            case FileKind.KEY_INDEX:
                return self._segment(paths.parse_key_index_path(path) or "", found.owner, oldest) or self._adopted(
                    path, found, oldest
                )
            case FileKind.VECTORS:
                d, p = s.deletion_vectors, s.segment_spans
                used = sa.and_(p.c.vector_id == d.c.id, p.c.segment == d.c.segment)
                query = sa.select(d.c.id).join(p, used).where(d.c.path == path, self._seen(found.owner, oldest))
                return "a version that is kept uses its vectors" if self._any(query) else ""
            case FileKind.JOURNAL:
                j = s.journals
                query = sa.select(j.c.path).where(j.c.path == path, j.c.version > oldest)
                return "a compaction after the oldest version left it" if self._any(query) else ""
            case FileKind.INDEX_FILE:
                c, p = s.index_coverage, s.segment_spans
                query = sa.select(c.c.path).join(p, p.c.segment == c.c.segment)
                used = self._any(query.where(c.c.path == path, self._seen(found.owner, oldest)))
                return "it covers a segment of a version that is kept" if used else ""
            case FileKind.PROJECTION:
                f = s.projection_files
                query = sa.select(f.c.path).where(f.c.path == path, f.c.removed_version > oldest)
                return "a projection of a version that is kept has it" if self._any(query) else ""
            case FileKind.TABLE_MANIFEST:
                return self._table_manifest(found.owner, found.number or 0, oldest)
            case FileKind.LOG:
                r = s.regions
                parsed = paths.parse_log_object(path)
                assert parsed is not None
                query = sa.select(r.c.covered).where(r.c.table_id == found.owner, r.c.number == parsed[1])
                covered = self.connection.execute(query).scalar()
                return f"its region is covered to {covered} only" if parsed[2] > (covered or 0) else ""
        return ""

    def _seen(self, table_id: UUID, oldest: int) -> sa.ColumnElement[bool]:
        """Spans that a version from `oldest` on, or a pinned one, sees."""
        p, n = s.segment_spans, s.pins
        pinned = sa.exists().where(
            n.c.table_id == p.c.table_id,
            n.c.expires_at > self.now,
            n.c.version >= p.c.added_version,
            n.c.version < p.c.removed_version,
        )
        read = self.in_use.pins.get(table_id, s.OPEN)  # by a living process; it keeps all later versions, too
        clone, other = s.tables.alias("clone"), s.tables.alias("other")
        cloned = sa.exists().where(
            clone.c.base_id == p.c.table_id,
            clone.c.base_version >= p.c.added_version,
            clone.c.base_version < p.c.removed_version,
        )
        own = sa.and_(p.c.table_id == table_id, sa.or_(p.c.removed_version > min(oldest, read), pinned, cloned))
        kept = sa.exists().where(other.c.id == p.c.table_id, other.c.oldest_version < p.c.removed_version)
        return sa.or_(own, sa.and_(p.c.table_id != table_id, kept))  # clones have spans of segments of others

    def _segment(self, path: str, table_id: UUID, oldest: int) -> str:
        g, p = s.segments, s.segment_spans
        query = sa.select(g.c.number).join(p, p.c.segment == g.c.number)
        used = self._any(query.where(g.c.path == path, self._seen(table_id, oldest)))
        return "a version that is kept has the segment" if used else ""

    def _adopted(self, path: str, found: KnownFile, oldest: int) -> str:
        """A key index whose segment is a file of somebody else."""
        assert found.owner is not None
        g, p = s.segments, s.segment_spans
        query = sa.select(g.c.number).join(p, p.c.segment == g.c.number).where(g.c.number == found.number)
        for number in self.connection.execute(query.where(self._seen(found.owner, oldest))).scalars().all():
            if path in {index.path for index in key_indexes.of_segments(self.connection, [number])}:
                return "a version that is kept has its segment"
        return ""

    def _staged(self, number: int) -> str:
        h = s.staged_segments
        around = sa.and_(h.c.first <= number, h.c.first + h.c.numbers > number, h.c.expires_at > self.now)
        registered = sa.exists().where(s.segments.c.number == number)
        handed_out = self._any(sa.select(h.c.first).where(around, ~registered))
        return "its number is handed out, and not registered yet" if handed_out else ""

    def _reserved(self, path: str, number: int) -> str:
        """A file that a living process has written and not committed yet.

        One that had a version is in the trash. Numbers that were staged have a time of their own.
        """
        h = s.staged_segments
        had = sa.select(s.trash.c.path).where(s.trash.c.path == path)
        new = sa.select(s.segments.c.number).where(s.segments.c.number == number)
        staged = sa.select(h.c.first).where(h.c.first <= number, h.c.first + h.c.numbers > number)
        waits = self.is_clean_up and self.in_use.may_be_committed(path) and not any(map(self._any, (had, new, staged)))
        return "a living process may still commit it" if waits else ""

    def _table_manifest(self, table_id: UUID, version: int, oldest: int) -> str:
        listed = self.catalog.store.list(paths.table_manifests_prefix(table_id))
        fulls = [p[1] for info in listed if (p := paths.parse_table_manifest(info.path)) and p[2] == "full"]
        replaced = any(version < full <= oldest for full in fulls)
        return "" if replaced else "no full manifest up to the oldest version takes its place"

    def _lake_manifest(self, found: KnownFile) -> str:
        listed = self.catalog.store.list(paths.lake_manifests_prefix())
        fulls = [p[0] for info in listed if (p := paths.parse_lake_manifest(info.path)) and p[1] == "full"]
        return "" if any((found.number or 0) < full for full in fulls) else "no newer full manifest takes its place"

    def _baby(self, found: KnownFile) -> str:
        t = s.stream_tables
        frontier = sa.select(s.streams.c.frontier).where(s.streams.c.id == found.owner)
        tables = sa.select(t.c.merged_offset).where(t.c.stream_id == found.owner)
        reached = [*self.connection.execute(frontier).scalars(), *self.connection.execute(tables).scalars()]
        # The object that ends a stream lies right behind what is in segments.
        ahead = reached and (found.number or 0) > max(reached) + 1
        return f"its stream is in segments up to {max(reached)} only" if ahead else ""

    def _any(self, query: sa.Select[Any]) -> bool:
        return self.connection.execute(query.limit(1)).first() is not None
