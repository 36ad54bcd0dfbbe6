"""Expressions that our own kernels compute. Referee: Spark itself, which computes them for every row."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from moulin import Lake
from moulin.errors import InvalidInput
from moulin.model.assignments import Assignments
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import Schema
from moulin.pipeline.read.columns import spark_schema
from moulin.pipeline.sql.catalyst import Catalyst, Expression, items
from moulin.pipeline.sql.exact import Inexact, exact_condition, exact_value
from moulin.pipeline.sql.optimizer import make_stand_in
from tests.pipeline.sql import conditions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = make_schema(conditions.COLUMNS)
NUMBERS = make_schema(
    [("id", "long", False), ("k", "int"), ("n", "long"), ("x", "double"), ("f", "float"), ("t", "string")]
)


@pytest.fixture(scope="module")
def catalyst(spark: SparkSession) -> Catalyst:
    return Catalyst(spark)


@pytest.fixture
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def _condition(spark: SparkSession, catalyst: Catalyst, text: str) -> Expression:
    stand_in = make_stand_in(spark, spark_schema(SCHEMA))
    return catalyst.folded(stand_in.frame.where(text)._jdf.queryExecution().analyzed()).condition()


def _value(spark: SparkSession, catalyst: Catalyst, schema: Schema, text: str) -> Expression:
    stand_in = make_stand_in(spark, spark_schema(schema))
    folded = catalyst.folded(stand_in.frame.selectExpr(f"({text}) as value")._jdf.queryExecution().analyzed())
    return items(folded.projectList())[0].child()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"], indirect=True)
@pytest.mark.usefixtures("small_plans", "zone")
def test_a_condition_that_is_understood_holds_for_the_rows_that_spark_takes_and_no_others(
    lake: Lake, spark: SparkSession, catalyst: Catalyst, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(request.node.name)
    table = lake.create_table("shop.t", conditions.COLUMNS)
    table.append(conditions.arrow([conditions.row(chance, n) for n in range(120)], arrow_schema(SCHEMA)))
    stored = table.scan().to_arrow().combine_chunks().to_batches()[0]
    ids = stored.column("id").to_pylist()
    texts = [conditions.condition(chance, chance.choice([0, 0, 1, 2])) for _ in range(250)]
    found = {}
    for number, text in enumerate(texts):
        try:
            found[number] = exact_condition(SCHEMA, _condition(spark, catalyst, text), catalyst.every)
        except Inexact:
            continue
    columns = ", ".join(f"({texts[number]}) as c{number}" for number in found)
    table.to_spark().createOrReplaceTempView("exact_referee")
    referee = spark.sql(f"select id, {columns} from exact_referee").toArrow().sort_by("id")
    for number, condition in found.items():
        mask = Predicate.of(SCHEMA, condition, texts[number]).mask(stored).to_pylist()
        taken = sorted(row for row, holds in zip(ids, mask, strict=True) if holds)
        held = zip(referee.column("id").to_pylist(), referee.column(f"c{number}").to_pylist(), strict=True)
        assert taken == [row for row, holds in held if holds], f"{texts[number]} is read as {condition}"
    assert len(found) > len(texts) // 4, "many of these conditions are simple"


@pytest.mark.parametrize(
    "text",
    [
        "name = 'a' collate utf8_lcase",
        "id % 7 = 3",
        "cast(name as int) = 1",
        "s.a = 1",
        "Nt = timestamp_ntz'2024-03-01 00:00:00'",
        "u = '00000000-0000-0000-0000-000000000001'",
        "name like 'a_%'",
        "name like '%a%'",
        "x in (0.0D, 1.0D)",
        "rand() < 0.5",
        "d < timestamp'2024-03-01 00:00:00'",
    ],
)
def test_other_conditions_are_left_to_spark(spark: SparkSession, catalyst: Catalyst, text: str) -> None:
    with pytest.raises(Inexact):
        exact_condition(SCHEMA, _condition(spark, catalyst, text), catalyst.every)


_ROWS = {
    "id": list(range(8)),
    "k": [None, 0, 1, -1, 2**31 - 1, -(2**31), 7, 12],
    "n": [None, 0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 12],
    "x": [None, 0.0, -0.0, math.nan, math.inf, 1e308, 0.1, -2.5],
    "f": [None, 0.0, -0.0, math.nan, math.inf, 1.5, 0.1, -2.5],
    "t": [None, "", "a", "é", "\U0001f600", "b", "c", "d"],
}


def _expression(chance: random.Random, depth: int) -> str:
    if not depth or chance.random() < 0.2:
        return chance.choice(["k", "n", "x", "f", "1", "2L", "0.5D", "cast(0.1 as double)", "k", "n", "x", "-3", "1.5"])
    left, right = _expression(chance, depth - 1), _expression(chance, depth - 1)
    return f"({left} {chance.choice('+-*')} {right})"


@pytest.mark.usefixtures("small_plans")
def test_a_value_that_is_understood_is_what_spark_computes(spark: SparkSession, catalyst: Catalyst) -> None:
    """Spark computes each row by itself here, and an overflow is null: a kernel fails where Spark does for some row."""
    chance = random.Random(5)
    rows = pa.table(_ROWS, schema=arrow_schema(NUMBERS))
    frame = spark.createDataFrame(rows)
    understood = computed = 0
    for column in ("k", "n", "x", "f", "t") * 40:
        text = chance.choice([column, "null", "'a'", "1"]) if chance.random() < 0.2 else _expression(chance, 2)
        kind = {"k": "int", "n": "bigint", "x": "double", "f": "float", "t": "string"}[column]
        if chance.random() < 0.3 and "'" not in text:
            text = f"cast({text} as {kind})"
        field = NUMBERS.find_field(column)
        try:
            value = exact_value(NUMBERS, field, _value(spark, catalyst, NUMBERS, text), catalyst.every)
        except Inexact:
            continue
        understood += 1
        for number in _ROWS["id"]:
            own = rows.slice(number, 1)
            try:
                got = Assignments(NUMBERS, {column: value}, "set").over(own)[column].to_pylist()[0]
            except InvalidInput:
                continue  # Spark is asked
            computed += 1
            (wanted,) = frame.where(f"id = {number}").selectExpr(f"{text} as value").first()
            assert repr(got) == repr(wanted), f"{text} in row {number}"
    assert understood > 25
    assert computed > 6 * understood


_STATEMENTS: list[tuple[str, Any]] = [
    ("delete from shop.t where k < 5 and name is not null", 1),
    ("update shop.t set x = x + 1, name = 'new' where id >= 100 or flag", 1),
    ("update shop.t set k = null", 1),
    ("update shop.t set price = 1.25 where price < 0.5", 1),
    ("delete from shop.t where id % 7 = 3", 0),
    ("update shop.t set name = upper(name) where k = 2", 0),
    ("delete from shop.t where k in (select max(k) from shop.t)", 0),
    ("delete from shop.t", 1),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("statement", "local"), _STATEMENTS)
@pytest.mark.usefixtures("small_plans")
def test_a_statement_has_the_same_result_in_this_process_and_on_spark(
    lake: Lake, statement: str, local: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moulin.table.edit import commit

    ran: list[int] = []
    write = commit.write_slices
    monkeypatch.setattr(commit, "write_slices", lambda *given: (ran.append(1), write(*given))[1])
    chance = random.Random(3)
    table = lake.create_table("shop.t", conditions.COLUMNS)
    for start in (0, 60):
        rows = [conditions.row(chance, n) for n in range(start, start + 60)]
        table.append(conditions.arrow(rows, arrow_schema(SCHEMA)))
    table.delete_where("id = 30")
    before = table.version
    shown = [*(field.name for field in SCHEMA.fields if field.name != "u"), "_row_id"]

    def run() -> tuple[Any, Any, Any]:
        counts = lake.sql(statement).drop("version").collect()
        version = table.version
        rows = table.scan(columns=shown).to_arrow().sort_by("id").to_pylist()
        feed = table.changes(before, version).to_arrow().select(["id", "_change_type"]).sort_by("id").to_pylist()
        table.restore(before)
        return counts, repr(rows), feed

    here = run()
    assert len(ran) == local
    object.__setattr__(lake.context.config, "sql_local_bytes", 0)
    before = table.version
    assert run() == here
    assert len(ran) == local


def test_a_whole_number_that_overflows_is_an_error_of_spark(lake: Lake) -> None:
    table = lake.create_table("shop.t", [("id", "long"), ("k", "int")])
    table.append([{"id": 1, "k": 2**31 - 1}, {"id": 2, "k": 1}])
    with pytest.raises(InvalidInput, match="overflow"):
        lake.sql("update shop.t set k = k + 1")
    lake.sql("update shop.t set k = k + 1 where id = 2")
    assert sorted(row["k"] for row in table.scan().to_arrow().to_pylist()) == [2, 2**31 - 1]


def test_a_constant_that_cannot_be_computed_is_an_error_of_spark(lake: Lake) -> None:
    table = lake.create_table("shop.t", [("id", "long")])
    table.append([{"id": 1}])
    with pytest.raises(InvalidInput, match="zero"):
        lake.sql("delete from shop.t where id = 1 / 0")


def test_a_required_column_takes_no_null_in_this_process_either(lake: Lake) -> None:
    table = lake.create_table("shop.t", [("id", "long", False), ("k", "int")])
    table.append([{"id": 1, "k": None}])
    with pytest.raises(InvalidInput, match="id"):
        lake.sql("update shop.t set id = null")
    assert table.scan().to_arrow().num_rows == 1
