"""Replicas: a lake read from its manifests alone, and tables opened read-only."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.replica import ReplicaCatalog
from moulin.catalog.upkeep.gc import collect
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.storage import open_store, paths
from moulin.storage.bases import BasesStore
from moulin.storage.cache import CachedStore
from tests.contract.samples import view_query

SCHEMA = [("id", "long"), ("day", "string"), ("ts", "timestamptz"), ("x", "double")]


def rows(first: int, count: int) -> list[dict[str, Any]]:
    stamp = datetime(2024, 3, 1, tzinfo=UTC)
    return [{"id": n, "day": f"d{n % 3}", "ts": stamp, "x": n / 2} for n in range(first, first + count)]


def wide(first: int, count: int, extra: int) -> list[dict[str, Any]]:
    """Rows after the columns were changed."""
    return [{"y": row.pop("x"), "extra": extra, **row} for row in rows(first, count)]


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[moulin.Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        yield lake


@pytest.fixture
def replica(primary: moulin.Lake, tmp_path: Path) -> Iterator[moulin.Lake]:
    with moulin.connect(tmp_path / "lake", read_only=True) as lake:
        yield lake


def shown(lake: moulin.Lake) -> dict[str, Any]:
    """Everything of a lake that a reader can see."""
    seen: dict[str, Any] = {"version": lake.version, "databases": lake.databases(include_dropped=True)}
    for database in lake.databases():
        seen[database.name] = [lake.tables(database.name, include_dropped=True), lake.views(database.name)]
        for entry in lake.tables(database.name):
            table = lake.table(f"{database.name}.{entry.name}")
            versions = {info.version for info in table.history()}
            seen[table.name] = [
                table.schema,
                table.properties,
                table.history(),
                table.stats(),
                {v: table.scan(version=v).to_arrow().to_pylist() for v in versions},
                table.scan(columns=["_row_id", "_last_updated_version", "_created_version"]).to_pylist(),
                table.state(),
            ]
    return seen


def same(primary: moulin.Lake, replica: moulin.Lake) -> None:
    assert replica.refresh() == primary.version
    assert shown(replica) == shown(primary)


def every_step(primary: moulin.Lake) -> Iterator[str]:
    """A life of a lake, step by step."""
    t = primary.create_table("d.t", SCHEMA, partition_by=["day"], event_time="ts")
    yield "create"
    t.append(rows(0, 50))
    yield "append"
    t.delete_where("id < 5")
    yield "delete"
    t.append(rows(50, 10), request_id="once")
    t.delete_where("id = 7")
    yield "append and delete"
    t.add_column("extra", "int", 7)
    t.rename_column("x", "y")
    yield "schema"
    t.set_properties({"a": "b"})
    t.set_partitioning(["bucket(4, id)"])
    t.append(wide(60, 10, 1))
    yield "settings"
    assert t.compact(everything=True).merges
    yield "merge"
    t.delete_where("id = 55")
    before = t.version
    t.overwrite(wide(100, 3, 2), where="id > 40")
    yield "overwrite"
    t.restore(before)
    yield "restore"
    other = primary.create_table("d.other", SCHEMA)
    other.append(rows(0, 3))
    yield "a new table and its rows at once"
    with primary.transaction() as tx:
        tx.table("d.t").append(wide(200, 3, 3))
        tx.table("d.other").append(rows(3, 3))
    yield "transaction"
    primary.create_view("d.v", ["t", "other"])
    primary.catalog.create_view("d", "q", [], query=view_query("select 1 as n", a="b"))
    yield "views"
    primary.catalog.create_view("d", "q", [], query=view_query("select 2 as n"), replace=True)
    primary.rename_table("d.other", "d.another")
    primary.rename_database("d", "e")
    yield "views and names"
    primary.drop_view("e.v")
    primary.drop_table("e.another")
    yield "drop"
    primary.resurrect_table("e.another")
    yield "resurrect"
    primary.drop_database("e", cascade=True)
    yield "drop of a database"
    primary.resurrect_database("e")
    yield "resurrect of a database"


def test_a_replica_follows_every_step(primary: moulin.Lake, replica: moulin.Lake, tmp_path: Path) -> None:
    for _ in every_step(primary):
        same(primary, replica)
    with moulin.connect(tmp_path / "lake", read_only=True) as fresh:
        assert shown(fresh) == shown(primary)


def test_a_replica_catches_up_with_many_steps_at_once(
    primary: moulin.Lake, replica: moulin.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    [*every_step(primary)]
    monkeypatch.setattr("moulin.catalog.manifests.follow._VERSIONS_AT_ONCE", 4)
    rebuilt: list[object] = []
    monkeypatch.setattr(ReplicaCatalog, "_rebuild", rebuilt.append)
    same(primary, replica)
    assert not rebuilt


def test_following_does_not_read_what_is_known(primary: moulin.Lake, replica: moulin.Lake) -> None:
    t = primary.create_table("d.t", SCHEMA)
    for n in range(20):
        t.append(rows(n, 1))
    replica.refresh()
    t.append(rows(100, 1))
    asked: list[str] = []
    read = replica.store.get
    replica.store.get = lambda path: (asked.append(path), read(path))[1]  # type: ignore[method-assign]
    assert replica.refresh() == primary.version
    assert asked == [paths.table_manifest(t.id, primary.version, "delta")]


def test_a_table_of_a_replica_shows_one_version_until_refresh(primary: moulin.Lake, replica: moulin.Lake) -> None:
    t = primary.create_table("d.t", SCHEMA)
    t.append(rows(0, 3))
    replica.refresh()
    copy = replica.table("d.t")
    scan = copy.scan()
    t.append(rows(3, 4))
    t.delete_where("id = 0")
    replica.refresh()
    assert copy.scan().count() == scan.count() == len(scan.to_arrow()) == 3
    assert copy.version == copy.history()[0].version == t.version - 2
    assert replica.table("d.t").scan().count() == 6
    assert copy.refresh() == primary.version
    assert copy.scan().count() == 6
    assert scan.count() == 3
    with copy.at(version=copy.version - 1) as snapshot:
        assert snapshot.scan().count() == 7


def test_a_read_only_table_of_a_lake_shows_one_version_until_refresh(primary: moulin.Lake) -> None:
    t = primary.create_table("d.t", SCHEMA)
    t.append(rows(0, 3))
    reader = primary.table("d.t", read_only=True)
    first = reader.refresh()
    t.append(rows(3, 4))
    t.add_column("more", "int")
    assert reader.scan().count() == 3
    assert reader.schema.names == ["id", "day", "ts", "x"]
    assert reader.stats().rows == 3
    assert [info.version for info in reader.history()] == [first, first - 1]
    assert reader.changes(first - 1).to_arrow().num_rows == 3
    assert reader.refresh() == primary.version == first + 2
    assert reader.scan().count() == 7
    assert "more" in reader.schema.names


@pytest.mark.parametrize("from_manifests", [False, True])
def test_every_write_is_refused(primary: moulin.Lake, tmp_path: Path, from_manifests: bool) -> None:
    t = primary.create_table("d.t", SCHEMA)
    t.append(rows(0, 3))
    before = {info.path for info in primary.store.list()}
    with moulin.connect(tmp_path / "lake", read_only=from_manifests) as lake:
        table = lake.table("d.t", read_only=True)
        writes = [
            lambda: table.append(rows(0, 1)),
            lambda: table.delete_where("id = 1"),
            lambda: table.overwrite(rows(0, 1)),
            lambda: table.restore(2),
            lambda: table.add_column("c", "int"),
            lambda: table.rename_column("x", "y"),
            lambda: table.drop_column("x"),
            lambda: table.set_properties({"a": "b"}),
            lambda: table.set_partitioning(["day"]),
            lambda: table.compact(everything=True),
        ]
        if from_manifests:
            writes += [
                lambda: lake.create_database("e"),
                lambda: lake.create_table("d.u", SCHEMA),
                lambda: lake.drop_table("d.t"),
                lambda: lake.rename_table("d.t", "d.u"),
                lambda: lake.replace_table("d.u", "d.t"),
                lambda: lake.create_view("d.v", ["t"]),
                lake.transaction,
                lambda: collect(lake.catalog),
                lambda: lake.catalog.reserve_segments(1),
                lambda: lake.catalog.publisher.write_full(None),
                lambda: lake.store.delete(["moulin.json"]),
            ]
        for write in writes:
            with pytest.raises(FailedPrecondition, match="read-only"):
                write()
    assert {info.path for info in primary.store.list()} - before <= {"catalog.sqlite-wal", "catalog.sqlite-shm"}
    assert t.scan().count() == 3


def test_a_replica_needs_no_catalog_and_leaves_nothing(primary: moulin.Lake, tmp_path: Path) -> None:
    primary.create_table("d.t", SCHEMA).append(rows(0, 3))
    expected = shown(primary)
    primary.close()
    for file in (tmp_path / "lake").glob("catalog.sqlite*"):
        file.unlink()
    before = sorted(info.path for info in open_store(tmp_path / "lake").list())
    with moulin.connect(tmp_path / "lake", read_only=True) as replica:
        folder = Path(str(replica.catalog.pool._file)).parent
        assert folder.is_dir()
        assert shown(replica) == expected
    assert not folder.exists()
    assert sorted(info.path for info in open_store(tmp_path / "lake").list()) == before


def test_what_is_no_lake_is_not_opened(tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="contains no lake"):
        moulin.connect(tmp_path / "empty", read_only=True)
    with pytest.raises(NotFound, match="does not exist"):
        moulin.connect(tmp_path / "gone", read_only=True)
    assert not (tmp_path / "gone").exists()
    with pytest.raises(InvalidInput, match="storage"):
        moulin.connect(postgres_url, read_only=True)
    with pytest.raises(InvalidInput, match="storage"):
        moulin.connect(tmp_path / "empty", storage="s3://b/x", read_only=True)


def test_a_torn_version_waits(primary: moulin.Lake, replica: moulin.Lake) -> None:
    a, b = (primary.create_table(f"d.{name}", SCHEMA) for name in "ab")
    a.append(rows(0, 1))
    replica.refresh()
    before = primary.version
    with primary.transaction() as tx:
        tx.table("d.a").append(rows(1, 1))
        tx.table("d.b").append(rows(1, 1))
    name = paths.table_manifest(b.id, primary.version, "delta")
    part = primary.store.get(name)
    primary.store.delete([name])
    assert replica.refresh() == before
    assert replica.table("d.a").scan().count() == 1
    with moulin.connect(replica.uri, read_only=True) as fresh:
        assert fresh.version == before
    primary.store.put(name, part)
    same(primary, replica)


def test_a_replica_that_slept_too_long_goes_on_from_full_manifests(primary: moulin.Lake, replica: moulin.Lake) -> None:
    """A replica that slept too long goes on from full manifests."""
    t = primary.create_table("d.t", SCHEMA)
    t.append(rows(0, 3))
    replica.refresh()
    copy = replica.table("d.t")
    for n in range(5):
        t.append(rows(10 * n, 3))
    t.compact(everything=True)
    primary.catalog.publisher.write_full(t.id)
    deleted = collect(primary.catalog, history_keep=0, byte_floor=0).deleted
    t.append(rows(100, 3))
    deleted += collect(primary.catalog, history_keep=0, byte_floor=0).deleted
    assert any(g.reason == "old manifest" for g in deleted)
    with pytest.raises(FailedPrecondition, match="refresh"):
        copy.scan().to_arrow()
    same(primary, replica)
    with pytest.raises(NotFound, match="cleaned up"):
        copy.scan().to_arrow()
    copy.refresh()
    assert copy.scan().count() == 21


def test_clean_up_of_the_lake_reaches_its_replicas(primary: moulin.Lake, replica: moulin.Lake) -> None:
    """Versions that the lake forgot are forgotten, also when only lake manifests say so; purged tables go."""
    t = primary.create_table("d.t", SCHEMA)
    u = primary.create_table("d.u", SCHEMA)
    for n in range(3):
        t.append(rows(n, 1))
        u.append(rows(n, 1))
    t.overwrite(rows(9, 1))
    replica.refresh()
    collect(primary.catalog, history_keep=0, byte_floor=0)
    same(primary, replica)
    u.append(rows(5, 5))
    primary.drop_table("d.u", immediate=True)
    t.append(rows(7, 1))
    collect(primary.catalog, history_keep=0, byte_floor=0)
    collect(primary.catalog, history_keep=0, byte_floor=0)
    assert not [*primary.store.list(paths.table_prefix(u.id))]
    same(primary, replica)
    with pytest.raises(NotFound):
        replica.table("d.u")


def test_a_version_whose_only_table_was_purged_is_no_gap(primary: moulin.Lake, tmp_path: Path) -> None:
    u = primary.create_table("d.u", SCHEMA)
    u.append(rows(5, 5))
    u.append(rows(5, 5))
    primary.drop_table("d.u", immediate=True)
    t = primary.create_table("d.t", SCHEMA)
    collect(primary.catalog, byte_floor=0)
    collect(primary.catalog, byte_floor=0)
    assert not [*primary.store.list(paths.table_prefix(u.id))]
    t.append(rows(0, 1))
    with moulin.connect(tmp_path / "lake", read_only=True) as replica:
        same(primary, replica)
    found = recover(primary.store, f"sqlite:///{tmp_path}/other.sqlite", primary.config)
    assert found.version == t.version


def test_a_replica_follows_a_recovered_lake_and_not_its_lost_life(
    primary: moulin.Lake, replica: moulin.Lake, tmp_path: Path
) -> None:
    """What a lost life of the catalog still publishes does not count."""
    t = primary.create_table("d.t", SCHEMA)
    t.append(rows(0, 3))
    replica.refresh()
    found = recover(primary.store, f"sqlite:///{tmp_path}/new.sqlite", primary.config)
    primary.catalog.publisher.fence_seconds = 1e9
    primary.catalog.publisher._looked_at = 1e18
    t.append(rows(100, 50))
    assert replica.refresh() == found.first_version
    assert replica.table("d.t").scan().count() == 3
    from moulin.catalog.catalog import Catalog

    catalog = Catalog.open(f"sqlite:///{tmp_path}/new.sqlite", primary.store, primary.config)
    with moulin.Lake(catalog, primary.store, "new") as successor:
        successor.table("d.t").append(rows(3, 2))
        same(successor, replica)
        assert replica.table("d.t").scan().count() == 5


def test_a_replica_reads_while_a_writer_commits(tmp_path: Path) -> None:
    """Every scan is a committed version: both tables get a batch in the same one, and one of them loses rows again."""
    with moulin.connect(tmp_path / "lake", manifest_deltas=8) as lake:
        lake.create_database("d")
        lake.create_table("d.t", [("batch", "long"), ("n", "long")])
        lake.create_table("d.copy", [("batch", "long"), ("n", "long")])
    program = textwrap.dedent(
        """
        import sys, moulin
        from moulin.catalog.upkeep.gc import collect
        with moulin.connect(sys.argv[1], manifest_deltas=8) as lake:
            for batch in range(60):
                rows = [{"batch": batch, "n": n} for n in range(10)]
                with lake.transaction() as tx:
                    tx.table("d.t").append(rows)
                    tx.table("d.copy").append(rows)
                if batch % 7 == 3:
                    lake.table("d.t").delete_where(f"batch = {batch} and n = 0")
                if batch % 20 == 19:
                    lake.table("d.t").compact(everything=True)
                    collect(lake.catalog, history_keep=3600)
        """
    )
    folder = str(tmp_path / "lake")
    writer = subprocess.Popen([sys.executable, "-c", program, folder], env={**os.environ})
    seen: list[int] = []
    try:
        with moulin.connect(folder, read_only=True) as replica, moulin.connect(folder) as lake:
            pinned = lake.table("d.t", read_only=True)
            running = True
            while running:
                running = writer.poll() is None
                seen.append(replica.refresh())
                version = pinned.refresh()
                for t, copy in (
                    (replica.table("d.t").scan(), replica.table("d.copy").scan()),
                    (pinned.scan(), lake.table("d.copy").scan(version=version)),
                ):
                    left, right = t.to_arrow(), copy.to_arrow()
                    assert right.num_rows % 10 == 0
                    deleted = right.num_rows - left.num_rows
                    assert deleted in {len([b for b in range(n) if b % 7 == 3]) for n in _batches(right)}
                    assert set(left["batch"].to_pylist()) == set(right["batch"].to_pylist())
            same(lake, replica)
    finally:
        writer.kill()
        writer.wait()
    assert writer.returncode == 0
    assert seen == sorted(seen)
    assert len(set(seen)) > 3


def _batches(right: pa.Table) -> tuple[int, int]:
    """The delete of a batch follows its append as a version of its own."""
    batches = right.num_rows // 10
    return batches, batches - 1


@pytest.mark.s3
def test_a_replica_of_a_lake_on_s3_reads_through_the_cache(
    tmp_path: Path, s3_url: str, s3_options: dict[str, str]
) -> None:
    cache = str(tmp_path / "cache")
    with (
        moulin.connect(tmp_path / "catalog", storage=s3_url, storage_options=s3_options) as primary,
    ):
        primary.create_database("d")
        with moulin.connect(s3_url, storage_options=s3_options, read_only=True, cache_folder=cache) as replica:
            for _ in every_step(primary):
                pass
            same(primary, replica)
            assert isinstance(replica.store, BasesStore)
            assert isinstance(replica.store.own, CachedStore)
            assert replica.store.own.stats().hits > 0
            with pytest.raises(FailedPrecondition, match="read-only"):
                replica.store.put("a", b"")


@pytest.mark.spark
def test_sql_on_a_replica_shows_its_version_until_refresh(primary: moulin.Lake, tmp_path: Path, spark: Any) -> None:
    t = primary.create_table("d.t", SCHEMA)
    t.append(rows(0, 10))
    t.delete_where("id = 3")
    with moulin.connect(tmp_path / "lake", read_only=True, spark=spark) as replica:
        assert replica.sql("select count(*) c, sum(id) s from d.t").collect()[0].asDict() == {"c": 9, "s": 42}
        t.append(rows(10, 1))
        assert replica.sql("select count(*) c from d.t").collect()[0].c == 9
        table = replica.table("d.t")
        replica.refresh()
        assert replica.sql("select count(*) c from d.t").collect()[0].c == 10
        assert table.to_spark().count() == 9
        table.refresh()
        assert table.to_spark().count() == 10
