"""Merges on any condition without Spark: the rows of a source in memory against the segments of a table.

Slices process the segments that remain after pruning, one batch of rows at a time. Each finds the pairs of rows for
which the condition holds, creates edits with the first matching clause, and reports which source rows had a match. The
inserts follow from all reports.
"""

# Decisions: docs/decisions/0270

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.assignments import computed
from moulin.model.columns.arrays import Integers
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.pairs import TARGET, paired, true_for
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Column, conjunction
from moulin.model.schema.arrow import POSITION as ROW_POSITION
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.model.schema.values import Schema
from moulin.model.where.join import of_column, of_side
from moulin.storage.store import Store
from moulin.table.commit.vectors import read_vector
from moulin.table.context import Context
from moulin.table.edit.bounds import within
from moulin.table.edit.edits import Action, Edits, EditSlices, edit_batch
from moulin.table.edit.matching import SourceKeys, as_key, common_type
from moulin.table.edit.merge_statement import Match, MergeRule, MergeStatement
from moulin.table.edit.slices import cut, segments_for
from moulin.table.read.footers import open_reader

_PAIRS = 1 << 17  # pairs, and rows to insert, that are looked at together
_SENT_BYTES = 16 << 20  # of a source that is sent to tasks; a larger one is merged in this process


def merge_edits(context: Context, state: TableState, statement: MergeStatement, source: pa.Table) -> Edits:
    """The edits of a merge over the rows of one version. `source` is in the schema that the statement is bound to."""
    needed = source.select(statement.source_columns())
    predicate = _target_predicate(statement, needed)
    slices = [
        MergeSlice(context.store, statement, needed, predicate, part)
        for part in cut(segments_for(context, state, predicate))
    ]

    def rest(schema: Schema, reports: Sequence[npt.NDArray[np.bool_]]) -> Iterator[pa.RecordBatch]:
        matched = np.zeros(source.num_rows, np.bool_)
        for report in reports:
            matched |= report
        return _inserts(schema, statement, source, np.flatnonzero(~matched))

    here = needed.nbytes > _SENT_BYTES
    return Edits(tuple(rule.clause for rule in statement.rules), EditSlices(slices, rest, here))


@dataclass(frozen=True)
class MergeSlice:
    """Segments to merge the rows of a source with. Sent to a task."""

    store: Store
    statement: MergeStatement
    source: pa.Table
    predicate: Predicate
    segments: Mapping[int, LiveSegment]

    def edits(self, schema: Schema) -> Generator[pa.RecordBatch, None, Any]:
        """The edits; returns which rows of the source had a match."""
        matched = np.zeros(self.source.num_rows, np.bool_)
        for segment in self.segments.values():
            for batch in self._batches(segment):
                rows = pa.Table.from_batches([batch])
                part = _Part(schema, segment.facts.number, rows.column(ROW_POSITION), rows.drop_columns([ROW_POSITION]))
                yield from self._of_part(part, matched)
        return matched

    def _batches(self, segment: LiveSegment) -> Iterator[pa.RecordBatch]:
        facts, columns = segment.facts, self.statement.target_columns()
        deleted = None if segment.vector is None else read_vector(self.store, segment.vector, facts.rows)
        with open_reader(self.store, facts, self.statement.schema, columns=columns) as reader:
            yield from reader.batches(
                deleted=deleted,
                predicate=self.predicate,
                position=True,
            )

    def _of_part(self, part: _Part, matched: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        found = np.zeros(part.rows.num_rows, np.bool_)
        for of_source, of_target in self._pairs(part.rows):
            matched[of_source] = True
            found[of_target] = True
            yield from self._edited(part, Match.MATCHED, of_source, of_target)
        alone = np.flatnonzero(~found)
        yield from self._edited(part, Match.NOT_MATCHED_BY_SOURCE, None, alone)

    def _pairs(self, target: pa.Table) -> Iterator[tuple[Integers, Integers]]:
        """Pairs of rows, as indexes into the source and `target`, for which the condition holds."""
        keys, kinds = self._keys
        sides = paired(target.num_rows, target=target)
        columns = [
            as_key(computed(one.right_form, sides, "on"), kind)
            for one, kind in zip(self.statement.join.equal, kinds, strict=True)
        ]
        rest = self.statement.join.rest
        for of_source, of_target in keys.pairs(columns, target.num_rows, _PAIRS):
            held = true_for(rest, _taken(self.source, of_source, target, of_target), len(of_source), "on")
            if held is None:
                yield of_source, of_target
            else:
                mask = held.to_numpy()
                yield of_source[mask], of_target[mask]

    @cached_property
    def _keys(self) -> tuple[SourceKeys, list[pa.DataType]]:
        """The source by the values that must be equal, and the types in which they are compared."""
        equal = self.statement.join.equal
        nothing = paired(0, target=empty_table(arrow_schema(self.statement.schema)))
        source = paired(self.source.num_rows, self.source)
        columns, kinds = [], []
        for one in equal:
            own = computed(one.left_form, source, "on")
            kinds.append(common_type(own.type, computed(one.right_form, nothing, "on").type))
            columns.append(as_key(own, kinds[-1]))
        return SourceKeys(columns, self.source.num_rows), kinds

    def _edited(
        self, part: _Part, match: Match, of_source: Integers | None, of_target: Integers
    ) -> Iterator[pa.RecordBatch]:
        """Edits of pairs, or of rows of the table alone."""

        def pairs(chosen: Integers) -> pa.Table:
            source = None if of_source is None else of_source[chosen]
            return _taken(self.source, source, part.rows, of_target[chosen])

        for number, rule, chosen in _chosen(self.statement.of_match(match), pairs, len(of_target)):
            values = {}
            if rule.action is Action.UPDATE:
                rows = pairs(chosen)
                _check_unchanged(rule, rows)
                values = _values(rule, rows)
            positions = part.positions.take(pa.array(of_target[chosen])).combine_chunks()
            yield edit_batch(part.schema, number, len(chosen), values, (part.segment, positions))


@dataclass(frozen=True, slots=True)
class _Part:
    """Some rows of a segment, and where they are; `schema` is that of edits."""

    schema: Schema
    segment: int
    positions: pa.ChunkedArray
    rows: pa.Table


def _inserts(
    schema: Schema, statement: MergeStatement, source: pa.Table, unmatched: Integers
) -> Iterator[pa.RecordBatch]:
    """Edits that insert rows of the source."""
    rules = statement.of_match(Match.NOT_MATCHED)
    for first in range(0, len(unmatched), _PAIRS) if rules else ():
        rows = source.take(pa.array(unmatched[first : first + _PAIRS]))

        def pairs(chosen: Integers, rows: pa.Table = rows) -> pa.Table:
            return paired(len(chosen), rows.take(pa.array(chosen)))

        for number, rule, chosen in _chosen(rules, pairs, rows.num_rows):
            yield edit_batch(schema, number, len(chosen), _values(rule, pairs(chosen)))


def _chosen(
    rules: Iterable[tuple[int, MergeRule]], pairs: Callable[[Integers], pa.Table], rows: int
) -> Iterator[tuple[int, MergeRule, Integers]]:
    """The clauses, each with the rows that it is the first for. Conditions are not computed for rows decided before."""
    left = np.arange(rows)
    for number, rule in rules:
        if not len(left):
            return
        held = None
        if rule.condition is not None:
            held = true_for(rule.condition, pairs(left), len(left), f"The condition of {rule.what}")
        mask = np.ones(len(left), np.bool_) if held is None else held.to_numpy()
        if mask.any():
            yield number, rule, left[mask]
        left = left[~mask]


def _taken(source: pa.Table, of_source: Integers | None, target: pa.Table, of_target: Integers) -> pa.Table:
    """Pairs of the rows at these indexes."""
    one = None if of_source is None else source.take(pa.array(of_source))
    return paired(len(of_target), one, target.take(pa.array(of_target)))


def _values(rule: MergeRule, rows: pa.Table) -> dict[str, pa.Array]:
    assert rule.values is not None
    return rule.values.over(rows)


def _check_unchanged(rule: MergeRule, rows: pa.Table) -> None:
    held = true_for(rule.unchanged, rows, rows.num_rows, rule.what)
    if held is not None and not np.asarray(held).all():
        raise InvalidInput(
            f"{rule.what} would change the key of a row: match rows by the key, or list the columns to set."
        )


def _target_predicate(statement: MergeStatement, source: pa.Table) -> Predicate:
    """The rows of the table that may have a match; all when those without one are asked for."""
    schema = statement.schema
    if statement.of_match(Match.NOT_MATCHED_BY_SOURCE):
        return Predicate.everything(schema)
    asked = [of_side(statement.join.rest.condition, TARGET, schema)]
    rows = paired(source.num_rows, source)
    for one in statement.join.equal:
        column = of_column(one.right, TARGET, schema) if isinstance(one.right, Column) else None
        if column is not None:
            asked.append(within(column, computed(one.left_form, rows, "on").combine_chunks()))
    return Predicate.of(schema, conjunction(asked), statement.join.rest.text)
