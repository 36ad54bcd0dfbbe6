"""Rows into a keyed table: one by one against RocksDB, in lists and in Arrow batches against SQLite."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import moulin
from benchmarks.harness import Bench, Contender, Line, Skipped
from moulin import Lake
from moulin.table.table import Table

TITLE = "put and put_batch / RocksDB and SQLite"

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("quantity", pa.int32()),
        pa.field("paid", pa.bool_()),
    ]
)
_COLUMNS = "id integer primary key, name text, amount real, quantity integer, paid integer"
_INSERT = "insert or replace into rows values (?, ?, ?, ?, ?)"
_LIST = 1_000
_BATCH = 100_000


def run(bench: Bench) -> Iterator[Line]:
    rows = min(300_000, bench.rows // 10)
    singles = [_row(number) for number in range(rows)]
    yield _singles(bench, singles)
    lists = [singles[at : at + _LIST] for at in range(0, min(rows, 50 * _LIST), _LIST)]
    yield bench.compare(
        "puts",
        f"put_batch of {_LIST:,}-row lists, synced",
        _ours(bench, "lists", "always", lambda table: [table.put_batch(part) for part in lists]),
        {"SQLite, executemany": _sqlite(bench, "lists", [[tuple(row.values()) for row in part] for part in lists])},
        target=1.0,
    )
    batches = [_batch(at, min(_BATCH, max(1, bench.rows // 10))) for at in range(5)]
    plain = [list(zip(*(column.to_pylist() for column in batch.columns), strict=True)) for batch in batches]
    yield bench.compare(
        "puts",
        f"put_batch of {batches[0].num_rows:,}-row Arrow batches, synced",
        _ours(bench, "batches", "always", lambda table: [table.put_batch(batch) for batch in batches]),
        {
            "SQLite, executemany": _sqlite(bench, "batches", plain),
            "SQLite, executemany, never synced": _sqlite(bench, "batches", plain, synced=False),
        },
        target=1 / 3,
    )


def _singles(bench: Bench, rows: list[dict[str, Any]]) -> Line:
    def put(table: Table) -> None:
        for row in rows:
            table.put(row)

    return bench.compare(
        "puts",
        f"{len(rows):,} puts, not synced",
        _ours(bench, "singles", "never", put),
        {"RocksDB (rocksdict)": _rocksdict(bench, rows)},
        target=1.0,
    )


def _row(number: int) -> dict[str, Any]:
    amount = number % 997 / 4
    return {"id": number, "name": f"name {number}", "amount": amount, "quantity": number % 9, "paid": number % 2 == 0}


def _batch(place: int, rows: int) -> pa.RecordBatch:
    """Half of the keys of a batch are those of the one before."""
    ids = np.arange(rows, dtype=np.int64) + place * rows // 2
    names = pa.array([f"name {number}" for number in ids.tolist()])
    random = np.random.default_rng(place)
    amounts, quantities = random.random(rows), random.integers(0, 9, rows).astype(np.int32)
    return pa.record_batch([pa.array(ids), names, amounts, quantities, pa.array(ids % 2 == 0)], schema=SCHEMA)


def _ours(bench: Bench, name: str, sync: str, run: Callable[[Table], object]) -> Contender:
    """A new table for every run; closing it, which waits for the last flush, is not timed, and neither is RocksDB's."""
    lakes: list[Lake] = []

    def prepare() -> None:
        folder = bench.folder / "puts" / name
        while lakes:
            lakes.pop().close()
        shutil.rmtree(folder, ignore_errors=True)
        lake = moulin.connect(folder, log_sync=sync)
        lakes.append(lake)
        lake.create_database("bench")
        table = lake.create_table("bench.rows", SCHEMA, primary_key=["id"])
        table.put(_row(0))
        tables[:] = [table]

    tables: list[Table] = []
    return Contender(lambda: run(tables[0]), prepare)


def _rocksdict(bench: Bench, rows: list[dict[str, Any]]) -> Contender:
    try:
        from rocksdict import Rdict
    except ImportError as error:
        raise Skipped("rocksdict is not installed") from error
    opened: list[Any] = []

    def prepare() -> None:
        folder = bench.folder / "puts" / "rocksdict"
        while opened:
            opened.pop().close()
        shutil.rmtree(folder, ignore_errors=True)
        opened.append(Rdict(str(folder)))

    def run() -> None:
        database = opened[0]
        for row in rows:
            database[row["id"]] = row

    return Contender(run, prepare)


def _sqlite(bench: Bench, name: str, parts: list[list[tuple[Any, ...]]], *, synced: bool = True) -> Contender:
    """Each part is one transaction, durable when it returns if `synced`."""
    opened: list[sqlite3.Connection] = []

    def prepare() -> None:
        file = bench.folder / "puts" / f"{name}-{'synced' if synced else 'unsynced'}.sqlite"
        while opened:
            opened.pop().close()
        for old in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
            old.unlink(missing_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(file)
        connection.execute("pragma journal_mode=wal")
        connection.execute(f"pragma synchronous={'full' if synced else 'off'}")
        connection.execute(f"create table rows ({_COLUMNS})")
        opened.append(connection)

    def run() -> None:
        connection = opened[0]
        for part in parts:
            with connection:
                connection.executemany(_INSERT, part)

    return Contender(run, prepare)
