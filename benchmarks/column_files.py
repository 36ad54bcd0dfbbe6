"""Columns that are added with values: what is written, how long it takes, and what queries cost before they are folded.

One double over `--rows` rows of 200 columns, from two others, beside Lance's `add_columns`; 8,000 whole numbers beside
80 MB of images; and queries over columns in files of their own beside the same queries after `fold`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import moulin
from benchmarks.harness import Bench, Contender, Line, Sample, Skipped, take_turns
from moulin.lake import Lake
from moulin.table.table import Table

TITLE = "columns in files of their own"
_COLUMNS = 200
COLUMNS = [("id", "long"), *((f"c{n}", "double") for n in range(_COLUMNS - 1))]
"""Of the wide table."""
_PIECE = 250_000
_IMAGES, _IMAGE_BYTES = 8_000, 10_000
_BYTES, _TIME, _IMAGE_TARGET, _QUERY = 1.2, 1.2, 100_000, 2.0


def run(bench: Bench) -> Iterator[Line]:
    rows = bench.rows
    case = f"one double over {rows:,} rows of {_COLUMNS} columns"
    bench.step(case)
    wide = _wide(bench, rows)
    number = itertools.count()
    yield _written(wide, case, next(number))
    yield from _against_lance(bench, wide, rows, case, number)
    bench.step("images")
    yield _images(bench)
    bench.step("queries")
    yield from _queries(bench, wide)


def _lake(bench: Bench) -> Lake:
    def make() -> Lake:
        lake = moulin.connect(bench.folder / "columns")
        lake.create_database("bench")
        return lake

    lake: Lake = bench.shared("columns", make)
    return lake


def _piece(start: int, rows: int) -> pa.Table:
    chosen = np.random.default_rng(start)
    columns: dict[str, Any] = {"id": np.arange(start, start + rows)}
    columns |= {f"c{n}": chosen.normal(size=rows) for n in range(_COLUMNS - 1)}
    return pa.table(columns)


def pieces(rows: int) -> Iterator[pa.Table]:
    """The rows of the wide table."""
    for start in range(0, rows, _PIECE):
        yield _piece(start, min(_PIECE, rows - start))


def _wide(bench: Bench, rows: int) -> Table:
    table = _lake(bench).create_table("bench.wide", COLUMNS)
    for piece in pieces(rows):
        table.append(piece)
    return table


def _written(table: Table, case: str, number: int) -> Line:
    before = _table_bytes(table)
    table.add_column(f"score{number}", "double", from_sql="c0 * c1")
    written = _table_bytes(table) - before
    field = table.state().schema.find_field(f"score{number}").field_id
    live = table._context.catalog.segments(table.id, table.version)
    own = sum(one.size for segment in live for one in segment.facts.columns if one.field_id == field)
    ours, column = Sample((float(written),)), Sample((float(own),))
    return Line("column_files", f"{case}: bytes written", ours, column, "bytes of the column", _BYTES, unit="B")


def _table_bytes(table: Table) -> int:
    folder = Path(str(table._context.store.local_path(f"tables/{table.id}")))
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _against_lance(bench: Bench, table: Table, rows: int, case: str, number: Iterator[int]) -> Iterator[Line]:
    try:
        import lance
    except ImportError:
        yield Line("column_files", case, reason="pylance is not installed", target=_TIME)
        return
    path = str(bench.folder / "wide.lance")
    mode = "create"
    for piece in pieces(rows):
        lance.write_dataset(piece, path, mode=mode)
        mode = "append"
    contenders = {
        "ours": Contender(lambda: table.add_column(f"score{next(number)}", "double", from_sql="c0 * c1")),
        "Lance": Contender(lambda: lance.dataset(path).add_columns({f"score{next(number)}": "c0 * c1"})),
    }
    samples = take_turns(contenders, max(3, bench.runs), warm_up=1)
    yield Line("column_files", f"{case}: time", samples["ours"], samples["Lance"], "Lance add_columns", _TIME)


def _images(bench: Bench) -> Line:
    table = _lake(bench).create_table("bench.images", [("id", "long"), ("image", "binary")])
    chosen = np.random.default_rng(1)
    images = [chosen.bytes(_IMAGE_BYTES) for _ in range(_IMAGES)]
    table.append(pa.table({"id": np.arange(_IMAGES), "image": pa.array(images, pa.binary())}))
    before = _table_bytes(table)
    table.add_columns(
        lambda batch: {"size": pc.binary_length(batch["image"])}, read=["image"], schema=[("size", "int")]
    )
    written = _table_bytes(table) - before
    case = f"{_IMAGES:,} ints beside {_IMAGES * _IMAGE_BYTES // 10**6} MB of images: bytes written"
    return Line("column_files", case, Sample((float(written),)), target=_IMAGE_TARGET, unit="B")


def _queries(bench: Bench, table: Table) -> Iterator[Line]:
    """The columns of the runs before are unfolded; a clone of the table is folded."""
    names = [field.name for field in table.state().schema.fields if field.name.startswith("score")]
    folded = _lake(bench).clone_table("bench.wide", "bench.folded")
    folded.fold()
    if not names:
        raise Skipped("no column was added")
    name = names[0]
    for case, call in {
        "a scan of two columns": lambda one: one.scan(columns=["id", name]).to_arrow(),
        "a filter by the column": lambda one: one.scan(columns=["id", "c5"], where=f"{name} > 4").to_arrow(),
        "a filter beside it": lambda one: one.scan(columns=["id", name], where="c3 > 3").to_arrow(),
    }.items():
        contenders = {
            "unfolded": Contender(lambda call=call: call(table)),
            "folded": Contender(lambda call=call: call(folded)),
        }
        samples = take_turns(contenders, max(5, bench.runs), warm_up=1)
        yield Line("column_files", f"{case}, unfolded", samples["unfolded"], samples["folded"], "folded", _QUERY)
