"""Adoption of many small files, beside reading their footers and the statistics in them with pyarrow, in as many
threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Bench, Contender, Line, take_turns
from moulin import Lake, connect

TITLE = "adoption of Parquet files"
TARGET = 1.3
_THREADS = 16
_ROWS = 100
_START = 1_700_000_000_000_000
_COLUMNS = [("id", "long"), ("ts", "timestamptz"), ("name", "string"), ("a", "double"), ("b", "double"), ("n", "int")]


def run(bench: Bench) -> Iterator[Line]:
    files = max(100, min(10_000, bench.segments // 100))
    folder = bench.folder / "adopt"
    names = write_files(folder / "files", files)
    lake = connect(folder / "lake")
    lake.create_database("bench")
    numbers = count()
    bench.step(f"{files:,} files")
    contenders = {
        "moulin": Contender(lambda: adopt(lake, folder / "files", next(numbers), files)),
        "footers": Contender(lambda: read_footers(names)),
    }
    samples = take_turns(contenders, min(5, bench.runs), warm_up=1)
    yield Line("adopt", f"{files:,} files", samples["moulin"], samples["footers"], "reading footers", TARGET)
    lake.close()


def write_files(folder: Path, files: int) -> list[str]:
    """Small files of different rows in a hundred folders that name a day."""
    chosen, names = np.random.default_rng(1), []
    for number in range(files):
        ids = np.arange(number * _ROWS, (number + 1) * _ROWS)
        table = pa.table(
            {
                "id": ids,
                "ts": pa.array(_START + 1000 * ids + chosen.integers(0, 1000, _ROWS), pa.timestamp("us", "UTC")),
                "name": [f"name {n}" for n in chosen.integers(0, 10**6, _ROWS)],
                "a": chosen.normal(size=_ROWS),
                "b": np.round(chosen.random(_ROWS), 2),
                "n": pa.array(chosen.integers(0, 10**9, _ROWS), pa.int32()),
            }
        )
        place = folder / f"part={number % 100}"
        place.mkdir(parents=True, exist_ok=True)
        names.append(str(place / f"{number}.parquet"))
        pq.write_table(table, names[-1])
    return names


def adopt(lake: Lake, folder: Path, number: int, files: int) -> None:
    table = lake.create_table(f"bench.adopted{number}", [*_COLUMNS, ("part", "long")], event_time="ts")
    assert table.adopt(folder).files == files


def read_footers(names: list[str]) -> None:
    with ThreadPoolExecutor(_THREADS) as pool:
        found = sum(pool.map(_facts, names))
    assert found == len(names) * _ROWS


def _facts(name: str) -> int:
    """The rows of a file; reads what a catalog keeps of each column."""
    metadata: Any = pq.read_metadata(name)
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for column in range(metadata.num_columns):
            chunk = row_group.column(column)
            statistics = chunk.statistics
            _ = (statistics.min_raw, statistics.max_raw, statistics.null_count, chunk.total_compressed_size)
    return int(metadata.num_rows)
