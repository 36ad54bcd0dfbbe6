"""What refuses a table in quarantine, and what is not rewritten before it was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import moulin
from moulin.errors import Corrupt
from moulin.lake import Lake
from moulin.table.compact.planner import create_due_tasks, rewrite_tasks
from moulin.table.verify import verify
from tests.iceberg.rest.served import Client, pyiceberg_catalog, served
from tests.iceberg.rest.test_trust import _append, _checked, _high_bound, _stray


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake", iceberg_verify="manifest") as lake:
        lake.create_database("shop")
        properties = {"format-version": "2", "write.delete.mode": "copy-on-write"}
        lake.create_table("shop.t", [("id", "long"), ("name", "string")], properties=properties)
        yield lake


@pytest.fixture
def lied(lake: Lake) -> int:
    """A file whose bounds lie is in quarantine; the version before it came."""
    lake.table("shop.t").append({"id": [10, 11], "name": ["x", "y"]})
    before = lake.version
    assert _append(lake, _high_bound).status_code == 200
    assert _checked(lake).problems
    return before


READS: dict[str, Callable[[Lake, int], Any]] = {
    "count": lambda lake, since: lake.table("shop.t").scan().count(),
    "take": lambda lake, since: lake.table("shop.t").take([0]),
    "changes": lambda lake, since: lake.table("shop.t").changes(since).to_arrow(),
    "counts of changes": lambda lake, since: lake.table("shop.t").changes(since, net=True).counts(),
    "DuckDB": lambda lake, since: lake.duckdb().sql("select count(*) from shop.t").fetchall(),
    "an index": lambda lake, since: lake.table("shop.t").create_index("id"),
    "a fill": lambda lake, since: lake.table("shop.t").add_column("more", "long", from_sql="id * 2"),
    "compaction": lambda lake, since: lake.table("shop.t").compact(everything=True),
    "a copy": lambda lake, since: lake.clone_table("shop.t", "shop.copy", copy=True),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_read_refuses_until_an_engine_has_deleted_the_file(
    lake: Lake, lied: int, read: Callable[[Lake, int], Any]
) -> None:
    with pytest.raises(Corrupt, match="in quarantine"):
        read(lake, lied)
    with served(lake) as address:
        pyiceberg_catalog(address).load_table("shop.t").delete("id < 10")
    read(lake, lied)


def test_an_export_and_plans_over_rest_refuse(lake: Lake, lied: int, tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match="in quarantine"):
        lake.table("shop.t").export_iceberg(tmp_path / "out")
    with served(lake) as address, Client(address) as client:
        snapshots = client.get("/namespaces/shop/tables/t").json()["metadata"]["snapshots"]
        first, last = snapshots[0]["snapshot-id"], snapshots[-1]["snapshot-id"]
        for body in ({}, {"start-snapshot-id": first, "end-snapshot-id": last}):
            answer = client.post("/namespaces/shop/tables/t/plan", json=body)
            assert answer.status_code >= 400
            assert "in quarantine" in answer.json()["error"]["message"]


def test_clones_and_branches_have_the_quarantine(lake: Lake, lied: int) -> None:
    lake.clone_table("shop.t", "shop.c")
    lake.branch("side")
    with pytest.raises(Corrupt, match="in quarantine"):
        lake.table("shop.c").scan(where="id = 1").to_arrow()
    with moulin.connect(f"{lake.uri}@side") as side, pytest.raises(Corrupt, match="in quarantine"):
        side.table("shop.t").scan(where="id = 1").to_arrow()


def test_a_file_that_was_deleted_and_restored_before_its_check_is_read(lake: Lake) -> None:
    assert _append(lake, _high_bound).status_code == 200
    table, came = lake.table("shop.t"), lake.version
    table.delete_where("id < 10")
    assert _checked(lake).files == 0
    table.append({"id": [10], "name": ["x"]})
    assert _append(lake).status_code == 200
    assert _checked(lake).files == 1
    table.restore(came)
    assert "the lower bound of its column id" in next(iter(_checked(lake).problems.values()))
    with pytest.raises(Corrupt, match="in quarantine"):
        table.count("id = 1")


def test_files_that_a_clone_got_before_their_check_are_read(lake: Lake) -> None:
    assert _append(lake, _high_bound).status_code == 200
    clone = lake.clone_table("shop.t", "shop.c")
    assert verify(lake.context, clone.state()).problems
    assert verify(lake.context, clone.state()).files == 0
    lake.branch("side")
    assert _checked(lake.open_branch("side")).problems
    assert _checked(lake).problems


@pytest.mark.parametrize("checked", [False, True])
def test_what_a_publish_brings_is_read_or_in_quarantine(lake: Lake, checked: bool) -> None:
    lake.table("shop.t").append({"id": [10], "name": ["x"]})
    lake.branch("side")
    side = lake.open_branch("side")
    assert _append(side, _high_bound).status_code == 200
    if checked:
        assert _checked(side).problems
    lake.publish("side")
    if not checked:
        assert _checked(lake).files
    with pytest.raises(Corrupt, match="in quarantine"):
        lake.table("shop.t").count("id = 1")


def test_versions_from_before_the_check_are_read_as_they_were(lake: Lake, lied: int) -> None:
    assert lake.table("shop.t").at(lied).scan().to_arrow().num_rows == 2
    assert lake.table("shop.t").at(lied + 1).scan().to_arrow().num_rows == 5
    assert lake.table("shop.t").changes(lied, lied + 1).count() == 3


def test_what_nobody_read_is_not_compacted(lake: Lake) -> None:
    table = lake.table("shop.t")
    for number in range(20):
        table.append({"id": [number], "name": ["x"]})
    assert _append(lake, _high_bound).status_code == 200
    rewrite_tasks(lake.context, table.id)
    create_due_tasks(lake.context, table.id)
    inputs = sum(task.segments for task in lake.catalog.maintenance.merge_tasks(table.id))
    assert inputs == len(lake.catalog.segments(table.id, lake.version)) - 1
    for task in lake.catalog.maintenance.merge_tasks(table.id):
        lake.catalog.maintenance.delete_merge_task(task.id)
    with pytest.raises(Corrupt, match="in quarantine"):
        table.compact()


def test_what_was_read_is_compacted(lake: Lake) -> None:
    assert _append(lake).status_code == 200
    lake.table("shop.t").append({"id": [10], "name": ["x"]})
    assert lake.table("shop.t").compact(everything=True).segments_in == 2
    assert lake.table("shop.t").scan(where="id = 1").to_arrow().num_rows == 1


def test_a_wrong_count_of_rows_is_not_counted(lake: Lake, tmp_path: Path) -> None:
    file = _stray(tmp_path, lake)
    short = tmp_path / "landing" / "short.parquet"
    pq.write_table(pq.read_table(file).slice(0, 2), short)
    assert _append(lake, file_path=str(short), file_size_in_bytes=short.stat().st_size).status_code == 200
    assert _checked(lake).problems
    with pytest.raises(Corrupt, match="in quarantine"):
        lake.table("shop.t").scan().count()


@pytest.mark.parametrize("checked", [False, True])
def test_an_erase_finds_rows_whatever_a_manifest_says_of_them(lake: Lake, checked: bool) -> None:
    before = lake.version
    assert _append(lake, _high_bound).status_code == 200
    taken = lake.version
    if checked:
        assert _checked(lake).problems
        lake.table("shop.t").restore(before)
    lake.table("shop.t").erase("id = 1")
    assert 1 not in lake.table("shop.t").at(taken).scan().to_arrow()["id"].to_pylist()
