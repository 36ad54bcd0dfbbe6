"""Connections and transactions below the catalog: locks that end, schemas of a newer version, errors of the drivers."""

from __future__ import annotations

import socket
import struct
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.drivers import database_url
from moulin.catalog.sql.pool import HEAD_REVISION, Pool, upgrade
from moulin.config import Config
from moulin.errors import Fenced, InvalidInput, NotFound, Unavailable, Unsupported
from moulin.storage.store import open_store


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.open(f"sqlite:///{tmp_path}/catalog.sqlite", open_store(f"memory://{uuid.uuid4().hex}"), Config())


@pytest.mark.postgres
def test_a_writer_that_idles_with_the_lock_loses_it(postgres_url: str) -> None:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    sleeper = Catalog.open(postgres_url, store, Config(lock_seconds=0.5))
    other = Catalog.open(postgres_url, store, Config(lock_seconds=20))
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(Unavailable), sleeper.pool.write():
            waiting = pool.submit(other.create_database, "d")
            time.sleep(2)
        assert waiting.result().name == "d"
    assert [d.name for d in sleeper.databases()] == ["d"], "and its next try gets a new connection"
    sleeper.close()
    other.close()


@pytest.mark.postgres
def test_what_can_be_made_again_does_not_wait_for_the_disk_of_postgresql(postgres_url: str) -> None:
    name = sa.make_url(postgres_url).database
    engine = sa.create_engine(database_url(postgres_url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f'ALTER DATABASE "{name}" SET synchronous_commit TO on'))
    engine.dispose()
    with closing(Catalog.open(postgres_url, open_store(f"memory://{uuid.uuid4().hex}"), Config())) as catalog:
        asked = sa.text("SHOW synchronous_commit")
        with catalog.pool.repeatable() as connection:
            assert connection.execute(asked).scalar() == "off"
        with catalog.pool.unordered() as connection:
            assert connection.execute(asked).scalar() == "on"
        with catalog.pool.unordered() as connection:
            connection.execute(sa.text(f'ALTER DATABASE "{name}" RESET synchronous_commit'))


def test_a_schema_of_a_newer_version_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    with catalog.pool.unordered() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    catalog.close()
    with pytest.raises(Unsupported, match="upgrade"):
        Catalog.open(f"sqlite:///{tmp_path}/catalog.sqlite", catalog.store, Config())


def test_a_lake_format_of_a_newer_version_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    with catalog.pool.unordered() as connection:
        connection.execute(s.lake.update().values(format=s.FORMAT + 1))
    catalog.close()
    with pytest.raises(Unsupported, match="upgrade moulin"):
        Catalog.open(f"sqlite:///{tmp_path}/catalog.sqlite", catalog.store, Config())


def test_another_incarnation_fences_this_one(catalog: Catalog) -> None:
    with catalog.pool.unordered() as connection:
        connection.execute(s.lake.update().values(incarnation=2))
    with pytest.raises(Fenced, match="connect"):
        catalog.create_database("d")
    catalog.close()


def test_a_failed_change_is_rolled_back(catalog: Catalog) -> None:
    with pytest.raises(ZeroDivisionError), catalog.pool.write() as write:
        write.take_version("nothing")
        _ = 1 / 0
    assert catalog.version() == 0
    catalog.create_database("d")
    assert catalog.version() == 1
    catalog.close()


def test_errors_of_the_driver_are_our_own(catalog: Catalog) -> None:
    for statement, error in (
        ("SELECT * FROM nowhere", NotFound),
        ("INSERT INTO reserves VALUES ('segment', 1)", InvalidInput),
    ):
        with pytest.raises(error) as raised, catalog.pool.unordered() as connection:
            connection.execute(sa.text(statement))
        assert "sqlalche.me" not in str(raised.value)
        assert statement not in str(raised.value)
    catalog.close()


def test_threads_that_open_one_new_catalog_at_once_all_succeed(tmp_path: Path) -> None:
    def make(n: int) -> str | None:
        pool = Pool(database_url(f"sqlite:///{tmp_path}/{n % 3}.sqlite"), Config())
        pool.migrate()
        found = pool.revision()
        pool.close()
        return found

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(make, range(6))) == {HEAD_REVISION}


def test_a_new_catalog_is_what_the_migrations_make(tmp_path: Path) -> None:
    """It is made without them."""
    pools = [Pool(database_url(f"sqlite:///{tmp_path}/{name}.sqlite"), Config()) for name in ("new", "migrated")]
    pools[0].migrate()
    with pools[1].unordered() as connection:
        upgrade(connection)
    found = []
    for pool in pools:
        with pool.read() as connection:
            found.append(
                [
                    sorted(map(tuple, connection.exec_driver_sql(f"SELECT {columns} FROM {table}")))
                    for columns, table in (
                        ("type, name, sql", "sqlite_master WHERE sql IS NOT NULL"),
                        ("tbl, idx, stat", "sqlite_stat1"),
                        ("*", "alembic_version"),
                    )
                ]
            )
            found[-1] += [connection.execute(sa.select(table)).all() for table in s.metadata.sorted_tables]
        pool.close()
    assert found[0] == found[1]
    assert found[0][2] == [(HEAD_REVISION,)]


def test_the_planner_finds_its_way(catalog: Catalog) -> None:
    """Each question about spans is answered from the index that was made for it, however large the table grows."""
    table = "table_id = x'00'"
    for where, index in (
        ("removed_version = 9 AND segment IN (1, 2, 3, 4, 5, 6, 7, 8)", "spans_segment"),
        (f"{table} AND removed_version = 9 AND segment IN (1, 2, 3, 4, 5, 6, 7, 8)", "spans_segment"),
        (f"{table} AND added_version <= 5 AND removed_version > 5 AND segment IN (1, 2, 3)", "spans_segment"),
        (f"{table} AND added_version <= 5 AND removed_version > 5", "spans_removed"),
        (f"{table} AND removed_version = 9 AND added_version > 5", "spans_removed"),
        (f"{table} AND added_version <= 5 AND removed_version > 5 AND partition_id IN (1, 2, 3)", "spans_partition"),
        (f"{table} AND removed_version > 5 AND time_class = 42 AND time_min >= 1 AND time_min <= 2", "spans_time"),
    ):
        with catalog.pool.read() as connection:
            plan = connection.execute(sa.text(f"EXPLAIN QUERY PLAN SELECT * FROM segment_spans WHERE {where}")).all()
        assert f"USING INDEX {index} " in plan[0].detail, where
    catalog.close()


def test_writers_of_a_process_take_turns_and_do_not_wait_for_ever(tmp_path: Path) -> None:
    store = open_store(f"memory://{uuid.uuid4().hex}")
    catalog = Catalog.open(f"sqlite:///{tmp_path}/catalog.sqlite", store, Config(lock_seconds=0.2))
    with ThreadPoolExecutor(8) as pool:
        with catalog.pool.write():
            waiting = pool.submit(catalog.create_database, "late")
            with pytest.raises(Unavailable, match=r"busy with other changes for 0\.2 s"):
                waiting.result()
        names = [f"d{n}" for n in range(8)]
        list(pool.map(catalog.create_database, names))
    assert sorted(d.name for d in catalog.databases()) == names
    catalog.close()


@pytest.mark.postgres
def test_a_connection_that_the_server_ended_is_replaced_however_lately_it_was_used(postgres_url: str) -> None:
    pool, other = (Pool(database_url(postgres_url), Config()) for _ in range(2))
    with pool.read() as connection:
        number = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    with pool.read() as connection:
        assert connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one() == number
    with other.unordered() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:number, 10000)"), {"number": number})
    with pool.read() as connection:
        assert connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one() != number
    pool.close()
    other.close()


class Forgetful:
    """A way to the server that can forget its connections without a word: who sends over one then finds it reset."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._known: list[socket.socket] = []
        self._forgotten: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def forget(self) -> None:
        self._forgotten.update(self._known)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._known.append(client)
                for source, to in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=(source, to), daemon=True).start()

    def _forward(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if source in self._forgotten:
                    source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    source.close()
                    break
                to.sendall(data)
            to.close()


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_server_that_forgot_its_connections_costs_one_call_each_and_changes_nothing(
    postgres_url: str, kind: str
) -> None:
    url = database_url(postgres_url)
    assert url.host is not None
    assert url.port is not None
    store = open_store(f"memory://{uuid.uuid4().hex}")
    with closing(Forgetful(url.host, url.port)) as way:
        there = url.set(host="127.0.0.1", port=way.port).render_as_string(hide_password=False)
        catalog = Catalog.open(there, store, Config())
        catalog.create_database("before")
        way.forget()
        call = catalog.databases if kind == "read" else partial(catalog.create_database, "after")
        failed = 0
        while True:
            try:
                call()
                break
            except Unavailable:
                failed += 1
                assert failed <= 5, "as many as there are connections"
        assert failed >= 1
        catalog.create_database("later")
        assert {one.name for one in catalog.databases()} == {"before", "later", *(["after"] if kind == "write" else [])}
        catalog.close()
