"""A table at one version as the text of a SELECT: Parquet scans over its live segments, deleted rows left out.

Segments whose columns are read in the same way are one scan, those with deletion vectors apart from the others. The
deleted rows of a scan are numbers in a file beside it; DuckDB leaves them out with one hash look-up per row, which
it does only where a segment has deleted rows.
"""

# Decisions: docs/decisions/0262

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from moulin.duck.columns import Declaration, declare, quoted, quoted_text, shown_type
from moulin.formats import deletion_vector
from moulin.model.columns.arrays import Integers
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.schema.values import Schema
from moulin.table.context import Context

_FILE_BITS = 40  # a row of a scan is numbered by the index of its file, and by its position in the low bits

Locate = Callable[[str], str]
"""The address under which DuckDB reads an object of the lake."""
KeepRows = Callable[[Integers], str]
"""Writes the numbers of deleted rows to a file with a column `row`, and returns its name."""


def no_rows(schema: Schema) -> str:
    """The columns of a table, without a row."""
    columns = (f"CAST(NULL AS {shown_type(field.field_type)}) AS {quoted(field.name)}" for field in schema.fields)
    return f"SELECT {', '.join(columns)} WHERE false"


def select_text(
    context: Context, state: TableState, segments: Sequence[LiveSegment], locate: Locate, keep: KeepRows
) -> str:
    """The rows of these segments of the version that `state` describes."""
    declared = {
        number: declare(state.schema, state.schemas[number]) for number in {s.facts.schema_id for s in segments}
    }
    groups: dict[tuple[tuple[Declaration, ...], bool], list[LiveSegment]] = {}
    for segment in segments:
        key = declared[segment.facts.schema_id], segment.vector is not None
        groups.setdefault(key, []).append(segment)
    scans = [
        _scan(columns, members, locate) + (_without(keep(_deleted(context, members))) if worn else "")
        for (columns, worn), members in groups.items()
    ]
    return " UNION ALL ".join(scans) or no_rows(state.schema)


def _scan(columns: Sequence[Declaration], segments: Sequence[LiveSegment], locate: Locate) -> str:
    files = ", ".join(quoted_text(locate(segment.facts.path)) for segment in segments)
    rows = sum(segment.live_rows for segment in segments)
    options = f"hive_partitioning = false, explicit_cardinality = {rows}"
    schema = ", ".join(column.entry for column in columns)
    return (
        f"SELECT {', '.join(column.selected for column in columns)} "
        f"FROM read_parquet([{files}], schema = MAP {{{schema}}}, {options})"
    )


def _without(file: str) -> str:
    number = f"(CAST(file_index AS BIGINT) << {_FILE_BITS}) + file_row_number"
    return f" WHERE {number} NOT IN (SELECT row FROM read_parquet({quoted_text(file)}))"


def _deleted(context: Context, segments: Sequence[LiveSegment]) -> Integers:
    """The numbers of the deleted rows in a scan of these segments."""
    found = []
    for index, segment in enumerate(segments):
        assert segment.vector is not None
        vector = context.vectors.get(context.store, segment.vector, segment.facts.rows)
        found.append(deletion_vector.to_array(vector) + (index << _FILE_BITS))
    return np.concatenate(found)
