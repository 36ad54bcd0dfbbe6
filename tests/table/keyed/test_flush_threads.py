"""Regions of a table that are flushed at once."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.table.keyed.flush_lock import FlushLock
from moulin.table.keyed.holder import RegionHolder


def test_regions_are_flushed_at_once_when_a_setting_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2)
    commit = RegionHolder._commit_memtable

    def meet(self: Any, *more: Any) -> int:
        together.wait(30)  # raises unless another flush is here, too
        return commit(self, *more)

    with moulin.connect(tmp_path / "lake", flush_threads=2, merge_background="off") as lake:
        lake.create_database("shop")
        columns = [("id", "long", False), ("n", "int")]
        properties = {"moulin.regions": "bucket(2, id)"}
        table = lake.create_table("shop.items", columns, primary_key=["id"], properties=properties)
        table.put_batch([{"id": n, "n": n} for n in range(20)])
        with monkeypatch.context() as patched:
            patched.setattr(RegionHolder, "_commit_memtable", meet)
            table.flush()
        assert {row["id"]: row["n"] for row in table.scan().to_pylist()} == {n: n for n in range(20)}
        assert len(table.scan().plan().segments) == 2


@pytest.mark.parametrize("threads", [1, 3])
def test_writes_flushed_by_several_threads_are_all_there(tmp_path: Path, threads: int) -> None:
    settings = {"flush_threads": threads, "memtable_bytes": 3000, "level0_trigger": 3, "log_sync": "interval"}
    written: list[dict[int, int | None]] = [{} for _ in range(4)]
    with moulin.connect(tmp_path / "lake", **settings) as lake:
        lake.create_database("shop")
        columns = [("id", "long", False), ("n", "int"), ("note", "string")]
        properties = {"moulin.regions": "bucket(4, id)"}
        table = lake.create_table("shop.items", columns, primary_key=["id"], properties=properties)

        def write(worker: int) -> None:
            rng = random.Random(worker)
            for turn in range(150):
                key = 4 * rng.randrange(60) + worker
                if rng.random() < 0.2:
                    table.delete(key)
                    written[worker][key] = None
                else:
                    table.put({"id": key, "n": turn, "note": "x" * 40})
                    written[worker][key] = turn
                if turn % 60 == 59:
                    table.flush()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        wanted = {key: n for mine in written for key, n in mine.items() if n is not None}
        assert {row["id"]: row["n"] for row in table.scan().to_pylist()} == wanted
        table.flush()
        assert {row["id"]: row["n"] for row in table.scan().to_pylist()} == wanted
        assert all(table.get(key)["n"] == n for key, n in list(wanted.items())[:40])
        assert check(lake.catalog) == []
    with moulin.connect(tmp_path / "lake") as lake:
        assert {row["id"]: row["n"] for row in lake.table("shop.items").scan().to_pylist()} == wanted


def test_whoever_holds_all_regions_is_alone() -> None:
    lock, inside, seen = FlushLock(), [], []

    def one(region: int) -> None:
        for _ in range(50):
            with lock.of(region):
                inside.append(region)
                seen.append(inside.count(region) == 1 and -1 not in inside)
                inside.remove(region)

    def everything() -> None:
        for _ in range(20):
            with lock:
                inside.append(-1)
                seen.append(inside == [-1])
                inside.remove(-1)

    with ThreadPoolExecutor(6) as pool:
        done = [pool.submit(one, region) for region in (1, 1, 2, 3)] + [pool.submit(everything) for _ in range(2)]
        for future in done:
            future.result(30)
    assert len(seen) == 240
    assert all(seen)
