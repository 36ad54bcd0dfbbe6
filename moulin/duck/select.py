"""Writes the SELECT of a table at one version: Parquet scans over its live segments, without deleted rows.

Segments whose columns are read in the same way share one scan; those with deletion vectors have a separate one. The
deleted rows of a scan are numbers in an extra file; DuckDB removes them with one hash look-up per row, only for
segments with deleted rows.
"""

# Decisions: docs/decisions/0262

from __future__ import annotations

import os
from collections.abc import Callable, Sequence, Set

import numpy as np

from moulin.duck.columns import Declaration, column_name, declare, quoted, quoted_text, shown_type
from moulin.formats import deletion_vector
from moulin.model.columns.arrays import Integers
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.schema.values import Schema
from moulin.table.commit.segment_rows import written_schema
from moulin.table.context import Context

_FEW = 8  # files that are listed one by one
_SEPARATOR = "|"  # in no name of a segment
_FILE_BITS = 40  # a row of a scan is numbered by the index of its file, and by its position in the low bits

_NUMBER = f"(CAST(file_index AS BIGINT) << {_FILE_BITS}) + "

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


def select_text(
    state: TableState, segments: Sequence[LiveSegment], locate: Locate, address: Callable[[str], str], keep: KeepRows
) -> str:
    """The rows of these segments of the version that `state` describes; `address` is where a column file is read."""
    shown = {field.field_id for field in state.schema.fields}
    declared: dict[_Stored, tuple[Declaration, ...]] = {}
    groups: dict[tuple[_Stored, bool], list[LiveSegment]] = {}
    alike: dict[tuple[tuple[Declaration, ...], tuple[Fields, ...]], _Stored] = {}
    for segment in segments:
        adopted = segment.facts.adopted
        constants = () if adopted is None else adopted.constants
        stored = segment.facts.schema_id, _fields_beside(segment.facts, shown), constants
        if stored not in declared:
            declared[stored] = declare(state.schema, written_schema(state, segment.facts), dict(constants))
        key = alike.setdefault((declared[stored], stored[1]), stored), segment.vector is not None
        groups.setdefault(key, []).append(segment)
    scans = []
    for (stored, worn), members in groups.items():
        if stored[1]:
            scans.append(_joined_scan(declared[stored], stored[1], members, locate, address, keep, worn=worn))
        else:
            scans.append(_scan(declared[stored], members, locate) + (_without(keep(members)) if worn else ""))
    return " UNION ALL ".join(scans) or no_rows(state.schema)


Fields = tuple[int, ...]
_Stored = tuple[int, tuple[Fields, ...], Constants]
"""The schema of a segment's own file, the columns that each of its column files has, if any is shown, and those of an
adopted file that have one value in all rows."""


def _fields_beside(facts: SegmentFacts, shown: Set[int]) -> tuple[Fields, ...]:
    return tuple(file.fields for file in facts.files if not shown.isdisjoint(file.fields))


def _joined_scan(
    columns: Sequence[Declaration],
    beside: tuple[Fields, ...],
    segments: Sequence[LiveSegment],
    locate: Locate,
    address: Callable[[str], str],
    keep: KeepRows,
    *,
    worn: bool,
) -> str:
    """Segments with column files: a scan of their own files, joined with one for each column file, by position."""
    apart = {number for fields in beside for number in fields}
    own = [column for column in columns if column.field_id not in apart]
    text = f"SELECT {', '.join(column.selected for column in columns)} FROM "
    text += _positioned("f0", own, [locate(segment.facts) for segment in segments])
    for at, fields in enumerate(beside, 1):
        files = [next(f.path for f in segment.facts.files if f.fields == fields) for segment in segments]
        some = [column for column in columns if column.field_id in fields]
        text += f" JOIN {_positioned(f'f{at}', some, [address(path) for path in files])}"
        text += f" ON f0.file_number = f{at}.file_number AND f0.position = f{at}.position"
    if not worn:
        return text
    files_of = keep(segments)
    number = f"(CAST(f0.file_number AS BIGINT) << {_FILE_BITS}) + "
    deleted = "row" if len(files_of) == 1 else f"{_NUMBER}row"
    return f"{text} WHERE {number}f0.position NOT IN (SELECT {deleted} FROM read_parquet({_files(files_of)}))"


def _positioned(name: str, columns: Sequence[Declaration], files: Sequence[str]) -> str:
    """A scan with the number of its file and its position in it for each row."""
    schema = ", ".join(column.entry for column in columns)
    shown = ", ".join([*(column_name(column.field_id) for column in columns), "file_index AS file_number"])
    return (
        f"(SELECT {shown}, file_row_number AS position FROM read_parquet({_files(files)}, "
        f"schema = MAP {{{schema}}}, hive_partitioning = false)) AS {name}"
    )


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
    deleted = "row" if len(files) == 1 else f"{_NUMBER}row"
    return f" WHERE {_NUMBER}file_row_number NOT IN (SELECT {deleted} FROM read_parquet({_files(files)}))"
