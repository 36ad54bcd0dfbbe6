"""Makes columns required: no live row may have a null in them at commit."""

# Decisions: docs/decisions/0290

from __future__ import annotations

from collections.abc import Callable, Sequence

from moulin.errors import FailedPrecondition
from moulin.model.alteration import altered
from moulin.model.columns import compute as pc
from moulin.model.entities import TableState
from moulin.model.operations import AlterSchema, RegionUse
from moulin.model.schema.change import SchemaChange
from moulin.model.schema.nulls import newly_required
from moulin.model.schema.values import NestedField, PrimitiveType
from moulin.table.commit.change import SettingChange
from moulin.table.commit.retry import retry
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.read.scan import Scan
from moulin.table.write.writes import Outcome


def require_columns(
    context: Context, load: Callable[[], TableState], keyed: KeyedTable | None, changes: Sequence[SchemaChange]
) -> Outcome:
    """Commit schema changes that make columns required; FailedPrecondition if a live row has a null in one.

    The commit is retried if new rows may have one. A keyed table is held, including all its logs.
    """

    def run() -> Outcome:
        if keyed is None:
            return _require(context, load(), changes, ())
        with keyed.held() as (seen, uses):
            return _require(context, seen.state, changes, tuple(uses))

    return retry(context.config.commit_attempts, run)


def _require(
    context: Context, state: TableState, changes: Sequence[SchemaChange], uses: tuple[RegionUse, ...]
) -> Outcome:
    for field in newly_required(state.schema, altered(state, changes).schema):
        if _has_null(context, state, field):
            raise FailedPrecondition(
                f"Column {field.name} of {state.full_name} cannot become NOT NULL: some rows have a null in it. "
                "Update or delete them first."
            )
    change = SettingChange(state.id, state.version, AlterSchema(tuple(changes)), regions=uses)
    return Outcome(context.committer.commit([change]).version)


def _has_null(context: Context, state: TableState, field: NestedField) -> bool:
    """Whether a live row has a null there. Segments whose facts count none are not read."""
    before = state.schema.find_column_name(field.field_id)
    if before is None:  # added by the same change
        return context.catalog.count_rows(state.id, state.version) > 0
    simple = isinstance(field.field_type, PrimitiveType)
    scan = Scan(
        context.catalog,
        context.store,
        context.vectors,
        state,
        columns=[before],
        where=pc.field(before).is_null() if simple else None,
        limit=1 if simple else None,
        indexes=context.secondary,
        pins=context.pins,
    )
    return any(batch.column(0).null_count for batch in scan.to_batches())
