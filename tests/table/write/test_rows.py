"""Append, scan, delete, overwrite: what a table gives back is what was put in."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from moulin.errors import Corrupt, InvalidInput, NotFound
from moulin.lake import Lake
from moulin.table.table import Table
from moulin.table.write import segment_writer
from tests.table.conftest import EVENTS, ids, rows


def test_appended_rows_come_back(orders: Table) -> None:
    outcome = orders.append(rows(1, 50))
    assert outcome.rows_added == 50
    assert ids(orders) == list(range(1, 51))
    assert orders.scan().count() == 50
    assert orders.scan().to_arrow().schema == orders.schema


def test_every_form_of_arrow_is_taken(orders: Table) -> None:
    table = pa.Table.from_pylist([{"id": 1, "region": "eu"}])
    orders.append(table)
    orders.append(table.to_batches()[0])
    orders.append(table.to_reader())
    orders.append(orders.scan())  # anything with __arrow_c_stream__
    assert orders.scan().count() == 6


def test_bulk_rows_are_written_at_level_1(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert segment_writer.BULK_BYTES == 64 << 20
    monkeypatch.setattr(segment_writer, "BULK_BYTES", 1 << 20)
    table = lake.create_table("shop.numbers", [("n", "long"), ("m", "long")])
    count = (1 << 20) // 16
    numbers = np.arange(count)
    table.append(pa.table({"n": numbers[:-1], "m": numbers[:-1]}))
    table.append(pa.table({"n": numbers, "m": numbers[::-1]}))
    assert [(level.level, level.rows) for level in table.stats().levels] == [(0, count - 1), (1, count)]
    table.delete_where("n >= 5000")
    assert sorted(table.scan(columns=["n"]).to_arrow()["n"].to_pylist()) == [n for n in range(5000) for _ in range(2)]


def test_bulk_rows_of_a_keyed_table_are_written_at_level_1(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_writer, "BULK_BYTES", 1 << 16)
    table = lake.create_table("shop.keyed", [("n", "long", False), ("m", "long")], primary_key=["n"])
    count = (1 << 16) // 16
    numbers = np.arange(count)
    table.append(pa.table({"n": numbers[::-1], "m": numbers}))
    table.append(pa.table({"n": numbers[:10], "m": numbers[:10]}))
    assert [(level.level, level.rows) for level in table.stats().levels] == [(0, 10), (1, count)]
    table.append(pa.table({"n": numbers * 2, "m": numbers}))  # overlaps the others at its level
    table.put_batch([{"n": n, "m": -n} for n in range(count)])
    table.flush()
    assert min(level.level for level in table.stats().levels) == 0, "a flush is not a bulk load, however large"
    expected = {int(n): int(m) for n, m in zip(numbers * 2, numbers, strict=True)} | {n: -n for n in range(count)}
    assert {row["n"]: row["m"] for row in table.scan().to_pylist()} == expected
    assert table.get(7) == {"n": 7, "m": -7}
    assert table.get(2 * (count - 1)) == {"n": 2 * (count - 1), "m": count - 1}


def test_nothing_appended_is_no_version(orders: Table) -> None:
    before = orders.version
    assert orders.append([]).version == before
    assert orders.version == before


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id <= 3", [1, 2, 3]),
        ("region = 'us' and amount > 8", [110, 111]),
        ("id in (1, 105, 999)", [1, 105]),
        ("ts >= timestamp '2024-03-02T00:00:00Z'", list(range(101, 112))),
        ("ts < '2024-03-01T02:00:00Z'", [1, 2, 25, 26]),
        ("region is null", []),
        ("id < 3 and id > 5", []),
    ],
)
def test_a_scan_returns_the_rows_that_match_its_where(orders: Table, where: str, expected: list[int]) -> None:
    orders.append(rows(1, 30))
    orders.append(rows(101, 11, "us", day=2))
    assert ids(orders.scan(where=where)) == expected
    assert orders.scan(where=where).count() == len(expected)


def test_where_takes_an_arrow_expression(orders: Table) -> None:
    orders.append(rows(1, 30))
    assert ids(orders.scan(where=pc.field("id") < 4)) == [1, 2, 3]
    assert orders.delete_where(pc.field("id") < 4).rows_deleted == 3
    assert ids(orders)[0] == 4


def test_a_scan_returns_the_columns_asked_for_up_to_its_limit(orders: Table) -> None:
    orders.append(rows(1, 30))
    got = orders.scan(columns=["amount", "id"], where="id > 10", limit=5).to_arrow()
    assert got.column_names == ["amount", "id"]
    assert got.num_rows == 5
    assert min(got.column("id").to_pylist()) > 10
    assert orders.scan(limit=0).to_arrow().num_rows == 0
    assert orders.scan(columns=[]).to_arrow().num_columns == 0


def test_a_filter_may_use_a_column_that_is_not_asked_for(orders: Table) -> None:
    orders.append(rows(1, 30))
    assert orders.scan(columns=["region"], where="id = 7").to_pylist() == [{"region": "eu"}]


def test_segments_are_pruned_by_bounds_and_time(orders: Table) -> None:
    for day in range(1, 6):
        orders.append(rows(day * 100, 10, day=day))
    by_time = orders.scan(where="ts >= '2024-03-03T00:00:00Z' and ts < '2024-03-04T00:00:00Z'").plan()
    assert (len(by_time.segments), by_time.total) == (1, 5)
    by_bounds = orders.scan(where="id between 200 and 309").plan()
    assert (len(by_bounds.segments), by_bounds.total) == (2, 5)


def test_segments_are_pruned_by_partition(lake: Lake) -> None:
    table = lake.create_table("shop.parts", EVENTS, partition_by=["region", "bucket(4, id)"])
    table.append([row for region in ("eu", "us", "ap") for row in rows(1, 40, region)])
    plan = table.scan(where="region = 'us' and id = 7").plan()
    assert plan.total == 12
    assert len(plan.segments) == 1
    assert table.scan(where="region = 'us' and id = 7").count() == 1


def test_partitions_may_change_while_old_segments_keep_theirs(lake: Lake) -> None:
    table = lake.create_table("shop.parts", EVENTS, partition_by=["region"])
    table.append(rows(1, 10, "eu") + rows(11, 10, "us"))
    table.set_partitioning(["day(ts)"])
    table.append(rows(21, 10, "eu", day=2))
    assert table.stats().segments == 3
    assert ids(table.scan(where="region = 'us'")) == list(range(11, 21))
    assert len(table.scan(where="region = 'us'").plan().segments) == 1
    assert len(table.scan(where="ts >= '2024-03-02T00:00:00Z'").plan().segments) == 1
    table.compact(everything=True)
    assert ids(table) == list(range(1, 31))


def test_deleted_rows_are_hidden_and_not_rewritten(orders: Table) -> None:
    orders.append(rows(1, 100))
    files = [s.facts.path for s in orders.scan().plan().segments]
    assert orders.delete_where("id > 90 or id = 5").rows_deleted == 11
    assert orders.delete_where("id = 6").rows_deleted == 1
    assert orders.delete_where("id = 6").rows_deleted == 0
    assert ids(orders) == [n for n in range(1, 91) if n not in (5, 6)]
    assert [s.facts.path for s in orders.scan().plan().segments] == files
    assert orders.scan(where="id < 10").count() == 7


def test_a_delete_of_all_rows_of_a_segment_removes_it_without_reading(orders: Table) -> None:
    orders.append(rows(1, 10))
    orders.append(rows(101, 10))
    assert orders.delete_where("id > 100").rows_deleted == 10
    assert orders.stats().segments == 1
    assert orders.stats().deleted_rows == 0


def test_deleting_nothing_is_no_version(orders: Table) -> None:
    orders.append(rows(1, 10))
    before = orders.version
    assert orders.delete_where("id > 1000").version == before


def test_overwrite_replaces_all_rows_or_those_that_match(orders: Table) -> None:
    orders.append(rows(1, 20, "eu") + rows(21, 20, "us"))
    outcome = orders.overwrite(rows(100, 5, "us"), where="region = 'us'")
    assert (outcome.rows_added, outcome.rows_deleted) == (5, 20)
    assert ids(orders) == [*range(1, 21), *range(100, 105)]
    orders.overwrite(rows(7, 1))
    assert ids(orders) == [7]
    orders.overwrite([])
    assert ids(orders) == []


def test_a_batch_that_does_not_fit_says_which_column_and_row(orders: Table) -> None:
    with pytest.raises(InvalidInput, match=r"Row 2 .*column amount"):
        orders.append([{"id": 1, "amount": 1.0}, {"id": 2, "amount": 2.0}, {"id": 3, "amount": "much"}])
    with pytest.raises(InvalidInput, match=r"(?i)row 1 .*column id"):
        orders.append([{"id": 1}, {"id": None}])
    with pytest.raises(InvalidInput, match="colour"):
        orders.append([{"id": 1, "colour": "red"}])
    assert orders.scan().count() == 0


def test_unknown_columns_and_tables_are_named(lake: Lake, orders: Table) -> None:
    with pytest.raises(InvalidInput, match=r"no column 'amout'\. Did you mean 'amount'\? It has: "):
        orders.scan(columns=["amout"])
    with pytest.raises(InvalidInput, match="regoin"):
        orders.scan(where="regoin = 'eu'")
    with pytest.raises(NotFound, match="shop.nothing"):
        lake.table("shop.nothing")
    with pytest.raises(InvalidInput, match=r"'moulin\.log-snyc'\. Did you mean 'moulin\.log-sync'\? Names"):
        orders.set_properties({"moulin.log-snyc": 1})
    for name in ("history-keep-seconds", "retention_ns", "Moulin.log-sync"):
        with pytest.raises(InvalidInput, match="would have no effect. Did you mean 'moulin"):
            orders.set_properties({name: 1})
    orders.set_properties({"owner": "me", "regions": "eu, us"})


def test_a_scan_yields_batches_one_by_one_and_reads_no_further_when_stopped(orders: Table) -> None:
    """Batches come one by one, and stopping early reads no further segment."""
    for n in range(70):
        orders.append(rows(n * 10, 10))
    batches = orders.scan().to_batches()
    assert next(batches).num_rows == 640, "small segments come together, but not all"
    batches.close()


def test_the_same_request_is_appended_once(orders: Table) -> None:
    first = orders.append(rows(1, 5), request_id="load-1")
    again = orders.append(rows(1, 5), request_id="load-1")
    assert again.version == first.version
    assert orders.scan().count() == 5


def test_a_segment_damaged_after_it_was_read_is_found_out(lake: Lake, orders: Table) -> None:
    orders.append(rows(1, 2000))
    assert ids(orders) == list(range(1, 2001))
    assert ids(orders) == list(range(1, 2001))  # now its checksums need not be looked at again
    [segment] = lake.catalog.segments(orders.id, orders.version)
    store, path = lake.context.store, segment.facts.path
    whole = store.get(path)
    store.put(path, whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:])
    with pytest.raises(Corrupt, match=path):
        orders.scan().to_arrow()
    store.put(path, whole)
    assert ids(orders) == list(range(1, 2001))


@pytest.mark.sample(5)
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_bulk_load_in_threads_has_the_rows_of_one_in_one_thread(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, keyed: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(3000, 9000))
    numbers = np.arange(rows) if seed == 0 else random.permutation(rows)
    floats = np.where(random.random(rows) < 0.1, np.nan, random.random(rows))
    data = pa.table({"n": numbers, "f": floats, "s": [f"row {number}" for number in numbers.tolist()]})
    monkeypatch.setattr(segment_writer, "BULK_BYTES", data.nbytes // int(random.integers(2, 6)))
    columns = [("n", "long", False), ("f", "double"), ("s", "string")]
    found = []
    for cores in (1, 8):
        monkeypatch.setattr(segment_writer.pa, "cpu_count", lambda cores=cores: cores)
        name = f"shop.cores_{cores}"
        if keyed:
            table = lake.create_table(name, columns, primary_key=["n"])
        else:
            table = lake.create_table(name, columns, sort_by=["n"])
        assert table.append(data).rows_added == rows
        segments = [segment.facts for segment in lake.catalog.segments(table.id, lake.version)]
        assert {facts.level for facts in segments} == {1}
        assert (len(segments) > 1) is (cores > 1)
        assert sum(facts.rows for facts in segments) == rows
        if keyed:
            spans = sorted((facts.key_min or b"", facts.key_max or b"") for facts in segments)
            assert all(high < low for (_, high), (low, _) in pairwise(spans)), "ranges do not overlap"
            assert [table.get(int(n)) is not None for n in numbers[:20]] == [True] * 20
        found.append(table.scan().to_arrow().sort_by("n").drop_columns("f").to_pydict())
        values = table.scan(columns=["n", "f"]).to_arrow().sort_by("n").column("f").to_numpy()
        np.testing.assert_array_equal(values, floats[np.argsort(numbers)])
    assert found[0] == found[1]
