"""Bloom filters of columns: written as Parquet says, never wrong about a value that is there, and used."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from moulin.formats.segment import writer
from moulin.formats.segment.filter_reader import FilterReader
from moulin.formats.segment.index_checksums import BLOOM_KEY, IndexChecksums
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.writer import SegmentWriter
from moulin.formats.segment.xxh64 import xxh64
from moulin.model.file_settings import FileSettings
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    LongType,
    NestedField,
    Schema,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)
from moulin.model.where import parse_where

GROUP, ROWS = 600, 2400
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "small", IntegerType()),
    NestedField(3, "text", StringType()),
    NestedField(4, "price", DecimalType(9, 2)),
    NestedField(5, "huge", DecimalType(38, 5)),
    NestedField(6, "day", DateType()),
    NestedField(7, "at", TimestampType()),
    NestedField(8, "uuid", UUIDType()),
    NestedField(9, "fixed", FixedType(4)),
    NestedField(10, "bytes", BinaryType()),
    NestedField(11, "pair", StructType(NestedField(12, "b", StringType()))),
    NestedField(13, "double", DoubleType()),
    NestedField(14, "flag", BooleanType()),
    NestedField(15, "plain", LongType()),
)
LATER = Schema(
    NestedField(2, "small", LongType()),
    NestedField(3, "label", StringType()),
    NestedField(4, "price", DecimalType(38, 2)),
    NestedField(6, "day", TimestampType()),
    NestedField(1, "id", LongType(), required=True),
    NestedField(20, "kind", StringType(), initial_default="old"),
)
NAMES = (
    "id",
    "small",
    "text",
    "price",
    "huge",
    "day",
    "at",
    "uuid",
    "fixed",
    "bytes",
    "pair.b",
    "double",
    "flag",
    "no",
)
PROPERTIES = {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in NAMES}


def rows() -> pa.Table:
    """Values are even, and spread so that the bounds of each row group hold nearly all of them."""
    numbers = [(7919 * row) % ROWS * 2 for row in range(ROWS)]

    def some(values: list[Any]) -> list[Any]:
        return [None if number % 34 == 0 else value for number, value in zip(numbers, values, strict=True)]

    values = {
        "id": numbers,
        "small": some([number - 2400 for number in numbers]),
        "text": some([f"text {number} {'x' * (number % 70)}" for number in numbers]),
        "price": some([Decimal(number) / 100 for number in numbers]),
        "huge": some([Decimal(number - 2400) * 10**20 for number in numbers]),
        "day": some(numbers),
        "at": some([number * 1_000_000 for number in numbers]),
        "uuid": some([number.to_bytes(2, "big") * 8 for number in numbers]),
        "fixed": some([number.to_bytes(4, "big") for number in numbers]),
        "bytes": some([number.to_bytes(2, "big") * 2 for number in numbers]),
        "pair": some([{"b": f"b{number}"} for number in numbers]),
        "double": some([float(number) for number in numbers]),
        "flag": some([number > 100 for number in numbers]),
        "plain": numbers,
    }
    arrays = []
    for field in arrow_schema(SCHEMA):
        own = values[field.name]
        if field.name == "uuid":
            arrays.append(pa.ExtensionArray.from_storage(field.type, pa.array(own, pa.binary(16))))
        else:
            arrays.append(pa.array(own, field.type))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(SCHEMA))


def stored(level: int, **properties: str) -> bytes:
    sink = io.BytesIO()
    tuned = FileSettings.of({**PROPERTIES, "write.parquet.row-group-limit": str(GROUP), **properties})
    with patch.object(writer, "_LEAST_CHECKED", 100):
        segment = SegmentWriter(sink, schema=SCHEMA, level=level, settings=tuned)
        segment.write(rows())
        segment.finish()
    return sink.getvalue()


FILES = [stored(0), stored(1)]


def may_match(data: bytes, where: str, schema: Schema = SCHEMA) -> list[bool]:
    """Which row groups may match by bloom filters alone."""
    opened = OpenedFile(pa.BufferReader(data), "the file")
    reader = FilterReader(opened, lambda start, length: data[start : start + length], trust=False)
    condition = parse_where(where, schema).condition
    return [reader.may_match(condition, schema, group) for group in range(len(opened.group_rows))]


def matching(data: bytes, where: str, schema: Schema = SCHEMA, **options: Any) -> tuple[pa.Table, pa.Table]:
    predicate = parse_where(where, schema)
    with SegmentReader(pa.BufferReader(data), schema, columns=["id"]) as reader:
        found = reader.table(predicate=predicate, **options)
    with SegmentReader(pa.BufferReader(data), schema, columns=["id"]) as reader:
        plain = reader.table(
            expression=predicate.expression, extra_columns=predicate.columns, by_pages=False, **options
        )
    return found, plain


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"as", 0x1C330FB2D66BE179),
        (b"asd", 0x631C37CE72A97393),
        (b"asdf", 0x415872F599CEA71E),
        (b"Call me Ishmael. Some years ago--never mind how long precisely-", 0x02A2E85470D6FD96),
    ],
)
def test_the_hash_is_xxh64(data: bytes, hashed: int) -> None:
    assert xxh64(data) == hashed


def literals(number: int) -> dict[str, str]:
    digits = f"{number:04x}" * 8
    return {
        "id": str(number),
        "small": str(number - 2400),
        "text": f"'text {number} {'x' * (number % 70)}'",
        "price": f"{number / 100:.2f}",
        "huge": f"{(number - 2400) * 10**20}",
        "day": f"cast('1970-01-01' as date) + interval {number} days",
        "at": f"timestamp '{_instant(number)}'",
        "uuid": f"'{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}'",
        "pair.b": f"'b{number}'",
        "double": str(number),
        "plain": str(number),
    }


def _instant(seconds: int) -> str:
    return f"1970-01-01 {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@settings(max_examples=120, deadline=None)
@given(
    file=st.integers(0, 1),
    numbers=st.lists(st.integers(0, 2 * ROWS), min_size=1, max_size=3),
    column=st.sampled_from(sorted(literals(0).keys() - {"day"})),
    other=st.sampled_from(sorted(literals(0).keys() - {"day"})),
    join=st.sampled_from(["and", "or", "and not"]),
    deleted=st.sets(st.integers(0, ROWS - 1), max_size=50),
)
def test_filters_leave_out_no_match(
    file: int, numbers: list[int], column: str, other: str, join: str, deleted: set[int]
) -> None:
    one = f"{column} in ({', '.join(literals(number)[column] for number in numbers)})"
    where = f"{one} {join} {other} = {literals(numbers[0])[other]}"
    for text in (one, where):
        found, plain = matching(FILES[file], text, deleted=BitMap64(deleted))
        assert found.to_pydict() == plain.to_pydict()


@pytest.mark.parametrize("number", [2, 4, 6, 1000, 4798])
@pytest.mark.parametrize("where", ["small = {small}", "label = {text}", "price = {price}", "day = timestamp '{day}'"])
def test_filters_are_asked_in_the_types_of_a_later_schema(where: str, number: int) -> None:
    from datetime import date, timedelta

    values = {**literals(number), "day": f"{date(1970, 1, 1) + timedelta(days=number)} 00:00:00"}
    text = where.format(**values)
    found, plain = matching(FILES[1], text, LATER)
    assert found.to_pydict() == plain.to_pydict() == {"id": [number]}
    assert sum(may_match(FILES[1], text, LATER)) < 4
    assert matching(FILES[1], "small = 30000000000", LATER)[0].num_rows == 0
    assert not any(may_match(FILES[1], "day = timestamp '1975-06-19 00:00:00.000001'", LATER))


@pytest.mark.parametrize("column", ["id", "small", "text", "price", "huge", "at", "uuid", "pair.b"])
def test_a_value_that_is_nowhere_excludes_row_groups(column: str) -> None:
    asked = [may_match(FILES[1], f"{column} = {literals(number)[column]}") for number in range(1, 201, 2)]
    assert sum(map(sum, asked)) < 40  # of 400, at a rate of one in a hundred
    there = [may_match(FILES[1], f"{column} = {literals(number)[column]}") for number in (2, 400, 1234)]
    assert all(any(groups) for groups in there)


@pytest.mark.parametrize("column", ["double", "flag", "plain"])
def test_floats_booleans_and_columns_not_asked_for_have_no_filter(column: str) -> None:
    opened = OpenedFile(pa.BufferReader(FILES[0]), "the file")
    leaf = next(leaf.index for leaf in opened.leaves if leaf.path == column)
    assert not opened.map.chunk(0, leaf).bloom.size


def test_a_damaged_filter_is_not_used() -> None:
    opened = OpenedFile(pa.BufferReader(FILES[0]), "the file")
    span = opened.map.chunk(0, 0).bloom
    assert may_match(FILES[0], "id = 7")[0] is False
    for at in range(span.start, span.start + span.size, 13):
        damaged = bytearray(FILES[0])
        damaged[at] ^= 0xFF
        assert may_match(bytes(damaged), "id = 7")[0] is True


def test_filters_without_a_checksum_are_not_used() -> None:
    opened = OpenedFile(pa.BufferReader(FILES[0]), "the file")
    entries = dict(opened.metadata.metadata)
    chunks = 4 * opened.metadata.num_columns
    assert opened.checksums.has_filters
    assert len(entries[BLOOM_KEY.encode()]) == 8 * chunks
    for damaged in (b"", entries[BLOOM_KEY.encode()][:-8], b"x" * 8 * chunks):
        assert not IndexChecksums({**entries, BLOOM_KEY.encode(): damaged}, 4, chunks // 4).has_filters


def test_the_size_of_a_filter_is_bounded() -> None:
    opened = OpenedFile(pa.BufferReader(stored(1, **{"write.parquet.bloom-filter-max-bytes": "100"})), "the file")
    assert opened.map.chunk(0, 0).bloom.size < 64 + 32
    smaller = {"write.parquet.bloom-filter-ndv.column.id": "10", "write.parquet.bloom-filter-fpp.column.id": "0.1"}
    opened = OpenedFile(pa.BufferReader(stored(1, **smaller)), "the file")
    assert opened.map.chunk(0, 0).bloom.size < opened.map.chunk(0, 2).bloom.size


def test_duckdb_finds_the_filters(tmp_path: Path) -> None:
    path = tmp_path / "segment.parquet"
    path.write_bytes(FILES[1])
    for column, there, nowhere in (("id", "1234", "1235"), ("text", literals(1234)["text"], "'text 1235 '")):
        for value in (there, nowhere):
            probe = f"select bloom_filter_excludes from parquet_bloom_probe('{path}', '{column}', {value})"
            excluded = [row[0] for row in duckdb.sql(probe).fetchall()]
            assert excluded == [not may for may in may_match(FILES[1], f"{column} = {value}")]
    assert duckdb.sql(f"select count(*) from '{path}' where id = 1234").fetchone() == (1,)
