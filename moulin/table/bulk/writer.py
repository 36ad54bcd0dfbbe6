"""Rows into runs: the kernel of bulk upserts and merges of keyed tables, in this process and in Spark's tasks.

A task sorts its rows by key, locates existing rows of these keys, and writes the new rows as segments that keep their
row ids, at level 1 if there are many. It needs only storage, and returns what to commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.formats.key_index import search_form
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.layout.partition import PartitionTuple
from moulin.model.merge_rules import MergeRules
from moulin.model.region_spec import RegionSpec
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.model.schema.values import Schema
from moulin.storage.store import Store
from moulin.table.commit.segment_rows import open_rows
from moulin.table.commit.vectors import VectorCache
from moulin.table.find.locate import KeyIndexes, Located, Tools, locate
from moulin.table.write.key_index import in_key_order
from moulin.table.write.layout import Layout
from moulin.table.write.pieces import pieces
from moulin.table.write.segment_writer import NumberSource
from moulin.table.write.upsert import UpsertDraft, mark, write_located

OnDuplicate = Literal["error", "last"]

NEW_REGION = -1  # in place of the number of a region that has none yet; given at commit
_WORKER_CACHE = 64 << 20


@dataclass(frozen=True, slots=True)
class BulkPlan:
    """What a task that writes runs must know. Sent to every task.

    `segments` are those of one version in which keys are located; `regions` are the numbers of the regions known then.
    Rows come in the schema `source`. With `duplicates` "last", the last row of a key counts, in the order of tasks and
    of rows in them; with "error" there must be but one.
    """

    store: Store
    layout: Layout
    source: Schema
    spec: RegionSpec
    regions: Mapping[PartitionTuple, int]
    segments: tuple[LiveSegment, ...]
    segment_bytes: int
    duplicates: OnDuplicate = "error"
    rules: MergeRules | None = None

    @property
    def key(self) -> Key:
        assert self.layout.key is not None
        return self.layout.key

    @property
    def table(self) -> str:
        return self.layout.name


@dataclass(frozen=True, slots=True)
class RegionRun:
    """What a task wrote for one region, by its value."""

    value: PartitionTuple
    draft: UpsertDraft


@dataclass(frozen=True, slots=True)
class WorkerTools:
    """Tools of a process that has no lake open. Files never change, so what was read of them stays good."""

    store: Store
    indexes: KeyIndexes
    vectors: VectorCache = field(default_factory=VectorCache)

    @classmethod
    def of(cls, store: Store) -> WorkerTools:
        """Those of this process for a store: its next task finds indexes warm."""
        found = _workers.get(store.uri)
        if found is None:
            if len(_workers) >= 8:
                _workers.clear()
            found = _workers[store.uri] = cls(store, KeyIndexes(store, _WORKER_CACHE))
        return found


_workers: dict[str, WorkerTools] = {}


def write_bulk(plan: BulkPlan, rows: Iterable[pa.RecordBatch], numbers: NumberSource) -> list[RegionRun]:
    """As `write_runs`, in a process that has no lake open."""
    return write_runs(plan, WorkerTools.of(plan.store), rows, numbers)


def write_runs(
    plan: BulkPlan, tools: Tools, batches: Iterable[pa.RecordBatch], numbers: NumberSource
) -> list[RegionRun]:
    """Write batches of `plan.source` as segments, one per partition and about `segment_bytes`; nothing is committed."""
    drafts: dict[PartitionTuple, UpsertDraft] = {}
    for rows in pieces(batches, plan.source, plan.segment_bytes):
        for value, part in plan.spec.split(rows):
            _write(plan, tools, drafts.setdefault(value, UpsertDraft()), value, part, numbers)
            del part
        del rows
    return [RegionRun(value, draft) for value, draft in drafts.items()]


def _write(
    plan: BulkPlan, tools: Tools, draft: UpsertDraft, value: PartitionTuple, rows: pa.Table, numbers: NumberSource
) -> None:
    region = plan.regions.get(value, NEW_REGION)
    ordered, keys = in_order(plan, rows)
    segments = plan.spec.searched(plan.segments, region)
    located = locate(tools.indexes, tools.vectors, tools.store, segments, keys)
    own = draft.hide(tools, region, keys)
    if len(own) and plan.duplicates == "error":
        raise duplicate_key(plan.key, ordered, int(own[0]))
    if plan.rules is not None:
        ordered, located = _merged(plan, plan.rules, tools, draft, segments, ordered, located)
    if ordered.num_rows:
        write_located(tools.store, plan.layout, draft, ordered, located, own, numbers, region=region)


def in_order(plan: BulkPlan, rows: pa.Table) -> tuple[pa.Table, pa.Array]:
    """The rows in key order, each key once, and their encoded keys."""
    keys = plan.key.encode(rows)
    order, same = in_key_order(search_form(keys))
    if same.any():
        if plan.duplicates == "error":
            raise duplicate_key(plan.key, rows, int(order[int(np.argmax(same))]))
        order = order[np.append(~same, True)]
    if len(order) == len(keys) and bool((np.diff(order) == 1).all()):
        return rows, keys
    chosen = pa.array(order)
    return rows.take(chosen), keys.take(chosen)


def duplicate_key(key: Key, rows: pa.Table, index: int) -> InvalidInput:
    """The error for a key that comes twice in what may have each only once."""
    value = key.values(rows.slice(index, 1))[0]
    return InvalidInput(
        f"The key {value!r} appears more than once: keep one row per key, for example with dropDuplicates"
        f"({list(key.names)!r}) or a window function that selects the newest."
    )


def _merged(
    plan: BulkPlan,
    rules: MergeRules,
    tools: Tools,
    draft: UpsertDraft,
    segments: list[LiveSegment],
    rows: pa.Table,
    located: Located,
) -> tuple[pa.Table, Located]:
    """What a merge writes for source rows, in key order, and the rows that it replaces; deletes go to the draft."""
    parts = [empty_table(arrow_schema(plan.layout.schema))]
    indexes: list[Integers] = [np.empty(0, np.int64)]
    chosen = _chosen(located, np.zeros(0, np.int64))
    if rules.matched is not None and len(located.indexes):
        source = rows.take(pa.array(located.indexes))
        target = _target_rows(plan, tools, segments, located, rules.target_columns)
        mask, doomed = rules.choose(source, target), rules.doomed(source, target)
        if doomed is not None:
            gone = np.flatnonzero(doomed.to_numpy())
            mark(draft.positions, _chosen(located, gone))
            draft.rows_deleted += len(gone)
            mask = pc.invert(doomed) if mask is None else pc.and_not(mask, doomed)
        at = np.arange(len(located.indexes)) if mask is None else np.flatnonzero(mask.to_numpy())
        chosen = _chosen(located, at)
        if rules.matched == "delete":
            mark(draft.positions, chosen)
            draft.rows_deleted += len(at)
            chosen = _chosen(located, np.zeros(0, np.int64))
        elif len(at):
            if mask is not None:
                source, target = source.filter(mask), target.filter(mask) if target.num_columns else target
            parts.append(rules.updated(source, target))
            indexes.append(chosen.indexes)
    if rules.not_matched == "insert":
        fresh = np.setdiff1d(np.arange(rows.num_rows), located.indexes)
        source = rows.take(pa.array(fresh))
        if (mask := rules.insertable(source)) is not None:
            source, fresh = source.filter(mask), fresh[mask.to_numpy()]
        if len(fresh):
            parts.append(rules.inserted(source))
            indexes.append(fresh)
    at = np.concatenate(indexes)
    order = np.argsort(at)
    where = np.searchsorted(at[order], chosen.indexes)
    made = pa.concat_tables(parts).take(pa.array(order))
    return made, Located(where, chosen.segments, chosen.positions, chosen.row_ids)


def _chosen(located: Located, at: Integers) -> Located:
    return Located(located.indexes[at], located.segments[at], located.positions[at], located.row_ids[at])


def _target_rows(
    plan: BulkPlan, tools: Tools, segments: list[LiveSegment], located: Located, columns: tuple[str, ...]
) -> pa.Table:
    """Some columns of located rows, in their order."""
    if not columns:
        return pa.table({"": pa.nulls(len(located.indexes))}).select([])
    by_number = {segment.facts.number: segment for segment in segments}
    pieces: list[pa.Table] = []
    order: list[Integers] = []
    for number in distinct(located.segments).tolist():
        mine = np.flatnonzero(located.segments == number)
        facts = by_number[number].facts
        source: Any = open_rows(tools.store, facts)
        with SegmentReader(source, plan.layout.schema, columns=columns, facts=facts) as reader:
            starts = np.asarray(reader.group_starts)
            groups = np.searchsorted(starts, located.positions[mine], side="right") - 1
            for group in distinct(groups).tolist():
                there = mine[groups == group]
                table = reader.table(row_groups=[group], use_threads=False)
                pieces.append(table.take(pa.array(located.positions[there] - starts[group])))
                order.append(there)
    back = np.empty(len(located.indexes), np.int64)
    back[np.concatenate(order)] = np.arange(len(back))
    return pa.concat_tables(pieces).take(pa.array(back))
