"""Rows by their row ids: only segments and row groups that may hold one are read."""

# Decisions: docs/decisions/0260

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from moulin.catalog.backend import CatalogBackend
from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.schema.arrow import ROW_ID
from moulin.storage.store import Store
from moulin.table.commit.vectors import VectorCache
from moulin.table.find.index_search import Narrowed
from moulin.table.pins import Pins
from moulin.table.read.footers import open_reader
from moulin.table.read.quarantine import refuse_quarantined
from moulin.table.read.scan import Scan

_FOOTERS_AT_ONCE = 8


class TakeScan(Scan):
    """The live rows of a version with these row ids, unordered."""

    def __init__(
        self,
        catalog: CatalogBackend,
        store: Store,
        vectors: VectorCache,
        state: TableState,
        row_ids: Integers,
        columns: Sequence[str] | None,
        pins: Pins,
    ) -> None:
        own = [field.name for field in state.schema.fields] if columns is None else list(columns)
        asked = own if ROW_ID in own else [*own, ROW_ID]
        super().__init__(catalog, store, vectors, state, columns=asked, pins=pins)
        self._wanted = distinct(row_ids)

    def _planned(self) -> Narrowed:
        """Segments that may hold a row, with the possible positions: whole row groups if row ids are stored."""
        refuse_quarantined(self._catalog, self._state)
        live = self._catalog.segments(self._state.id, self._state.version, with_columns=False)
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE, thread_name_prefix="moulin-take") as threads:
            found = list(zip(live, threads.map(self._positions_in, live), strict=True))
        kept = {segment.facts.number: at for segment, at in found if len(at)}
        return Narrowed([segment for segment in live if segment.facts.number in kept], kept)

    def _positions_in(self, segment: LiveSegment) -> Integers:
        first, rows = segment.first_row_id, segment.facts.rows
        if not segment.facts.has_lineage:
            return self._between(first, first + rows) - first
        if not len(self._between(0, first + rows)):  # it contains new and older ids
            return self._wanted[:0]
        with open_reader(self._store, segment.facts, self._state.schema, columns=[]) as reader:
            chosen = [
                np.arange(start, start + count, dtype=np.int64)
                for start, count, (low, high, nulls) in zip(
                    reader.group_starts, reader.group_rows, reader.row_id_ranges, strict=True
                )
                if len(self._between(low, high + 1))
                or (nulls and len(self._between(first + start, first + start + count)))
            ]
        return np.concatenate([self._wanted[:0], *chosen])

    def _between(self, low: int, high: int) -> Integers:
        """The wanted row ids in [low, high)."""
        start, stop = np.searchsorted(self._wanted, [low, high])
        return self._wanted[start:stop]

    def _finish(self, table: pa.Table) -> pa.Table:
        kept = pc.is_in(table.column(ROW_ID), value_set=pa.array(self._wanted))
        return super()._finish(table.filter(kept))


def take_rows(scan: TakeScan, row_ids: Integers, columns: Sequence[str] | None) -> pa.Table:
    """The rows of a scan in the order of `row_ids`; missing ids are skipped."""
    found = scan.to_arrow()
    ids = found.column(ROW_ID).to_numpy()
    order = np.argsort(ids, kind="stable")
    at = np.searchsorted(ids[order], row_ids)
    known = at < len(ids)
    known[known] = ids[order[at[known]]] == row_ids[known]
    result = found.take(pa.array(order[at[known]]))
    return result if columns is not None and ROW_ID in columns else result.drop_columns([ROW_ID])


def checked_ids(row_ids: Any) -> Integers:
    """Row ids as an array of integers, from a list, NumPy or Arrow."""
    if isinstance(row_ids, str | bytes) or not isinstance(row_ids, Iterable):
        raise InvalidInput(f"take needs a list of row ids, not {type(row_ids).__name__}.")
    try:
        values = row_ids if isinstance(row_ids, pa.Array | pa.ChunkedArray) else pa.array(list(row_ids))
        if pa.types.is_null(values.type) and not len(values):
            return np.empty(0, np.int64)
        if not pa.types.is_integer(values.type) or values.null_count:
            raise ValueError(f"they have type {values.type}, or are null")
        return np.asarray(values.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"Row ids must be integers, as in the column _row_id: {error}.") from None


__all__ = ["TakeScan", "checked_ids", "take_rows"]
