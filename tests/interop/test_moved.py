"""A lake that was moved, or copied: engines read the new folder, all of it and nothing else."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.formats.puffin import data_files, read_puffin_footer
from moulin.iceberg.check.checker import check as check_iceberg
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.table.table import Table
from tests.iceberg.rest.served import Client, duckdb_attached, pyiceberg_catalog, served
from tests.interop.engines import ENGINES
from tests.interop.test_engines import assert_same_rows

Move = Callable[[Path, Path], None]
COLUMNS = [("id", "long", False), ("region", "string")]
NAMES = ["shop.vectors", "shop.positions", "shop.keyed"]


def _copy(old: Path, new: Path) -> None:
    """Whoever looks at the original afterwards finds nothing."""
    shutil.copytree(old, new)
    shutil.rmtree(old)


@pytest.fixture(params=[os.rename, _copy], ids=["renamed", "copied"])
def move(request: pytest.FixtureRequest) -> Move:
    found: Move = request.param
    return found


def _fill(lake: Lake) -> None:
    lake.create_database("shop")
    for name, version in (("vectors", "3"), ("positions", "2")):
        table = lake.create_table(
            f"shop.{name}", COLUMNS, partition_by=["region"], properties={"format-version": version}
        )
        table.append([{"id": n, "region": "eu" if n % 2 else "us"} for n in range(20)])
        table.delete_where("id in (3, 4, 5)")
    keyed = lake.create_table("shop.keyed", COLUMNS, primary_key=["id"])
    for n in range(10):
        keyed.put({"id": n, "region": "eu"})
    keyed.flush()
    keyed.put({"id": 3, "region": "us"})
    keyed.flush()
    for name in NAMES:
        assert set(assert_same_rows(lake, lake.table(name))) >= {"pyiceberg"}


def _ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_engines_read_a_moved_lake(tmp_path: Path, move: Move) -> None:
    old, new = tmp_path / "old" / "lake", tmp_path / "new" / "lake"
    new.parent.mkdir()
    with moulin.connect(old) as lake:
        _fill(lake)
        versions = {name: lake.table(name).version for name in NAMES}
    move(old, new)
    with moulin.connect(new) as lake:
        asked = {engine for name in NAMES for engine in assert_same_rows(lake, lake.table(name))}
        assert asked == set(ENGINES), "each engine reads at least one of them"
        for name in NAMES:
            table = lake.table(name)
            assert_same_rows(lake, table, versions[name])
            if name == "shop.keyed":
                table.put({"id": 100, "region": "eu"})
                table.flush()
            else:
                table.append([{"id": 100, "region": "eu"}])
            assert_same_rows(lake, table)
            table.delete_where("id = 7")
            assert_same_rows(lake, table)
            table.compact(everything=True)
            assert_same_rows(lake, table)
            table.restore(versions[name])  # its vectors were written where the lake was
            assert_same_rows(lake, table)
            made = project(lake.context, table.id)
            assert check_iceberg(made.location, Files(lake.store), data=True) == []
            assert str(old) not in str(made.metadata)
        assert check(lake.catalog) == []
        collect(lake.catalog, history_keep=0, byte_floor=0, orphan_grace=0)
        for name in NAMES:
            assert_same_rows(lake, lake.table(name))


def test_a_moved_lake_is_served_from_where_it_is(tmp_path: Path, move: Move) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    where = "/namespaces/shop/tables/vectors"
    with moulin.connect(old) as lake:
        _fill(lake)
        with served(lake) as address, Client(address) as client:
            tag = client.get(where).headers["etag"]
    move(old, new)
    with moulin.connect(new) as lake, served(lake) as address, Client(address) as client:
        answer = client.get(where, headers={"If-None-Match": tag})
        assert answer.status_code == 200, "what the client has names files of the old folder"
        assert str(old) not in answer.text
        catalog, duckdb = pyiceberg_catalog(address), duckdb_attached(address)
        for name in NAMES:
            expected = _ids(lake.table(name))
            assert sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist()) == expected
            assert [row[0] for row in duckdb.execute(f"select id from ice.{name} order by id").fetchall()] == expected
        planned = client.post(f"{where}/plan", json={})
        assert planned.status_code == 200
        assert str(old) not in planned.text
        for one in planned.json()["delete-files"]:
            data = lake.store.get(one["file-path"].removeprefix(f"file://{new}/"))
            assert data_files(read_puffin_footer(data))[one["content-offset"]] == one["referenced-data-file"]
        assert planned.json()["delete-files"]
        duckdb.execute("insert into ice.shop.positions values (500, 'eu')")
        assert 500 in _ids(lake.table("shop.positions"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it rewrites files instead of deleting positions
            catalog.load_table("shop.positions").delete("id = 500")
        assert 500 not in _ids(lake.table("shop.positions"))


def test_a_copy_and_its_original_go_their_own_ways(tmp_path: Path) -> None:
    """Open in one process at once: the same ids of tables, the same names of files, and other rows."""
    with moulin.connect(tmp_path / "lake") as lake:
        _fill(lake)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    with moulin.connect(tmp_path / "lake") as lake, moulin.connect(tmp_path / "copy") as copy:
        for one in (lake, copy):
            assert str(tmp_path / "copy") in project(copy.context, copy.table("shop.vectors").id).location
            assert_same_rows(one, one.table("shop.vectors"))
        copy.table("shop.vectors").append([{"id": 77, "region": "eu"}])
        lake.table("shop.vectors").append([{"id": 88, "region": "eu"}])
        for one in (lake, copy, lake, copy):
            assert_same_rows(one, one.table("shop.vectors"))
        made = project(copy.context, copy.table("shop.vectors").id)
    shutil.rmtree(tmp_path / "lake")
    for name in ("duckdb", "pyiceberg", "polars"):
        assert sorted(ENGINES[name](made.location)["id"].to_pylist()) == [0, 1, 2, *range(6, 20), 77]


def test_statistics_of_engines_move_with_the_lake(tmp_path: Path, move: Move) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with moulin.connect(old) as lake:
        _fill(lake)
        table = lake.table("shop.vectors")
        made = project(lake.context, table.id)
        path = f"tables/{table.id}/metadata/some.stats"
        lake.store.put(path, b"statistics")
        entry = {
            "snapshot-id": made.snapshot_id,
            "statistics-path": lake.store.location(path),
            "file-size-in-bytes": 10,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
        update = {"action": "set-statistics", "snapshot-id": made.snapshot_id, "statistics": entry}
        with served(lake) as address, Client(address) as client:
            body = {"requirements": [], "updates": [update]}
            answer = client.post("/namespaces/shop/tables/vectors", json=body)
            assert answer.status_code == 200, answer.text
            assert [one["statistics-path"] for one in answer.json()["metadata"]["statistics"]] == [
                lake.store.location(path)
            ]
    move(old, new)
    with moulin.connect(new) as lake:
        made = project(lake.context, lake.table("shop.vectors").id)
        assert [one["statistics-path"] for one in made.metadata["statistics"]] == [f"file://{new}/{path}"]
        target = tmp_path / "export"
        lake.table("shop.vectors").export_iceberg(str(target), copy=True)
        assert list(target.rglob("some.stats"))
        collect(lake.catalog, history_keep=0, byte_floor=0, orphan_grace=0)
        assert lake.store.exists(path)


def test_exports_of_a_moved_lake_name_its_files(tmp_path: Path, move: Move) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with moulin.connect(old) as lake:
        _fill(lake)
        for name in NAMES:
            lake.table(name).export_iceberg(str(tmp_path / "exports" / name))
    move(old, new)
    with moulin.connect(new) as lake:
        for name in NAMES:
            table = lake.table(name)
            for copy in (False, True):
                made = table.export_iceberg(str(tmp_path / "exports" / f"{name}-{copy}"), copy=copy)
                assert sorted(ENGINES["pyiceberg"](made.location)["id"].to_pylist()) == _ids(table)
            again = table.export_iceberg(str(tmp_path / "exports" / name))
            assert sorted(ENGINES["pyiceberg"](again.location)["id"].to_pylist()) == _ids(table)


@pytest.mark.parametrize(
    "spelling", ["{root}/lake/", "{root}/./x/../lake", "file://{root}/lake", "{root}/link", "lake"]
)
def test_another_spelling_of_the_same_folder_projects_nothing_again(
    tmp_path: Path, spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    monkeypatch.chdir(tmp_path)
    with moulin.connect(tmp_path / "lake") as lake:
        _fill(lake)
        made = {name: project(lake.context, lake.table(name).id).location for name in NAMES}
        with moulin.connect(spelling.format(root=tmp_path)) as other:
            for name in NAMES:
                for one in (other, lake, other):
                    assert project(one.context, one.table(name).id).location == made[name]
            other.table("shop.vectors").delete_where("id = 9")
            seen = assert_same_rows(other, other.table("shop.vectors"))
            assert seen == assert_same_rows(lake, lake.table("shop.vectors"))
            assert (
                project(other.context, other.table("shop.vectors").id).location
                == project(lake.context, lake.table("shop.vectors").id).location
            )
