"""Scans that want few rows: a limit, one value, an hour, a pattern, small segments, and scans beside busy threads.

DuckDB and polars read the very same files, with as many threads. "First" runs open the lake, or the connection, anew,
so nothing is remembered of the files but what the page cache of the system holds; the others are warm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import moulin
from benchmarks import events
from benchmarks.harness import Bench, Contender, Line, Skipped
from moulin import Lake
from moulin.table.read import units
from moulin.table.read.footers import forget_footers
from moulin.table.table import Table

TITLE = "table.scan(where) / DuckDB, polars, Lance"
_SMALL_SEGMENTS = 1_000
_SMALL_ROWS = 100
_BUSY_ROWS = 100_000

_HOUR = ("2024-01-10 10:00:00+00:00", "2024-01-10 11:00:00+00:00")


def run(bench: Bench) -> Iterator[Line]:
    _loaded(bench)
    wanted = bench.rows // 2 + 7
    cases: list[tuple[str, str, int | None, float]] = [
        ("limit 10 where amount > 100", "amount > 100", 10, 2.0),
        ("limit 10", "", 10, 2.0),
        ('"user" = x', '"user" = 4711', None, 1.3),
        ("id = x", f"id = {wanted}", None, 1.3),
        ("one hour", f"ts >= timestamp '{_HOUR[0]}' and ts < timestamp '{_HOUR[1]}'", None, 1.3),
        ("like", "note like '%gift 12345%'", None, 1.2),
        ("two terms", "region = 'eu-west' and amount > 300", None, 1.2),
    ]
    for name in ("appended", "compacted"):
        for case, where, limit, target in cases:
            yield _compare(bench, name, case, where, limit, target)
    for case, where, limit, target in cases:
        yield _compare(bench, "appended", case, where, limit, target, first=True)
    yield _small(bench)
    yield from _beside_gets(bench)


def _loaded(bench: Bench) -> Lake:
    def make() -> Lake:
        folder = bench.folder / "filtered"
        lake = moulin.connect(folder)
        lake.create_database("bench")
        for name in ("appended", "compacted"):
            bench.step(f"loading {name}")
            table = lake.create_table(f"bench.{name}", events.SCHEMA, event_time="ts")
            for file in sorted(bench.events().glob("*.parquet")):
                table.append(pq.read_table(file))
        bench.step("compacting")
        table.compact(everything=True)
        return lake

    lake: Lake = bench.shared("filtered lake", make)
    return lake


def _files(lake: Lake, name: str) -> list[str]:
    table = lake.table(name)
    segments = lake.catalog.segments(table.id, table.state().version, with_columns=False)
    return [str(lake.store.local_path(segment.facts.path)) for segment in segments]


def _compare(
    bench: Bench, name: str, case: str, where: str, limit: int | None, target: float, *, first: bool = False
) -> Line:
    lake = _loaded(bench)
    files = _files(lake, f"bench.{name}")
    named = f"{name}: {case}{', first' if first else ''}"
    if first:
        opened: list[Lake] = []

        def renew() -> None:
            while opened:
                opened.pop().close()
            forget_footers()
            opened.append(moulin.connect(bench.folder / "filtered"))

        ours = Contender(lambda: _scan(opened[0].table(f"bench.{name}"), where, limit), renew)
    else:
        table = lake.table(f"bench.{name}")
        ours = Contender(lambda: _scan(table, where, limit))
    peers = {**_duckdb(files, where, limit, first=first), **_polars(files, where, limit)}
    return bench.compare("filtered_scan", named, ours, peers, target=target)


def _scan(table: Table, where: str, limit: int | None) -> pa.Table:
    return table.scan(where=where or None, limit=limit).to_arrow()


def _duckdb(files: list[str], where: str, limit: int | None, *, first: bool) -> Mapping[str, Contender]:
    import duckdb

    listed = ", ".join(f"'{file}'" for file in files)
    names = ", ".join(f'"{name}"' for name in events.SCHEMA.names)
    text = f"select {names} from read_parquet([{listed}], hive_partitioning=false)"
    text += f" where {where.replace('timestamp ', 'timestamptz ')}" if where else ""
    text += f" limit {limit}" if limit is not None else ""
    held: list[Any] = [duckdb.connect()]

    def renew() -> None:
        held.pop().close()
        held.append(duckdb.connect())

    return {"DuckDB": Contender(lambda: held[0].execute(text).to_arrow_table(), renew if first else None)}


def _polars(files: list[str], where: str, limit: int | None) -> Mapping[str, Contender]:
    import polars as pl

    scanned = pl.scan_parquet(files, hive_partitioning=False).select(events.SCHEMA.names)
    column = pl.col
    conditions: dict[str, Callable[[], Any]] = {
        "amount": lambda: column("amount") > 100,
        '"user"': lambda: column("user") == 4711,
        "id": lambda: column("id") == int(where.rpartition(" ")[2]),
        "ts": lambda: column("ts").is_between(
            *(pl.lit(end).str.to_datetime("%Y-%m-%d %H:%M:%S%:z") for end in _HOUR), closed="left"
        ),
        "note": lambda: column("note").str.contains("gift 12345", literal=True),
        "region": lambda: (column("region") == "eu-west") & (column("amount") > 300),
    }
    wanted = scanned.filter(conditions[where.split()[0]]()) if where else scanned
    wanted = wanted if limit is None else wanted.head(limit)
    return {"polars": Contender(wanted.collect)}


def _small(bench: Bench) -> Line:
    """A table of many small segments, all of its rows."""
    try:
        import lance
    except ImportError as error:
        raise Skipped("pylance is not installed") from error
    lake = _loaded(bench)
    table = lake.create_table("bench.small", events.SCHEMA, event_time="ts")
    path = str(bench.folder / "small.lance")
    rows = events.make(_SMALL_SEGMENTS * _SMALL_ROWS).combine_chunks()
    for number in range(_SMALL_SEGMENTS):
        if number % 100 == 0:
            bench.step(f"small segment {number} of {_SMALL_SEGMENTS}")
        part = rows.slice(number * _SMALL_ROWS, _SMALL_ROWS)
        table.append(part)
        lance.write_dataset(part, path, mode="append" if number else "create")
    dataset = lance.dataset(path)
    return bench.compare(
        "filtered_scan",
        f"all of {_SMALL_SEGMENTS:,} segments of {_SMALL_ROWS} rows",
        lambda: table.scan().to_arrow(),
        {"Lance": dataset.to_table, **_duckdb(_files(lake, "bench.small"), "", None, first=False)},
        target=1.0,
    )


def _beside_gets(bench: Bench) -> Iterator[Line]:
    """A scan while another thread gets rows from memory all the time, against the same scan alone.

    On two cores, a scan of two threads has at best two thirds of its time beside a busy third one.
    """
    lake = _loaded(bench)
    keyed = lake.create_table("bench.keyed", events.make(1).schema, primary_key=["id"])
    keyed.put_batch(events.make(_BUSY_ROWS))
    keyed.get_many(range(1000))
    table = lake.table("bench.appended")
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            for key in range(1000):
                keyed.get(key)

    threads: list[threading.Thread] = []

    def begin() -> None:
        stop.clear()
        threads.append(threading.Thread(target=busy))
        threads[-1].start()

    def end() -> None:
        stop.set()
        while threads:
            threads.pop().join()

    def compare(case: str, target: float | None) -> Line:
        def scan() -> pa.Table:
            return table.scan(where='"user" < 1000').to_arrow()

        contenders = Contender(scan, begin), {"alone": Contender(scan, end)}
        try:
            return bench.compare(
                "filtered_scan", f"{case} beside a busy get thread / alone", *contenders, target=target
            )
        finally:
            end()

    with _one_thread():
        yield compare("a one-thread scan", 1.5)
    yield compare("a scan of all threads", None)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Scans decode in one thread."""
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    units._pools[:] = [ThreadPoolExecutor(1)]
    try:
        yield
    finally:
        pa.set_cpu_count(threads)
        units._pools.pop().shutdown()
