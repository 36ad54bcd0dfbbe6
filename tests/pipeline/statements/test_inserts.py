"""INSERT INTO and INSERT OVERWRITE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput, Unsupported

pytestmark = pytest.mark.spark

ITEMS = [("id", "long", False), ("name", "string"), ("day", "date"), ("price", "decimal(9, 2)")]


@pytest.fixture
def items(lake: Lake) -> Table:
    table = lake.create_table("shop.items", ITEMS, partition_by=["day"])
    lake.sql("insert into shop.items values (1, 'a', date'2024-03-01', 1), (2, 'b', date'2024-03-02', 2.5)")
    return table


@pytest.fixture
def keyed(lake: Lake) -> Table:
    table = lake.create_table("shop.keyed", ITEMS, primary_key=["id"])
    table.append([{"id": n, "name": "old"} for n in range(4)])
    return table


def run(lake: Lake, text: str) -> tuple[int, int, int]:
    (row,) = lake.sql(text).collect()
    return row.num_inserted_rows, row.num_updated_rows, row.num_deleted_rows


def names(table: Table) -> dict[int, Any]:
    return {row["id"]: row["name"] for row in table.scan().to_pylist()}


def test_insert_by_position_by_list_and_by_name(lake: Lake, items: Table) -> None:
    before = items.version
    assert run(lake, "insert into shop.items select id + 10, name, day, price from shop.items") == (2, 0, 0)
    assert run(lake, "insert into shop.items (name, id) values ('c', 3)") == (1, 0, 0)
    assert run(lake, "insert into shop.items by name select 'd' as NAME, 4 as id") == (1, 0, 0)
    assert run(lake, "with q as (select 5 as id) insert into shop.items (id) select id from q") == (1, 0, 0)
    assert items.version == before + 4
    assert names(items) == {1: "a", 2: "b", 11: "a", 12: "b", 3: "c", 4: "d", 5: None}
    assert {str(row["price"]) for row in items.scan(where="id < 3").to_pylist()} == {"1.00", "2.50"}


def test_insert_into_a_keyed_table_upserts(lake: Lake, keyed: Table) -> None:
    assert run(lake, "insert into shop.keyed (id, name) values (1, 'new'), (9, 'new')") == (1, 1, 0)
    assert names(keyed) == {0: "old", 1: "new", 2: "old", 3: "old", 9: "new"}
    with pytest.raises(InvalidInput, match="more than once"):
        lake.sql("insert into shop.keyed (id, name) values (1, 'x'), (1, 'y')")


def test_overwrite_replaces_everything(lake: Lake, items: Table) -> None:
    before = items.version
    assert run(lake, "insert overwrite shop.items select id, 'only', day, price from shop.items where id = 2") == (
        1,
        0,
        2,
    )
    assert (names(items), items.version) == ({2: "only"}, before + 1)


def test_overwrite_replaces_a_partition_that_is_named(lake: Lake, items: Table) -> None:
    assert run(lake, "insert overwrite shop.items partition (day = '2024-03-02') values (7, 'g', 1)") == (1, 0, 1)
    assert names(items) == {1: "a", 7: "g"}
    with pytest.raises(InvalidInput, match="REPLACE WHERE"):
        lake.sql("insert overwrite shop.items partition (name = 'a') values (7, date'2024-03-02', 1)")


def test_dynamic_overwrite_replaces_the_partitions_of_its_rows(lake: Lake, items: Table) -> None:
    conf = lake.spark().conf
    conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        assert run(lake, "insert overwrite shop.items values (7, 'g', date'2024-03-02', 1)") == (1, 0, 1)
    finally:
        conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert names(items) == {1: "a", 7: "g"}


@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("partition", ["(p = 'x', q = 1)", "(p = 'x', q)", "(p, q)"])
@pytest.mark.parametrize("where", ["true", "false"])
def test_a_partition_that_is_named_in_part_is_replaced_as_a_plain_table_replaces_it(
    lake: Lake, tmp_path: Path, mode: str, partition: str, where: str
) -> None:
    spark = lake.spark()
    seed = "values (1, 'x', 1), (2, 'x', 2), (3, 'y', 1), (4, null, 1)"
    given = {"(p = 'x', q = 1)": "9", "(p = 'x', q)": "9, 7", "(p, q)": "9, 'y', 1"}[partition]
    lake.sql("create table shop.parts (id int, p string, q int) partitioned by (p, q)")
    spark.sql(
        f"create table plain (id int, p string, q int) using parquet partitioned by (p, q) location '{tmp_path}/p'"
    )
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    try:
        for name in ("shop.parts", "plain"):
            spark.sql(f"insert into {name} {seed}")
            spark.sql(f"insert overwrite {name} partition {partition} select {given} where {where}")
        found = [sorted(map(str, spark.table(name).collect())) for name in ("shop.parts", "plain")]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.sql("drop table plain")
    assert found[0] == found[1]


def test_replace_where_takes_any_condition(lake: Lake, items: Table, keyed: Table) -> None:
    text = "insert into shop.items replace where upper(name) = 'A' or price > 100 select 8, 'h', null, 1"
    assert run(lake, text) == (1, 0, 1)
    assert names(items) == {2: "b", 8: "h"}
    source = "select id, 'new', null, null from values (2L), (3L), (8L) as v(id)"
    text = f"insert into shop.keyed replace where id % 2 = 0 {source}"
    assert run(lake, text) == (1, 2, 1)
    assert names(keyed) == {1: "old", 2: "new", 3: "new", 8: "new"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("insert into shop.items values (1)", "returns 1 columns, but shop.items has 4: id, name, day, price"),
        ("insert into shop.items (id, nothing) values (1, 2)", "has no column 'nothing'"),
        ("insert into shop.items (id, id) values (1, 2)", "has column id twice"),
        ("insert into shop.items (id) values ('one')", "Column id of shop.items is of type bigint"),
        ("insert into shop.items (name) values ('one')", "id.*required"),
        ("insert into shop.items (id, price) values (1, 123456789.99)", "cannot be represented|out of range|overflow"),
        ("insert into shop.items replace using (id) select * from shop.items", "MERGE"),
        ("insert into items values (1)", "database.table"),
    ],
)
def test_bad_inserts_are_one_sentence_and_change_nothing(lake: Lake, items: Table, text: str, message: str) -> None:
    before = items.version
    with pytest.raises((InvalidInput, Unsupported), match=message) as raised:
        lake.sql(text)
    assert "\n" not in raised.value.message
    assert items.version == before
