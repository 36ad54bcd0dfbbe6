"""What all segments of one schema have in common, found once: a small append must not take longer over it than over
its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from moulin.formats.segment.footer import FooterColumn, footer_columns
from moulin.model.schema.arrow import ByIdentity, Leaf, arrow_schema, leaves, stored_position_field
from moulin.model.schema.documents import plain_schema, schema_to_json
from moulin.model.schema.values import Schema


@dataclass(slots=True)
class WriterPlan:
    """How rows of a schema are written: `arrow` is what a writer takes, `stored` what its file has."""

    schema: Schema
    arrow: pa.Schema
    stored: pa.Schema
    document: str  # the schema as JSON, for Iceberg engines
    leaves: tuple[Leaf, ...]  # of `stored`
    floats: tuple[int, ...]  # the ids of the float and double leaves of `arrow`
    _columns: dict[int, FooterColumn] | None = field(default=None, init=False)

    def columns(self, footer: pq.FileMetaData) -> dict[int, FooterColumn]:
        """How the footer of a file of this plan becomes facts. All of them have the same columns."""
        if self._columns is None:
            self._columns = footer_columns(footer, self.schema)
        return self._columns


def writer_plan(schema: Schema, *, lineage: bool, positions: bool) -> WriterPlan:
    """The plan for files of a schema, with or without the columns of lineage and of stored positions."""
    return _plan(ByIdentity(schema), lineage, positions)


@lru_cache(maxsize=64)
def _plan(key: ByIdentity, lineage: bool, positions: bool) -> WriterPlan:
    arrow = arrow_schema(key.schema, lineage=lineage)
    stored = arrow.append(stored_position_field()) if positions else arrow
    floating = (leaf for leaf in leaves(arrow) if pt.is_floating(leaf.type))
    return WriterPlan(
        key.schema,
        arrow,
        stored,
        schema_to_json(plain_schema(key.schema)),
        leaves(stored),
        tuple(leaf.field_id for leaf in floating if leaf.field_id is not None),
    )
