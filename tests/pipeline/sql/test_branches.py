"""Tables of branches in Spark SQL and in DataFrames: named from main, or by the branch's own lake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from moulin import Lake, Table
from moulin.errors import InvalidInput, NotFound
from tests.pipeline.conftest import MakeRows

pytestmark = pytest.mark.spark

Ids = Callable[[Any], list[int]]


def test_every_statement_names_tables_of_a_branch(lake: Lake, orders: Table, rows: MakeRows, ids: Ids) -> None:
    orders.append(rows(0, 5))
    users = lake.create_table("shop.users", [("id", "long", False), ("n", "long")], primary_key=["id"])
    users.put({"id": 1, "n": 1})
    lake.flush()
    branch = lake.branch("exp")
    run = lake.sql
    assert ids(run("select * from shop.orders@exp")) == [*range(5)]
    run("delete from shop.orders@exp where id = 0")
    run("insert into shop.orders@exp select id + 100, ts, region, amount from shop.orders where id < 2")
    run("update `shop@exp`.orders set region = 'us' where id = 4")
    run(
        "merge into moulin.shop.orders@exp t using (select 2 as id union all select 300) s on t.id = s.id "
        "when matched then delete when not matched then insert (id) values (s.id)"
    )
    branch.table("shop.users").put({"id": 2, "n": 2})  # not flushed yet
    assert run("select id from shop.users@exp order by id").toArrow()["id"].to_pylist() == [1, 2]
    run("update shop.users@exp set n = n + 10")
    run("create table shop.made@exp as select id from shop.orders@exp")
    run("alter table shop.orders@exp add column note string")
    run("create view shop.v@exp as select id from shop.orders where id < 50")
    run("comment on database shop@exp is 'a trial'")
    run("optimize shop.orders@exp")
    text = "select o.id from shop.orders@exp o join shop.orders m on o.id = m.id where '@exp' = '@exp' -- shop.x@exp"
    assert ids(run(text)) == [1, 3, 4]
    assert ids(run("select shop.orders@exp.id from shop.orders@exp where orders.region = 'us'")) == [4]
    assert ids(run("select * from shop.v@exp")) == [1, 3, 4]
    assert ids(run("select * from shop.made@exp")) == [1, 3, 4, 100, 101, 300]
    assert run("select count(*) as n from shop.orders@exp.history").first().n > 1
    assert [row.tableName for row in run("show tables in shop@exp").collect()] == ["made", "orders", "users"]
    assert ids(branch.sql("select * from shop.orders")) == ids(run("select * from shop.orders@exp"))
    assert branch.table("shop.users").get(2) == {"id": 2, "n": 12}
    # main
    assert ids(run("select * from shop.orders")) == [*range(5)]
    assert users.get(1) == {"id": 1, "n": 1}
    assert [row.tableName for row in run("show tables in shop").collect()] == ["orders", "users"]
    assert [row.namespace for row in run("show databases").collect()] == ["shop"]
    assert dict(lake.databases()[0].properties) == {}
    run("create view shop.both as select id from shop.orders@exp union select id from shop.orders")
    assert ids(run("select * from shop.both")) == [0, 1, 2, 3, 4, 100, 101, 300]
    with pytest.raises(NotFound, match="Branch 'nope' does not exist"):
        run("select * from shop.orders@nope")
    with pytest.raises(InvalidInput, match="write database.table@branch"):
        run("select * from shop@exp.orders@exp")
    with pytest.raises(NotFound, match="not on the branch 'exp'"):
        branch.sql("select * from shop.orders@other")
    assert ids(run("select * from Shop.Orders@exp")) == ids(branch.table("shop.orders"))
    fork = lake.catalog.branch("exp").version
    assert ids(run(f"select * from shop.orders@exp version as of {fork}")) == [*range(5)]
    assert ids(lake.sql("select * from shop.orders@exp", safe=True)) == ids(branch.table("shop.orders"))


def test_a_branch_is_isolated_in_sessions_and_dataframes(lake: Lake, orders: Table, rows: MakeRows, ids: Ids) -> None:
    orders.append(rows(0, 4))
    branch = lake.branch("exp")
    spark, on = lake.spark(), branch.spark()
    frame = spark.table("shop.orders@exp")
    assert ids(frame) == ids(on.table("shop.orders")) == [0, 1, 2, 3]
    on.table("shop.orders").where("id < 2").selectExpr("id + 10 as id", "ts", "region", "amount").writeTo(
        "shop.orders"
    ).append()
    spark.table("shop.orders").where("id = 3").selectExpr("id + 20 as id", "ts", "region", "amount").write.insertInto(
        "shop.orders@exp"
    )
    spark.table("shop.orders").writeTo("shop.copy@exp").create()
    on.sql("merge into shop.orders t using (select 0 as id) s on t.id = s.id when matched then delete")
    source = spark.table("shop.orders").where("id = 3").withColumn("id", F.col("id") + 40)
    source.mergeInto("shop.orders@exp", F.lit(False)).whenNotMatched().insertAll().merge()
    assert ids(spark.sql("select * from shop.orders@exp")) == ids(on.table("shop.orders")) == [1, 2, 3, 10, 11, 23, 43]
    assert ids(on.read.table("shop.copy")) == [0, 1, 2, 3]
    assert on.catalog.tableExists("shop.copy")
    assert spark.catalog.tableExists("shop.copy@exp")
    assert not spark.catalog.tableExists("shop.copy")
    assert "shop@exp" not in [one.name for one in spark.catalog.listDatabases()]
    plain = spark.newSession()
    source = plain.read.format("moulin").option("lake", branch.uri).load("shop.orders")
    assert ids(source) == [1, 2, 3, 10, 11, 23, 43]
    written = source.where("id = 43").withColumn("id", F.lit(44).cast("long")).write.format("moulin").mode("append")
    written.option("lake", lake.uri).save("shop.orders@exp")
    assert ids(branch.table("shop.orders")) == [1, 2, 3, 10, 11, 23, 43, 44]
    assert ids(lake.table("shop.orders")) == ids(spark.table("shop.orders")) == [0, 1, 2, 3]
