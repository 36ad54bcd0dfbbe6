"""Sets of column files: which files a span has beside that of its segment."""

# Decisions: docs/decisions/0420, docs/decisions/0470

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import tables
from moulin.catalog.segments.bases import in_level, levels
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.catalog.sql.prepared import Prepared
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.facts import ColumnFile

Files = tuple[ColumnFile, ...]


def load(connection: sa.Connection, ids: Iterable[int]) -> dict[int, Files]:
    """The files of each set, in the order of their first field ids. The set 0 has none."""
    c, f = s.column_sets, s.column_files
    found: dict[int, dict[str, ColumnFile]] = {0: {}}
    for chunk in chunks(sorted(set(ids) - {0})):
        query = sa.select(c.c.id, f.c.path, f.c.facts).join(f, f.c.path == c.c.path).where(c.c.id.in_(chunk))
        for row in connection.execute(query.order_by(c.c.id, c.c.field_id)):
            files = found.setdefault(row.id, {})
            if row.path not in files:
                files[row.path] = codec.decode_file(pb.ColumnFileRef.FromString(row.facts))
    return {number: tuple(files.values()) for number, files in found.items()}


def owners(connection: sa.Connection, sets: Mapping[int, Files]) -> dict[str, UUID]:
    """The table in whose folder each file of some sets lies, by path."""
    f, found = s.column_files, dict[str, UUID]()
    for chunk in chunks(sorted({file.path for files in sets.values() for file in files})):
        query = sa.select(f.c.path, f.c.table_id).where(f.c.path.in_(chunk))
        found.update({row.path: row.table_id for row in connection.execute(query)})
    return found


def replace_file(connection: sa.Connection, before: str, after: ColumnFile) -> None:
    """Replace a file by another in every set that has it."""
    c, f = s.column_sets, s.column_files
    new = {"path": after.path, "size": after.size, "sha256": after.sha256}
    new["facts"] = codec.encode_file(after).SerializeToString(deterministic=True)
    connection.execute(f.update().where(f.c.path == before).values(new))
    connection.execute(c.update().where(c.c.path == before).values(path=after.path))


def of_segments(connection: sa.Connection, segments: Iterable[int]) -> dict[str, int]:
    """The column files of segments that spans name, with their sizes."""
    c, f, p = s.column_sets, s.column_files, s.segment_spans
    found: dict[str, int] = {}
    for chunk in chunks(sorted(segments)):
        query = sa.select(f.c.path, f.c.size).distinct().join(c, c.c.path == f.c.path).join(p, p.c.columns_id == c.c.id)
        query = query.where(p.c.segment.in_(chunk), c.c.segment == p.c.segment, p.c.columns_id != 0)
        found.update({row.path: row.size for row in connection.execute(query)})
    return found


def file_row(table_id: UUID, file: ColumnFile, version: int) -> dict[str, Any]:
    """The row of a column file that came with `version`."""
    return {
        "path": file.path,
        "table_id": table_id,
        "segment": file.segment,
        "size": file.size,
        "sha256": file.sha256,
        "facts": codec.encode_file(file).SerializeToString(deterministic=True),
        "added_version": version,
    }


def set_rows(table_id: UUID, columns_id: int, files: Sequence[ColumnFile]) -> list[dict[str, Any]]:
    """The rows of a set."""
    return [
        {"id": columns_id, "field_id": number, "table_id": table_id, "segment": file.segment, "path": file.path}
        for file in files
        for number in file.fields
    ]


def has_field(p: sa.FromClause, field_id: int) -> sa.ColumnElement[bool]:
    """The condition for a span of `p` to have a column in a file of its own."""
    c = s.column_sets
    return sa.exists().where(c.c.id == p.c.columns_id, c.c.field_id == field_id).correlate(p)


_ANY = Prepared(sa.select(s.column_sets.c.id).where(s.column_sets.c.table_id == sa.bindparam("table_id")).limit(1))


def fields_at(connection: sa.Connection, table_id: UUID, version: int, *, has_base: bool = True) -> set[int]:
    """The ids of the columns that lie in column files of segments which are live in a table at a version.

    A table that never had any is known by an index; for others the spans of the version are looked through.
    """
    if not has_base and _ANY.first(connection, {"table_id": table_id}) is None:
        return set()
    row = tables.find_by_id(connection, table_id)
    c, p = s.column_sets, s.segment_spans
    owners = [table_id] if row.base_id is None else [table_id, row.base_id]
    if all(_ANY.first(connection, {"table_id": owner}) is None for owner in owners):
        mine = sa.select(p.c.id).where(p.c.table_id == table_id, p.c.columns_id != 0)
        if row.base_id is None or connection.execute(mine.limit(1)).first() is None:
            return set()
    found: set[int] = set()
    for level in levels(row, version):
        query = (
            sa.select(c.c.field_id).distinct().join(p, sa.and_(p.c.columns_id == c.c.id, p.c.segment == c.c.segment))
        )
        found.update(connection.execute(query.where(p.c.columns_id != 0, *in_level(p, level))).scalars())
    return found


def forget(connection: sa.Connection, ids: Iterable[int]) -> list[tuple[str, int]]:
    """Delete those of the sets that no span names any more; returns path and size of files that no set has now."""
    c, f, p = s.column_sets, s.column_files, s.segment_spans
    freed: set[str] = set()
    for chunk in chunks(sorted(set(ids) - {0})):
        unused = sa.and_(c.c.id.in_(chunk), ~sa.exists().where(p.c.columns_id == c.c.id, p.c.segment == c.c.segment))
        rows = connection.execute(sa.select(c.c.id, c.c.path).where(unused)).all()
        freed.update(row.path for row in rows)
        connection.execute(c.delete().where(c.c.id.in_({row.id for row in rows})))
    garbage: list[tuple[str, int]] = []
    for names in chunks(sorted(freed)):
        idle = sa.and_(f.c.path.in_(names), ~sa.exists().where(c.c.path == f.c.path))
        rows = connection.execute(sa.select(f.c.path, f.c.size).where(idle)).all()
        garbage += [(row.path, row.size) for row in rows]
        connection.execute(f.delete().where(f.c.path.in_([row.path for row in rows])))
    return garbage


__all__ = [
    "Files",
    "fields_at",
    "file_row",
    "forget",
    "has_field",
    "load",
    "of_segments",
    "owners",
    "replace_file",
    "set_rows",
]
