"""Many small appends, and the scan of what they left: inline and as files, beside Lance and DuckLake's inlining.

Every append is a commit that outlives the process. Moulin syncs its catalog (SQLite) at each; Lance writes files
without a sync; DuckLake commits to its catalog, a DuckDB file, which it syncs. A bare commit of SQLite with a sync and
as many bytes is the least that an append can take. Growth is the last tenth beside the first.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import moulin
from benchmarks.harness import Bench, Line, Sample, Skipped

TITLE = "Small appends / Lance, DuckLake"
NAME = "small_appends"
_INLINE = {"inline_bytes": 1 << 16}
_SCHEMA = [("id", "long"), ("ts", "timestamptz"), ("name", "string"), ("amount", "double")]
_EXTENSIONS = ("ducklake",)

Contender = tuple[Callable[[pa.Table], object], Callable[[], pa.Table]]
"""How it appends, and how it reads all rows."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each append, of the first scan after them, and of the fastest of those that follow."""

    appends: list[float]
    first: float
    warm: float

    @property
    def total(self) -> Sample:
        return Sample((sum(self.appends),))


def run(bench: Bench) -> Iterator[Line]:
    for count, rows in ((1000, 100), (1000, 10)):
        data = [_rows(number, rows) for number in range(count)]
        ours = {name: _times(bench, name, _moulin(bench, options), data) for name, options in _kinds().items()}
        case = f"{count:,} appends of {rows} rows"
        bare = _total(_bare(bench, count))
        yield Line(NAME, f"{case}, inline", ours["inline"].total, bare, "bare synced commits")
        for peer, make in (("Lance", _lance), ("DuckLake", _ducklake)):
            try:
                theirs = _times(bench, peer, make(bench), data)
            except Skipped as reason:
                yield Line(NAME, f"{case} / {peer}", reason=str(reason), target=0.5)
                continue
            for name, times in ours.items():
                target = 0.5 if name == "inline" else None
                yield Line(NAME, f"{case}, {name}", times.total, theirs.total, peer, target)
                yield _scan_line(f"first scan after {case}, {name}", times.first, theirs.first, peer)
                yield _scan_line(f"warm scan after {case}, {name}", times.warm, theirs.warm, peer)
    yield from _growth(bench)


def _kinds() -> dict[str, dict[str, int]]:
    return {"inline": _INLINE, "as files": {"inline_bytes": 0}}


def _scan_line(case: str, ours: float, theirs: float, peer: str) -> Line:
    return Line(NAME, case, Sample((ours,)), Sample((theirs,)), peer, 1.0)


def _growth(bench: Bench) -> Iterator[Line]:
    count = min(30_000, max(1000, bench.rows // 150))
    data = [_rows(number, 10) for number in range(count)]
    times = _times(bench, "growth", _moulin(bench, _INLINE), data).appends
    tenth = count // 10
    first, last = _total(times[:tenth]), _total(times[-tenth:])
    yield Line(NAME, f"the last tenth of {count:,} inline appends of 10 rows", last, first, "the first tenth", 1.2)
    try:
        few = _times(bench, "DuckLake", _ducklake(bench), data[:tenth]).appends
    except Skipped as reason:
        yield Line(NAME, f"{count:,} appends of 10 rows / DuckLake", reason=str(reason), target=0.5)
        return
    per_append = Sample((sum(few) / len(few),))
    mean = Sample((sum(times) / len(times),))
    yield Line(
        NAME, f"one of {count:,} inline appends of 10 rows", mean, per_append, f"DuckLake's first {tenth:,}", 0.5
    )


def _times(bench: Bench, name: str, contender: AbstractContextManager[Contender], data: Sequence[pa.Table]) -> Times:
    bench.step(f"{len(data):,} appends: {name}")
    with contender as (append, scan):
        append(data[0])
        appends = [_seconds(partial(append, rows)) for rows in data[1:]]
        first = _seconds(scan)
        warm = min(_seconds(scan) for _ in range(5))
        assert scan().num_rows == sum(rows.num_rows for rows in data)
    return Times(appends, first, warm)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _bare(bench: Bench, count: int) -> list[float]:
    """Commits of one row of 4 KiB each, in a SQLite file as a catalog is."""
    connection = sqlite3.connect(_folder(bench) / "bare.db", isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE t (a INTEGER, b BLOB)"):
        connection.execute(statement)

    def commit() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (1, ?)", (bytes(4096),))
        connection.execute("COMMIT")

    times = [_seconds(commit) for _ in range(count)]
    connection.close()
    return times


def _total(times: Sequence[float]) -> Sample:
    return Sample((sum(times),))


def _rows(number: int, rows: int) -> pa.Table:
    numbers = np.arange(number * rows, (number + 1) * rows)
    stamps = pa.array(numbers * 1_000_000 + 1_700_000_000_000_000).cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": numbers, "ts": stamps, "name": pa.array(numbers).cast(pa.string()), "amount": numbers / 3})


def _folder(bench: Bench) -> Path:
    folder = bench.folder / "small_appends"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@contextmanager
def _moulin(bench: Bench, options: dict[str, int]) -> Iterator[Contender]:
    with moulin.connect(_folder(bench) / "lake", **options) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.events", _SCHEMA, event_time="ts")
        yield table.append, lambda: table.scan().to_arrow()


@contextmanager
def _lance(bench: Bench) -> Iterator[Contender]:
    try:
        import lance
    except ImportError as error:
        raise Skipped("pylance is not installed") from error
    path = str(_folder(bench) / "events.lance")
    mode = iter(["create"])
    yield (
        lambda rows: lance.write_dataset(rows, path, mode=next(mode, "append")),
        lambda: lance.dataset(path).to_table(),
    )


@contextmanager
def _ducklake(bench: Bench) -> Iterator[Contender]:
    import duckdb

    connection: Any = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in _EXTENSIONS:
        spec = find_spec(f"duckdb_extension_{name}")
        if spec is None or spec.origin is None:
            raise Skipped(f"duckdb-extension-{name.replace('_', '-')} is not installed")
        (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    folder = _folder(bench)
    connection.execute(
        f"ATTACH 'ducklake:{folder / 'meta.ducklake'}' AS lake (DATA_PATH '{folder}', DATA_INLINING_ROW_LIMIT 1000)"
    )
    connection.execute("CREATE TABLE lake.events (id BIGINT, ts TIMESTAMPTZ, name VARCHAR, amount DOUBLE)")

    def append(rows: pa.Table) -> None:
        connection.register("rows_to_append", rows)
        connection.execute("INSERT INTO lake.events SELECT * FROM rows_to_append")

    yield append, lambda: connection.execute("SELECT * FROM lake.events").to_arrow_table()
    connection.close()
