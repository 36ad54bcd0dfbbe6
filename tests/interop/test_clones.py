"""Foreign engines, and Spark, on clones: they read the files of the source, and what they write is the clone's own."""

from __future__ import annotations

from typing import Any

import pytest

from moulin.catalog.upkeep.check import check as check_catalog
from moulin.iceberg.check.checker import check
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.table.table import Table
from tests.iceberg.conftest import lake as lake  # a fixture
from tests.iceberg.rest.served import duckdb_attached, pyiceberg_catalog, served
from tests.interop.engines import ENGINES


def ids(rows: Any) -> list[int]:
    return sorted(rows["id"].to_pylist())


def assert_read(lake: Lake, table: Table) -> None:
    made = project(lake.context, table.id)
    assert check(made.location, every_snapshot=True) == []
    for name in ("duckdb", "pyiceberg", "polars"):
        assert ids(ENGINES[name](made.location)) == ids(table.scan().to_arrow()), name


@pytest.fixture
def clone(lake: Lake) -> Table:
    source = lake.create_table("shop.events", [("id", "long"), ("v", "string")], properties={"format-version": "2"})
    source.append([{"id": n, "v": "a"} for n in range(50)])
    source.append([{"id": n, "v": "b"} for n in range(50, 100)])
    source.delete_where("id < 5")
    project(lake.context, source.id)
    return lake.clone_table("shop.events", "shop.trial")


def test_engines_read_a_clone_at_every_version(lake: Lake, clone: Table) -> None:
    assert_read(lake, clone)
    clone.delete_where("id between 45 and 55")
    assert_read(lake, clone)
    clone.append([{"id": 200, "v": "c"}])
    clone.delete_where("id >= 50 and id < 100")
    assert_read(lake, clone)
    clone.compact(everything=True)
    assert_read(lake, clone)
    assert_read(lake, lake.table("shop.events"))


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
def test_engines_change_a_clone_and_not_its_source(lake: Lake, clone: Table) -> None:
    with served(lake) as address:
        connection = duckdb_attached(address)
        connection.execute("DELETE FROM ice.shop.trial WHERE id < 20")
        connection.execute("INSERT INTO ice.shop.trial VALUES (300, 'x')")
        connection.execute("UPDATE ice.shop.trial SET v = 'y' WHERE id = 70")
        connection.close()
        pyiceberg_catalog(address).load_table("shop.trial").delete("id = 99")
    assert ids(clone.scan().to_arrow()) == [*range(20, 99), 300]
    assert [row["v"] for row in clone.scan(where="id = 70").to_pylist()] == ["y"]
    assert ids(lake.table("shop.events").scan().to_arrow()) == [*range(5, 100)]
    assert check_catalog(lake.own_catalog()) == []


def test_spark_reads_and_changes_a_clone(lake: Lake, clone: Table, spark: Any) -> None:
    lake.attach(spark)
    clone.append([{"id": 300, "v": "c"}])
    assert lake.sql("select count(*), min(id), max(id) from shop.trial").collect()[0][:] == (96, 5, 300)
    lake.sql("delete from shop.trial where id < 20")
    lake.sql("update shop.trial set v = 'y' where id = 70")
    lake.sql("merge into shop.trial t using (select 71L id) s on t.id = s.id when matched then delete")
    assert ids(clone.scan().to_arrow()) == [n for n in (*range(20, 100), 300) if n != 71]
    assert ids(clone.to_spark().toArrow()) == ids(clone.scan().to_arrow())
    assert lake.sql("select v from shop.trial where id = 70").collect()[0][0] == "y"
    assert lake.sql("select count(*) from shop.events").collect()[0][0] == 95
