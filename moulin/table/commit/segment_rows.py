"""The rows of a segment as one Parquet file, even if they are in several files."""

# Decisions: docs/decisions/0420

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pyarrow as pa

from moulin.formats.segment.stitched import Part, open_stitched, stored_name
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.model.schema.values import NestedField, Schema
from moulin.storage.segment_source import open_segment
from moulin.storage.store import Store
from moulin.table.commit.adopted_bytes import AdoptedBytes


def with_files_of(facts: SegmentFacts, schema: Schema, names: Iterable[str]) -> SegmentFacts:
    """The facts of a segment with only the column files that have one of the columns `names`."""
    if not facts.files:
        return facts
    wanted = set(names)
    ids = {field.field_id for field in schema.fields if field.name in wanted}
    return replace(facts, files=tuple(file for file in facts.files if not ids.isdisjoint(file.fields)))


def open_rows(
    store: Store, facts: SegmentFacts, *, page_indexes: bool = True, end_size: int | None = None
) -> pa.NativeFile:
    """The rows of a segment, to be read: all columns that the version of these facts sees.

    Other Parquet readers should get them without the `page_indexes` of column files. `end_size` is that of
    the footer, where it is known.
    """
    if not facts.files:
        return open_segment(store, facts)
    parts = [_base(store, facts)]
    parts += [Part(file.path, file.size, partial(store.reader, file.path, file.size)) for file in facts.files]
    return open_stitched(parts, page_indexes=page_indexes, end_size=end_size)


def _base(store: Store, facts: SegmentFacts) -> Part:
    if facts.adopted is None:
        return Part(facts.path, facts.size, partial(open_segment, store, facts))
    file = AdoptedBytes(store, facts)
    return Part(facts.path, file.size, lambda: pa.PythonFile(file, mode="r"))


def written_schema(state: TableState, facts: SegmentFacts) -> Schema:
    """The columns that the files of a segment have, as far as the table shows them, by the names in the files."""
    schema = state.schemas[facts.schema_id]
    if not facts.files:
        return schema
    shown = {field.field_id for field in state.schema.fields}
    added = [number for file in facts.files for number in file.fields if number in shown]
    fields = (_first_of(state, number) for number in added)
    more = [NestedField(f.field_id, stored_name(f.field_id), f.field_type, required=False) for f in fields]
    return Schema(*schema.fields, *more, schema_id=schema.schema_id)


def _first_of(state: TableState, number: int) -> NestedField:
    """A column as the first schema that has it says: in that type it was stored."""
    numbered = (state.schemas[schema_id] for schema_id in sorted(state.schemas))
    return next(schema for schema in numbered if number in schema.field_ids).find_field(number)


__all__ = ["open_rows", "with_files_of", "written_schema"]
