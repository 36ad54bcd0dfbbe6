"""Base paths: other storage locations for data files."""

# Decisions: docs/decisions/0430

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.catalog.sql.pool import chunks
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound
from moulin.model.entities import BasePath
from moulin.model.facts import SegmentFacts
from moulin.model.ids import new_id
from moulin.model.names import check_base_name, full_name
from moulin.model.texts import check_text
from moulin.storage import paths
from moulin.storage.bases import is_inside
from moulin.storage.store import REMOTE_SCHEMES

AGAIN = "adopted-again"
"""Key in the summary of a commit that may adopt known files again."""
_SCHEMES = ("file", "memory", *REMOTE_SCHEMES)


def add(draft: Draft, name: str, uri: str, own_uri: str) -> BasePath:
    """Register a base path. `own_uri` is the lake's storage; the two must not overlap."""
    b, connection = s.base_paths, draft.connection
    check_base_name(name)
    _check_uri(uri, own_uri)
    for row in connection.execute(sa.select(b)):
        if row.name == name:
            raise AlreadyExists(f"Base path {name!r} already exists, for {row.uri}.")
        if is_inside(uri, row.uri):
            raise AlreadyExists(f"{uri} lies in the base path {row.name!r}, {row.uri}: use that one.")
    base_id = new_id()
    connection.execute(b.insert().values(id=base_id, name=name, uri=uri, created_at=draft.now))
    add_rows(draft, b, [base_id])
    return find(connection, name)


def _check_uri(uri: str, own_uri: str) -> None:
    check_text(uri, "base path")
    scheme, separator, rest = uri.partition("://")
    if scheme not in _SCHEMES or not separator or not rest or uri.endswith("/") or "?" in uri or "#" in uri:
        raise InvalidInput(
            "A base path must be a folder or an object store such as s3://bucket/prefix, without a query."
        )
    account = scheme in ("abfs", "abfss")
    if "@" in rest.partition("/")[0] and not account:
        raise InvalidInput("A base path must not contain user or password: pass those as base_options.")
    if any(part in ("", ".", "..") for part in rest.strip("/").split("/")):
        raise InvalidInput(f"The base path {uri} contains an empty part, '.' or '..'.")
    if is_inside(uri, own_uri) or is_inside(own_uri, uri):
        raise InvalidInput(f"{uri} overlaps the lake in {own_uri}: choose another folder.")


_ALL = Prepared(sa.select(s.base_paths).order_by(s.base_paths.c.name))


def list_all(connection: sa.Connection) -> list[BasePath]:
    return [_to_base(row) for row in _ALL.all(connection, {})]


def find(connection: sa.Connection, name: str) -> BasePath:
    row = connection.execute(sa.select(s.base_paths).where(s.base_paths.c.name == name)).first()
    if row is None:
        raise NotFound(f"Base path {name!r} does not exist; register it with lake.add_base(uri, name={name!r}).")
    return _to_base(row)


def drop(draft: Draft, name: str) -> BasePath:
    """Remove a base path. Rejected while a kept version has a file below it, or clean-up has one to delete."""
    found = find(draft.connection, name)
    g, t = s.segments, s.trash
    below = f"{paths.bases_prefix()}/{found.id}/%"
    named = sa.select(g.c.table_id).where(sa.text(s.IN_BASE_PATH), g.c.path.like(below)).limit(1)
    if (table_id := draft.connection.execute(named).scalar()) is not None:
        raise FailedPrecondition(
            f"Base path {name!r} is in use by table {_name_of(draft.connection, table_id)}: delete or compact the "
            f"rows below it, and let clean-up remove the versions that use it."
        )
    if draft.connection.execute(sa.select(t.c.path).where(t.c.path.like(below)).limit(1)).scalar() is not None:
        raise FailedPrecondition(f"Clean-up has files below the base path {name!r} to delete: run `moulin gc` first.")
    draft.lake().purged.append(found.id.bytes)
    draft.connection.execute(s.base_paths.delete().where(s.base_paths.c.id == found.id))
    return found


def _name_of(connection: sa.Connection, table_id: UUID) -> str:
    t, d = s.tables, s.databases
    query = sa.select(d.c.name.label("database"), t.c.name, t.c.tombstoned_at).join(d, d.c.id == t.c.database_id)
    row = connection.execute(query.where(t.c.id == table_id)).first()
    if row is None:
        return str(table_id)
    return full_name(row.database, row.name) + (", which was dropped" if row.tombstoned_at is not None else "")


def _to_base(row: Any) -> BasePath:
    return BasePath(row.id, row.name, row.uri, row.created_at)


def file_digest(path: str) -> bytes:
    """The record of an adopted file of a table."""
    return hashlib.sha256(path.encode()).digest()[:16]


_REMEMBER = Prepared(s.adopted_files.insert())


def remember(connection: sa.Connection, table_id: UUID, digests: Collection[bytes]) -> None:
    """Record adopted files of a table; existing records stay."""
    a = s.adopted_files
    for chunk in chunks(sorted(digests)):
        mine = sa.select(a.c.digest).where(a.c.table_id == table_id, a.c.digest.in_(chunk))
        _remember(connection, table_id, set(chunk).difference(connection.execute(mine).scalars()))


def _remember(connection: sa.Connection, table_id: UUID, digests: Iterable[bytes]) -> None:
    if new := [{"table_id": table_id, "digest": digest} for digest in sorted(digests)]:
        _REMEMBER.run(connection, *new)


def remembered(connection: sa.Connection, table_id: UUID) -> list[bytes]:
    a = s.adopted_files
    return list(
        connection.execute(sa.select(a.c.digest).where(a.c.table_id == table_id).order_by(a.c.digest)).scalars()
    )


def known_paths(connection: sa.Connection, table_id: UUID, wanted: Sequence[str]) -> list[str]:
    """The paths in `wanted` that a table has ever adopted; for a clone including those of its base."""
    a, t = s.adopted_files, s.tables
    base = connection.execute(sa.select(t.c.base_id).where(t.c.id == table_id)).scalar()
    tables = [table_id] if base is None else [table_id, base]
    if connection.execute(sa.select(a.c.digest).where(a.c.table_id.in_(tables)).limit(1)).first() is None:
        return []
    by_digest = {file_digest(path): path for path in wanted}
    found: set[bytes] = set()
    for chunk in chunks(sorted(by_digest)):
        query = sa.select(a.c.digest).where(a.c.table_id.in_(tables), a.c.digest.in_(chunk))
        found.update(connection.execute(query).scalars())
    return sorted(by_digest[digest] for digest in found)


def _live_paths(connection: sa.Connection, table_id: UUID, wanted: Sequence[str]) -> list[str]:
    """The paths in `wanted` of the table's current segments."""
    g, p = s.segments, s.segment_spans
    found: list[str] = []
    for chunk in chunks(list(wanted)):
        live = sa.and_(p.c.segment == g.c.number, p.c.table_id == table_id, p.c.removed_version == s.OPEN)
        query = sa.select(g.c.path).where(sa.text(s.IN_BASE_PATH), g.c.path.in_(chunk), sa.exists().where(live))
        found += connection.execute(query).scalars()
    return sorted(found)


def segments_at(connection: sa.Connection, wanted: Sequence[str]) -> dict[int, str]:
    """Numbers and paths of segments, of any table and version, whose files lie at paths `wanted` below base paths."""
    g = s.segments
    found: dict[int, str] = {}
    for chunk in chunks(list(wanted)):
        query = sa.select(g.c.number, g.c.path).where(sa.text(s.IN_BASE_PATH), g.c.path.in_(chunk))
        found.update((row.number, row.path) for row in connection.execute(query))
    return found


def check_added(draft: Draft, table_id: UUID, table: str, added: Iterable[SegmentFacts], *, again: bool) -> None:
    """Reject segments below unknown base paths, and files that the table has adopted before.

    With `again`, only current files are rejected. The others are recorded.
    """
    based = [(facts, found[0]) for facts in added if (found := paths.parse_base_path(facts.path)) is not None]
    if not based:
        return
    bases = {base for _, base in based}
    known = set(draft.connection.execute(sa.select(s.base_paths.c.id).where(s.base_paths.c.id.in_(bases))).scalars())
    if unknown := bases - known:
        raise NotFound(f"Base path {min(unknown)} does not exist: it was dropped, or belongs to another lake.")
    for facts, _ in based:
        if (moved := paths.parse_moved(facts.path)) is not None and moved[1] != draft.lake_uuid:
            raise InvalidInput(f"{facts.path} is a file of another lake.")
    files = [facts.path for facts, _ in based if facts.adopted is not None]
    twice = (_live_paths if again else known_paths)(draft.connection, table_id, files)
    if twice or len(set(files)) != len(files):
        raise known_file(min(twice or files), table)
    (remember if again else _remember)(draft.connection, table_id, {file_digest(path) for path in files})


def known_file(path: str, table: str) -> AlreadyExists:
    return AlreadyExists(
        f"{path} is a file of {table} already, or was: adopt each file once, skip known files with "
        "skip_known=True, or adopt a removed file with again=True."
    )


__all__ = [
    "AGAIN",
    "add",
    "check_added",
    "drop",
    "file_digest",
    "find",
    "known_file",
    "known_paths",
    "list_all",
    "remember",
    "remembered",
    "segments_at",
]
