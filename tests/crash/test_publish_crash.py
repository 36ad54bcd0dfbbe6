"""kill -9 at any moment of a publish: main is as before, for all tables, or as after."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake

PUBLISHER = """
import os, signal, sys, threading
from moulin.lake import Lake

lake = Lake.open(sys.argv[1])
lake.table("shop.kept").scan().to_arrow()
left = int(sys.argv[2])

def count(frame, event, argument):
    global left
    if event == "call":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

start = left
threading.setprofile(count)
sys.setprofile(count)
lake.publish("exp")
sys.setprofile(None)
print(start - left, flush=True)
lake.close()
"""
COLUMNS = [("id", "long", False), ("amount", "double")]
TABLES = ("kept", "moved", "keyed", "fresh")


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": n, "amount": n / 2} for n in range(first, last)]


def prepare(root: Path) -> None:
    with Lake.open(root) as lake:
        lake.create_database("shop")
        for name in ("kept", "moved"):
            lake.create_table(f"shop.{name}", COLUMNS).append(rows(0, 20))
        lake.create_table("shop.keyed", COLUMNS, primary_key=["id"]).put_batch(rows(0, 20))
        lake.flush()
        branch = lake.branch("exp")
        for name in ("kept", "moved"):
            branch.table(f"shop.{name}").delete_where("id < 3")
            branch.table(f"shop.{name}").update({"amount": -1.0}, "id = 5")
            branch.table(f"shop.{name}").append(rows(30, 33))
        branch.table("shop.keyed").put_batch(rows(15, 25))
        branch.table("shop.keyed").delete(1)
        branch.create_table("shop.fresh", COLUMNS).append(rows(0, 4))
        lake.table("shop.moved").append(rows(50, 52))
        lake.table("shop.keyed").put({"id": 60, "amount": 1.0})


def shown(lake: Lake) -> dict[str, dict[int, float] | None]:
    there = {entry.name for entry in lake.tables("shop")}
    found: dict[str, dict[int, float] | None] = dict.fromkeys(TABLES)
    for name in there:
        listed = lake.table(f"shop.{name}").scan().to_arrow().to_pylist()
        found[name] = {row["id"]: row["amount"] for row in listed}
        assert len(listed) == len(found[name] or {})
    return found


def run(root: Path, after: int) -> str:
    command = [sys.executable, "-c", PUBLISHER, str(root), str(after)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


@pytest.mark.long
@pytest.mark.crash
def test_a_killed_publish_leaves_main_as_before_or_as_after(tmp_path: Path) -> None:
    prepare(tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "whole")
    calls = int(run(tmp_path / "whole", 1 << 40))
    with Lake.open(tmp_path / "first") as lake:
        before = shown(lake)
    with Lake.open(tmp_path / "whole") as lake:
        after = shown(lake)
    assert before != after
    chance = random.Random(11)
    states = []
    points = [*(chance.randrange(calls) for _ in range(6)), *range(calls - calls // 10, calls, max(1, calls // 40))]
    for number, point in enumerate(points):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "first", root)
        run(root, point)
        with Lake.open(root) as lake:
            found = shown(lake)
            assert found in (before, after), point
            states.append(found == after)
            assert check(lake.own_catalog()) == []
            assert bool(lake.branches()) == (found == before)
            for _ in range(2):
                collect(lake.own_catalog(), orphan_grace=0, history_keep=0, byte_floor=0)
            if found == before:
                lake.publish("exp")
            assert shown(lake) == after
            assert check(lake.own_catalog()) == []
        shutil.rmtree(root)
    assert set(states) == {False, True}
