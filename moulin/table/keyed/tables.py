"""The keyed tables that this process has open, one object for each."""

# Decisions: docs/decisions/0238

from __future__ import annotations

import logging
import time
from contextlib import suppress
from uuid import UUID

from moulin.errors import MoulinError, NotFound
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.left_logs import left_logs
from moulin.table.keyed.settler import LOOK_SECONDS
from moulin.table.properties import effective

log = logging.getLogger("moulin.table")


def keyed_table(context: Context, table_id: UUID) -> KeyedTable | None:
    """The process-wide keyed table with this id; None for an event table."""
    found = open_keyed(context, table_id)
    if found is None:
        if not context.catalog.table_by_id(table_id).schema.identifier_field_ids:
            return None
        context.keyed.setdefault(table_id, KeyedTable(context, table_id))
        found = open_keyed(context, table_id)
    return found


def open_keyed(context: Context, table_id: UUID) -> KeyedTable | None:
    """The keyed table of this id, if this process has used it before."""
    found = context.keyed.get(table_id)
    assert found is None or isinstance(found, KeyedTable)
    return found


def open_on_any_line(context: Context, table_id: UUID) -> KeyedTable | None:
    """The keyed table of this id, if this process has used it on main or on a branch before."""
    return next(filter(None, (open_keyed(one, table_id) for one in list(context.lines))), None)


def flush_keyed(context: Context) -> dict[UUID, Exception]:
    """Commit what this process put, and what others left in the logs of any table, so that other engines see it.

    A table that cannot be flushed stops no other: its error is logged and returned.
    """
    claimed = set(context.catalog.claimed_tables()) if context.catalog.may_write else set()
    failures: dict[UUID, Exception] = {}
    for table_id in claimed | set(context.keyed):
        try:
            _flush(context, table_id, claimed=table_id in claimed)
        except Exception as error:
            if isinstance(error, NotFound) and not _exists(context, table_id):
                continue  # dropped since; should it be brought back, its log is still there
            failures[table_id] = error
            log.exception("a table cannot be flushed", extra={"table": str(table_id)})
    return failures


def flush_own(context: Context) -> None:
    """Commit what this process put into any table; one that cannot be flushed is left to its next user."""
    for table_id in list(context.keyed):
        if (keyed := open_keyed(context, table_id)) is not None:
            with suppress(MoulinError):
                keyed.flush_own()


def _exists(context: Context, table_id: UUID) -> bool:
    try:
        context.catalog.table_by_id(table_id)
    except NotFound:
        return False
    return True


def flush_table(context: Context, table_id: UUID) -> None:
    """Commit what was put into one table, as `flush_keyed` does it; other tables are left alone."""
    claimed = context.catalog.may_write and table_id in context.catalog.claimed_tables()
    if claimed or table_id in context.keyed:
        _flush(context, table_id, claimed=claimed)


def _flush(context: Context, table_id: UUID, *, claimed: bool) -> None:
    if (keyed := open_keyed(context, table_id)) is not None:
        if claimed:
            keyed.committed()
        keyed.flush_own()
    elif claimed and time.monotonic() >= context.look_at.get(table_id, 0.0):
        _settle_table(context, table_id)


def _settle_table(context: Context, table_id: UUID) -> None:
    """Flush what was left of a table that this process does not use yet; its segments are looked up only then."""
    try:
        properties = context.catalog.table_by_id(table_id).properties
        regions = context.catalog.regions(table_id)
        if left_logs(context, table_id, effective(context.config, properties), regions):
            keyed = keyed_table(context, table_id)
            assert keyed is not None
            keyed.committed()
    except NotFound:
        return  # dropped in the meantime
    context.look_at[table_id] = time.monotonic() + LOOK_SECONDS
