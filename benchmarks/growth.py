"""Load, upsert, aggregate and compaction of growing tables: time per row, and the most memory of each kind of process.

Every size has a process of its own, with a small table first, so that Java has compiled what it runs. Memory should be
that of the settings (`append_segment_bytes`, `merge_segment_bytes`, `merge_memory_bytes`, `key_cache_bytes`, Spark's
heap) and not grow with the table. They are set so low that a task of the smallest table has more rows than they let it
hold: else it would only use less of them.
"""

# Decisions: docs/decisions/0461

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import events
from benchmarks.harness import Bench, Line, Sample
from benchmarks.memory import Watch

TITLE = "time per row and memory of growing tables"
NAME = "growth"
STEPS = ("load", "upsert", "aggregate", "compact")
TIME, MEMORY = 1.25, 1.25
_FILE_ROWS = 2_500_000
_WARM_ROWS = 100_000
_SETTINGS: dict[str, Any] = {
    "append_segment_bytes": 32 << 20,
    "merge_segment_bytes": 32 << 20,
    "merge_memory_bytes": 64 << 20,
    "key_cache_bytes": 16 << 20,
    "merge_background": "off",  # each step does its own work
}
_UPSERTED = 50  # one row of so many


def run(bench: Bench) -> Iterator[Line]:
    sizes = bench.sizes or tuple(bench.rows * factor for factor in (1, 4, 16))
    first: dict[str, dict[str, float]] | None = None
    for rows in sizes:
        bench.step(f"growing to {rows:,} rows")
        found = _measured(bench.folder / f"growth-{rows}", rows)
        if first is None:
            first = found
            continue
        yield from _lines(first, sizes[0], found, rows)


def _lines(
    first: dict[str, dict[str, float]], few: int, found: dict[str, dict[str, float]], rows: int
) -> Iterator[Line]:
    peer = f"{few:,} rows"
    for step in STEPS:
        yield Line(
            NAME,
            f"{step}: time per row, {rows:,} rows / {peer}",
            Sample((found[step]["seconds"] / rows * 1e6,)),
            Sample((first[step]["seconds"] / few * 1e6,)),
            peer,
            TIME,
            unit="us",
        )
    for step in STEPS:
        for kind in ("driver", "workers", "jvm"):
            if first[step][kind]:
                yield Line(
                    NAME,
                    f"{step}: peak memory of {kind}, {rows:,} rows / {peer}",
                    Sample((found[step][kind] / 2**20,)),
                    Sample((first[step][kind] / 2**20,)),
                    peer,
                    MEMORY,
                    unit="MiB",
                )


def _measured(folder: Path, rows: int) -> dict[str, dict[str, float]]:
    """Seconds and bytes of each step, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", str(rows), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    shutil.rmtree(folder, ignore_errors=True)
    if done.returncode:
        raise RuntimeError(f"{rows:,} rows failed: {done.stderr.strip()[-500:]}")
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _main(rows: int, folder: Path) -> None:
    import moulin

    lake = moulin.connect(folder / "lake", merge_local_bytes=1, **_SETTINGS)
    lake.create_database("bench")
    _steps(lake, folder / "warm", _WARM_ROWS, "bench.warm")
    found = _steps(lake, folder / "grown", rows, "bench.grown")
    lake.close()
    print(json.dumps(found), flush=True)


def _steps(lake: Any, folder: Path, rows: int, name: str) -> dict[str, dict[str, float]]:
    spark = lake.spark()
    files = events.write(folder, rows, files=-(-rows // _FILE_ROWS))
    ids = np.random.default_rng(3).choice(2 * rows, rows // _UPSERTED, replace=False)
    upserted = folder.with_name(f"{folder.name}-upserted.parquet")
    pq.write_table(events.make(len(ids), seed=9).set_column(0, "id", pa.array(ids)), upserted)
    schema = pa.schema([field.with_nullable(field.name != "id") for field in events.SCHEMA])
    table = lake.create_table(name, schema, primary_key=["id"])
    steps: dict[str, Callable[[], object]] = {
        "load": lambda: table.append(spark.read.parquet(str(files))),
        "upsert": lambda: table.append(spark.read.parquet(str(upserted))),
        "aggregate": lambda: lake.sql(f"select region, count(*), sum(amount) from {name} group by region").collect(),
        "compact": lambda: table.compact(everything=True),
    }
    found: dict[str, dict[str, float]] = {}
    for step, run_step in steps.items():
        with Watch() as watch:
            start = time.perf_counter()
            run_step()
            taken = time.perf_counter() - start
        found[step] = {"seconds": taken, **watch.peaks}
    count = table.scan().count()
    if count != rows + int(np.count_nonzero(ids >= rows)):
        raise AssertionError(f"{count:,} rows are there after the upsert of {len(ids):,} into {rows:,}.")
    return found


if __name__ == "__main__":
    _main(int(sys.argv[1]), Path(sys.argv[2]))
