"""Flushes, compactions, clean-up and reads of a keyed table that meet: one live row per key, at every version."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from moulin.catalog.commit.table_commit import Stale, TableCommit
from moulin.catalog.upkeep.check import check as check_lake
from moulin.catalog.upkeep.gc import collect
from moulin.config import DAY, MINUTE
from moulin.errors import FailedPrecondition, NotFound
from moulin.lake import Lake
from moulin.model.conflicts import Verdict
from moulin.model.operations import Upsert
from moulin.table.compact.compaction import compact
from moulin.table.keyed.log import log_file
from moulin.table.table import Table
from tests.catalog.conftest import HandClock, files
from tests.contract.samples import segment
from tests.table.commit.test_races import start_compaction
from tests.table.conftest import OpenLake
from tests.table.keyed_tables import ITEMS, by_id, check, check_flushed, plainly, row, rows

QUIET = {"merge_background": "off"}


@pytest.fixture
def lake(open_lake: OpenLake) -> Lake:
    lake = open_lake(settings=QUIET)
    lake.create_database("shop")
    return lake


@pytest.fixture
def items(lake: Lake) -> Table:
    """Keys in level 2, in level 0 and in the memtable."""
    items = lake.create_table("shop.items", ITEMS, primary_key=["id"])
    items.append(rows(0, 20, "level 2"))
    items.compact(everything=True)
    items.append(rows(10, 20, "level 0"))
    items.put_batch(rows(25, 10, "memtable"))
    return items


EXPECTED = {
    **{n: row(n, "level 2") for n in range(10)},
    **{n: row(n, "level 0") for n in range(10, 25)},
    **{n: row(n, "memtable") for n in range(25, 35)},
}


def change(items: Table) -> dict[int, dict[str, Any]]:
    """Updates and deletes of keys in level 2, in level 0 and in the memtable, and new keys; what is there then."""
    for n in (1, 11, 26, 40):
        items.put(row(n, "new"))
    items.delete_batch([2, 12, 27])
    items.delete(3)
    items.put(row(3, "again"))
    changed = EXPECTED | {n: row(n, "new") for n in (1, 11, 26, 40)} | {3: row(3, "again")}
    return {n: one for n, one in changed.items() if n not in (2, 12, 27)}


def check_versions(lake: Lake, items: Table) -> None:
    for entry in items.history():
        seen = by_id(items.at(version=entry.version).scan().to_arrow())
        assert seen == plainly(lake, items, entry.version)
    assert check_lake(lake.catalog) == []


def test_a_flush_commits_while_a_compaction_runs(lake: Lake, items: Table) -> None:
    items.flush()
    commit = start_compaction(items)
    expected = change(items)
    items.flush()
    check(lake, items, expected, [2, 12, 27])
    commit()
    items.refresh()
    check_flushed(lake, items, expected, [2, 12, 27])
    check_versions(lake, items)
    assert {segment.facts.level for segment in lake.catalog.segments(items.id, lake.version)} == {0, 2}


def before_flush(items: Table, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Once, after a flush has found the old positions of its keys and before it commits, `act` is called."""
    committer = items._context.committer
    commit, left = committer.commit, [act]

    def commit_later(changes: Any, *, request_id: str | None = None) -> Any:
        if request_id is not None and request_id.startswith("flush:") and left:
            left.pop()()
        return commit(changes, request_id=request_id)

    monkeypatch.setattr(committer, "commit", commit_later)


def test_a_compaction_commits_while_a_flush_runs(lake: Lake, items: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    items.flush()
    ids = items.scan(columns=["id", "_row_id"]).to_arrow().to_pydict()
    before = dict(zip(ids["id"], ids["_row_id"], strict=True))
    commit = start_compaction(items)
    expected = change(items)
    seen: list[dict[int, dict[str, Any]]] = []

    def meet() -> None:
        commit()
        seen.append(by_id(items.scan().to_arrow()))
        seen.append({n: one for n in range(45) if (one := items.get(n)) is not None})

    before_flush(items, monkeypatch, meet)
    items.flush()
    assert seen == [expected, expected], "readers between the two see every write"
    check_flushed(lake, items, expected, [2, 12, 27])
    check_versions(lake, items)
    ids = items.scan(columns=["id", "_row_id"]).to_arrow().to_pydict()
    after = dict(zip(ids["id"], ids["_row_id"], strict=True))
    assert {n: after[n] for n in (1, 11, 26)} == {n: before[n] for n in (1, 11, 26)}, "an update keeps the row's id"


def test_a_compaction_that_commits_while_a_flush_runs_loses_nothing(
    lake: Lake, items: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The background merge of this process, with a thread that waits for it before the flush may commit."""
    items.flush()
    expected = change(items)

    def compact_elsewhere() -> None:
        worker = threading.Thread(target=compact, args=(items._context, items.state), kwargs={"everything": True})
        worker.start()
        worker.join()

    before_flush(items, monkeypatch, compact_elsewhere)
    items.flush()
    check_flushed(lake, items, expected, [2, 12, 27])
    check_versions(lake, items)


@pytest.mark.parametrize("open_lake", ["folder"], indirect=True)
def test_a_write_is_read_while_its_sync_is_under_way(items: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on, real = threading.Event(), threading.Event(), log_file._sync

    def slowly(fd: int) -> None:
        began.set()
        assert go_on.wait(60)
        real(fd)

    monkeypatch.setattr(log_file, "_sync", slowly)
    writer = threading.Thread(target=items.put, args=(row(1, "unsynced"),))
    writer.start()
    assert began.wait(60)
    assert items.get(1) == row(1, "unsynced")
    assert items.get_many([1]) == [row(1, "unsynced")]
    assert by_id(items.scan(where="id = 1").to_arrow()) == {1: row(1, "unsynced")}
    assert writer.is_alive(), "it is not acknowledged yet"
    go_on.set()
    writer.join()


def test_a_read_sees_one_moment(open_lake: OpenLake) -> None:
    """Batches that change all keys at once are seen whole, while memtables fill up, are flushed and merged."""
    lake = open_lake(settings={"memtable_bytes": 6_000, "level0_trigger": 2, "log_sync": "interval"})
    lake.create_database("shop")
    items = lake.create_table("shop.items", ITEMS, primary_key=["id"])
    items.put_batch(rows(0, 10, "0"))
    done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for turn in range(1, 60):
                items.put_batch(rows(0, 10, str(turn)))
        except BaseException as error:  # noqa: BLE001 - told to the test
            failures.append(error)
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    last, reads = 0, 0
    while not done.is_set() or reads < 4:
        found = items.get_many(list(range(10))) if reads % 2 else items.scan().to_pylist()
        names = {one["name"] for one in found if one is not None}
        assert len(found) == 10
        assert len(names) == 1, "all of a batch or nothing of it"
        (turn,) = map(int, names)
        assert turn >= last, "nothing that was seen goes away"
        last, reads = turn, reads + 1
    writer.join()
    assert failures == []
    check_flushed(lake, items, {n: row(n, "59") for n in range(10)})


def test_clean_up_waits_for_pins_and_for_grace(tmp_path: Any) -> None:
    clock = HandClock()
    with Lake.open(tmp_path / "lake", clock=clock, settings=QUIET) as lake:
        lake.create_database("shop")
        items = lake.create_table("shop.items", ITEMS, primary_key=["id"])
        items.append(rows(0, 20))
        items.append(rows(10, 20, "b"))
        old = items.version
        expected = {n: row(n, "a" if n < 10 else "b") for n in range(30)}
        with items.at(version=old) as first, items.at(version=old) as second:
            items.delete_batch(list(range(5, 30)))
            items.flush()
            items.compact(everything=True)
            count = len(files(tmp_path, "*.parquet"))
            for held in (first, second):
                clock.forward(30 * DAY)
                for snapshot in (first, second):
                    snapshot.scan()  # renews its pin
                assert all(found.oldest_version <= old for found in collect(lake.catalog).expired)
                assert by_id(held.scan().to_arrow()) == expected
                assert held.get(7) == expected[7]
        with items.at(version=old) as third:
            clock.forward(1)
            assert collect(lake.catalog).expired == [], "one pin is as good as two"
            assert third.get_many([7, 29, 30]) == [expected[7], expected[29], None]
        clock.forward(1)
        assert [found.table for found in collect(lake.catalog).expired] == ["shop.items"]
        with pytest.raises(NotFound, match="cleaned up"):
            items.at(version=old)
        assert len(files(tmp_path, "*.parquet")) == count, "a reader that knew the files may still be at them"
        clock.forward(11 * MINUTE)
        collect(lake.catalog)
        assert len(files(tmp_path, "*.parquet")) == count
        clock.forward(2 * MINUTE)
        collect(lake.catalog)
        assert len(files(tmp_path, "*.parquet")) == 1
        check_flushed(lake, items, {n: row(n) for n in range(5)}, [7])


def test_a_clock_that_goes_back_changes_nothing_but_times(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    with Lake.open(tmp_path / "lake", clock=clock, settings=QUIET) as lake:
        lake.create_database("shop")
        items = lake.create_table("shop.items", ITEMS, primary_key=["id"])
        for turn in range(4):
            items.put_batch(rows(turn * 5, 10, str(turn)))
            items.flush()
            clock.forward(-10 * DAY)
            items.put(row(turn, "single"))
            items.flush()
            items.compact(everything=turn % 2 == 1)
            with pytest.raises(FailedPrecondition, match="clocks differ"):
                collect(lake.catalog)
        times = [entry.timestamp_ns for entry in items.history()]
        assert times == sorted(times, reverse=True), "a later version never has an earlier time"
        assert len(set(times)) == len(times)
        assert all(items.at(version=entry.version).scan().count() >= 0 for entry in items.history()), "all are kept"
        expected = by_id(items.scan().to_arrow())
        items.put(row(99, "unflushed"))
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000)  # 1970: for who reads the machine's own clock
    monkeypatch.setattr("time.time", lambda: 1.0)
    with Lake.open(tmp_path / "lake", settings=QUIET) as lake:
        items = lake.table("shop.items")
        items.put(row(100, "1970"))
        items.flush()
        items.compact(everything=True)
        with pytest.raises(FailedPrecondition, match="clocks differ"):
            collect(lake.catalog)
        check_flushed(lake, items, expected | {99: row(99, "unflushed"), 100: row(100, "1970")})
        assert check_lake(lake.catalog) == []


def test_an_upsert_that_holds_no_region_meets_rows_that_came_since(lake: Lake, items: Table) -> None:
    """They may have its keys."""
    read = lake.catalog.version()
    items.append(rows(50, 1, "came"))
    facts = segment(lake.own_catalog(), items.id, key_min=b"a", key_max=b"b", index_size=10)
    with pytest.raises(Stale) as stale:
        lake.catalog.commit([TableCommit(items.id, read, Upsert(added=(facts,)))])
    assert stale.value.verdict is Verdict.REBASE
