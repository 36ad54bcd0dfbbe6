from __future__ import annotations

import hashlib
import io
import json
import math
import os
import struct
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.schema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Closed, InvalidInput
from moulin.formats.segment import writer as segment
from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.writer import (
    LEVELS,
    LevelTuning,
    SegmentWriter,
    WrittenSegment,
    footer_facts,
    nan_fields,
    segment_facts,
    tuning,
)
from moulin.model.facts import ColumnFacts
from moulin.model.file_settings import FileSettings
from moulin.model.layout.bounds import bound_from_bytes, bound_to_bytes, truncate_lower, truncate_upper
from moulin.model.schema.arrow import STORED_POSITION, arrow_schema
from moulin.model.schema.single_value import unscaled_to_decimal
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
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from tests.model.referee import their_schema
from tests.parquet_pages import page_headers

EVERYTHING = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "flag", BooleanType()),
    NestedField(3, "small", IntegerType()),
    NestedField(4, "single", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "money", DecimalType(9, 2)),
    NestedField(7, "more", DecimalType(18, 4)),
    NestedField(8, "most", DecimalType(38, 10)),
    NestedField(9, "day", DateType()),
    NestedField(10, "clock", TimeType()),
    NestedField(11, "local", TimestampType()),
    NestedField(12, "instant", TimestamptzType()),
    NestedField(13, "local_ns", TimestampNanoType()),
    NestedField(14, "instant_ns", TimestamptzNanoType()),
    NestedField(15, "text", StringType()),
    NestedField(16, "token", UUIDType()),
    NestedField(17, "code", FixedType(3)),
    NestedField(18, "blob", BinaryType()),
    NestedField(
        19,
        "person",
        StructType(
            NestedField(20, "name", StringType(), required=True),
            NestedField(21, "height", DoubleType()),
        ),
    ),
    NestedField(22, "scores", ListType(23, FloatType(), element_required=False)),
    NestedField(
        24,
        "places",
        MapType(25, StringType(), 26, StructType(NestedField(27, "x", IntegerType())), value_required=False),
    ),
)

ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "flag": True,
        "small": -(2**31),
        "single": 1.5,
        "double": -0.0,
        "money": Decimal("-1234567.89"),
        "more": Decimal("12345678901234.5678"),
        "most": Decimal("-1234567890123456789012345678.0123456789"),
        "day": date(1969, 12, 31),
        "clock": time(23, 59, 59, 999_999),
        "local": datetime(1969, 12, 31, 23, 59, 59, 999_999),
        "instant": datetime(2262, 1, 1, tzinfo=UTC),
        "local_ns": -1,
        "instant_ns": 1_700_000_000_123_456_789,
        "text": "naïve \U0001f600 text that is longer than sixteen characters",
        "token": uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        "code": b"\x00\x01\xff",
        "blob": b"\xff" * 20,
        "person": {"name": "Ada", "height": float("nan")},
        "scores": [1.0, None, float("nan")],
        "places": [("home", {"x": 1}), ("work", None)],
    },
    {"id": 2},
    {
        "id": 3,
        "flag": False,
        "small": 2**31 - 1,
        "single": float("inf"),
        "double": 7.25,
        "money": Decimal("0.01"),
        "more": Decimal("-0.0001"),
        "most": Decimal("0.0000000001"),
        "day": date(9999, 12, 31),
        "clock": time(0),
        "local": datetime(1, 1, 1),
        "instant": datetime(1970, 1, 1, tzinfo=UTC),
        "local_ns": 2**63 - 1,
        "instant_ns": -(2**63),
        "text": "",
        "token": uuid.UUID(int=0),
        "code": b"abc",
        "blob": b"",
        "person": {"name": "", "height": None},
        "scores": [],
        "places": [],
    },
]


def everything() -> pa.Table:
    return pa.Table.from_pylist(ROWS, schema=arrow_schema(EVERYTHING))


def write(
    table: pa.Table, schema: Schema, level: int, *, batch: int | None = None, **options: Any
) -> tuple[bytes, WrittenSegment]:
    sink = io.BytesIO()
    writer = SegmentWriter(sink, schema=schema, level=level, **{"nan_fields": nan_fields(table), **options})
    for start in range(0, max(table.num_rows, 1), batch or max(table.num_rows, 1)):
        writer.write(table.slice(start, batch))
    written = writer.finish()
    return sink.getvalue(), written


def facts_of(written: WrittenSegment) -> dict[int, ColumnFacts]:
    return {facts.field_id: facts for facts in written.columns}


def tuned(rows_bytes: int, level: int = 1) -> Any:
    """Row groups of about `rows_bytes`, so that a few rows make several."""
    small = LevelTuning(rows_bytes, 1024, LEVELS[level].encoded, LEVELS[level].compression, None)
    return mock.patch.object(segment, "tuning", return_value=small)


@pytest.mark.parametrize("level", [0, 1, 2, 5])
def test_every_type_comes_back_as_it_was(level: int) -> None:
    data, _ = write(everything(), EVERYTHING, level)
    found = SegmentReader(pa.BufferReader(data), EVERYTHING).table()
    assert found.schema.equals(arrow_schema(EVERYTHING), check_metadata=True)
    for name in found.column_names:
        # repr, because NaN is not equal to itself
        assert repr(found.column(name).to_pylist()) == repr(everything().column(name).to_pylist()), name


def test_uuids_inside_lists_and_structs_come_back() -> None:
    schema = Schema(
        NestedField(1, "tokens", ListType(2, UUIDType(), element_required=False)),
        NestedField(3, "owner", StructType(NestedField(4, "token", UUIDType()))),
    )
    kinds = arrow_schema(schema)
    tokens = pa.array([uuid.uuid4().bytes, None, uuid.uuid4().bytes], pa.binary(16)).cast(pa.uuid())
    table = pa.Table.from_arrays(
        [
            pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), tokens, type=kinds.field(0).type),
            pa.StructArray.from_arrays([tokens[:2]], fields=list(kinds.field(1).type)),
        ],
        schema=kinds,
    )
    data, written = write(table, schema, 1)
    assert SegmentReader(pa.BufferReader(data), schema).table().equals(table)
    assert facts_of(written)[2].lower is None
    assert facts_of(written)[4].lower == tokens[0].as_py().bytes


def test_the_file_carries_ids_types_and_schema_for_other_engines() -> None:
    data, _ = write(everything(), EVERYTHING, 1, metadata={"made-by": "test"})
    file = pq.ParquetFile(pa.BufferReader(data))
    text = str(file.schema)
    for part in (
        "required int64 field_id=1 id;",
        "optional int32 field_id=6 money (Decimal(precision=9, scale=2));",
        "optional int64 field_id=7 more (Decimal(precision=18, scale=4));",
        "optional fixed_len_byte_array(16) field_id=8 most (Decimal(precision=38, scale=10));",
        "field_id=13 local_ns (Timestamp(isAdjustedToUTC=false, timeUnit=nanoseconds",
        "field_id=12 instant (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
        "optional fixed_len_byte_array(16) field_id=16 token (UUID);",
        "required binary field_id=20 name (String);",
        "repeated group field_id=-1 list {\n      optional float field_id=23 element;",
        "required binary field_id=25 key (String);",
        "optional int32 field_id=27 x;",
    ):
        assert part in text
    keys = file.metadata.metadata
    assert b"ARROW:schema" not in keys
    assert pyiceberg.schema.Schema(**json.loads(keys[b"iceberg.schema"])) == their_schema(EVERYTHING)
    assert (keys[b"moulin.level"], keys[b"made-by"]) == (b"1", b"test")
    assert file.metadata.format_version == "2.6"


def test_duckdb_reads_the_same_rows_and_by_field_id(tmp_path: Path) -> None:
    for level in (0, 1):
        data, _ = write(everything(), EVERYTHING, level)
        path = tmp_path / f"{level}.parquet"
        path.write_bytes(data)
        with duckdb.connect() as connection:
            connection.execute("set timezone = 'UTC'")
            rows = connection.sql(f"select * exclude (places) from '{path}' order by id").to_arrow_table()
            renamed = connection.execute(
                f"select * from read_parquet('{path}', schema=map {{"
                "3: {name: 'little', type: 'BIGINT', default_value: NULL},"
                "99: {name: 'added', type: 'VARCHAR', default_value: 'x'}}) order by 1 nulls first"
            ).fetchall()
            person = connection.execute(f"select places['home'].x from '{path}' where id = 1").fetchone()
        expected = everything()
        for name in (
            "id",
            "flag",
            "small",
            "money",
            "more",
            "most",
            "day",
            "clock",
            "local",
            "instant",
            "text",
            "blob",
        ):
            assert rows.column(name).to_pylist() == expected.column(name).to_pylist(), name
        assert [str(value) for value in rows.column("token").to_pylist()] == [
            str(row.get("token", None)) for row in ROWS
        ]
        assert repr(rows.column("person").to_pylist()) == repr(expected.column("person").to_pylist())
        assert repr(rows.column("scores").to_pylist()) == repr(expected.column("scores").to_pylist())
        assert renamed == [(None, "x"), (-(2**31), "x"), (2**31 - 1, "x")]
        assert person == (1,)


def test_the_hash_and_size_are_those_of_the_file_whatever_the_batches() -> None:
    table = pa.table({"id": np.arange(50_000)}, schema=arrow_schema(Schema(NestedField(1, "id", LongType()))))
    schema = Schema(NestedField(1, "id", LongType()))
    whole, written = write(table, schema, 0)
    assert written.sha256 == hashlib.sha256(whole).digest()
    assert (written.size, written.rows) == (len(whole), 50_000)
    for batch in (7_000, 49_999):
        assert write(table, schema, 0, batch=batch)[0] == whole
    assert write(table.to_batches()[0], schema, 0)[0] == whole


def wide_rows(rows: int) -> tuple[pa.Table, Schema]:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "at", TimestamptzType()),
        NestedField(3, "value", DoubleType()),
        NestedField(4, "single", FloatType()),
        NestedField(5, "flag", BooleanType()),
        NestedField(6, "kind", StringType()),
        NestedField(7, "day", DateType()),
        NestedField(8, "money", DecimalType(12, 2)),
        NestedField(9, "body", StringType()),
        NestedField(10, "tags", ListType(11, LongType(), element_required=True)),
    )
    random = np.random.default_rng(3)
    letters = pa.py_buffer(random.integers(97, 123, rows * 200, dtype=np.uint8))
    ids = np.arange(rows)
    table = pa.Table.from_arrays(
        [
            pa.array(ids),
            pa.array(ids * 1000, pa.timestamp("us", "UTC")),
            pa.array(random.random(rows)),
            pa.array(random.random(rows, dtype=np.float32)),
            pa.array(ids % 3 == 0),
            pa.array(np.array(["a", "b", "c"])[ids % 3]),
            pa.array((ids // 1000).astype(np.int32), pa.date32()),
            pa.array((ids % 1000).astype(np.int32)).cast(pa.decimal128(12, 2)),
            pa.StringArray.from_buffers(rows, pa.py_buffer(np.arange(0, 200 * rows + 1, 200, dtype=np.int32)), letters),
            pa.ListArray.from_arrays(
                pa.array(np.arange(0, 2 * rows + 1, 2), pa.int32()),
                pa.array(np.arange(2 * rows)),
                type=arrow_schema(schema).field("tags").type,
            ),
        ],
        schema=arrow_schema(schema),
    )
    return table, schema


@pytest.mark.parametrize(("level", "rows"), [(0, 60_000), (1, 250_000), (2, 600_000)])
def test_each_level_has_its_encodings_row_groups_and_pages(level: int, rows: int) -> None:
    table, schema = wide_rows(rows)
    data, written = write(table, schema, level, batch=10_000)
    tuned = tuning(level)
    metadata = pq.read_metadata(pa.BufferReader(data))
    sizes = [metadata.row_group(at).num_rows * table.nbytes / rows for at in range(metadata.num_row_groups)]
    assert len(sizes) == math.ceil(table.nbytes / tuned.row_group_bytes)
    assert all(0.9 * tuned.row_group_bytes < size < 1.1 * tuned.row_group_bytes for size in sizes[:-1])
    assert tuple(struct.unpack_from("<I", data, 0)) == (0x31524150,)
    assert written.split_offsets == tuple(
        min(
            offset
            for offset in (
                metadata.row_group(at).column(0).data_page_offset,
                metadata.row_group(at).column(0).dictionary_page_offset,
            )
            if offset
        )
        for at in range(metadata.num_row_groups)
    )
    assert written.split_offsets[0] == 4
    group = metadata.row_group(0)
    chunks = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    for path, chunk in chunks.items():
        assert chunk.has_offset_index, path
        assert chunk.has_column_index, path
        assert chunk.statistics.has_min_max, path
        assert chunk.compression == ("UNCOMPRESSED" if level == 0 or path == "value" else "ZSTD"), path
        pages = [page for page in page_headers(data, chunk) if page.kind == 0]
        assert all(page.crc is not None for page in pages)
        # Pages end at the first batch of values past the target, or at 20 000 rows; only the last may be short.
        assert not [page for page in pages[:-1] if page.size < tuned.page_bytes and page.values < 19_000], path
        assert all(page.size < 2 * tuned.page_bytes for page in pages), path
    encodings = {path: set(chunk.encodings) - {"RLE"} for path, chunk in chunks.items()}
    if level == 0:
        assert all(found == {"PLAIN"} for found in encodings.values())
    else:
        assert encodings == {
            "id": {"DELTA_BINARY_PACKED"},
            "at": {"DELTA_BINARY_PACKED"},
            "value": {"BYTE_STREAM_SPLIT"},
            "single": {"BYTE_STREAM_SPLIT"},
            "flag": set(),
            "kind": {"PLAIN", "RLE_DICTIONARY"},
            "day": {"DELTA_BINARY_PACKED"},
            "money": {"DELTA_BINARY_PACKED"},
            "body": {"PLAIN"},
            "tags.list.element": {"DELTA_BINARY_PACKED"},
            "_moulin_position": {"DELTA_BINARY_PACKED"},
        }
        stored = pq.read_table(pa.BufferReader(data), columns=["_moulin_position"]).column(0).to_numpy()
        assert (stored == np.arange(len(stored))).all()
        assert {page.encoding for page in page_headers(data, chunks["flag"])} == {3}
        assert chunks["kind"].has_dictionary_page
        assert not chunks["body"].has_dictionary_page


def test_a_dictionary_is_given_up_when_it_is_full_and_not_begun_when_values_differ() -> None:
    schema = Schema(
        NestedField(1, "full", StringType()),
        NestedField(2, "different", FixedType(8)),
        NestedField(3, "few", StringType()),
        NestedField(4, "none", StringType()),
    )
    rows = 60_000
    table = pa.table(
        {
            "full": [f"{n % 5000 if n < 20_000 else n:0120d}" for n in range(rows)],
            "different": pa.array([n.to_bytes(8, "big") for n in range(rows)], pa.binary(8)),
            "few": [f"{n % 5000}" for n in range(rows)],
            "none": pa.nulls(rows, pa.string()),
        },
        arrow_schema(schema),
    )
    data, _ = write(table, schema, 1)
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    pages = {group.column(at).path_in_schema: page_headers(data, group.column(at)) for at in range(4)}
    found = {path: {page.encoding for page in some if page.kind == 0} for path, some in pages.items()}
    assert found == {"full": {8, 0}, "different": {0}, "few": {8}, "none": {8}}
    assert SegmentReader(pa.BufferReader(data), schema).table().equals(table)


FACTS = Schema(
    NestedField(1, "long", LongType()),
    NestedField(2, "double", DoubleType()),
    NestedField(3, "single", FloatType()),
    NestedField(4, "text", StringType()),
    NestedField(5, "blob", BinaryType()),
    NestedField(6, "money", DecimalType(9, 2)),
    NestedField(7, "most", DecimalType(30, 3)),
    NestedField(8, "day", DateType()),
    NestedField(9, "instant", TimestamptzNanoType()),
    NestedField(10, "flag", BooleanType()),
    NestedField(11, "token", UUIDType()),
    NestedField(12, "person", StructType(NestedField(13, "height", DoubleType(), required=True))),
    NestedField(14, "scores", ListType(15, DoubleType(), element_required=False)),
)
INT64 = st.integers(-(2**63), 2**63 - 1)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


ROW = st.fixed_dictionaries(
    {
        "long": optional(INT64),
        "double": optional(st.floats()),
        "single": optional(st.floats(width=32)),
        "text": optional(st.text(max_size=20)),
        "blob": optional(st.binary(max_size=20) | st.just(b"\xff" * 17)),
        "money": optional(st.decimals("-9999999.99", "9999999.99", places=2)),
        "most": optional(st.integers(-(10**30) + 1, 10**30 - 1).map(lambda n: unscaled_to_decimal(n, 3))),
        "day": optional(st.dates()),
        "instant": optional(INT64),
        "flag": optional(st.booleans()),
        "token": optional(st.uuids()),
        "person": optional(st.fixed_dictionaries({"height": st.floats()})),
        "scores": optional(st.lists(optional(st.floats()), max_size=3)),
    }
)


def expected_bounds(values: list[Any], number: int) -> tuple[Any, Any]:
    """Plain minimum and maximum in the forms of bounds."""
    kept = [value for value in values if value is not None and value == value]
    if not kept:
        return None, None
    if number == 8:
        kept = [(value - date(1970, 1, 1)).days for value in kept]
    if number == 11:
        kept = [value.bytes for value in kept]
    low, high = min(kept), max(kept)
    return (truncate_lower(low), truncate_upper(high)) if number in (4, 5) else (low, high)


@given(st.lists(ROW, min_size=1, max_size=30), st.sampled_from([1, 200, 10**6]), st.sampled_from([0, 1]))
@settings(max_examples=60)
def test_facts_are_what_plain_python_finds(rows: list[dict[str, Any]], group_bytes: int, level: int) -> None:
    with tuned(group_bytes, level):
        data, written = write(pa.Table.from_pylist(rows, schema=arrow_schema(FACTS)), FACTS, level)
    facts = facts_of(written)
    metadata = pq.read_metadata(pa.BufferReader(data))
    assert metadata.num_row_groups == len(rows) if group_bytes == 1 else metadata.num_row_groups <= len(rows)
    columns = {field.field_id: [row[field.name] for row in rows] for field in FACTS.fields[:11]}
    columns[13] = [None if row["person"] is None else row["person"]["height"] for row in rows]
    for number, values in columns.items():
        kind = FACTS.find_field(number).field_type
        found = facts[number]
        assert found.values == len(rows)
        assert found.nulls == sum(value is None for value in values)
        floating = isinstance(kind, FloatType | DoubleType)
        assert found.nans == (sum(value != value for value in values) if floating else None)
        bounds = [None if data is None else bound_from_bytes(kind, data) for data in (found.lower, found.upper)]
        assert tuple(bounds) == expected_bounds(values, number), kind
        if floating and bounds[0] == 0:
            assert math.copysign(1, bounds[0]) == -1
        if floating and bounds[1] == 0:
            assert math.copysign(1, bounds[1]) == 1
    elements = [value for row in rows for value in row["scores"] or []]
    assert facts[15].nans == sum(value is not None and value != value for value in elements)
    assert (facts[15].lower, facts[15].upper) == (None, None)
    # What another reader finds in the footer alone is never tighter than the truth.
    for alone in footer_facts(metadata, FACTS):
        assert alone.lower in (None, facts[alone.field_id].lower)
        assert (alone.values, alone.nulls) == (facts[alone.field_id].values, facts[alone.field_id].nulls)


def test_sizes_of_columns_are_their_stored_bytes() -> None:
    data, written = write(everything(), EVERYTHING, 1)
    metadata = pq.read_metadata(pa.BufferReader(data))
    stored = [metadata.row_group(0).column(at).total_compressed_size for at in range(metadata.num_columns)]
    assert [facts.size for facts in written.columns] == stored[:-1]  # the stored position is none of the table's own


def test_footers_of_other_engines_give_facts_in_the_types_of_the_table(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "a", LongType()),
        NestedField(2, "b", DoubleType()),
        NestedField(3, "c", TimestampType()),
        NestedField(4, "d", TimestampNanoType()),
        NestedField(5, "e", TimestamptzType()),
        NestedField(6, "f", DecimalType(20, 2)),
        NestedField(7, "g", DoubleType()),
        NestedField(8, "h", DecimalType(20, 3)),
    )
    table = pa.table(
        {
            "a": pa.array([5, 3], pa.int32()),
            "b": pa.array([0.5, 0.25], pa.float32()),
            "c": pa.array([-1, 2], pa.timestamp("ms")),
            "d": pa.array([date(1970, 1, 2), date(1969, 12, 31)]),
            "e": pa.array([-1, 1001], pa.timestamp("ns", "UTC")),
            "f": pa.array([Decimal("1.28"), Decimal("-1.28")], pa.decimal128(4, 2)),
            "g": pa.array([float("nan"), float("nan")]),
            "h": pa.array([Decimal("1.28"), Decimal("-1.28")], pa.decimal128(4, 2)),
            "unknown": pa.array([1, 2]),
        }
    )
    ids = [1, 2, 3, 4, 5, 6, 7, 8, 99]
    fields = [field.with_metadata({"PARQUET:field_id": str(n)}) for field, n in zip(table.schema, ids, strict=True)]
    path = tmp_path / "other.parquet"
    pq.write_table(table.cast(pa.schema(fields)), path)
    facts = {one.field_id: one for one in footer_facts(pq.read_metadata(path), schema)}

    def bounds(number: int) -> tuple[Any, Any]:
        kind = schema.find_field(number).field_type
        low, high = facts[number].lower, facts[number].upper
        assert low is not None
        assert high is not None
        return bound_from_bytes(kind, low), bound_from_bytes(kind, high)

    assert set(facts) == {1, 2, 3, 4, 5, 6, 7, 8}
    assert bounds(1) == (3, 5)
    assert len(facts[1].lower or b"") == 8
    assert bounds(2) == (0.25, 0.5)
    assert bounds(3) == (-1000, 2000)
    assert bounds(4) == (-86_400 * 10**9, 86_400 * 10**9)
    assert bounds(5) == (-1, 2)  # rounded outwards
    assert bounds(6) == (Decimal("-1.28"), Decimal("1.28"))
    assert (facts[7].lower, facts[8].lower) == (None, None)


def test_a_column_whose_nulls_are_not_counted_has_no_facts() -> None:
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType(), required=True))
    sink = io.BytesIO()
    pq.write_table(pa.table([[1, 2], [3, 4]], schema=arrow_schema(schema)), sink, write_statistics=False)
    (only,) = footer_facts(pq.read_metadata(io.BytesIO(sink.getvalue())), schema)
    assert (only.field_id, only.values, only.nulls, only.lower) == (2, 2, 0, None)


def test_lineage_is_stored_and_its_range_told_apart_from_the_columns() -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    table = pa.table([[1, 2, 3], [10, 11, 12], [5, None, 9]], schema=arrow_schema(schema, lineage=True))
    data, written = write(table, schema, 1, lineage=True)
    assert (written.has_lineage, written.seq_min, written.seq_max) == (True, 5, 9)
    assert [facts.field_id for facts in written.columns] == [1]
    assert "field_id=2147483540 _row_id" in str(pq.ParquetFile(pa.BufferReader(data)).schema)
    nothing = table.set_column(2, table.schema.field(2), pa.nulls(3, pa.int64()))
    assert write(nothing, schema, 1, lineage=True)[1].seq_min is None


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (TimestamptzType(), [None, 7, -3], (-3000, 7000)),
        (TimestampNanoType(), [7, -3], (-3, 7)),
        (DateType(), [0, 1], (0, 2 * 86_400 * 10**9 - 1)),
        (TimestamptzType(), [None, None], (None, None)),
    ],
    ids=str,
)
def test_segment_facts_take_the_time_range_from_the_event_time(kind: Any, values: list[Any], expected: Any) -> None:
    schema = Schema(NestedField(1, "at", kind), schema_id=4)
    _, written = write(
        pa.table([pa.array(values, arrow_schema(schema).field(0).type)], schema=arrow_schema(schema)), schema, 2
    )
    facts = segment_facts(
        written,
        number=17,
        path="tables/x.parquet",
        level=2,
        schema_id=4,
        spec_id=3,
        partition=(b"p", None),
        event_time_field=schema.fields[0],
        sort_order_id=1,
    )
    assert (facts.time_min, facts.time_max) == expected
    assert (facts.number, facts.path, facts.level, facts.schema_id, facts.spec_id) == (17, "tables/x.parquet", 2, 4, 3)
    assert (facts.partition, facts.sort_order_id, facts.has_lineage) == ((b"p", None), 1, False)
    assert (facts.rows, facts.size, facts.sha256) == (written.rows, written.size, written.sha256)
    assert facts.columns == written.columns


SMALL = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))


def small(ids: list[int | None], names: list[Any]) -> pa.Table:
    return pa.Table.from_arrays([pa.array(ids, pa.int64()), pa.array(names, pa.string())], names=["id", "name"])


def test_a_segment_without_rows_is_refused() -> None:
    writer = SegmentWriter(io.BytesIO(), schema=SMALL, level=0)
    writer.write(small([], []))
    with pytest.raises(InvalidInput, match="at least one row"):
        writer.finish()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.table({"id": [1]}), r"columns \['id'\]"),
        (pa.table({"name": ["x"], "id": [1]}), "columns"),
        (pa.table({"id": ["1"], "name": ["x"]}), "Column 'id' has Arrow type string; the segment needs int64"),
        (small([1, 2, None], ["a", "b", "c"]), "Column 'id' is required, but row 2"),
    ],
    ids=["missing", "order", "type", "null"],
)
def test_rows_that_do_not_fit_are_refused(rows: pa.Table, message: str) -> None:
    sink = io.BytesIO()
    writer = SegmentWriter(sink, schema=SMALL, level=0)
    with pytest.raises(InvalidInput, match=message):
        writer.write(rows)
    with pytest.raises(Closed):
        writer.finish()
    assert sink.getvalue() == b""


def test_null_in_a_required_field_of_a_struct_is_refused() -> None:
    schema = Schema(NestedField(1, "person", StructType(NestedField(2, "name", StringType(), required=True))))
    kind = arrow_schema(schema).field(0).type
    rows = pa.table(
        [pa.StructArray.from_arrays([pa.array(["a", None])], fields=list(kind))], schema=arrow_schema(schema)
    )
    writer = SegmentWriter(io.BytesIO(), schema=schema, level=0)
    writer.write(rows)
    with pytest.raises(InvalidInput, match="'name'"):
        writer.finish()


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Level -1"):
        SegmentWriter(io.BytesIO(), schema=SMALL, level=-1)


class FailingSink(io.BytesIO):
    """Takes some bytes, then no more."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: Any) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("room", [0, 3 << 20])
def test_an_error_of_the_sink_reaches_the_caller_and_closes_the_writer(room: int) -> None:
    sink = FailingSink(room)
    writer = SegmentWriter(sink, schema=SMALL, level=0)
    rows = small(list(range(100_000)), ["x" * 50] * 100_000).cast(arrow_schema(SMALL))

    def everything() -> None:
        for _ in range(3):
            writer.write(rows)
        writer.finish()

    with pytest.raises(OSError, match="No space left"):
        everything()
    with pytest.raises(Closed):
        writer.write(rows)


def test_a_writer_that_is_dropped_or_aborted_adds_nothing_to_the_sink() -> None:
    rows = small(list(range(100_000)), ["x" * 50] * 100_000)

    def partial_file(abort: bool) -> int:
        sink = io.BytesIO()
        writer = SegmentWriter(sink, schema=SMALL, level=0)
        writer.write(rows)
        before = len(sink.getvalue())
        if abort:
            writer.abort()
        del writer
        assert len(sink.getvalue()) == before
        return before

    assert partial_file(abort=True) == partial_file(abort=False) > 0


def test_rows_in_tiny_batches_do_not_make_tiny_row_groups() -> None:
    table = small(list(range(5_000)), [os.urandom(4).hex() for _ in range(5_000)])
    data, _ = write(table, SMALL, 0, batch=3)
    assert pq.read_metadata(pa.BufferReader(data)).num_row_groups == 1
    assert pq.read_table(pa.BufferReader(data)).cast(table.schema).equals(table)


@pytest.mark.parametrize("text", ["moulin.footer_crc32\x18\x0800000000", "PAR1"], ids=["mark", "magic"])
def test_users_text_cannot_be_taken_for_the_checksum(text: str) -> None:
    schema = Schema(NestedField(1, "text", StringType()))
    table = pa.table([[text]], schema=arrow_schema(schema))
    data, _ = write(table, schema, 0, metadata={"note": text})
    assert SegmentReader(pa.BufferReader(data), schema).table().equals(table)


def test_bounds_of_long_text_are_truncated_but_still_around_it() -> None:
    schema = Schema(NestedField(1, "text", StringType()), NestedField(2, "blob", BinaryType()))
    table = pa.table([["é" * 40, "z" * 40], [b"\xff" * 40, b"a" * 40]], schema=arrow_schema(schema))
    text, blob = write(table, schema, 1)[1].columns
    assert (text.lower, text.upper) == (b"z" * 16, ("é" * 15 + "ê").encode())
    assert (blob.lower, blob.upper) == (b"a" * 16, None)
    assert bound_to_bytes(StringType(), "z" * 16) == text.lower


def test_a_column_with_a_huge_value_has_no_bounds() -> None:
    schema = Schema(NestedField(1, "text", StringType()))
    table = pa.table([["a" * 5000, "b"]], schema=arrow_schema(schema))
    (facts,) = write(table, schema, 1)[1].columns
    assert (facts.values, facts.nulls, facts.lower, facts.upper) == (2, 0, None, None)


def floats_of(**columns: Any) -> tuple[Schema, pa.Table]:
    fields = [NestedField(at, name, DoubleType(), required=False) for at, name in enumerate(columns, 1)]
    schema = Schema(*fields)
    return schema, pa.table(columns, schema=arrow_schema(schema))


def test_floats_that_hardly_compress_are_left_as_they_are() -> None:
    chosen = np.random.default_rng(1)
    schema, table = floats_of(
        noise=chosen.normal(size=20_000),
        grown=1e6 + np.arange(20_000) / 7,
        holes=[None if at % 3 else float(value) for at, value in enumerate(chosen.normal(size=20_000))],
        few=chosen.integers(0, 50, 20_000).astype(float),
    )
    data, written = write(table, schema, 1)
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    codecs = {group.column(at).path_in_schema: group.column(at).compression for at in range(group.num_columns)}
    assert codecs["noise"] == codecs["holes"] == "UNCOMPRESSED"
    assert codecs["grown"] == codecs["few"] == "ZSTD"
    assert "BYTE_STREAM_SPLIT" in group.column(0).encodings
    assert SegmentReader(pa.BufferReader(data), schema).table().equals(table)
    assert pq.read_table(pa.BufferReader(data)).drop_columns([STORED_POSITION]).equals(table)
    assert facts_of(written)[1].size > 8 * 20_000


@pytest.mark.parametrize("codec", ["zstd", "snappy"])
def test_a_codec_that_a_table_chose_is_that_of_all_columns(codec: str) -> None:
    schema, table = floats_of(noise=np.random.default_rng(1).normal(size=20_000))
    data, _ = write(table, schema, 1, settings=FileSettings(codec=codec))
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    assert {group.column(at).compression for at in range(group.num_columns)} == {codec.upper()}


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(width=64) | st.none(), min_size=1, max_size=50), st.integers(1, 200))
def test_floats_come_back_bit_by_bit_however_they_are_stored(values: list[float | None], times: int) -> None:
    noise = np.random.default_rng(times).normal(size=len(values) * times)
    schema, table = floats_of(values=pa.array(values * times, pa.float64()), noise=noise)
    data, _ = write(table, schema, 1)
    found = SegmentReader(pa.BufferReader(data), schema).table()
    for name in table.column_names:
        ours, theirs = table.column(name).combine_chunks(), found.column(name).combine_chunks()
        assert ours.is_valid().equals(theirs.is_valid())
        assert ours.drop_null().view(pa.int64()).equals(theirs.drop_null().view(pa.int64()))
