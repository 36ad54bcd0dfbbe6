"""Reading by pages gives the rows of the plain reader, whatever the types, the filter and what is deleted."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from moulin.errors import Corrupt
from moulin.formats.segment.footer import read_footer
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.page_index import read_pages
from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.sieve import _indexes
from moulin.formats.segment.writer import SegmentWriter, nan_fields
from moulin.model.file_settings import FileSettings
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    Schema,
    StringType,
    StructType,
    TimestampType,
    TimestamptzNanoType,
    TimeType,
    UUIDType,
)
from moulin.model.where import parse_where

FIELDS = (
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "flag", BooleanType()),
    NestedField(3, "small", IntegerType()),
    NestedField(4, "real", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "huge", DecimalType(38, 5)),
    NestedField(8, "day", DateType()),
    NestedField(9, "clock", TimeType()),
    NestedField(10, "at", TimestampType()),
    NestedField(11, "nano", TimestamptzNanoType()),
    NestedField(12, "text", StringType()),
    NestedField(13, "word", StringType()),
    NestedField(14, "uuid", UUIDType()),
    NestedField(15, "fixed", FixedType(4)),
    NestedField(16, "bytes", BinaryType()),
    NestedField(17, "pair", StructType(NestedField(18, "a", LongType()), NestedField(19, "b", StringType()))),
    NestedField(20, "list", ListType(21, LongType(), element_required=False)),
    NestedField(22, "map", MapType(23, StringType(), 24, LongType(), value_required=False)),
    NestedField(25, "one", StructType(NestedField(26, "a", LongType()))),
)
SCHEMA = Schema(*FIELDS)
# Renamed, moved, widened, dropped and added columns.
LATER = Schema(
    NestedField(13, "label", StringType()),
    NestedField(3, "small", LongType()),
    NestedField(4, "real", DoubleType()),
    NestedField(6, "price", DecimalType(18, 2)),
    NestedField(1, "id", LongType(), required=True),
    NestedField(17, "pair", StructType(NestedField(19, "b", StringType()), NestedField(40, "c", LongType()))),
    NestedField(41, "kind", StringType(), initial_default="old"),
    NestedField(42, "none", LongType()),
)
WHERES = (
    "id = 77",
    "id >= 100 and id < 130",
    "small = 3",
    "small = 3 and word = 'w2'",
    "word = 'w2' and text like '%7%' and double > 0",
    "word is null",
    "word != 'w1'",
    "not (word = 'w1')",
    "word like 'w%'",
    "text like '%99%'",
    "text like '%t 7_'",
    "text like 'text 21'",
    "text like '%t 84%' and text like '%0'",
    "not (text like '%4%')",
    "text ilike '%T 77%'",
    "text like '%10%'",
    "text like '%'",
    "double > 1e3",
    "isnan(double)",
    "real < 0 or real is null",
    "flag",
    "not flag and small in (1, 2)",
    "price > 5.00",
    "huge < 0",
    "day > date '2001-01-01'",
    "at >= timestamp '1970-01-01 00:10:00'",
    "pair.a = 5 and small > 1",
    "pair.b = 'w1'",
    "pair is null",
    "small + id > 300 and id > 5",
    "id > 100000",
    "id >= 0",
)
LATER_WHERES = (
    "label = 'w2'",
    "small = 3 and label is not null",
    "real > 0",
    "kind = 'old' and id = 9",
    "none is null",
    "pair.b = 'w1' and id > 50",
    "price > 5.00 and kind = 'new'",
)


def rows(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)

    def some(values: list[Any], nulls: float = 0.2) -> list[Any]:
        return [None if random.random() < nulls else value for value in values]

    small = random.integers(0, 6, count).tolist()
    values = {
        "id": list(range(count)),
        "flag": some([value > 2 for value in small]),
        "small": some(small),
        "real": some(random.normal(0, 10, count).astype(np.float32).tolist()),
        "double": some([float("nan") if value == 1 else value * 1000.5 - 2000 for value in small]),
        "price": some([Decimal(value * 3) / 2 for value in small]),
        "huge": some([Decimal(value - 3) for value in small]),
        "day": some([value * 4000 for value in small]),
        "clock": some([value * 1_000_000 for value in small]),
        "at": some([value * 1_000_000 for value in range(count)]),
        "nano": some(list(range(count))),
        "text": some([f"text {value * 7}" for value in range(count)]),
        "word": some([f"w{value}" for value in small]),
        "uuid": some([bytes([value]) * 16 for value in small]),
        "fixed": some([bytes([value]) * 4 for value in small]),
        "bytes": some([bytes([value]) * value for value in small]),
        "pair": some([{"a": value, "b": f"w{value}"} for value in small]),
        "list": some([list(range(value)) for value in small]),
        "map": some([{f"k{key}": value for key in range(value)}.items() for value in small]),
        "one": some([{"a": value} for value in small]),
    }
    fields = arrow_schema(SCHEMA)
    arrays = []
    for field in fields:
        own = values[field.name]
        if field.name == "map":
            own = [None if value is None else list(value) for value in own]
        if field.name == "uuid":
            arrays.append(pa.ExtensionArray.from_storage(field.type, pa.array(own, pa.binary(16))))
        else:
            arrays.append(pa.array(own, field.type))
    return pa.Table.from_arrays(arrays, schema=fields)


def stored(
    table: pa.Table,
    *,
    level: int,
    page_rows: int | None = None,
    page_bytes: int | None = None,
    group_rows: int,
    schema: Schema = SCHEMA,
) -> bytes:
    sink = io.BytesIO()
    tuned = FileSettings(page_rows=page_rows, page_bytes=page_bytes, row_group_rows=group_rows)
    writer = SegmentWriter(sink, schema=schema, level=level, settings=tuned, nan_fields=nan_fields(table))
    writer.write(table)
    writer.finish()
    return sink.getvalue()


def both(data: bytes, schema: Schema, columns: list[str] | None, **options: Any) -> tuple[pa.Table, pa.Table]:
    """By pages, and plainly."""
    found = []
    for by_pages in (True, False):
        with SegmentReader(pa.BufferReader(data), schema, columns=columns) as reader:
            found.append(reader.table(by_pages=by_pages, **options))
    return found[0], found[1]


def same(left: pa.Table, right: pa.Table) -> None:
    assert left.schema == right.schema
    assert left.num_rows == right.num_rows
    assert str(left.to_pydict()) == str(right.to_pydict())  # as text, where NaN is NaN


FILES = [
    stored(rows(400, 1), level=0, page_rows=10, group_rows=120),
    stored(rows(400, 2), level=1, page_rows=20, group_rows=400),
    stored(rows(400, 3), level=2, page_rows=7, group_rows=90),
    stored(rows(1600, 4), level=0, page_bytes=1024, group_rows=700),  # pages of one column end where others go on
]


@pytest.mark.parametrize("file", range(len(FILES)))
@pytest.mark.parametrize("where", WHERES)
def test_a_filter_by_pages_gives_the_rows_of_the_plain_filter(file: int, where: str) -> None:
    predicate = parse_where(where, SCHEMA)
    plain = both(FILES[file], SCHEMA, None, predicate=predicate)
    same(*plain)
    with SegmentReader(pa.BufferReader(FILES[file]), SCHEMA) as reader:
        expected = reader.table(expression=predicate.expression, extra_columns=predicate.columns)
    same(plain[0], expected)


@pytest.mark.parametrize("file", range(len(FILES)))
@pytest.mark.parametrize("where", LATER_WHERES)
def test_a_filter_by_pages_reads_older_files(file: int, where: str) -> None:
    same(*both(FILES[file], LATER, None, predicate=parse_where(where, LATER)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    file=st.integers(0, len(FILES) - 1),
    where=st.sampled_from((None, *WHERES)),
    columns=st.none() | st.lists(st.sampled_from([field.name for field in FIELDS]), unique=True, max_size=4),
    deleted=st.none() | st.sets(st.integers(0, 1599), max_size=200),
    positions=st.none() | st.sets(st.integers(0, 1599), max_size=60),
    span=st.tuples(st.integers(0, 1600), st.integers(0, 1600)),
    lineage=st.booleans(),
    position=st.booleans(),
)
def test_any_read_by_pages_gives_the_rows_of_the_plain_one(
    file: int,
    where: str | None,
    columns: list[str] | None,
    deleted: set[int] | None,
    positions: set[int] | None,
    span: tuple[int, int],
    lineage: bool,
    position: bool,
) -> None:
    options: dict[str, Any] = {
        "predicate": None if where is None else parse_where(where, SCHEMA),
        "deleted": None if deleted is None else BitMap64(deleted),
        "start": min(span),
        "stop": max(span),
        "position": True,
        "row_id": lineage,
        "first_row_id": 1000,
        "sequence": lineage,
        "sequence_number": 5,
    }
    pages, plain = both(FILES[file], SCHEMA, columns, **options)
    same(pages, plain)
    if positions is not None:
        at = np.asarray(sorted(positions), np.int64)
        with SegmentReader(pa.BufferReader(FILES[file]), SCHEMA, columns=columns) as reader:
            chosen = [reader.table(positions=at, by_pages=by_pages, **options) for by_pages in (True, False)]
        kept = np.isin(plain.column("_pos").to_numpy(), at)
        same(chosen[0], plain.filter(pa.array(kept)))
        same(*chosen)
    with SegmentReader(pa.BufferReader(FILES[file]), SCHEMA, columns=columns) as reader:
        first = reader.table(**options | {"most": 3, "position": position})
    expected = plain if position else plain.drop_columns(["_pos"])
    if where is not None:
        assert first.num_rows >= min(3, plain.num_rows)
        same(first.slice(0, min(3, first.num_rows)), expected.slice(0, 3)) if first.num_columns else None


def test_a_damaged_page_is_an_error_and_not_rows() -> None:
    data = bytearray(FILES[1])
    metadata = read_footer(pa.BufferReader(FILES[1]), "the file")
    chunk = metadata.row_group(0).column([f.name for f in FIELDS].index("text"))
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    wanted = parse_where("id >= 0", SCHEMA)
    failed = 0
    for at in range(0, 400, 20):
        with SegmentReader(pa.BufferReader(bytes(data)), SCHEMA, columns=["text"]) as reader:
            try:
                found = reader.table(positions=np.arange(at, at + 20), predicate=wanted)
            except Corrupt:
                failed += 1
            else:
                same(found, rows(400, 2).select(["text"]).slice(at, 20).cast(found.schema))
    assert failed == 1


def test_an_offset_index_that_does_not_fit_is_not_used() -> None:
    opened = OpenedFile(pa.BufferReader(FILES[0]), "the file")
    for leaf in range(2):
        chunk = opened.map.chunk(0, leaf)
        start, size = chunk.index
        whole = FILES[0][start : start + size]
        good = read_pages(chunk, opened.group_rows[0], lambda start, length: FILES[0][start : start + length])
        assert good is not None
        for bit in range(leaf, len(whole) * 8, 5):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            data = bytearray(FILES[0])
            data[start : start + size] = damaged
            name = FIELDS[leaf].name
            with SegmentReader(pa.BufferReader(bytes(data)), SCHEMA, columns=[name]) as reader:
                found = reader.table(positions=np.asarray([9, 10, 55]))
            expected = rows(400, 1).select([name]).take(pa.array([9, 10, 55]))
            assert found.to_pydict() == expected.to_pydict(), bit


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.sampled_from([True, False, False, False, None]), max_size=200),
    cut=st.tuples(st.integers(0, 40), st.integers(0, 200)),
    chunks=st.integers(1, 3),
)
def test_places_in_a_mask_are_those_where_it_is_true(
    values: list[bool | None], cut: tuple[int, int], chunks: int
) -> None:
    part = pa.array(values, pa.bool_()).slice(*cut)
    expected = [index for index, value in enumerate(part.to_pylist() * chunks) if value]
    assert _indexes(pa.chunked_array([part] * chunks)).tolist() == expected
