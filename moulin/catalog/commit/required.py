"""Columns that become required: checks that commit, and row commits that were prepared before it.

The caller has checked one version for nulls. Rows added since, and rows written before but committed later, are checked
by the statistics of their segments; in doubt, the later commit is rejected and may be retried.
"""

# Decisions: docs/decisions/0290

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from moulin.catalog.commit import regions
from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.commit.table_commit import Stale
from moulin.catalog.sql import schema as s
from moulin.errors import FailedPrecondition
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.conflicts import Verdict
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.model.operations import Kind
from moulin.model.schema.nulls import first_in_doubt, newly_required
from moulin.model.schema.values import Schema


def require_filled(change: TableChange, state: TableState, foreseen: Schema) -> None:
    """Before `foreseen` becomes the schema: rows added since the commit was prepared must not have nulls."""
    names = [field.name for field in newly_required(state.schema, foreseen)]
    if not names:
        return
    _refuse_streams(change, names[0])
    require_held(change, f"the look for nulls in column {names[0]}")
    since = change.since()
    if change.past_is_forgotten or any(row.kind == Kind.RESTORE for row in since):
        raise _lost(change, f"column {names[0]}", "as it was looked through", "that of other rows")
    if not any("added-data-files" in row.summary for row in since):
        return
    g, p = s.segments, s.segment_spans
    query = (
        sa.select(g.c.number, g.c.schema_id, g.c.facts)
        .join(p, p.c.segment == g.c.number)
        .where(p.c.table_id == change.table_id, p.c.removed_version == s.OPEN)
        .where(g.c.added_version > change.commit.read_version)
    )
    ids = [field.field_id for field in foreseen.fields]
    for number, schema_id, stored in change.connection.execute(query):
        columns = codec.decode_columns(pb.SegmentColumns.FromString(stored), ids)
        if (name := first_in_doubt(state.schemas[schema_id], foreseen, columns)) is not None:
            raise _lost(change, f"column {name} of segment {number}", "without nulls", "new")


def refuse_nulls(change: TableChange, state: TableState, added: Iterable[SegmentFacts]) -> None:
    """Reject segments of an older schema that have, or may have, nulls in columns that are now required."""
    for facts in added:
        if (name := first_in_doubt(state.schemas[facts.schema_id], state.schema, facts.columns)) is not None:
            raise _lost(change, f"column {name} of the new rows", "nullable", "NOT NULL")


def require_held(change: TableChange, what: str) -> None:
    """Every region of a keyed table must be held, because the rows in its log were checked too."""
    if unheld := regions.of_now(change) - {use.number for use in change.commit.regions}:
        raise _lost(change, f"region {min(unheld)}", f"held by {what}", "new")


def _refuse_streams(change: TableChange, name: str) -> None:
    """Collectors acknowledge rows with the schema that they know, and such rows are not in segments yet."""
    t = s.ingest_tokens
    query = sa.select(t.c.name).where(t.c.database_id == change.row.database_id).order_by(t.c.name).limit(1)
    if (token := change.connection.execute(query).scalar()) is not None:
        raise FailedPrecondition(
            f"Column {name} of {change.name} cannot become NOT NULL while ingest token {token!r} lets collectors send "
            "rows to tables of this database: use a database without tokens, or delete the token and wait until it is "
            "purged."
        )


def _lost(change: TableChange, requirement: str, expected: str, found: str) -> Stale:
    return Stale(
        f"The {change.commit.operation.kind} of {change.name} conflicts with a change of a column to NOT NULL, or of "
        f"its rows: {requirement} was expected to be {expected} and is {found}. Read the table again and "
        "retry.",
        Verdict.RETRY,
        requirement=requirement,
        expected=expected,
        found=found,
    )
