"""kill -9 while files are adopted and segments are moved: what was acknowledged is there, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake

WRITER = """
import sys
from pathlib import Path
from moulin.lake import Lake

lake = Lake.open(sys.argv[1])
table = lake.table("shop.t")
folders = sorted(Path(sys.argv[2]).iterdir())
print("ready", flush=True)
while True:
    for folder in folders:
        done = table.adopt(folder, skip_known=True)
        if done.files:
            print("adopted", folder.name, flush=True)
        table.move(f"id < {100 * (folders.index(folder) + 1)}", base="archive")
        print("moved", folder.name, flush=True)
"""


@pytest.mark.long
@pytest.mark.crash
def test_a_killed_adoption_or_move_loses_no_row_and_no_file(tmp_path: Path) -> None:
    root, theirs, archive = tmp_path / "lake", tmp_path / "theirs", tmp_path / "archive"
    archive.mkdir()
    for number in range(8):
        (theirs / f"{number}").mkdir(parents=True)
        for part in range(5):
            first = number * 100 + part * 20
            pq.write_table(pa.table({"id": range(first, first + 20)}), theirs / f"{number}" / f"{part}.parquet")
    before = {path: path.read_bytes() for path in theirs.rglob("*.parquet")}
    with Lake.open(root) as lake:
        lake.create_database("shop")
        lake.create_table("shop.t", [("id", "long")])
        lake.add_base(theirs, name="theirs")
        lake.add_base(archive, name="archive")
    seconds, adopted = random.Random(3), set[int]()
    for _ in range(6):
        command = [sys.executable, "-c", WRITER, str(root), str(theirs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline()]
            time.sleep(seconds.uniform(0.02, 0.7))
            os.kill(writer.pid, signal.SIGKILL)
            said += writer.stdout.read().splitlines()
        adopted |= {int(line.split()[1]) for line in said if line.startswith("adopted") and len(line.split()) == 2}
        with Lake.open(root) as lake:
            ids = sorted(lake.table("shop.t").scan().to_arrow().column("id").to_pylist())
            folders = {n // 100 for n in ids}
            assert adopted <= folders
            assert ids == [n for folder in sorted(folders) for n in range(folder * 100, folder * 100 + 100)]
            assert check(lake.catalog) == []
            collect(lake.catalog, orphan_grace=0, history_keep=0, byte_floor=0)
            assert sorted(lake.table("shop.t").scan().to_arrow().column("id").to_pylist()) == ids
    with Lake.open(root) as lake:
        table = lake.table("shop.t")
        table.adopt(theirs, skip_known=True)
        table.move(base="archive")
        table.compact()
        for _ in range(2):
            collect(lake.catalog, orphan_grace=0, history_keep=0, byte_floor=0)
        assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [*range(800)]
        named = {segment.facts.path for segment in table.scan().plan().segments}
        assert len([*archive.rglob("*.parquet")]) == len([path for path in named if "/moulin/" in path])
    assert {path: path.read_bytes() for path in theirs.rglob("*.parquet")} == before


KEYED_WRITER = """
import sys
from pathlib import Path
from moulin.lake import Lake

lake = Lake.open(sys.argv[1])
folders = sorted(Path(sys.argv[2]).iterdir())
print("ready", flush=True)
with lake.table("shop.k") as table:
    while True:
        for folder in folders:
            done = table.adopt(folder, skip_known=True)
            if done.files:
                print("adopted", folder.name, flush=True)
            table.put({"id": -1 - int(folder.name), "name": "put"})
            table.flush()
            table.compact()
"""


@pytest.mark.long
@pytest.mark.crash
def test_a_killed_adoption_into_a_keyed_table_keeps_one_row_per_key(tmp_path: Path) -> None:
    root, theirs = tmp_path / "lake", tmp_path / "theirs"
    for number in range(8):
        (theirs / f"{number}").mkdir(parents=True)
        for part in range(3):  # neighbours share half of their keys, and no file is in their order
            keys = [number * 50 + part * 33 + (7 * n) % 33 for n in range(33)]
            rows = pa.table({"id": keys, "name": [f"{number}" for _ in keys]})
            pq.write_table(rows, theirs / f"{number}" / f"{part}.parquet")
    before = {path: path.read_bytes() for path in theirs.rglob("*.parquet")}
    with Lake.open(root) as lake:
        lake.create_database("shop")
        lake.create_table("shop.k", [("id", "long", False), ("name", "string")], primary_key=["id"])
        lake.add_base(theirs, name="theirs")
    seconds, adopted = random.Random(5), set[int]()
    for _ in range(6):
        command = [sys.executable, "-c", KEYED_WRITER, str(root), str(theirs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline()]
            time.sleep(seconds.uniform(0.02, 0.7))
            os.kill(writer.pid, signal.SIGKILL)
            said += writer.stdout.read().splitlines()
        adopted |= {int(line.split()[1]) for line in said if line.startswith("adopted") and len(line.split()) == 2}
        with Lake.open(root) as lake:
            table = lake.table("shop.k")
            found = [(row["id"], row["name"]) for row in table.scan().to_pylist() if row["id"] >= 0]
            assert len(dict(found)) == len(found), "one live row per key"
            folders = {int(name) for _, name in found}
            assert adopted <= folders
            expected = {n * 50 + at: f"{n}" for n in sorted(folders) for at in range(99)}
            assert dict(found) == expected
            assert {key: (table.get(key) or {}).get("name") for key in expected} == expected
            assert check(lake.catalog) == []
            collect(lake.catalog, orphan_grace=0, history_keep=0, byte_floor=0)
            assert [row["id"] for row in table.scan(start=0, ordered=True).to_pylist()] == sorted(expected)
    with Lake.open(root) as lake:
        table = lake.table("shop.k")
        for folder in sorted(theirs.iterdir()):  # a key may be in one file of a call
            table.adopt(folder, skip_known=True)
        table.compact(everything=True)
        for _ in range(2):
            collect(lake.catalog, orphan_grace=0, history_keep=0, byte_floor=0)
        data = table.scan().plan().segments
        assert len([*(root / "tables").rglob("*.keys")]) == len(data), "no index is left of segments that are gone"
        assert check(lake.catalog) == []
    assert {path: path.read_bytes() for path in theirs.rglob("*.parquet")} == before
