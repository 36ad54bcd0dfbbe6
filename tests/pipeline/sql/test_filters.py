"""The filters of Spark's optimizer as conditions. Referee: Spark itself, which evaluates them on every row."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from moulin import Lake
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import FALSE, TRUE, Condition
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema
from moulin.pipeline.read.columns import spark_schema
from moulin.pipeline.sql.catalyst import Catalyst
from moulin.pipeline.sql.filters import condition_of
from moulin.pipeline.sql.optimizer import asked, make_stand_in
from tests.pipeline.sql import conditions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = make_schema(conditions.COLUMNS)


def read(spark: SparkSession, catalyst: Catalyst, text: str) -> Condition:
    """What the optimizer asks of the table of a query with this condition."""
    stand_in = make_stand_in(spark, spark_schema(SCHEMA))
    analyzed = stand_in.frame.where(text)._jdf.queryExecution().analyzed()
    found = list(asked(catalyst, catalyst.at_one_time(analyzed)))
    if not found:
        return FALSE
    (one,) = found
    return TRUE if one.filter is None else condition_of(SCHEMA, one.filter, catalyst.every)


@pytest.fixture(scope="module")
def catalyst(spark: SparkSession) -> Catalyst:
    return Catalyst(spark)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
@pytest.mark.usefixtures("small_plans")
def test_a_row_that_spark_takes_is_never_ruled_out(
    lake: Lake, spark: SparkSession, catalyst: Catalyst, zone: str
) -> None:
    chance = random.Random(f"filters {zone}")
    table = lake.create_table("shop.t", conditions.COLUMNS)
    table.append(conditions.arrow([conditions.row(chance, n) for n in range(120)], arrow_schema(SCHEMA)))
    stored = table.scan().to_arrow().combine_chunks().to_batches()[0]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        texts = [conditions.condition(chance) for _ in range(120)]
        columns = ", ".join(f"({text}) as c{number}" for number, text in enumerate(texts))
        table.to_spark().createOrReplaceTempView("filters_referee")
        referee = spark.sql(f"select id, {columns} from filters_referee").toArrow().sort_by("id")
        spared = 0
        for number, text in enumerate(texts):
            condition = read(spark, catalyst, text)
            taken = Predicate.of(SCHEMA, condition, text).mask(stored).to_pylist()
            wanted = referee.column(f"c{number}").to_pylist()
            rows = dict(zip(stored.column("id").to_pylist(), taken, strict=True))
            missed = [
                row
                for row, want in zip(referee.column("id").to_pylist(), wanted, strict=True)
                if want and not rows[row]
            ]
            assert not missed, f"{text} is read as {condition}, and rows {missed[:5]} are lost"
            spared += taken.count(True) < len(taken)
        assert spared > len(texts) // 2, "most of these conditions rule rows out"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
