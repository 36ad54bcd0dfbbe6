"""Compaction in bounded memory: what is held follows a budget and not the rows, and the outputs are the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import moulin
from moulin.formats.segment.reader import SegmentReader
from moulin.lake import Lake
from moulin.table.compact import kernel
from moulin.table.compact.gather import Gatherer, RowCursor
from moulin.table.table import Table

MIB = 1 << 20
SEGMENTS = 6
CORES = 2
BUDGET = 16 * MIB

# Compacts a table in a process of its own, and prints what Arrow held at most.
MEASURE = """
import os, sys
os.cpu_count = lambda: 2
import pyarrow as pa
import moulin
with moulin.connect(sys.argv[1], merge_memory_bytes=int(sys.argv[2])) as lake:
    done = lake.table("shop.wide").compact(everything=True)
    print(done.segments_in, pa.default_memory_pool().max_memory())
"""


def wide(start: int, rows: int) -> pa.Table:
    """Rows of about 4 KB that compress to almost nothing, every sixth of the ids."""
    text = pa.array(["x" * 4000 + str(n) for n in range(4)])
    return pa.table(
        {
            "id": pa.array(np.arange(rows, dtype=np.int64) * SEGMENTS + start),
            "text": text.take(pa.array(np.arange(rows) % 4)),
        }
    )


@pytest.mark.parametrize("megabytes", [200, 500])
def test_memory_follows_the_budget_and_not_the_decoded_size(tmp_path: Path, megabytes: int) -> None:
    rows = megabytes * MIB // 4000 // SEGMENTS
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.wide", [("id", "long"), ("text", "string")], sort_by=["id"])
        for n in range(SEGMENTS):
            table.append(wide(n, rows))
        command = [sys.executable, "-c", MEASURE, lake.uri, str(BUDGET)]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.split()
        assert int(told[0]) >= SEGMENTS
        peak = int(told[1])
        assert peak < 6 * CORES * BUDGET, "a few budgets for each core: rows read, rows in order, a row group"
        found = lake.table("shop.wide").scan(columns=["id"]).to_arrow().column("id").to_numpy()
        assert np.array_equal(np.sort(found), np.arange(rows * SEGMENTS))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake", merge_background="off") as lake:
        lake.create_database("shop")
        yield lake


def fill(lake: Lake, name: str, **options: Any) -> Table:
    """Overlapping segments with deleted rows, nulls and NaN."""
    columns = [("id", "long"), ("city", "string"), ("x", "double"), ("y", "double")]
    table = lake.create_table(name, columns, **options)
    rng = np.random.default_rng(7)
    for _ in range(5):
        ids = rng.permutation(20_000)[:3000]
        city = pa.array([None if n % 11 == 0 else f"c{n % 7}" for n in ids.tolist()])
        x = pa.array(np.where(ids % 13 == 0, np.nan, ids / 3))
        table.append(pa.table({"id": ids, "city": city, "x": x, "y": ids / 7}))
    table.delete_where("id < 700")
    return table


def layout(lake: Lake, table: Table) -> list[Any]:
    """Every segment as it is stored: its rows in their order, and what is known of its columns."""
    state = table.state()
    found = []
    for segment in lake.catalog.segments(state.id, state.version):
        facts = segment.facts
        with SegmentReader(lake.store.reader(facts.path, facts.size), state.schema, name=facts.path) as reader:
            columns = [replace(column, size=0) for column in facts.columns]  # row groups may be smaller
            found.append((reader.table(row_id=True, sequence=True), columns, facts.rows))
    return found


@pytest.mark.parametrize("sort_by", [["id"], ["city", "id"], [], ["x"]])
@pytest.mark.parametrize("clustered", [False, True])
def test_outputs_are_the_same_whether_rows_fit_or_not(
    lake: Lake, sort_by: list[str], clustered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = (
        {"moulin.merge-segment-bytes": "40000", "moulin.sharding-fields": '[["city", 1.0]]'} if clustered else {}
    )
    made = []
    for name, memory in (("shop.fits", 256 * MIB), ("shop.not", 64 << 10)):
        table = fill(lake, name, sort_by=sort_by, properties=properties)
        with monkeypatch.context() as patch:
            gathered: list[int] = []
            whole = kernel._read_whole

            def watch(work: Any, readers: Any, whole: Any = whole, gathered: list[int] = gathered) -> Any:
                found = whole(work, readers)
                gathered.append(found is None)
                return found

            patch.setattr(kernel, "_read_whole", watch)
            object.__setattr__(lake.config, "merge_memory_bytes", memory)
            table.compact(everything=True)
        assert any(gathered) == (name == "shop.not")
        made.append(layout(lake, table))
    fits, pieces = made
    assert len(fits) == len(pieces)
    for (rows, columns, count), (rows_too, columns_too, count_too) in zip(fits, pieces, strict=True):
        assert count == count_too
        assert columns == columns_too
        for name in ("id", "city", "y", "_row_id"):
            assert rows.column(name).to_pylist() == rows_too.column(name).to_pylist(), name


def test_rows_are_gathered_in_any_order_over_any_pieces() -> None:
    rng = np.random.default_rng(3)
    tables = [pa.table({"n": np.arange(first, first + rows)}) for first, rows in ((0, 50), (50, 1), (51, 200))]

    def read(table: pa.Table) -> Iterator[pa.Table]:
        yield table.slice(0, 0)
        for start in range(0, table.num_rows, 7):
            yield table.slice(start, 7)

    cursors = [RowCursor(lambda table=table: read(table)) for table in tables]  # type: ignore[misc]
    gatherer = Gatherer(cursors, [table.num_rows for table in tables], 100)
    for order in (None, rng.permutation(251), np.arange(251)[::-1]):
        found = pa.concat_tables(gatherer.pieces(order, 3, 240)).column("n").to_pylist()
        assert found == (list(range(3, 240)) if order is None else order[3:240].tolist())


def test_pieces_of_a_segment_are_its_rows(lake: Lake) -> None:
    table = fill(lake, "shop.t", sort_by=["id"])
    state = table.state()
    for segment in lake.catalog.segments(state.id, state.version):
        facts = segment.facts
        with SegmentReader(lake.store.reader(facts.path, facts.size), state.schema, name=facts.path) as reader:
            for start, stop in ((0, facts.rows), (100, 101), (1234, 2345)):
                whole = reader.table(start=start, stop=stop, position=True)
                for size in (500, 5000, MIB):
                    pieces = list(reader.pieces(size, start=start, stop=stop, position=True))
                    assert pa.concat_tables(pieces).select(["id", "_pos"]) == whole.select(["id", "_pos"])
