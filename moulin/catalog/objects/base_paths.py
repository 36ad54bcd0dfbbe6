"""Base paths: roots beside the lake's own below which data files may lie."""

# Decisions: docs/decisions/0430

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.catalog.sql.pool import chunks
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound
from moulin.model.entities import BasePath
from moulin.model.facts import SegmentFacts
from moulin.model.ids import new_id
from moulin.model.names import check_base_name
from moulin.model.texts import check_text
from moulin.storage import paths
from moulin.storage.bases import is_inside
from moulin.storage.store import REMOTE_SCHEMES

_SCHEMES = ("file", "memory", *REMOTE_SCHEMES)


def add(draft: Draft, name: str, uri: str, own_uri: str) -> BasePath:
    """Register a root. `own_uri` is the lake's own, and neither may lie in the other."""
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
        raise InvalidInput("A base path is a folder or an object store such as s3://bucket/prefix, without a query.")
    account = scheme in ("abfs", "abfss")
    if "@" in rest.partition("/")[0] and not account:
        raise InvalidInput("A base path holds no user and no password: give those as base_options.")
    if any(part in ("", ".", "..") for part in rest.strip("/").split("/")):
        raise InvalidInput(f"The base path {uri} holds an empty part, '.' or '..'.")
    if is_inside(uri, own_uri) or is_inside(own_uri, uri):
        raise InvalidInput(f"{uri} is not beside the lake in {own_uri}: neither may lie in the other.")


def list_all(connection: sa.Connection) -> list[BasePath]:
    return [_to_base(row) for row in connection.execute(sa.select(s.base_paths).order_by(s.base_paths.c.name))]


def find(connection: sa.Connection, name: str) -> BasePath:
    row = connection.execute(sa.select(s.base_paths).where(s.base_paths.c.name == name)).first()
    if row is None:
        raise NotFound(f"Base path {name!r} does not exist; register it with lake.add_base(uri, name={name!r}).")
    return _to_base(row)


def drop(draft: Draft, name: str) -> BasePath:
    """Forget a root. Refused while a kept version has a file below it, or clean-up has one to delete."""
    found = find(draft.connection, name)
    g, t = s.segments, s.trash
    below = f"{paths.bases_prefix()}/{found.id}/%"
    named = sa.select(g.c.table_id).where(sa.text(s.IN_BASE_PATH), g.c.path.like(below)).limit(1)
    table_id = draft.connection.execute(named).scalar()
    if table_id is not None:
        raise FailedPrecondition(
            f"Base path {name!r} is in use by table {table_id}: delete or compact what lies below it, and let clean-up "
            "forget the versions that have it."
        )
    if draft.connection.execute(sa.select(t.c.path).where(t.c.path.like(below)).limit(1)).scalar() is not None:
        raise FailedPrecondition(f"Clean-up has files below the base path {name!r} to delete: run `moulin gc` first.")
    draft.lake().purged.append(found.id.bytes)
    draft.connection.execute(s.base_paths.delete().where(s.base_paths.c.id == found.id))
    return found


def _to_base(row: Any) -> BasePath:
    return BasePath(row.id, row.name, row.uri, row.created_at)


def known_paths(connection: sa.Connection, table_id: UUID, wanted: Sequence[str]) -> list[str]:
    """The paths among `wanted`, all below base paths, that segments of a table have, in any version that is kept."""
    g, p, t = s.segments, s.segment_spans, s.tables
    base = connection.execute(sa.select(t.c.base_id).where(t.c.id == table_id)).scalar()
    tables = [table_id] if base is None else [table_id, base]
    found: list[str] = []
    for chunk in chunks(list(wanted)):
        mine = sa.exists().where(p.c.segment == g.c.number, p.c.table_id.in_(tables))
        query = sa.select(g.c.path).where(sa.text(s.IN_BASE_PATH), g.c.path.in_(chunk), mine)
        found += connection.execute(query).scalars()
    return sorted(set(found))


def check_added(draft: Draft, table_id: UUID, table: str, added: Iterable[SegmentFacts]) -> None:
    """Refuse segments below base paths that are not the lake's, or files that the table has already."""
    based = {facts.path: facts for facts in added if paths.parse_base_path(facts.path) is not None}
    if not based:
        return
    bases = {found[0] for path in based if (found := paths.parse_base_path(path)) is not None}
    known = set(draft.connection.execute(sa.select(s.base_paths.c.id).where(s.base_paths.c.id.in_(bases))).scalars())
    if unknown := bases - known:
        raise NotFound(f"Base path {min(unknown)} does not exist: it was dropped, or belongs to another lake.")
    for path in based:
        if (moved := paths.parse_moved(path)) is not None and moved[1] != draft.lake_uuid:
            raise InvalidInput(f"{path} is the file of another lake.")
    if twice := known_paths(draft.connection, table_id, list(based)):
        raise AlreadyExists(
            f"{twice[0]} is a file of {table} already: adopt each file once, or leave known ones out with "
            "skip_known=True."
        )


__all__ = ["add", "check_added", "drop", "find", "known_paths", "list_all"]
