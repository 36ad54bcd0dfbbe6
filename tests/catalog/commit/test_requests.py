"""Request ids: forgotten when nobody repeats them any more, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit import requests
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import HEAD_REVISION
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.model.operations import SetProperties
from moulin.storage.store import open_store
from tests.contract.conftest import HandClock
from tests.contract.samples import make_table

DAY = 86_400 * 10**9


def known(catalog: Catalog) -> set[str]:
    with catalog.pool.read() as connection:
        return set(connection.execute(sa.select(s.requests.c.id)).scalars())


@pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_ids_are_kept_for_as_long_as_they_may_be_repeated(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.sqlite" if backend == "sqlite" else request.getfixturevalue("postgres_url")
    clock = HandClock()
    catalog = Catalog.open(uri, open_store(f"memory://requests-{backend}"), Config(), clock=clock)
    try:
        state = make_table(catalog)

        def commit(request_id: str) -> int:
            change = TableCommit(state.id, catalog.version(), SetProperties({"last": request_id}))
            return catalog.commit([change], request_id=request_id).version

        passing = ["call-1", "flush:t:0:1:9", "iceberg-rest:abc"]
        kept = ["daily-2027-01-01", "call_1", "stream:a:b:9", "stream:c:1"]
        for one in (*passing, *kept[:2], "stream:a:b:7", "stream:a:b:8", *kept[2:]):
            commit(one)
        clock.now += 6 * DAY
        collect(catalog, orphans=False)
        assert len(known(catalog)) == len(passing) + len(kept) + 2, "not old enough"
        commit("call-2")
        clock.now += 2 * DAY
        collect(catalog, orphans=False, dry_run=True)
        assert "call-1" in known(catalog)
        collect(catalog, orphans=False)
        assert known(catalog) == {*kept, "call-2"}
        before = catalog.version()
        assert commit("stream:a:b:9") < before, "the batch that a stream may still repeat"
        assert commit("daily-2027-01-01") < before
        assert requests.forget(catalog.pool, 7 * 86_400) == 0
    finally:
        catalog.close()


def test_a_catalog_from_before_the_index_is_migrated(tmp_path: Path) -> None:
    uri, store = f"sqlite:///{tmp_path}/old.sqlite", open_store("memory://requests-old")
    made = Catalog.open(uri, store, Config())
    with made.pool.unordered() as connection:
        connection.execute(sa.text("DROP INDEX ix_requests_created_at"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0006'"))
    made.close()
    again = Catalog.open(uri, store, Config())
    try:
        assert again.pool.revision() == HEAD_REVISION
        with again.pool.read() as connection:
            found = {index["name"] for index in sa.inspect(connection).get_indexes("requests")}
        assert found == {"ix_requests_created_at"}
    finally:
        again.close()
