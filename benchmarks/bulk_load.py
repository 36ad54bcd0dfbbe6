"""Bulk loads from Python: bytes of a keyed table beside the same rows without a key; appends beside pq.write_table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import events, lakes
from benchmarks.harness import Bench, Contender, Line, Sample
from benchmarks.peer_process import folder_size

TITLE = "bulk loads / unkeyed, pq.write_table"
NAME = "bulk_load"
BYTES, SORTED = 1.3, 1.1
_KEYED = pa.schema([field.with_nullable(field.name != "id") for field in events.SCHEMA])


def run(bench: Bench) -> Iterator[Line]:
    rows = events.make(bench.rows)
    random = np.random.default_rng(5).integers(0, 2**62, bench.rows)
    yield _bytes(bench, "ids one after the other", "serial", rows)
    yield _bytes(bench, "random ids of 62 bits", "random", rows.set_column(0, "id", pa.array(random)))
    yield _append(bench, "rows sorted by time", "sorted", rows.sort_by("ts"), SORTED)
    yield _append(bench, "rows in no order", "unsorted", rows, None)


def _bytes(bench: Bench, case: str, name: str, rows: pa.Table) -> Line:
    bench.step(f"loading {case}")
    keyed = bench.lake().create_table(f"bench.keyed_{name}", _KEYED, primary_key=["id"])
    unkeyed = lakes.events_table(bench, f"bench.unkeyed_{name}")
    for table in (keyed, unkeyed):
        table.append(rows)
    ours, peer = (Sample((_size(bench, table) / 2**20,)) for table in (keyed, unkeyed))
    for table in (keyed, unkeyed):
        bench.lake().drop_table(table.name)
    return Line(NAME, f"bytes of a keyed table with its key index, {case}", ours, peer, "unkeyed", BYTES, unit="MiB")


def _size(bench: Bench, table: Any) -> int:
    path = bench.lake().store.local_path(f"tables/{table.id}/data")
    assert path is not None
    return folder_size(path)


def _append(bench: Bench, case: str, name: str, rows: pa.Table, target: float | None) -> Line:
    """Ours is synced and committed; the peer writes one file, which is not synced, with the faster of two codecs."""
    table = lakes.events_table(bench, f"bench.appended_{name}")
    empty, file = table.version, bench.folder / f"{name}.parquet"
    return bench.compare(
        NAME,
        f"append of {case}",
        Contender(lambda: table.append(rows), lambda: table.restore(empty)),
        {f"pq.write_table, {codec}": lambda codec=codec: pq.write_table(rows, file, compression=codec)
         for codec in ("snappy", "zstd")},
        target=target,
    )  # fmt: skip
