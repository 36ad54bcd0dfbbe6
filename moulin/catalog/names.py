"""Tables and views of a database share one set of names."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from moulin.catalog import schema as s
from moulin.errors import AlreadyExists


def require_free_name(connection: sa.Connection, database: Any, name: str) -> None:
    """AlreadyExists when a live table or view of the database has the name."""
    for kind, table in (("Table", s.tables), ("View", s.views)):
        taken = sa.select(table.c.id).where(
            table.c.database_id == database.id, table.c.name == name, table.c.tombstoned_at.is_(None)
        )
        if connection.execute(taken).first() is not None:
            raise AlreadyExists(f"{kind} {database.name}.{name} already exists.")
