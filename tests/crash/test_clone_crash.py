"""kill -9 at any moment of a clone: it is there whole, or it is not there, and its source is as it was."""

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

CLONER = """
import os, signal, sys, threading
from moulin.lake import Lake

lake = Lake.open(sys.argv[1])
lake.table("shop.t").scan().to_arrow()
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
lake.clone_table("shop.t", "shop.clone", copy=sys.argv[3] == "deep")
sys.setprofile(None)
print(start - left, flush=True)
lake.close()
"""


def run(root: Path, after: int, how: str) -> str:
    command = [sys.executable, "-c", CLONER, str(root), str(after), how]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


def prepare(root: Path, key: tuple[str, ...]) -> None:
    with Lake.open(root) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long", False), ("x", "double")], primary_key=key)
        for first in (0, 20):
            table.append([{"id": first + n, "x": n / 2} for n in range(20)])
        table.delete_where("id in (3, 25)")
        table.add_column("y", "double", from_sql="x * 2")
        table.close()


def rows(lake: Lake, name: str) -> list[dict[str, Any]]:
    return sorted(lake.table(name).scan(["id", "x", "y"]).to_pylist(), key=lambda row: row["id"])


@pytest.mark.long
@pytest.mark.crash
@pytest.mark.parametrize("how", ["shallow", "deep"])
@pytest.mark.parametrize("key", [(), ("id",)], ids=["event", "keyed"])
def test_a_killed_clone_is_whole_or_not_there(tmp_path: Path, key: tuple[str, ...], how: str) -> None:
    prepare(tmp_path / "first", key)
    shutil.copytree(tmp_path / "first", tmp_path / "whole")
    calls = int(run(tmp_path / "whole", 1 << 40, how))
    with Lake.open(tmp_path / "first") as lake:
        expected = rows(lake, "shop.t")
    chance = random.Random(7)
    points = [*(chance.randrange(calls) for _ in range(5)), *range(calls - calls // 8, calls, max(1, calls // 40))]
    there = set()
    for number, point in enumerate(points):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "first", root)
        run(root, point, how)
        with Lake.open(root) as lake:
            found = "clone" in {entry.name for entry in lake.tables("shop")}
            there.add(found)
            assert rows(lake, "shop.t") == expected
            for _ in range(2):
                collect(lake.own_catalog(), orphan_grace=0, history_keep=0, byte_floor=0)
            if not found:
                lake.clone_table("shop.t", "shop.clone", copy=how == "deep")
            assert rows(lake, "shop.clone") == expected
            lake.table("shop.clone").append([{"id": 99, "x": 1.0, "y": 2.0}])
            lake.drop_table("shop.t", immediate=True)
            collect(lake.own_catalog(), orphan_grace=0, history_keep=0, byte_floor=0)
            assert rows(lake, "shop.clone") == [*expected, {"id": 99, "x": 1.0, "y": 2.0}], point
            assert check(lake.own_catalog(), data=True) == []
        shutil.rmtree(root)
    assert there == {False, True}
