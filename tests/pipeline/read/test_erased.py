"""Erase on Spark: its tasks find and scrub, and queries of versions that were read before see what is left."""

from __future__ import annotations

import pytest

from moulin import Lake, Table
from tests.pipeline.conftest import MakeRows

pytestmark = pytest.mark.spark


def test_queries_of_older_versions_see_what_is_left(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 30))
    orders.append(rows(30, 10, "us"))
    before = orders.version
    orders.delete_where("id = 5")
    older = f"select sum(id), count(*) from shop.orders version as of {before}"
    now = "select sum(id), count(*) from shop.orders"
    assert [tuple(lake.sql(query).first()) for query in (older, now)] == [(780, 40), (775, 39)]
    done = orders.erase("id in (5, 7, 33)")
    assert done.rows == 3
    assert [tuple(lake.sql(query).first()) for query in (older, now)] == [(735, 37), (735, 37)]
