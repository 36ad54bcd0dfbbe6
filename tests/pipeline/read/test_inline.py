"""Spark and inline segments: it reads them beside files, and changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moulin import Lake
from tests.pipeline.conftest import EVENTS, MakeRows


def test_spark_reads_and_changes_inline_rows(lake: Lake, rows: MakeRows, ids: Callable[[Any], list[int]]) -> None:
    table = lake.create_table("shop.small", EVENTS, event_time="ts", properties={"moulin.inline-bytes": "65536"})
    table.append(rows(0, 3))
    table.compact(everything=True)  # a file
    table.append(rows(3, 3))
    table.append(rows(6, 3))
    assert table.state().inline == 2
    table.delete_where("id = 4")
    assert [row.n for row in lake.sql("select count(*) n from shop.small where amount >= 1").collect()] == [7]
    lake.sql("update shop.small set amount = 100 where id in (1, 5)")
    lake.sql("delete from shop.small where id = 8")
    found = {row.id: row.amount for row in lake.sql("select id, amount from shop.small").collect()}
    assert found == {0: 0.0, 1: 100.0, 2: 2.0, 3: 3.0, 5: 100.0, 6: 6.0, 7: 7.0}
    assert ids(table.to_spark()) == sorted(found)
