"""`kill -9` in the middle of commits: what was answered is there, nothing is half there, what waited is published."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.sql import schema as s
from moulin.config import Config
from moulin.storage.store import open_store
from tests.contract.processes import start_worker, versions_of
from tests.contract.samples import make_table

pytestmark = pytest.mark.crash


def require_consistent(catalog: Catalog, table_id: object, told: list[int], last_told: int) -> None:
    """Two commits belong to each round of a worker: a segment, and one more on the property that counts rounds."""
    state = catalog.table_by_id(table_id)  # type: ignore[arg-type]
    history = catalog.history(state.id)[::-1]
    versions = [c.version for c in history]
    assert versions == list(range(versions[0], versions[0] + len(versions)))
    assert set(told) <= set(versions), "every answer holds"
    assert catalog.version() == versions[-1]
    appends = [c for c in history if c.kind == "append"]
    counts = [c for c in history if c.kind == "set-properties"]
    assert int(state.properties.get("n", "0")) == len(counts)
    found = catalog.segments(state.id, catalog.version())
    assert len(found) == len(appends)
    assert sorted(x.first_row_id for x in found) == [c.first_row_id for c in appends]
    assert catalog.count_rows(state.id, catalog.version()) == sum(x.facts.rows for x in found)
    assert catalog.publisher.published_version() == catalog.version(), "opening published what waited"
    with catalog.pool.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(s.outbox)).scalar_one() == 0
    assert last_told <= versions[-1]


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_writers_killed_at_random_leave_a_lake_that_recovers(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.sqlite" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    store = open_store(tmp_path)
    catalog = Catalog.open(uri, store, Config())
    table_id = make_table(catalog).id
    catalog.close()
    chance = random.Random(20)
    told: list[int] = []
    for _ in range(4):
        workers = [start_worker(uri, tmp_path, table_id, 10_000) for _ in range(2)]
        assert workers[0].stdout is not None
        told.append(int(workers[0].stdout.readline()))  # under way
        time.sleep(chance.random() * 0.5)
        for worker in workers:
            worker.kill()
        for worker in workers:
            told += versions_of(worker, killed=True)
        catalog = Catalog.open(uri, store, Config())
        require_consistent(catalog, table_id, told, max(told))
        version = catalog.version()
        catalog.close()
    again = f"sqlite:///{tmp_path}/recovered.sqlite"
    assert recover(store, again, Config()).version == version
    recovered = Catalog.open(again, store, Config())
    assert [c.version for c in recovered.history(table_id)][:1] == [version]
    recovered.close()


def test_a_stopped_writer_does_not_stop_the_others(tmp_path: Path) -> None:
    """Dying with the lock in hand gives it back."""
    uri, store = f"sqlite:///{tmp_path}/catalog.sqlite", open_store(tmp_path)
    catalog = Catalog.open(uri, store, Config())
    table_id = make_table(catalog).id
    worker = start_worker(uri, tmp_path, table_id, 10_000)
    assert worker.stdout is not None
    worker.stdout.readline()
    worker.kill()
    versions_of(worker, killed=True)
    catalog.create_database("next")
    require_consistent_order(catalog, table_id)
    catalog.close()


def require_consistent_order(catalog: Catalog, table_id: object) -> None:
    versions = [c.version for c in catalog.history(table_id)]  # type: ignore[arg-type]
    assert versions == sorted(versions, reverse=True)
    assert catalog.version() == versions[0] + 1
