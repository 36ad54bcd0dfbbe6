"""Foreign engines, DuckDB and Spark on tables that took over what a branch made."""

from __future__ import annotations

from typing import Any

import pytest

from moulin.catalog.upkeep.check import check as check_catalog
from moulin.errors import FailedPrecondition
from moulin.lake import Lake
from tests.iceberg.conftest import lake as lake  # a fixture
from tests.iceberg.rest.served import duckdb_attached, pyiceberg_catalog, served
from tests.interop.test_clones import assert_read, ids

COLUMNS = [("id", "long"), ("v", "string")]


def prepare(lake: Lake, *, version: str, moved: bool) -> Any:
    main = lake.create_table("shop.events", COLUMNS, properties={"format-version": version})
    main.append([{"id": n, "v": "a"} for n in range(50)])
    assert_read(lake, main)
    mine = lake.branch("exp").table("shop.events")
    mine.append([{"id": n, "v": "b"} for n in range(50, 60)])
    mine.delete_where("id in (1, 51)")
    mine.update({"v": "'c'"}, "id in (2, 52)")
    mine.append([{"id": n, "v": "d"} for n in range(60, 70)])
    mine.delete_where("id = 61")
    if moved:
        main.append([{"id": 100, "v": "e"}])
        main.delete_where("id = 5")
    lake.publish("exp")
    return main


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("version", ["2", "3"])
def test_engines_read_what_was_published(lake: Lake, version: str, moved: bool) -> None:
    main = prepare(lake, version=version, moved=moved)
    wanted = sorted({*range(70)} - {1, 51, 61} - ({5} if moved else set()) | ({100} if moved else set()))
    assert ids(main.scan().to_arrow()) == wanted
    assert_read(lake, main)
    main.delete_where("id = 55")
    assert_read(lake, main)
    main.compact(everything=True)
    assert_read(lake, main)


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
def test_engines_change_what_was_published(lake: Lake) -> None:
    main = prepare(lake, version="2", moved=False)
    with served(lake) as address:
        connection = duckdb_attached(address)
        connection.execute("DELETE FROM ice.shop.events WHERE id between 55 and 65")
        connection.close()
        pyiceberg_catalog(address).load_table("shop.events").delete("id = 69")
    assert ids(main.scan().to_arrow()) == sorted({*range(69)} - {1, 51} - {*range(55, 66)})
    assert check_catalog(lake.own_catalog()) == []


def test_a_trial_is_judged_by_queries(lake: Lake) -> None:
    main = lake.create_table("shop.events", COLUMNS)
    with lake.trial("load") as branch:
        branch.table("shop.events").append([{"id": 1, "v": "a"}])
        branch.expect("select count(*) > 0, count(*) = count(distinct id) from shop.events")
    assert main.scan().count() == 1
    with pytest.raises(FailedPrecondition, match="select count"), lake.trial("load") as branch:
        branch.table("shop.events").append([{"id": 1, "v": "b"}])
        branch.expect("select count(*) = count(distinct id) from shop.events")
        branch.expect("select true")
    assert main.scan().count() == 1


def test_spark_reads_what_was_published(lake: Lake, spark: Any) -> None:
    lake.attach(spark)
    prepare(lake, version="2", moved=True)
    assert lake.sql("select count(*), min(id), max(id) from shop.events").collect()[0][:] == (67, 0, 100)
    lake.sql("delete from shop.events where id < 10")
    assert lake.sql("select count(*) from shop.events").collect()[0][0] == 59
