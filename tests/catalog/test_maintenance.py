"""Merge tasks, staged segments and spans of a catalog that was made before there were any."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.drivers import database_url
from moulin.catalog.sql.pool import HEAD_REVISION
from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.config import Config
from moulin.model.operations import Append
from moulin.storage.store import open_store
from tests.contract.samples import commit, make_table, segment


def _older(uri: str) -> None:
    """Take out of a new catalog what revision 0006 brought."""
    url = database_url(uri)
    engine = sa.create_engine(url if url.drivername == "sqlite" else url.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        for table in (s.merge_task_inputs, s.merge_tasks, s.staged_segments, s.leases):
            table.drop(connection)
        connection.execute(sa.text("CREATE TABLE reservations (segment BIGINT PRIMARY KEY, owner VARCHAR)"))
        for index in ("spans_warm", "trash_merge", "ix_trash_segment", "ix_trash_output"):
            connection.execute(sa.text(f"DROP INDEX {index}"))
        columns = [("segment_spans", "time_max"), ("journals", "output")]
        columns += [("trash", name) for name in ("table_id", "segment", "tombstoned_at", "tombstone_version", "output")]
        for table_name, column in columns:
            connection.execute(sa.text(f"ALTER TABLE {table_name} DROP COLUMN {column}"))
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0005'"))
    engine.dispose()


@pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_catalog_from_before_merge_tasks_is_migrated(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    uri = f"sqlite:///{tmp_path}/old.sqlite" if backend == "sqlite" else request.getfixturevalue("postgres_url")
    store = open_store(f"memory://{tmp_path.name}-{backend}")
    made = Catalog.open(uri, store, Config())
    state = make_table(made)
    old, new = (segment(made, state.id, time_min=n, time_max=n + 5) for n in (10, 70))
    commit(made, state.id, Append(added=(old, new)))
    made.close()
    _older(uri)
    again = Catalog.open(uri, store, Config())
    try:
        assert again.pool.revision() == HEAD_REVISION
        found = [one.number for one in again.maintenance.newest_segments().segments]
        assert found == [new.number, old.number]
        plan = PlannedTask(state.id, {old.number: 0, new.number: 0}, 1)
        assert again.maintenance.create_merge_tasks([plan]) != [None]
        with again.pool.read() as connection:
            inspector = sa.inspect(connection)
            assert not inspector.has_table("reservations")
            assert {index["name"] for index in inspector.get_indexes("trash")} >= {"trash_merge", "ix_trash_segment"}
    finally:
        again.close()
