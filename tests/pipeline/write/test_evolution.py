"""Appends of DataFrames that evolve a table, casts whose slices run on Spark, and DataFrames in transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(params=[(), ("id",)], ids=["event", "keyed"])
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    table = lake.create_table("shop.things", [("id", "int", False), ("price", "float")], primary_key=request.param)
    table.append([{"id": 1, "price": 1.5}])
    return table


def by_id(rows: Any) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in rows}


def test_a_frame_brings_columns_and_wider_types_in_one_version(lake: Lake, table: Table, spark: SparkSession) -> None:
    version = table.version
    frame = spark.sql(
        "select id + 5000000000 as id, cast(id as double) / 3 as price, named_struct('a', id) as s from range(4)"
    )
    done = table.append(frame, evolve=True)
    assert (done.version, done.rows_added) == (version + 1, 4)
    wanted = {1: {"id": 1, "price": 1.5, "s": None}} | {
        n + 5000000000: {"id": n + 5000000000, "price": n / 3, "s": {"a": n}} for n in range(4)
    }
    assert by_id(table.scan().to_pylist()) == wanted
    seen = lake.sql("select id, price, s.a from shop.things order by id").collect()
    assert [tuple(row) for row in seen] == [
        (n, row["price"], row["s"] and row["s"]["a"]) for n, row in sorted(wanted.items())
    ]
    with pytest.raises(InvalidInput, match="price"):
        table.append(spark.sql("select 1L as id, 'x' as price, 1 as more"), evolve=True)
    assert "more" not in table.schema.names
    table.append(spark.sql("select 1L as id, 'new' as empty where false"), evolve=True)
    assert table.schema.names[-1] == "empty"


def test_a_cast_runs_on_spark_and_names_the_value_that_does_not_fit(lake: Lake, table: Table) -> None:
    table.append([{"id": n, "price": n / 2} for n in range(10, 14)])
    table.cast_column("price", "string")
    assert [row.price for row in lake.sql("select price from shop.things where id = 11").collect()] == ["5.5"]
    with pytest.raises(InvalidInput, match=r"the value '\d\.5' of the row with _row_id \d+ does not fit type int"):
        table.cast_column("price", "int")
    table.cast_column("price", "decimal(5, 1)")
    assert [str(row.price) for row in lake.sql("select price from shop.things where id = 11").collect()] == ["5.5"]


def test_a_transaction_takes_frames(lake: Lake, table: Table, spark: SparkSession) -> None:
    with lake.transaction() as tx:
        changed = tx.table("shop.things")
        changed.add_column("level", "long", default=7)
        changed.append(
            spark.sql("select cast(id as int) as id, cast(2 as float) as price, id as level from range(1, 4)")
        )
        changed.overwrite(spark.sql("select 3 as id, cast(9 as float) as price"), where="level = 3")
    found = sorted((row["id"], row["price"], row["level"]) for row in table.scan().to_pylist())
    kept = [] if table.state().schema.identifier_field_ids else [(1, 1.5, 7)]
    assert found == sorted([*kept, (1, 2.0, 1), (2, 2.0, 2), (3, 9.0, 7)])
