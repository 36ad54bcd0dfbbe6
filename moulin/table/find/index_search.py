"""Secondary indexes in scans: finds the segments and positions that may match a condition.

The result is checked again on the rows themselves, so it may contain too many rows but never too few. A segment that no
file covers is read without the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from moulin.catalog.backend import CatalogBackend
from moulin.catalog.commit.indexes import Coverage
from moulin.formats.key_index import hash_keys
from moulin.formats.secondary_index import IndexFile, IndexKind, Span, filter_holds
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.key.index_value import LONGEST, encode_literal, encoding_of, width_of
from moulin.model.key.key import successor
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import And, Column, Compare, Condition, Contains, In, IsNan, Like, Or, leaves
from moulin.storage.table_store import Lost
from moulin.table.find.index_files import KINDS, SecondaryIndexes

Found = dict[int, Integers]
"""Positions that may match, ascending, by segment. Of segments that are not there nothing is known."""

_Searched = Compare | In | IsNan | Like | Contains
_NONE: Integers = np.empty(0, np.int64)
_FEW = 1 << 16  # reading this many entries always pays off
_FEW_CHUNKS = 16  # reading this many bitmap chunks always pays off
_FEW_ENTRIES = 4096  # bitmaps of one chunk that are united
_SHARE = 8  # more are, up to this part of a file: beyond it, reading the rows is as fast


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The segments to read, positions to look at in some of them, and how many segments indexes spared."""

    segments: list[LiveSegment]
    positions: Mapping[int, Integers] = field(default_factory=dict)
    skipped: int = 0


def narrow(
    catalog: CatalogBackend,
    indexes: SecondaryIndexes,
    state: TableState,
    predicate: Predicate,
    segments: Sequence[LiveSegment],
) -> Narrowed:
    """The `segments` that remain after using the table's indexes."""
    fields = {leaf.column.field_id for leaf in leaves(predicate.condition) if isinstance(leaf, _Searched)}
    numbers = [segment.facts.number for segment in segments]
    coverage = catalog.index_coverage(state.id, numbers, fields) if fields and numbers else []
    if not coverage:
        return Narrowed(list(segments))
    found = _Search(indexes, coverage).run(predicate.condition, set(numbers))
    kept = [segment for segment in segments if len(found.get(segment.facts.number, (0,)))]
    rows_of = {segment.facts.number: segment.facts.rows for segment in kept}
    positions = {n: rows for n, rows in found.items() if n in rows_of and _worthwhile(len(rows), rows_of[n])}
    return Narrowed(kept, positions, len(segments) - len(kept))


def _worthwhile(found: int, rows: int) -> bool:
    """Whether to read only these positions: for many, reading all rows is as fast."""
    return found <= max(_FEW, rows // _SHARE)


class _Search:
    def __init__(self, indexes: SecondaryIndexes, coverage: Iterable[Coverage]) -> None:
        self._indexes = indexes
        self._by_field: dict[int, list[Coverage]] = {}
        known = [covering for covering in coverage if covering.index.kind in KINDS]
        for covering in sorted(known, key=lambda c: c.index.kind == "bloom"):  # what is sorted tells more
            self._by_field.setdefault(covering.index.field_id, []).append(covering)

    def run(self, condition: Condition, segments: set[int]) -> Found:
        """Where in `segments` the condition may hold."""
        match condition:
            case And(children):
                return self._all(children, segments)
            case Or(children):
                return self._any(children, segments)
        spans = _spans(condition)
        if spans is None or not isinstance(condition, _Searched):
            return {}
        found: Found = {}
        for covering in self._by_field.get(condition.column.field_id, ()):
            wanted = [number for number in covering.segments if number in segments and number not in found]
            if wanted:
                column = condition.element if isinstance(condition, Contains) else condition.column
                found |= self._look(covering, column, spans, wanted)
        return found

    def _all(self, children: Sequence[Condition], segments: set[int]) -> Found:
        found: Found = {}
        left = segments
        for child in children:
            for number, rows in self.run(child, left).items():
                known = found.get(number)
                found[number] = rows if known is None else np.intersect1d(known, rows, assume_unique=True)
            left = {number for number in left if number not in found or len(found[number])}
        return found

    def _any(self, children: Sequence[Condition], segments: set[int]) -> Found:
        found: Found | None = None
        for child in children:
            more = self.run(child, segments if found is None else set(found))
            if found is None:
                found = more
            else:
                found = {number: np.union1d(rows, more[number]) for number, rows in found.items() if number in more}
            if not found:
                break
        return found or {}

    def _look(self, covering: Coverage, column: Column, spans: Sequence[Span], wanted: Sequence[int]) -> Found:
        points = all(low is not None and low == high for low, high in spans)
        if KINDS[covering.index.kind] is IndexKind.BLOOM and not points:
            return {}
        try:
            file = self._indexes.file(covering.path, covering.size)
            if file.encoding != encoding_of(column.type):
                return {}  # it was created when the column had another type
            if file.kind is IndexKind.BLOOM:
                return self._look_bloom(covering, file, column, spans, wanted)
            spans = spans if file.width else [_cut(span) for span in spans]
            if file.kind is IndexKind.BTREE:
                return self._look_sorted(covering, file, spans, wanted)
            return self._look_bitmaps(covering, file, spans, wanted)
        except Lost:
            return {}  # cleaned up since the look-up, or lost: the rows give the same result

    def _look_sorted(self, covering: Coverage, file: IndexFile, spans: Sequence[Span], wanted: Sequence[int]) -> Found:
        chunks = file.chunks_of(spans)
        entries = sum(map(file.entries_of, chunks))
        if entries > max(_FEW, file.entries // _SHARE):
            return {}
        indexes, positions = [_NONE], [_NONE]
        for number, asked_for in chunks.items():
            chunk = self._indexes.chunk(covering.path, file, number)
            for rows in map(chunk.rows, asked_for):
                indexes.append(chunk.indexes[rows])
                positions.append(chunk.positions[rows])
        owners, rows_of = np.concatenate(indexes), np.concatenate(positions)
        order = np.lexsort((rows_of, owners))
        owners, rows_of = owners[order], rows_of[order]
        asked = np.asarray([file.index_of[number] for number in wanted])
        edges = np.searchsorted(owners, np.stack([asked, asked + 1])).tolist()
        return {n: distinct(rows_of[start:stop]) for n, start, stop in zip(wanted, *edges, strict=True)}

    def _look_bitmaps(self, covering: Coverage, file: IndexFile, spans: Sequence[Span], wanted: Sequence[int]) -> Found:
        chunks = file.chunks_of(spans)
        if len(chunks) > max(_FEW_CHUNKS, file.chunks // _SHARE):
            return {}
        asked = np.asarray(sorted(file.index_of[number] for number in wanted))
        found: dict[int, list[Integers]] = {}
        for number, asked_for in chunks.items():
            chunk = self._indexes.bitmaps(covering.path, file, number)
            for rows in map(chunk.rows, asked_for):
                mine = rows.start + np.flatnonzero(np.isin(chunk.indexes[rows], asked))
                if len(mine) > _FEW_ENTRIES:
                    return {}
                for entry in mine.tolist():
                    found.setdefault(int(chunk.indexes[entry]), []).append(chunk.positions(entry))
        return {n: distinct(np.concatenate([_NONE, *found.get(file.index_of[n], ())])) for n in wanted}

    def _look_bloom(
        self, covering: Coverage, file: IndexFile, column: Column, spans: Sequence[Span], wanted: Sequence[int]
    ) -> Found:
        width = width_of(column.type)
        values = pa.array([low for low, _ in spans], pa.binary(width) if width else pa.binary())
        hashes = hash_keys(values)
        return {
            number: _NONE
            for number in wanted
            if not filter_holds(self._indexes.filter(covering.path, file, number), hashes).any()
        }


def _spans(leaf: Condition) -> list[Span] | None:
    """The values for which a leaf holds, or a superset; None if it does not depend on values."""
    match leaf:
        case Compare(column, operator, key) if operator != "!=" and _top(column):
            value = encode_literal(column.type, key)
            if value is None:
                return None
            return [(value if operator in ("=", ">", ">=") else None, value if operator in ("=", "<", "<=") else None)]
        case In(column, keys, negated=False) if _top(column):
            values = [encode_literal(column.type, key) for key in keys]
            return None if None in values else [(value, value) for value in values]
        case IsNan(column, negated=False) if _top(column):
            value = encode_literal(column.type, float("nan"))
            return [(value, value)]
        case Contains(column, comparand, negated=False, unknown=False) if comparand is not None and _simple(
            leaf.element
        ):
            value = encode_literal(leaf.element.type, comparand)
            return None if value is None or len(column.path) > 1 else [(value, value)]
        case Like(column, prefix=prefix, ignore_case=False, negated=False) if prefix and _top(column):
            return [(prefix.encode(), successor(prefix.encode()))]
    return None


def _top(column: Column) -> bool:
    return len(column.path) == 1 and _simple(column)


def _simple(column: Column) -> bool:
    return encoding_of(column.type) is not None


def _cut(span: Span) -> Span:
    low, high = span
    return (None if low is None else low[:LONGEST], None if high is None else high[:LONGEST])
