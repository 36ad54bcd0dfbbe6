"""Adds columns with values: pending at first, filled group by group, then completed.

A fill runs concurrently with appends, deletes, upserts and compactions, without conflicts. Each group is a task like
that of a compaction, so that no other worker rewrites its segments at the same time, and one commit. A killed fill
continues when it is called again: its state is in the table's properties, and the remaining work are the live segments
without a file of the column.
"""

# Decisions: docs/decisions/0421, docs/decisions/0422, docs/decisions/0471

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.tasks.merge_tasks import FILL, PlannedTask
from moulin.errors import AlreadyExists, FailedPrecondition, Fenced, MoulinError, NotFound
from moulin.model.alteration import altered
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFile, LiveSegment
from moulin.model.file_settings import FileSettings
from moulin.model.filling import Filling, fillings_of
from moulin.model.ids import new_id
from moulin.model.operations import AlterSchema, Claim, Fill, RegionUse, SetProperties
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.change import AddColumn, DropColumn, FillColumn, SchemaChange
from moulin.model.schema.schema import find_column, nested_ids
from moulin.model.schema.values import IcebergType, NestedField, Schema
from moulin.table.commit.change import SettingChange, after_commit
from moulin.table.commit.retry import must_recompute, retry
from moulin.table.compact.worker import heartbeats
from moulin.table.context import Context
from moulin.table.fill.compute import Compute
from moulin.table.fill.kernel import FillSlice, fill_segments
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.read.quarantine import refuse_quarantined
from moulin.table.runner import LocalRunner, Stopped, never
from moulin.table.write.writes import Outcome, balanced

_GROUP_BYTES = 1 << 30  # of the columns that a fill reads, about
_GROUP_SEGMENTS = 64
_LEASE_SECONDS = 10.0  # the maximum wait of a process that resumes after a kill
_PATIENCE_SECONDS = 1.0

WORKER = "fill "
"""How the names of those begin who claim tasks for fills."""
NewColumn = tuple[str, IcebergType]


@dataclass(frozen=True)
class Filler:
    """Fills pending columns of one table; `load` gives its newest state."""

    context: Context
    load: Callable[[], TableState]
    keyed: KeyedTable | None
    names: tuple[str, ...]
    compute: Compute
    stopped: Callable[[], bool] = never

    def run(self) -> Outcome:
        """Fill segments without the columns, and complete the columns, unless another process does so first.

        Raises Stopped between groups once `stopped()` is true.
        """
        numbers = [one.number for one in self._waiting(self.load())]
        try:
            return self._run()
        except FailedPrecondition:
            state = self.load()
            shown = {field.name: field.field_id for field in state.schema.fields}
            if [shown.get(name) for name in self.names] != numbers:
                raise
            return Outcome(state.version)

    def _run(self) -> Outcome:
        while True:
            state = self.load()
            waiting = self._waiting(state)
            self._fill(state, waiting)
            try:
                return self._complete()
            except MoulinError as error:
                if not must_recompute(error):
                    raise  # rows came since: they are filled, too

    def _waiting(self, state: TableState) -> tuple[Filling, ...]:
        pending = fillings_of(state.properties, state.schema)
        for name in self.names:
            if name not in pending:
                raise FailedPrecondition(
                    f"Column {name} of {state.full_name} is no longer pending: it was dropped, or another process "
                    f"has completed it. Check the table before adding it again."
                )
        return tuple(pending[name] for name in self.names)

    def _lacking(self, state: TableState, waiting: Sequence[Filling]) -> list[LiveSegment]:
        live = self.context.catalog.segments(state.id, state.version, with_columns=False)
        return [s for s in live if any(s.facts.file_of(one.number) is None for one in waiting)]

    def _fill(self, state: TableState, waiting: Sequence[Filling]) -> None:
        """Fill the segments that lack the columns: first those that no other task has."""
        groups = groups_of(self._lacking(state, waiting), self._share(state))
        late = [group for group in groups if not self._fill_group(state, group)]
        if late:
            time.sleep(_PATIENCE_SECONDS)
        for group in late:
            if not self._fill_group(state, group):
                self._write(state, group, waiting, None)  # another task may rewrite it: then it is filled again

    def _fill_group(self, state: TableState, group: Sequence[LiveSegment]) -> bool:
        """Fill a group under a task; False when another task has a segment of it."""
        if self.stopped():
            raise Stopped
        tasks, owner = self.context.catalog.maintenance, f"{WORKER}{new_id()}"
        inputs = {segment.facts.number: segment.vector.id if segment.vector else 0 for segment in group}
        plan = PlannedTask(state.id, inputs, max(segment.facts.level for segment in group), FILL)
        claim = tasks.create_merge_tasks([plan], worker=owner, read_version=state.version, seconds=_LEASE_SECONDS)[0]
        if claim is None:
            return False
        try:
            with heartbeats(self.context.catalog, claim, _LEASE_SECONDS):
                self._write(state, group, self._waiting(state), claim)
        except BaseException:
            self._forget(claim)
            raise
        return True

    def _forget(self, claim: Claim) -> None:
        with suppress(MoulinError):  # then its lease ends by itself
            self.context.catalog.maintenance.delete_merge_task(claim.task_id, claim.attempt)

    def _write(
        self, state: TableState, group: Sequence[LiveSegment], waiting: Sequence[Filling], claim: Claim | None
    ) -> None:
        """Write and commit the column files of a group. What cannot be committed is left to the next round."""
        fields = tuple(one.field(name) for one, name in zip(waiting, self.names, strict=True))
        try:
            with self.context.catalog.writing():
                files = self._files(state, group, state.schemas[waiting[0].schema_id], fields)
                self._commit(state, files, claim)
        except (Fenced, NotFound):
            if claim is None:
                raise  # else the lease ended before the work did, and the task was forgotten: the next round does it
        except MoulinError as error:
            if not must_recompute(error):
                raise
            if claim is not None:
                self._forget(claim)  # some are gone: the next round sees which

    def _commit(self, state: TableState, files: Sequence[ColumnFile], claim: Claim | None) -> None:
        if files:
            change = SettingChange(state.id, state.version, Fill(tuple(files), claim))
            self.context.committer.commit([change])
        elif claim is not None:
            self._forget(claim)

    def _files(
        self, state: TableState, segments: Sequence[LiveSegment], schema: Schema, fields: tuple[NestedField, ...]
    ) -> list[ColumnFile]:
        settings = FileSettings.of(state.properties)
        size = int(self._share(state) * sum(segment.facts.size for segment in segments))
        slices = [
            FillSlice(self.context.store, state.id, schema, fields, self.compute, settings, tuple(part))
            for part in balanced(segments, 2 * (os.cpu_count() or 1))
            if part
        ]
        runner = LocalRunner() if self.compute.stays else self.context.runner(size)
        found = runner.map(fill_segments, slices, stopped=self.stopped) if slices else ()
        return [file for part in found for file in part]

    def _share(self, state: TableState) -> float:
        """Which part of a segment is read, if its columns are alike."""
        return min(1.0, max(len(self.compute.reads), 1) / max(len(state.schema.fields), 1))

    def _complete(self) -> Outcome:
        if self.keyed is None:
            return Outcome(self._declare(self.load(), ()))
        with self.keyed.held() as (seen, uses):  # what the logs had is in segments now
            state = seen.state
            waiting = self._waiting(state)
            for group in groups_of(self._lacking(state, waiting), self._share(state)):
                self._write(state, group, waiting, None)
            return Outcome(self._declare(self.load(), tuple(uses)))

    def _declare(self, state: TableState, uses: tuple[RegionUse, ...]) -> int:
        waiting = self._waiting(state)
        changes = tuple(FillColumn(name, one.type, one.number) for name, one in zip(self.names, waiting, strict=True))
        change = SettingChange(state.id, state.version, AlterSchema(changes), regions=uses)
        return self.context.committer.commit([change]).version


def groups_of(segments: Iterable[LiveSegment], share: float = 1.0) -> Iterator[list[LiveSegment]]:
    """Segments that one commit takes, in the order of their numbers; `share` of their bytes is read."""
    group: list[LiveSegment] = []
    size = 0
    for segment in segments:
        if group and (share * (size + segment.facts.size) > _GROUP_BYTES or len(group) == _GROUP_SEGMENTS):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.facts.size
    if group:
        yield group


def begin(
    context: Context,
    load: Callable[[], TableState],
    keyed: KeyedTable | None,
    columns: Sequence[NewColumn],
    reads: Sequence[str],
    sql: str | None,
    *,
    again: bool = False,
) -> int | None:
    """Add pending columns, in one version; None when the same columns are pending already, and a fill goes on.

    With `again` they are columns that were filled before, and keep their values until then.
    """

    def run() -> int | None:
        state = load()
        if _goes_on(state, columns, sql):
            return None
        refuse_quarantined(context.catalog, state)
        if again:
            altered(state, [DropColumn(name) for name, _ in columns])  # refused where something rests on one
        changes, fillings = _placeholders(state, columns, reads, sql, again)
        updates = {one.key: one.to_json() for one in fillings}
        commits = [
            TableCommit(state.id, state.version, AlterSchema(changes)),
            TableCommit(state.id, state.version, SetProperties(updates)),
        ]
        with context.catalog.writing():
            return context.catalog.commit(commits).version

    version = retry(context.config.commit_attempts, run)
    if keyed is not None:
        with after_commit():
            keyed.refresh()
    return version


def _goes_on(state: TableState, columns: Sequence[NewColumn], sql: str | None) -> bool:
    pending = fillings_of(state.properties, state.schema)
    known = [pending.get(name) for name, _ in columns]
    if not any(known):
        return False
    for (name, kind), one in zip(columns, known, strict=True):
        field = None if one is None else find_column(state.schema, name)
        same = field is not None and arrow_type(field.field_type) == arrow_type(kind)
        if one is None or not same or one.sql != sql:
            raise AlreadyExists(
                f"Column {name} of {state.full_name} is pending, or columns filled with it are, with another type or "
                f"expression. Use the same, or drop it first."
            )
    return True


def _placeholders(
    state: TableState, columns: Sequence[NewColumn], reads: Sequence[str], sql: str | None, again: bool
) -> tuple[tuple[SchemaChange, ...], list[Filling]]:
    """Two fields for each column: one whose values are stored, which no schema shows yet, and its placeholder."""
    changes: list[SchemaChange] = []
    stored: list[NestedField] = []
    known = {field.name for field in state.schema.fields}
    ids = sorted(i for name in reads if name in known for i in nested_ids(find_column(state.schema, name)))
    for name, kind in columns:
        if "." in name:
            raise FailedPrecondition(f"{name} would be inside a column: only whole columns can be filled.")
        fresh = _free_name(name, known) if again else name  # for the moment in which it gets its id
        changes.append(AddColumn(fresh, kind))
        stored.append(replace(altered(state, changes).schema.find_field(fresh), name=name))
        changes += [DropColumn(fresh)] if again else [DropColumn(name), AddColumn(name, kind)]
    schema = altered(state, changes).schema
    fillings = [
        Filling(find_column(schema, f.name).field_id, f.field_id, f.field_type, state.schema_id, tuple(ids), sql, again)
        for f in stored
    ]
    return tuple(changes), fillings


def _free_name(name: str, known: Collection[str]) -> str:
    return next(free for number in count() if (free := f"{name}_{number}") not in known)


__all__ = ["WORKER", "Filler", "NewColumn", "begin", "groups_of"]
