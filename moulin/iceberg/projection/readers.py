"""Which engines can currently read a table of a lake."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from moulin.iceberg.projection.engines import Reader, readers
from moulin.iceberg.projection.projection import Projection, project
from moulin.model.facts import LiveSegment
from moulin.table.context import Context


def readers_of(context: Context, table_id: UUID) -> tuple[Projection, Sequence[LiveSegment], Sequence[Reader]]:
    """The table as it is projected for engines, which is done if it was not; its segments then, and the engines."""
    made = project(context, table_id)
    live = context.catalog.segments(table_id, made.version, with_columns=False)
    return made, live, readers(made.metadata, [segment.facts for segment in live])
