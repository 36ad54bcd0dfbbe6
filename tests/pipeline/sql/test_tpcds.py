"""The queries of TPC-DS over a lake, and over plain Parquet files of the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import moulin
from moulin import Lake
from tests.pipeline.sql.tpcds import EMPTY, query, rows_of

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("small_plans")]

_ALWAYS = (1, 9, 21, 22, 41, 67, 87, 97)
_KEYS = {
    "store_returns": ["sr_item_sk", "sr_ticket_number"],
    "item": ["i_item_sk"],
    "customer": ["c_customer_sk"],
    "web_sales": ["ws_item_sk", "ws_order_number"],
}
_PARTITIONS = {
    "store_sales": ["bucket(3, ss_item_sk)"],
    "inventory": ["truncate(100, inv_date_sk)"],
    "customer_address": ["ca_country"],
}
_COMPACTED = ("catalog_sales", "store_returns", "inventory")

Load = Callable[[str], None]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    with moulin.connect(tmp_path_factory.mktemp("tpcds") / "lake") as lake:
        lake.create_database("tpcds")
        yield lake


@pytest.fixture(scope="module")
def load(lake: Lake, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Load]:
    """Lets the lake and, as a temporary view, plain Spark have a table."""
    folder = tmp_path_factory.mktemp("plain")
    loaded = set()

    def load_once(name: str) -> None:
        if name in loaded:
            return
        loaded.add(name)
        rows = rows_of(name)
        _load(lake, name, rows)
        pq.write_table(rows, folder / name)
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)

    yield load_once
    for name in loaded:
        spark.catalog.dropTempView(name)


def _load(lake: Lake, name: str, rows: pa.Table) -> None:
    """Write the rows in two parts, with some between them that are deleted or replaced again."""
    keys = _KEYS.get(name, [])
    columns = [pa.field(field.name, field.type, nullable=field.name not in keys) for field in rows.schema]
    table = lake.create_table(
        f"tpcds.{name}", pa.schema(columns), primary_key=keys, partition_by=_PARTITIONS.get(name, [])
    )
    first, half = columns[0].name, (len(rows) + 1) // 2
    if keys:
        wrong = rows.slice(0, half)
        for field in columns:
            if pa.types.is_decimal(field.type):
                place = wrong.schema.get_field_index(field.name)
                wrong = wrong.set_column(place, field, pa.nulls(half, field.type))
        table.append(wrong)  # replaced by their keys
        table.append(rows)
    else:
        again = pc.equal(rows[first], rows[first][0])  # rows that come, go and come again
        table.append(rows.slice(0, half))
        table.append(rows.slice(half))
        table.delete_where(f"{first} = {_literal(rows[first][0].as_py())}")
        table.append(rows.filter(again))
    if name in _COMPACTED:
        table.compact(everything=True)
    assert table.scan().count() == len(rows)


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "number", [pytest.param(one, marks=() if one in _ALWAYS else pytest.mark.long) for one in range(1, 100)]
)
def test_a_query_of_tpcds_gives_what_plain_spark_gives(
    lake: Lake, load: Load, spark: SparkSession, number: int
) -> None:
    asked = query(number)
    for name in asked.tables:
        load(name)
    columns = len(spark.sql(asked.text(0)).columns)
    expected = spark.sql(asked.text(columns))
    found = lake.sql(asked.text(columns, "tpcds"))
    assert [(field.name, field.dataType) for field in found.schema] == [
        (field.name, field.dataType) for field in expected.schema
    ]
    rows = found.collect()
    wanted = expected.collect()
    assert len(rows) == len(wanted)
    for row, other in zip(rows, wanted, strict=True):
        assert _same(row, other), f"{row} is not {other}"
    assert (number not in EMPTY) == any(value is not None for row in rows for value in row)


def _same(one: Row, other: Row) -> bool:
    """Whether two rows are equal, but for the last digits of a sum of doubles, which depend on the order of rows."""
    return all(
        math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(one, other, strict=True)
    )
