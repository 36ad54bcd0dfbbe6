"""Bulk changes of a keyed table: each holds the regions it touches, so that no put is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moulin.model.operations import Kind, Restore
from moulin.model.rows.rows import to_batches
from moulin.model.where import Where
from moulin.table.bulk.commit import overwrite_frame, united, upsert_frame
from moulin.table.commit.change import SettingChange
from moulin.table.commit.retry import retry
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.memtable import to_schema
from moulin.table.ports import is_frame
from moulin.table.write.pieces import pieces
from moulin.table.write.upsert import UpsertDraft, newest, put_rows
from moulin.table.write.writes import Outcome, number_source, prepare_delete


def upsert(context: Context, keyed: KeyedTable, data: Any, request_id: str | None) -> Outcome:
    """Insert or replace rows in one version, past the log."""
    if is_frame(data):
        return upsert_frame(context, keyed, data, request_id)
    version, draft = keyed.upsert(
        data, lambda change: context.committer.commit([change], request_id=request_id).version
    )
    return Outcome(version, draft.rows_new, rows_updated=draft.rows_updated)


def delete_where(context: Context, keyed: KeyedTable, where: Where) -> Outcome:
    """Delete the rows that match, those that are only in memtables too."""

    def run() -> Outcome:
        with keyed.held() as (seen, uses):
            change, rows = prepare_delete(context, seen.state, where)
            if rows == 0:
                return Outcome(seen.state.head_version)
            change = replace(change, regions=tuple(uses))
            return Outcome(context.committer.commit([change]).version, rows_deleted=rows)

    return retry(context.config.commit_attempts, run)


def overwrite(context: Context, keyed: KeyedTable, data: Any, where: Where) -> Outcome:
    """Replace all rows, or those that match, with the rows of `data`; rows of its keys are replaced in any case."""
    if is_frame(data):
        return overwrite_frame(context, keyed, data, where)

    schema = keyed.refresh().state.schema
    batches = list(to_batches(data, schema))  # it may be needed again

    def run() -> Outcome:
        with keyed.held(also=lambda: keyed.regions_of(batches)) as (seen, uses):
            state = seen.state
            draft, numbers = UpsertDraft(), number_source(context)
            kept = () if where is None else seen.segments
            for piece in pieces(batches, schema, keyed.config.append_segment_bytes):
                rows = to_schema(piece, schema, state.schema)
                for value, part in keyed.spec.split(newest(keyed.key, rows)):
                    number = context.catalog.region(keyed.id, value).number
                    segments = keyed.spec.searched(kept, number)
                    put_rows(context, state, draft, segments, part, numbers, region=number)
            change = draft.change(state, uses)
            if where is None:
                gone = context.catalog.table_entry(state.id).rows
                change = replace(change, kind=Kind.OVERWRITE, everything=True)
            else:
                matched, gone = prepare_delete(context, state, where, kind=Kind.OVERWRITE)
                change = united(change, matched)
            version = context.committer.commit([change]).version
            return Outcome(version, draft.rows_new, gone, draft.rows_updated)

    return retry(context.config.commit_attempts, run)


def restore(context: Context, keyed: KeyedTable, version: int) -> Outcome:
    """Bring back the rows of an older version. Logs, epochs and what they cover go on as they are."""
    with keyed.held() as (seen, uses):
        change = SettingChange(keyed.id, seen.state.version, Restore(version), regions=tuple(uses))
        return Outcome(context.committer.commit([change]).version)
