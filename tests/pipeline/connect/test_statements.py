"""Statements of clients that may change tables: they call and read what a safe query may, wherever they do so."""

from __future__ import annotations

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput, PermissionDenied
from moulin.pipeline.spark import LakeSpark
from moulin.pipeline.sql.safe import SafeSql, View

pytestmark = pytest.mark.spark
JAVA = "reflect('java.lang.System', 'getenv', 'HOME')"


@pytest.fixture
def spark_of(lake: Lake) -> LakeSpark:
    spark = lake.context.spark()
    assert isinstance(spark, LakeSpark)
    return spark


@pytest.fixture
def guard(spark_of: LakeSpark) -> SafeSql:
    return spark_of.guard()


@pytest.mark.parametrize(
    "text",
    [
        f"delete from shop.orders where name = {JAVA}",
        f"update shop.orders set name = {JAVA} where id = 1",
        f"insert into shop.orders select {JAVA}",
        f"insert into shop.orders with x as (select {JAVA}) select * from x",
        f"merge into shop.orders t using shop.new s on t.id = s.id when matched then update set name = {JAVA}",
        "delete from shop.orders where id in (select value from text.`/etc/hostname`)",
        "insert into shop.orders select * from global_temp.v",
        "insert into shop.orders select * from seen",
        "insert into shop.orders select /*+ repartition(1000000) */ * from shop.new",
    ],
)
def test_a_statement_reaches_no_further_than_a_query(guard: SafeSql, text: str) -> None:
    with pytest.raises(PermissionDenied):
        guard.check_statement(guard.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "truncate table shop.orders",
        "delete from shop.orders where id in (select id from shop.new where lower(name) = 'x')",
        "insert into shop.orders with x as (select 1 as id) select * from x union all select id from late",
        "merge into shop.orders t using shop.new s on t.id = s.id when not matched then insert *",
    ],
)
def test_a_statement_over_the_lake_passes(guard: SafeSql, text: str) -> None:
    guard.put_view("Late", View(guard.parse("select id from shop.orders"), ()))
    guard.check_statement(guard.parse(text))


def test_a_merge_reads_temporary_views_of_its_session(spark_of: LakeSpark, guard: SafeSql, orders: Table) -> None:
    orders.append([{"id": 1, "region": "eu"}, {"id": 2, "region": "eu"}])
    guard.put_view("Late", View(guard.parse("select id + 1 as id, 'us' as region from shop.orders"), ()))
    text = """
        merge into shop.orders t using late s on t.id = s.id
        when matched then update set region = s.region
        when not matched then insert (id, region) values (s.id, s.region)"""
    (counts,) = spark_of.run(text, None, guard, changes=True).collect()
    assert (counts.num_inserted_rows, counts.num_updated_rows) == (1, 1)
    assert {row["id"]: row["region"] for row in orders.scan().to_pylist()} == {1: "eu", 2: "us", 3: "us"}


@pytest.mark.parametrize(
    "text",
    [
        "delete from shop.orders where id in (select transform(id) using 'cat' as (id) from shop.orders)",
        f"update shop.orders set region = {JAVA}",
        "update shop.orders set region = _metadata.file_path",
        f"insert into shop.orders replace where region = {JAVA} select * from shop.orders",
        "merge into shop.orders t using (select * from text.`/etc/hostname`) s on true when matched then delete",
    ],
)
def test_a_change_runs_no_program_and_sees_no_file(
    spark_of: LakeSpark, guard: SafeSql, orders: Table, text: str
) -> None:
    orders.append([{"id": 1, "region": "eu"}])
    before = orders.version
    with pytest.raises((PermissionDenied, InvalidInput)):
        spark_of.run(text, None, guard, changes=True)
    assert orders.version == before
