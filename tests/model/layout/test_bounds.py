from __future__ import annotations

import struct
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Corrupt, InvalidInput
from moulin.model.layout.bounds import (
    INT64_MAX,
    INT64_MIN,
    bound_from_bytes,
    bound_to_bytes,
    lower_bound,
    time_range_ns,
    truncate_lower,
    truncate_upper,
    upper_bound,
)
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

DAY = 86_400 * 10**9
SAMPLE_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize(
    ("iceberg", "value", "data"),
    [
        (BooleanType(), True, "01"),
        (IntegerType(), -2, "feffffff"),
        (LongType(), 1, "0100000000000000"),
        (FloatType(), 1.5, "0000c03f"),
        (DoubleType(), -0.0, "0000000000000080"),
        (DateType(), -1, "ffffffff"),
        (TimeType(), 1, "0100000000000000"),
        (TimestampType(), -1, "ffffffffffffffff"),
        (TimestamptzNanoType(), 0x0102030405060708, "0807060504030201"),
        (StringType(), "häß", "68c3a4c39f"),
        (UUIDType(), SAMPLE_UUID.bytes, "f79c3e09677c4bbda4793f349cb785e7"),
        (FixedType(3), b"\x00\x01\xff", "0001ff"),
        (BinaryType(), b"", ""),
        (DecimalType(9, 2), Decimal("14.20"), "058c"),
        (DecimalType(9, 2), Decimal("-1.28"), "80"),
        (DecimalType(38, 0), Decimal(10**37), "0785ee10d5da46d900f436a000000000"),
    ],
    ids=str,
)
def test_values_have_the_bytes_of_the_specification(iceberg: PrimitiveType, value: Any, data: str) -> None:
    assert bound_to_bytes(iceberg, value).hex() == data
    assert bound_from_bytes(iceberg, bytes.fromhex(data)) == value


def test_python_dates_and_uuids_are_taken_too() -> None:
    instant = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert bound_to_bytes(DateType(), date(1969, 12, 31)) == bound_to_bytes(DateType(), -1)
    assert bound_to_bytes(TimestamptzType(), instant) == bound_to_bytes(TimestamptzType(), -1)
    assert bound_to_bytes(TimestampNanoType(), instant.replace(tzinfo=None)) == struct.pack("<q", -1000)
    assert bound_to_bytes(UUIDType(), SAMPLE_UUID) == SAMPLE_UUID.bytes


@pytest.mark.parametrize(
    ("old", "value", "new", "expected"),
    [
        (IntegerType(), -5, LongType(), -5),
        (FloatType(), 0.5, DoubleType(), 0.5),
        (DecimalType(4, 2), Decimal("-99.99"), DecimalType(20, 2), Decimal("-99.99")),
        (DateType(), -1, TimestampType(), -86_400 * 10**6),
        (DateType(), 1, TimestampNanoType(), DAY),
    ],
    ids=str,
)
def test_bounds_written_before_a_column_was_widened_are_read(
    old: PrimitiveType, value: Any, new: PrimitiveType, expected: Any
) -> None:
    assert bound_from_bytes(new, bound_to_bytes(old, value)) == expected


@pytest.mark.parametrize(
    ("iceberg", "value"),
    [
        (IntegerType(), 2**31),
        (LongType(), "x"),
        (DoubleType(), float("nan")),
        (DecimalType(4, 2), Decimal("1.234")),
        (DecimalType(4, 2), Decimal("100.00")),
        (DecimalType(4, 2), Decimal("Infinity")),
        (FixedType(3), b"ab"),
        (UUIDType(), b"short"),
        (StringType(), 5),
    ],
    ids=str,
)
def test_what_a_type_cannot_hold_is_invalid(iceberg: PrimitiveType, value: Any) -> None:
    with pytest.raises(InvalidInput):
        bound_to_bytes(iceberg, value)


@pytest.mark.parametrize(
    ("iceberg", "data"),
    [(LongType(), b"123"), (DoubleType(), b""), (StringType(), b"\xff"), (UUIDType(), b"x"), (DateType(), bytes(8))],
    ids=str,
)
def test_damaged_bounds_are_corrupt(iceberg: PrimitiveType, data: bytes) -> None:
    with pytest.raises(Corrupt, match=str(iceberg)):
        bound_from_bytes(iceberg, data)


@given(st.text(max_size=40), st.integers(1, 20))
def test_truncated_text_stays_around_its_value(text: str, length: int) -> None:
    lower, upper = truncate_lower(text, length), truncate_upper(text, length)
    assert len(lower) <= length
    assert lower.encode() <= text.encode()
    assert upper is None or (len(upper) <= length and upper.encode() >= text.encode())
    assert (upper is None) == (len(text) > length and set(text[:length]) == {"\U0010ffff"})


@given(st.binary(max_size=40) | st.lists(st.sampled_from([0xFE, 0xFF])).map(bytes), st.integers(1, 20))
def test_truncated_bytes_stay_around_their_value(data: bytes, length: int) -> None:
    lower, upper = truncate_lower(data, length), truncate_upper(data, length)
    assert len(lower) <= length
    assert lower <= data
    assert upper is None or (len(upper) <= length and upper >= data)
    assert (upper is None) == (len(data) > length and set(data[:length]) == {0xFF})


def test_growing_a_character_steps_over_the_surrogates() -> None:
    assert truncate_upper("\ud7ff" + "x", 1) == "\ue000"
    assert truncate_upper("a\U0010ffff\U0010ffffz", 3) == "b"


@given(st.floats())
@settings(max_examples=50)
def test_floats_are_never_bounded_by_nan_and_zeros_lie_between_both(value: float) -> None:
    low, high = lower_bound(DoubleType(), value), upper_bound(DoubleType(), value)
    if value != value:
        assert low is None
        assert high is None
    elif value == 0:
        assert low == struct.pack("<d", -0.0)
        assert high == struct.pack("<d", 0.0)
    else:
        assert low == high == struct.pack("<d", value)


def test_bounds_of_text_are_cut_to_sixteen_characters() -> None:
    assert lower_bound(StringType(), "ü" * 17) == ("ü" * 16).encode()
    assert upper_bound(StringType(), "ü" * 17) == ("ü" * 15 + "ý").encode()
    assert upper_bound(BinaryType(), b"\xff" * 17) is None
    assert upper_bound(FixedType(17), b"\xff" * 17) == b"\xff" * 17


def test_time_ranges_are_exact_instants_and_whole_days() -> None:
    def span(iceberg: PrimitiveType, low: int, high: int) -> tuple[int, int]:
        return time_range_ns(iceberg, bound_to_bytes(iceberg, low), bound_to_bytes(iceberg, high))

    assert span(TimestampType(), -1, 7) == (-1000, 7000)
    assert span(TimestamptzNanoType(), -1, 7) == (-1, 7)
    assert span(DateType(), -1, 0) == (-DAY, DAY - 1)
    assert span(TimestampType(), INT64_MIN, INT64_MAX) == (INT64_MIN, INT64_MAX)
    assert span(DateType(), -(2**31), 2**31 - 1) == (INT64_MIN, INT64_MAX)
    with pytest.raises(InvalidInput, match="cannot be the event time"):
        span(LongType(), 0, 1)
