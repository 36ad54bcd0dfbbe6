"""What a writer of segments must know of a table; small, and sent to Spark tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from moulin.model.entities import TableState
from moulin.model.key import Key
from moulin.model.table_settings import cluster_order


@dataclass(frozen=True)
class Layout:
    """Schema, partitioning and order that new segments of a table are written with.

    `cluster` says by what rows are dealt out to the segments of a merge; in each of them they are in sort order.
    """

    table_id: UUID
    name: str
    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    event_time: int | None
    cluster: SortOrder | None = None

    @cached_property
    def key(self) -> Key | None:
        """The primary key; None for an event table."""
        return Key.of(self.schema)

    @classmethod
    def of(cls, state: TableState) -> Layout:
        keyed = bool(state.schema.identifier_field_ids)
        cluster = None if keyed else cluster_order(state.properties, state.schema)
        return cls(state.id, state.full_name, state.schema, state.spec, state.sort_order, state.event_time, cluster)
