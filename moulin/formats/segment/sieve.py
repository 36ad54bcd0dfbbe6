"""Finds the rows of a segment that match a predicate: evaluates its terms in turn, each over the remaining rows.

Terms over columns that are cheap to decode go first. A term over one dictionary-encoded column is evaluated for each
value of the dictionary, not for each row.
"""

# Decisions: docs/decisions/0310

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyroaring import BitMap64

from moulin.formats.segment.decoder import plain
from moulin.formats.segment.options import Range, kept_mask, positions_of, stretches_of
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.predicate.evaluation import evaluate
from moulin.model.predicate.terms import Term

_MANY = 16  # rows for each one that a search over all bytes may find
_NONE: Integers = np.empty(0, np.int64)


class Source(Protocol):
    """Columns of a file, in the types of the schema it is read with."""

    def in_ranges(self, ranges: Sequence[Range], names: Sequence[str]) -> pa.Table:
        """All rows of the ranges."""

    def at_positions(self, positions: Integers, names: Sequence[str]) -> pa.Table:
        """The rows at these positions, which ascend."""

    def coded(self, ranges: Sequence[Range], name: str) -> pa.ChunkedArray | None:
        """A column as dictionaries and indexes; None if it is not stored so, or has to be converted."""

    def containing(self, ranges: Sequence[Range], name: str, text: bytes) -> Integers | None:
        """Positions, ascending, among which are those of all rows whose column `name` has these bytes in it; None if
        they are many, or not known without decoding the column."""


@dataclass(frozen=True, slots=True)
class Sifted:
    """The positions of rows that match, ascending, and what was read of them."""

    positions: Integers
    columns: Mapping[str, pa.ChunkedArray]


def sift(
    source: Source,
    terms: Sequence[Term],
    ranges: Sequence[Range],
    *,
    positions: Integers | None,
    deleted: BitMap64 | None,
    most: int | None = None,
) -> Sifted:
    """The rows in `ranges`, or of those only the ones at `positions`, that are not deleted and match every term; the
    first `most` of them."""
    held: dict[str, pa.ChunkedArray] = {}
    for term in terms:
        if positions is None and term.within:
            positions = source.containing(ranges, term.columns[0], term.within)
        if positions is None:
            positions, held = _first(source, term, ranges, deleted)
            deleted = None
        elif len(positions):
            missing = [name for name in term.columns if name not in held]
            if missing:
                table = source.at_positions(positions, missing)
                held.update(zip(table.column_names, table.columns, strict=True))
            found = evaluate(term.expression, pa.table({name: held[name] for name in term.columns}))
            positions, held = _kept(positions, held, _indexes(found))
    assert positions is not None
    if deleted and len(positions):
        live = kept_mask(deleted, [range(int(positions[0]), int(positions[-1]) + 1)])
        if live is not None:
            keep = np.flatnonzero(np.asarray(live)[positions - positions[0]])
            positions, held = _kept(positions, held, keep)
    if most is not None and len(positions) > most:
        positions, held = positions[:most], {name: column.slice(0, most) for name, column in held.items()}
    return Sifted(positions, held)


def _first(
    source: Source, term: Term, ranges: Sequence[Range], deleted: BitMap64 | None
) -> tuple[Integers, dict[str, pa.ChunkedArray]]:
    """The first term, over all rows of the ranges."""
    stretches = stretches_of(ranges)
    coded = source.coded(ranges, term.columns[0]) if len(term.columns) == 1 else None
    if coded is None:
        table = source.in_ranges(ranges, term.columns)
        found = _evaluated(term, table)
        columns = dict(zip(table.column_names, table.columns, strict=True))
    else:
        found = _of_dictionary(term, coded)
        columns = {term.columns[0]: coded}
    live = None if deleted is None else kept_mask(deleted, stretches)
    keep = _indexes(found if live is None else pc.and_(found, live))
    positions = _positions_at(stretches, keep)
    taken = {name: plain(column.take(pa.array(keep))) for name, column in columns.items()}
    return positions, taken


def _positions_at(stretches: Sequence[range], keep: Integers) -> Integers:
    if len(stretches) == 1:
        return keep + stretches[0].start
    return positions_of(stretches)[keep] if len(keep) else keep


def _kept(
    positions: Integers, held: Mapping[str, pa.ChunkedArray], keep: Integers
) -> tuple[Integers, dict[str, pa.ChunkedArray]]:
    if len(keep) == len(positions):
        return positions, dict(held)
    indexes = pa.array(keep)
    return positions[keep], {name: column.take(indexes) for name, column in held.items()}


def _indexes(found: pa.ChunkedArray | pa.Array) -> Integers:
    """Where a mask is true. Most chunks of most masks have no such place."""
    parts, start = [_NONE], 0
    for chunk in found.chunks if isinstance(found, pa.ChunkedArray) else (found,):
        if chunk.true_count:
            parts.append(_true_bits(pc.fill_null(chunk, False) if chunk.null_count else chunk) + start)
        start += len(chunk)
    return np.concatenate(parts)


def _true_bits(mask: pa.BooleanArray) -> Integers:
    """The true positions of a mask without nulls. Faster than Arrow, because most bytes have no set bit."""
    skipped = mask.offset % 8
    data = np.frombuffer(mask.buffers()[1], np.uint8)[mask.offset // 8 : (mask.offset + len(mask) + 7) // 8]
    some = np.flatnonzero(data)
    row, bit = np.nonzero(np.unpackbits(data[some, np.newaxis], axis=1, bitorder="little"))
    places: Integers = some[row] * 8 + bit - skipped
    return places[(places >= 0) & (places < len(mask))]


def _evaluated(term: Term, table: pa.Table) -> pa.ChunkedArray:
    """The value of a term for each row. Of text, only rows are tried that have the bytes which all matches have."""
    column = table.column(0)
    if term.within and pt.is_string(column.type):
        candidates = _containing(term.within, column)
        if candidates is not None:
            mask = np.zeros(table.num_rows, np.bool_)
            mask[candidates[_indexes(evaluate(term.expression, table.take(pa.array(candidates))))]] = True
            return pa.chunked_array([mask])
    return evaluate(term.expression, table)


def _containing(text: bytes, column: pa.ChunkedArray) -> Integers | None:
    """The rows that have `text` in them, and a few more, ascending; None if these are many. One search over all bytes
    is several times as fast as one for each row."""
    search, most = re.compile(re.escape(text)), len(column) // _MANY
    parts, start = [_NONE], 0
    for chunk in column.chunks:
        _, ends, data = chunk.buffers()
        if data is not None and len(chunk):
            offsets = np.frombuffer(ends, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
            hits = islice(search.finditer(data, int(offsets[0]), int(offsets[-1])), most + 1)
            places = np.fromiter((hit.start() for hit in hits), np.int64)
            if len(places) > most:
                return None
            parts.append(distinct(np.searchsorted(offsets, places, side="right") - 1) + start)
        start += len(chunk)
    return np.concatenate(parts)


def _of_dictionary(term: Term, coded: pa.ChunkedArray) -> pa.ChunkedArray:
    masks = []
    for chunk in coded.chunks:
        values = chunk.dictionary
        every = pa.concat_arrays([values, pa.nulls(1, values.type)])
        found = evaluate(term.expression, pa.table({term.columns[0]: every})).combine_chunks()
        masks.append(found.take(pc.fill_null(chunk.indices, pa.scalar(len(values), chunk.indices.type))))
    return pa.chunked_array(masks, pa.bool_())


__all__ = ["Sifted", "Source", "sift"]
