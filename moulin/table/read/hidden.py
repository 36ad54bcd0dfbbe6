"""Hidden columns: position and identity of a row. A scan returns them if it names them, and a where may use them."""

# Decisions: docs/decisions/0260, docs/decisions/0314

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from uuid import UUID

import numpy as np
import pyarrow as pa

from moulin.catalog.backend import CatalogBackend
from moulin.model.columns import compute as pc
from moulin.model.facts import ColumnFacts, LiveSegment
from moulin.model.layout.bounds import bound_to_bytes
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import (
    CREATED_VERSION,
    LAST_UPDATED_SEQUENCE,
    LAST_UPDATED_VERSION,
    POSITION,
    ROW_ID,
    ROW_ID_FIELD_ID,
)
from moulin.model.schema.values import LongType, NestedField, Schema
from moulin.model.where import Where, parse_where
from moulin.sized_cache import SizedCache

SEGMENT = "_segment"
SHOWN_POSITION = "_position"

# Ids only for conditions: above all possible column ids, and never stored.
_IDS: Mapping[str, int] = MappingProxyType(
    {
        ROW_ID: ROW_ID_FIELD_ID,
        LAST_UPDATED_VERSION: 2147483547,
        SEGMENT: 2147483546,
        SHOWN_POSITION: 2147483545,
        CREATED_VERSION: 2147483544,
    }
)
_LONG = LongType()
_PARSED_BYTES = 4 << 20
# With its schema, to keep it alive: schemas are compared by identity, and states of a table share one.
_PARSED: SizedCache[tuple[int, str], tuple[Schema, Predicate, tuple[str, ...]]] = SizedCache(
    _PARSED_BYTES, lambda held: 4096 + 16 * len(held[1].text)
)
# columns from the segment reader that hidden columns are computed from
_RAW = (ROW_ID, LAST_UPDATED_SEQUENCE, POSITION)


def hidden_names(schema: Schema, names: Iterable[str] | None = None) -> tuple[str, ...]:
    """The hidden columns, all or those among `names`; a column of the table with the same name takes precedence."""
    own = {field.name for field in schema.fields}
    return tuple(name for name in _IDS if name not in own and (names is None or name in names))


def parse_hidden(where: Where, schema: Schema) -> tuple[Predicate, tuple[str, ...]]:
    """The predicate of a where that may use hidden columns, and the ones that it uses. A text is parsed once."""
    if not isinstance(where, str):
        return _parse(where, schema)
    _, predicate, names = _PARSED.get((id(schema), where), lambda: (schema, *_parse(where, schema)))
    return predicate, names


def _parse(where: Where, schema: Schema) -> tuple[Predicate, tuple[str, ...]]:
    if isinstance(where, Predicate):
        return where, ()
    text = "" if where is None else str(where)
    mentioned = [name for name in hidden_names(schema) if name in text.lower()]
    if not mentioned:
        return parse_where(where, schema), ()
    extra = (NestedField(_IDS[name], name, _LONG, False) for name in mentioned)
    wider = Schema(
        *schema.fields,
        *extra,
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
        metadata=schema.metadata,
    )
    predicate = parse_where(where, wider)
    return predicate, tuple(name for name in mentioned if name in predicate.columns)


def hidden_facts(segment: LiveSegment, names: Sequence[str]) -> dict[int, ColumnFacts]:
    """Statistics of hidden columns of a segment without opening it, by their ids in conditions."""
    rows, first = segment.facts.rows, segment.first_row_id
    known = {SEGMENT: (segment.facts.number, segment.facts.number), SHOWN_POSITION: (0, rows - 1)}
    if not segment.facts.has_lineage:
        known[ROW_ID] = (first, first + rows - 1)
    return {
        _IDS[name]: ColumnFacts(_IDS[name], rows, 0, lower=_bound(known[name][0]), upper=_bound(known[name][1]))
        for name in names
        if name in known
    }


def _bound(value: int) -> bytes:
    return bound_to_bytes(_LONG, value)


@dataclass(frozen=True, slots=True)
class HiddenColumns:
    """The hidden columns that a read computes: `shown` for the result, `tested` for the where.

    `versions` maps sequence numbers to versions, for `_last_updated_version`; `births` are the steps from row ids to
    versions, for `_created_version`.
    """

    shown: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()
    versions: tuple[Sequence[int], Sequence[int]] = ((), ())
    births: tuple[Sequence[int], Sequence[int]] = ((), ())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.shown, *self.tested)))

    @property
    def fields(self) -> list[pa.Field]:
        return [pa.field(name, pa.int64()) for name in self.names]

    def needs(self, name: str) -> bool:
        return name in self.shown or name in self.tested

    @property
    def needs_row_id(self) -> bool:
        return self.needs(ROW_ID) or self.needs(CREATED_VERSION)

    def looked_up(self, catalog: CatalogBackend, table_id: UUID) -> HiddenColumns:
        """With the needed version mappings of the catalog."""
        found = self
        if self.needs(LAST_UPDATED_VERSION):
            found = replace(found, versions=catalog.sequence_versions(table_id))
        if self.needs(CREATED_VERSION):
            found = replace(found, births=catalog.birth_versions(table_id))
        return found

    def complete(self, table: pa.Table, segment: int) -> pa.Table:
        """Rows of a segment, with the source columns replaced by the hidden columns."""
        if not self.names:
            return table
        made = {
            ROW_ID: lambda: table.column(ROW_ID),
            LAST_UPDATED_VERSION: lambda: map_sequences(table.column(LAST_UPDATED_SEQUENCE), self.versions),
            SEGMENT: lambda: pa.repeat(pa.scalar(segment, pa.int64()), table.num_rows),
            SHOWN_POSITION: lambda: table.column(POSITION),
            CREATED_VERSION: lambda: map_births(table.column(ROW_ID), self.births),
        }
        kept = [field for field in table.schema if field.name not in _RAW]
        columns = [*(table.column(field.name) for field in kept), *(made[name]() for name in self.names)]
        return pa.Table.from_arrays(columns, schema=pa.schema([*kept, *self.fields]))

    def absent(self, table: pa.Table) -> pa.Table:
        """Rows that are not in a segment yet, with null hidden columns."""
        for field in self.fields:
            table = table.append_column(field, pa.nulls(table.num_rows, pa.int64()))
        return table


def map_sequences(sequences: pa.ChunkedArray, versions: tuple[Sequence[int], Sequence[int]]) -> pa.Array:
    """The versions that committed these sequence numbers."""
    known, mapped = (np.asarray(side, dtype=np.int64) for side in versions)
    return pa.array(mapped[np.searchsorted(known, pc.fill_null(sequences, 0).to_numpy())])


def map_births(row_ids: pa.ChunkedArray, births: tuple[Sequence[int], Sequence[int]]) -> pa.Array:
    """The versions that created rows with these ids; null if unknown."""
    firsts, versions = (np.asarray([0, *side], dtype=np.int64) for side in births)
    found = versions[np.searchsorted(firsts, row_ids.to_numpy(), side="right") - 1]
    return pa.array(found, mask=found == 0)


__all__ = [
    "SEGMENT",
    "SHOWN_POSITION",
    "HiddenColumns",
    "hidden_facts",
    "hidden_names",
    "map_births",
    "map_sequences",
    "parse_hidden",
]
