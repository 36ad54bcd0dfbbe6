"""Updates and merges from Python, on Spark: the same rows as in this process, and as the statements of SQL make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from moulin import Lake, Outcome, Table
from moulin.errors import InvalidInput
from moulin.pipeline.runner import SparkRunner
from moulin.table.edit import merge as merge_module
from moulin.table.edit import merge_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = [{"id": 1, "amount": 0.0}, {"id": 12, "amount": 5.0}, {"id": 90, "amount": 2.0}]

UPDATE = ({"amount": "amount * 2 + id", "region": None}, "id between 3 and 14")
UPDATE_SQL = "update {} set amount = amount * 2 + id, region = null where id between 3 and 14"

MERGE_SQL = """
    merge into {} t using source s on t.id = s.id
    when matched and s.amount = 0 then delete
    when matched then update set amount = t.amount + s.amount
    when not matched then insert (id, amount) values (s.id, s.amount)
    when not matched by source and t.id > 13 then update set region = 'gone'
"""


def merge(table: Table, source: Any) -> Outcome:
    return (
        table.merge(source, on="t.id = s.id")
        .when_matched_delete("s.amount = 0")
        .when_matched_update({"amount": "t.amount + s.amount"})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"region": "'gone'"}, "t.id > 13")
        .execute()
    )


def content(table: Table) -> list[dict[str, Any]]:
    """The rows by id. Rows that were there before have their row ids; those of new ones are not compared."""
    found = table.scan(columns=["id", "region", "amount", "_row_id"]).to_pylist()
    return sorted(({**row, "_row_id": min(row["_row_id"], 12)} for row in found), key=lambda row: row["id"])


@pytest.fixture
def tables(lake: Lake, rows: Callable[..., list[dict[str, Any]]]) -> list[Table]:
    """Three tables of the same rows, in two segments each."""
    made = []
    for name in ("here", "spark", "sql"):
        table = lake.create_table(f"shop.{name}", [("id", "long", False), ("region", "string"), ("amount", "double")])
        for first in (0, 10):
            table.append([{k: v for k, v in row.items() if k != "ts"} for row in rows(first, 6)])
        made.append(table)
    return made


def test_updates_and_merges_do_the_same_here_on_spark_and_in_sql(
    lake: Lake, tables: list[Table], spark: SparkSession
) -> None:
    here, there, sql = tables
    frame = spark.createDataFrame(SOURCE, "id long, amount double")
    frame.createOrReplaceTempView("source")
    with patch("moulin.table.edit.slices._SLICE_BYTES", 1), patch("moulin.table.edit.slices._HELD_BYTES", 0):
        with patch.object(SparkRunner, "map", autospec=True, side_effect=SparkRunner.map) as mapped:
            updated, merged = there.update(*UPDATE), merge(there, frame)
        assert mapped.call_count == 2
    lake.context.catalog.config = lake.config.replace(merge_local_bytes=1 << 30)
    assert here.update(*UPDATE).rows_updated == updated.rows_updated == 8
    local = merge(here, SOURCE)
    counts = [(one.rows_added, one.rows_updated, one.rows_deleted) for one in (local, merged)]
    assert counts == [(1, 3, 1), (1, 3, 1)]
    lake.sql(UPDATE_SQL.format("shop.sql"))
    (answer,) = lake.sql(MERGE_SQL.format("shop.sql")).collect()
    assert (answer.num_inserted_rows, answer.num_updated_rows, answer.num_deleted_rows) == (1, 3, 1)
    assert content(here) == content(there) == content(sql)


def test_a_source_too_large_to_send_is_merged_in_this_process(tables: list[Table]) -> None:
    with patch.object(merge_module, "_SENT_BYTES", 0), patch.object(SparkRunner, "map") as mapped:
        assert merge(tables[0], SOURCE).rows_updated == 3
    assert not mapped.called


def test_a_large_frame_is_refused_with_the_statement_to_use(tables: list[Table], spark: SparkSession) -> None:
    frame = spark.range(1000).selectExpr("id", "cast(id as double) as amount")
    before = tables[0].version
    with (
        patch.object(merge_source, "FRAME_BYTES", 1000),
        pytest.raises(InvalidInput, match=r'lake\.sql\("merge into shop\.here'),
    ):
        tables[0].merge(frame, on="t.id = s.id").when_matched_update_all().execute()
    assert tables[0].version == before


def test_a_frame_whose_columns_do_not_fit_is_refused_by_name(tables: list[Table], spark: SparkSession) -> None:
    frame = spark.createDataFrame([("x", 1.0)], "id string, amount double")
    with pytest.raises(InvalidInput, match=r"cannot be compared"):
        tables[0].merge(frame, on="t.id = s.id").when_matched_update_all().execute()
