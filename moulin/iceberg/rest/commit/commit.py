"""Commits of engines over REST: the request and the response. `attempt.py` makes the commit."""

# Decisions: docs/decisions/0066, docs/decisions/0496, docs/decisions/0701

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from moulin.catalog.commit.table_commit import Stale
from moulin.errors import InvalidInput, MoulinError, NotFound, Unavailable
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest import namespaces
from moulin.iceberg.rest.commit.attempt import Attempt, Beside, TableRequest
from moulin.iceberg.rest.commit.updates import read_updates
from moulin.iceberg.rest.commit.writers import client
from moulin.iceberg.rest.errors import CommitStateUnknown
from moulin.iceberg.rest.requests import Body, LakeOf, database, field
from moulin.iceberg.rest.tables import identifier, loaded
from moulin.iceberg.rest.turns import in_turn
from moulin.lake import Lake
from moulin.model import request_ids
from moulin.model.entities import TableState
from moulin.model.names import AT, check_name
from moulin.table.commit.retry import at_once, retry
from moulin.table.keyed.tables import flush_table

router = APIRouter()
_ATTEMPTS: Final = 5
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key")]


@router.post("/namespaces/{namespace}/tables/{table}")
async def commit_table(
    request: Request, lake: LakeOf, namespace: str, table: str, body: Body, key: IdempotencyKey = None
) -> Response:
    run = partial(_commit_table, lake, namespace, table, body, key, client(request))
    return await in_turn(request, lake, [(database(namespace), table)], run)


def _commit_table(lake: Lake, namespace: str, table: str, body: Json, key: str | None, writer: str) -> Response:
    database = namespaces.find(lake, namespace).name
    if "identifier" in body and identifier(body, "identifier") != (database, table):
        raise InvalidInput("The request's identifier is not the table of its path.")
    requests = [_table_request(database, table, body)]
    return _answered(lake, requests, key, writer, lambda version: _shown(lake, database, table, version))


def _shown(lake: Lake, database: str, table: str, version: int | None) -> Response:
    try:
        state = lake.catalog.table(database, table)
        return loaded(lake, state, version=version if version is not None and version < state.head_version else None)
    except MoulinError as error:
        raise CommitStateUnknown(f"The commit was made, and cannot be shown ({error.message}).") from error


@router.post("/transactions/commit")
async def commit_transaction(request: Request, lake: LakeOf, body: Body, key: IdempotencyKey = None) -> Response:
    """Changes of several tables, all or none of them."""
    requests = await run_in_threadpool(_table_requests, lake, body)
    names = [(one.database, one.name) for one in requests]
    return await in_turn(request, lake, names, partial(_commit_transaction, lake, requests, key, client(request)))


def _commit_transaction(lake: Lake, requests: Sequence[TableRequest], key: str | None, writer: str) -> Response:
    return _answered(lake, requests, key, writer, lambda _: Response(status_code=204))


def _answered(
    lake: Lake,
    requests: Sequence[TableRequest],
    key: str | None,
    writer: str,
    show: Callable[[int | None], Response],
) -> Response:
    """Commit, and prepare the response while another thread publishes the manifests and cleans up; waits for both."""
    with ThreadPoolExecutor(1, thread_name_prefix="moulin-commit") as beside:
        following: list[Future[None]] = []
        answer = show(_commit(lake, requests, key, writer, lambda work: following.append(beside.submit(work))))
        try:
            for one in following:
                one.result()
        except Unavailable as error:
            raise CommitStateUnknown(f"Nobody knows whether the commit was made ({error.message}).") from error
    return answer


def _table_requests(lake: Lake, body: Json) -> list[TableRequest]:
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
    return requests


def _table_request(database: str, name: str, body: Json) -> TableRequest:
    wanted = read_updates(field(body, "updates", list))
    return TableRequest(database, check_name(name, "table"), field(body, "requirements", list), wanted)


def _commit(lake: Lake, requests: Sequence[TableRequest], key: str | None, writer: str, beside: Beside) -> int | None:
    """The new version; None if there was nothing to change."""
    request_id = _request_id(lake, requests, key)
    if request_id is not None and (earlier := lake.catalog.committed(request_id)) is not None:
        return earlier.version  # this request was already committed
    found = [_flushed(lake, request) for request in requests]
    attempts = iter([found])
    return retry(
        _ATTEMPTS,
        lambda: Attempt(lake, requests, request_id, writer, beside).run(next(attempts, None)),
        lambda error: isinstance(error, Stale),
        at_once,
    )


def _flushed(lake: Lake, request: TableRequest) -> TableState | None:
    """The table with everything that was put into it committed; None when it is one to be made."""
    with suppress(NotFound):
        state = lake.catalog.table(request.database, request.name)
        if not state.schema.identifier_field_ids:
            return state  # rows are put into tables with a key alone
        flush_table(lake.context, state.id)
        return lake.catalog.table(request.database, request.name)
    return None


def _request_id(lake: Lake, requests: Sequence[TableRequest], key: str | None) -> str | None:
    if key is None:
        return None
    key = key if lake.on_branch is None else f"{key}{AT}{lake.on_branch}"
    text = repr([(request.full_name, request.requirements, request.wanted) for request in requests])
    return f"{request_ids.ICEBERG}{hashlib.sha256(f'{key} {text}'.encode()).hexdigest()}"
