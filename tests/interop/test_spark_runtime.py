"""Spark with the Iceberg runtime reads and writes through the REST catalog, and the lake sees what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.iceberg.check.checker import check as check_iceberg
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from tests.iceberg.conftest import COLUMNS, rows
from tests.iceberg.rest.served import served
from tests.interop.environment import python_with, run_python
from tests.interop.spark_runtime import STATEMENTS, UNREACHABLE

SPARK = "pyspark==4.1.*"  # the newest that there is a runtime for
PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


@pytest.fixture(scope="module")
def spark_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the Spark that the runtime is made for."""
    return python_with(SPARK, tmp_path_factory.mktemp("spark"))


def _check_every_version(lake: Lake, name: str) -> None:
    """Each kept version has its rows, whatever an engine rewrote or asked to clean up since."""
    collect(lake.own_catalog(), byte_floor=0)
    table = lake.table(name)
    rows = [
        sorted(table.as_of(one.version).scan().to_arrow()["id"].to_pylist())
        for one in sorted(table.history(), key=lambda one: one.version)
    ]
    assert [list(one) for one in dict.fromkeys(map(tuple, rows))] == [
        [],
        [1],
        [1, 2],
        [1, 2, 3],
        [1, 3],
    ]
    assert check(lake.own_catalog()) == []
    assert check_iceberg(project(lake.context, table.id).location, Files(lake.store)) == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_spark_reads_and_writes(spark_python: Path, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        orders = lake.create_table("shop.orders", COLUMNS, partition_by=["region"])
        orders.append([*rows(0, 3), *rows(3, 3, None), *rows(6, 3, "us")])
        orders.delete_where("id = 4")
        plain = lake.create_table("shop.plain", [("id", "long"), ("name", "string")])
        plain.append([{"id": 1, "name": "a"}])
        with served(lake) as address:
            script = Path(__file__).with_name("spark_runtime.py")
            done = run_python(spark_python, script, address, PACKAGE, str(tmp_path / "ivy"), folder=tmp_path)
        if done.returncode == UNREACHABLE:
            pytest.skip(done.stderr.strip().splitlines()[-1])
        assert done.returncode == 0, done.stderr[-3000:]
        said = json.loads(done.stdout.splitlines()[-1])
        found = dict(zip(STATEMENTS, said[: len(STATEMENTS)], strict=True))
        answers = [answer for answer in found.values() if answer]
        made = {0: "01-01", 3: "01-01", 5: "02-02", 6: "01-01", 7: "01-02", 8: "01-03", 50: "02-03", 102: "01-03"}
        regions = [(n, "eu" if n < 3 else None if n < 6 else "us") for n in range(9) if n != 4]
        assert (
            answers
            == [
                [list(pair) for pair in regions],
                [[n, f"2024-{day}"] for n, day in made.items()],
                [[1], [100], [101]],
                [[7, "z", 1], [9, "z", 2], [100, "x", None], [101, "y", None]],
                [[True]],
                [[6], [7], [8]],
                [[7], [8]],
                answers[7],  # what the procedure says
                [[5]],
                *answers[9:-1],  # what the procedures say
                [[1], [3]],
            ]
        )
        reasons = ("Cannot expire snapshots", "Cannot delete orphan files", "Cannot purge table", "moulin base add")
        for text, reason in zip(said[len(STATEMENTS) :], reasons, strict=True):
            assert reason in text
        _check_every_version(lake, "`a.b`.t")
        view = lake.view("shop.bigger")
        assert view.query is not None
        assert view.query.history is not None
        assert (len(view.query.history.versions), view.query.properties["team"]) == (2, "bob")
        assert [row.n for row in lake.sql("select n from shop.bigger order by n").collect()] == [7, 8]
        ours = lake.table("shop.made").scan().to_arrow().sort_by("id").to_pylist()
        assert [(row["id"], row["day"].isoformat()) for row in ours] == [(n, f"2024-{day}") for n, day in made.items()]
        assert sorted(plain.scan().to_arrow()["id"].to_pylist()) == [7, 9, 11, 100, 101]
        assert plain.at(tag="before").scan().count() == 3
        assert [field.direction.value for field in plain.state().sort_order.fields] == ["desc"]
        for table in lake.tables("shop"):
            assert check_iceberg(project(lake.context, table.id).location, Files(lake.store)) == []
        assert check(lake.own_catalog()) == []


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_example_for_spark_writes_audits_and_publishes(spark_python: Path, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        orders = lake.create_table("shop.orders", [("id", "long"), ("amount", "double")])
        orders.append([{"id": 1, "amount": 9.5}])
        lake.branch("nightly")
        script = Path(__file__).parents[2] / "examples" / "publish" / "with_spark.py"
        with served(lake) as address:
            done = run_python(spark_python, script, address, PACKAGE, str(tmp_path / "ivy"), folder=tmp_path)
        if done.returncode and "unresolved dependency" in done.stderr:
            pytest.skip(f"the package {PACKAGE} cannot be had")
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.splitlines()[-1].endswith("has 3 orders")
        assert sorted(orders.scan().to_arrow()["id"].to_pylist()) == [1, 100, 101]
