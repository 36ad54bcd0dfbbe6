"""Statistics say what the table is made of, and count what happens to it."""

from __future__ import annotations

import dataclasses

import pytest

from moulin.table.table import Table
from tests.table.conftest import OpenLake, rows

STOCK = [("id", "long", False), ("name", "string")]


def stock(open_lake: OpenLake, **settings: object) -> Table:
    """A keyed table of a lake that compacts nothing by itself."""
    lake = open_lake(settings={"merge_background": "off", **settings})
    lake.create_database("shop")
    return lake.create_table("shop.stock", STOCK, primary_key=["id"])


def test_stats_count_levels_and_amplification_of_an_event_table(orders: Table) -> None:
    empty = orders.stats()
    assert (empty.levels, empty.write_amplification, empty.read_amplification) == ((), None, 0)
    for day in (1, 1, 2):
        orders.append(rows(100 * day, 20, day=day))
    orders.delete_where("id = 200")
    stats = orders.stats()
    (level,) = stats.levels
    assert dataclasses.astuple(level) == (0, 3, stats.bytes, 60, 59, 1)
    assert (stats.rows, stats.deleted_rows, stats.segments) == (59, 1, 3)
    assert (stats.write_amplification, stats.read_amplification) == (1.0, 2)  # two segments hold the first of March
    orders.compact(everything=True)
    merged = orders.stats()
    assert [(level.level, level.live, level.deleted) for level in merged.levels] == [(merged.levels[0].level, 59, 0)]
    assert merged.levels[0].level > 0
    assert merged.read_amplification == 1
    assert merged.write_amplification == pytest.approx((stats.bytes + merged.bytes) / stats.bytes)
    assert (merged.regions, merged.indexes, merged.memtable_bytes, merged.log_position) == ((), (), 0, 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        merged.rows = 0  # type: ignore[misc]


def test_a_keyed_table_counts_its_memtables_logs_and_caches(open_lake: OpenLake) -> None:
    table = stock(open_lake)
    table.put({"id": 1, "name": "a"})
    before = table.stats()
    assert before.memtable_bytes > 0
    (region,) = before.regions
    assert (region.number, region.covered, region.files) == (0, 0, 0)
    assert 0 < before.log_position == region.log_position  # a log in a store begins with a fence
    table.put_batch([{"id": n, "name": "b"} for n in range(2, 10)])
    table.flush()
    table.put_batch([{"id": n, "name": "c"} for n in range(5, 12)])
    table.flush()
    stats = table.stats()
    assert stats.log_position > before.log_position
    assert stats.memtable_bytes == 0
    assert [(r.covered, r.log_position) for r in stats.regions] == [(stats.log_position, stats.log_position)]
    assert stats.read_amplification == 2
    assert [(level.level, level.rows, level.live, level.deleted) for level in stats.levels] == [(0, 16, 11, 5)]
    for _ in range(3):
        assert table.get(7) == {"id": 7, "name": "c"}
    read = table.stats()
    assert (read.row_cache.hits - stats.row_cache.hits, read.row_cache.misses - stats.row_cache.misses) == (2, 1)
    assert read.key_index.misses + read.key_index.hits > 0
    table.compact(everything=True)
    assert table.stats().read_amplification == 1
    table.create_index("name")
    assert [(i.name, i.covered, i.segments) for i in table.stats().indexes] == [("name_btree", 1, 1)]
    table.close()


def test_stalls_are_counted(open_lake: OpenLake) -> None:
    table = stock(open_lake, memtable_bytes=2000, level0_slowdown=1, level0_stop=10)
    assert table.stats().stalls.count == 0
    table.put({"id": 0, "name": "x"})
    table.flush()
    for n in range(12):
        table.put({"id": n, "name": "x" * 200})
    stalls = table.stats().stalls
    assert stalls.count > 0
    assert 0 < stalls.longest <= stalls.seconds
    table.close()


def test_a_reader_that_does_not_write_sees_what_the_catalog_knows(open_lake: OpenLake) -> None:
    table = stock(open_lake)
    table.put({"id": 1, "name": "a"})
    written = table.stats().log_position
    table.close()
    reader = open_lake().table("shop.stock", read_only=True)
    (region,) = reader.stats().regions
    assert (region.covered, region.generation, region.log_position) == (written, 1, None)
    assert reader.stats().log_position == written
