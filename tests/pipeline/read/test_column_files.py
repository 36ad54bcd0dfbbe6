"""Columns in files of their own on Spark: filled by its tasks, and read as scans read them."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest

from moulin import Lake, Table
from moulin.pipeline.read.reader import TableReader
from tests.pipeline.conftest import MakeRows

pytestmark = pytest.mark.spark

QUERIES = [
    "select count(*), sum(twice), sum(amount), max(name), count(nothing) from shop.orders",
    "select id, twice, name from shop.orders where twice > 70 and name <> 'x3' order by id",
    "select id, _row_id, twice from shop.orders where id < 12 order by id",
    "select min(twice), max(twice) from shop.orders",
    "select name, count(*) from shop.orders where nothing is null group by name order by name",
]


@pytest.fixture
def filled(orders: Table, rows: MakeRows) -> Table:
    """Segments with column files and deleted rows, filled on Spark, and one that was written afterwards."""
    orders.append(rows(0, 30))
    orders.append(rows(30, 30, "us"))
    orders.delete_where("id < 10")
    factor = 2.0
    orders.add_columns(
        lambda batch: {"twice": pc.multiply(batch["amount"], factor), "label": batch["region"]},
        read=["amount", "region"],
        schema=[("twice", "float"), ("label", "string")],
    )
    orders.add_columns([{"_row_id": 15, "nothing": 1}], on="_row_id")
    orders.rename_column("label", "name")
    orders.widen_column("twice", "double")
    orders.append([{**rows(100, 1)[0], "twice": float("nan"), "name": "x3"}])
    return orders


def answers(lake: Lake) -> list[Any]:
    return [repr([row.asDict() for row in lake.sql(query).collect()]) for query in QUERIES]


def test_queries_of_unfolded_columns_are_those_of_folded_ones(lake: Lake, filled: Table) -> None:
    read = filled.version
    unfolded = answers(lake)
    assert "'sum(amount)': 1825.0" in unfolded[0]
    frame = filled.to_spark().toPandas().sort_values("id").to_dict("list")
    shown = filled.scan(order_by="id").to_arrow()
    assert [repr(x) for x in frame["twice"]] == [repr(x) for x in shown["twice"].to_pylist()]
    lake.sql("update shop.orders set twice = twice + 0.5 where id = 40")
    assert [row["twice"] for row in filled.scan(where="id = 40").to_pylist()] == [80.5]
    filled.restore(read)
    filled.fold()
    assert not any(s.facts.files for s in lake.catalog.segments(filled.id, filled.version))
    assert answers(lake) == unfolded


@pytest.mark.long
def test_planned_tasks_read_them_where_files_cannot_be_copied_for_spark(
    lake: Lake, filled: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(lake)
    monkeypatch.setattr("moulin.pipeline.read.reader.is_local", lambda master: False)
    monkeypatch.setattr(TableReader, "frame", _uncached)
    assert answers(lake) == expected


def _uncached(self: Any, state: Any, asked: Any = None) -> Any:
    from moulin.model.predicate import Predicate

    return self._named(state, self._left(state, asked or Predicate.everything(state.schema)))
