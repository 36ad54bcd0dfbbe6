"""Drop and resurrect: every drop is a tombstone with a grace window, lifted by resurrect until `delete_at`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.errors import AlreadyExists, FailedPrecondition, NotFound
from moulin.model.entities import Tombstone


def tombstone_of(row: Any) -> Tombstone | None:
    return None if row.tombstoned_at is None else Tombstone(row.tombstoned_at, row.delete_at)


def bury(draft: Draft, table: sa.Table, row: Any, grace_seconds: float) -> None:
    """Tombstone one row. A second drop never extends the grace period, but one without grace may end it."""
    delete_at = draft.now + int(grace_seconds * NANOS)
    if row.tombstoned_at is not None and row.delete_at <= delete_at:
        return
    tombstoned_at = draft.now if row.tombstoned_at is None else row.tombstoned_at
    draft.connection.execute(
        table.update().where(table.c.id == row.id).values(tombstoned_at=tombstoned_at, delete_at=delete_at)
    )
    add_rows(draft, table, [row.id])
    _reroute(draft, table)


def lift(draft: Draft, table: sa.Table, ids: list[UUID]) -> None:
    """Resurrect tombstoned rows."""
    if ids:
        draft.connection.execute(table.update().where(table.c.id.in_(ids)).values(tombstoned_at=None, delete_at=None))
        add_rows(draft, table, ids)
        _reroute(draft, table)


def _reroute(draft: Draft, table: sa.Table) -> None:
    if table in (s.tables, s.ingest_tokens):
        draft.reroute()


def to_resurrect(
    connection: sa.Connection, table: sa.Table, named: sa.ColumnElement[bool], now: int, what: str
) -> Any | None:
    """The row to bring back: of the dropped ones that are `named` so, the last. None when there is only a live one.

    The clock decides, not the purge: past its grace window an object is refused even while its row lingers.
    """
    rows = connection.execute(sa.select(table).where(named)).all()
    if not rows:
        raise NotFound(f"{what} does not exist.")
    live = any(row.tombstoned_at is None for row in rows)
    in_grace = [row for row in rows if row.tombstoned_at is not None and row.delete_at > now]
    if not in_grace and not live:
        raise FailedPrecondition(f"{what} can no longer be resurrected: its grace period has ended.")
    if not in_grace:
        return None
    if live:
        raise AlreadyExists(f"{what} already exists: rename it to resurrect the dropped one.")
    return max(in_grace, key=lambda row: row.tombstoned_at)
