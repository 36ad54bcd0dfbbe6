"""kill -9 of a fill and of a fold: whoever calls again goes on, and no value is lost or wrong."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake

SEGMENTS, ROWS, KILLS = 12, 500, 4

WORKER = """
import sys, time
from moulin.lake import Lake
from moulin.table.fill import fill

fill._GROUP_SEGMENTS, fill._LEASE_SECONDS = 1, 0.5
table = Lake.open(sys.argv[1], settings={"merge_lease_seconds": 0.3}).table("shop.t")
print("ready", flush=True)
{call}
print("done", flush=True)
"""
FILL = 'table.add_columns(lambda b: (time.sleep(0.1), {"y": b["x"]})[1], read=["x"], schema=[("y", "double")])'
SQL = 'table.add_column("y", "double", from_sql="x * 2")'
FOLD = "time.sleep(0.4); table.fold()"  # after the leases of those who were killed


def killed_then_done(root: Path, call: str, chosen: random.Random) -> None:
    """Kill the call some times, later each time, and let it end at last."""
    for attempt in range(KILLS + 1):
        command = [sys.executable, "-c", WORKER.replace("{call}", call), str(root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
            if attempt < KILLS:
                time.sleep(chosen.uniform(0.02, 0.1 + 0.1 * attempt))
                os.kill(worker.pid, signal.SIGKILL)
            elif worker.stdout.readline() != "done\n":
                raise AssertionError(f"{call} failed")


@pytest.mark.long
@pytest.mark.crash
@pytest.mark.parametrize("key", [(), ("id",)], ids=["event", "keyed"])
@pytest.mark.parametrize("call", [FILL, SQL], ids=["function", "expression"])
def test_a_killed_fill_goes_on_where_it_was(tmp_path: Path, call: str, key: tuple[str, ...]) -> None:
    root, chosen = tmp_path / "lake", random.Random(5)
    with Lake.open(root) as lake:
        lake.create_database("shop")
        columns = [("id", "long", False), ("x", "double")]
        table = lake.create_table("shop.t", columns, primary_key=key, properties={"moulin.inline-bytes": 0})
        for segment in range(SEGMENTS):
            table.append([{"id": segment * ROWS + n, "x": float(n)} for n in range(ROWS)])
    killed_then_done(root, call, chosen)
    factor = 1 if call == FILL else 2
    with Lake.open(root) as lake:
        table = lake.table("shop.t")
        found = table.scan().to_arrow()
        assert found.num_rows == SEGMENTS * ROWS
        assert found["y"].to_pylist() == [factor * x for x in found["x"].to_pylist()]
        assert list(check(lake.own_catalog(), data=True)) == []
    killed_then_done(root, FOLD, chosen)
    with Lake.open(root) as lake:
        table = lake.table("shop.t")
        assert not any(s.facts.files for s in lake.catalog.segments(table.id, table.version))
        collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=0)
        found = table.scan().to_arrow()
        assert found["y"].to_pylist() == [factor * x for x in found["x"].to_pylist()]
        assert found.num_rows == SEGMENTS * ROWS
        assert list(check(lake.own_catalog(), data=True)) == []
