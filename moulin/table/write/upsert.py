"""Upserts: rows become segments, and the old positions of their keys become deletions. Nothing here commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from moulin.formats import deletion_vector
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.key.key import Key
from moulin.model.layout.partition_rows import split_by_partition
from moulin.model.layout.sort_rows import sort_indices
from moulin.model.operations import Kind, RegionUse
from moulin.model.schema.arrow import lineage_fields
from moulin.storage.store import Store
from moulin.table.commit.change import DataChange
from moulin.table.context import Context
from moulin.table.find.locate import Located, Tools, locate
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import NumberSource, bulk_level, write_ordered

Positions = dict[int, BitMap64]


@dataclass(slots=True)
class UpsertDraft:
    """An upsert being put together: segments written so far, and the positions they replace.

    `succeeded` are rows whose keys were inserted again: something else in the same change must delete them.
    """

    added: list[SegmentFacts] = field(default_factory=list)
    positions: Positions = field(default_factory=dict)
    succeeded: Positions = field(default_factory=dict)
    rows_new: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0

    def hide(self, tools: Tools, region: int, keys: pa.Array) -> Integers:
        """Hide the rows of these keys in the segments written so far; returns the indexes of the keys found."""
        written = [LiveSegment(facts, 0, 0, 0) for facts in self.added if facts.region == region]
        indexes = [np.empty(0, np.int64)]
        for segment in written:  # one by one: a key may be in several of them, hidden in all but the last
            located = locate(tools.indexes, tools.vectors, tools.store, [segment], keys)
            mark(self.positions, located)
            indexes.append(located.indexes)
        return np.concatenate(indexes)

    def unite(self, part: UpsertDraft, region: int) -> None:
        """Merge another draft, whose segments are of this region."""
        self.added += [replace(facts, region=region) for facts in part.added]
        for number, bitmap in part.positions.items():
            self.positions[number] = self.positions[number] | bitmap if number in self.positions else bitmap
        self.rows_new += part.rows_new
        self.rows_updated += part.rows_updated
        self.rows_deleted += part.rows_deleted

    def change(self, state: TableState, regions: Sequence[RegionUse]) -> DataChange:
        """The change to commit. Positions of segments of its own become vectors that these start with."""
        own = {facts.number: facts for facts in self.added}
        within = {number: bitmap for number, bitmap in self.positions.items() if number in own}
        emptied = {number for number, bitmap in within.items() if len(bitmap) == own[number].rows}
        return DataChange(
            state.id,
            state.version,
            Kind.UPSERT,
            tuple(facts for facts in self.added if facts.number not in emptied),
            {number: bitmap for number, bitmap in self.positions.items() if number not in own},
            added_positions={number: bitmap for number, bitmap in within.items() if number not in emptied},
            regions=tuple(regions),
        )


def put_rows(
    context: Context,
    state: TableState,
    draft: UpsertDraft,
    segments: Iterable[LiveSegment],
    rows: pa.Table,
    numbers: NumberSource,
    *,
    region: int,
    level: int | None = None,
) -> None:
    """Write rows, each key once, as segments of a region; updated rows keep their row ids.

    With no `level` given, `bulk_level` chooses it.

    `segments` are those of the region that readers have; those that the draft wrote before are looked at too.
    """
    if not rows.num_rows:
        return
    layout = Layout.of(state)
    assert layout.key is not None
    order = sort_indices(rows, layout.sort_order, layout.schema)
    ordered = rows if order is None else rows.take(order)
    keys = layout.key.encode(ordered)
    located = locate(context.indexes, context.vectors, context.store, segments, keys)
    own = draft.hide(context, region, keys)
    write_located(context.store, layout, draft, ordered, located, own, numbers, region=region, level=level)


def write_located(
    store: Store,
    layout: Layout,
    draft: UpsertDraft,
    rows: pa.Table,
    located: Located,
    own: Integers,
    numbers: NumberSource,
    *,
    region: int,
    level: int | None = None,
) -> None:
    """Write rows in key order, each key once; `located` says which older rows they replace, and gives them their ids.

    `own` are the indexes of keys that the draft itself wrote before, hidden there by now.
    """
    before = sum(map(len, draft.positions.values()))
    mark(draft.positions, located)
    draft.rows_updated += sum(map(len, draft.positions.values())) - before
    draft.rows_new += rows.num_rows - len(np.union1d(located.indexes, own))
    lineage = len(located.indexes) > 0
    if lineage:
        rows = with_lineage(rows, located.indexes, located.row_ids)
    for partition, part in split_by_partition(rows, layout.spec, layout.schema):
        chosen = bulk_level(part) if level is None else level
        draft.added += write_ordered(
            store, layout, part, partition, numbers, level=chosen, lineage=lineage, region=region
        )


def delete_keys(
    context: Context, draft: UpsertDraft, segments: Iterable[LiveSegment], key: Key, rows: pa.Table
) -> None:
    """Hide the rows of keys; `rows` has the key's columns. Keys that are not there are ignored."""
    if not rows.num_rows:
        return
    located = locate(context.indexes, context.vectors, context.store, segments, sorted_keys(key, rows))
    mark(draft.positions, located)
    draft.rows_deleted += len(located.indexes)


def sorted_keys(key: Key, rows: pa.Table) -> pa.Array:
    """The encoded keys of rows, ascending and distinct."""
    keys = pc.unique(key.encode(rows))
    return keys.take(pc.sort_indices(keys))


def newest(key: Key, rows: pa.Table) -> pa.Table:
    """The last row of every key."""
    keys = key.encode(rows)
    codes = pc.dictionary_encode(keys)
    if len(codes.dictionary) == rows.num_rows:
        return rows
    last = np.zeros(len(codes.dictionary), np.int64)
    last[codes.indices.to_numpy()] = np.arange(rows.num_rows)  # the last of equal codes wins
    return rows.take(np.sort(last))


def mark(positions: Positions, located: Located) -> None:
    """Add what was located to the positions to delete."""
    for number in distinct(located.segments).tolist():
        bitmap = deletion_vector.from_positions(np.sort(located.positions[located.segments == number]))
        positions[number] = positions.get(number, BitMap64()) | bitmap


def with_lineage(rows: pa.Table, indexes: Integers, row_ids: Integers) -> pa.Table:
    """The rows with their lineage columns: the old row id at `indexes`, null where a row is new."""
    ids = np.zeros(rows.num_rows, np.int64)
    fresh = np.ones(rows.num_rows, np.bool_)
    ids[indexes], fresh[indexes] = row_ids, False
    row_id, sequence = lineage_fields()
    rows = rows.append_column(row_id, pa.array(ids, mask=fresh))
    return rows.append_column(sequence, pa.nulls(rows.num_rows, pa.int64()))
