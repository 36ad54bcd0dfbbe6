"""Rows of many row groups by their keys: few of one, many of one, deleted ones, ones that are not there, again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from moulin.errors import Corrupt
from moulin.lake import Lake
from moulin.table.read.footers import forget_footers
from moulin.table.table import Table
from tests.table.keyed_tables import ITEMS, row

ROWS, GROUP = 9_000, 1_000


@pytest.fixture
def items(lake: Lake) -> Table:
    properties = {"write.parquet.row-group-limit": str(GROUP), "write.parquet.page-row-limit": "100"}
    table = lake.create_table("shop.items", ITEMS, primary_key=["id"], properties=properties)
    numbers = range(0, 2 * ROWS, 2)
    table.append(pa.Table.from_pylist([row(number, f"name {number}") for number in numbers]))
    table.compact(everything=True)
    table.delete_batch(list(range(0, 2 * ROWS, 10)))
    table.flush()
    return table


def _forget(lake: Lake, table: Table) -> None:
    lake.context.indexes.clear()
    table._keyed_only()._lookup.clear()
    table._keyed_only()._lookup.forget_rows()
    forget_footers()


def _expected(number: int) -> dict[str, object] | None:
    return row(number, f"name {number}") if number % 2 == 0 and number % 10 and 0 < number < 2 * ROWS else None


@pytest.mark.parametrize("count", [1, 2, 20, 300, 4_000])
def test_rows_of_many_row_groups_are_those_of_a_dict(lake: Lake, items: Table, count: int) -> None:
    random = np.random.default_rng(count)
    for _ in range(3):
        asked = random.integers(-5, 2 * ROWS + 20, count).tolist()
        for forgets in (True, False):
            if forgets:
                _forget(lake, items)
            items._keyed_only()._lookup.forget_rows()
            assert items.get_many(asked) == [_expected(number) for number in asked]


def test_threads_that_ask_at_once_get_their_rows(lake: Lake, items: Table) -> None:
    random = np.random.default_rng(1)
    lists = [random.integers(0, 2 * ROWS, 200).tolist() for _ in range(24)]
    _forget(lake, items)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(items.get_many, lists))
    assert found == [[_expected(number) for number in asked] for asked in lists]


def test_a_damaged_row_group_is_an_error_for_whoever_asks_for_its_rows(lake: Lake, items: Table) -> None:
    segment = max(lake.catalog.segments(items.id, items.version), key=lambda one: one.facts.rows)
    path = lake.store.local_path(segment.facts.path)
    if path is None:
        pytest.skip("files are damaged in folders only")
    data = bytearray(path.read_bytes())
    for at in range(100, len(data) // 4, 64):
        data[at] ^= 0xFF
    path.chmod(0o600)
    path.write_bytes(bytes(data))
    _forget(lake, items)
    with pytest.raises(Corrupt):
        items.get_many(list(range(2, 400, 2)))
