"""Rows of engines for a table with a primary key: appended rows replace rows with the same keys.

The regions of the table are held from before the head is read until the commit, so that no put is lost. Rows are
rewritten in key order with key indexes; older rows with their keys are found by key index and hidden in the same
version, as are rows in delete files.
"""

# Decisions: docs/decisions/0512

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from moulin.errors import Fenced, InvalidInput
from moulin.formats import deletion_vector
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.commit import trust
from moulin.iceberg.rest.commit.engine_files import DataFile, checked_partition
from moulin.iceberg.rest.commit.equality import find_rows, read_deletes
from moulin.iceberg.rest.commit.intake import Intake
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.operations import Kind, RegionUse
from moulin.model.rows.rows import to_batches
from moulin.storage import paths
from moulin.table.bulk.commit import plan_held
from moulin.table.bulk.drafts import Drafts
from moulin.table.bulk.writer import write_runs
from moulin.table.commit.change import DataChange
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.log import owner
from moulin.table.keyed.tables import keyed_table
from moulin.table.keyed.version import KeyedVersion
from moulin.table.write.writes import number_source


@dataclass(frozen=True, slots=True)
class Held:
    """A keyed table whose regions are held, and its state."""

    keyed: KeyedTable
    seen: KeyedVersion
    uses: Sequence[RegionUse]


@dataclass(frozen=True, slots=True)
class KeyedTaken:
    """What a snapshot does to a keyed table, and the engine's files that are not needed once it is committed.

    `is_pure` says that it only brings rows.
    """

    change: DataChange
    leftovers: tuple[str, ...]
    is_pure: bool


def hold(context: Context, state: TableState, until: ExitStack) -> Held:
    """Hold a keyed table. Raises Fenced when another process has it open for puts; its message says which."""
    keyed = keyed_table(context, state.id)
    assert keyed is not None
    try:
        keyed.ready()
        seen, uses = until.enter_context(keyed.held())
    except Fenced as error:
        owners = {region.owner for region in context.catalog.regions(state.id) if region.owner}
        others = sorted(owner.shown(one) for one in owners if not owner.is_mine(one))
        if not others:
            raise
        raise Fenced(
            f"{state.full_name} is open for puts in {', '.join(others)}: put the rows there, or close the table there "
            "and try again. Nothing was changed."
        ) from error
    return Held(keyed, seen, uses)


def take_in_keyed(
    context: Context, state: TableState, base: Json | None, snapshot: Json, held: Held, until: ExitStack
) -> KeyedTaken:
    """Read a snapshot that follows `base`, and write what it brings; nothing is committed.

    `state` has the schema that the commit makes current. Regions that the rows are the first of are held, too.
    """
    return _KeyedIntake(context, state, held, until).change(base, snapshot)


class _KeyedIntake(Intake):
    def __init__(self, context: Context, state: TableState, held: Held, until: ExitStack) -> None:
        super().__init__(context, state, state.schema_id, trust.ALL)
        self.held, self.until = held, until

    def change(self, base: Json | None, snapshot: Json) -> KeyedTaken:
        old, new = self._entries(base, snapshot)
        gone = [where for where in old.data if where not in new.data]
        came = {where: file for where, file in new.data.items() if where not in old.data}
        deletes = [record for key, record in new.deletes.items() if key not in old.deletes]
        undone = [record for key, record in old.deletes.items() if key not in new.deletes]
        positions = self._positions(deletes)
        removed = self._live(gone)
        touched = self._live([where for where in positions if where not in came])
        self._refuse_undeleted(undone, positions, removed, touched)
        hidden, whole = self._vectors(positions, touched, removed)
        hidden |= {one.facts.number: BitMap64(range(one.facts.rows)) for one in whole}
        live = [one for one in self.held.seen.segments if one.facts.number not in removed]
        equal = find_rows(
            self.context, self.state, live, read_deletes(self.folder, self.state, list(new.equality.values()))
        )
        change = self._written(came.values(), positions)
        change = _with_deletes(change, (hidden, equal), removed)
        self.leftovers += [self.folder.path(record["file_path"]) for record in deletes]
        self.leftovers += [self.folder.path(where) for where in new.equality]
        is_pure = not (gone or deletes or undone or new.equality)
        return KeyedTaken(change, tuple(dict.fromkeys(self.leftovers)), is_pure)

    def _written(self, files: Iterable[DataFile], positions: Mapping[str, BitMap64]) -> DataChange:
        """The upsert of the rows of data files. Rejects duplicate keys."""
        context, held, seen = self.context, self.held, self.held.seen
        plan = plan_held(context, held.keyed, replace(seen, state=self.state))
        runs = write_runs(plan, context, self._batches(files, positions), number_source(context))
        drafts = Drafts.of(context, held.keyed, plan, runs)
        known = {use.number for use in held.uses}
        fresh = [value for value in drafts.values if drafts.numbers[value] not in known]
        uses = [*held.uses]
        if fresh:
            now, more = self.until.enter_context(held.keyed.held(fresh))
            drafts.settle(context, plan, now)
            uses += more
        return drafts.change(seen.state, uses)

    def _batches(self, files: Iterable[DataFile], positions: Mapping[str, BitMap64]) -> Iterator[pa.RecordBatch]:
        for file in files:
            if not paths.is_adopted(self.folder.path(file.location)):
                self.leftovers.append(self._path(file))
            table = self._read(file)[2]
            if not table.num_rows:
                continue
            checked_partition(self.state, file, table, self.schema)
            if file.location in positions:
                deleted = self._within(file.location, positions[file.location], table.num_rows)
                kept = np.ones(table.num_rows, np.bool_)
                kept[deletion_vector.to_array(deleted)] = False
                table = table.filter(pa.array(kept))
            yield from to_batches(table.select(self.schema.column_names), self.schema)


def _with_deletes(
    change: DataChange, deletes: Iterable[Mapping[int, BitMap64]], removed: Mapping[int, LiveSegment]
) -> DataChange:
    """An upsert, and rows and segments that go in the same version."""
    positions = {number: bitmap for number, bitmap in change.positions.items() if number not in removed}
    for some in deletes:
        for number, bitmap in some.items():
            positions[number] = positions[number] | bitmap if number in positions else bitmap
    if overlap := removed.keys() & positions.keys():
        raise InvalidInput(f"The snapshot removes the file of segment {min(overlap)}, and deletes rows of it.")
    whole = {number: 0 if one.vector is None else one.vector.id for number, one in removed.items()}
    kind = Kind.OVERWRITE if whole and change.added else Kind.UPSERT if change.added else Kind.DELETE
    return replace(change, kind=kind, positions=positions, whole=whole)


__all__ = ["Held", "KeyedTaken", "hold", "take_in_keyed"]
