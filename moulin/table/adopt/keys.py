"""Keys of adopted files: read once, written to a key index, and checked for duplicates."""

# Decisions: docs/decisions/0610

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyroaring import BitMap64

from moulin.errors import InvalidInput
from moulin.formats import deletion_vector
from moulin.formats.key_index import search_form
from moulin.model.facts import SegmentFacts
from moulin.model.key.key import Key
from moulin.model.layout.partition import PartitionTuple
from moulin.model.region_spec import RegionSpec
from moulin.storage.store import Store
from moulin.table.write.key_index import SegmentKeys, in_key_order, write_placed
from moulin.table.write.layout import Layout


@dataclass(frozen=True, slots=True)
class AdoptedSegment:
    """A file that was looked at: the facts of its segment, and the region that its keys are in."""

    facts: SegmentFacts
    region: PartitionTuple = ()


@dataclass(frozen=True, slots=True)
class KeyedFiles:
    """What files of a keyed table need besides: its regions, and rows that do not count, by the address of a file."""

    regions: RegionSpec
    deleted: dict[str, BitMap64] = field(default_factory=dict)


def index_keys(
    store: Store,
    layout: Layout,
    keyed: KeyedFiles,
    facts: SegmentFacts,
    read: Callable[[list[str]], pa.Table],
) -> AdoptedSegment | None:
    """Write the key index of a file; None when no row of it counts. `read` gives columns of the file."""
    key, deleted = layout.key, keyed.deleted.get(facts.path)
    assert key is not None
    rows = read(list(key.names)).combine_chunks()
    _require_values(key, rows, facts.path)
    if deleted and deleted.max() >= facts.rows:
        raise InvalidInput(f"Row {deleted.max()} of {facts.path} is deleted, but the file has {facts.rows} rows.")
    if deleted and len(deleted) == facts.rows:
        return None
    live = rows if not deleted else rows.filter(pa.array(deletion_vector.keep_mask(deleted, 0, facts.rows)))
    order, same = in_key_order(search_form(key.encode(live)))
    if same.any():
        value = key.values(live.slice(int(order[:-1][same][0]), 1))[0]
        raise InvalidInput(
            f"The key {value!r} appears more than once in {facts.path}: adopt files with unique keys, or load "
            "them with append, which keeps the last row of a key."
        )
    regions = [value for value, _ in keyed.regions.split(live)]
    if len(regions) != 1:
        raise InvalidInput(
            f"{facts.path} holds keys of {len(regions)} regions of {layout.name}, and a segment has those of one: "
            "append its rows."
        )
    if not deleted and bool((order[1:] > order[:-1]).all()):
        keys = SegmentKeys(key)
        keys.add(rows)
        return AdoptedSegment(keys.write(store, replace(facts, sort_order_id=layout.sort_order.order_id)), regions[0])
    return AdoptedSegment(write_placed(store, facts, key.encode(rows), None, deleted), regions[0])


def _require_values(key: Key, rows: pa.Table, path: str) -> None:
    for name in key.names:
        if nulls := rows.column(name).null_count:
            raise InvalidInput(f"Column {name!r} is part of the primary key, but has {nulls} nulls in {path}.")


__all__ = ["AdoptedSegment", "KeyedFiles", "index_keys"]
