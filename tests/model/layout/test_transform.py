from __future__ import annotations

import uuid
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.model.layout.murmur3 import hash_bytes
from moulin.model.layout.partition_spec import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from moulin.model.layout.transform import hash_array, source_column, transform_array
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from tests.model.referee import their_transform, their_type

UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
TIMESTAMP = datetime(2017, 11, 16, 22, 31, 8)
NANOS = 1510871468000000000


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (IntegerType(), 34, 2017239379),
        (LongType(), 34, 2017239379),
        (DecimalType(9, 2), Decimal("14.20"), -500754589),
        (DecimalType(38, 2), Decimal("14.20"), -500754589),
        (DateType(), date(2017, 11, 16), -653330422),
        (TimeType(), time(22, 31, 8), -662762989),
        (TimestampType(), TIMESTAMP, -2047944441),
        (TimestamptzType(), TIMESTAMP, -2047944441),
        (TimestampType(), TIMESTAMP.replace(microsecond=1), -1207196810),
        (TimestampNanoType(), NANOS, -2047944441),
        (TimestampNanoType(), NANOS + 1001, -1207196810),
        (TimestamptzNanoType(), NANOS + 1999, -1207196810),
        (StringType(), "iceberg", 1210000089),
        (UUIDType(), UUID, 1488055340),
        (FixedType(4), b"\0\1\2\3", -188683207),
        (BinaryType(), b"\0\1\2\3", -188683207),
    ],
)
def test_hashes_are_those_of_the_specification(kind: IcebergType, value: Any, expected: int) -> None:
    array = pa.array([None, value, value], arrow_type(kind))
    assert hash_array(kind, array)[1:].astype(np.int32).tolist() == [expected, expected]
    assert hash_array(kind, array[2:]).astype(np.int32).tolist() == [expected]
    buckets = transform_array(BucketTransform(1_000_000), kind, array)
    assert buckets.type == pa.int32()
    assert buckets.to_pylist() == [None, *[(expected & 0x7FFFFFFF) % 1_000_000] * 2]


INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
DAYS = st.integers((date.min - date(1970, 1, 1)).days, (date.max - date(1970, 1, 1)).days)
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda n: Decimal(f"{n}e-{scale}"))


# Each type with values in the form that pyiceberg's transforms of one value take.
VALUES: list[tuple[IcebergType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), INT),
    (LongType(), LONG),
    (DoubleType(), st.floats(allow_nan=False)),
    (DecimalType(7, 2), decimals(7, 2)),
    (DecimalType(18, 0), decimals(18, 0)),
    (DecimalType(38, 10), decimals(38, 10)),
    (DateType(), DAYS),
    (TimeType(), st.integers(0, 86_399_999_999)),
    (TimestampType(), MICROS),
    (TimestamptzType(), MICROS),
    (TimestampNanoType(), LONG),
    (TimestamptzNanoType(), LONG),
    (StringType(), st.text(max_size=40)),
    (UUIDType(), st.uuids()),
    (FixedType(5), st.binary(min_size=5, max_size=5)),
    (BinaryType(), st.binary(max_size=300)),
]
TRANSFORMS: list[Transform] = [
    IdentityTransform(),
    VoidTransform(),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
    BucketTransform(1),
    BucketTransform(16),
    BucketTransform(2**31 - 1),
    TruncateTransform(1),
    TruncateTransform(3),
    TruncateTransform(1000),
    TruncateTransform(2**31 - 1),
]


def wrapped(kind: IcebergType, value: Any) -> Any:
    """Below the smallest int or long Java's arithmetic wraps around; Python's does not."""
    bits = {IntegerType: 32, LongType: 64}.get(type(kind))
    if bits is None or value is None:
        return value
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def physical(array: pa.Array) -> list[Any]:
    """Python values as pyiceberg's transforms give them: times are numbers."""
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return array.to_pylist()


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_equals_pyiceberg_value_by_value(
    kind: IcebergType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.none() | values, max_size=12))
    skip = data.draw(st.integers(0, len(rows)))
    array = pa.array(rows, arrow_type(kind))
    chunked = pa.chunked_array([array[:skip], array[skip:]], array.type)
    for transform in TRANSFORMS:
        if transform.can_transform(kind):
            result_type = transform.result_type(kind)
            expected = [
                wrapped(result_type, their_transform(transform).transform(their_type(kind))(row)) for row in rows
            ]
            result = transform_array(transform, kind, array)
            assert result.type == arrow_type(result_type)
            assert physical(result) == expected
            assert physical(transform_array(transform, kind, array[skip:])) == expected[skip:]
            assert physical(transform_array(transform, kind, chunked)) == expected


@pytest.mark.parametrize(
    ("transform", "moment", "expected"),
    [
        (YearTransform(), datetime(1969, 12, 31, 23, 59, 59, 999999), -1),
        (MonthTransform(), datetime(1969, 12, 31, 23, 59, 59, 999999), -1),
        (DayTransform(), datetime(1969, 12, 31, 23, 59, 59, 999999), -1),
        (HourTransform(), datetime(1969, 12, 31, 23, 59, 59, 999999), -1),
        (MonthTransform(), datetime(1967, 2, 28), -35),
        (YearTransform(), datetime(1, 1, 1), -1969),
        (DayTransform(), datetime(2017, 11, 16, 22), 17486),
    ],
)
def test_time_before_1970_rounds_down(transform: Transform, moment: datetime, expected: int) -> None:
    for kind, unit in ((TimestampType(), "us"), (TimestampNanoType(), "ns")):
        if unit == "ns" and moment.year == 1:
            continue
        array = pa.array([moment], pa.timestamp("us")).cast(pa.timestamp(unit))
        assert physical(transform_array(transform, kind, array)) == [expected]


def test_times_beyond_what_python_dates_can_hold_are_transformed() -> None:
    far = pa.array([2**62, -(2**63), None], pa.timestamp("us"))
    days = [2**62 // 86_400_000_000, -(2**63) // 86_400_000_000]
    assert physical(transform_array(DayTransform(), TimestampType(), far)) == [*days, None]
    assert transform_array(YearTransform(), TimestampType(), far).to_pylist() == [146138, -292278, None]
    with pytest.raises(InvalidInput, match="too far from 1970"):
        transform_array(HourTransform(), TimestampType(), pa.array([2**63 - 1], pa.timestamp("us")))


def test_truncated_strings_are_cut_between_code_points() -> None:
    array = pa.array(["a😀é€z", "", None, "é"])
    assert transform_array(TruncateTransform(3), StringType(), array).to_pylist() == ["a😀é", "", None, "é"]


def test_truncated_decimals_may_grow_by_a_digit() -> None:
    array = pa.array([Decimal("-99.99"), Decimal("10.65"), None], pa.decimal128(4, 2))
    cut = transform_array(TruncateTransform(50), DecimalType(4, 2), array)
    assert cut.to_pylist() == [Decimal("-100.00"), Decimal("10.50"), None]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=20) | st.sampled_from([b"x" * 255, b"y" * 256, b"z" * 257, b"w" * 5000])))
@example([b"z" * 257])
def test_bytes_of_any_length_are_hashed_as_murmur3_does(values: list[bytes]) -> None:
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    hashes = hash_bytes(np.frombuffer(b"".join(values), np.uint8), ends[:-1], np.diff(ends))
    assert hashes.tolist() == [mmh3.hash(value, 0, signed=False) for value in values]


def test_a_transform_that_does_not_apply_is_refused() -> None:
    with pytest.raises(InvalidInput, match="hour does not apply to values of type date"):
        transform_array(HourTransform(), DateType(), pa.array([1], pa.date32()))
    with pytest.raises(InvalidInput):
        transform_array(UnknownTransform(), LongType(), pa.array([1]))


def test_a_source_inside_a_struct_is_found() -> None:
    schema = make_schema([("a", StructType(NestedField(0, "b", LongType(), True))), ("l", "list<int>")])
    inner = schema.find_field("a.b").field_id
    table = pa.table({"a": pa.array([{"b": 7}, None]), "l": pa.array([[1], None])})
    assert source_column(table, schema, inner).to_pylist() == [7, None]
    with pytest.raises(InvalidInput):
        source_column(table, schema, schema.find_field("l.element").field_id)
