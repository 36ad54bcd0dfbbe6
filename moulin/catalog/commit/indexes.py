"""Secondary indexes, and the segments that each index file covers.

Segments are immutable, so coverage has no versions: a reader of any version may use the current index file of a
segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.objects import tables
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import AlreadyExists, NotFound
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.entities import Index
from moulin.model.operations import CreateIndex, DropIndex, IndexFile, IndexOperation, Kind, UpdateIndex
from moulin.model.schema.values import Schema

_NAMED = 2000
_BITMAPS = ("bitmap", "label_list")
_OF_TABLE = Prepared(
    sa.select(s.indexes).where(s.indexes.c.table_id == sa.bindparam("table_id")).order_by(s.indexes.c.name)
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """An index file, and the requested segments that it covers."""

    index: Index
    path: str
    size: int
    segments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IndexSize:
    """The current files of an index, and the number of live segments that they cover."""

    files: int
    bytes: int
    segments: int


def apply_index(change: TableChange, operation: IndexOperation) -> None:
    """Create, extend or drop an index; Conflict if its column changed since it was prepared."""
    change.summary["index"] = operation.name
    match operation:
        case CreateIndex():
            change.require_nothing_erased()
            _create(change, operation)
            _add_files(change, operation.id, operation.files)
        case UpdateIndex():
            change.require_nothing_erased()
            _require(change, operation)
            _add_files(change, operation.id, operation.files)
        case DropIndex():
            _require(change, operation)
            _drop(change, operation.id)


def drop_without_column(change: TableChange, schema: Schema) -> None:
    """Drop the indexes whose column `schema` no longer has."""
    i = s.indexes
    rows = change.connection.execute(sa.select(i.c.id, i.c.field_id).where(i.c.table_id == change.table_id)).all()
    for row in rows:
        if schema.find_column_name(row.field_id) is None:
            _drop(change, row.id)


def list_all(connection: sa.Connection, table_id: UUID) -> list[Index]:
    """The indexes of a table, by name."""
    rows = _OF_TABLE.all(connection, {"table_id": table_id})
    return [Index(row.id, row.name, row.kind, row.field_id, row.created_version, row.created_at) for row in rows]


def covering(connection: sa.Connection, index_id: UUID, segments: Collection[int]) -> dict[str, tuple[int, list[int]]]:
    """The files of an index that cover some of `segments`: path -> (size, the segments)."""
    c, f = s.index_coverage, s.index_files
    found: dict[str, tuple[int, list[int]]] = {}
    joined = sa.select(f.c.path, f.c.size, c.c.segment).join(f, f.c.path == c.c.path).where(c.c.index_id == index_id)
    wanted = frozenset(segments)
    # Naming the segments costs more than reading all coverage when they are many.
    parts = [()] if len(wanted) > _NAMED else chunks(sorted(wanted))
    for block in parts:
        for row in connection.execute(joined.where(c.c.segment.in_(block)) if block else joined):
            if row.segment in wanted:
                found.setdefault(row.path, (row.size, []))[1].append(row.segment)
    return found


def coverage(
    connection: sa.Connection, table_id: UUID, segments: Collection[int], fields: Collection[int] | None = None
) -> list[Coverage]:
    """The files of all indexes, or of those on some columns, that cover some of `segments`."""
    found = []
    for index in list_all(connection, table_id):
        if fields is None or index.field_id in fields:
            for path, (size, numbers) in sorted(covering(connection, index.id, segments).items()):
                found.append(Coverage(index, path, size, tuple(sorted(numbers))))
    return found


def covered(connection: sa.Connection, table_id: UUID) -> dict[UUID, IndexSize]:
    """The size of each index of a table that has a file."""
    c, f, p = s.index_coverage, s.index_files, s.segment_spans
    files = {
        row.index_id: (row.files, row.bytes)
        for row in connection.execute(
            sa.select(f.c.index_id, sa.func.count().label("files"), sa.func.sum(f.c.size).label("bytes"))
            .where(f.c.table_id == table_id)
            .group_by(f.c.index_id)
        )
    }
    live = sa.exists().where(p.c.segment == c.c.segment, p.c.table_id == c.c.table_id, p.c.removed_version == s.OPEN)
    counts = connection.execute(
        sa.select(c.c.index_id, sa.func.count().label("segments"))
        .where(c.c.table_id == table_id, live)
        .group_by(c.c.index_id)
    )
    segments = {row.index_id: int(row.segments) for row in counts}
    return {index: IndexSize(int(n), int(size), segments.get(index, 0)) for index, (n, size) in files.items()}


def fill_manifest(connection: sa.Connection, table_id: UUID, manifest: pb.Manifest) -> None:
    """Put all indexes, and the coverage of live segments, into a full manifest."""
    c, f, p = s.index_coverage, s.index_files, s.segment_spans
    for index in list_all(connection, table_id):
        _add_entry(manifest, index)
    live = sa.exists().where(p.c.segment == c.c.segment, p.c.table_id == c.c.table_id, p.c.removed_version == s.OPEN)
    segments: dict[str, list[int]] = defaultdict(list)
    for row in connection.execute(sa.select(c.c.path, c.c.segment).where(c.c.table_id == table_id, live)):
        segments[row.path].append(row.segment)
    for row in connection.execute(sa.select(f).where(f.c.table_id == table_id).order_by(f.c.path)):
        if row.path in segments:
            manifest.index_files.append(_file_entry(row, sorted(segments[row.path])))


def replay(connection: sa.Connection, table_id: UUID, manifest: pb.Manifest) -> None:
    """Apply the index part of a manifest."""
    for index in manifest.indexes:
        row = {"id": UUID(bytes=index.id), "table_id": table_id, "name": index.name, "kind": index.kind}
        more = {"field_id": index.field_id, "created_version": index.created_version, "created_at": None}
        if index.HasField("created_at"):
            more["created_at"] = index.created_at
        elif index.created_version == manifest.version:
            more["created_at"] = manifest.timestamp_ns
        connection.execute(s.indexes.insert().values(**row, **more))
    for file in manifest.index_files:
        _insert_file(connection, table_id, file)
    for dropped in manifest.dropped_indexes:
        _delete(connection, UUID(bytes=dropped))


def _create(change: TableChange, operation: CreateIndex) -> None:
    connection, i = change.connection, s.indexes
    same = sa.select(i.c.created_version).where(i.c.table_id == change.table_id, i.c.name == operation.name)
    if found := connection.execute(same).scalar():
        if found > change.commit.read_version:
            raise change.stale(f"index {operation.name!r}", "free", "taken", {found})
        raise AlreadyExists(f"{change.name} has an index {operation.name!r}; choose another name or drop it first.")
    if tables.load(connection, change.row).schema.find_column_name(operation.field_id) is None:
        raise change.stale(f"the column of index {operation.name!r}", "there", "gone")
    insert(change, Index(operation.id, operation.name, operation.index_kind, operation.field_id, change.draft.version))


def insert(change: TableChange, made: Index) -> None:
    """Create an index without coverage."""
    new = replace(made, created_version=change.draft.version, created_at=change.draft.now)
    row = {"id": new.id, "table_id": change.table_id, "name": new.name, "kind": new.kind, "field_id": new.field_id}
    change.connection.execute(
        s.indexes.insert().values(**row, created_version=new.created_version, created_at=new.created_at)
    )
    _add_entry(change.manifest, new)


def _require(change: TableChange, operation: UpdateIndex | DropIndex) -> None:
    i = s.indexes
    mine = sa.select(i.c.id).where(i.c.table_id == change.table_id, i.c.id == operation.id)
    if change.connection.execute(mine).scalar() is not None:
        return
    ends = (Kind.DROP_INDEX, Kind.ALTER_SCHEMA, Kind.RESTORE)
    if dropped := {row.version for row in change.since() if row.kind in ends}:
        raise change.stale(f"index {operation.name!r}", "there", "dropped", dropped)
    raise NotFound(f"{change.name} has no index {operation.name!r}.")


def _add_files(change: TableChange, index_id: UUID, files: Sequence[IndexFile]) -> None:
    g = s.segments
    owners = [change.table_id, *([] if change.row.base_id is None else [change.row.base_id])]
    for file in files:
        known: set[int] = set()
        for block in chunks(sorted(file.segments)):
            mine = sa.select(g.c.number).where(g.c.table_id.in_(owners), g.c.number.in_(block))
            known.update(change.connection.execute(mine).scalars())
        entry = pb.IndexFile(
            index_id=index_id.bytes,
            path=file.path,
            file_size=file.size,
            entries=file.entries,
            added_version=change.draft.version,
            segments=sorted(known),
        )
        _insert_file(change.connection, change.table_id, entry)
        change.manifest.index_files.append(entry)


def _insert_file(connection: sa.Connection, table_id: UUID, file: pb.IndexFile) -> None:
    c, index_id = s.index_coverage, UUID(bytes=file.index_id)
    connection.execute(
        s.index_files.insert().values(
            path=file.path,
            table_id=table_id,
            index_id=index_id,
            size=file.file_size,
            entries=file.entries,
            added_version=file.added_version,
        )
    )
    for block in chunks(file.segments):
        connection.execute(c.delete().where(c.c.index_id == index_id, c.c.segment.in_(block)))
        rows = [{"index_id": index_id, "segment": n, "table_id": table_id, "path": file.path} for n in block]
        connection.execute(c.insert(), rows)


def _drop(change: TableChange, index_id: UUID) -> None:
    _delete(change.connection, index_id)
    change.manifest.dropped_indexes.append(index_id.bytes)


def _delete(connection: sa.Connection, index_id: UUID) -> None:
    """Remove its coverage; clean-up deletes its files."""
    connection.execute(s.index_coverage.delete().where(s.index_coverage.c.index_id == index_id))
    connection.execute(s.indexes.delete().where(s.indexes.c.id == index_id))


def _add_entry(manifest: pb.Manifest, index: Index) -> None:
    manifest.indexes.append(index_entry(index))
    if index.kind in _BITMAPS:
        codec.require_feature(manifest, codec.FEATURE_BITMAP_INDEXES)


def index_entry(index: Index) -> pb.Index:
    return pb.Index(
        id=index.id.bytes,
        name=index.name,
        kind=index.kind,
        field_id=index.field_id,
        created_version=index.created_version,
        created_at=index.created_at,
    )


def _file_entry(row: Any, segments: Sequence[int]) -> pb.IndexFile:
    return pb.IndexFile(
        index_id=row.index_id.bytes,
        path=row.path,
        file_size=row.size,
        entries=row.entries,
        added_version=row.added_version,
        segments=segments,
    )
