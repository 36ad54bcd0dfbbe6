"""kill -9 at any moment: what was acknowledged is there, what was not is whole or absent, the next process goes on."""

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

WRITER = """
import sys
from moulin.lake import Lake

table = Lake.open(sys.argv[1]).table("shop.t")
number = int(sys.argv[2])
while True:
    table.append([{"id": number * 10 + n, "batch": number} for n in range(10)])
    print("appended", number, flush=True)
    if number % 3 == 2:
        table.delete_where(f"id = {number * 10}")
        print("deleted", number, flush=True)
    if number % 5 == 4:
        table.compact(everything=True)
        print("merged", number, flush=True)
    number += 1
"""


@pytest.mark.long
@pytest.mark.crash
def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with Lake.open(root) as lake:
        lake.create_database("shop")
        lake.create_table("shop.t", [("id", "long", False), ("batch", "long")])
    seconds = random.Random(7)
    following = 0
    appended: set[int] = set()
    deleted: set[int] = set()
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(root), str(following)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline()]  # it works: now kill it somewhere
            time.sleep(seconds.uniform(0.05, 0.8))
            os.kill(writer.pid, signal.SIGKILL)
            said += writer.stdout.read().splitlines()
        words = [line.split() for line in said if len(line.split()) == 2]
        appended |= {int(number) for verb, number in words if verb == "appended"}
        deleted |= {int(number) for verb, number in words if verb == "deleted"}
        following = max(appended) + 2  # the batch after the last acknowledged one may or may not be there
        with Lake.open(root) as lake:
            found = lake.table("shop.t").scan().to_arrow()
            batches = set(found.column("batch").to_pylist())
            assert appended <= batches
            ids = found.column("id").to_pylist()
            assert len(ids) == len(set(ids))
            for batch in batches:
                rows = {n for n in ids if n // 10 == batch}
                whole = {batch * 10 + n for n in range(10)}
                assert rows in (whole, whole - {batch * 10}), "a batch is whole, less the one row that may be deleted"
                assert batch not in deleted or batch * 10 not in rows
            assert check(lake.catalog) == []
            assert lake.catalog.publisher.published_version() == lake.version
    with Lake.open(root) as lake:
        expected = sorted(lake.table("shop.t").scan().to_arrow().column("id").to_pylist())
        collect(lake.catalog, orphan_grace=0, history_keep=0, byte_floor=0)
        collect(lake.catalog, orphan_grace=0, history_keep=0, byte_floor=0)
        assert sorted(lake.table("shop.t").scan().to_arrow().column("id").to_pylist()) == expected
        named = {s.facts.path for s in lake.table("shop.t").scan().plan().segments}
        assert {str(p.relative_to(root)) for p in root.rglob("*.parquet")} == named
        assert not [p for p in root.rglob(".*") if p.is_file()], "temporaries are swept too"
