"""Verifies files of engines after the commit, by comparing them with the engine's manifest.

Wrong files are quarantined: a table property names the segment and the reason, and reads raise an error.
"""

# Decisions: docs/decisions/0492

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from moulin.catalog.commit.table_commit import TableCommit
from moulin.errors import MoulinError
from moulin.formats.segment.footer import footer_facts, read_footer
from moulin.formats.segment.reader import SegmentReader
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFacts, LiveSegment, SegmentFacts
from moulin.model.layout.bounds import bound_from_bytes
from moulin.model.layout.partition import format_partition
from moulin.model.layout.partition_rows import split_by_partition
from moulin.model.operations import SetProperties
from moulin.model.rows.leaf_arrays import count_nans, leaf_arrays, value_range
from moulin.model.schema.values import PrimitiveType, Schema
from moulin.model.tags import QUARANTINE_PREFIX, VERIFIED, WRITER_PREFIX, quarantined
from moulin.table.commit.adopted_bytes import AdoptedBytes
from moulin.table.commit.segment_rows import open_rows
from moulin.table.context import Context
from moulin.table.read.quarantine import is_unread


@dataclass(frozen=True, slots=True)
class Verification:
    """The result: the number of files read, and the problems by path."""

    files: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


def verify(context: Context, state: TableState) -> Verification:
    """Read the live files of a table that are not verified yet; quarantine wrong ones, in one commit.

    Live files already in quarantine are reported again. When
    one proves wrong, the table knows no writer any more: their next files are read.
    """
    waiting = list(_unread(context, state)) if VERIFIED in state.properties else []
    wrong = quarantined(state.properties)
    known = context.catalog.segments_by_number(state.id, wrong, state.version) if wrong else {}
    problems = {segment.facts.path: wrong[number] for number, segment in known.items()}
    if not waiting:
        return Verification(0, problems)
    found: dict[int, str] = {}
    for segment in waiting:
        reason = _problem(context, state, segment)
        if reason is not None:
            found[segment.facts.number] = problems[segment.facts.path] = reason
    updates = {f"{QUARANTINE_PREFIX}{number}": reason for number, reason in found.items()}
    distrusted = [key for key in state.properties if key.startswith(WRITER_PREFIX)] if found else []
    operation = SetProperties({**updates, VERIFIED: str(state.head_version)}, tuple(distrusted))
    context.catalog.commit([TableCommit(state.id, state.version, operation, {"verified-files": str(len(waiting))})])
    return Verification(len(waiting), problems)


def _unread(context: Context, state: TableState) -> Iterator[LiveSegment]:
    unread = is_unread(context.catalog, state)
    for segment in context.catalog.segments(state.id, state.version, with_columns=False):
        if unread(segment):
            numbers = [segment.facts.number]
            yield from context.catalog.segments_by_number(state.id, numbers, state.version).values()


def _problem(context: Context, state: TableState, segment: LiveSegment) -> str | None:
    """How a file differs from its manifest; None if it does not."""
    facts, schema = segment.facts, state.schemas[segment.facts.schema_id]
    try:
        with SegmentReader(open_rows(context.store, facts), schema, name=facts.path, facts=facts) as reader:
            rows = reader.table()
        return _differs(context, state, facts, schema, rows)
    except (MoulinError, pa.ArrowException, OSError) as error:
        return " ".join(str(getattr(error, "message", error)).split())[:500]


def _differs(context: Context, state: TableState, facts: SegmentFacts, schema: Schema, rows: pa.Table) -> str | None:
    if rows.num_rows != facts.rows:
        return f"it has {rows.num_rows} rows, not {facts.rows}"
    for column in schema.fields:
        if column.required and rows[column.name].null_count:
            return f"its required column {column.name} has nulls"
    spec = state.specs[facts.spec_id]
    for values, _ in split_by_partition(rows, spec, schema):
        if values != facts.partition:
            found, said = (format_partition(spec, schema, one) for one in (values, facts.partition))
            return f"it has rows of partition {found}, not only of {said}"
    footer = {one.field_id: one for one in _own_facts(context, facts, schema)}
    stated = {one.field_id: one for one in facts.columns}
    for number, one in stated.items():
        own = footer.get(number)
        if own is not None and (one.nulls, one.values) != (own.nulls, own.values):
            return _not_so("the number of values or nulls", number, schema)
    for column, values in zip(rows.schema, rows.columns, strict=True):
        for number, leaf in leaf_arrays(column, values):
            if number in stated and (what := _narrower(stated[number], leaf, schema)) is not None:
                return _not_so(what, number, schema)
    return None


def _not_so(what: str, number: int, schema: Schema) -> str:
    return f"{what} of its column {schema.find_column_name(number)} is not what its manifest said"


def _own_facts(context: Context, facts: SegmentFacts, schema: Schema) -> tuple[ColumnFacts, ...]:
    if facts.adopted is None:
        with context.store.reader(facts.path) as source:
            return tuple(footer_facts(read_footer(source, facts.path), schema))
    source = pa.PythonFile(AdoptedBytes(context.store, facts), mode="r")
    with source:
        return tuple(footer_facts(read_footer(source, facts.path), schema))


def _narrower(said: ColumnFacts, values: pa.ChunkedArray, schema: Schema) -> str | None:
    """Which statistic of a column would make readers skip existing rows."""
    kind = schema.find_type(said.field_id)
    assert isinstance(kind, PrimitiveType)
    if said.nans is not None and said.nans != count_nans(values):
        return "the number of NaNs"
    least, most = value_range(values)
    if said.lower is not None and least is not None and bound_from_bytes(kind, said.lower) > least:
        return "the lower bound"
    if said.upper is not None and most is not None and bound_from_bytes(kind, said.upper) < most:
        return "the upper bound"
    return None


__all__ = ["Verification", "verify"]
