"""What a name means, and what was dropped and can come back."""

# Decisions: docs/decisions/0080

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import databases, tables, views
from moulin.catalog.objects.names import NameOrId, by_key
from moulin.catalog.objects.tombstones import tombstone_of
from moulin.catalog.sql import schema as s
from moulin.errors import NotFound
from moulin.model.entities import TableEntry, Tombstoned, View


def table_or_view(
    connection: sa.Connection, database: NameOrId, name: str, *, include_dropped: bool
) -> TableEntry | View:
    """The live table or view of a name; there is at most one. Else, if asked for, the one dropped last."""
    parent = databases.find(connection, database, include_dropped=include_dropped)
    found = []
    for kind, source in (("Table", s.tables), ("View", s.views)):
        try:
            found.append((source, by_key(connection, source, parent, name, kind, include_dropped=include_dropped)))
        except NotFound:
            continue
    if not found:
        raise NotFound(f"Table or view {parent.name}.{name} does not exist.")
    source, row = max(found, key=lambda item: (item[1].tombstoned_at is None, item[1].tombstoned_at or 0))
    return tables.to_entry(parent.name, row) if source is s.tables else views.to_view(connection, row)


def tombstones(connection: sa.Connection, database_id: UUID | None) -> list[Tombstoned]:
    """Everything that was dropped and is not purged, of one database or of all, in the order of its end."""
    sources = (("database", s.databases), ("table", s.tables), ("view", s.views), ("ingest_token", s.ingest_tokens))
    found = []
    for kind, source in sources:
        owner = source.c.id if source is s.databases else source.c.database_id
        query = sa.select(source, owner.label("owner")).where(source.c.tombstoned_at.is_not(None))
        if database_id is not None:
            query = query.where(owner == database_id)
        for row in connection.execute(query):
            tombstone = tombstone_of(row)
            assert tombstone is not None
            found.append(Tombstoned(kind, row.id, row.name, row.owner, tombstone))
    return sorted(found, key=lambda one: (one.tombstone.delete_at, one.kind, one.name, one.id))
