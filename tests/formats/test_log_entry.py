from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats import log_entry
from moulin.formats.log_entry import EntryKind, decode, python_types
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "log_entry.md"

decimals = st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**29) + 1, max_value=10**29 - 1)
datetimes = st.datetimes().map(lambda value: value.replace(fold=0))
VALUES: dict[IcebergType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    DoubleType(): st.floats(allow_nan=False),
    DecimalType(38, 9): decimals,
    StringType(): st.text(max_size=20),
    BinaryType(): st.binary(max_size=20),
    UUIDType(): st.uuids(),
    DateType(): st.dates(),
    TimeType(): st.times().map(lambda value: value.replace(fold=0)),
    TimestampType(): datetimes,
    TimestamptzType(): datetimes.map(lambda value: value.replace(tzinfo=UTC)),
    TimestampNanoType(): st.integers(-(2**63), 2**63 - 1),
    ListType(100, DecimalType(38, 9), False): st.lists(st.none() | decimals, max_size=3),
    MapType(101, DateType(), 102, UUIDType(), False): st.dictionaries(st.dates(), st.none() | st.uuids(), max_size=3),
    StructType(NestedField(103, "a b", TimestampType()), NestedField(104, "c", ListType(105, BinaryType()))): (
        st.fixed_dictionaries({"a b": st.none() | datetimes, "c": st.none() | st.lists(st.binary(), max_size=2)})
    ),
}
FIELDS = [NestedField(number, f"c{number}", kind) for number, kind in enumerate(VALUES, 1)]
TYPES = python_types(FIELDS)
rows = st.tuples(*(st.none() | values for values in VALUES.values()))


@given(st.lists(rows, max_size=4), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
@settings(max_examples=100)
def test_rows_come_back_exactly(given_rows: list[tuple[Any, ...]], schema_id: int, epoch: int) -> None:
    entry = decode(log_entry.encode_rows(schema_id, given_rows, epoch))
    assert (entry.kind, entry.schema_id, entry.epoch, entry.count) == (
        EntryKind.ROWS, schema_id, epoch, len(given_rows),
    )  # fmt: skip
    found = entry.rows(TYPES)
    assert repr(found) == repr(given_rows)  # also the zeros of decimals, the sign of zero and the zone of times
    for row in given_rows:
        one = log_entry.encode_row(schema_id, row, epoch)
        assert one == log_entry.encode_rows(schema_id, [row], epoch)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (DecimalType(38, 0), Decimal("9" * 38)),
        (DecimalType(38, 38), Decimal("-0." + "9" * 38)),
        (DecimalType(9, 2), Decimal("-0.00")),
        (TimestampType(), datetime(1, 1, 1, 0, 0, 0, 1)),
        (TimestampType(), datetime.max),
        (TimestamptzType(), datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        (TimestamptzType(), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        (TimestamptzType(), datetime.max.replace(tzinfo=UTC)),
        (DateType(), date.min),
        (TimeType(), time(23, 59, 59, 999999)),
        (StringType(), "NaN and Infinity"),
        (BinaryType(), b"NaN\x00\xff"),
        (LongType(), -(2**63)),
        (UUIDType(), UUID(int=0)),
    ],
)
def test_values_at_the_ends_of_their_ranges_come_back(kind: IcebergType, value: Any) -> None:
    types = python_types([NestedField(1, "c", kind, required=True)])
    found = decode(log_entry.encode_row(1, (value,))).rows(types)
    assert repr(found) == repr([(value,)])


def test_floats_keep_nan_and_infinity() -> None:
    types = python_types([NestedField(1, "c", DoubleType())])
    [(nan,), (infinity,)] = decode(log_entry.encode_rows(1, [(float("nan"),), (float("-inf"),)])).rows(types)
    assert nan != nan
    assert infinity == float("-inf")


def test_a_zone_other_than_utc_is_stored_as_the_same_moment() -> None:
    moment = datetime(2024, 5, 1, 2, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    types = python_types([NestedField(1, "c", TimestamptzType())])
    assert decode(log_entry.encode_row(1, (moment,))).rows(types) == [(moment,)]


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity")])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"a": v}, lambda v: {v: 1}])
def test_decimals_that_are_no_numbers_are_refused(value: Decimal, wrap: Any) -> None:
    for encode in (
        lambda: log_entry.encode_row(1, (1, wrap(value))),
        lambda: log_entry.encode_rows(1, [(wrap(value),)]),
    ):
        with pytest.raises(InvalidInput, match="cannot be stored: use null"):
            encode()


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800", object(), 1 + 2j])
def test_values_that_msgpack_lacks_are_refused(value: object) -> None:
    for encode in (lambda: log_entry.encode_row(1, (value,)), lambda: log_entry.encode_keys(1, [(value,)])):
        with pytest.raises(InvalidInput, match="cannot be written to the log"):
            encode()


class Row(msgspec.Struct, array_like=True):
    id: int
    name: str


class Loose(msgspec.Struct):
    id: int


def test_structs_are_rows_if_they_are_arrays() -> None:
    row = Row(1, "NaN")
    assert log_entry.encode_row(1, row) == log_entry.encode_row(1, (1, "NaN"))
    assert log_entry.encode_rows(1, [row, row]) == log_entry.encode_rows(1, [(1, "NaN")] * 2)
    for wrong in (Loose(1), {"id": 1}, 1, "text"):
        with pytest.raises(InvalidInput, match="tuple or an array_like Struct"):
            log_entry.encode_row(1, wrong)
        with pytest.raises(InvalidInput, match="tuple or an array_like Struct"):
            log_entry.encode_rows(1, [wrong])


def test_keys_are_told_from_rows() -> None:
    types = python_types([NestedField(1, "id", LongType(), required=True)])
    entry = decode(log_entry.encode_keys(4, [(1,), (2,)], 9))
    assert (entry.kind, entry.schema_id, entry.epoch, entry.count) == (EntryKind.KEYS, 4, 9, 2)
    assert entry.rows(types) == [(1,), (2,)]


def test_batches_come_back_with_their_schema() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False, {"PARQUET:field_id": "1"}), ("tags", pa.list_(pa.string()))])
    batch = pa.record_batch({"id": [1, 2, 3], "tags": [["a"], None, []]}, schema)
    for encode, kind in (
        (log_entry.encode_row_batch, EntryKind.ROW_BATCH),
        (log_entry.encode_key_batch, EntryKind.KEY_BATCH),
    ):
        entry = decode(encode(2, batch, 5))
        assert (entry.kind, entry.schema_id, entry.epoch, entry.count) == (kind, 2, 5, 3)
        assert entry.batch().equals(batch, check_metadata=True)
        assert decode(encode(2, batch.slice(1, 1))).batch().equals(batch.slice(1, 1))
        with pytest.raises(InvalidInput, match="Arrow batch"):
            entry.rows(TYPES)
    with pytest.raises(InvalidInput, match="no Arrow batch"):
        decode(log_entry.encode_row(1, (1,))).batch()


def test_a_fence_holds_nothing() -> None:
    fence = log_entry.encode_fence(12)
    assert log_entry.is_fence(fence)
    assert not log_entry.is_fence(log_entry.encode_row(1, (1,)))
    entry = decode(fence)
    assert (entry.kind, entry.epoch, entry.count) == (EntryKind.FENCE, 12, 0)
    with pytest.raises(Corrupt, match="a fence, but holds rows"):
        decode(fence + b"x")


def test_headers_out_of_range_are_refused() -> None:
    for schema_id, epoch in ((-1, 0), (2**32, 0), (0, -1), (0, 2**64)):
        with pytest.raises(InvalidInput, match="No log entry can have"):
            log_entry.encode_row(schema_id, (1,), epoch)
    with pytest.raises(InvalidInput, match="too large for one entry"):
        log_entry.encode_rows(1, range(log_entry.MAX_ROWS + 1))


def test_bytes_that_are_not_an_entry_are_refused() -> None:
    with pytest.raises(Corrupt, match="it has 3 bytes|x has 3 bytes"):
        decode(b"\1\0\0", source="x")
    with pytest.raises(Unsupported, match="x is of kind 9"):
        decode(b"\x09" + bytes(15), source="x")
    two = log_entry.encode_rows(1, [(1,), (2,)])
    with pytest.raises(Corrupt, match="has 2 rows, but its header says 3"):
        decode(two[:1] + b"\3" + two[2:]).rows((int,))
    for types in ((str,), (int, int), ()):
        with pytest.raises(Corrupt, match="does not hold rows of its schema"):
            decode(two).rows(types)


@given(st.lists(rows, min_size=1, max_size=3), st.lists(st.tuples(st.integers(0), st.integers(1, 255))), st.integers(0))
@settings(max_examples=100)
def test_damaged_rows_raise_nothing_but_corrupt(
    given_rows: list[tuple[Any, ...]], flips: list[tuple[int, int]], cut: int
) -> None:
    payload = bytearray(log_entry.encode_rows(1, given_rows))
    for place, bits in flips:
        payload[place % len(payload)] ^= bits
    for data in (bytes(payload), bytes(payload[: cut % len(payload)])):
        _read(data)


@given(st.lists(st.tuples(st.integers(0), st.integers(1, 255)), max_size=4), st.integers(0), st.binary(max_size=60))
@settings(max_examples=100)
def test_damaged_batches_raise_nothing_but_corrupt(flips: list[tuple[int, int]], cut: int, garbage: bytes) -> None:
    batch = pa.record_batch({"id": [1, 2, None], "tags": [["a", "bc"], None, []], "raw": [b"x", b"", None]})
    payload = bytearray(log_entry.encode_row_batch(1, batch))
    for place, bits in flips:
        payload[place % len(payload)] ^= bits
    for data in (bytes(payload), bytes(payload[: cut % len(payload)]), bytes(payload[:16]) + garbage, garbage):
        _read(data)


def _read(data: bytes) -> None:
    try:
        entry = decode(data)
        if entry.kind in (EntryKind.ROWS, EntryKind.KEYS):
            assert len(entry.rows(TYPES)) == entry.count
        elif entry.kind is not EntryKind.FENCE:
            assert entry.batch().num_rows == entry.count
    except (Corrupt, Unsupported):
        pass


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    block = PAGE.read_text(encoding="utf-8").split("<!-- example -->")[1].split("```")[1]
    lines = [re.match(r"((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)", line) for line in block.splitlines()]
    data = bytes.fromhex(" ".join(match[1] for match in lines if match))
    moment = datetime(2024, 5, 1, 12, 0, 0, 250000, tzinfo=UTC)
    assert data == log_entry.encode_rows(2, [(1, "a", Decimal("9.50"), moment, date(2024, 5, 1), None)], 7)
