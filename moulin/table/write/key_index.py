"""The key index of a segment: in the order of its rows, or sorted beside them."""

# Decisions: docs/decisions/0610

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from moulin.formats import deletion_vector
from moulin.formats.key_index import encode_key_index, search_form
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.facts import SegmentFacts
from moulin.model.key.key import Key
from moulin.model.schema.arrow import ROW_ID
from moulin.storage.segment_source import key_index_of
from moulin.storage.store import Store


@dataclass(slots=True)
class SegmentKeys:
    """The keys of a segment that is being written; those of `erased` positions do not count."""

    key: Key
    erased: BitMap64 | None = None
    encoded: list[pa.Array] = field(default_factory=list)
    row_ids: list[Integers] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.encoded.append(self.key.encode(rows))
            if ROW_ID in rows.column_names:
                self.row_ids.append(rows.column(ROW_ID).fill_null(-1).to_numpy())

    def write(self, store: Store, facts: SegmentFacts) -> SegmentFacts:
        """Write the index; returns the facts with what they say of it."""
        keys = pa.concat_arrays(self.encoded)
        row_ids = np.concatenate(self.row_ids) if self.row_ids else None
        if not _ascend(keys):
            return write_placed(store, facts, keys, row_ids, self.erased)
        first = next(position for position in range(len(keys)) if not self.erased or position not in self.erased)
        lowest = keys[first].as_py()
        if first:
            least = pa.array([bytes(self.key.width or 0)] * first, keys.type)
            keys = pa.concat_arrays([least, keys.slice(first)])
        return _put(store, facts, encode_key_index(keys, row_ids), lowest, keys[-1].as_py())


def write_placed(
    store: Store, facts: SegmentFacts, keys: pa.Array, row_ids: Integers | None, left_out: BitMap64 | None
) -> SegmentFacts:
    """Write the index of keys in any order, with their positions; those of positions that are `left_out` are not in it.

    REQUIRES: a key is left.
    """
    kept = None if not left_out else deletion_vector.keep_mask(left_out, 0, len(keys))
    positions = np.arange(len(keys), dtype=np.int64) if kept is None else np.flatnonzero(kept)
    left = keys if kept is None else keys.take(pa.array(positions))
    order, _ = in_key_order(search_form(left))
    positions, ordered = positions[order], left.take(pa.array(order))
    ids = None if row_ids is None else row_ids[positions]
    return _put(store, facts, encode_key_index(ordered, ids, positions), ordered[0].as_py(), ordered[-1].as_py())


def in_key_order(form: Any) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """The indexes that sort keys in search form, equal ones as they came; and which keys equal their next."""
    if isinstance(form, np.ndarray):
        order = np.argsort(form, kind="stable")
        ordered = form[order]
        return order, ordered[1:] == ordered[:-1]
    order = np.asarray(pc.sort_indices(form)).astype(np.int64)
    ordered = form.take(pa.array(order))
    return order, np.asarray(pc.equal(ordered[1:], ordered[:-1]))


def _ascend(keys: pa.Array) -> bool:
    form = search_form(keys)
    if isinstance(form, np.ndarray):
        return bool((form[1:] >= form[:-1]).all())
    return pc.all(pc.greater_equal(form[1:], form[:-1])).as_py() is not False


def _put(store: Store, facts: SegmentFacts, data: bytes, lowest: bytes, highest: bytes) -> SegmentFacts:
    store.put(key_index_of(facts), data)
    return replace(facts, key_min=lowest, key_max=highest, index_size=len(data))


__all__ = ["SegmentKeys", "in_key_order", "write_placed"]
