"""Rows of a keyed table that are in no segment yet: scans of them, and puts of every type.

Both sides of a scan are tables of one process with the same rows; the peer's are flushed into one segment. Both sides
of a put are keyed tables without sync; the peer's rows have simple types alone. Threads beside one another get rows
that were put one by one, which runs nothing but Python.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa

import moulin
from benchmarks import events
from benchmarks.harness import Bench, Contender, Line
from benchmarks.puts import SCHEMA
from benchmarks.puts import _row as make_row
from moulin import Lake
from moulin.table.table import Table

TITLE = "unflushed rows / flushed rows, puts of all types / of simple ones"
_ROWS = 100_000
_MORE = 1_000
_PUTS = 20_000
_LIST = 1_000
_EVENTS = 3_000_000
_KEYS = 1_000
_GETS = 100_000
_MEMTABLE = 512 << 20  # no flush of its own comes between

_TYPES: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "float": (pa.float32(), lambda number: number / 7),
    "decimal": (pa.decimal128(12, 2), lambda number: Decimal(number).scaleb(-2)),
    "time": (pa.time64("us"), lambda number: time(number % 24, number % 60, 1, number)),
    "ns timestamp": (pa.timestamp("ns", "UTC"), lambda number: datetime(2024, 1, 1, 1, 1, 1, number, UTC)),
    "list": (pa.list_(pa.int64()), lambda number: [number, number + 1, number + 2]),
    "struct": (pa.struct({"a": pa.int64(), "b": pa.string()}), lambda number: {"a": number, "b": "text"}),
}


def run(bench: Bench) -> Iterator[Line]:
    rows = min(_ROWS, bench.rows)
    yield from _scans(bench, rows)
    yield from _puts(bench, min(_PUTS, bench.rows))
    yield from _gets(bench)
    yield from _beside(bench)


def _lake(bench: Bench, name: str) -> Lake:
    def make() -> Lake:
        lake = moulin.connect(bench.folder / name, log_sync="never", memtable_bytes=_MEMTABLE, merge_background="off")
        lake.create_database("bench")
        return lake

    lake: Lake = bench.shared(name, make)
    return lake


def _table(lake: Lake, name: str, schema: pa.Schema = SCHEMA) -> Table:
    return lake.create_table(f"bench.{name}", schema, primary_key=["id"])


def _put_all(table: Table, rows: list[dict[str, Any]]) -> None:
    put = table.put
    for row in rows:
        put(row)


def _scans(bench: Bench, rows: int) -> Iterator[Line]:
    bench.step(f"putting {rows:,} rows one by one")
    data = [make_row(number) for number in range(rows)]
    lake = _lake(bench, "memtable")
    flushed, singles, batches, others = (_table(lake, name) for name in ("flushed", "singles", "batches", "others"))
    for table in (flushed, singles):
        _put_all(table, data)
    batches.put_batch(pa.Table.from_pylist(data, SCHEMA))
    flushed.flush()

    def again(case: str, table: Table, ordered: bool, more: Callable[[Table], None] = lambda table: None) -> Line:
        ours = Contender(lambda: table.scan(ordered=ordered).to_arrow(), lambda: more(table))
        theirs = Contender(lambda: flushed.scan(ordered=ordered).to_arrow(), lambda: more(others))
        return bench.compare("memtable", case, ours, {"the same flushed": theirs}, target=1.5)

    kept: list[Table] = []

    def put_anew() -> None:
        """A table whose rows nobody looked at. The peer's turn begins with the same work."""
        while kept:
            lake.drop_table(kept.pop().name)
        kept.append(_table(lake, "first"))
        _put_all(kept[0], data)

    def put_more(table: Table) -> None:
        """Half of them replace rows at random keys, and half are new. The peer's turn has them in another table."""
        first = rows + next(turns) * _MORE // 2
        new = [make_row(number) for number in range(first, first + _MORE // 2)]
        old = [{**make_row(chosen.randrange(rows)), "name": f"turn {first}"} for _ in range(_MORE // 2)]
        _put_all(table, new + old)

    turns, chosen = count(), Random(1)
    first = Contender(lambda: kept[0].scan().to_arrow(), put_anew)
    peer = {"the same flushed": Contender(lambda: flushed.scan().to_arrow(), put_anew)}
    yield bench.compare("memtable", f"first scan of {rows:,} rows put one by one", first, peer, target=1.5)
    yield again(f"scan of {rows:,} rows put one by one, again", singles, False)
    yield again(f"scan of {rows:,} rows put in one batch, again", batches, False)
    yield again(f"scan in key order of {rows:,} rows, again", singles, True)
    yield again(f"scan after {_MORE:,} more puts", singles, False, put_more)
    yield again(f"scan in key order after {_MORE:,} more puts", singles, True, put_more)


def _gets(bench: Bench) -> Iterator[Line]:
    """Gets of unflushed rows: those that came as one Arrow batch, and those that came one by one."""
    lake = _lake(bench, "memtable")
    rows = [make_row(number) for number in range(_PUTS)]
    batches, singles = _table(lake, "got_batch"), _table(lake, "got_singles")
    batches.put_batch(pa.Table.from_pylist(rows, SCHEMA))
    _put_all(singles, rows)
    chosen = Random(1)
    keys = [chosen.randrange(_PUTS) for _ in range(_PUTS)]
    yield bench.compare(
        "memtable",
        f"{_PUTS:,} gets of rows put in one batch",
        lambda: [batches.get(key) for key in keys],
        {"rows put one by one": lambda: [singles.get(key) for key in keys]},
        target=2.0,
    )


def _beside(bench: Bench) -> Iterator[Line]:
    """A thread that scans and one that gets rows from memory all the time, each beside the other and alone."""
    bench.step("loading events")
    lake = _lake(bench, "memtable")
    keyed = _table(lake, "busy")
    _put_all(keyed, [make_row(number) for number in range(_KEYS)])
    table = lake.create_table("bench.events", events.SCHEMA, event_time="ts")
    rows = min(_EVENTS, bench.rows)
    for first in range(0, rows, _EVENTS // 3):
        table.append(events.make(min(_EVENTS // 3, rows - first), seed=first + 1, first_id=first))

    def scan() -> None:
        table.scan(where='"user" < 1000').to_arrow()

    def get_all() -> None:
        for key in range(_KEYS):
            keyed.get(key)

    def get_many_times() -> None:
        for _ in range(_GETS // _KEYS):
            get_all()

    yield _with_and_without(bench, f"scan of {rows:,} rows beside a busy get thread", scan, get_all)
    yield _with_and_without(bench, f"{_GETS:,} gets beside a busy scan thread", get_many_times, scan)


def _with_and_without(bench: Bench, case: str, run: Callable[[], None], beside: Callable[[], None]) -> Line:
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def busy() -> None:
        while not stop.is_set():
            beside()

    def begin() -> None:
        stop.clear()
        threads.append(threading.Thread(target=busy))
        threads[-1].start()

    def end() -> None:
        stop.set()
        while threads:
            threads.pop().join()

    try:
        return bench.compare("memtable", case, Contender(run, begin), {"alone": Contender(run, end)}, target=1.5)
    finally:
        end()


def _puts(bench: Bench, puts: int) -> Iterator[Line]:
    simple = [make_row(number) for number in range(puts)]
    for name, (kind, value) in _TYPES.items():
        schema = SCHEMA.append(pa.field("more", kind))
        rows = [{**row, "more": value(number)} for number, row in enumerate(simple)]
        yield bench.compare(
            "memtable",
            f"{puts:,} puts of rows with a {name}",
            _new_table(bench, name, schema, rows, _put_all),
            {"simple rows": _new_table(bench, "simple", SCHEMA, simple, _put_all)},
            target=3.0,
        )
    schema = SCHEMA
    for name, (kind, _) in _TYPES.items():
        schema = schema.append(pa.field(name, kind))
    rows = [
        {**row, **{name: value(number) for name, (_, value) in _TYPES.items()}} for number, row in enumerate(simple)
    ]

    def put_lists(table: Table, rows: list[dict[str, Any]]) -> None:
        for at in range(0, len(rows), _LIST):
            table.put_batch(rows[at : at + _LIST])

    yield bench.compare(
        "memtable",
        f"put_batch of {_LIST:,} rows of all these types",
        _new_table(bench, "lists", schema, rows, put_lists),
        {"put of each row": _new_table(bench, "rows", schema, rows, _put_all)},
        target=1.0,
    )


def _new_table(
    bench: Bench,
    name: str,
    schema: pa.Schema,
    rows: list[dict[str, Any]],
    run: Callable[[Table, list[dict[str, Any]]], None],
) -> Contender:
    """A new lake for every run, whose first put, which claims the region, is not timed."""
    opened: list[tuple[Lake, Table]] = []

    def prepare() -> None:
        while opened:
            opened.pop()[0].close()
        folder = bench.folder / "memtable puts" / name
        shutil.rmtree(folder, ignore_errors=True)
        lake = moulin.connect(folder, log_sync="never", memtable_bytes=_MEMTABLE)
        lake.create_database("bench")
        table = _table(lake, "rows", schema)
        table.put(rows[0])
        opened.append((lake, table))

    def timed() -> None:
        run(opened[0][1], rows)

    return Contender(timed, prepare)
