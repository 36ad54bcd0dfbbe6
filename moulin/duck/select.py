"""A table at one version as the text of a SELECT: Parquet scans over its live segments, deleted rows left out.

Segments whose columns are read in the same way are one scan, those with deletion vectors apart from the others. The
deleted rows of a scan are numbers in a file beside it; DuckDB leaves them out with one hash look-up per row, which
it does only where a segment has deleted rows.
"""

# Decisions: docs/decisions/0262

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from moulin.duck.columns import Declaration, declare, quoted, quoted_text, shown_type
from moulin.formats import deletion_vector
from moulin.model.columns.arrays import Integers
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.schema.values import Schema
from moulin.table.context import Context

_FEW = 8  # files that are listed one by one
_SEPARATOR = "|"  # in no name of a segment
_FILE_BITS = 40  # a row of a scan is numbered by the index of its file, and by its position in the low bits

Locate = Callable[[SegmentFacts], str]
"""The address under which DuckDB reads a segment."""
Constants = tuple[tuple[int, bytes | None], ...]
"""Columns that have one value in all rows of an adopted file."""
KeepRows = Callable[[Sequence[LiveSegment]], Sequence[str]]
"""Writes the deleted rows of segments to files with a column `row`, and returns their names.

One file has the numbers of all of them; of several, each has the positions in one segment."""


def no_rows(schema: Schema) -> str:
    """The columns of a table, without a row."""
    return f"SELECT {_nulls(schema)} WHERE false"


def not_to_run(schema: Schema, reason: str) -> str:
    """The columns of a table, for a plan that is not run; to run it is an error with this reason."""
    return f"SELECT {_nulls(schema)} WHERE CASE WHEN random() >= 0 THEN error({quoted_text(reason)}) END"


def _nulls(schema: Schema) -> str:
    columns = (f"CAST(NULL AS {shown_type(field.field_type)}) AS {quoted(field.name)}" for field in schema.fields)
    return ", ".join(columns)


def select_text(state: TableState, segments: Sequence[LiveSegment], locate: Locate, keep: KeepRows) -> str:
    """The rows of these segments of the version that `state` describes."""
    declared: dict[tuple[int, Constants], tuple[Declaration, ...]] = {}
    groups: dict[tuple[tuple[Declaration, ...], bool], list[LiveSegment]] = {}
    for segment in segments:
        adopted = segment.facts.adopted
        stored = segment.facts.schema_id, () if adopted is None else adopted.constants
        if stored not in declared:
            declared[stored] = declare(state.schema, state.schemas[stored[0]], dict(stored[1]))
        key = declared[stored], segment.vector is not None
        groups.setdefault(key, []).append(segment)
    scans = [
        _scan(columns, members, locate) + (_without(keep(members)) if worn else "")
        for (columns, worn), members in groups.items()
    ]
    return " UNION ALL ".join(scans) or no_rows(state.schema)


def deleted_rows(context: Context, segments: Sequence[LiveSegment]) -> Integers:
    """The numbers of the deleted rows in a scan of these segments; of one segment, they are positions."""
    found = []
    for index, segment in enumerate(segments):
        assert segment.vector is not None
        vector = context.vectors.get(context.store, segment.vector, segment.facts.rows)
        found.append(deletion_vector.to_array(vector) + (index << _FILE_BITS))
    return np.concatenate(found)


def _scan(columns: Sequence[Declaration], segments: Sequence[LiveSegment], locate: Locate) -> str:
    rows = sum(segment.live_rows for segment in segments)
    options = f"hive_partitioning = false, explicit_cardinality = {rows}"
    schema = ", ".join(column.entry for column in columns)
    return (
        f"SELECT {', '.join(column.selected for column in columns)} "
        f"FROM read_parquet({_files([locate(segment.facts) for segment in segments])}, "
        f"schema = MAP {{{schema}}}, {options})"
    )


def _files(names: Sequence[str]) -> str:
    """A list of files. One text takes DuckDB a tenth of the time that a list of texts does."""
    start = os.path.commonprefix(names)  # noqa: RUF071 # a text in common, not a folder
    ends = [name[len(start) :] for name in names]
    if len(names) < _FEW or any(_SEPARATOR in end for end in ends):
        return f"[{', '.join(quoted_text(name) for name in names)}]"
    return f"[{quoted_text(start)} || x FOR x IN string_split({quoted_text(_SEPARATOR.join(ends))}, '{_SEPARATOR}')]"


def _without(files: Sequence[str]) -> str:
    number = f"(CAST(file_index AS BIGINT) << {_FILE_BITS}) + "
    deleted = "row" if len(files) == 1 else f"{number}row"
    return f" WHERE {number}file_row_number NOT IN (SELECT {deleted} FROM read_parquet({_files(files)}))"
