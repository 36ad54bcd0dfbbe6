"""Writes of a keyed table that are in no segment yet, as a scan sees them."""

# Decisions: docs/decisions/0330

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap64

from moulin.model.columns import compute as pc
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.rows.numbers import int64_array
from moulin.table.context import Context
from moulin.table.find.locate import locate
from moulin.table.keyed.columns import Columns, key_order
from moulin.table.keyed.memtable import Hides, Memtable, Moment, to_schema
from moulin.table.keyed.reader import KeyedReader
from moulin.table.keyed.version import KeyedVersion
from moulin.table.write.upsert import mark

Hidden = Mapping[int, BitMap64]


class Pending:
    """Rows that are in no segment yet, and the positions in segments that no longer count because of them, or of
    deletions. `rows` are in no order.
    """

    def __init__(self, key: Key, rows: pa.Table, hidden: Hidden, sort: Callable[[], pa.Table] | None = None) -> None:
        self.rows, self.hidden = rows, hidden
        self._key, self._sort = key, sort

    @classmethod
    def of(cls, context: Context, keyed: KeyedReader) -> tuple[KeyedVersion, Pending | None]:
        """One moment of a table."""
        seen, sources = keyed.pending()
        if not sources:
            return seen, None
        key = keyed.key
        regions = [[_Part(moment, key, seen) for moment in moments] for moments in sources]
        hidden: dict[int, BitMap64] = {}
        tables: list[pa.Table] = []
        for parts in regions:
            newer: list[pa.Array] = []
            for part in parts:
                _unite(hidden, part.hidden(context))
                tables.append(part.without(newer))
                newer += part.keys() if len(parts) > 1 else ()
        if len(tables) == 1:
            return seen, cls(key, tables[0], hidden, regions[0][0].in_order)
        return seen, cls(key, pa.concat_tables(tables), hidden)

    @cached_property
    def _ordered(self) -> tuple[pa.Table, pa.Array]:
        """The rows in the order of the key, and their keys."""
        if self._sort is not None:
            rows = self._sort()
            return rows, self._key.encode(rows)
        keys = self._key.encode(self.rows)
        order = int64_array(key_order(keys))
        return self.rows.take(order), keys.take(order)

    @property
    def edges(self) -> tuple[bytes, bytes]:
        """The first and the last key. REQUIRES: there are rows."""
        keys = self._ordered[1]
        return keys[0].as_py(), keys[-1].as_py()

    def between(self, low: bytes | None, high: bytes | None) -> pa.Table:
        """Rows in the order of the key, from `low` on and before `high`; both may be the beginning of a key."""
        rows, keys = self._ordered
        start = 0 if low is None else _before(keys, low)
        stop = len(keys) if high is None else _before(keys, high)
        return rows.slice(start, max(stop - start, 0))


class _Part:
    """What one memtable adds."""

    def __init__(self, moment: Moment, key: Key, seen: KeyedVersion) -> None:
        self._memtable: Memtable = moment.memtable
        self._columns: Columns = moment.columns()
        self._key, self._seen = key, seen
        self._rows = to_schema(self._columns.rows, self._memtable.record.schema, seen.state.schema)

    def without(self, newer: Sequence[pa.Array]) -> pa.Table:
        """The rows whose keys are not among those that came later."""
        if not newer:
            return self._rows
        later = pa.concat_arrays(newer)
        return self._rows.filter(pc.invert(pc.is_in(self._key.encode(self._rows), value_set=later)))

    def keys(self, start: int = 0) -> list[pa.Array]:
        """The keys of rows and deletions, from a position on."""
        columns, key = self._columns, self._key
        live = columns.index[start:]
        rows = self._rows.select(list(key.names))
        if start:
            rows = rows.take(int64_array(live[live >= 0]))
        deleted = self._memtable.keys_at([position for position in columns.deleted if position >= start])
        return [key.encode(rows), key.encode(key.to_table(deleted))] if deleted else [key.encode(rows)]

    def hidden(self, context: Context) -> Hidden:
        """The positions of older rows with these keys. Those of keys that were looked up before are remembered."""
        segments: Sequence[LiveSegment] = self._seen.segments
        if not segments:
            return {}
        count, known = len(self._columns.index), self._memtable.hides
        if known.segments is not segments or known.keys > count:
            known = Hides(segments, 0, {})
        if known.keys == count:
            return known.positions
        keys = pa.concat_arrays(self.keys(known.keys))
        ordered = keys.take(int64_array(key_order(keys)))
        positions = dict(known.positions)
        mark(positions, locate(context.indexes, context.vectors, context.store, segments, ordered))
        self._memtable.hides = Hides(segments, count, positions)
        return positions

    def in_order(self) -> pa.Table:
        """The rows in the order of the key, which are kept so if they have the schema of the table."""
        if self._rows is self._columns.rows:
            return self._memtable.columns.in_order(self._columns, self._key).rows
        return self._rows.take(int64_array(key_order(self._key.encode(self._rows))))


def _unite(all_hidden: dict[int, BitMap64], more: Hidden) -> None:
    for number, positions in more.items():
        all_hidden[number] = all_hidden[number] | positions if number in all_hidden else positions


def _before(keys: pa.Array, bound: bytes) -> int:
    return bisect_left(range(len(keys)), bound, key=lambda at: keys[at].as_py())


__all__ = ["Pending"]
