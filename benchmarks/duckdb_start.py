"""DuckDB over a lake: a new process until its first answer, and queries, beside DuckDB over the same files.

The lake is small: five tables, one of them with deleted rows. The queries run on a table of many small segments, which
DuckDB prunes by the statistics of every file, and on tables that have a segment for each hour, of which the catalog
finds the one that is asked for.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Bench, Line, Sample, Skipped

TITLE = "DuckDB over a lake / over the same files"
_AIM = 0.5  # seconds from the call of lake.duckdb() to the first answer
_RUNS = 5
_TABLES, _ROWS, _SEGMENTS = 5, 10_000, 200
_FEW_HOURS, _MANY_HOURS = 300, 3_000
_ONE_HOUR = "SELECT sum(id) FROM shop.hours_{} WHERE ts >= '1970-01-02 05:00' AND ts < '1970-01-02 06:00'"
_OURS = """
import sys, moulin
lake = moulin.connect(sys.argv[1])
import time
began = time.perf_counter()
found = lake.duckdb().execute("SELECT count(*), sum(amount) FROM shop.t1").fetchall()
print(time.perf_counter() - began)
"""
_PLAIN = """
import sys, time
began = time.perf_counter()
import duckdb
found = duckdb.connect().execute(f"SELECT count(*), sum(amount) FROM read_parquet({sys.argv[1:]!r})").fetchall()
print(time.perf_counter() - began)
"""


def run(bench: Bench) -> Iterator[Line]:
    try:
        import duckdb
    except ImportError as error:
        raise Skipped("duckdb is not installed") from error
    import moulin

    with moulin.connect(bench.folder / "duckdb_start") as lake:
        bench.step("making a lake for DuckDB")
        files = _make(lake)
        ours, plain = [], []
        for turn in range(_RUNS + 1):
            bench.step(f"starting DuckDB: turn {turn} of {_RUNS}")
            started = _seconds(_OURS, str(bench.folder / "duckdb_start")), _seconds(_PLAIN, *files["t1"])
            if turn:
                ours.append(started[0])
                plain.append(started[1])
        samples = Sample(tuple(ours)), Sample(tuple(plain))
        yield Line("duckdb_start", "lake.duckdb() to its first answer", samples[0], target=_AIM)
        yield Line("duckdb_start", "lake.duckdb() to its first answer", *samples, "import duckdb to its first answer")
        connection, other = lake.duckdb(), duckdb.connect()
        other.execute("SET parquet_metadata_cache = true")
        every = f"read_parquet({files['many']!r}, hive_partitioning = false)"
        for case, query in {
            f"sum over {_SEGMENTS} segments": "SELECT sum(amount) FROM {}",
            f"one row of {_SEGMENTS} segments": "SELECT * FROM {} WHERE id = 777",
        }.items():
            yield bench.compare(
                "duckdb_start",
                case,
                lambda query=query: connection.execute(query.format("shop.many")).fetchall(),
                {"read_parquet": lambda query=query: other.execute(query.format(every)).fetchall()},
            )
        few, many = _ONE_HOUR.format(_FEW_HOURS), _ONE_HOUR.format(_MANY_HOURS)
        yield bench.compare(
            "duckdb_start",
            f"one hour of {_MANY_HOURS:,} segments",
            lambda: connection.execute(many).fetchall(),
            {f"of {_FEW_HOURS}": lambda: connection.execute(few).fetchall()},
        )


def _make(lake: Any) -> dict[str, list[str]]:
    lake.create_database("shop")
    columns = [("id", "long"), ("name", "string"), ("amount", "double")]
    for number in range(_TABLES):
        lake.create_table(f"shop.t{number}", columns).append(_rows(0, _ROWS))
    lake.table("shop.t2").delete_where("id < 100")
    many = lake.create_table("shop.many", columns)
    for number in range(_SEGMENTS):
        many.append(_rows(number * 100, 100))
    for hours in (_FEW_HOURS, _MANY_HOURS):
        options = {"event_time": "ts", "partition_by": ["hour(ts)"]}
        lake.create_table(f"shop.hours_{hours}", [("ts", "timestamp"), ("id", "long")], **options).append(_times(hours))
    return {name: _files(lake, f"shop.{name}") for name in ("t1", "many")}


def _times(hours: int) -> Any:
    """Ten rows in each hour."""
    import numpy as np
    import pyarrow as pa

    numbers = np.arange(hours * 10)
    moments = (numbers // 10 * 3_600_000_000).astype("datetime64[us]")
    return pa.table({"ts": moments, "id": numbers})


def _rows(start: int, count: int) -> Any:
    import numpy as np
    import pyarrow as pa

    numbers = np.arange(start, start + count)
    return pa.table({"id": numbers, "name": pa.array(numbers).cast(pa.string()), "amount": numbers / 3})


def _files(lake: Any, name: str) -> list[str]:
    table = lake.table(name)
    found = lake.catalog.segments(table.id, table.version, with_columns=False)
    return [str(Path(lake.store.local_path(segment.facts.path))) for segment in found]


def _seconds(program: str, *words: str) -> float:
    done = subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True, text=True)
    return float(done.stdout)
