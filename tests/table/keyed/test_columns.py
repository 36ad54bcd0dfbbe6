"""Scans of rows that are in no segment: the kept columns of a memtable against a dict."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moulin
from moulin.model.key.key import Key, with_key
from moulin.model.rows.record import RecordType
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema
from moulin.table.keyed.memtable import Memtable, Moment
from moulin.table.table import Table
from tests.table.keyed_tables import ITEMS, by_id, row, rows

SCHEMA = with_key(make_schema(ITEMS), ["id"])
KEY = Key.of(SCHEMA)
KEYS = st.integers(0, 40) | st.integers(0, 3)
ROWS = st.tuples(KEYS, st.sampled_from("ab"), st.sampled_from([0.0, -0.0, 1.0]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), ROWS),
        st.tuples(st.just("put_rows"), st.lists(ROWS, min_size=1, max_size=50)),
        st.tuples(st.just("put_batch"), st.lists(ROWS, min_size=1, max_size=50)),
        st.tuples(st.just("delete"), st.lists(KEYS, min_size=1, max_size=9)),
        st.tuples(st.just("look"), st.booleans()),
    ),
    max_size=40,
)


class Model:
    """A memtable as its region changes it, and a dict."""

    def __init__(self) -> None:
        assert KEY is not None
        self.memtable = Memtable(RecordType(SCHEMA), KEY, 7)
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.deleted: set[int] = set()

    def change(self, kind: str, given: Any) -> None:
        memtable = self.memtable
        memtable.reached += 1
        if kind == "delete":
            memtable.delete(given)
            for key in given:
                self.rows.pop(key, None)
            self.deleted |= set(given)
            return
        written = [given] if kind == "put" else given
        if kind in ("put", "put_rows"):
            memtable.put_rows([one[0] for one in written], written, 1)
        else:
            columns = [list(column) for column in zip(*given, strict=True)]
            batch = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=arrow_schema(SCHEMA))
            memtable.put_batch([one[0] for one in given], batch)
        self.rows |= {one[0]: one for one in written}
        self.deleted -= {one[0] for one in written}


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, data=st.data())
def test_every_moment_of_a_memtable_can_be_looked_at_in_any_order(steps: Any, data: st.DataObject) -> None:
    model = Model()
    looks: list[tuple[Moment, str, set[int], bool]] = []
    for kind, given_ in steps:
        if kind == "look":
            looks.append((model.memtable.moment(), repr(sorted(model.rows.values())), set(model.deleted), given_))
            if data.draw(st.booleans()):
                _check(*looks.pop(data.draw(st.integers(0, len(looks) - 1))))
        else:
            model.change(kind, given_)
    for look in looks:
        _check(*look)


def test_a_row_that_equals_the_one_before_and_is_another_is_seen() -> None:
    model = Model()
    for key in range(100):
        model.change("put", (key, "a", 0.0))
    model.memtable.moment().columns()
    model.change("put", (50, "a", -0.0))
    _check(model.memtable.moment(), repr(sorted(model.rows.values())), set(), False)


def _check(moment: Moment, expected: str, deleted: set[int], ordered: bool) -> None:
    columns = moment.columns(ordered=ordered)
    ids = columns.rows["id"].to_pylist()
    if ordered:
        assert ids == sorted(ids)
    found = [tuple(one.values()) for one in columns.rows.to_pylist()]
    assert repr(sorted(found)) == expected
    assert KEY is not None
    assert columns.keys.equals(KEY.encode(columns.rows))
    keys = moment.memtable.deleted_keys(columns.made.deleted)
    assert sorted(keys) == sorted(deleted)
    for number, key in zip(columns.made.numbers.tolist(), ids, strict=True):
        shown = moment.memtable.row(number, SCHEMA)
        assert shown is not None
        assert shown["id"] == key


@pytest.fixture(params=["on", "off"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Table]:
    settings = {"log_sync": "never", "merge_background": "off", "memtable_columns": request.param}
    with moulin.connect(tmp_path / "lake", **settings) as lake:
        lake.create_database("d")
        yield lake.create_table("d.t", ITEMS, primary_key=["id"])


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(6))
def test_scans_between_writes_and_flushes_see_what_a_dict_does(table: Table, seed: int) -> None:
    chosen, expected = Random(seed), dict[int, dict[str, Any]]()
    held: list[tuple[Any, dict[int, dict[str, Any]]]] = []

    def some() -> list[int]:
        return [chosen.randrange(300) for _ in range(chosen.choice([1, 5, 60]))]

    for step in range(120):
        match chosen.choice(["put", "put", "list", "arrow", "delete", "delete_batch", "scan", "scan", "hold", "other"]):
            case "put":
                for key in some():
                    table.put(row(key, f"{step}"))
                    expected[key] = row(key, f"{step}")
            case "list" | "arrow" as form:
                made = {key: row(key, f"{step}") for key in some()}
                listed = list(made.values())
                table.put_batch(listed if form == "list" else pa.Table.from_pylist(listed))
                expected |= made
            case "delete":
                key = chosen.randrange(300)
                table.delete(key)
                expected.pop(key, None)
            case "delete_batch":
                gone = some()
                table.delete_batch(gone)
                for key in gone:
                    expected.pop(key, None)
            case "scan":
                _compare(table, expected, chosen)
            case "hold":
                held.append((table.scan(ordered=chosen.random() < 0.5), dict(expected)))
            case "other":
                _elsewhere(table, chosen)
        if held and chosen.random() < 0.2:
            scan, before = held.pop(chosen.randrange(len(held)))
            assert by_id(scan.to_arrow()) == before, "a scan shows the moment at which it was made"
    table.flush()
    _compare(table, expected, chosen)


@pytest.mark.parametrize("table", ["on", "off"], indirect=True)
def test_columns_are_kept_unless_that_is_switched_off(table: Table, request: pytest.FixtureRequest) -> None:
    table.put_batch(rows(0, 9))
    writer = table._keyed_only()._writer(())
    held = [table.scan().to_arrow() and writer.moments()[0].columns() for _ in range(2)]
    assert (held[0] is held[1]) == ("on" in request.node.name)


@pytest.mark.parametrize("table", ["on", "off"], indirect=True)
def test_columns_that_are_kept_take_room_from_the_rows(table: Table, request: pytest.FixtureRequest) -> None:
    table.put_batch(rows(0, 3000))
    writer = table._keyed_only()._writer(())
    (memtable,) = writer.memtables
    room = memtable.room
    for _ in range(2):
        table.put(row(1, "again"))
        made = table.scan(ordered=True).to_arrow()
    assert room - memtable.room == (made.nbytes if "on" in request.node.name else 0)
    memtable.room -= room - memtable.size
    assert writer.memtables == (memtable,)
    table.put(row(2, "again"))
    assert memtable not in writer.memtables[:1], "the memtable is full, and another was begun"
    assert table.scan().count() == 3000


def _compare(table: Table, expected: dict[int, dict[str, Any]], chosen: Random) -> None:
    assert by_id(table.scan().to_arrow()) == expected
    assert table.scan().count() == len(expected)
    low, high = sorted([chosen.randrange(300), chosen.randrange(300)])
    inside = [expected[key] for key in sorted(expected) if low <= key < high]
    assert table.scan(start=low, end=high).to_pylist() == inside
    assert table.scan(start=low, end=high, reverse=True, limit=7).to_pylist() == inside[::-1][:7]
    assert table.scan(where=f"id >= {low}", ordered=True, columns=["id"]).to_pylist() == [
        {"id": key} for key in sorted(expected) if key >= low
    ]
    asked = [low, high, 999]
    assert table.get_many(asked) == [expected.get(key) for key in asked]
    assert table.get(low) == expected.get(low)


def _elsewhere(table: Table, chosen: Random) -> None:
    """What moves rows without changing any."""
    writer = table._keyed_only()._writer(())
    action: Callable[[], object] = chosen.choice([table.flush, writer.rotate, writer.rotate, table.compact])
    action()


def test_scans_in_threads_see_whole_batches_and_never_older_rows(table: Table) -> None:
    """Each writer writes its ten keys at once, counting up: a scan sees one count for all, and none that goes back."""
    stop, failures = threading.Event(), list[BaseException]()

    def write(first: int) -> None:
        for number in range(1, 120):
            made = rows(first, 10, f"{number:05}")
            if number % 3:
                table.put_batch(made)
            else:
                table.put_batch(pa.Table.from_pylist(made))
            table.put(row(first + 500, f"{number:05}"))
            if number % 40 == 0:
                table.flush()

    def read() -> None:
        seen: dict[int, str] = {}
        while not stop.is_set():
            found = by_id(table.scan(ordered=bool(len(seen) % 2)).to_arrow())
            for first in (0, 100):
                counts = {found[key]["name"] for key in range(first, first + 10) if key in found}
                assert len(counts) <= 1, counts
            for key, one in found.items():
                assert one["name"] >= seen.get(key, ""), "a row went back"
                seen[key] = one["name"]
            assert seen.keys() <= found.keys(), "a row was lost"

    def guarded(run: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            try:
                run()
            except BaseException as error:  # noqa: BLE001 - raised below
                failures.append(error)

        return call

    readers = [threading.Thread(target=guarded(read)) for _ in range(2)]
    writers = [threading.Thread(target=guarded(lambda first=first: write(first))) for first in (0, 100)]  # type: ignore[misc]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    if failures:
        raise failures[0]
    assert {one["name"] for one in table.scan().to_pylist()} == {"00119"}


def test_a_reversed_scan_with_a_limit_begins_with_the_last_rows_that_match(table: Table) -> None:
    table.put_batch(rows(0, 300))
    table.flush()
    table.put(row(5, "b"))
    assert table.scan(where="amount > 0", reverse=True, limit=2).to_arrow()["id"].to_pylist() == [299, 298]
    assert table.scan(start=2, end=100, reverse=True, limit=2).to_arrow()["id"].to_pylist() == [99, 98]
    assert table.scan(start=2, end=100, limit=5).to_arrow()["id"].to_pylist() == [2, 3, 4, 5, 6]
