"""GEN-15: a change is one transaction: whatever fails, wherever, the state is as before or as after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin._proto.moulin.lake.v1.catalog_pb2_grpc import CatalogServiceStub
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.sql.schema import metadata
from moulin.lake import Lake
from moulin.meta.codec.lake.commit import to_message_commit
from moulin.meta.codec.lake.table import to_message_new_table
from moulin.meta.server.server import build_server
from moulin.model.operations import Append, SetProperties
from moulin.table.write.writes import prepare_append
from tests.contract.samples import make_table, new_table
from tests.meta.conftest import LOOPBACK


class Site:
    def __init__(self, lake: Lake, stub: Any) -> None:
        self.lake, self.stub, self.catalog = lake, stub, lake.own_catalog()

    def dump(self) -> dict[str, list[Any]]:
        """Every row of the catalog but what publishing moves on."""
        with self.catalog.pool.read() as connection:
            return {
                table.name: sorted(map(repr, connection.execute(sa.select(table))))
                for table in metadata.sorted_tables
                if table.name != "outbox"
            }

    @contextmanager
    def at_statement(self, number: int, act: Callable[[], None]) -> Iterator[list[int]]:
        """Act before the statement of this number that a writing transaction of any thread runs."""
        count = [0]

        def before(connection: sa.Connection, *rest: Any) -> None:
            if connection.get_execution_options().get("moulin_write") == "FULL":
                count[0] += 1
                if count[0] == number:
                    act()

        engine = self.catalog.pool._engine
        sa.event.listen(engine, "before_cursor_execute", before)
        try:
            yield count
        finally:
            sa.event.remove(engine, "before_cursor_execute", before)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Lake.open(tmp_path / "lake") as lake:
        server = build_server(lake, LOOPBACK).start()
        with grpc.insecure_channel(server.address) as channel:
            yield Site(lake, CatalogServiceStub(channel))
        server.stop(1)


Prepared = tuple[Any, Any]
Prepare = Callable[[Site], Prepared]


def _create_table(site: Site) -> Prepared:
    site.catalog.create_database("d")
    return site.stub.CreateTable, to_message_new_table("d", "t", new_table())


def _commit(site: Site) -> Prepared:
    state = make_table(site.catalog)
    added = Append(
        added=tuple(one for n in (1, 2) for one in prepare_append(site.lake.context, state, [{"id": n}]).added)
    )
    changes = [added, SetProperties({"a": "b"})]
    messages = [to_message_commit(TableCommit(state.id, state.version, change)) for change in changes]
    return site.stub.Commit, pb.CommitRequest(changes=messages, request_id="r")


def _drop_database(site: Site) -> Prepared:
    make_table(site.catalog, "a")
    make_table(site.catalog, "b")
    site.catalog.create_view("d", "v", ["a", "b"])
    return site.stub.DropDatabase, pb.DropDatabaseRequest(name="d", cascade=True)


CHANGES = [_create_table, _commit, _drop_database]


@pytest.mark.parametrize("prepare", CHANGES)
def test_an_error_at_any_statement_changes_nothing(site: Site, prepare: Prepare) -> None:
    method, request = prepare(site)
    before = site.dump()

    def fail() -> None:
        raise sa.exc.OperationalError("", None, Exception("the connection was lost"))

    number = 0
    while True:
        number += 1
        with site.at_statement(number, fail):
            call = method.future(request)
            if call.code() is grpc.StatusCode.OK:
                break
        assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert site.dump() == before, f"statement {number}"
    assert number > 5
    assert site.dump() != before


@pytest.mark.parametrize("number", [1, 2, 6])
def test_a_call_whose_caller_left_is_done_wholly_or_not_at_all(site: Site, number: int) -> None:
    """The caller goes while a statement runs. What the server does then, it does wholly; asking again is safe."""
    method, request = _commit(site)
    before = site.dump()
    reached, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        go_on.wait(10)

    with site.at_statement(number, wait):
        call = method.future(request)
        assert reached.wait(10)
        call.cancel()
        time.sleep(0.1)
        go_on.set()
        site.catalog.create_database("next")  # waits for the lock, so the call has ended when it is done
    names = {"databases", "versions", "counter"}
    after = site.dump()
    changed = {table for table in after if after[table] != before[table]} - names
    answer = method(request)
    assert answer.replayed == bool(changed), "it was done, or it was not"
    assert site.catalog.table("d", "t").properties == {"a": "b"}
    assert len(site.catalog.history(site.catalog.table("d", "t").id)) == 3
