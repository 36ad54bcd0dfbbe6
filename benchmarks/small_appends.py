"""Many small appends: inline and as files, beside Lance's appends and DuckLake's inlined inserts.

Every append is a commit that outlives the process. Moulin syncs its catalog (SQLite) at each; Lance writes files
without a sync; DuckLake commits to its catalog, a DuckDB file. Growth is the last tenth beside the first.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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

Append = Callable[[pa.Table], object]


def run(bench: Bench) -> Iterator[Line]:
    for count, rows in ((1000, 100), (1000, 10)):
        data = [_rows(number, rows) for number in range(count)]
        ours = {name: _times(bench, name, _moulin(bench, options), data) for name, options in _kinds().items()}
        case = f"{count:,} appends of {rows} rows"
        for peer, make, target in (("Lance", _lance, 0.5), ("DuckLake", _ducklake, 0.5)):
            try:
                theirs = _total(_times(bench, peer, make(bench), data))
            except Skipped as reason:
                yield Line(NAME, f"{case} / {peer}", reason=str(reason), target=target)
                continue
            for name, times in ours.items():
                yield Line(NAME, f"{case}, {name}", _total(times), theirs, peer, target if name == "inline" else None)
    yield from _growth(bench)


def _kinds() -> dict[str, dict[str, int]]:
    return {"inline": _INLINE, "as files": {}}


def _growth(bench: Bench) -> Iterator[Line]:
    count = min(30_000, max(1000, bench.rows // 300))
    times = _times(bench, "growth", _moulin(bench, _INLINE), [_rows(number, 10) for number in range(count)])
    tenth = count // 10
    first, last = Sample((sum(times[:tenth]),)), Sample((sum(times[-tenth:]),))
    yield Line(NAME, f"the last tenth of {count:,} inline appends of 10 rows", last, first, "the first tenth", 1.2)


def _times(bench: Bench, name: str, contender: AbstractContextManager[Append], data: Sequence[pa.Table]) -> list[float]:
    bench.step(f"{len(data):,} appends: {name}")
    times = []
    with contender as append:
        append(data[0])
        for rows in data[1:]:
            began = time.perf_counter()
            append(rows)
            times.append(time.perf_counter() - began)
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
def _moulin(bench: Bench, options: dict[str, int]) -> Iterator[Append]:
    with moulin.connect(_folder(bench) / "lake", **options) as lake:
        lake.create_database("shop")
        yield lake.create_table("shop.events", _SCHEMA, event_time="ts").append


@contextmanager
def _lance(bench: Bench) -> Iterator[Append]:
    try:
        import lance
    except ImportError as error:
        raise Skipped("pylance is not installed") from error
    path = str(_folder(bench) / "events.lance")
    mode = iter(["create"])
    yield lambda rows: lance.write_dataset(rows, path, mode=next(mode, "append"))


@contextmanager
def _ducklake(bench: Bench) -> Iterator[Append]:
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

    yield append
    connection.close()
