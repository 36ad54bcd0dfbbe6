"""Ingest in the catalog: what recovery and replicas know of it, and catalogs from before it."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.replica import ReplicaCatalog
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.drivers import database_url
from moulin.catalog.sql.pool import HEAD_REVISION, Pool
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import Conflict, Unauthenticated
from moulin.model.ingest import Advance, Frontier, NurseryBatch, Registration, Routing, SetAside, StopReason
from moulin.storage.store import Store, open_store
from tests.contract.conftest import HandClock
from tests.contract.samples import make_table, segment

INGEST = (s.ingest_tokens, s.token_secrets, s.streams, s.stream_tables, s.set_asides, s.requests)


@pytest.fixture
def folder() -> Iterator[Path]:
    parent = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=parent if parent.is_dir() else None) as made:
        yield Path(made)


@pytest.fixture
def store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


@pytest.fixture
def catalog(folder: Path, store: Store) -> Iterator[Catalog]:
    made = Catalog.open(f"sqlite:///{folder}/one.sqlite", store, Config())
    yield made
    made.close()


def rows(catalog: Catalog, tables: tuple[sa.Table, ...] = INGEST) -> dict[str, list[Any]]:
    with catalog.pool.read() as connection:
        return {table.name: sorted(map(repr, connection.execute(sa.select(table)))) for table in tables}


def fill(catalog: Catalog) -> tuple[str, list[UUID], UUID]:
    """Tokens, streams at several places, set-asides; returns a plaintext, the streams and the table."""
    ingest, table_id = catalog.ingest, make_table(catalog).id
    routing = Routing(table_id, table_id, table_id)
    old = ingest.create_token("d", "token", routing)
    new = ingest.rotate_token("d", "token", overlap_seconds=60)
    ingest.create_token("d", "gone", routing, expires_in=3600)
    ingest.drop_token("d", "gone")
    streams = [ingest.register_stream(old.plaintext, f"c{n}", "host").stream.id for n in range(3)]
    merge = Registration(segment(catalog, table_id), (Advance(streams[0], -1, 4, 10**9),))
    more = Registration(segment(catalog, table_id), (Advance(streams[0], 4, 6, 10**9),))
    ingest.register_segments("d", table_id, [merge, more], request_id="r")
    batch = NurseryBatch(
        {table_id: (segment(catalog, table_id),)},
        (Frontier(streams[1], -1, 7, 10**9, (table_id,)),),
        ingest.stream_list().routing_seq,
        (SetAside(streams[1], 3, 5, "not OTLP", "aside/1"),),
    )
    ingest.commit_nursery_batch(batch, request_id="b")
    ingest.set_deleted_offset(streams[1], 7, 5)
    ingest.stop_stream(streams[1], 7, stopped_at=9, reason=StopReason.CLIENT)
    ingest.stop_stream(streams[2], -1, stopped_at=9)
    return new.plaintext, streams, table_id


@pytest.mark.parametrize("full", [False, True])
def test_recovery_brings_back_ingest(catalog: Catalog, store: Store, folder: Path, full: bool) -> None:
    plaintext, streams, _ = fill(catalog)
    before, listed = rows(catalog), catalog.ingest.stream_list()
    if full:
        catalog.publisher.write_full(None)
    catalog.publisher.publish()
    recover(store, f"sqlite:///{folder}/two.sqlite", Config())
    again = Catalog.open(f"sqlite:///{folder}/two.sqlite", store, Config())
    try:
        assert rows(again) == before
        found = again.ingest.stream_list()
        assert [(s.id, s.frontier, s.tables and s.tables[0].merged_offset) for s in found.streams] == [
            (s.id, s.frontier, s.tables and s.tables[0].merged_offset) for s in listed.streams
        ]
        assert found.response_seq > listed.response_seq
        assert found.routing_seq > listed.routing_seq
        assert found.streams[0].tables[0].checkpoints[-1] == listed.streams[0].tables[0].checkpoints[-1]
        assert again.ingest.validate_token(plaintext).name == "token"
        stale = NurseryBatch({}, (Frontier(streams[0], 6, 8, 0),), listed.routing_seq)
        with pytest.raises(Conflict, match="outing"):
            again.ingest.commit_nursery_batch(stale, request_id="new")
        replayed = again.ingest.commit_nursery_batch(
            NurseryBatch({}, (Frontier(streams[0], 6, 8, 0),), found.routing_seq), request_id="new"
        )
        assert not replayed.replayed
    finally:
        again.close()


def test_a_replica_follows_ingest(catalog: Catalog, store: Store) -> None:
    catalog.publisher.publish()
    replica = ReplicaCatalog.from_manifests(store, Config())
    try:
        plaintext, _, _ = fill(catalog)
        catalog.publisher.publish()
        replica.refresh()
        assert rows(replica) == rows(catalog)
        assert replica.ingest.validate_token(plaintext).name == "token"
        catalog.drop_database("d", cascade=True, immediate=True)
        collect(catalog)
        catalog.publisher.publish()
        replica.refresh()
        assert rows(replica) == rows(catalog)
        with pytest.raises(Unauthenticated):
            replica.ingest.validate_token(plaintext)
    finally:
        replica.close()


def test_what_is_left_of_a_stream_goes_in_the_end(folder: Path, store: Store) -> None:
    clock = HandClock()
    catalog = Catalog.open(f"sqlite:///{folder}/clock.sqlite", store, Config(), clock=clock)
    try:
        _, streams, _ = fill(catalog)
        clock.now += 3700 * 10**9
        collect(catalog)
        assert {stream.id for stream in catalog.ingest.streams(streams)} == {streams[0]}
        assert len(rows(catalog)["requests"]) == 2
        clock.now += 8 * 86_400 * 10**9
        collect(catalog)
        assert not rows(catalog)["requests"]
    finally:
        catalog.close()


def test_no_live_reference_to_a_dead_table(catalog: Catalog) -> None:
    _, _, table_id = fill(catalog)
    assert not [finding for finding in check(catalog, data=False) if "refer" in finding.rule]
    with catalog.pool.unordered() as connection:
        connection.execute(s.tables.update().where(s.tables.c.id == table_id).values(tombstoned_at=1, delete_at=2))
    found = [finding for finding in check(catalog, data=False) if "refer" in finding.rule]
    assert [finding.where for finding in found] == ["ingest token token"]


def _older(uri: str) -> None:
    """Take out of a new catalog what revision 0005 brought."""
    url = database_url(uri)
    engine = sa.create_engine(url if url.drivername == "sqlite" else url.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        for table in (s.stream_checkpoints, s.stream_tables, s.streams, s.token_secrets, s.ingest_tokens, s.set_asides):
            table.drop(connection)
        s.members.drop(connection)
        for table, column in (("counter", "routing_seq"), ("requests", "versions"), ("requests", "digest")):
            connection.execute(sa.text(f"ALTER TABLE {table} DROP COLUMN {column}"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0003'"))
    engine.dispose()


@pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_catalog_from_before_ingest_is_migrated(
    backend: str, folder: Path, store: Store, request: pytest.FixtureRequest
) -> None:
    uri = f"sqlite:///{folder}/old.sqlite" if backend == "sqlite" else request.getfixturevalue("postgres_url")
    made = Catalog.open(uri, store, Config())
    table_id = make_table(made).id
    made.close()
    _older(uri)
    pool = Pool(database_url(uri), Config())
    assert pool.revision() == "0003"
    pool.close()
    again = Catalog.open(uri, store, Config())
    try:
        assert again.pool.revision() == HEAD_REVISION
        assert again.table_by_id(table_id).name == "t"
        routing = Routing(table_id, table_id, table_id)
        assert again.ingest.validate_token(again.ingest.create_token("d", "k", routing).plaintext).name == "k"
    finally:
        again.close()
