"""Segments whose columns lie in several files, read as one: what is read is what one file with all columns gives."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from moulin.errors import Corrupt
from moulin.formats.segment.reader import POSITION, SegmentReader
from moulin.formats.segment.stitched import Part, open_stitched
from moulin.formats.segment.writer import SegmentWriter
from moulin.model.bloom_settings import BloomSetting
from moulin.model.file_settings import FileSettings
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import Schema
from moulin.model.where import parse_where

WHOLE = make_schema(
    [
        ("id", "long"),
        ("name", "string"),
        ("score", "double"),
        ("tags", "list<string>"),
        ("place", "struct<x: int, y: string>"),
        ("few", "string"),
    ]
)
ROWS = 20_000  # with fewer, files have no checksums of page indexes, and those are not used
WHOLE_NAMES = ("id", "name", "score", "tags", "place", "few")
PARTS = (("id", "name"), ("score", "tags"), ("place", "few"))


def table(rows: int = ROWS, seed: int = 3) -> pa.Table:
    chosen = np.random.default_rng(seed)
    scores = chosen.normal(size=rows)
    scores[::97] = np.nan
    return pa.Table.from_arrays(
        [
            pa.array(np.arange(rows)),
            pa.array([f"name {n}" if n % 5 else None for n in range(rows)]),
            pa.array(scores),
            pa.array([[f"t{n % 7}"] * (n % 3) if n % 11 else None for n in range(rows)]),
            pa.array([{"x": n % 100, "y": str(n)} if n % 13 else None for n in range(rows)]),
            pa.array([f"few {n % 4}" for n in range(rows)]),
        ],
        schema=arrow_schema(WHOLE),
    )


def part_of(names: Sequence[str]) -> Schema:
    return Schema(*(WHOLE.find_field(name) for name in names), schema_id=0)


def written(rows: pa.Table, names: Sequence[str], groups: Sequence[int], level: int, *, first: bool) -> bytes:
    sink, settings = (
        io.BytesIO(),
        FileSettings(bloom=(BloomSetting("id", 0.01, None, 1 << 20),)) if first else FileSettings(),
    )
    writer = SegmentWriter(sink, schema=part_of(names), level=level, settings=settings, positions=first)
    at = 0
    for size in groups:
        one = rows.select(list(names)).slice(at, size)
        writer.write_group(pa.Table.from_arrays(one.columns, schema=arrow_schema(part_of(names))))
        at += size
    writer.finish()
    return sink.getvalue()


def stitched(files: Sequence[bytes], **options: Any) -> pa.NativeFile:
    parts = [Part(f"file {n}", len(data), partial(pa.BufferReader, data)) for n, data in enumerate(files)]
    return open_stitched(parts, **options)


@pytest.fixture(scope="module", params=[0, 1], ids=["level 0", "level 1"])
def files(request: pytest.FixtureRequest) -> list[bytes]:
    groups = (7000, 1, 8000, 4999)
    return [written(table(), names, groups, request.param, first=n == 0) for n, names in enumerate(PARTS)]


@pytest.fixture(scope="module")
def one() -> bytes:
    """All columns in one file."""
    return written(table(), WHOLE_NAMES, (7000, 1, 8000, 4999), 1, first=False)


WHERES = ["id = 7123", "id > 15000 and score < -2", "few = 'few 2' and id < 8000", "place.x = 5", "name like '%99%'"]


@pytest.mark.parametrize("where", [None, *WHERES])
def test_rows_are_those_of_one_file(files: list[bytes], one: bytes, where: str | None) -> None:
    predicate = parse_where(where, WHOLE) if where else None
    deleted = BitMap64(range(100, 200))
    with (
        SegmentReader(stitched(files), WHOLE, name="stitched") as reader,
        SegmentReader(pa.BufferReader(one), WHOLE, name="one file") as plain,
    ):
        assert reader.group_rows == plain.group_rows
        for by_pages in (True, False):
            found = reader.table(predicate=predicate, deleted=deleted, position=True, by_pages=by_pages)
            assert same(found, plain.table(predicate=predicate, deleted=deleted, position=True, by_pages=by_pages))
            assert where is None or found.num_rows < ROWS // 2


def same(one: pa.Table, other: pa.Table) -> bool:
    """NaN equals NaN here."""
    return one.num_rows == other.num_rows and repr(one.to_pylist()) == repr(other.to_pylist())


@pytest.mark.parametrize("columns", [["id"], ["few"], ["score", "id"], ["tags"], []])
def test_rows_at_positions_and_some_columns(files: list[bytes], columns: list[str]) -> None:
    positions = np.asarray([0, 5, 6999, 7000, 7001, 15_000, ROWS - 1])
    with SegmentReader(stitched(files), WHOLE, columns=columns, name="stitched") as reader:
        found = reader.table(positions=positions, position=True)
    assert found.column(POSITION).to_pylist() == positions.tolist()
    assert not columns or same(found.drop_columns([POSITION]), table().select(columns).take(positions))


def test_other_readers_of_parquet_read_it_when_it_is_copied(files: list[bytes]) -> None:
    copied = stitched(files, page_indexes=False).read()
    found = pq.read_table(pa.BufferReader(copied), columns=["id", "score", "few", "place"])
    assert same(found, table().select(["id", "score", "few", "place"]))
    assert pq.ParquetFile(pa.BufferReader(copied)).metadata.num_row_groups == 4


def test_page_indexes_of_column_files_choose_pages(files: list[bytes]) -> None:
    class Counting(io.BytesIO):
        read_bytes = 0

        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            Counting.read_bytes += len(data)
            return data

    base, second, third = files
    parts = [
        Part("base", len(base), partial(pa.BufferReader, base)),
        Part("second", len(second), lambda: pa.PythonFile(Counting(second), mode="r")),
        Part("third", len(third), partial(pa.BufferReader, third)),
    ]
    with SegmentReader(open_stitched(parts), WHOLE, columns=["score"], name="stitched") as reader:
        _ = reader.opened.leaves
        Counting.read_bytes = 0
        assert reader.table(positions=np.asarray([9000])).num_rows == 1
    assert Counting.read_bytes < len(second) / 2, "a page, or at most the one row group"


def test_files_that_do_not_belong_together_are_refused() -> None:
    rows = table(100)
    base = written(rows, PARTS[0], (60, 40), 1, first=True)
    for groups in ((100,), (50, 50)):
        other = written(rows, PARTS[1], groups, 1, first=False)
        with pytest.raises(Corrupt, match="do not belong together"):
            SegmentReader(stitched([base, other]), WHOLE, name="stitched")
    damaged = bytearray(written(rows, PARTS[1], (60, 40), 1, first=False))
    damaged[-60] ^= 1
    with pytest.raises(Corrupt):
        SegmentReader(stitched([base, bytes(damaged)]), WHOLE, name="stitched")
