"""The rows of a branch's table against those of main's, where both changed since the branch began.

Both sides are compared with the table as it was then, by row id. A row that both changed is a Conflict, unless both
only deleted it. Rows that only the branch changed are found where main has them now; compactions on either side moved
some. Of keyed tables, a key that both sides wrote is a Conflict, too.
"""

# Decisions: docs/decisions/0414

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from moulin.catalog.segments.feed import FeedEntry
from moulin.errors import Conflict
from moulin.formats import deletion_vector
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.schema.values import Schema
from moulin.model.where import parse_where
from moulin.table.context import Context
from moulin.table.find.locate import locate
from moulin.table.read.feed_reader import CHANGE_TYPE, FeedReader, is_fresh
from moulin.table.read.footers import open_reader

_NONE: Integers = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows by the index of their segment in an entry of a feed, with segment number, position, id and sequence."""

    pair: Integers
    segment: Integers
    position: Integers
    row_id: Integers
    sequence: Integers

    def at(self, indexes: Any) -> Rows:
        columns = (self.pair, self.segment, self.position, self.row_id, self.sequence)
        return Rows(*(column[indexes] for column in columns))

    def __len__(self) -> int:
        return len(self.row_id)

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        names = ("pair", "segment", "position", "row_id", "sequence")
        return Rows(*(np.concatenate([_NONE, *(getattr(part, name) for part in parts)]) for name in names))


class Side:
    """The changes of one side since the fork version. Segments with only new rows are skipped."""

    def __init__(self, context: Context, schema: Schema, entry: FeedEntry) -> None:
        self._context, self._schema, self.entry = context, schema, entry

    @cached_property
    def went(self) -> Rows:
        return Rows.joined(list(self._rows(came=False)))

    @cached_property
    def came(self) -> Rows:
        return Rows.joined(list(self._rows(came=True)))

    @cached_property
    def _matched(self) -> tuple[Integers, Integers, Any]:
        _, went, came = np.intersect1d(self.went.row_id, self.came.row_id, assume_unique=True, return_indices=True)
        return went, came, self.went.sequence[went] == self.came.sequence[came]

    @property
    def moved(self) -> tuple[Integers, Integers]:
        """Rows that only moved: their indexes in `went` and in `came`."""
        went, came, same = self._matched
        return went[same], came[same]

    @property
    def updated(self) -> tuple[Integers, Integers]:
        went, came, same = self._matched
        return went[~same], came[~same]

    def _rows(self, *, came: bool) -> Iterator[Rows]:
        for index, pair in enumerate(self.entry.segments):
            here, there = (pair.after, pair.before) if came else (pair.before, pair.after)
            if here is None or (came and is_fresh(here, self.entry)):
                continue
            positions = self._positions(here, there)
            if len(positions):
                ids, sequences = self._lineage(here, positions)
                count = len(positions)
                yield Rows(np.full(count, index), np.full(count, here.facts.number), positions, ids, sequences)

    def _positions(self, here: LiveSegment, there: LiveSegment | None) -> Integers:
        """The positions of a segment that are live here and not there."""
        if there is not None:
            return deletion_vector.to_array(self._deleted(there) - self._deleted(here))
        live = np.ones(here.facts.rows, np.bool_)
        live[deletion_vector.to_array(self._deleted(here))] = False
        return np.flatnonzero(live)

    def _deleted(self, segment: LiveSegment) -> BitMap64:
        if segment.vector is None:
            return BitMap64()
        return self._context.vectors.get(self._context.store, segment.vector, segment.facts.rows)

    def _lineage(self, segment: LiveSegment, positions: Integers) -> tuple[Integers, Integers]:
        if not segment.facts.has_lineage:
            return positions + segment.first_row_id, np.full(len(positions), segment.sequence, np.int64)
        ids, sequences = [_NONE], [_NONE]
        with open_reader(self._context.store, segment.facts, self._schema, columns=()) as reader:
            for batch in reader.batches(
                positions=positions,
                row_id=True,
                first_row_id=segment.first_row_id,
                sequence=True,
                sequence_number=segment.sequence,
            ):
                ids.append(batch.column(0).to_numpy(zero_copy_only=False))
                sequences.append(batch.column(1).to_numpy(zero_copy_only=False))
        return np.concatenate(ids), np.concatenate(sequences)

    def version_of(self, sequence: int) -> int:
        """The version that gave a sequence number; the last one where that is not known."""
        known = {commit.sequence: commit.version for commit in self.entry.commits}
        return known.get(sequence, max(known.values(), default=self.entry.version))


class Comparison:
    """A table that a branch and main both changed; `then` is what it was when the branch began."""

    def __init__(
        self,
        context: Context,
        branch: str,
        then: TableState,
        own: tuple[TableState, Side],
        main: tuple[TableState, Side],
    ) -> None:
        self._context, self._branch, self._then = context, branch, then
        (self._own_state, self._own), (self._main_state, self._main) = own, main

    def positions(self) -> dict[int, BitMap64]:
        """The rows that the branch deleted or updated, where main has them now. Raises Conflict for common rows."""
        own = self._own
        stays = np.ones(len(own.went), np.bool_)
        stays[own.moved[0]] = False
        was_updated = np.zeros(len(own.went), np.bool_)
        was_updated[own.updated[0]] = True
        hidden, was_updated = own.went.at(stays), was_updated[stays]
        if not len(hidden):
            return {}
        main = self._main
        _, mine, theirs = np.intersect1d(hidden.row_id, main.went.row_id, assume_unique=True, return_indices=True)
        fate = np.full(len(main.went), -1, np.int64)  # -1: deleted, -2: updated, else where it came
        fate[main.updated[0]] = -2
        fate[main.moved[0]] = main.moved[1]
        fates = fate[theirs]
        common = (fates == -2) | ((fates == -1) & was_updated[mine])
        if common.any():
            self._refuse(hidden.at(mine[common]), was_updated[mine[common]], fates[common])
        gone = mine[fates == -1]
        if self.key is not None and len(gone):
            self._refuse_written_again(hidden.at(gone))
        there = np.ones(len(hidden), np.bool_)
        there[mine] = False
        found = Rows.joined([hidden.at(there), main.came.at(fates[fates >= 0])])
        return {
            int(number): deletion_vector.from_positions(np.sort(found.position[found.segment == number]))
            for number in distinct(found.segment).tolist()
        }

    @property
    def key(self) -> Key | None:
        return Key.of(self._then.schema)

    def _refuse(self, rows: Rows, was_updated: Any, fates: Integers) -> None:
        row_id = int(rows.row_id[0])
        did = "updated" if was_updated[0] else "deleted"
        own, main = self._own, self._main
        on_branch, on_main = self._own_state.head_version, self._main_state.head_version
        if was_updated[0]:
            on_branch = own.version_of(int(own.came.sequence[own.came.row_id == row_id][0]))
        if fates[0] == -2:
            on_main = main.version_of(int(main.came.sequence[main.came.row_id == row_id][0]))
        what = f"row {row_id}"
        if self.key is not None:
            what = f"key {self._shown(self._keys_at(rows.at([0])), 0)}"
        done = "updated" if fates[0] == -2 else "deleted"
        raise self._conflict(what, f"{did} by version {on_branch}", f"{done} by version {on_main}", on_main)

    def _conflict(self, what: str, on_branch: str, on_main: str, winner: int) -> Conflict:
        return Conflict(
            f"Table {self._then.full_name}: {what} was {on_branch} of branch {self._branch} and {on_main} of main, "
            f"both since version {self._then.version}. Undo one of the two changes, and publish again.",
            requirement=f"{what} of {self._then.full_name}",
            expected=on_branch,
            found=on_main,
            winner=winner,
        )

    # Keyed tables

    def refuse_common_keys(self) -> None:
        """Reject keys that both sides inserted."""
        assert self.key is not None
        for rows in self._inserted():
            self._refuse_on_main(rows, "inserted")

    def _refuse_on_main(self, rows: pa.Table, did: str) -> None:
        """Reject rows whose keys main inserted."""
        assert self.key is not None
        encoded = self.key.encode(rows)
        order = pc.sort_indices(encoded)
        candidates = [
            pair.after for pair in self._main.entry.segments if pair.before is None and pair.after is not None
        ]
        context = self._context
        located = locate(context.indexes, context.vectors, context.store, candidates, encoded.take(order))
        fresh = located.row_ids >= self._main.entry.next_row_id
        if fresh.any():
            index = int(order[int(located.indexes[fresh][0])].as_py())
            versions = self._own_state.head_version, self._main_state.head_version
            what = f"key {self._shown(rows, index)}"
            raise self._conflict(
                what, f"{did} by version {versions[0]}", f"inserted by version {versions[1]}", versions[1]
            )

    def _refuse_written_again(self, gone: Rows) -> None:
        """Rows that both sides deleted: their keys must not have come back on either."""
        rows = self._keys_at(gone)
        self._refuse_on_main(rows, "deleted")
        assert self.key is not None
        keys = self.key.encode(rows)
        for inserted in self._inserted():
            both = pc.is_in(self.key.encode(inserted), keys)
            if pc.any(both).as_py():
                what = f"key {self._shown(inserted.filter(both), 0)}"
                versions = self._own_state.head_version, self._main_state.head_version
                raise self._conflict(
                    what, f"written by version {versions[0]}", f"deleted by version {versions[1]}", versions[1]
                )

    def _inserted(self) -> Iterator[pa.Table]:
        """The keys of the rows that the branch inserted."""
        assert self.key is not None
        schema = self._own_state.schema
        known = Key.of(schema)  # a key column may have another name on the branch
        assert known is not None
        names = tuple(known.names)
        reader = FeedReader(self._context.store, schema, names, parse_where(None, schema))
        for batch in reader.read(self._own.entry, self._context.vectors):
            kept = batch.filter(pc.equal(batch.column(CHANGE_TYPE), "insert"))
            if kept.num_rows:
                yield pa.Table.from_batches([kept.select(names)]).rename_columns(self.key.names)

    def _keys_at(self, rows: Rows) -> pa.Table:
        """The keys of rows that were there when the branch began."""
        assert self.key is not None
        before = {pair.before.facts.number: pair.before for pair in self._own.entry.segments if pair.before}
        parts: list[pa.RecordBatch] = []
        for number in distinct(rows.segment).tolist():
            facts = before[number].facts
            with open_reader(self._context.store, facts, self._then.schema, columns=self.key.names) as reader:
                parts += reader.batches(positions=np.sort(rows.position[rows.segment == number]))
        return pa.Table.from_batches(parts)

    def _shown(self, rows: pa.Table, index: int) -> str:
        assert self.key is not None
        values = [rows.column(name)[index].as_py() for name in self.key.names]
        return repr(values[0] if len(values) == 1 else tuple(values))

    # What joins main

    def adoptable(self, regions: Iterable[int] | None) -> tuple[list[int], list[int]]:
        """The indexes of new segments of the branch that may join main as they are, and of those to be written again.

        A segment that stores ids or sequence numbers of the branch would bring them to main. `regions` are those that
        have the same numbers on both sides; None for a table without a key.
        """
        entry, own = self._own.entry, self._own
        came = own.came
        unchanged = np.zeros(len(came), np.bool_)
        unchanged[own.moved[1]] = True
        last = self._then.last_sequence
        taken: list[int] = []
        written: list[int] = []
        for index, pair in enumerate(entry.segments):
            if pair.after is None or pair.before is not None:
                continue
            mine = came.pair == index
            ids, sequences = came.row_id[mine], came.sequence[mine]
            stored = ((ids >= entry.next_row_id) & (ids < pair.after.first_row_id)).any()
            stored = stored or ((sequences > last) & (sequences < pair.after.sequence)).any()
            elsewhere = regions is not None and pair.after.facts.region not in regions
            (written if stored or elsewhere or unchanged[mine].any() else taken).append(index)
        return taken, written
