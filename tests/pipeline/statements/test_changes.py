"""Statements that change rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput, PermissionDenied


def test_truncate_empties_a_table_in_one_version(
    lake: Lake, orders: Table, rows: Callable[..., list[dict[str, Any]]]
) -> None:
    orders.append(rows(0, 3))
    before = orders.version
    (counts,) = lake.sql("truncate table shop.orders").collect()
    assert counts.asDict() == {
        "num_affected_rows": 3,
        "num_inserted_rows": 0,
        "num_updated_rows": 0,
        "num_deleted_rows": 3,
        "version": before + 1,
    }
    assert (orders.scan().count(), orders.version) == (0, before + 1)


def test_statements_do_not_change_views(lake: Lake, orders: Table) -> None:
    lake.create_view("shop.all", ["shop.orders"])
    with pytest.raises(InvalidInput, match="is a view"):
        lake.sql("truncate table shop.all")


def test_safe_statements_change_nothing(lake: Lake, orders: Table, rows: Callable[..., list[dict[str, Any]]]) -> None:
    orders.append(rows(0, 3))
    with pytest.raises(PermissionDenied):
        lake.sql("truncate table shop.orders", safe=True)
    assert orders.scan().count() == 3
