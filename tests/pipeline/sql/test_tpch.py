"""The queries of TPC-H over a lake, and over plain Parquet files of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moulin
from moulin import Lake
from tests.pipeline.sql.tpch import QUERIES, SCHEMAS, make_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_ALWAYS = (2, 13, 15, 18, 20, 21)  # nested sub-queries, an outer join, a CTE that is read twice, semi and anti joins
_KEYS = {"orders": ["o_orderkey"], "lineitem": ["l_orderkey", "l_linenumber"]}
_PARTITIONS = {"customer": ["c_mktsegment"], "partsupp": ["bucket(3, ps_partkey)"]}


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    """A lake with keyed, partitioned and event tables of several segments, some rows of which were changed; temporary
    views `plain_...` have the same rows.
    """
    folder = tmp_path_factory.mktemp("tpch")
    with moulin.connect(folder / "lake") as lake:
        lake.create_database("tpch")
        for name, rows in make_tables(seed=5).items():
            columns = [(column, kind, column not in _KEYS.get(name, ())) for column, kind in SCHEMAS[name]]
            table = lake.create_table(
                f"tpch.{name}",
                columns,
                primary_key=_KEYS.get(name, []),
                partition_by=_PARTITIONS.get(name, []),
            )
            half = len(rows) // 2
            table.append([*rows[:half], *rows[-1:]])
            if name not in _KEYS:
                table.append(rows[-1:])
                table.delete_where(f"{columns[0][0]} = {rows[-1][columns[0][0]]}")
                rest = [row for row in rows if row[columns[0][0]] == rows[-1][columns[0][0]]]
                table.append([*rest, *(row for row in rows[half:] if row not in rest)])
            else:
                table.append(rows[half:])
            pq.write_table(pa.Table.from_pylist(rows, _arrow(table.scan().to_arrow().schema)), folder / name)
            spark.read.parquet(str(folder / name)).createOrReplaceTempView(f"plain_{name}")
            assert table.scan().count() == len(rows)
        yield lake
        for name in SCHEMAS:
            spark.catalog.dropTempView(f"plain_{name}")


def _arrow(schema: pa.Schema) -> pa.Schema:
    """The columns without what Moulin notes beside them."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "number", [pytest.param(one, marks=() if one in _ALWAYS else pytest.mark.long) for one in QUERIES]
)
def test_a_query_of_tpch_gives_what_plain_spark_gives(tpch: Lake, spark: SparkSession, number: int) -> None:
    text = QUERIES[number]
    expected = spark.sql(text.replace("tpch.", "plain_"))
    found = tpch.sql(text)
    assert [field.dataType for field in found.schema] == [field.dataType for field in expected.schema]
    rows = found.collect()
    assert rows == expected.collect()
    assert any(value is not None for row in rows for value in row), "a query that finds nothing checks nothing"
