"""daft reads and writes through the REST catalog, and the lake sees what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.iceberg.check.checker import check as check_iceberg
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from tests.iceberg.conftest import COLUMNS, rows
from tests.iceberg.rest.served import served
from tests.interop.environment import python_with, run_python

DAFT = "daft[iceberg]"


@pytest.fixture(scope="module")
def daft_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with daft and the pyarrow that it takes."""
    return python_with(DAFT, tmp_path_factory.mktemp("daft"))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_daft_reads_and_writes(daft_python: Path, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        version_2 = {"format-version": "2"}  # deletion vectors are more than daft can read
        for name, options in (("plain", {}), ("parted", {"partition_by": ["region"], "event_time": "ts"})):
            table = lake.create_table(f"shop.{name}", COLUMNS, properties=version_2, **options)
            table.append([*rows(0, 3), *rows(3, 3, None), *rows(6, 3, "us")])
            table.delete_where("id in (1, 4, 7)")
        lake.create_table("shop.keyed", COLUMNS, primary_key=["id"], properties=version_2).append(rows(1, 1))
        with served(lake) as address:
            script = Path(__file__).with_name("daft_client.py")
            settings = {"DAFT_PROGRESS_BAR": "0", "DO_NOT_TRACK": "true"}
            done = run_python(daft_python, script, address, folder=tmp_path, **settings)
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        left = [0, 2, 3, 5, 6, 8]
        for name, files in (("plain", 1), ("parted", 3)):
            assert found[f"shop.{name}"] == {
                "read": left,
                "filtered": [6, 8],
                "append": ["ADD"] * files,
                "appended": [*left, 100, 101, 102],
                "counted": 9,
            }
        assert (found["overwrite"].count("ADD"), found["overwritten"]) == (2, [7, 8])
        assert "primary key" in found["keyed"]
        assert found["made"] == [1, 2]
        assert lake.table("shop.made").scan(["id", "amount"]).to_arrow().sort_by("id").to_pylist() == [
            {"id": 1, "amount": None},
            {"id": 2, "amount": 2.5},
        ]
        ours = {
            name: lake.table(f"shop.{name}").scan(["id", "region", "amount"]).to_arrow().sort_by("id").to_pylist()
            for name in ("plain", "parted")
        }
        assert [row["id"] for row in ours["plain"]] == [*left, 100, 101, 102]
        assert ours["plain"][-2:] == [
            {"id": 101, "region": None, "amount": None},
            {"id": 102, "region": "eu", "amount": 0.0},
        ]
        assert ours["parted"] == [{"id": 7, "region": "eu", "amount": 1.0}, {"id": 8, "region": "us", "amount": 2.0}]
        for table in lake.tables("shop"):
            assert check_iceberg(project(lake.context, table.id).location, Files(lake.store)) == []
        assert check(lake.own_catalog()) == []
