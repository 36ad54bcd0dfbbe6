"""Names to objects: a table or a view of a database."""

from __future__ import annotations

import sqlalchemy as sa

from moulin.catalog import databases, tables, views
from moulin.catalog import schema as s
from moulin.catalog.names import Key, by_key
from moulin.errors import NotFound
from moulin.model.entities import TableEntry, View


def table_or_view(connection: sa.Connection, database: Key, name: str, *, include_dropped: bool) -> TableEntry | View:
    """The live table or view of a name; there is at most one. Else, if asked for, the one dropped last."""
    parent = databases.find(connection, database, include_dropped=include_dropped)
    found = []
    for kind, source in (("Table", s.tables), ("View", s.views)):
        try:
            found.append((source, by_key(connection, source, parent, name, kind, include_dropped=include_dropped)))
        except NotFound:
            continue
    if not found:
        raise NotFound(f"There is no table or view {parent.name}.{name}.")
    source, row = max(found, key=lambda item: (item[1].tombstoned_at is None, item[1].tombstoned_at or 0))
    return tables.to_entry(parent.name, row) if source is s.tables else views.to_view(connection, row)
