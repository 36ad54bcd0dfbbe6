"""A large keyed table under steady upserts: does memory stay flat and level 0 bounded, and how long does a put wait?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import moulin
from benchmarks.harness import Bench, Line, Sample
from benchmarks.puts import _batch as make_batch
from moulin import Lake
from moulin.table.table import Table

TITLE = "steady upserts into a large table"
_BATCH = 1_000
_RATE = 20_000  # rows a second
_SECONDS = 300
_LONG_ROWS = 10_000_000  # a smaller table is watched for less long


def run(bench: Bench) -> Iterator[Line]:
    rows = bench.rows * 2
    seconds = max(10, _SECONDS * min(rows, _LONG_ROWS) // _LONG_ROWS)
    table = _loaded(bench, rows)
    seen = _upsert(bench, table, rows, seconds)
    quarter = len(seen.memory) // 4
    case = f"{seen.written:,} upserts into {rows:,} rows in {seconds} s"
    early, late = (Sample(tuple(part)) for part in (seen.memory[quarter : 2 * quarter], seen.memory[-quarter:]))
    yield Line("steady", f"{case}: memory at the end", late, early, "in the second quarter", 1.2, unit="MiB")
    yield Line("steady", f"{case}: most level-0 segments", Sample((max(seen.level0),)), target=64, unit="segments")
    yield Line("steady", f"{case}: longest wait of a put_batch", Sample((max(seen.waits),)), target=1.0)


class _Seen:
    """What was noted once a second, and how long each batch took."""

    def __init__(self) -> None:
        self.memory: list[float] = []
        self.level0: list[int] = []
        self.waits: list[float] = []
        self.written = 0


def _loaded(bench: Bench, rows: int) -> Table:
    lake: Lake = bench.shared("steady lake", lambda: moulin.connect(bench.folder / "steady", log_sync="interval"))
    lake.create_database("bench")
    table = lake.create_table("bench.rows", make_batch(0, 1).schema, primary_key=["id"])
    step = 1_000_000
    for start in range(0, rows, step):
        bench.step(f"loading {rows:,} rows by key: {start:,}")
        batch = make_batch(0, min(step, rows - start))
        ids = pa.array(np.arange(start, start + batch.num_rows))
        table.append(pa.Table.from_batches([batch]).set_column(0, batch.schema.field(0), ids))
    table.compact(everything=True)
    return table


def _upsert(bench: Bench, table: Table, rows: int, seconds: int) -> _Seen:
    random = np.random.default_rng(7)
    seen, begun, noted = _Seen(), time.monotonic(), 0.0
    while (now := time.monotonic() - begun) < seconds:
        if now - noted >= 1:
            noted = now
            seen.memory.append(_resident())
            seen.level0.append(_level0(table))
            bench.step(f"upserting: {now:.0f} of {seconds} s, {seen.written:,} rows, {seen.memory[-1]:,.0f} MiB")
        batch = make_batch(0, _BATCH)
        ids = pa.array(random.integers(0, rows, _BATCH))
        start = time.monotonic()
        table.put_batch(batch.set_column(0, batch.schema.field(0), ids))
        seen.waits.append(time.monotonic() - start)
        seen.written += _BATCH
        ahead = seen.written / _RATE - (time.monotonic() - begun)
        if ahead > 0:
            time.sleep(ahead)
    return seen


def _level0(table: Table) -> int:
    return sum(segment.facts.level == 0 for segment in table._keyed_only()._view.segments)


def _resident() -> float:
    """Memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
