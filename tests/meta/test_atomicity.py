"""A failure at every SQL statement of a mutation: the state is as before, or the call has succeeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from moulin.catalog import schema as s
from tests.meta.api import SECOND, Api
from tests.meta.conftest import Live, name
from tests.meta.rules import rule

Change = Callable[[], Any]
_OUTSIDE = {s.outbox.name, s.reserves.name, s.members.name}  # take no version, or follow one that is committed


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


def state(api: Api) -> dict[str, list[tuple[Any, ...]]]:
    with api.live.catalog.engine.read() as connection:
        return {
            table.name: sorted(tuple(map(repr, row)) for row in connection.execute(sa.select(table)))
            for table in s.metadata.sorted_tables
            if table.name not in _OUTSIDE
        }


@contextmanager
def failing(api: Api, place: int) -> Iterator[None]:
    """The `place`-th statement from now on that is not of a reader fails."""
    engine, counted = api.live.catalog.engine._engine, [0]

    def fail(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        writes = statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))
        locks = "FOR UPDATE" in statement
        if writes or locks:
            counted[0] += 1
            if counted[0] == place:
                raise sa.exc.OperationalError(statement, {}, Exception("the connection was cut"))

    sa.event.listen(engine, "before_cursor_execute", fail)
    try:
        yield
    finally:
        sa.event.remove(engine, "before_cursor_execute", fail)


def every_statement(api: Api, change: Change) -> None:
    """Run `change` with a failure at its first, second, ... statement until it passes without one."""
    before = state(api)
    for place in range(1, 200):
        with failing(api, place):
            try:
                change()
            except grpc.RpcError as error:
                failed: Any = error
            else:
                failed = None
        if failed is None:
            assert place > 1
            assert state(api) != before
            return
        assert failed.code() is grpc.StatusCode.UNAVAILABLE, failed
        assert state(api) == before, f"statement {place} left something behind"
    raise AssertionError("it never passed")


@rule("GEN-15", "DB-12")
def test_database(api: Api) -> None:
    called = name("db")
    every_statement(api, lambda: api.CreateDatabase(name=called))
    database_id = api.GetDatabase(name=called).database.id
    one, two = api.table(database_id), api.table(database_id)
    api.view(database_id, [one, two])
    api.token(database_id, one)
    every_statement(api, lambda: api.DeleteDatabase(database_id=database_id, cascade=True))
    every_statement(api, lambda: api.ResurrectDatabase(database_id=database_id))
    every_statement(api, lambda: api.RenameDatabase(database_id=database_id, new_name=name("db")))


@rule("GEN-15")
def test_table_and_view(api: Api) -> None:
    database_id, (one, two) = api.tables(2)
    ids = {"database_id": database_id, "table_id": one}
    every_statement(api, lambda: api.CreateTable(database_id=database_id, name=name("t")))
    every_statement(api, lambda: api.SetTableRetention(**ids, retention_ns=5))
    every_statement(api, lambda: api.RenameTable(**ids, new_name=name("t")))
    called = name("v")
    every_statement(api, lambda: api.CreateView(database_id=database_id, name=called, table_ids=[one, two]))
    view = {"database_id": database_id, "view_id": api.ListViews(database_id=database_id).items[0].id}
    every_statement(api, lambda: api.SetViewTables(**view, table_ids=[two]))
    every_statement(api, lambda: api.DeleteTable(**ids))
    every_statement(api, lambda: api.DeleteView(**view))


@rule("GEN-15")
def test_token_and_stream(api: Api) -> None:
    database_id, (one, two) = api.tables(2)
    targets = dict.fromkeys(("traces_table_id", "logs_table_id", "metrics_table_id"), one)
    called = name("k")
    every_statement(api, lambda: api.CreateIngestToken(database_id=database_id, name=called, **targets))
    ids = {"database_id": database_id, "token_id": api.ListIngestTokens(database_id=database_id).tokens[0].id}
    every_statement(api, lambda: api.RotateIngestToken(**ids))
    other = dict.fromkeys(targets, two)
    every_statement(api, lambda: api.UpdateIngestTokenRouting(**ids, routing=other))
    _, plaintext = api.token(database_id, one)
    collector = name("c")
    every_statement(api, lambda: api.RegisterForStream(ingest_token=plaintext, collector_id=collector))
    every_statement(api, lambda: api.DeleteIngestToken(**ids))


@rule("GEN-15", "NU-26", "NU-47")
def test_nursery(api: Api) -> None:
    database_id, (one, two), first = api.ingest(2)
    second = api.stream(api.token(database_id, one)[1])
    merges = [
        api.merge(database_id, one, api.offset(first, one, -1, 2), api.offset(second, one, -1, 2)),
        api.merge(database_id, one, api.offset(first, one, 2, 3)),
    ]
    request = {"database_id": database_id, "merges": merges, "register_request_id": name("r")}
    every_statement(api, lambda: api.RegisterMergedSegments(**request))
    batch = {
        "request_id": name("b"),
        "routing_seq": api.GetIngestStreamsForNursery().routing_seq,
        "segments": [api.segment(database_id, table_id) for table_id in (one, two)],
        "frontiers": [
            {
                "stream_id": second,
                "start_offset": 2,
                "new_offset": 9,
                "ingest_time_nanos": SECOND,
                "table_ids": [one, two],
            }
        ],
        "set_asides": [{"stream_id": second, "stream_offset": 4, "records": 1, "reason": "bad"}],
    }
    every_statement(api, lambda: api.CommitNurseryBatch(**batch))
    every_statement(api, lambda: api.UpdateDeletedOffset(stream_id=second, deleted_offset=9))
    end = {"stream_id": second, "current_offset": 9, "merged_offset": 9}
    every_statement(api, lambda: api.DeleteIngestStreamTable(**end, table_id=two))
    every_statement(api, lambda: api.MarkStreamStopped(stream_id=second, final_offset=9, stopped_at_nanos=1))
