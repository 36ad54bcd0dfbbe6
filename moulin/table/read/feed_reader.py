"""Reads the rows that one version changed, and matches them by row id.

Removed and added rows are read segment by segment. A row id on both sides is an update if the row's
`_last_updated_sequence_number` differs; otherwise the row only moved. To match the two sides, the
row ids of removed rows are kept in memory, with eight more bytes each; values are streamed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from moulin.catalog.segments.feed import FeedEntry, FeedSegment
from moulin.formats import deletion_vector
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns.arrays import Integers
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import ROW_ID, arrow_field
from moulin.model.schema.values import Schema
from moulin.storage.store import Store
from moulin.table.commit.vectors import VectorCache
from moulin.table.read.footers import open_reader

CHANGE_TYPE = "_change_type"
VERSION = "_version"
COMMIT_TIMESTAMP = "_commit_timestamp"
FEED_FIELDS = (
    pa.field(CHANGE_TYPE, pa.string(), nullable=False),
    pa.field(ROW_ID, pa.int64(), nullable=False),
    pa.field(VERSION, pa.int64(), nullable=False),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC"), nullable=False),
)

_UNMATCHED, _UNCHANGED = -1, -2  # stands for a sequence number, which is never negative
_TYPES = ("delete", "update_before", "insert", "update_after")
_LINEAGE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a segment: all except `left_out`, or those at `positions`."""

    segment: LiveSegment
    left_out: BitMap64 | None
    positions: Integers | None = None


def never_stop() -> None:
    """Reads on to the end."""


@dataclass(frozen=True)
class FeedReader:
    """Reads changed rows with `schema`, by field id. Small, and sent to Spark tasks. Belongs to one thread.

    `schema` should let every column be null: rows may be older than a column, or younger than its removal. `columns`
    are the columns to return, after those of the feed; `predicate` is applied to each row of the feed.
    `go_on` is called between batches; an exception from it ends the reading.
    """

    store: Store
    schema: Schema
    columns: tuple[str, ...]
    predicate: Predicate
    batch_rows: int = 131_072
    go_on: Callable[[], None] = never_stop

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([*FEED_FIELDS, *(arrow_field(self.schema.find_field(name)) for name in self.columns)])

    def read(
        self, entry: FeedEntry, vectors: VectorCache, share: Collection[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the feed, removed rows first, then added rows.

        With a `share`, only rows of the segments at these indexes of the entry, matched against all segments.
        """
        one = _OneVersion(self, entry, vectors)
        for came in (False, True):
            for index, pair in enumerate(entry.segments):
                if share is None or index in share:
                    yield from one.read(pair, came)


def may_match(entry: FeedEntry) -> bool:
    """Whether statistics allow a row on both sides. If not, rows need not be matched."""
    return any(pair.before for pair in entry.segments) and any(
        pair.after and not is_fresh(pair.after, entry) for pair in entry.segments
    )


def fresh_rows(entry: FeedEntry) -> int | None:
    """The number of added rows, if statistics show that all are new; else None."""
    came = [pair.after for pair in entry.segments if pair.after is not None]
    if any(pair.before for pair in entry.segments) or not all(is_fresh(segment, entry) for segment in came):
        return None
    return sum(one.facts.rows - (one.vector.cardinality if one.vector else 0) for one in came)


def is_fresh(segment: LiveSegment, entry: FeedEntry) -> bool:
    """Whether all rows of a segment were given their ids in the version of this entry."""
    return not segment.facts.has_lineage and segment.first_row_id >= entry.next_row_id


class _OneVersion:
    """Reads the rows of one entry of the feed."""

    def __init__(self, reader: FeedReader, entry: FeedEntry, vectors: VectorCache) -> None:
        self._reader, self._entry, self._vectors = reader, entry, vectors
        self._matches = self._match() if may_match(entry) else None
        commits = entry.commits
        self._sequences = np.array([commit.sequence for commit in commits], np.int64)
        self._versions = np.array([commit.version for commit in commits] + [entry.version], np.int64)
        self._stamps = np.array([commit.timestamp_ns for commit in commits] + [entry.timestamp_ns], np.int64) // 1000

    def read(self, pair: FeedSegment, came: bool) -> Iterator[pa.RecordBatch]:
        rows = self._came(pair) if came else self._went(pair)
        if rows is None:
            return
        with self._open(rows, self._reader.columns) as reader:
            for batch in reader.batches(
                batch_rows=self._reader.batch_rows,
                positions=rows.positions,
                deleted=rows.left_out,
                predicate=self._reader.predicate,
                row_id=True,
                first_row_id=rows.segment.first_row_id,
                sequence=True,
                sequence_number=rows.segment.sequence,
            ):
                self._reader.go_on()
                labelled = self._labelled(batch, came)
                if labelled.num_rows:
                    yield labelled

    def _labelled(self, batch: pa.RecordBatch, came: bool) -> pa.RecordBatch:
        """A batch that ends with row ids and sequence numbers, as rows of the feed."""
        at = batch.num_columns - 2
        ids, sequences = _integers(batch.column(at)), _integers(batch.column(at + 1))
        found = np.full(len(ids), _UNMATCHED) if self._matches is None else self._matches.look_up(ids)
        if not (kept := found != _UNCHANGED).all():
            batch, ids, sequences, found = batch.filter(pa.array(kept)), ids[kept], sequences[kept], found[kept]
        kinds = pa.array(_TYPES).take(pa.array((found != _UNMATCHED) + (2 if came else 0)))
        commits = self._commits_of(sequences if came else found)
        feed = [
            kinds,
            pa.array(ids),
            pa.array(self._versions[commits]),
            pa.array(self._stamps[commits]).cast(FEED_FIELDS[3].type),
        ]
        return pa.RecordBatch.from_arrays([*feed, *batch.columns[:at]], schema=self._reader.arrow_schema)

    def _commits_of(self, sequences: Integers) -> Integers:
        """The commit that wrote each row; the last index means the version itself, or an unknown commit."""
        last = len(self._sequences)
        if not last:
            return np.zeros(len(sequences), np.int64)
        indexes = np.searchsorted(self._sequences, sequences)
        exact = self._sequences[np.minimum(indexes, last - 1)] == sequences
        return np.where(exact, indexes, last)

    def _match(self) -> _Matches | None:
        entry = self._entry
        went = [rows for pair in entry.segments if (rows := self._went(pair))]
        came = [
            rows
            for pair in entry.segments
            if pair.after and not is_fresh(pair.after, entry) and (rows := self._came(pair))
        ]
        if not went or not came:
            return None
        matches = _Matches([ids for rows in went for ids, _ in self._lineage(rows)])
        for rows in came:
            for ids, sequences in self._lineage(rows):
                matches.note_came(ids, sequences)
        if not matches.any:
            return None
        for rows in went:
            for ids, sequences in self._lineage(rows):
                matches.note_went(ids, sequences)
        return matches

    def _lineage(self, rows: _Rows) -> Iterator[tuple[Integers, Integers]]:
        for found in self._stored_lineage(rows):
            self._reader.go_on()
            yield found

    def _stored_lineage(self, rows: _Rows) -> Iterator[tuple[Integers, Integers]]:
        """Row ids and sequence numbers; computed if the file does not store them."""
        segment = rows.segment
        if not segment.facts.has_lineage and rows.positions is not None:
            yield rows.positions + segment.first_row_id, np.full(len(rows.positions), segment.sequence, np.int64)
            return
        if not segment.facts.has_lineage:
            for start in range(0, segment.facts.rows, _LINEAGE_ROWS):
                count = min(_LINEAGE_ROWS, segment.facts.rows - start)
                positions = np.arange(start, start + count, dtype=np.int64)
                keep = None if rows.left_out is None else deletion_vector.keep_mask(rows.left_out, start, count)
                positions = positions if keep is None else positions[keep]
                yield positions + segment.first_row_id, np.full(len(positions), segment.sequence, np.int64)
            return
        with self._open(rows, ()) as reader:
            for batch in reader.batches(
                positions=rows.positions,
                deleted=rows.left_out,
                row_id=True,
                first_row_id=segment.first_row_id,
                sequence=True,
                sequence_number=segment.sequence,
            ):
                yield _integers(batch.column(0)), _integers(batch.column(1))

    def _open(self, rows: _Rows, columns: Sequence[str]) -> SegmentReader:
        return open_reader(self._reader.store, rows.segment.facts, self._reader.schema, columns=columns)

    def _went(self, pair: FeedSegment) -> _Rows | None:
        return self._only_in(pair.before, pair.after)

    def _came(self, pair: FeedSegment) -> _Rows | None:
        return self._only_in(pair.after, pair.before)

    def _only_in(self, here: LiveSegment | None, there: LiveSegment | None) -> _Rows | None:
        """The rows of a segment that are live here and not there."""
        if here is None:
            return None
        left_out = self._deleted(here)
        if there is None:
            return _Rows(here, left_out)
        only = self._deleted(there) or BitMap64()
        only = only - left_out if left_out else only
        if not only:
            return None
        return _Rows(here, None, deletion_vector.to_array(only))

    def _deleted(self, segment: LiveSegment) -> BitMap64 | None:
        if segment.vector is None:
            return None
        return self._vectors.get(self._reader.store, segment.vector, segment.facts.rows)


class _Matches:
    """Removed row ids, sorted, and for each the sequence number with which it was added again."""

    def __init__(self, ids: Sequence[Integers]) -> None:
        self._ids = np.concatenate(ids)
        self._ids.sort()
        self._came = np.full(len(self._ids), _UNMATCHED, np.int64)
        self.any = False

    def note_came(self, ids: Integers, sequences: Integers) -> None:
        indexes, found = self._indexes(ids)
        self._came[indexes[found]] = sequences[found]
        self.any = self.any or bool(found.any())

    def note_went(self, ids: Integers, sequences: Integers) -> None:
        """Rows that were added again with the same sequence number did not change."""
        indexes, _ = self._indexes(ids)
        self._came[indexes[self._came[indexes] == sequences]] = _UNCHANGED

    def look_up(self, ids: Integers) -> Integers:
        """The sequence number with which each row was added if it is on both sides; otherwise, or if it did not change,
        a marker.
        """
        indexes, found = self._indexes(ids)
        return np.where(found, self._came[indexes], _UNMATCHED)

    def _indexes(self, ids: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
        indexes = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return indexes, self._ids[indexes] == ids


def _integers(column: pa.Array) -> Integers:
    values: Integers = column.to_numpy(zero_copy_only=False)
    return values
