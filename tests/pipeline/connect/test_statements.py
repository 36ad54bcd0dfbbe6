"""Statements of clients that may change tables: they call and read what a safe query may, wherever they do so."""

from __future__ import annotations

import pytest

from moulin import Lake
from moulin.errors import PermissionDenied
from moulin.pipeline.spark import LakeSpark
from moulin.pipeline.sql.safe import SafeSql, View

pytestmark = pytest.mark.spark
JAVA = "reflect('java.lang.System', 'getenv', 'HOME')"


@pytest.fixture
def guard(lake: Lake) -> SafeSql:
    spark = lake.context.spark()
    assert isinstance(spark, LakeSpark)
    return spark.guard()


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
