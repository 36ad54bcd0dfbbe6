"""Threads that get rows give way while a scan is being read, and at no other time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moulin.lake import Lake
from moulin.table.read import turns, units
from moulin.table.read.scan import Scan
from moulin.table.read.turns import TURNS, Turns
from tests.table.keyed_tables import ITEMS, row, rows


def test_a_thread_sleeps_once_in_a_while_as_long_as_there_is_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [100.0], list[float]()
    monkeypatch.setattr(turns, "monotonic", lambda: now[0])
    monkeypatch.setattr(turns, "sleep", slept.append)
    mine = Turns()
    with mine:
        for _ in range(10):
            mine.give_way()
        assert len(slept) == 1
        now[0] += 1
        mine.give_way()
        assert len(slept) == 2
        other = threading.Thread(target=mine.give_way)
        other.start()
        other.join()
        assert len(slept) == 3, "each thread gives way for itself"
        assert mine.scans == 1
    assert mine.scans == 0


def test_a_thread_sleeps_more_often_while_a_scan_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [100.0], list[float]()
    monkeypatch.setattr(turns, "monotonic", lambda: now[0])
    monkeypatch.setattr(turns, "sleep", slept.append)
    mine, counts = Turns(), list[int]()
    with mine:
        for _ in range(2):
            slept.clear()
            for _ in range(10):
                now[0] += turns._SHORT
                mine.give_way()
            counts.append(len(slept))
            now[0] += turns._YOUNG
    assert counts[0] > counts[1] > 0


def test_scans_count_while_their_callers_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    read: Any = units.UnitReader.__call__

    def spied(self: units.UnitReader, unit: Any) -> Any:
        seen.append(TURNS.scans)
        return read(self, unit)

    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", ITEMS, primary_key=["id"])
        table.append(rows(0, 100))
        monkeypatch.setattr(units.UnitReader, "__call__", spied)
        batches = table.scan(limit=5).to_batches()
        next(batches)
        assert TURNS.scans == 0, "the caller has the rows, and may take its time"
        batches.close()
        assert [scans > 0 for scans in seen] == [True]
        assert table.scan().to_arrow().num_rows == 100
        monkeypatch.setattr(units.UnitReader, "__call__", lambda *_: 1 / 0)
        for limit in (None, 5):
            with pytest.raises(ZeroDivisionError):
                table.scan(limit=limit).to_arrow()
        assert TURNS.scans == 0


def test_gets_find_their_rows_while_a_scan_is_read(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake") as lake, TURNS:
        lake.create_database("d")
        table = lake.create_table("d.t", ITEMS, primary_key=["id"])
        table.put(row(1))
        for _ in range(100):
            assert table.get(1) == row(1)
            assert table.get(2) is None


def test_what_makes_items_counts_and_what_uses_them_does_not() -> None:
    mine, made = Turns(), list[int]()

    def items() -> Iterator[int]:
        try:
            for item in range(3):
                made.append(mine.scans)
                yield item
        finally:
            made.append(-1)

    for item in mine.during(items()):
        assert mine.scans == 0
        if item == 1:
            break
    assert made == [1, 1, -1], "an iterator that is left alone ends"
    assert list(mine.during(items())) == [0, 1, 2]
    assert mine.scans == 0


def test_the_plan_of_a_scan_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    planned: Any = Scan._planned

    def spied(self: Scan) -> Any:
        seen.append(TURNS.scans)
        return planned(self)

    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", ITEMS)
        table.append(rows(0, 100))
        monkeypatch.setattr(Scan, "_planned", spied)
        assert table.scan().to_arrow().num_rows == 100
        assert sum(batch.num_rows for batch in table.scan(limit=5)) == 5
    assert len(seen) == 2
    assert all(seen)
    assert TURNS.scans == 0
