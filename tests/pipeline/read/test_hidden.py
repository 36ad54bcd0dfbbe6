"""Hidden columns in queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput

pytestmark = pytest.mark.spark

Rows = Callable[..., list[dict[str, Any]]]


def test_queries_see_hidden_columns_that_they_name_and_no_others(lake: Lake, orders: Table, rows: Rows) -> None:
    orders.append(rows(0, 3))
    orders.append(rows(3, 3))
    lake.sql("update shop.orders set region = 'us' where id in (1, 4)")
    orders.compact(everything=True)
    orders.delete_where("id = 2")
    orders.append(rows(6, 1))
    expected = {
        (row["id"], row["_row_id"], row["_last_updated_version"], row["_created_version"])
        for row in orders.scan(columns=["id", "_row_id", "_last_updated_version", "_created_version"]).to_pylist()
    }
    assert lake.sql("select * from shop.orders where _row_id = 4").columns == ["id", "ts", "region", "amount"]
    assert len({created for *_, created in expected}) == 3
    found = lake.sql(
        "select id, _row_id, _last_updated_version, _segment, _position, _created_version from shop.orders"
    ).collect()
    assert {(row.id, row._row_id, row._last_updated_version, row._created_version) for row in found} == expected
    assert len({(row._segment, row._position) for row in found}) == 6
    joined = lake.sql("select a.id, b.id from shop.orders a join shop.orders b on a._row_id = b._row_id", safe=True)
    assert joined.count() == 6
    assert lake.sql("delete from shop.orders where id in (select id from shop.orders o where _row_id > 3)").count() == 1
    assert sorted(row["id"] for row in orders.scan().to_pylist()) == [0, 1, 3]


def test_a_column_of_the_table_goes_before_a_hidden_one(lake: Lake) -> None:
    table = lake.create_table("shop.t", [("id", "long"), ("_position", "string"), ("my_segment", "string")])
    table.append([{"id": 1, "_position": "own", "my_segment": "s"}])
    (row,) = lake.sql("select *, _row_id from shop.t where _position = 'own'").collect()
    assert row.asDict() == {"id": 1, "_position": "own", "my_segment": "s", "_row_id": 0}
    twice = lake.sql("select my_segment from shop.t union all select my_segment from shop.t")
    assert twice.count() == 2


def test_two_mentions_of_a_table_need_aliases_for_hidden_columns(lake: Lake, orders: Table) -> None:
    with pytest.raises(InvalidInput, match="alias"):
        lake.sql("select * from shop.orders where _row_id in (select _row_id from shop.orders)")
