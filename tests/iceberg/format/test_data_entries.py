"""Entries that are encoded by hand read as what a general Avro writer makes of them."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from moulin.formats import manifest as codec
from moulin.iceberg.format.avro import manifest_schema, read_avro, write_avro
from moulin.iceberg.format.data_entries import DataEntryEncoder, avro_file, long
from moulin.model.facts import ColumnFacts, SegmentFacts
from moulin.model.schema.values import DateType, DoubleType, IntegerType, LongType, NestedField, Schema, StringType

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "amount", DoubleType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "small", IntegerType()),
)
PARTITION = [(1000, "day", DateType()), (1001, "a b", StringType())]


def facts(n: int, seed: random.Random) -> SegmentFacts:
    columns = (
        ColumnFacts(1, n, 0, None, seed.getrandbits(40), struct.pack("<q", -n), struct.pack("<q", n)),
        ColumnFacts(2, n, n // 2, seed.choice([0, 3]), 8, None, None),
        ColumnFacts(3, n, n, None, 0, b"", "ü".encode()),
    )
    offsets = seed.choice([(), (4, 70_000, 1 << 33)])
    return SegmentFacts(n, f"tables/t/data/{n}.parquet", n, n * 7, 0, 0, 0, (), b"", columns, split_offsets=offsets)


def record(one: SegmentFacts, partition: dict[str, Any], added: bool, format_version: int) -> dict[str, Any]:
    columns = one.columns
    made = {
        "content": 0,
        "file_path": f"s3://b/{one.path}",
        "file_format": "PARQUET",
        "partition": partition,
        "record_count": one.rows,
        "file_size_in_bytes": one.size,
        "column_sizes": [{"key": c.field_id, "value": c.size} for c in columns],
        "value_counts": [{"key": c.field_id, "value": c.values} for c in columns],
        "null_value_counts": [{"key": c.field_id, "value": c.nulls} for c in columns],
        "nan_value_counts": [{"key": c.field_id, "value": c.nans} for c in columns if c.nans is not None],
        "lower_bounds": [{"key": c.field_id, "value": c.lower} for c in columns if c.lower is not None],
        "upper_bounds": [{"key": c.field_id, "value": c.upper} for c in columns if c.upper is not None],
        "split_offsets": list(one.split_offsets) or None,
        "sort_order_id": one.sort_order_id,
    }
    if format_version >= 3:
        made["first_row_id"] = None if added else 5
    return made


@pytest.mark.parametrize("format_version", [2, 3])
def test_entries_equal_those_of_a_general_writer(format_version: int) -> None:
    seed = random.Random(7)
    schema = manifest_schema(PARTITION, format_version)
    encoder = DataEntryEncoder(SCHEMA, schema["fields"][-1]["type"]["fields"][3]["type"], format_version)
    partitions = [{"day": 19_000, "a_x20b": "x"}, {"day": None, "a_x20b": None}]
    encoded, records = [], []
    for n in [0, 1, 63, 64, 1_000_000, *range(2, 700)]:
        one, partition, added = facts(n, seed), seed.choice(partitions), seed.random() < 0.5
        columns = codec.encode_columns(one.columns, one.split_offsets)
        numbers = (None, None) if added else (9, 5)
        where = f"s3://b/{one.path}"
        encoded.append(encoder.encode(int(added), 1 << 62, numbers[0], where, partition, one, columns, numbers[1]))
        records.append(
            {
                "status": int(added),
                "snapshot_id": 1 << 62,
                "sequence_number": numbers[0],
                "file_sequence_number": numbers[0],
                "data_file": record(one, partition, added, format_version),
            }
        )
    made, header = read_avro(avro_file(schema, encoded, {"content": "data"}), "made")
    expected, _ = read_avro(write_avro(schema, records, {}), "expected")
    assert made == expected
    assert header["content"] == "data"


def test_bounds_follow_the_schema() -> None:
    schema = manifest_schema([], 3)
    encoder = DataEntryEncoder(SCHEMA, schema["fields"][-1]["type"]["fields"][3]["type"], 3)
    columns = codec.encode_columns(
        [
            ColumnFacts(1, 1, 0, None, 0, struct.pack("<i", -7), struct.pack("<i", 7)),  # was an int
            ColumnFacts(2, 1, 0, 0, 0, struct.pack("<f", 0.5), struct.pack("<f", 0.5)),  # was a float
            ColumnFacts(4, 1, 0, None, 0, struct.pack("<q", 1), struct.pack("<q", 1)),  # was a long before a restore
        ],
        (),
    )
    one = SegmentFacts(1, "p", 1, 1, 0, 0, 0, (), b"")
    (entry,), _ = read_avro(avro_file(schema, [encoder.encode(0, 1, 1, "p", {}, one, columns, 0)], {}), "made")
    lower = {pair["key"]: pair["value"] for pair in entry["data_file"]["lower_bounds"]}
    assert lower == {1: struct.pack("<q", -7), 2: struct.pack("<d", 0.5)}


@pytest.mark.parametrize("nans", [1, None])
def test_a_float_that_may_be_nan_has_no_bounds(nans: int | None) -> None:
    """Engines for which NaN is the greatest number would skip the file."""
    schema = manifest_schema([], 3)
    encoder = DataEntryEncoder(SCHEMA, schema["fields"][-1]["type"]["fields"][3]["type"], 3)
    half = struct.pack("<d", 0.5)
    columns = codec.encode_columns([ColumnFacts(2, 2, 0, nans, 0, half, half)], ())
    one = SegmentFacts(1, "p", 2, 1, 0, 0, 0, (), b"")
    (entry,), _ = read_avro(avro_file(schema, [encoder.encode(0, 1, 1, "p", {}, one, columns, 0)], {}), "made")
    assert (entry["data_file"]["lower_bounds"], entry["data_file"]["upper_bounds"]) == ([], [])


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), ((1 << 63) - 1, "fe" + "ff" * 8 + "01")],
)
def test_longs_are_encoded_as_avro_has_them(value: int, bytes_: str) -> None:
    assert long(value) == bytes.fromhex(bytes_)
