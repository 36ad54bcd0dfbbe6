"""A failure at every SQL statement of a mutation: the state is as before, or the call has succeeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from moulin._proto.moulin.meta.v1 import (
    janitor_pb2,
    merge_task_pb2,
    segment_deletion_pb2,
    segment_deletion_pb2_grpc,
)
from moulin.catalog.sql import schema as s
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import Unavailable
from tests.contract.conftest import Backend
from tests.meta.api import SECOND, Api
from tests.meta.conftest import Live, name, refused, serving
from tests.meta.merging import open_shop
from tests.meta.rules import rule

Change = Callable[[], Any]
_OUTSIDE = {s.outbox.name, s.reserves.name, s.members.name}  # take no version, or follow one that is committed


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


def state(live: Live) -> dict[str, list[tuple[Any, ...]]]:
    live.catalog.release_idle_pins()  # those of reads that are over go by themselves at some time
    with live.catalog.pool.read() as connection:
        return {
            table.name: sorted(tuple(map(repr, row)) for row in connection.execute(sa.select(table)))
            for table in s.metadata.sorted_tables
            if table.name not in _OUTSIDE
        }


Fault = Callable[[sa.Connection], None]


def cut(connection: sa.Connection) -> None:
    raise sa.exc.OperationalError("", {}, Exception("the connection was cut"))


def kill(connection: sa.Connection) -> None:
    """End the server's side of a connection, so that whatever is sent next finds it broken."""
    raw: Any = connection.connection.dbapi_connection
    with sa.create_engine(connection.engine.url, poolclass=sa.NullPool).connect() as other:
        other.execute(sa.text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": raw.info.backend_pid})


@contextmanager
def failing(live: Live, place: int, fault: Fault) -> Iterator[None]:
    """A fault at the `place`-th statement, or commit, of a transaction that writes, from now on."""
    engine, counted = live.catalog.pool._engine, [0]

    def count(connection: sa.Connection, *_: Any) -> None:
        if connection.get_execution_options().get("moulin_write") is not None:
            counted[0] += 1
            if counted[0] == place:
                fault(connection)

    for event in ("before_cursor_execute", "commit"):
        sa.event.listen(engine, event, count)
    try:
        yield
    finally:
        for event in ("before_cursor_execute", "commit"):
            sa.event.remove(engine, event, count)


def every_statement(live: Live, change: Change, fault: Fault = cut) -> Any:
    """Run `change` with a fault at its first, second, ... statement until it passes; returns what it then answers."""
    before = state(live)
    for place in range(1, 200):
        answer = failed = None
        with failing(live, place, fault):
            try:
                answer = change()
            except grpc.RpcError as error:
                failed = error
        if failed is None:
            assert place > 2
            assert state(live) != before
            return answer
        assert failed.code() is grpc.StatusCode.UNAVAILABLE, failed
        assert state(live) == before, f"statement {place} left something behind"
    raise AssertionError("it never passed")


@rule("GEN-15", "DB-12")
def test_a_failed_statement_leaves_databases_as_they_were(api: Api) -> None:
    called = name("db")
    every_statement(api.live, lambda: api.CreateDatabase(name=called))
    database_id = api.GetDatabase(name=called).database.id
    one, two = api.table(database_id), api.table(database_id)
    api.view(database_id, [one, two])
    api.token(database_id, one)
    every_statement(api.live, lambda: api.DeleteDatabase(database_id=database_id, cascade=True))
    every_statement(api.live, lambda: api.ResurrectDatabase(database_id=database_id))
    every_statement(api.live, lambda: api.RenameDatabase(database_id=database_id, new_name=name("db")))


@rule("GEN-15")
def test_a_failed_statement_leaves_tables_and_views_as_they_were(api: Api) -> None:
    database_id, (one, two) = api.tables(2)
    ids = {"database_id": database_id, "table_id": one}
    every_statement(api.live, lambda: api.CreateTable(database_id=database_id, name=name("t")))
    every_statement(api.live, lambda: api.SetTableRetention(**ids, retention_ns=5))
    every_statement(api.live, lambda: api.SetTableMaxMergeTimeSpan(**ids, max_merge_time_span_ns=5))
    fields = [{"field_name": "a", "weight": 2.0}]
    every_statement(api.live, lambda: api.SetShardingFields(**ids, fields=fields))
    every_statement(api.live, lambda: api.RenameTable(**ids, new_name=name("t")))
    called = name("v")
    every_statement(api.live, lambda: api.CreateView(database_id=database_id, name=called, table_ids=[one, two]))
    view = {"database_id": database_id, "view_id": api.ListViews(database_id=database_id).items[0].id}
    every_statement(api.live, lambda: api.SetViewTables(**view, table_ids=[two]))
    every_statement(api.live, lambda: api.RenameView(**view, new_name=name("v")))
    every_statement(api.live, lambda: api.DeleteTable(**ids))
    every_statement(api.live, lambda: api.ResurrectTable(**ids))
    every_statement(api.live, lambda: api.DeleteView(**view))
    every_statement(api.live, lambda: api.ResurrectView(**view))


@rule("GEN-15")
def test_a_failed_statement_leaves_tokens_and_streams_as_they_were(api: Api) -> None:
    database_id, (one, two) = api.tables(2)
    targets = dict.fromkeys(("traces_table_id", "logs_table_id", "metrics_table_id"), one)
    called = name("k")
    every_statement(api.live, lambda: api.CreateIngestToken(database_id=database_id, name=called, **targets))
    ids = {"database_id": database_id, "token_id": api.ListIngestTokens(database_id=database_id).tokens[0].id}
    every_statement(api.live, lambda: api.RotateIngestToken(**ids))
    other = dict.fromkeys(targets, two)
    every_statement(api.live, lambda: api.UpdateIngestTokenRouting(**ids, routing=other))
    _, plaintext = api.token(database_id, one)
    collector = name("c")
    every_statement(api.live, lambda: api.RegisterForStream(ingest_token=plaintext, collector_id=collector))
    every_statement(api.live, lambda: api.DeleteIngestToken(**ids))
    every_statement(api.live, lambda: api.ResurrectIngestToken(**ids))


@rule("GEN-15", "NU-26", "NU-47")
def test_a_failed_statement_leaves_offsets_and_frontiers_as_they_were(api: Api) -> None:
    database_id, (one, two), first = api.ingest(2)
    second = api.stream(api.token(database_id, one)[1])
    merges = [
        api.merge(database_id, one, api.offset(first, one, -1, 2), api.offset(second, one, -1, 2)),
        api.merge(database_id, one, api.offset(first, one, 2, 3)),
    ]
    request = {"database_id": database_id, "merges": merges, "register_request_id": name("r")}
    every_statement(api.live, lambda: api.StageSegments(database_id=database_id, table_id=one, count=2))
    every_statement(api.live, lambda: api.RegisterMergedSegments(**request))
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
    every_statement(api.live, lambda: api.CommitNurseryBatch(**batch))
    every_statement(api.live, lambda: api.UpdateDeletedOffset(stream_id=second, deleted_offset=9))
    end = {"stream_id": second, "current_offset": 9, "merged_offset": 9}
    every_statement(api.live, lambda: api.DeleteIngestStreamTable(**end, table_id=two))
    every_statement(api.live, lambda: api.MarkStreamStopped(stream_id=second, final_offset=9, stopped_at_nanos=1))


@rule("GEN-15", "MT-07", "JN-12", "INV-6")
def test_a_failed_statement_leaves_merge_tasks_as_they_were(live: Live) -> None:
    shop = open_shop(live)
    shop.fill(4)
    rows = shop.ids()
    assert every_statement(live, shop.create).tasks_created == 1
    task = every_statement(live, lambda: shop.poll("first"))
    ids = {"task_id": task.task_id, "attempt": task.attempt}
    heartbeat = merge_task_pb2.HeartbeatSegmentMergeTaskRequest(**ids, lease_seconds=50)
    every_statement(live, lambda: shop.tasks.HeartbeatSegmentMergeTask(heartbeat))
    failure = merge_task_pb2.FailSegmentMergeTaskRequest(**ids, error_message="no")
    every_statement(live, lambda: shop.tasks.FailSegmentMergeTask(failure))
    live.clock.forward(3600)
    again = shop.claim("second", lease_seconds=7200)
    live.clock.forward(100)
    unclaim = janitor_pb2.UnclaimMergeTaskRequest(task_id=again.task_id, min_claimed_secs=1)
    assert every_statement(live, lambda: shop.janitor.UnclaimMergeTask(unclaim)).unclaimed
    request = shop.merge(shop.claim("third"))
    done = every_statement(live, lambda: shop.tasks.CompleteSegmentMergeTask(request))
    assert done.WhichOneof("result") == "success"
    assert shop.ids() == rows
    rewrite = janitor_pb2.RewriteAllSegmentsRequest(table_id=str(shop.id))
    assert every_statement(live, lambda: shop.janitor.RewriteAllSegments(rewrite)).tasks_created == 1
    delete = janitor_pb2.DeleteMergeTaskRequest(task_id=shop.list()[0].task_id)
    assert every_statement(live, lambda: shop.janitor.DeleteMergeTask(delete)).deleted


def test_a_task_that_was_claimed_and_not_handed_over_can_be_claimed_at_once(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GEN-15. The claim is committed; then reading its inputs fails."""
    shop = open_shop(live)
    shop.fill(2)
    shop.create()

    def fail(*_: Any) -> Any:
        raise Unavailable("The catalog did not answer.")

    with monkeypatch.context() as patched:
        patched.setattr(live.catalog.maintenance, "segments_with_vectors", fail)
        with refused(grpc.StatusCode.UNAVAILABLE):
            shop.poll("first")
    assert shop.list()[0].state == "waiting"
    assert shop.complete(shop.claim("second")).WhichOneof("result") == "success"


@rule("GEN-15", "SD-05", "SD-09")
def test_a_failed_statement_leaves_tombstoned_segments_as_they_were(backend: Backend) -> None:
    with serving(backend, config=Config(history_keep=0, delete_bytes="off")) as live:
        shop = open_shop(live)
        shop.fill(3)
        shop.table.compact(everything=True)
        live.clock.forward(1)
        collect(live.catalog, orphans=False)
        live.clock.forward(12 * 60)
        stub = live.stub(segment_deletion_pb2_grpc.SegmentDeletionServiceStub)
        asked = segment_deletion_pb2.GetTombstonedSegmentsForDeletionRequest()
        gone = [one.segment_id for one in stub.GetTombstonedSegmentsForDeletion(asked).segments]
        confirm = segment_deletion_pb2.ConfirmTombstoneDeletionRequest(segment_ids=gone)
        done = every_statement(live, lambda: stub.ConfirmTombstoneDeletion(confirm)).success
        assert done.deleted_count == 3
        outputs = [journal.output_segment_id for journal in done.journals_ready]
        clear = segment_deletion_pb2.ConfirmRewriteJournalDeletionRequest(output_segment_ids=outputs)
        assert every_statement(live, lambda: stub.ConfirmRewriteJournalDeletion(clear)).cleared_count == 1


@pytest.mark.postgres
@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
@rule("GEN-15")
def test_a_connection_to_postgresql_that_breaks_at_any_statement_changes_nothing(api: Api) -> None:
    """The server's process is ended for real; the pool finds a new connection for the next call."""
    database_id, (one,), stream = api.ingest()
    merge = api.merge(database_id, one, api.offset(stream, one, -1, 2))
    request = {"database_id": database_id, "merges": [merge], "register_request_id": name("r")}
    every_statement(api.live, lambda: api.RegisterMergedSegments(**request), kill)
