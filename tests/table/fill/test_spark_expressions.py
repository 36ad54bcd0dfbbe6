"""Columns whose expressions only Spark knows, beside plain Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.errors import InvalidInput
from moulin.table.table import Table

COLUMNS = [("id", "long", False), ("name", "string"), ("price", "double"), ("at", "timestamptz")]


def made(lake: Any) -> Table:
    lake.create_database("shop")
    table = lake.create_table("shop.t", COLUMNS)
    for first in (0, 40):
        rows = [
            {"id": n, "name": f"n{n % 7}-x", "price": n / 4, "at": f"2024-01-{n % 28 + 1:02}T03:04:05Z"}
            for n in range(first, first + 40)
        ]
        table.append(rows)
    table.delete_where("id in (3, 41)")
    return table


EXPRESSIONS = [
    ("string", "concat(upper(Name), '-', cast(id as string))"),
    ("long", "case when price > 5 then length(name) else -1 end"),
    ("double", "round(sqrt(price), 3)"),
    ("int", "month(at) + day(at)"),
    ("string", "regexp_replace(name, '[0-9]', '#')"),
]


@pytest.mark.spark
def test_expressions_of_spark_give_the_values_that_plain_spark_gives(tmp_path: Path, spark: Any) -> None:
    with moulin.connect(tmp_path / "lake", spark=spark) as lake:
        table = made(lake)
        lake.spark()
        for number, (kind, sql) in enumerate(EXPRESSIONS):
            wanted = {row.id: row.v for row in table.to_spark().selectExpr("id", f"{sql} as v").collect()}
            table.add_column(f"c{number}", kind, from_sql=sql)
            assert {row["id"]: row[f"c{number}"] for row in table.scan().to_pylist()} == wanted
            assert len(wanted) == 78
        table.recompute_column("c0", from_sql="reverse(c0)")
        assert next(iter(table.scan(where="id = 5").to_pylist()))["c0"] == "5-X-5N"
        assert not check(lake.own_catalog(), data=True)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("sum(price)", "Spark refuses"),
        ("row_number() over (order by id)", "other rows"),
        ("(select max(1))", "other rows"),
        ("explode(array(1, 2))", "other rows"),
        ("rand() * price", "not deterministic"),
        ("no_such_function(price)", "Spark refuses"),
        ("no_such_column + 1", "Spark refuses"),
    ],
)
def test_what_is_no_value_of_one_row_is_refused_before_anything_changes(
    tmp_path: Path, spark: Any, sql: str, why: str
) -> None:
    with moulin.connect(tmp_path / "lake", spark=spark) as lake:
        table = made(lake)
        lake.spark()
        before = table.version
        with pytest.raises(InvalidInput, match=why):
            table.add_column("c", "double", from_sql=sql)
        assert table.version == before


def test_without_spark_at_hand_they_are_refused(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        table = made(lake)
        with pytest.raises(InvalidInput, match="add_columns with a function"):
            table.add_column("c", "double", from_sql="round(sqrt(price), 3)")
