"""One table in a transaction: a sequence of uncommitted changes.

Each change sees the previous ones: rows are written in the schema as altered so far, and conditions match rows that the
transaction itself added.
"""

# Decisions: docs/decisions/0259

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from moulin.errors import InvalidInput
from moulin.model.alteration import altered
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.operations import AlterSchema, Kind, RegionUse, SetProperties
from moulin.model.predicate import Predicate
from moulin.model.rows.rows import to_batches
from moulin.model.schema.change import SchemaChange
from moulin.model.where import Where
from moulin.table.commit.change import Change, DataChange, SettingChange
from moulin.table.context import Context
from moulin.table.find.index_search import Narrowed
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.ports import is_frame
from moulin.table.properties import effective
from moulin.table.read.scan import Scan, facts_by_field
from moulin.table.write.pieces import pieces
from moulin.table.write.upsert import UpsertDraft, newest, put_rows
from moulin.table.write.writes import Matches, find_matches, match_in, number_source, parse_delete, prepare_append


@dataclass(slots=True)
class Staged:
    """What a transaction has done to one table. `state` is the table as read, with the settings that were changed.

    `draft` has the segments written and the positions that no longer count, in those and in older ones; `whole` are
    older segments of which all rows go. Of a keyed table, `segments` are the rows of the regions held, and `uses` the
    regions.
    """

    context: Context
    state: TableState
    segments: tuple[LiveSegment, ...] = ()
    uses: tuple[RegionUse, ...] = ()
    draft: UpsertDraft = field(default_factory=UpsertDraft)
    whole: dict[int, int] = field(default_factory=dict)
    everything: bool = False
    settings: list[Change] = field(default_factory=list)

    # Settings

    def alter(self, change: SchemaChange) -> None:
        """Change the schema; rows are written in the new one from now on."""
        self.state, read = altered(self.state, [change]), self.state.version
        self.settings.append(SettingChange(self.state.id, read, AlterSchema((change,))))

    @property
    def properties(self) -> list[SetProperties]:
        """The changes of properties so far."""
        found = (change.operation for change in self.settings if isinstance(change, SettingChange))
        return [operation for operation in found if isinstance(operation, SetProperties)]

    def set_properties(self, operation: SetProperties) -> None:
        kept = {key: value for key, value in self.state.properties.items() if key not in operation.removals}
        self.state = replace(self.state, properties={**kept, **operation.updates})
        self.settings.append(SettingChange(self.state.id, self.state.version, operation))

    # Rows

    def append(self, data: Any) -> int:
        """Add rows to an event table; returns how many."""
        added = prepare_append(self.context, self.state, data).added
        self.draft.added += added
        return sum(facts.rows for facts in added)

    def batches(self, data: Any) -> list[pa.RecordBatch]:
        """Rows of `data` in the schema of now; those of a Spark DataFrame come to this process."""
        return list(to_batches(data.toArrow() if is_frame(data) else data, self.state.schema))

    def upsert(self, keyed: KeyedTable, batches: Sequence[pa.RecordBatch]) -> int:
        """Insert or replace rows of a keyed table; returns how many. REQUIRES: their regions are held."""
        key, numbers = Key.of(self.state.schema), number_source(self.context)
        assert key is not None
        size = effective(self.context.config, self.state.properties).append_segment_bytes
        rows = 0
        for piece in pieces(batches, self.state.schema, size):
            for value, part in keyed.spec.split(newest(key, piece)):
                number = self.context.catalog.region(self.state.id, value).number
                older = [] if self.everything else keyed.spec.searched(self.segments, number)
                put_rows(self.context, self.state, self.draft, older, part, numbers, region=number)
                rows += part.num_rows
        return rows

    def delete(self, where: Where) -> int:
        """Delete the rows that match, those that the transaction added too; returns how many."""
        predicate = parse_delete(where, self.state)
        rows = 0
        if not self.everything:
            found = find_matches(self.context, self.state, predicate)
            rows += self._hide(found)
            for segment in found.whole:
                self.whole[segment.facts.number] = segment.vector.id if segment.vector else 0
        found = match_in(self.context, self.state, predicate, self._own(predicate))
        rows += self._hide(found)
        gone = {segment.facts.number for segment in found.whole}
        self.draft.added = [facts for facts in self.draft.added if facts.number not in gone]
        for number in (*gone, *self.whole):
            self.draft.positions.pop(number, None)
        return rows

    def remove(self, where: Where) -> None:
        """Delete the rows that match; without a condition, whatever there is when the transaction commits."""
        if where is not None:
            self.delete(where)
        else:
            self.draft, self.whole, self.everything = UpsertDraft(), {}, True

    def replace(self, data: Any, where: Where) -> None:
        """Put rows in place of those that match, or of all; of an event table."""
        added = prepare_append(self.context, self.state, data).added  # before anything goes: it may not fit
        self.remove(where)
        self.draft.added += added

    def _own(self, predicate: Predicate) -> list[LiveSegment]:
        """Segments that the transaction added and that may hold a match."""
        written = [LiveSegment(facts, 0, 0, 0) for facts in self.draft.added]
        return [s for s in written if predicate.may_match(facts_by_field(s), s.facts.rows)]

    def _hide(self, found: Matches) -> int:
        """Hide matching rows; returns how many of them were not hidden or gone before."""
        rows = 0
        for segment in found.whole:
            if segment.facts.number not in self.whole:
                rows += segment.live_rows - len(self.draft.positions.get(segment.facts.number, ()))
        for number, bitmap in found.positions.items():
            if number not in self.whole:
                before = self.draft.positions.get(number, BitMap64())
                rows += len(bitmap - before)
                self.draft.positions[number] = before | bitmap
        return rows

    # What becomes of it

    def changes(self) -> list[Change]:
        """All of it, to commit: settings first, for rows may be in a schema that they make."""
        change = self.draft.change(self.state, self.uses)
        positions = {} if self.everything else {n: p for n, p in change.positions.items() if n not in self.whole}
        deletes = bool(positions or self.whole or self.everything)
        if not (change.added or deletes):
            return self.settings
        whole = {} if self.everything else dict(self.whole)
        return [
            *self.settings,
            replace(
                change, kind=self._kind(change, deletes), positions=positions, whole=whole, everything=self.everything
            ),
        ]

    def _kind(self, change: DataChange, deletes: bool) -> Kind:
        if self.everything:
            return Kind.OVERWRITE
        if not change.added:
            return Kind.DELETE
        if self.state.schema.identifier_field_ids:
            return Kind.UPSERT
        return Kind.OVERWRITE if deletes else Kind.APPEND

    def scan(self, columns: Sequence[str] | None, where: Where, limit: int | None) -> Scan:
        """The rows as the transaction has left them so far."""
        return StagedScan(self, columns, where, limit)


class StagedScan(Scan):
    """Rows of one table as a transaction sees them: those that it read, less what it deleted, and what it added."""

    def __init__(self, staged: Staged, columns: Sequence[str] | None, where: Where, limit: int | None) -> None:
        context, draft = staged.context, staged.draft
        super().__init__(
            context.catalog,
            context.store,
            context.vectors,
            staged.state,
            columns=columns,
            where=where,
            limit=limit,
            indexes=context.secondary,
            pins=context.pins,
        )
        if self._hidden.names and draft.added:
            raise InvalidInput(
                f"Rows that the transaction added have no {self._hidden.names[0]} before it commits: remove it."
            )
        self._own = staged._own(self._predicate)
        self._hides: Mapping[int, BitMap64] = dict(draft.positions)
        self._gone, self._everything = frozenset(staged.whole), staged.everything

    def count(self) -> int:
        bare = copy.copy(self)
        bare._columns, bare._hidden, bare.schema = [], replace(self._hidden, shown=()), pa.schema([])
        rows: int = sum(table.num_rows for table in bare._held(bare._hold()))
        return rows if self._limit is None else min(rows, self._limit)

    def _planned(self) -> Narrowed:
        found = Narrowed([]) if self._everything else super()._planned()
        kept = [segment for segment in found.segments if segment.facts.number not in self._gone]
        return replace(found, segments=[*kept, *self._own])

    def _tables(self) -> Iterator[pa.Table]:
        yield from self._committed(self._hides)


__all__ = ["Staged", "StagedScan"]
