"""Tables that several benchmarks read: the same events fresh, and compacted."""

from __future__ import annotations

import pyarrow.parquet as pq

from benchmarks import events
from benchmarks.harness import Bench
from moulin.table.table import Table


def fresh_table(bench: Bench) -> Table:
    """Events as two bulk appends leave them: a sorted segment each."""
    table: Table = bench.shared("fresh", lambda: _appended(bench, "bench.fresh"))
    return table


def merged_table(bench: Bench) -> Table:
    """The same events after a compaction."""

    def make() -> Table:
        table = _appended(bench, "bench.merged")
        bench.step("compacting bench.merged")
        table.compact(everything=True)
        return table

    table: Table = bench.shared("merged", make)
    return table


def events_table(bench: Bench, name: str) -> Table:
    """An empty table for events."""
    return bench.lake().create_table(name, events.SCHEMA, event_time="ts")


def _appended(bench: Bench, name: str) -> Table:
    table = events_table(bench, name)
    bench.step(f"loading {name}")
    for file in sorted(bench.events().glob("*.parquet")):
        table.append(pq.read_table(file))
    return table
