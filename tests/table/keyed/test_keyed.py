"""Keyed tables: one live row per key for every reader, whatever was put, deleted, flushed and merged before."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pandas as pd
import pyarrow as pa
import pytest

from moulin.errors import Closed, FailedPrecondition, InvalidInput, NotFound
from moulin.lake import Lake
from moulin.table.table import Table
from tests.table.conftest import EVENTS, OpenLake
from tests.table.keyed_tables import ITEMS, by_id, check, check_flushed, plainly, row, rows


@pytest.fixture
def items(lake: Lake) -> Table:
    return lake.create_table("shop.items", ITEMS, primary_key=["id"])


def test_writes_are_seen_at_once_and_after_flush_and_reopening(lake: Lake, items: Table, open_lake: OpenLake) -> None:
    items.put(row(1))
    assert items.get(1) == row(1)
    items.put(row(1, "b"))
    assert items.put_batch(rows(2, 3)) == 3
    assert items.put_batch(pa.Table.from_pylist(rows(5, 2))) == 2
    assert items.put_batch(pd.DataFrame(rows(7, 1))) == 1
    assert items.put_batch({"name": ["x"], "id": [8], "amount": [8]}) == 1
    assert items.put_batch([]) == 0
    items.delete(2)
    items.delete_batch([3, 99])
    expected = {1: row(1, "b"), 8: row(8, "x")} | {n: row(n) for n in (4, 5, 6, 7)}
    check(lake, items, expected, [2, 3, 99, 0])
    version = items.flush()
    assert version == items.version
    assert items.flush() == version, "nothing to flush is no version"
    check_flushed(lake, items, expected, [2, 3, 99, 0])
    items.put(row(4, "late"))
    lake.close()
    again = open_lake()
    check_flushed(again, again.table("shop.items"), expected | {4: row(4, "late")}, [2, 3, 99])


def test_a_key_is_replaced_and_deleted_wherever_it_is(lake: Lake, items: Table) -> None:
    """In the memtable, in level 0 and in level 2; and comes back after each."""
    expected: dict[int, dict[str, Any]] = {}
    items.put_batch(rows(0, 30, "deep"))
    items.compact(everything=True)
    assert {level.level: level.files for level in items.stats().levels} == {2: 1}
    items.put_batch(rows(30, 10, "fresh"))
    items.flush()
    items.put_batch(rows(40, 10, "pending"))
    assert {level.level: level.files for level in items.stats().levels} == {0: 1, 2: 1}
    expected = {n: row(n, "deep" if n < 30 else "fresh" if n < 40 else "pending") for n in range(50)}
    for n in (1, 31, 41):
        items.delete(n)
        del expected[n]
    for n in (2, 32, 42):
        items.put(row(n, "new"))
        expected[n] = row(n, "new")
    for n in (3, 33, 43):
        items.delete(n)
        items.put(row(n, "back"))
        expected[n] = row(n, "back")
    check(lake, items, expected, [1, 31, 41])
    check_flushed(lake, items, expected, [1, 31, 41])
    for n in (1, 31, 41):
        items.put(row(n, "again"))
        expected[n] = row(n, "again")
    check_flushed(lake, items, expected)
    items.compact()
    check_flushed(lake, items, expected)
    items.compact(everything=True)
    check_flushed(lake, items, expected)
    items.delete_batch(list(expected))
    check(lake, items, {}, list(expected))
    check_flushed(lake, items, {}, list(expected))
    items.put(row(5, "alone"))
    check_flushed(lake, items, {5: row(5, "alone")}, [1])


def test_every_version_has_one_row_per_key(lake: Lake, items: Table) -> None:
    states: dict[int, dict[int, dict[str, Any]]] = {}
    now: dict[int, dict[str, Any]] = {}
    for turn in range(6):
        items.put_batch(rows(turn * 3, 8, f"t{turn}"))
        now |= {n: row(n, f"t{turn}") for n in range(turn * 3, turn * 3 + 8)}
        items.delete(turn)
        now.pop(turn, None)
        items.flush()
        states[lake.version] = dict(now)
        if turn % 2:
            items.compact(everything=turn == 3)
            states[lake.version] = dict(now)
    for version, expected in states.items():
        assert plainly(lake, items, version) == expected
        assert by_id(items.scan(version=version).to_arrow()) == expected
        snapshot = items.at(version=version)
        assert snapshot.get_many(list(range(30))) == [expected.get(n) for n in range(30)]
        assert [r["id"] for r in snapshot.scan(start=5, end=12, reverse=True).to_pylist()] == sorted(
            (n for n in expected if 5 <= n < 12), reverse=True
        )


def test_the_row_id_stays_while_a_row_lives(lake: Lake, items: Table) -> None:
    def row_ids() -> dict[int, int]:
        found = items.scan(columns=["id", "_row_id"]).to_arrow()
        return dict(zip(found.column("id").to_pylist(), found.column("_row_id").to_pylist(), strict=True))

    items.put_batch(rows(0, 5))
    items.flush()
    before = row_ids()
    assert len(set(before.values())) == 5
    items.put(row(1, "new"))
    assert row_ids()[1] is None, "a row that is in no version yet has none"
    items.put(row(9))
    items.flush()
    assert {n: row_ids()[n] for n in range(5)} == before
    items.compact(everything=True)
    items.put(row(1, "newer"))
    items.flush()
    items.append(rows(0, 2, "bulk"))
    assert {n: row_ids()[n] for n in range(5)} == before
    items.delete(1)
    items.flush()
    items.put(row(1))
    items.flush()
    assert row_ids()[1] not in before.values(), "a row that went and came is another one"
    assert len(set(row_ids().values())) == 6


def test_ranges_come_in_key_order(lake: Lake, items: Table) -> None:
    items.put_batch(rows(0, 20, "low"))
    items.compact(everything=True)
    items.put_batch(rows(15, 20, "mid"))
    items.flush()
    items.put_batch(rows(30, 10, "high"))
    items.delete_batch([3, 17, 33])
    alive = [n for n in range(40) if n not in (3, 17, 33)]

    def ids(**options: Any) -> list[int]:
        return [found["id"] for found in items.scan(**options).to_pylist()]

    for turn in range(3):
        assert ids(ordered=True) == alive
        assert ids(reverse=True) == alive[::-1]
        assert ids(start=5) == [n for n in alive if n >= 5]
        assert ids(end=5) == [0, 1, 2, 4]
        assert ids(start=10, end=32) == [n for n in alive if 10 <= n < 32]
        assert ids(start=10, end=32, reverse=True, limit=4) == [31, 30, 29, 28]
        assert ids(start=16, limit=3) == [16, 18, 19]
        assert ids(start=32, end=10) == []
        assert ids(start=100) == []
        assert ids(start=5, where="name = 'mid'", limit=2) == [15, 16]
        assert items.scan(start=10, end=32).count() == 21
        assert items.scan(start=10, end=32, where="name = 'mid'").count() == 14
        assert items.scan(start=10, limit=3).count() == 3
        assert items.scan(where="name = 'high'").count() == 9
        found = items.scan(columns=["name"], start=29, end=32).to_pylist()
        assert found == [{"name": "mid"}, {"name": "high"}, {"name": "high"}]
        lineage = items.scan(columns=["_last_updated_version", "id"], start=28, end=32).to_arrow()
        assert lineage.column("id").to_pylist() == [28, 29, 30, 31], "in order, with and without a version"
        assert (lineage.column("_last_updated_version").null_count == 0) == (turn > 0)
        assert [batch.num_rows for batch in items.scan(start=5, limit=0).to_batches()] == []
        if turn == 0:
            items.flush()
        else:
            items.compact()


def test_a_prefix_finds_exactly_the_keys_that_begin_with_it(lake: Lake) -> None:
    schema = [("day", "date"), ("shop", "string"), ("n", "long")]
    table = lake.create_table("shop.sales", schema, primary_key=["shop", "day"])
    days = [date(2024, 1, day) for day in range(1, 6)]
    shops = ["", "a", "a\0", "ab", "b"]
    table.put_batch([{"day": day, "shop": shop, "n": 1} for day in days for shop in shops])
    for _ in range(2):
        assert [r["shop"] for r in table.scan(prefix="a").to_pylist()] == ["a"] * 5
        assert [r["day"] for r in table.scan(prefix=("a",), reverse=True).to_pylist()] == days[::-1]
        assert {r["shop"] for r in table.scan(start="a", end="b").to_pylist()} == {"a", "a\0", "ab"}
        assert [r["day"] for r in table.scan(start=("a", days[3]), end=("a\0",)).to_pylist()] == days[3:]
        assert table.get(("ab", days[2])) == {"day": days[2], "shop": "ab", "n": 1}
        assert table.get(["ab", "2024-01-03"]) == table.get({"day": days[2], "shop": "ab"})
        found = table.scan(ordered=True).to_pylist()
        assert [(r["shop"], r["day"]) for r in found] == sorted((shop, day) for shop in shops for day in days)
        table.flush()
    with pytest.raises(InvalidInput):
        table.scan(prefix=("a", days[0]))
    with pytest.raises(InvalidInput):
        table.scan(prefix="a", start="a")
    with pytest.raises(InvalidInput):
        table.get("a")
    with pytest.raises(InvalidInput):
        table.scan(start=5)


ALL = {
    "b": ("boolean", True),
    "i": ("int", -5),
    "s": ("string", "é\0x"),
    "x": ("binary", b"\0\xff"),
    "d": ("date", date(1969, 12, 31)),
    "t": ("timestamp", datetime(1960, 1, 1, 1, 2, 3, 4)),
    "z": ("timestamptz", datetime(2024, 1, 1, tzinfo=UTC)),
    "n": ("timestamp_ns", pd.Timestamp(1_700_000_000_123_456_789)),
    "m": ("decimal(20, 3)", Decimal("-1.500")),
    "u": ("uuid", UUID(int=77)),
    "f": ("fixed(2)", b"\0\1"),
}


def test_keys_of_every_type_are_found(lake: Lake) -> None:
    schema = [*((name, kind) for name, (kind, _) in ALL.items()), ("v", "long")]
    values = {name: value for name, (_, value) in ALL.items()} | {"v": 1}
    for number, names in enumerate([*([name] for name in ALL), list(ALL), list(ALL)[::-1]]):
        table = lake.create_table(f"shop.kinds{number}", schema, primary_key=names)
        parts = tuple(ALL[name][1] for name in names)
        key: Any = parts[0] if len(names) == 1 else parts
        table.put(values)
        table.put_batch([values | {"v": 2}])
        for turn in range(3):
            found = table.get(key)
            assert found is not None
            assert found["v"] == 2
            assert table.get_many([key, key]) == [found, found]
            assert table.scan(ordered=True).count() == 1
            assert table.scan(start=key).to_pylist() == [found]
            if turn == 0:
                table.flush()
            elif turn == 1:
                table.compact(everything=True)
        table.delete(key)
        assert table.get(key) is None
        table.flush()
        assert table.get(key) is None
        assert table.scan().count() == 0


def test_a_moment_is_one_key_in_every_zone(lake: Lake) -> None:
    table = lake.create_table("shop.moments", [("at", "timestamptz"), ("v", "long")], primary_key=["at"])
    utc = datetime(2024, 1, 1, tzinfo=UTC)
    table.put({"at": utc.astimezone(timezone(timedelta(hours=2))), "v": 1})
    table.put_batch([{"at": "2024-01-01T02:00:00+02:00", "v": 2}])
    assert table.get(utc) == {"at": utc, "v": 2}
    table.flush()
    table.put({"at": utc.astimezone(timezone(timedelta(hours=-7))), "v": 3})
    table.flush()
    assert table.scan().to_pylist() == [{"at": utc, "v": 3}]


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"id": None},
        {"name": "x"},
        {"id": "x"},
        {"id": 1, "nope": 1},
        {"id": 1 << 63},
        {"id": 1.5},
        {"id": 1, "name": 5},
        {"id": 1, "name": "\ud800"},
        {"id": 1, "amount": "x"},
        {"id": 1, "amount": 2**53 + 1},
        5,
        None,
        "id",
        [],
    ],
    ids=str,
)
def test_rows_that_do_not_fit_are_refused_and_leave_nothing(lake: Lake, items: Table, bad: Any) -> None:
    items.put(row(7))
    with pytest.raises(InvalidInput):
        items.put(bad)
    with pytest.raises(InvalidInput):
        items.put_batch([row(8), bad])
    check_flushed(lake, items, {7: row(7)}, [1, 8])


def test_what_is_handed_out_is_the_callers(lake: Lake) -> None:
    table = lake.create_table("shop.tags", [("id", "long"), ("tags", "list<string>")], primary_key=["id"])
    table.put({"id": 1, "tags": ["a"]})
    for turn in range(3):
        for found in (table.get(1), *table.get_many([1, 1])):
            assert found == {"id": 1, "tags": ["a"]}
            found["tags"].append("mine")
            found["id"] = 9
        if turn == 0:
            table.flush()


def test_an_event_table_has_no_keys(lake: Lake) -> None:
    events = lake.create_table("shop.events", EVENTS, event_time="ts")
    for call in (
        lambda: events.put({}),
        lambda: events.get(1),
        lambda: events.delete(1),
        lambda: events.put_batch([]),
        events.flush,
    ):
        with pytest.raises(FailedPrecondition, match="primary key"):
            call()
    with pytest.raises(InvalidInput, match="primary key"):
        events.scan(start=1)


def test_a_closed_table_refuses_writes_and_can_be_read(lake: Lake, items: Table) -> None:
    other = lake.table("shop.items")
    items.put(row(1))
    other.put(row(2))
    items.close()
    items.close()
    for call in (
        lambda: items.put(row(3)),
        lambda: items.put_batch(rows(3, 1)),
        lambda: items.delete(1),
        lambda: items.append(rows(3, 1)),
        lambda: items.delete_where("true"),
    ):
        with pytest.raises(Closed):
            call()
    assert items.get(1) == row(1)
    assert items.scan().count() == 2
    assert items.get_many([1, 2, 3]) == [row(1), row(2), None]
    assert plainly(lake, other) == {1: row(1), 2: row(2)}, "closing flushes"
    other.put(row(3))
    other.close()
    assert items.scan().count() == 3
    third = lake.table("shop.items")
    third.put(row(4))
    check_flushed(lake, third, {n: row(n) for n in (1, 2, 3, 4)})


def test_a_read_only_table_shows_its_version(lake: Lake, items: Table) -> None:
    items.put_batch(rows(0, 3))
    items.flush()
    replica = lake.table("shop.items", read_only=True)
    items.put(row(1, "new"))
    items.delete(2)
    items.flush()
    assert replica.get_many([1, 2]) == [row(1), row(2)]
    assert [r["id"] for r in replica.scan(start=1, reverse=True).to_pylist()] == [2, 1]
    with pytest.raises(FailedPrecondition, match="read-only"):
        replica.put(row(5))
    replica.refresh()
    assert replica.get_many([1, 2]) == [row(1, "new"), None]


def test_schema_changes_meet_what_is_not_flushed(lake: Lake, items: Table, open_lake: OpenLake) -> None:
    items.put_batch(rows(0, 3))
    items.put(row(3))
    items.delete(0)
    items.add_column("note", "string", default="none")
    items.rename_column("name", "label")
    items.rename_column("id", "number")
    items.drop_column("amount")
    items.put({"number": 4, "label": "x", "note": "y"})
    items.put({"number": 1, "label": "z"})
    expected = {
        1: {"number": 1, "label": "z", "note": "none"},
        2: {"number": 2, "label": "a", "note": "none"},
        3: {"number": 3, "label": "a", "note": "none"},
        4: {"number": 4, "label": "x", "note": "y"},
    }
    with pytest.raises(InvalidInput):
        items.put({"id": 5})

    def look(table: Table) -> None:
        assert {r["number"]: r for r in table.scan().to_pylist()} == expected
        assert table.scan(start=2, columns=["note", "label"], limit=1).to_pylist() == [{"note": "none", "label": "a"}]
        assert table.get_many([0, 1, 2, 3, 4]) == [None, *expected.values()]
        assert [table.get(n) for n in range(5)] == [None, *expected.values()]

    look(items)
    items.flush()
    look(items)
    items.compact(everything=True)
    look(items)
    lake.close()
    look(open_lake().table("shop.items"))


def test_a_key_column_cannot_go_or_be_null(lake: Lake, items: Table) -> None:
    with pytest.raises(FailedPrecondition, match="primary key"):
        items.drop_column("id")
    with pytest.raises(FailedPrecondition, match="primary key"):
        items.set_nullable("id")


def test_widening_a_key_keeps_its_rows(lake: Lake) -> None:
    schema = [("id", "int"), ("m", "decimal(5, 2)"), ("v", "int")]
    table = lake.create_table("shop.narrow", schema, primary_key=["id", "m"])
    table.put({"id": 1, "m": Decimal("1.50"), "v": 1})
    table.flush()
    table.put({"id": 2, "m": Decimal("1.50"), "v": 1})
    table.widen_column("id", "long")
    table.widen_column("m", "decimal(20, 2)")
    table.put({"id": 1 << 40, "m": Decimal("12345678.00"), "v": 3})
    table.put({"id": 1, "m": Decimal("1.5"), "v": 2})
    for _ in range(2):
        assert [r["v"] for r in table.scan(ordered=True).to_pylist()] == [2, 1, 3]
        assert table.get((2, Decimal("1.5"))) == {"id": 2, "m": Decimal("1.50"), "v": 1}
        table.flush()


def test_a_row_that_moves_to_another_partition_is_there_once(lake: Lake) -> None:
    """A row that moves to another partition is there once."""
    schema = [("id", "long"), ("shop", "string"), ("ts", "timestamptz")]
    table = lake.create_table("shop.moving", schema, primary_key=["id"], partition_by=["shop", "day(ts)"])
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    table.put_batch([{"id": n, "shop": "ab"[n % 2], "ts": moment + timedelta(days=n % 3)} for n in range(12)])
    table.flush()
    assert table.stats().segments == 6
    table.put_batch([{"id": n, "shop": "b", "ts": moment} for n in range(6)])
    for turn in range(4):
        found = table.scan(ordered=True).to_pylist()
        assert [r["id"] for r in found] == list(range(12))
        assert [r["shop"] for r in found[:6]] == ["b"] * 6
        assert table.scan(where="shop = 'b' and id < 6").count() == 6
        assert table.get(4) == {"id": 4, "shop": "b", "ts": moment}
        if turn == 0:
            table.flush()
        else:
            table.compact(everything=turn > 1)
    table.set_partitioning(["bucket(2, id)"])
    table.put_batch([{"id": n, "shop": "c", "ts": moment} for n in range(3, 15)])
    table.flush()
    found = table.scan(ordered=True).to_pylist()
    assert [r["shop"] for r in found] == ["b"] * 3 + ["c"] * 12
    with pytest.raises(Exception, match="dropped"):
        table.drop_column("id")


def test_pending_rows_without_a_new_partition_column_are_flushed_by_its_default(lake: Lake, items: Table) -> None:
    items.put(row(1))
    items.add_column("shop", "string", default="x")
    items.set_partitioning(["shop"])
    items.put(row(2) | {"shop": "y"})
    items.flush()
    assert [r["shop"] for r in items.scan(ordered=True).to_pylist()] == ["x", "y"]
    assert items.scan(where="shop = 'x'").count() == 1


def test_a_dropped_table_comes_back_with_what_was_put(lake: Lake, items: Table, open_lake: OpenLake) -> None:
    items.put(row(1))
    lake.drop_table("shop.items")
    with pytest.raises(NotFound):
        items.flush()
    lake.close()
    again = open_lake()
    back = again.resurrect_table("shop.items")
    back.put(row(2))
    check_flushed(again, back, {1: row(1), 2: row(2)})


def test_the_change_feed_tells_what_flushes_did(lake: Lake, items: Table) -> None:
    items.put_batch(rows(0, 3))
    since = items.flush()
    items.put(row(1, "new"))
    items.delete(2)
    items.put(row(5))
    items.put(row(5, "twice"))
    items.flush()
    items.compact(everything=True)
    lines = items.changes(since).to_arrow().to_pylist()
    told = {(line["_change_type"], line["id"], line["name"]) for line in lines}
    assert told == {
        ("update_before", 1, "a"),
        ("update_after", 1, "new"),
        ("delete", 2, "a"),
        ("insert", 5, "twice"),
    }
