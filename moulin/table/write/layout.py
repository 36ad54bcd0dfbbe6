"""What a writer of segments must know of a table; small, and sent to Spark tasks."""

# Decisions: docs/decisions/0163

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

from moulin.model.entities import TableState
from moulin.model.file_settings import FileSettings
from moulin.model.key.key import Key
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.layout.sort_order import SortOrder
from moulin.model.schema.values import Schema
from moulin.table.properties import append_bytes
from moulin.table.write import clustering


@dataclass(frozen=True)
class Layout:
    """Schema, partitioning and order that new segments of a table are written with.

    `cluster_by` names the columns that compactions put rows together by; `files` and `append_bytes` are what the
    table's properties say of files and of the size of appended ones. Segments are written below `place`, which is empty
    or a folder of the lake below a base path.
    """

    table_id: UUID
    name: str
    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    event_time: int | None
    cluster_by: tuple[str, ...] = ()
    files: FileSettings = field(default_factory=FileSettings)
    append_bytes: int | None = None
    place: str = ""

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
            FileSettings.of(state.properties),
            append_bytes(state.properties),
        )
