"""Writes of a keyed table that are in no segment yet, as a scan sees them."""

# Decisions: docs/decisions/0330, docs/decisions/0400

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
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

    def __init__(self, key: Key, rows: pa.Table, hidden: Hidden, keys: pa.Array | None = None) -> None:
        """`keys` are given with rows that are in the order of the key."""
        self.rows, self.hidden = rows, hidden
        self._key, self._keys = key, keys

    @classmethod
    def of(cls, context: Context, keyed: KeyedReader, *, ordered: bool = False) -> tuple[KeyedVersion, Pending | None]:
        """One moment of a table, whose rows will be asked for in the order of the key if `ordered`."""
        seen, sources = keyed.pending()
        if not sources:
            return seen, None
        key = keyed.key
        ordered = ordered and len(sources) == len(sources[0]) == 1
        regions = [[_Part(moment, key, seen, ordered) for moment in moments] for moments in sources]
        hidden: dict[int, BitMap64] = {}
        tables: list[pa.Table] = []
        for parts in regions:
            newer: list[pa.Array] = []
            for part in parts:
                _unite(hidden, part.hidden(context))
                tables.append(part.without(newer))
                newer += part.keys() if len(parts) > 1 else ()
        if len(tables) == 1:
            return seen, cls(key, tables[0], hidden, regions[0][0].ordered_keys)
        return seen, cls(key, pa.concat_tables(tables), hidden)

    @cached_property
    def _ordered(self) -> tuple[pa.Table, pa.Array]:
        """The rows in the order of the key, and their keys."""
        if self._keys is not None:
            return self.rows, self._keys
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

    def __init__(self, moment: Moment, key: Key, seen: KeyedVersion, ordered: bool) -> None:
        self._memtable: Memtable = moment.memtable
        self._columns: Columns = moment.columns(ordered=ordered)
        self._key, self._seen = key, seen
        self._rows = to_schema(self._columns.rows, self._memtable.record.schema, seen.state.schema)

    @cached_property
    def _encoded(self) -> pa.Array:
        """The keys of the rows."""
        same = self._rows is self._columns.rows
        return self._columns.keys if same else self._key.encode(self._rows)

    @property
    def ordered_keys(self) -> pa.Array | None:
        """The keys of the rows, if those are in the order of the key."""
        return self._encoded if self._columns.in_order else None

    def without(self, newer: Sequence[pa.Array]) -> pa.Table:
        """The rows whose keys are not among those that came later."""
        if not newer:
            return self._rows
        later = pa.concat_arrays(newer)
        return self._rows.filter(pc.invert(pc.is_in(self._encoded, value_set=later)))

    def keys(self, start: int = 0) -> list[pa.Array]:
        """The keys of rows and deletions, of writes from a number on."""
        made, keys = self._columns.made, self._encoded
        if start:
            keys = keys.take(int64_array(np.flatnonzero(made.numbers >= start)))
        deleted = self._memtable.deleted_keys(made.deleted[made.deleted >= start])
        return [keys, self._key.encode(self._key.to_table(deleted))] if deleted else [keys]

    def hidden(self, context: Context) -> Hidden:
        """The positions of older rows with these keys. Those of keys that were looked up before are remembered."""
        segments: Sequence[LiveSegment] = self._seen.segments
        if not segments:
            return {}
        writes, known = self._columns.writes, self._memtable.hides
        if known.segments is not segments or known.writes > writes:
            known = Hides(segments, 0, {})
        if known.writes == writes:
            return known.positions
        keys = pa.concat_arrays(self.keys(known.writes))
        ordered = keys.take(int64_array(key_order(keys)))
        positions = dict(known.positions)
        mark(positions, locate(context.indexes, context.vectors, context.store, segments, ordered, with_ids=False))
        self._memtable.hides = Hides(segments, writes, positions)
        return positions


def _unite(all_hidden: dict[int, BitMap64], more: Hidden) -> None:
    for number, positions in more.items():
        all_hidden[number] = all_hidden[number] | positions if number in all_hidden else positions


def _before(keys: pa.Array, bound: bytes) -> int:
    return bisect_left(range(len(keys)), bound, key=lambda at: keys[at].as_py())


__all__ = ["Pending"]
