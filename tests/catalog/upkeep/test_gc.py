"""Clean-up: what is kept stays readable, what is garbage goes, in that order, whoever dies when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moulin.catalog.expiry import Garbage, throw_away
from moulin.catalog.manifests.recover import recover
from moulin.catalog.segments import staging
from moulin.catalog.segments.deletion import confirm, offered, trash_state
from moulin.catalog.sql.pool import take
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import DAY, HOUR, MINUTE
from moulin.errors import NotFound
from moulin.lake import Lake, locate
from moulin.model.ids import new_id
from moulin.storage import paths
from moulin.table.table import Table
from tests.catalog.conftest import HandClock, OpenLake, files

COLUMNS = [("id", "long", False)]


def ids(source: object) -> list[int]:
    return sorted(source.scan().to_arrow().column("id").to_pylist())  # type: ignore[attr-defined]


def rows(first: int, count: int) -> list[dict[str, int]]:
    return [{"id": first + n} for n in range(count)]


@pytest.fixture
def table(lake: Lake) -> Table:
    table = lake.create_table("shop.t", COLUMNS)
    for n in range(4):
        table.append(rows(n * 10, 10))
    table.delete_where("id = 5")
    return table


def test_versions_stay_for_their_time_and_go_after_it(
    lake: Lake, table: Table, clock: HandClock, tmp_path: Path
) -> None:
    old = table.version
    table.compact(everything=True)
    clock.forward(6 * DAY)
    assert collect(lake.catalog).expired == []
    assert len(ids(table.at(version=old))) == 39
    clock.forward(2 * DAY)
    first = collect(lake.catalog)
    assert [found.table for found in first.expired] == ["shop.t"]
    assert len(files(tmp_path, "*.parquet")) == 5, "bytes wait for the floor"
    with pytest.raises(NotFound, match="cleaned up"):
        table.at(version=old)
    clock.forward(13 * MINUTE)
    second = collect(lake.catalog)
    assert len(files(tmp_path, "*.parquet")) == 1
    assert not files(tmp_path, "*.puffin")
    assert not files(tmp_path, "*.journal")
    assert second.bytes_deleted > 0
    assert len(ids(table)) == 39
    assert check(lake.catalog) == []


def test_lineage_outlives_history(lake: Lake, table: Table, clock: HandClock) -> None:
    columns = ["id", "_row_id", "_last_updated_version", "_created_version"]
    before = table.scan(columns=columns).to_arrow().sort_by("id")
    table.compact(everything=True)
    clock.forward(30 * DAY)
    collect(lake.catalog)
    assert table.scan(columns=columns).to_arrow().sort_by("id") == before


def test_a_dry_run_changes_nothing(lake: Lake, table: Table, clock: HandClock, tmp_path: Path) -> None:
    old = table.version
    table.compact(everything=True)
    lake.create_table("shop.gone", COLUMNS).append(rows(1, 1))
    lake.drop_table("shop.gone")
    clock.forward(30 * DAY)
    version, before = lake.version, files(tmp_path, "*")
    planned = collect(lake.catalog, dry_run=True)
    assert planned.purged == ["table gone"]
    assert [found.table for found in planned.expired] == ["shop.t"]
    assert len([g for g in planned.trashed if g.path.endswith(".parquet")]) == 4
    assert (lake.version, files(tmp_path, "*")) == (version, before)
    assert len(ids(table.at(version=old))) == 39
    done = collect(lake.catalog)
    assert [g.path for g in done.trashed if "manifest" not in g.reason] == [g.path for g in planned.trashed]


def test_pinned_versions_are_kept(lake: Lake, table: Table, clock: HandClock) -> None:
    old = table.version
    with table.at(version=old) as snapshot:
        table.compact(everything=True)
        clock.forward(30 * DAY)
        collect(lake.catalog)
        clock.forward(30 * MINUTE)
        collect(lake.catalog)
        assert len(ids(snapshot)) == 39
    clock.forward(1)
    assert collect(lake.catalog).expired


def test_the_pin_of_a_reader_that_is_not_known_to_live_runs_out(lake: Lake, table: Table, clock: HandClock) -> None:
    """One that reads through a server, or in a process of Spark's."""
    old = table.at(version=table.version)
    pin = lake.catalog.pin(table.id, old.version)
    table.compact(everything=True)
    clock.forward(30 * DAY)
    lake.catalog.renew_pin(pin)
    collect(lake.catalog)
    assert len(ids(old)) == 39
    clock.forward(2 * HOUR)
    collect(lake.catalog)
    with pytest.raises(NotFound, match="cleaned up"):
        ids(old)
    with pytest.raises(NotFound, match="cleaned up"):
        lake.catalog.renew_pin(pin)


def test_history_can_be_kept_per_table(lake: Lake, table: Table, clock: HandClock) -> None:
    old = table.version
    table.set_properties({"moulin.history-keep-seconds": 100 * DAY})
    table.compact(everything=True)
    clock.forward(30 * DAY)
    collect(lake.catalog)
    assert len(ids(table.at(version=old))) == 39


def test_dropped_tables_stay_for_their_grace_and_the_floor(
    lake: Lake, table: Table, clock: HandClock, tmp_path: Path
) -> None:
    lake.drop_table("shop.t")
    clock.forward(DAY - MINUTE)
    collect(lake.catalog)
    lake.resurrect_table("shop.t")
    assert len(ids(table)) == 39
    lake.drop_table("shop.t", immediate=True)
    collect(lake.catalog)
    assert files(tmp_path, "*.parquet"), "even an immediate drop waits for the floor"
    clock.forward(13 * MINUTE)
    collect(lake.catalog)
    assert not files(tmp_path / "lake" / "tables", "*")
    assert lake.tables("shop", include_dropped=True) == []


def test_orphans_go_when_they_are_old(lake: Lake, table: Table, clock: HandClock, tmp_path: Path) -> None:
    """Files that no version names: a task that failed, a writer that was killed."""
    folder = tmp_path / "lake" / "tables" / str(table.id) / "data" / "_moulin_segment=999"
    folder.mkdir()
    (folder / "0badf00d.parquet").write_bytes(b"half a segment")
    foreign = tmp_path / "lake" / "tables" / str(table.id) / "notes.txt"
    foreign.write_text("not ours")
    os.utime(folder / "0badf00d.parquet", ns=(clock.now, clock.now))
    assert not [g for g in collect(lake.catalog).deleted if g.reason == "orphan"]
    clock.forward(2 * DAY)
    assert [g.reason for g in collect(lake.catalog, dry_run=True).deleted] == ["orphan"]
    assert [g.reason for g in collect(lake.catalog).deleted] == ["orphan"]
    assert foreign.exists()
    assert len(ids(table)) == 39


def test_a_stop_between_the_phases_loses_nothing(lake: Lake, table: Table, clock: HandClock, tmp_path: Path) -> None:
    """The trash is in the catalog: a second run goes on where the first one stopped."""
    table.compact(everything=True)
    clock.forward(30 * DAY)
    collect(lake.catalog)
    clock.forward(13 * MINUTE)
    files(tmp_path / "lake", "*.parquet")[0].unlink()  # as if the first run had been killed half-way
    collect(lake.catalog)
    assert len(files(tmp_path, "*.parquet")) == 1
    assert collect(lake.catalog).deleted == []


def test_recovery_after_a_clean_up_gives_what_was_kept(open_lake: OpenLake, clock: HandClock, tmp_path: Path) -> None:
    """Old manifests are trimmed once full ones stand in for them, and recovery gives what was kept."""
    lake = open_lake(manifest_deltas=4)
    lake.create_database("shop")
    table = lake.create_table("shop.t", COLUMNS)
    for n in range(12):
        table.append(rows(n * 10, 10))
    lake.catalog.publisher.write_full(table.id)
    clock.forward(30 * DAY)
    kept = table.version
    table.append(rows(500, 1))
    collect(lake.catalog)
    clock.forward(13 * MINUTE)
    collect(lake.catalog)
    manifests = files(tmp_path / "lake" / "tables", "*.delta")
    assert len(manifests) < 12, "old deltas are gone"
    version, expected = table.version, ids(table)
    lake.close()
    for file in (tmp_path / "lake").glob("catalog.sqlite*"):
        file.unlink()
    uri, store, config = locate(str(tmp_path / "lake"), None, None, None)
    recover(store, uri, config, clock=clock)
    again = open_lake()
    assert ids(again.table("shop.t")) == expected
    assert again.table("shop.t").version == version
    assert len(ids(again.table("shop.t").at(version=kept))) == 120
    with pytest.raises(NotFound):
        again.table("shop.t").at(version=kept - 1)
    assert check(again.catalog) == []


def test_manifests_are_kept_while_the_full_one_after_them_is_damaged(lake: Lake, table: Table, tmp_path: Path) -> None:
    lake.catalog.publisher.write_full(table.id)
    table.append(rows(100, 1))
    (full,) = files(tmp_path / "lake", "*.full")
    data, before = full.read_bytes(), set(files(tmp_path / "lake", "*.delta"))
    full.write_bytes(data[:-1])
    for _ in range(2):
        collect(lake.catalog, history_keep=0, byte_floor=0)
    assert before <= set(files(tmp_path / "lake", "*.delta"))
    assert full.name in str(check(lake.catalog))
    full.write_bytes(data)
    for _ in range(2):
        collect(lake.catalog, history_keep=0, byte_floor=0)
    assert not before <= set(files(tmp_path / "lake", "*.delta"))
    assert check(lake.catalog) == []


@pytest.mark.parametrize(
    "odd", ["tables/", "tables", "manifests/", "/", "..", "moulin.json", "catalog.sqlite", "log/", "tables/x/", ""]
)
def test_a_name_of_no_known_shape_is_reported_and_stays(lake: Lake, table: Table, tmp_path: Path, odd: str) -> None:
    """A catalog of an earlier version may have let such a name into its trash."""
    catalog = lake.own_catalog()
    before = {info.path for info in lake.store.list("")}
    with catalog.pool.unordered() as connection:
        throw_away(connection, [Garbage(odd, 1, "odd")], 0)
    done = collect(catalog, byte_floor=0, orphan_grace=0)
    assert len(done.failures) == 1
    assert repr(odd) in done.failures[0]
    assert {info.path for info in lake.store.list("")} >= before
    assert len(ids(table)) == 39
    with catalog.pool.read() as connection:
        assert trash_state(connection).failing == 1, "status shows it"


def test_a_purged_table_goes_with_all_that_lies_in_its_folder(lake: Lake, table: Table) -> None:
    other = lake.create_table("shop.other", COLUMNS)
    other.append(rows(0, 3))
    lake.store.put(f"tables/{table.id}/left by/somebody", b"x")
    lake.drop_table("shop.t", immediate=True)
    done = collect(lake.own_catalog(), byte_floor=0)
    assert done.failures == []
    assert {info.path.split("/")[1] for info in lake.store.list("tables")} == {str(other.id)}
    assert ids(other) == [0, 1, 2]


def test_with_deletion_off_files_that_nobody_registered_are_left_to_others(
    open_lake: OpenLake, clock: HandClock
) -> None:
    """Neither the sweep of orphans nor that of staged numbers deletes a file that may hold rows."""
    lake = open_lake(delete_bytes="off")
    lake.create_database("shop")
    table = lake.create_table("shop.t", COLUMNS)
    table.append(rows(0, 10))
    store, pool = lake.store, lake.own_catalog().pool
    (mine,) = (info.path for info in store.list("tables") if info.path.endswith(".parquet"))
    with pool.unordered() as connection:  # as a process did that has died since
        first = take(connection, "segment", 2)
        staging.stage(connection, first + 1, 1, table.id, "somebody", 0, clock.now)
    orphan, staged = (paths.segment_path(table.id, number, "0123abcd") for number in (first, first + 1))
    second = mine.rpartition("/")[0] + "/0123abcd.parquet"
    engine = f"tables/{table.id}/data/part-0.parquet"
    vectors = paths.vector_path(table.id, new_id())
    for path in (orphan, staged, second, engine, vectors):
        store.put(path, b"rows")
    for _ in range(3):
        clock.forward(40 * DAY)
        collect(lake.catalog)
    assert all(store.exists(path) for path in (mine, orphan, staged, second, engine))
    assert not store.exists(vectors), "it holds no rows"
    found = {one.path for one in offered(pool)}
    assert found == {orphan, staged}, "the number of the second stands for a live segment"
    assert confirm(pool, [first, first + 1])[0] == 2


def test_deletion_that_is_off_does_not_outlive_the_setting(
    open_lake: OpenLake, clock: HandClock, tmp_path: Path
) -> None:
    lake = open_lake(delete_bytes="off")
    lake.create_database("shop")
    lake.create_table("shop.t", COLUMNS).append(rows(0, 10))
    lake.drop_table("shop.t", immediate=True)
    for _ in range(3):
        clock.forward(2 * DAY)
        collect(lake.catalog)
    assert len(files(tmp_path, "*.parquet")) == 1
    collect(open_lake().catalog)
    assert not files(tmp_path, "*.parquet")
