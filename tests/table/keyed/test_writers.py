"""Writers of keyed tables: fencing, failed logs, backpressure, regions, and changes that are not puts."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moulin.errors import FailedPrecondition, Fenced, Unavailable
from moulin.lake import Lake
from moulin.table.keyed.log import log_file
from moulin.table.table import Table
from tests.table.conftest import OpenLake
from tests.table.keyed_tables import ITEMS, check_flushed, row, rows


@pytest.fixture
def items(lake: Lake) -> Table:
    return lake.create_table("shop.items", ITEMS, primary_key=["id"])


def test_there_is_one_writer(request: pytest.FixtureRequest, lake: Lake, items: Table, open_lake: OpenLake) -> None:
    """A local log keeps the second one out; a log in a store fences the first. Nothing acknowledged is lost."""
    items.put(row(1))
    other = open_lake().table("shop.items")
    if "folder" in request.node.callspec.id:
        with pytest.raises(Fenced):
            other.put(row(2))
        items.close()
        other.put(row(2))
    else:
        other.put(row(2))
        with pytest.raises(Fenced):
            items.put(row(3))
        with pytest.raises(Fenced):
            items.close()
    assert other.get_many([1, 2, 3]) == [row(1), row(2), None]
    other.flush()
    assert other.at(version=other.version).scan().count() == 2


def test_threads_that_append_the_same_new_keys_make_one_row_each(lake: Lake, items: Table) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(3)

    def work(name: str, call: Any) -> None:
        try:
            start.wait()
            for turn in range(3):
                call(rows(turn * 5, 10, name))
        except BaseException as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=("x", items.append)),
        threading.Thread(target=work, args=("y", items.append)),
        threading.Thread(target=work, args=("z", items.put_batch)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = {one["id"]: one for one in items.scan().to_pylist()}
    assert sorted(found) == list(range(20))
    check_flushed(lake, items, found)


def test_a_key_in_several_runs_of_one_append_is_there_once(lake: Lake) -> None:
    small = {"moulin.append-segment-bytes": 1}
    table = lake.create_table("shop.small", ITEMS, primary_key=["id"], properties=small)
    for n in range(3):
        table.append([row(n, "old")])
    batches = [pa.RecordBatch.from_pylist(part) for part in ([row(0, "p")], rows(0, 3, "q"), rows(1, 3, "r"))]
    outcome = table.append(pa.Table.from_batches(batches))
    assert (outcome.rows_added, outcome.rows_updated) == (1, 3)
    check_flushed(lake, table, {0: row(0, "q"), **{n: row(n, "r") for n in (1, 2, 3)}})


def test_what_is_not_a_put_meets_what_is_pending(lake: Lake, items: Table) -> None:
    items.put_batch(rows(0, 6))
    assert items.delete_where("id < 2").rows_deleted == 2
    version = lake.version
    items.put(row(5, "new"))
    items.overwrite(rows(8, 2, "o"), where="id = 5")
    expected = {n: row(n) for n in (2, 3, 4)} | {n: row(n, "o") for n in (8, 9)}
    check_flushed(lake, items, expected, [0, 1, 5])
    items.put(row(2, "lost"))
    items.restore(version)
    check_flushed(lake, items, {n: row(n) for n in range(2, 6)}, [8, 9])
    items.put(row(2, "kept"))
    items.overwrite(iter(rows(3, 1, "all")))
    check_flushed(lake, items, {3: row(3, "all")}, [2])


def test_a_table_split_into_regions_reads_as_one_and_keeps_its_division(lake: Lake, open_lake: OpenLake) -> None:
    table = lake.create_table("shop.split", ITEMS, primary_key=["id"], properties={"moulin.regions": "bucket(3, id)"})
    table.put_batch(rows(0, 20))
    table.put(row(3, "new"))
    table.delete_batch([4, 5])
    expected = {n: row(n, "new" if n == 3 else "a") for n in range(20) if n not in (4, 5)}
    check_flushed(lake, table, expected, [4, 5])
    table.append(rows(15, 10, "b"))
    expected |= {n: row(n, "b") for n in range(15, 25)}
    table.compact(everything=True)
    check_flushed(lake, table, expected, [4, 5])
    for call in (
        lambda: table.set_properties({"moulin.regions": "bucket(2, id)"}),
        lambda: table.set_properties({}, remove=["moulin.regions"]),
        lambda: table.rename_column("id", "number"),
    ):
        with pytest.raises(FailedPrecondition, match="regions"):
            call()
    lake.close()
    again = open_lake()
    check_flushed(again, again.table("shop.split"), expected, [4, 5])


@pytest.mark.parametrize("call", ["_write", "_sync"])
def test_a_log_that_failed_takes_no_more_and_reopening_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        items = lake.create_table("shop.items", ITEMS, primary_key=["id"])
        items.put(row(1))

        def full(*_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(log_file, call, full)
            with pytest.raises(Unavailable, match="No space"):
                items.put(row(2))
        with pytest.raises(Unavailable):
            items.put(row(3))
        assert items.get(1) == row(1)
        items.close()
        again = lake.table("shop.items")
        again.put(row(4))
        assert again.get(1) == row(1)
        assert again.get(4) == row(4)
        assert again.get(3) is None


@pytest.mark.parametrize("knob", ["memtable", "level0"])
def test_writers_are_stopped_before_they_write(tmp_path: Path, knob: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = (
        {"memtable_stop": 1, "memtable_slowdown": 1} if knob == "memtable" else {"level0_stop": 2, "level0_slowdown": 2}
    )
    settings = {"memtable_bytes": 1, "stall_seconds": 0.1, "merge_background": "off", **stop}
    with Lake.open(tmp_path / "lake", settings=settings) as lake:
        lake.create_database("shop")
        items = lake.create_table("shop.items", ITEMS, primary_key=["id"])
        if knob == "level0":
            items.append(rows(0, 2))
        keyed = items._keyed_only()
        with monkeypatch.context() as patch:
            patch.setattr(keyed, "_flush_all", lambda writer: None)
            items.put(row(5))
            with pytest.raises(Unavailable, match="cannot keep up"):
                items.put(row(6))
        assert items.get(6) is None, "an error means that it was not written"
        assert items.get(5) == row(5)
        items.compact()
        if knob == "level0":
            items.put(row(7))
            assert items.get(7) == row(7)
