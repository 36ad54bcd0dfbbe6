"""Changes of column files: fills of pending columns, their completion, and dropped columns."""

# Decisions: docs/decisions/0420, docs/decisions/0421, docs/decisions/0472

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from moulin.catalog.commit import required
from moulin.catalog.commit.data import close_spans, describe, open_spans, reopen_span, versions_that_touched
from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.commit.table_commit import Stale
from moulin.catalog.objects import tables
from moulin.catalog.segments import column_sets
from moulin.catalog.segments import live as segments
from moulin.catalog.segments.bases import in_level, levels
from moulin.catalog.segments.column_sets import Files
from moulin.catalog.segments.sql_rows import select_spans
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import take
from moulin.catalog.tasks import claims
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.conflicts import Verdict
from moulin.model.entities import TableState
from moulin.model.filling import Filling, fillings_of, unwritable
from moulin.model.operations import Fill
from moulin.model.schema.change import CastColumn, DropColumn, FillColumn, SchemaChange, WidenColumn
from moulin.model.schema.schema import find_column, nested_ids
from moulin.model.tags import COMPUTED_PREFIX, FILLING_PREFIX

_TAKES_VALUES = (DropColumn, CastColumn, WidenColumn)


def apply_fill(change: TableChange, operation: Fill) -> None:
    """Attach column files to segments. Deletion vectors do not change; missing segments cause a retry."""
    change.require_nothing_erased()
    files = {file.segment: file for file in operation.files}
    if len(files) != len(operation.files):
        raise InvalidInput("A fill must add exactly one file per segment.")
    spans = {span.segment: span for span in open_spans(change, files)}
    if missing := files.keys() - spans.keys():
        gone = min(missing)
        raise change.stale(f"segment {gone}", "live", "gone", versions_that_touched(change, gone))
    state = tables.load(change.connection, change.row)
    pending = fillings_of(change.row.properties, state.schema)
    known = {one.number: one for one in pending.values()}
    for file in operation.files:
        if unknown := [number for number in file.fields if number not in known]:
            raise _gone(change, f"field {unknown[0]}", "pending", "not pending any more")
        inner = {number for one in file.fields for number in known[one].stored_ids}
        if foreign := {column.field_id for column in file.columns} - inner:
            raise InvalidInput(f"{file.path} has facts of field {min(foreign)}, which is not a column of it.")
    sets = column_sets.load(change.connection, {span.columns_id for span in spans.values()})
    replaced = []
    for number, span in spans.items():
        before, file = sets[span.columns_id], files[number]
        if any(field in one.fields for one in before for field in file.fields):
            raise change.stale(f"segment {number}", "not filled", "filled", versions_that_touched(change, number))
        replaced.append((span, (*before, file)))
    change.connection.execute(
        s.column_files.insert(),
        [column_sets.file_row(change.table_id, file, change.draft.version) for file in operation.files],
    )
    replace_columns(change, replaced)
    claims.finish_fill(change.connection, operation, change.table_id, change.name, change.draft.version)
    change.count("added-column-files", len(files))
    change.count("added-files-size", sum(file.size for file in operation.files))


def replace_columns(change: TableChange, spans: Sequence[tuple[Any, Files]]) -> None:
    """End spans, and start new ones with the same segments and vectors and these column files."""
    if not spans:
        return
    first = take(change.connection, "vector", len(spans))
    rows = [
        row
        for index, (_, files) in enumerate(spans)
        for row in column_sets.set_rows(change.table_id, first + index, files)
    ]
    if rows:
        change.connection.execute(s.column_sets.insert(), rows)
    close_spans(change, [span for span, _ in spans])
    reopened = [
        {**reopen_span(change, span, span.vector_id), "columns_id": first + index if files else 0}
        for index, (span, files) in enumerate(spans)
    ]
    change.connection.execute(s.segment_spans.insert(), reopened)
    own = [span.segment for span, _ in spans if span.table_id == change.table_id]
    live = segments.by_number(change.connection, change.table_id, own, change.draft.version, with_columns=False)
    for segment in live.values():
        ref = pb.DataFileRef(path=segment.facts.path, number=segment.facts.number, status=codec.EXISTING)
        if segment.vector:
            codec.set_vector(ref, segment.vector)
        codec.set_columns(ref, segment.columns_id, segment.facts.files)
        change.manifest.data_files.append(ref)
    describe(change, [span.segment for span, _ in spans if span.table_id != change.table_id])
    codec.require_feature(change.manifest, codec.FEATURE_COLUMN_FILES)


def alter(change: TableChange, before: TableState, after: TableState, changes: Sequence[SchemaChange]) -> None:
    """The effect of a schema change on column files: complete columns, and remove the files of dropped ones."""
    pending = fillings_of(change.row.properties, before.schema)
    _keep_inputs(change, before, pending, changes)
    filled = [one for one in changes if isinstance(one, FillColumn)]
    for one in filled:
        _require_complete(change, before, pending, one)
    kept = {field.field_id for field in after.schema.fields}
    over = {name: one for name, one in pending.items() if one.placeholder not in kept}
    marks = {f"{COMPUTED_PREFIX}{one.number}": pending[one.name].sql or "" for one in filled}
    gone = {one.key for one in over.values()}
    gone |= {key for key in change.row.properties if key.startswith(COMPUTED_PREFIX) and not _names(key, kept)}
    if gone or marks:
        held = {key: text for key, text in change.row.properties.items() if key not in gone}
        change.updates["properties"] = {**held, **marks}
    dropped = {field.field_id for field in before.schema.fields} - kept
    dropped |= {one.number for one in over.values() if one.number not in kept}
    _detach(change, dropped, kept | {one.number for name, one in pending.items() if name not in over})


def _names(key: str, kept: Collection[int]) -> bool:
    """Whether the mark of a computed column is that of one of the fields `kept`."""
    return key.removeprefix(COMPUTED_PREFIX) in map(str, kept)


def _detach(change: TableChange, dropped: Collection[int], kept: Collection[int]) -> None:
    """Remove column files that contain only dropped columns."""
    if not dropped:
        return
    c, p = s.column_sets, s.segment_spans
    own = sa.select(c.c.id).where(c.c.table_id == change.table_id).limit(1)
    if change.row.base_id is None and change.connection.execute(own).first() is None:
        return  # spans are looked through only where there may be some; clones have those of others, too
    mine = sa.select(c.c.id).where(c.c.id == p.c.columns_id, c.c.field_id.in_(dropped)).correlate(p).exists()
    spans: list[Any] = []
    for level in _levels(change):
        spans += change.connection.execute(select_spans().where(p.c.columns_id != 0, mine, *in_level(p, level))).all()
    if not spans:
        return
    sets = column_sets.load(change.connection, {span.columns_id for span in spans})
    left = [(span, tuple(f for f in sets[span.columns_id] if not set(kept).isdisjoint(f.fields))) for span in spans]
    replace_columns(change, [(span, files) for span, files in left if len(files) < len(sets[span.columns_id])])


def _levels(change: TableChange) -> list[Any]:
    own = levels(change.row, s.OPEN - 1)[0]
    return [own] if change.row.base_id is None else [own, levels(change.row, s.OPEN)[1]]


def _keep_inputs(
    change: TableChange, before: TableState, pending: dict[str, Filling], changes: Sequence[SchemaChange]
) -> None:
    """Reject changes of columns that a pending column is computed from."""
    if not pending:
        return
    for one in changes:
        if not isinstance(one, _TAKES_VALUES) or one.name not in {f.name for f in before.schema.fields}:
            continue
        if isinstance(one, WidenColumn):
            if one.name in pending:
                raise _is_filled(change, one.name, "widen")
            continue
        ids = nested_ids(find_column(before.schema, one.name))
        if user := next((n for n, wait in pending.items() if n != one.name and ids & set(wait.reads)), None):
            raise FailedPrecondition(
                f"Column {one.name} of {change.name} cannot be dropped until {user}, which is computed from it, is "
                f"complete: finish the fill, or drop {user} first."
            )
        if isinstance(one, CastColumn) and one.name in pending:
            raise _is_filled(change, one.name, "cast")


def _is_filled(change: TableChange, name: str, what: str) -> FailedPrecondition:
    return FailedPrecondition(f"Column {name} of {change.name} is being filled: {what} it once it is complete.")


def _require_complete(change: TableChange, before: TableState, pending: dict[str, Filling], filled: FillColumn) -> None:
    """Check that every live segment has the values, and that all log rows of a keyed table are in segments."""
    wait = pending.get(filled.name)
    if wait is None or wait.number != filled.number or wait.type != filled.type:
        raise _gone(change, f"column {filled.name}", "pending", "not pending any more")
    if wait.again and find_column(before.schema, filled.name).required:
        raise FailedPrecondition(
            f"Column {filled.name} of {change.name} is NOT NULL now, but new values may be null: make it nullable, "
            f"and compute it again."
        )
    required.require_held(change, f"the fill of column {filled.name}")
    p = s.segment_spans
    for level in _levels(change):
        lacking = sa.select(p.c.segment).where(*in_level(p, level), ~column_sets.has_field(p, filled.number)).limit(1)
        if (found := change.connection.execute(lacking).scalar()) is not None:
            raise _gone(change, f"segment {found}", f"filled with column {filled.name}", "new")


def refuse_values(change: TableChange, added: Sequence[Any]) -> None:
    """Reject rows with values in a column that is being filled."""
    if not any(key.startswith(FILLING_PREFIX) for key in change.row.properties):
        return
    state = tables.load(change.connection, change.row)
    for name, wait in unwritable(change.row.properties, state.schema).items():
        ids = nested_ids(find_column(state.schema, name))
        for facts in added:
            if any(column.nulls < column.values for column in facts.columns if column.field_id in ids):
                raise FailedPrecondition(
                    f"Column {name} of {change.name} is being filled (field {wait.number}) and cannot be written "
                    f"yet: omit it, or wait until `moulin table show` no longer shows it as pending."
                )


def _gone(change: TableChange, requirement: str, expected: str, found: str) -> Stale:
    return Stale(
        f"The {change.commit.operation.kind} of {change.name} conflicts with another commit: {requirement} was "
        f"expected to be {expected} "
        f"and is {found}. Read the table again and retry.",
        Verdict.RETRY,
        requirement=requirement,
        expected=expected,
        found=found,
    )


__all__ = ["alter", "apply_fill", "refuse_values", "replace_columns"]
