"""Appends that evolve: the schema grows to hold the rows, and both are one version."""

# Decisions: docs/decisions/0258

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moulin.catalog.commit.table_commit import Stale
from moulin.errors import MoulinError
from moulin.model.alteration import altered
from moulin.model.entities import TableState
from moulin.model.operations import AlterSchema
from moulin.model.rows.growing import growth_for, replayable
from moulin.model.schema.change import SchemaChange
from moulin.model.schema.growth import growth
from moulin.table.bulk import bulk
from moulin.table.bulk.commit import upsert_frame
from moulin.table.commit.change import Change, SettingChange
from moulin.table.commit.retry import retry
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.ports import is_frame
from moulin.table.write.writes import Outcome, prepare_append


def append_evolving(
    context: Context, load: Callable[[], TableState], keyed: KeyedTable | None, data: Any, request_id: str | None
) -> Outcome:
    """Add rows, with new columns and wider types where the schema needs them to hold `data`.

    When another writer altered the schema first, all is computed again from its schema, if `data` can be read twice.
    """
    again = True
    if not is_frame(data):
        data, again = replayable(data)

    def run() -> Outcome:
        state = load()
        changes = _growth(context, data, state)
        if keyed is not None:
            return _upsert(context, keyed, state, changes, data, request_id)
        foreseen = altered(state, changes) if changes else state
        change = prepare_append(context, foreseen, data)
        committing: list[Change] = [*_setting(state, changes), *([change] if change.added else [])]
        if not committing:
            return Outcome(state.head_version)
        version = context.committer.commit(committing, request_id=request_id).version
        return Outcome(version, sum(facts.rows for facts in change.added))

    return retry(context.config.commit_attempts if again else 1, run, _schema_moved)


def _upsert(
    context: Context,
    keyed: KeyedTable,
    state: TableState,
    changes: tuple[SchemaChange, ...],
    data: Any,
    request_id: str | None,
) -> Outcome:
    if not changes:
        return bulk.upsert(context, keyed, data, request_id)
    foreseen, before = altered(state, changes), _setting(state, changes)
    if is_frame(data):
        return upsert_frame(context, keyed, data, request_id, foreseen, before)
    committer = context.committer
    version, draft = keyed.upsert(
        data, lambda change: committer.commit([*before, change], request_id=request_id).version, foreseen
    )
    if not draft.added:  # the data has columns and no rows
        with keyed.held():
            version = committer.commit(before, request_id=request_id).version
    return Outcome(version, draft.rows_new, rows_updated=draft.rows_updated)


def _growth(context: Context, data: Any, state: TableState) -> tuple[SchemaChange, ...]:
    if is_frame(data):
        return growth(state.schema, context.spark().frame_schema(data))
    return growth_for(data, state.schema)


def _setting(state: TableState, changes: tuple[SchemaChange, ...]) -> list[Change]:
    return [SettingChange(state.id, state.version, AlterSchema(changes))] if changes else []


def _schema_moved(error: MoulinError) -> bool:
    return isinstance(error, Stale) and error.requirement == "the schema"
