"""One attempt at a commit of an engine: check requirements, convert snapshots, commit all tables as one version.

Everything is checked against the head version, and the catalog checks again, under its lock, that it still is the head.
If the head has moved, the requirements are checked again; if they no longer hold, the response is 409.
"""

# Decisions: docs/decisions/0066, docs/decisions/0496

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.objects.base_paths import AGAIN
from moulin.catalog.objects.projections import ENGINE, ENGINE_PREFIX
from moulin.catalog.upkeep import ownership
from moulin.errors import AlreadyExists, InvalidInput, MoulinError, NotFound, Unavailable, Unsupported
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import table_location
from moulin.iceberg.projection.projection import project
from moulin.iceberg.rest.commit import create, rebase, requirements, trust
from moulin.iceberg.rest.commit.engine_files import TableFolder, check_statistics
from moulin.iceberg.rest.commit.intake import take_in
from moulin.iceberg.rest.commit.keyed_rows import Held, hold, take_in_keyed
from moulin.iceberg.rest.commit.locations import asked_location, make_location
from moulin.iceberg.rest.commit.operations import CommitPlan, current, plan
from moulin.iceberg.rest.commit.rebase import FreeAppend
from moulin.iceberg.rest.commit.updates import Wanted, snapshot_properties
from moulin.iceberg.rest.commit.writers import Writer
from moulin.iceberg.rest.errors import CommitStateUnknown, commit_failed
from moulin.iceberg.rest.tables import already_exists
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.names import full_name
from moulin.model.operations import DataOperation, Operation, RegionUse, SetProperties
from moulin.model.tags import LOCATION, VERIFIED
from moulin.table.read.quarantine import BELIEVED

log = logging.getLogger("moulin.iceberg.rest")
Beside = Callable[[Callable[[], None]], object]
"""Calls what it is given in another thread."""


@dataclass(frozen=True, slots=True)
class TableRequest:
    """One table of a commit."""

    database: str
    name: str
    requirements: Sequence[Any]
    wanted: Wanted

    @property
    def full_name(self) -> str:
        return full_name(self.database, self.name)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a snapshot does to a table, the regions that it holds, and the version that it was prepared from.

    `believed` says that facts are those of its manifests, `learned` are properties by which its writer is known.
    """

    operation: DataOperation | None
    regions: tuple[RegionUse, ...]
    read_version: int
    believed: bool
    learned: Mapping[str, str]


class Attempt:
    """One try at a commit, from the head versions of now.

    Once it is made, `beside` is given what follows: to be called while the answer is made, and waited for.
    """

    def __init__(
        self, lake: Lake, requests: Sequence[TableRequest], request_id: str | None, client: str, beside: Beside
    ) -> None:
        self.lake, self.requests, self.request_id, self.beside = lake, requests, request_id, beside
        self.client = client
        self.context, self.catalog = lake.context, lake.own_catalog()
        self.commits: list[TableCommit] = []
        self.leftovers: list[str] = []
        self.made: list[UUID] = []
        self.tables: set[UUID] = set()
        self.held: dict[UUID, Held] = {}
        self.publishing: list[Callable[[], None]] = []

    def run(self, found: Sequence[TableState | None] | None) -> int | None:
        """The new version; None if there was nothing to change. `found` are the tables, if just read."""
        with ExitStack() as self.until:
            return self._run(self._find(found))

    def _find(self, found: Sequence[TableState | None] | None) -> Sequence[TableState | None]:
        """The current tables. Keyed tables that get rows are held, in one order, before their heads are read."""
        found = [self._state(request) for request in self.requests] if found is None else found
        some = zip(self.requests, found, strict=True)
        written = [state for request, state in some if state is not None and request.wanted.snapshots]
        keyed = [state for state in written if state.schema.identifier_field_ids]
        for state in sorted(keyed, key=lambda state: state.id):
            self.held[state.id] = hold(self.context, state, self.until)
        return [self._state(request) for request in self.requests] if keyed else found

    def _run(self, found: Sequence[TableState | None]) -> int | None:
        bases = [None if state is None else self._base(state) for state in found]
        appends = [self._free_append(*one) for one in zip(self.requests, found, bases, strict=True)]
        earlier = self._made_before(appends)
        if earlier is not None:
            return earlier
        for request, base, append in zip(self.requests, bases, appends, strict=True):
            left = request.requirements if append is None else append.requirements
            requirements.check(left, base, request.full_name)
        version = None
        try:
            for request, state, base, append in zip(self.requests, found, bases, appends, strict=True):
                if state is None or base is None:
                    self._create(request)
                else:
                    self._update(request, state, base, append)
            if self.commits:
                version = self._save()
        except BaseException as error:
            if not isinstance(error, CommitStateUnknown):
                self._undo()
            raise
        self.beside(self._follow_up)
        return version

    def _base(self, state: TableState) -> Json:
        """The metadata of a table that the commit follows."""
        return project(self.context, state.id, state.version, known=state).metadata

    def _free_append(self, request: TableRequest, state: TableState | None, base: Json | None) -> FreeAppend | None:
        if state is None or base is None:
            return None
        return rebase.free_append(state, base, request.requirements, request.wanted)

    def _made_before(self, appends: Sequence[FreeAppend | None]) -> int | None:
        """The version of the same request, if it was sent before: nothing else would refuse it the second time."""
        if self.request_id is None and all(append is not None for append in appends):
            self.request_id = rebase.request_id([append for append in appends if append is not None])
        if self.request_id is None or not any(appends):
            return None
        earlier = self.catalog.committed(self.request_id)
        return None if earlier is None else earlier.version

    def _state(self, request: TableRequest) -> TableState | None:
        try:
            return self.catalog.table(request.database, request.name)
        except NotFound:
            return None

    def _create(self, request: TableRequest) -> None:
        """Make the table; rows that come with it are a version of their own, right after."""
        new = create.from_updates(self.context, request.wanted)
        current(request.wanted)  # invalid requests are rejected before anything is created
        try:
            state = self.catalog.create_table(request.database, request.name, new)
        except AlreadyExists as error:
            raise already_exists(self.lake, "Table", request.database, request.name) from error
        self.made.append(state.id)
        base: Json = {"refs": {}, "snapshots": [], "location": table_location(self.context.store, state)}
        asked = state.properties.get(LOCATION)
        self._add(state, plan(state, request.wanted, base, asked), base, request)

    def _update(self, request: TableRequest, state: TableState, base: Json, append: FreeAppend | None) -> None:
        asked = asked_location(self.context, state.id, request.wanted.location)
        make_location(self.context, asked)
        planned = plan(state, request.wanted, base, asked)
        check_statistics(TableFolder(self.context, state), request.wanted.statistics.values())
        self._add(state, planned, base, request, append)

    def _add(
        self,
        state: TableState,
        planned: CommitPlan,
        base: Json,
        request: TableRequest,
        append: FreeAppend | None = None,
    ) -> None:
        operations: list[Operation] = list(planned.operations)
        snapshot_id = None
        summary = {"engine": ENGINE}
        regions: tuple[RegionUse, ...] = ()
        read_version = state.version
        if planned.snapshot is not None:
            before = _check_snapshot(state, planned, base, request.wanted, append)
            rows = self._take_in(state, planned, before, append, request.wanted)
            taken, regions, read_version = rows.operation, rows.regions, rows.read_version
            marks = dict(rows.learned)
            if rows.believed:
                if VERIFIED not in state.properties:  # what looks for files to read begins here
                    marks[VERIFIED] = str(state.head_version)
                summary |= {BELIEVED: trust.mode(self.context.config, state.properties)}
            if marks:
                operations.append(SetProperties(marks))
            if taken is not None and any(one.adopted is not None for one in taken.added):
                summary[AGAIN] = "true"  # an engine may add a file again after deleting it
            self.tables.add(state.id)
            if taken is not None:
                operations.append(taken)
                snapshot_id = planned.snapshot["snapshot-id"]
                given = snapshot_properties(request.wanted.snapshots)
                summary |= {ENGINE_PREFIX + key: value for key, value in given.items()}
        is_free = append is not None and append.follows_any
        for index, operation in enumerate(operations):
            self.commits.append(
                TableCommit(
                    state.id,
                    read_version,
                    operation,
                    summary,
                    regions if isinstance(operation, DataOperation) else (),
                    expected_head=state.head_version if index == 0 and not is_free else None,
                    snapshot_id=snapshot_id,
                )
            )

    def _take_in(
        self, state: TableState, planned: CommitPlan, before: Json | None, append: FreeAppend | None, wanted: Wanted
    ) -> _Rows:
        assert planned.snapshot is not None
        if state.schema.identifier_field_ids:
            held = self.held.get(state.id) or hold(self.context, state, self.until)
            keyed = take_in_keyed(self.context, planned.state, before, planned.snapshot, held, self.until)
            prepared = self.context.committer.prepared(keyed.change)
            assert isinstance(prepared.operation, DataOperation)
            rows = _Rows(prepared.operation, prepared.regions, prepared.read_version, believed=False, learned={})
            leftovers, is_pure = keyed.leftovers, keyed.is_pure
        else:
            writer = Writer(self.context.config, self.client, wanted.snapshots, planned.state)
            after, replaces = planned.state, wanted.replaces
            taken = take_in(self.context, after, before, planned.snapshot, writer.verify, replaces=replaces)
            learned = writer.learned if taken.read else {}
            rows = _Rows(taken.operation, (), state.version, taken.believed, learned)
            leftovers, is_pure = taken.leftovers, rebase.is_pure(taken.operation)
        self.leftovers += leftovers
        if append is not None and not is_pure:
            raise InvalidInput(f"A snapshot of {state.full_name} is called an append, and takes files or rows away.")
        return rows

    def _save(self) -> int:
        try:
            made = self.catalog.commit(self.commits, request_id=self.request_id, beside=self.publishing.append)
        except Unavailable as error:
            raise CommitStateUnknown(f"Nobody knows whether the commit was made ({error.message}).") from error
        return made.version

    def _follow_up(self) -> None:
        """Publish the manifests, then delete unneeded files. Raises Unavailable if the outcome is unknown."""
        for publish in self.publishing:
            publish()
        if self.leftovers:
            self._clean_up()

    def _undo(self) -> None:
        """Drop tables that were created for a failed commit."""
        for table_id in self.made:
            try:
                entry = self.catalog.table_entry(table_id)
                self.catalog.drop_table(entry.database, table_id, immediate=True)
            except MoulinError as error:
                log.warning("a table of a failed commit stays", extra={"table": str(table_id), "error": error.message})

    def _clean_up(self) -> None:
        """The engine's files were copied, and go; the lake's own, which a commit may name, too, stay.

        Those that a crash leaves here are in nobody's way.
        """
        try:
            mine = ownership.leftovers(self.catalog.pool, self.tables, self.leftovers)
            self.context.store.delete(mine)
        except MoulinError as error:
            log.warning("files of a commit stay", extra={"files": len(self.leftovers), "error": error.message})


def _check_snapshot(
    state: TableState, planned: CommitPlan, base: Json, wanted: Wanted, append: FreeAppend | None
) -> Json | None:
    """The snapshot that one follows; refused unless that is the head of the table, or the commit may follow any."""
    snapshot = planned.snapshot
    assert snapshot is not None
    if any(one["snapshot-id"] == snapshot["snapshot-id"] for one in base["snapshots"]):
        raise commit_failed(f"{state.full_name} has a snapshot {snapshot['snapshot-id']} already.")
    if append is not None:
        rebase.check_numbers(state, append)
        rebase.check_schema(state, append)
        return append.before
    main = base["refs"].get("main", {}).get("snapshot-id")
    if wanted.replaces:
        if state.schema.identifier_field_ids:
            raise Unsupported(
                f"{state.full_name} has a primary key, and is not replaced with rows: drop it, or overwrite."
            )
        return None  # it follows nothing: sequence number and row ids are given by the catalog
    first = rebase.first_added(wanted.snapshots, snapshot["snapshot-id"])
    if (parent := rebase.parent_of(first)) != main:
        raise commit_failed(f"The snapshot follows {parent}; the current one of {state.full_name} is {main}.")
    if base.get("format-version") != 1 and first["sequence-number"] != state.last_sequence + 1:
        raise commit_failed(
            f"The next sequence number of {state.full_name} is {state.last_sequence + 1}, not "
            f"{first['sequence-number']}."
        )
    row_id = first.get("first-row-id")
    if row_id is not None and row_id != state.next_row_id:
        raise commit_failed(f"The next row id of {state.full_name} is {state.next_row_id}, not {row_id}.")
    return next((one for one in base["snapshots"] if one["snapshot-id"] == main), None)
