"""Resumes abandoned fills with an expression, in a worker."""

# Decisions: docs/decisions/0473

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from moulin.errors import MoulinError, NotFound
from moulin.model.entities import TableState
from moulin.model.filling import Filling, fillings_of
from moulin.model.schema.schema import find_column
from moulin.model.schema.values import NestedField
from moulin.table.context import Context
from moulin.table.fill.compute import expression
from moulin.table.fill.fill import WORKER, Filler
from moulin.table.keyed.tables import keyed_table
from moulin.table.runner import Stopped, never

log = logging.getLogger("moulin.table")


@dataclass(frozen=True, slots=True)
class Resumed:
    """A column that is complete now, and the version that made it so."""

    table: str
    column: str
    version: int


def resume_fills(context: Context, stopped: Callable[[], bool] = never) -> Iterator[Resumed]:
    """Complete the pending columns of all tables that have an expression and that nobody fills at the moment.

    A failed fill is logged, and the next one started: repeating the original call raises the error.
    """
    for state in _states(context):
        for name, filling in fillings_of(state.properties, state.schema).items():
            if stopped():
                return
            if filling.sql is None or _is_worked_at(context, state):
                continue
            try:
                yield Resumed(state.full_name, name, _go_on(context, state, name, filling, filling.sql, stopped))
            except Stopped:
                return
            except MoulinError as error:
                log.warning("column %s of %s cannot be filled: %s", name, state.full_name, error.message)


def _go_on(
    context: Context, state: TableState, name: str, filling: Filling, sql: str, stopped: Callable[[], bool]
) -> int:
    kind = find_column(state.schema, name).field_type
    compute = expression(context, state.schemas[filling.schema_id], NestedField(1, name, kind, required=False), sql)
    keyed = keyed_table(context, state.id)
    return (
        Filler(context, lambda: context.catalog.table_by_id(state.id), keyed, (name,), compute, stopped).run().version
    )


def _is_worked_at(context: Context, state: TableState) -> bool:
    """Whether a fill of the table has a lease. Between two of its groups it has none: then both work, which is safe."""
    now = time.time_ns()
    tasks = context.catalog.maintenance.merge_tasks(state.id)
    return any((task.worker or "").startswith(WORKER) and task.available_at > now for task in tasks)


def _states(context: Context) -> Iterator[TableState]:
    catalog = context.catalog
    for database in catalog.databases():
        for entry in catalog.tables(database.name):
            try:
                yield catalog.table_by_id(entry.id)
            except NotFound:  # dropped in the meantime
                continue


__all__ = ["Resumed", "resume_fills"]
