"""Commits of engines: requirements checked, updates applied, snapshots taken in, all tables of a commit as one version.

Everything is checked against the head version, and the catalog checks again, under its lock, that it still is the
head. When it moved meanwhile, the requirements are checked anew: what they do not forbid goes on, the rest is a 409.
"""

# Decisions: docs/decisions/0066

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Header
from fastapi.responses import Response

from moulin.catalog.commit.table_commit import Stale, TableCommit
from moulin.catalog.objects.base_paths import AGAIN
from moulin.catalog.objects.projections import ENGINE_PREFIX
from moulin.catalog.upkeep import ownership
from moulin.errors import AlreadyExists, InvalidInput, MoulinError, NotFound, Unavailable, Unsupported
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import location
from moulin.iceberg.projection.projection import project
from moulin.iceberg.rest import namespaces
from moulin.iceberg.rest.commit import create, requirements, trust
from moulin.iceberg.rest.commit.engine_files import TableFolder, check_statistics
from moulin.iceberg.rest.commit.intake import take_in
from moulin.iceberg.rest.commit.operations import CommitPlan, current, plan
from moulin.iceberg.rest.commit.updates import Wanted, read_updates, snapshot_properties
from moulin.iceberg.rest.errors import CommitStateUnknown, commit_failed
from moulin.iceberg.rest.requests import Body, LakeOf, field
from moulin.iceberg.rest.tables import already_exists, identifier, loaded
from moulin.lake import Lake
from moulin.model import request_ids
from moulin.model.entities import TableState
from moulin.model.names import AT, check_name
from moulin.model.operations import Operation, SetProperties
from moulin.model.tags import VERIFIED
from moulin.storage import paths
from moulin.table.commit.retry import at_once, retry
from moulin.table.keyed.tables import flush_table
from moulin.table.verify import BELIEVED

log = logging.getLogger("moulin.iceberg.rest")
router = APIRouter()
_ATTEMPTS: Final = 5
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key")]


@dataclass(frozen=True, slots=True)
class TableRequest:
    """One table of a commit."""

    database: str
    name: str
    requirements: Sequence[Any]
    wanted: Wanted

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"


@router.post("/namespaces/{namespace}/tables/{table}")
def commit_table(lake: LakeOf, namespace: str, table: str, body: Body, key: IdempotencyKey = None) -> Response:
    database = namespaces.find(lake, namespace).name
    if "identifier" in body and identifier(body, "identifier") != (database, table):
        raise InvalidInput("The request's identifier is not the table of its path.")
    _commit(lake, [_table_request(database, table, body)], key)
    try:
        return loaded(lake, lake.catalog.table(database, table))
    except MoulinError as error:
        raise CommitStateUnknown(f"The commit was made, and cannot be shown ({error.message}).") from error


@router.post("/transactions/commit")
def commit_transaction(lake: LakeOf, body: Body, key: IdempotencyKey = None) -> Response:
    """Changes of several tables, all or none of them."""
    requests = []
    for one in field(body, "table-changes", list):
        if not isinstance(one, dict):
            raise InvalidInput("A table change is a JSON object.")
        database, name = identifier(one, "identifier")
        requests.append(_table_request(namespaces.find(lake, database).name, name, one))
    if not requests:
        raise InvalidInput("The transaction changes no table.")
    if len({request.full_name for request in requests}) != len(requests):
        raise InvalidInput("A transaction names each table once.")
    _commit(lake, requests, key)
    return Response(status_code=204)


def _table_request(database: str, name: str, body: Json) -> TableRequest:
    wanted = read_updates(field(body, "updates", list))
    return TableRequest(database, check_name(name, "table"), field(body, "requirements", list), wanted)


def _commit(lake: Lake, requests: Sequence[TableRequest], key: str | None) -> None:
    request_id = _request_id(lake, requests, key)
    if request_id is not None and lake.catalog.committed(request_id) is not None:
        return  # this request was answered, or died, after its commit
    for request in requests:
        with suppress(NotFound):  # it may be one to be made
            flush_table(lake.context, lake.catalog.table(request.database, request.name).id)
    retry(
        _ATTEMPTS, lambda: _Attempt(lake, requests, request_id).run(), lambda error: isinstance(error, Stale), at_once
    )


def _request_id(lake: Lake, requests: Sequence[TableRequest], key: str | None) -> str | None:
    if key is None:
        return None
    key = key if lake.on_branch is None else f"{key}{AT}{lake.on_branch}"
    text = repr([(request.full_name, request.requirements, request.wanted) for request in requests])
    return f"{request_ids.ICEBERG}{hashlib.sha256(f'{key} {text}'.encode()).hexdigest()}"


class _Attempt:
    """One try at a commit, from the head versions of now."""

    def __init__(self, lake: Lake, requests: Sequence[TableRequest], request_id: str | None) -> None:
        self.lake, self.requests, self.request_id = lake, requests, request_id
        self.context, self.catalog = lake.context, lake.own_catalog()
        self.commits: list[TableCommit] = []
        self.leftovers: list[str] = []
        self.made: list[UUID] = []
        self.tables: set[UUID] = set()

    def run(self) -> None:
        found = [self._state(request) for request in self.requests]
        bases = [None if state is None else project(self.context, state.id, state.version).metadata for state in found]
        for request, base in zip(self.requests, bases, strict=True):
            requirements.check(request.requirements, base, request.full_name)
        try:
            for request, state, base in zip(self.requests, found, bases, strict=True):
                if state is None or base is None:
                    self._create(request)
                else:
                    self._update(request, state, base)
            if self.commits:
                self._save()
        except BaseException as error:
            if not isinstance(error, CommitStateUnknown):
                self._undo()
            raise
        self._clean_up()

    def _state(self, request: TableRequest) -> TableState | None:
        try:
            return self.catalog.table(request.database, request.name)
        except NotFound:
            return None

    def _create(self, request: TableRequest) -> None:
        """Make the table; rows that come with it are a version of their own, right after."""
        root = location(self.context.store, "x").removesuffix("x")
        new = create.from_updates(request.wanted, root)
        current(request.wanted)  # what cannot be taken is refused before anything is made
        try:
            state = self.catalog.create_table(request.database, request.name, new)
        except AlreadyExists as error:
            raise already_exists(self.lake, "Table", request.database, request.name) from error
        self.made.append(state.id)
        base: Json = {"refs": {}, "snapshots": [], "location": f"{root}{paths.table_prefix(state.id)}"}
        self._add(state, plan(state, request.wanted, base), base, request)

    def _update(self, request: TableRequest, state: TableState, base: Json) -> None:
        planned = plan(state, request.wanted, base)
        check_statistics(TableFolder(self.context, state), request.wanted.statistics.values())
        self._add(state, planned, base, request)

    def _add(self, state: TableState, planned: CommitPlan, base: Json, request: TableRequest) -> None:
        operations: list[Operation] = list(planned.operations)
        snapshot_id = None
        summary = {"engine": "iceberg-rest"}
        if planned.snapshot is not None:
            _check_snapshot(state, planned, base, request.wanted)
            main = base["refs"].get("main", {}).get("snapshot-id")
            before = next((one for one in base["snapshots"] if one["snapshot-id"] == main), None)
            if request.wanted.replaces:
                before = None
            taken = take_in(
                self.context,
                planned.state,
                before,
                planned.snapshot,
                planned.state.schema_id,
                replaces=request.wanted.replaces,
            )
            self.leftovers += taken.leftovers
            if taken.believed:
                if VERIFIED not in state.properties:  # what looks for files to read begins here
                    operations.append(SetProperties({VERIFIED: str(state.head_version)}))
                summary |= {BELIEVED: trust.mode(self.context.config, state.properties), AGAIN: "true"}
            self.tables.add(state.id)
            if taken.operation is not None:
                operations.append(taken.operation)
                snapshot_id = planned.snapshot["snapshot-id"]
                given = snapshot_properties(request.wanted.snapshots)
                summary |= {ENGINE_PREFIX + key: value for key, value in given.items()}
        for index, operation in enumerate(operations):
            self.commits.append(
                TableCommit(
                    state.id,
                    state.version,
                    operation,
                    summary,
                    expected_head=state.head_version if index == 0 else None,
                    snapshot_id=snapshot_id,
                )
            )

    def _save(self) -> None:
        try:
            self.catalog.commit(self.commits, request_id=self.request_id)
        except Unavailable as error:
            raise CommitStateUnknown(f"Nobody knows whether the commit was made ({error.message}).") from error

    def _undo(self) -> None:
        """Take back tables that were made for a commit that failed."""
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


def _check_snapshot(state: TableState, planned: CommitPlan, base: Json, wanted: Wanted) -> None:
    """Whether a snapshot follows the head of the table."""
    snapshot = planned.snapshot
    assert snapshot is not None
    if state.schema.identifier_field_ids:
        raise Unsupported(
            f"{state.full_name} has a primary key, and files of other engines could hold a key twice: write to it with "
            "put, append or merge of Moulin's Python API."
        )
    main = base["refs"].get("main", {}).get("snapshot-id")
    by_id = {one["snapshot-id"]: one for one in wanted.snapshots}
    if wanted.replaces:
        return  # it follows nothing: sequence number and row ids are given by the catalog
    first, steps = snapshot, 0
    while (parent := first.get("parent-snapshot-id")) in by_id and steps < len(by_id):
        first, steps = by_id[parent], steps + 1
    if (parent if parent != -1 else None) != main:
        raise commit_failed(f"The snapshot follows {parent}; the current one of {state.full_name} is {main}.")
    if base.get("format-version") != 1 and first["sequence-number"] != state.last_sequence + 1:
        raise commit_failed(
            f"The next sequence number of {state.full_name} is {state.last_sequence + 1}, not "
            f"{first['sequence-number']}."
        )
    row_id = first.get("first-row-id")
    if row_id is not None and row_id != state.next_row_id:
        raise commit_failed(f"The next row id of {state.full_name} is {state.next_row_id}, not {row_id}.")
    if any(one["snapshot-id"] == snapshot["snapshot-id"] for one in base["snapshots"]):
        raise commit_failed(f"{state.full_name} has a snapshot {snapshot['snapshot-id']} already.")
