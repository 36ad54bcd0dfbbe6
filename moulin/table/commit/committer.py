"""The committer: prepares changes, rebases them onto newer versions, and commits them with bounded retries.

Reading and writing deletion vectors and journals is I/O, so it happens here, before the catalog's lock is taken. If the
catalog reports a conflict that a rebase can solve, the change is rebased and retried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from moulin.catalog.backend import CatalogBackend
from moulin.catalog.commit.table_commit import CommitResult, Stale, TableCommit
from moulin.formats import deletion_vector
from moulin.formats.journal import Journal, JournalSet
from moulin.model.columns.arrays import distinct
from moulin.model.conflicts import Verdict
from moulin.model.facts import LiveSegment, VectorFacts
from moulin.model.operations import (
    Append,
    Compact,
    Delete,
    Expected,
    Kind,
    NewVector,
    Operation,
    Overwrite,
    Trim,
    Upsert,
)
from moulin.storage.store import Store
from moulin.table.commit.change import Change, CompactionChange, DataChange, SettingChange
from moulin.table.commit.retry import must_rebase, retry
from moulin.table.commit.vectors import VectorCache, VectorTarget, write_vectors

_DATA = {
    Kind.APPEND: Append,
    Kind.DELETE: Delete,
    Kind.UPSERT: Upsert,
    Kind.TRIM: Trim,
    Kind.OVERWRITE: Overwrite,
}


class Committer:
    """Commits changes of one lake."""

    def __init__(self, catalog: CatalogBackend, store: Store, vectors: VectorCache) -> None:
        self._catalog, self._store, self._vectors = catalog, store, vectors

    def commit(
        self, changes: Sequence[Change], *, request_id: str | None = None, digest: bytes | None = None
    ) -> CommitResult:
        """Commit all `changes` as one version. Rebases as often as the configuration allows, then raises the
        Conflict.
        """
        files = not all(isinstance(change, DataChange) and change.is_inline for change in changes)
        with self._catalog.writing() if files else nullcontext():
            return self._commit(changes, request_id, digest)

    def _commit(self, changes: Sequence[Change], request_id: str | None, digest: bytes | None) -> CommitResult:
        attempts = count(1)

        def run() -> CommitResult:
            rebased = next(attempts) > 1
            prepared = [self._prepare(change, rebased=rebased) for change in changes]
            return self._catalog.commit(prepared, request_id=request_id, digest=digest)

        return retry(self._catalog.config.commit_attempts, run, must_rebase)

    def prepared(self, change: DataChange) -> TableCommit:
        """Rebase a change onto the newest version, for callers that commit it themselves; writes its vectors."""
        return self._prepare(change, rebased=False)

    def _prepare(self, change: Change, *, rebased: bool) -> TableCommit:
        match change:
            case SettingChange():
                return TableCommit(
                    change.table_id, change.read_version, change.operation, change.summary, change.regions
                )
            case CompactionChange():
                return self._prepare_compaction(change, rebased=rebased)
            case DataChange() if not change.positions and not change.whole and not change.added_positions:
                operation: Operation
                if change.kind is Kind.OVERWRITE:
                    operation = Overwrite(added=change.added, everything=change.everything)
                else:
                    operation = _DATA[change.kind](added=change.added)
                return TableCommit(change.table_id, change.read_version, operation, change.summary, change.regions)
            case DataChange():
                return self._prepare_data(change)

    def _prepare_data(self, change: DataChange) -> TableCommit:
        version = self._catalog.version()
        change = self._carry_over(change, version)
        live = self._live(change, [*change.positions, *change.whole], version)
        targets: dict[int, VectorTarget] = {}
        removed = [Expected(number, _vector_id(live[number])) for number in change.whole]
        for number, positions in change.positions.items():
            segment = live[number]
            deleted = self._deleted(segment)
            if change.exact and deleted and not positions.isdisjoint(deleted):
                raise _retry(change, number)
            union = positions | deleted if deleted else positions
            if len(union) == segment.facts.rows:
                removed.append(Expected(number, _vector_id(segment)))
            elif len(union) > len(deleted):
                targets[number] = VectorTarget(segment.facts, union)
        added = {facts.number: facts for facts in change.added}
        own = {number: VectorTarget(added[number], bitmap) for number, bitmap in change.added_positions.items()}
        written = write_vectors(self._store, change.table_id, targets | own)
        stored = {number: written[number] for number in targets}
        vectors = tuple(
            NewVector(Expected(number, _vector_id(live[number])), facts) for number, facts in stored.items()
        )
        operation = _DATA[change.kind](
            added=change.added,
            removed=tuple(removed),
            vectors=vectors,
            added_vectors={number: written[number] for number in own},
        )
        if isinstance(operation, Overwrite):
            operation = replace(operation, everything=change.everything)
        return TableCommit(change.table_id, version, operation, change.summary, change.regions)

    def _carry_over(self, change: DataChange, version: int) -> DataChange:
        """Map positions through compactions of their segments since the change was prepared."""
        numbers = [*change.positions, *change.whole]
        present = self._catalog.segments_by_number(change.table_id, numbers, version)
        gone = [number for number in numbers if number not in present]
        if not gone:
            return change
        if change.kind is not Kind.DELETE and change.kind is not Kind.TRIM and change.kind is not Kind.UPSERT:
            raise _retry(change, gone[0])
        positions = {number: bitmap for number, bitmap in change.positions.items() if number in present}
        whole = {number: vector for number, vector in change.whole.items() if number in present}
        before = self._catalog.segments_by_number(change.table_id, gone, change.read_version)
        for number in gone:
            bitmap = change.positions.get(number)
            if bitmap is None:
                segment = before[number]
                bitmap = BitMap64(range(segment.facts.rows)) - self._deleted(segment)
            followed = self._follow(change, number, bitmap, version)
            if change.exact and sum(map(len, followed.values())) < len(bitmap):
                raise _retry(change, number)
            for target, moved in followed.items():
                positions[target] = positions.get(target, BitMap64()) | moved
        return replace(change, positions=positions, whole=whole)

    def _follow(self, change: DataChange, number: int, positions: BitMap64, version: int) -> dict[int, BitMap64]:
        result: dict[int, BitMap64] = {}
        waiting = [(number, deletion_vector.to_array(positions), change.read_version)]
        while waiting:
            segment, rows, after = waiting.pop()
            if segment in self._catalog.segments_by_number(change.table_id, [segment], version):
                moved = deletion_vector.from_positions(rows)
                result[segment] = result.get(segment, BitMap64()) | moved
                continue
            compactions = self._catalog.compactions_of(change.table_id, [segment], after)
            if not compactions or not compactions[0].journals:
                raise _retry(change, segment)
            targets, where = self._journals(compactions[0].journals).lookup(segment, rows)
            for target in distinct(targets[targets >= 0]).tolist():
                waiting.append((target, where[targets == target], compactions[0].version))
        return result

    def _prepare_compaction(self, change: CompactionChange, *, rebased: bool) -> TableCommit:
        """Applies deletes in the inputs since they were read to the outputs.

        An input that is gone stays expected at first, so that the catalog judges by what; only when it says that a
        rebase helps was it emptied by deletes, and then all its rows count as deleted.
        """
        live = self._catalog.segments_by_number(change.table_id, change.inputs, self._catalog.version())
        outputs = {facts.number: facts for facts in change.added}
        moved: dict[int, BitMap64] = {}
        journals: JournalSet | None = None
        for number, used in change.inputs.items():
            segment = live.get(number)
            if segment is None and not rebased:
                continue
            if segment is not None and _vector_id(segment) == (used.id if used else 0):
                continue
            journals = journals or self._journals(change.journals)
            for target, bitmap in _moved(journals, number, self._newly_deleted(journals, number, segment, used)):
                moved[target] = moved.get(target, BitMap64()) | bitmap
        emptied = {number for number, bitmap in moved.items() if len(bitmap) == outputs[number].rows}
        targets = {
            number: VectorTarget(outputs[number], bitmap) for number, bitmap in moved.items() if number not in emptied
        }
        operation = Compact(
            added=tuple(facts for facts in change.added if facts.number not in emptied),
            removed=tuple(
                Expected(number, _vector_id(live[number]) if number in live else (used.id if used else 0))
                for number, used in change.inputs.items()
                if number in live or not rebased
            ),
            added_vectors=write_vectors(self._store, change.table_id, targets),
            journals=change.journals,
            journal_outputs=change.journal_outputs,
            claim=change.claim,
        )
        inline = bool(live) and all(segment.facts.inline is not None for segment in live.values())
        return TableCommit(change.table_id, change.read_version, operation, change.summary, of_inline=inline)

    def _newly_deleted(
        self, journals: JournalSet, number: int, segment: LiveSegment | None, used: VectorFacts | None
    ) -> npt.NDArray[np.int64]:
        """Positions of an input that were live when it was read and no longer are."""
        if segment is None:
            return np.concatenate([np.arange(start, stop) for start, stop in journals.coverage(number)])
        newer = self._deleted(segment)
        if used is not None:
            newer = newer - self._vectors.get(self._store, used, segment.facts.rows)
        return deletion_vector.to_array(newer)

    def _journals(self, paths: Sequence[str]) -> JournalSet:
        return JournalSet([Journal.decode(self._store.get(path), source=f"Journal {path}") for path in paths])

    def _deleted(self, segment: LiveSegment) -> BitMap64:
        if segment.vector is None:
            return BitMap64()
        return self._vectors.get(self._store, segment.vector, segment.facts.rows)

    def _live(self, change: DataChange, numbers: Sequence[int], version: int) -> dict[int, LiveSegment]:
        live = self._catalog.segments_by_number(change.table_id, numbers, version)
        for number in numbers:
            if number not in live:
                raise _retry(change, number)
        return live


def _moved(journals: JournalSet, segment: int, positions: npt.NDArray[np.int64]) -> Iterator[tuple[int, BitMap64]]:
    """The positions of these input rows in the outputs, without rows that the compaction dropped."""
    targets, where = journals.lookup(segment, positions)
    for target in distinct(targets[targets >= 0]).tolist():
        yield target, deletion_vector.from_positions(where[targets == target])


def _vector_id(segment: LiveSegment) -> int:
    return segment.vector.id if segment.vector else 0


def _retry(change: DataChange, segment: int) -> Stale:
    return Stale(
        f"The {change.kind} conflicts with another commit: rows of segment {segment} were removed since version "
        f"{change.read_version}. "
        "Read the table again and retry.",
        Verdict.RETRY,
        requirement=f"segment {segment}",
        expected="live",
        found="gone",
    )
