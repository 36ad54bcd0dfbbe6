"""Look-ups by key: of rows in memory against RocksDB, cold against one row group, many at once against Lance."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import moulin
from benchmarks.harness import Bench, Contender, Line, Skipped
from benchmarks.puts import _batch as make_batch
from moulin import Lake
from moulin.table.read.footers import forget_footers
from moulin.table.table import Table

TITLE = "get and get_many / RocksDB, pyarrow, Lance"
_CACHED = 20_000
_COLD = 20
_MANY = 1_000
_ROWS = 1_000_000


def run(bench: Bench) -> Iterator[Line]:
    lake, table, rows = _loaded(bench)
    chosen = random.Random(1)
    cached = [chosen.randrange(rows) for _ in range(_CACHED)]
    table.get_many(cached)
    try:
        yield bench.compare(
            "gets",
            f"{_CACHED:,} gets of cached rows",
            lambda: [table.get(key) for key in cached],
            {"RocksDB (rocksdict)": _rocksdict(bench, table, cached)},
            target=2.0,
        )
    except Skipped as skipped:
        yield Line("gets", "gets of cached rows", reason=str(skipped))
    yield _cold(bench, lake, table, [chosen.randrange(rows) for _ in range(_COLD)])
    many = chosen.sample(range(rows), min(_MANY, rows))
    try:
        for first in (True, False):
            forget = (lambda: _forget_all(lake, table)) if first else (lambda: _forget_rows(table))
            yield bench.compare(
                "gets",
                f"get_many of {len(many):,} in {rows:,} rows, {'first' if first else 'warm'}",
                Contender(lambda: table.get_many(many), forget),
                {"Lance, scalar index": _lance(bench, table, many, first=first)},
                target=0.8,
            )
    except Skipped as skipped:
        yield Line("gets", "get_many", reason=str(skipped))


def _loaded(bench: Bench) -> tuple[Lake, Table, int]:
    rows = max(1000, min(_ROWS, bench.rows))

    def make() -> Lake:
        bench.step(f"loading {rows:,} rows by key")
        lake = moulin.connect(bench.folder / "gets")
        lake.create_database("bench")
        table = lake.create_table("bench.rows", make_batch(0, 1).schema, primary_key=["id"])
        table.append(pa.Table.from_batches([make_batch(0, rows)]))
        table.compact(everything=True)
        return lake

    lake: Lake = bench.shared("gets lake", make)
    table = lake.table("bench.rows")
    table.put(make_batch(rows, 1).to_pylist()[0])  # so that this process owns the table, as that of RocksDB does
    return lake, table, rows


def _forget_rows(table: Table) -> None:
    """Rows are looked up anew; key indexes and row groups stay in memory, as an index and its pages do elsewhere."""
    table._keyed_only()._lookup.forget_rows()


def _forget_all(lake: Lake, table: Table) -> None:
    """What a process knows that has just opened the table: which segments there are."""
    lake.context.indexes.clear()
    table._keyed_only()._lookup.clear()
    forget_footers()


def _cold(bench: Bench, lake: Lake, table: Table, keys: list[int]) -> Line:
    """Nothing in memory but which segments there are. The peer knows the file and the row group, and reads that."""
    segments = lake.catalog.segments(table.id, lake.version, with_columns=False)
    found: list[tuple[str, int]] = []
    for segment in segments:
        path = str(lake.store.local_path(segment.facts.path))
        found += [(path, group) for group in range(pq.ParquetFile(path).metadata.num_row_groups)]
    chosen = [found[key % len(found)] for key in keys]

    def ours() -> None:
        for key in keys:
            _forget_all(lake, table)
            table.get(key)

    def peer() -> None:
        for path, group in chosen:
            pq.ParquetFile(path, page_checksum_verification=True).read_row_group(group)

    return bench.compare("gets", f"{len(keys)} cold gets", ours, {"pyarrow, one row group": peer}, target=1.2)


def _rocksdict(bench: Bench, table: Table, keys: list[int]) -> Contender:
    try:
        from rocksdict import Rdict
    except ImportError as error:
        raise Skipped("rocksdict is not installed") from error

    def make() -> Any:
        database = Rdict(str(bench.folder / "gets.rocks"))
        for row in table.scan().to_pylist():
            database[row["id"]] = row
        return database

    database = bench.shared("gets rocksdict", make)
    return Contender(lambda: [database[key] for key in keys])


def _lance(bench: Bench, table: Table, keys: list[int], *, first: bool) -> Contender:
    """With `first`, the table is opened before each run, as a process that has just begun opens it."""
    try:
        import lance
    except ImportError as error:
        raise Skipped("pylance is not installed") from error

    def make() -> Any:
        rows = table.scan().to_arrow().replace_schema_metadata(None)
        dataset = lance.write_dataset(rows, str(bench.folder / "gets.lance"))
        dataset.create_scalar_index("id", "BTREE")
        return lance.dataset(str(bench.folder / "gets.lance"))

    opened = [bench.shared("gets lance", make)]
    condition = f"id in ({', '.join(map(str, keys))})"

    def prepare() -> None:
        if first:
            opened[0] = lance.dataset(str(bench.folder / "gets.lance"))

    return Contender(lambda: opened[0].to_table(filter=condition).to_pylist(), prepare)
