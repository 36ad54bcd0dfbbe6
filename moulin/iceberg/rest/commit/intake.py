"""Converts a snapshot of an engine: its files become segments and deletion vectors of one operation.

Only added and removed manifests are read, so the cost depends on the change. Data files are copied into segment
folders, where every reader of the lake expects them; the engine's files are deleted after the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from pyroaring import BitMap64

from moulin.catalog.objects.base_paths import segments_at
from moulin.errors import FailedPrecondition, InvalidInput, Unsupported
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.commit import trust
from moulin.iceberg.rest.commit.arrivals import Arrivals
from moulin.iceberg.rest.commit.engine_files import (
    DataFile,
    Entries,
    Folder,
    deleted_positions,
    read_manifests,
)
from moulin.iceberg.rest.commit.equality import find_rows, read_deletes
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.operations import Append, DataOperation, Delete, Expected, NewVector, Overwrite
from moulin.storage import paths
from moulin.table.commit.vectors import VectorTarget, write_vectors
from moulin.table.context import Context


@dataclass(frozen=True, slots=True)
class Taken:
    """What a snapshot does to the table, and the engine's files that are not needed once it is committed.

    `believed` says that not every file was read, `read` that some were.
    """

    operation: DataOperation | None
    leftovers: tuple[str, ...]
    believed: bool = False
    read: bool = False


def take_in(
    context: Context, state: TableState, base: Json | None, snapshot: Json, verify: str, *, replaces: bool = False
) -> Taken:
    """Read a snapshot that follows `base`, a snapshot of the table at `state`, and copy what it brings.

    `state` has the schemas and specs that the commit makes current; `verify` says which files are read.
    With `replaces`, what the table has goes.
    """
    intake = Intake(context, state, state.schema_id, verify)
    intake.replaces = replaces
    return intake.run(base, snapshot)


def copy_in(
    context: Context, state: TableState, folder: Folder, snapshot: Json, specs: Mapping[int, int]
) -> DataOperation | None:
    """Read a snapshot of a table that is not the lake's, whose files lie in `folder`, and copy all of it into `state`.

    `specs` leads from ids of its partition specs to the table's own. None when it has no rows.
    """
    intake = Intake(context, state, state.schema_id, trust.ALL)
    intake.folder, intake.foreign = folder, specs
    return intake.run(None, snapshot).operation


class Intake(Arrivals):
    """The files of one snapshot, against the table that it follows."""

    replaces = False

    def run(self, base: Json | None, snapshot: Json) -> Taken:
        old, new = self._entries(base, snapshot)
        gone = [where for where in old.data if where not in new.data]
        came = [file for where, file in new.data.items() if where not in old.data]
        deletes = [record for key, record in new.deletes.items() if key not in old.deletes]
        undone = [record for key, record in old.deletes.items() if key not in new.deletes]
        numbers = {file.location: number for file, number in zip(came, self._reserve(len(came)), strict=True)}
        copied = {file.location: self._arrived(file, numbers[file.location], at) for at, file in enumerate(came)}
        added = [facts for facts in copied.values() if facts is not None]
        positions = self._positions(deletes)
        removed = self._live(gone)
        if added and any(segment.facts.files for segment in removed.values()):
            raise FailedPrecondition(
                f"Files of {self.state.full_name} have columns beside them that engines do not see: fold the table "
                "(Table.fold, or `moulin compact`), and commit again."
            )
        touched = self._live([where for where in positions if where not in numbers])
        self._refuse_undeleted(undone, positions, removed, touched)
        vectors, whole = self._vectors(positions, touched, removed)
        whole += self._hide_equal(new.equality, touched, vectors, {*removed, *(one.facts.number for one in whole)})
        fresh: dict[int, BitMap64] = {}
        targets: dict[int, VectorTarget] = {}
        for where, found in positions.items():
            if where in copied:
                facts = copied[where]
                within = self._within(where, found, 0 if facts is None else facts.rows)
                if facts is not None:
                    fresh[facts.number], targets[facts.number] = within, VectorTarget(facts, within)
        targets |= {number: VectorTarget(touched[number].facts, found) for number, found in vectors.items()}
        written = write_vectors(self.store, self.state.id, targets)
        self.leftovers += [self.folder.path(where) for where in new.equality]
        if self.replaces:
            operation: DataOperation = Overwrite(
                added=tuple(added),
                added_vectors={number: written[number] for number in fresh},
                everything=True,
            )
            self.leftovers += [self.folder.path(record["file_path"]) for record in deletes]
            return self._taken(operation, len(came))
        kind: type[DataOperation] = Overwrite
        leaving = tuple(_expected(segment) for segment in (*removed.values(), *whole))
        if not leaving and not vectors:
            kind = Append
        elif not added:
            kind = Delete
        operation = kind(
            added=tuple(added),
            removed=leaving,
            vectors=tuple(NewVector(_expected(touched[number]), written[number]) for number in vectors),
            added_vectors={number: written[number] for number in fresh},
        )
        self.leftovers += [self.folder.path(record["file_path"]) for record in deletes]
        # A snapshot without changes is still a version, because its summary may matter.
        empty = self.foreign is not None and not added
        return self._taken(None if empty else operation, len(came))

    def _taken(self, operation: DataOperation | None, files: int) -> Taken:
        read = [trust.is_read(self.verify, at) for at in range(files)]
        return Taken(operation, tuple(dict.fromkeys(self.leftovers)), not all(read), any(read))

    def _entries(self, base: Json | None, snapshot: Json) -> tuple[Entries, Entries]:
        """The live files of the manifests that only the base has, and of those that only the snapshot has."""
        old = {} if base is None else self._list(base)
        new = self._list(snapshot)
        self.leftovers.append(self.folder.path(snapshot["manifest-list"]))
        fresh = [one for path, one in new.items() if path not in old]
        self.leftovers += [self.folder.path(one["manifest_path"]) for one in fresh]
        before = read_manifests(self.folder, [one for path, one in old.items() if path not in new])
        return before, read_manifests(self.folder, fresh)

    def _list(self, snapshot: Json) -> dict[str, Json]:
        records, _ = self.folder.avro(snapshot.get("manifest-list"))
        return {self.folder.path(record["manifest_path"]): record for record in records}

    def _positions(self, deletes: Sequence[Json]) -> dict[str, BitMap64]:
        """By location of the data file: the rows that new delete files name."""
        found: dict[str, BitMap64] = {}
        for record in deletes:
            for where, positions in deleted_positions(self.folder, record):
                found[where] = found[where] | positions if where in found else positions
        return found

    def _live(self, locations: Sequence[str]) -> dict[int, LiveSegment]:
        wanted = {self.folder.data_path(where): where for where in locations}
        numbers = self._numbers(list(wanted))
        live = self.context.catalog.segments_by_number(self.state.id, numbers, self.state.version)
        found = {segment.facts.path for segment in live.values()}
        if lost := wanted.keys() - found:
            raise InvalidInput(f"{wanted[min(lost)]} is not a live data file of the table.")
        return {number: segment for number, segment in live.items() if segment.facts.path in wanted}

    def _numbers(self, wanted: Sequence[str]) -> set[int]:
        """Numbers that segments at these paths may have."""
        numbers = {found[1] for path in wanted if (found := paths.parse_segment_path(path)) is not None}
        based = [path for path in wanted if paths.parse_base_path(path) is not None]
        if based:
            with self.context.own_catalog().pool.read() as connection:
                numbers |= segments_at(connection, based).keys()
        return numbers

    def _vectors(
        self, positions: Mapping[str, BitMap64], touched: Mapping[int, LiveSegment], removed: Mapping[int, LiveSegment]
    ) -> tuple[dict[int, BitMap64], list[LiveSegment]]:
        """All deleted rows of segments that lose some, and the segments that lose their last."""
        vectors: dict[int, BitMap64] = {}
        whole: list[LiveSegment] = []
        by_path = {segment.facts.path: segment for segment in touched.values()}
        for where, found in positions.items():
            segment = by_path.get(self.folder.data_path(where))
            if segment is None or segment.facts.number in removed:
                continue
            before = self._deleted(segment)
            after = before | self._within(where, found, segment.facts.rows)
            if len(after) == segment.facts.rows:
                whole.append(segment)
            elif len(after) > len(before):
                vectors[segment.facts.number] = after
        return vectors, whole

    def _hide_equal(
        self,
        files: Mapping[str, DataFile],
        touched: dict[int, LiveSegment],
        vectors: dict[int, BitMap64],
        gone: Set[int],
    ) -> list[LiveSegment]:
        """Add the rows that equality deletes name to the vectors of their segments; returns those that lose all."""
        if not files:
            return []
        if self.foreign is not None:  # they would refer to files that are copied in the same commit
            raise Unsupported(f"{min(files)} holds equality deletes: rewrite the files of the table first.")
        deletes = read_deletes(self.folder, self.state, list(files.values()))
        whole: list[LiveSegment] = []
        every = self.context.catalog.segments(self.state.id, self.state.version, with_columns=False)
        live = {one.facts.number: one for one in every if one.facts.number not in gone}
        for number, bitmap in find_rows(self.context, self.state, live.values(), deletes).items():
            segment = live[number]
            after = bitmap | vectors.pop(number, self._deleted(segment))
            if len(after) == segment.facts.rows:
                whole.append(segment)
            elif len(after) > len(self._deleted(segment)):
                touched[number], vectors[number] = segment, after
        return whole

    def _deleted(self, segment: LiveSegment) -> BitMap64:
        if segment.vector is None:
            return BitMap64()
        return self.context.vectors.get(self.store, segment.vector, segment.facts.rows)

    def _within(self, where: str, found: BitMap64, rows: int) -> BitMap64:
        if len(found) and found.max() >= rows:
            raise InvalidInput(f"A delete file names row {found.max()} of {where}, which has {rows} rows.")
        return found

    def _refuse_undeleted(
        self,
        undone: Sequence[Json],
        positions: Mapping[str, BitMap64],
        removed: Mapping[int, LiveSegment],
        touched: Mapping[int, LiveSegment],
    ) -> None:
        """A delete file may go when its data file goes, or when a new one names all of its rows."""
        given = {self.folder.data_path(where): found for where, found in positions.items()}
        for record in undone:
            path = self.folder.data_path(record.get("referenced_data_file"))
            if any(segment.facts.path == path for segment in removed.values()):
                continue
            segment = next((one for one in touched.values() if one.facts.path == path), None)
            if segment is None or not self._deleted(segment) <= given[path]:
                raise InvalidInput(f"The snapshot would bring back deleted rows of {path}: it drops their delete file.")


def _expected(segment: LiveSegment) -> Expected:
    return Expected(segment.facts.number, 0 if segment.vector is None else segment.vector.id)


__all__ = ["Intake", "Taken", "copy_in", "take_in"]
