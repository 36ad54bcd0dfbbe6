"""All rows of a keyed table in the order of the key, and pyarrow reading the same files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

import moulin
from benchmarks.harness import Bench, Line
from benchmarks.puts import _batch as make_batch
from moulin import Lake

TITLE = "key-ordered scan / pyarrow"


def run(bench: Bench) -> Iterator[Line]:
    def make() -> Lake:
        bench.step(f"loading {bench.rows:,} rows by key")
        lake = moulin.connect(bench.folder / "key_scan")
        lake.create_database("bench")
        table = lake.create_table("bench.rows", make_batch(0, 1).schema, primary_key=["id"])
        table.append(pa.Table.from_batches([make_batch(0, bench.rows)]))
        table.compact(everything=True)
        return lake

    lake: Lake = bench.shared("key_scan lake", make)
    table = lake.table("bench.rows")
    segments = lake.catalog.segments(table.id, lake.version, with_columns=False)
    files = [str(lake.store.local_path(segment.facts.path)) for segment in segments]
    names = table.schema.names
    yield bench.compare(
        "key_scan",
        f"{bench.rows:,} rows in key order",
        lambda: table.scan(ordered=True).to_arrow(),
        {"pq.read_table": lambda: [pq.read_table(file, columns=names, partitioning=None) for file in files]},
        target=1.3,
    )
