"""The rows that benchmarks work on: events of a shop over thirty days, made with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("region", pa.string()),
        pa.field("user", pa.int64()),
        pa.field("amount", pa.float64()),
        pa.field("note", pa.string()),
    ]
)
USERS = 1_000_000
FIVE_PERCENT = f"user < {USERS // 20}"
"""A condition that a random twentieth of the rows meets."""

START = 1_704_067_200_000_000  # 2024-01-01 in microseconds
DAYS = 30
_DAY = 86_400_000_000
_REGIONS = pa.array(["eu-west", "eu-north", "us-east", "us-west", "ap-south", "ap-east", "sa-east", "af-south"])
_WORDS = pa.array(
    ["paid", "late", "gift", "return", "bulk", "promo", "first", "repeat", "mobile", "web", "store", "partner", "trial"]
)
_CHUNK = 1 << 20


def make(rows: int, *, seed: int = 1, first_id: int = 0) -> pa.Table:
    """`rows` events whose times are spread at random over all the days, in no order."""
    random = np.random.default_rng(seed)
    times = START + random.integers(0, DAYS * _DAY, rows)
    regions = _REGIONS.take(pa.array(_skewed(random, rows, len(_REGIONS))))
    return pa.table(
        [
            pa.array(np.arange(first_id, first_id + rows, dtype=np.int64)),
            pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            regions,
            pa.array(random.integers(0, USERS, rows)),
            pa.array(np.round(random.exponential(40.0, rows), 2)),
            _notes(random, rows),
        ],
        schema=SCHEMA,
    )


def _skewed(random: np.random.Generator, rows: int, kinds: int) -> np.ndarray:
    """Indexes of a list, the first ones more often."""
    return np.minimum(random.geometric(0.3, rows) - 1, kinds - 1)


def _notes(random: np.random.Generator, rows: int) -> pa.Array:
    """About twenty characters each: two words and a number of six digits."""
    words = [_WORDS.take(pa.array(random.integers(0, len(_WORDS), rows))) for _ in range(2)]
    numbers = pa.array(random.integers(100_000, 1_000_000, rows)).cast(pa.string())
    return pc.binary_join_element_wise(*words, numbers, " ")


def write(folder: Path, rows: int, files: int = 2) -> Path:
    """`rows` events as Parquet files of about equal size; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    share = -(-rows // files)
    for number in range(files):
        count = min(share, rows - number * share)
        if count > 0:
            table = make(count, seed=number + 1, first_id=number * share)
            pq.write_table(table, folder / f"part-{number}.parquet", compression="zstd", row_group_size=_CHUNK)
    return folder


def sorted_runs(rows: int, runs: int) -> Iterator[pa.Table]:
    """`rows` events as tables that are sorted by time, each over all the days."""
    share = -(-rows // runs)
    for number in range(runs):
        count = min(share, rows - number * share)
        if count > 0:
            yield make(count, seed=100 + number, first_id=number * share).sort_by("ts")
