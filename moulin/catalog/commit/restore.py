"""Restore: restores the rows, schema, partitioning and order of an older version by reopening old spans.

Offsets, epochs, counters and properties do not change. The cost depends on the changes since that version.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from moulin.catalog.commit import indexes
from moulin.catalog.commit.data import close_spans, inline, note_columns, reopen_span
from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.objects import tables
from moulin.catalog.segments import live as segments
from moulin.catalog.segments.bases import Level, in_level
from moulin.catalog.segments.sql_rows import select_spans
from moulin.catalog.sql import schema as s
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.operations import Restore


def apply_restore(change: TableChange, operation: Restore) -> None:
    target = operation.version
    state = tables.load(change.connection, change.row, target)
    change.updates.update(schema_id=state.schema_id, spec_id=state.spec_id, sort_order_id=state.sort_order_id)
    change.summary["restored-version"] = str(target)
    indexes.drop_without_column(change, state.schema)

    p = s.segment_spans
    mine = p.c.table_id == change.table_id
    newer = change.connection.execute(
        select_spans().where(mine, p.c.added_version > target, p.c.removed_version == s.OPEN)
    ).all()
    ended = sa.and_(p.c.removed_version > target, p.c.removed_version < s.OPEN, p.c.added_version <= target)
    older = [*change.connection.execute(select_spans().where(mine, ended)), *_masked_since(change, target)]
    same = set(map(_content, newer)) & set(map(_content, older))
    closed = [row for row in newer if _content(row) not in same]
    opened = [row for row in older if _content(row) not in same]
    _close(change, closed)
    _open(change, opened)


def _content(row: Any) -> tuple[int, int, int]:
    """The identity of a span, without its versions."""
    return row.segment, row.vector_id, row.columns_id


def _masked_since(change: TableChange, target: int) -> list[Any]:
    """Spans of the base that were in the table at `target` and have been masked since."""
    if change.row.base_id is None:
        return []
    p, m = s.segment_spans, s.span_masks
    since = sa.exists().where(m.c.table_id == change.table_id, m.c.segment == p.c.segment, m.c.added_version > target)
    base = Level(change.row.base_id, change.row.base_version)
    return list(change.connection.execute(select_spans().where(*in_level(p, base), since)))


def _close(change: TableChange, rows: list[Any]) -> None:
    close_spans(change, rows)
    for row in rows:
        change.manifest.data_files.append(pb.DataFileRef(path=row.path, number=row.segment, status=codec.DELETED))
    live_rows = sum(row.rows - row.deleted for row in rows)
    change.add(segments=-len(rows), rows=-live_rows, bytes=-sum(row.size for row in rows), inline=-inline(rows))
    change.count("deleted-data-files", len(rows))
    change.count("deleted-records", live_rows)


def _open(change: TableChange, rows: list[Any]) -> None:
    if not rows:
        return
    change.connection.execute(
        s.segment_spans.insert(),
        [reopen_span(change, row, row.vector_id) for row in rows],
    )
    # With all facts: a reader of manifests may have started after these segments were last live.
    live = segments.by_number(change.connection, change.table_id, [row.segment for row in rows], change.draft.version)
    for segment in live.values():
        ref = segments.existing_ref(change.table_id, segment)
        note_columns(change, ref, segment.columns_id)
        change.manifest.data_files.append(ref)
    live_rows = sum(row.rows - row.deleted for row in rows)
    change.add(segments=len(rows), rows=live_rows, bytes=sum(row.size for row in rows), inline=inline(rows))
    if inline(rows):
        codec.require_feature(change.manifest, codec.FEATURE_INLINE_SEGMENTS)
    codec.require_base_paths(change.manifest, (row.path for row in rows))
    change.count("added-data-files", len(rows))
    change.count("added-records", live_rows)
