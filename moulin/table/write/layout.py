"""What a writer of segments must know of a table; small, and sent to Spark tasks."""

# Decisions: docs/decisions/0163

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from moulin.model.entities import TableState
from moulin.model.key.key import Key
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.layout.sort_order import SortOrder
from moulin.model.schema.values import Schema
from moulin.table.write import clustering


@dataclass(frozen=True)
class Layout:
    """Schema, partitioning and order that new segments of a table are written with.

    `cluster_by` names the columns that compactions put rows together by.
    """

    table_id: UUID
    name: str
    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    event_time: int | None
    cluster_by: tuple[str, ...] = ()

    @cached_property
    def key(self) -> Key | None:
        """The primary key; None for an event table."""
        return Key.of(self.schema)

    @classmethod
    def of(cls, state: TableState) -> Layout:
        return cls(
            state.id,
            state.full_name,
            state.schema,
            state.spec,
            state.sort_order,
            state.event_time,
            clustering.columns_of(state),
        )
