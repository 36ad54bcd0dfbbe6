"""Erase rows from every version of a table, and of all tables that share its segments. Read this first.

1. Finish an interrupted erase. 2. Record the start in the catalog. 3. Flush and empty logs, so that every row is in a
segment. 4. Find rows (`find.py`) and rewrite segments (`scrub.py`). 5. Replace the files in every version, in one
commit. 6. Handle manifests, old files and the catalog's own file, which any process can finish
(`catalog/upkeep/erasures.py`).
"""

# Decisions: docs/decisions/0440, docs/decisions/0441, docs/decisions/0442

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import Any
from uuid import UUID

from moulin.catalog.catalog import Catalog, local_catalog
from moulin.catalog.commit.erase import Moved, PreparedErase
from moulin.catalog.upkeep import erasable, erasures
from moulin.catalog.upkeep.erasable import Relatives
from moulin.errors import Conflict, FailedPrecondition, Fenced, MoulinError
from moulin.formats import deletion_vector
from moulin.model.operations import RegionUse
from moulin.model.where import Where
from moulin.storage import paths
from moulin.table.context import Context
from moulin.table.erase import report as reports
from moulin.table.erase.find import Found, Look, Question, find, read_condition
from moulin.table.erase.scrub import Scrubbed, ScrubSlice, layout_of, scrub_slice, write_erased_vectors
from moulin.table.erase.streams import erase_streams
from moulin.table.index.index import update_indexes
from moulin.table.keyed.tables import keyed_table, open_on_any_line

_ATTEMPTS = 20  # when others commit while rows are looked for
Step = Callable[[str], None]
Held = dict[UUID, Sequence[RegionUse]]  # the regions of tables that wait


def erase_rows(context: Context, table_id: UUID, where: Where, step: Step = lambda name: None) -> dict[str, Any]:
    """Erase the rows that match from every version. Returns when their bytes are gone, as far as they can be.

    What it did is the report, without its signature.
    """
    catalog = local_catalog(context.own_catalog())  # the lake's, also for a table of a branch
    assert catalog is not None
    left = erasures.finish_all(catalog)
    question = read_condition(erasable.relatives(catalog, table_id), table_id, where)
    erasure_id = erasures.begin(catalog, table_id, question.outline)
    step("begun")
    same = [one for one in left if one["condition"] == question.outline and one["table_id"] == str(table_id)]
    try:
        with ExitStack() as stack:
            held = _hold(stack, context, catalog, table_id)
            step("flushed")
            stack.enter_context(catalog.writing())
            work = _Work(context, catalog, table_id, where, erasure_id, held, step)
            stack.push(work.take_back)
            committed = work.run(only_rows=bool(same))
    except BaseException:
        erasures.give_up(catalog, erasure_id)
        raise
    if not committed:  # it was killed after its commit, and finished just now
        erasures.give_up(catalog, erasure_id)
        return same[-1]
    step("committed")
    report = erasures.finish(catalog, erasure_id, step)
    family = erasable.relatives(catalog, table_id)
    streams = erase_streams(catalog, family.states, read_condition(family, table_id, where))
    report["deleted"] = sorted({*report["deleted"], *streams.deleted})
    report["pending"] = streams.pending
    _rebuild_indexes(context, catalog, table_id)
    return report


def _hold(stack: ExitStack, context: Context, catalog: Catalog, table_id: UUID) -> Held:
    """Flush and empty the logs of every keyed table of the family, and let puts and merges wait."""
    held: Held = {}
    family = erasable.relatives(catalog, table_id)
    for one, state in sorted(family.states.items()):
        if one in family.dropped or not state.schema.identifier_field_ids:
            continue
        keyed = open_on_any_line(context, one) or keyed_table(context, one)
        assert keyed is not None
        try:
            keyed.flush()
            held[one] = stack.enter_context(keyed.emptied_logs())
        except Fenced as error:
            raise FailedPrecondition(
                f"Another process has {state.full_name} open for puts, and rows in its log: close the table there, and "
                f"erase again. ({error.message})"
            ) from error
    return held


def _rebuild_indexes(context: Context, catalog: Catalog, table_id: UUID) -> None:
    """Cover segments of deleted index files again; a table that changes is covered by the next call."""
    family = erasable.relatives(catalog, table_id)
    for one in family.states.keys() - family.dropped:
        if catalog.indexes(one):
            update_indexes(context, catalog.table_by_id(one))
        if (keyed := open_on_any_line(context, one)) is not None:
            keyed.refresh()


class _Work:
    """Finds, scrubs and commits, again and again until nothing came in between."""

    def __init__(
        self,
        context: Context,
        catalog: Catalog,
        table_id: UUID,
        where: Where,
        erasure_id: UUID,
        held: Held,
        step: Step,
    ) -> None:
        self._context, self._catalog, self._step = context, catalog, step
        self._table_id, self._where, self._id, self._held = table_id, where, erasure_id, held
        self._scrubbed: dict[int, Scrubbed] = {}
        self._found: dict[int, Found] = {}
        self._looked: frozenset[Look] = frozenset()
        self._may_be_committed = False

    def run(self, *, only_rows: bool) -> bool:
        """Commit, with `only_rows` if a row matched; whether it did.

        What was looked at once is not looked at again: segments do not change.
        """
        for _ in range(_ATTEMPTS):
            family = erasable.relatives(self._catalog, self._table_id)
            question = read_condition(family, self._table_id, self._where)
            fresh, every = find(self._context, self._catalog, family, question, self._looked)
            self._step("found")
            self._throw_away([one.number for one in fresh])  # they have other column files than before
            self._found.update({one.number: one for one in fresh})
            self._looked = every
            self._scrub(family, [one for one in fresh if not one.is_whole])
            if self._reload({number for number, _ in every}):
                continue
            if only_rows and not self._found:
                return False
            if self._committed(family, question):
                return True
        raise Conflict("Other writers kept changing the table: nothing was erased. Retry.")

    def take_back(self, kind: type[BaseException] | None, *_: object) -> None:
        """After an error: delete what was written and surely not committed."""
        if kind is not None and not self._may_be_committed:
            with suppress(MoulinError):
                self._throw_away(list(self._scrubbed))
        if self._catalog.pool.living is not None:
            self._catalog.pool.living.settle(self._found)

    def _throw_away(self, numbers: Iterable[int]) -> None:
        """Delete what was written of segments and is not committed."""
        written = [self._scrubbed.pop(number) for number in numbers if number in self._scrubbed]
        self._context.store.delete(path for one in written for path in one.paths)

    def _reload(self, every: Collection[int]) -> bool:
        """The vectors that spans have now; whether a segment is to be looked at again: another erase has changed it.

        Segments removed by clean-up need nothing more.
        """
        self._found = {number: one for number, one in self._found.items() if number in every}
        loaded = erasable.load(self._catalog, sorted(self._found))
        current = {one.segment.facts.number: one for one in loaded}
        self._found = {number: one for number, one in self._found.items() if number in current}
        other = {
            number
            for number, one in self._found.items()
            if current[number].segment.facts.path != one.shared.segment.facts.path
        }
        self._looked = frozenset(look for look in self._looked if look[0] not in other)
        self._throw_away(other)  # they hold what the other erased
        kept = self._found.keys() - other
        self._found = {number: Found(current[number], self._found[number].positions) for number in kept}
        return bool(other)

    def _scrub(self, family: Relatives, found: Sequence[Found]) -> None:
        if not found:
            return
        self._catalog.pool.note_reserved(min(one.number for one in found), 1)  # clean-up leaves the new files alone
        slices = []
        for one in found:
            facts = one.shared.segment.facts
            layout = layout_of(family.states[one.shared.owner], facts)
            blob = deletion_vector.encode(one.positions)
            files = tuple((one.shared.makers[file.path], file) for file in one.shared.files)
            slices.append(ScrubSlice(self._context.store, layout, facts, blob, files))
        size = sum(one.shared.segment.facts.size for one in found)
        for written in self._context.runner(size).map(scrub_slice, slices):
            self._scrubbed[written.facts.number] = written
        self._step("scrubbed")

    def _committed(self, family: Relatives, question: Question) -> bool:
        parts = [one for number, one in self._found.items() if number in self._scrubbed]
        written = {number: one.facts for number, one in self._scrubbed.items()}
        vectors, owners = write_erased_vectors(self._context.store, parts, written)
        self._step("vectors")
        prepared = PreparedErase(
            id=self._id,
            table_id=self._table_id,
            family=frozenset(family.states),
            read_version=family.version,
            examined=self._looked,
            partitions=family.partitions,
            sources={one.number: one.shared.segment.facts.path for one in self._found.values()},
            segments=tuple(written[one.number] for one in parts),
            columns={path: file for one in parts for path, file in self._scrubbed[one.number].files},
            vectors=vectors,
            owners=owners,
            removed=frozenset(one.number for one in self._found.values() if one.is_whole),
            outline=question.outline,
            held=self._held,
        )
        self._may_be_committed = True
        try:
            erasures.commit(self._catalog, prepared, self._report(family, question))
        except Moved:
            self._may_be_committed = False
            return False
        return True

    def _report(self, family: Relatives, question: Question) -> dict[str, Any]:
        found = sorted(self._found.values(), key=lambda one: one.number)
        rewritten = [
            {
                "segment": one.number,
                "before": one.shared.segment.facts.path,
                "after": self._scrubbed[one.number].facts.path,
                "sha256": self._scrubbed[one.number].facts.sha256.hex(),
                "rows": len(one.positions),
                "columns": [
                    {"before": path, "after": file.path, "sha256": file.sha256.hex()}
                    for path, file in self._scrubbed[one.number].files
                ],
            }
            for one in found
            if not one.is_whole
        ]
        removed = [
            {"segment": one.number, "before": one.shared.segment.facts.path, "rows": len(one.positions)}
            for one in found
            if one.is_whole
        ]
        return {
            "format": reports.FORMAT,
            "lake": str(self._catalog.uuid),
            "erasure": str(self._id),
            "table": family.states[self._table_id].full_name,
            "table_id": str(self._table_id),
            "condition": question.outline,
            "tables": sorted(state.full_name for state in family.states.values()),
            "rows": sum(len(one.positions) for one in found),
            "rewritten": rewritten,
            "removed": removed,
            "unread_columns": list(question.unread),
            "unreachable": _unreachable(family) + _adopted(found),
        }


def _adopted(found: Sequence[Found]) -> list[str]:
    """Adopted files that contain erased rows: the table has its own files instead."""
    places = [one.shared.segment.facts.path for one in found]
    return [f"{path}, an adopted file, which is not the lake's to delete" for path in places if paths.is_adopted(path)]


def _unreachable(family: Relatives) -> list[str]:
    """What may hold the rows and is not in this lake's hands."""
    found = [
        "exports, copies made with copy=True, and files that engines or users wrote elsewhere",
        "mirrors: each takes the erase over when it next runs",
        "old versions of objects that the store keeps, snapshots and backups of disks, caches of other machines",
        "logs, query results and checkpoints of other systems, and statistics that engines wrote about columns",
        "folders of purged tables, until clean-up has deleted them",
    ]
    if family.dropped:
        names = sorted(family.states[one].full_name for one in family.dropped)
        found.append(f"rows that only logs of dropped tables hold, until they are purged: {', '.join(names)}")
    found += [f"table {one}, which was dropped and had the same name, until it is purged" for one in family.replaced]
    return found


__all__ = ["erase_rows"]
