"""Bytes and JSON of one value are what pyiceberg's conversions make of it."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import conversions
from pyiceberg.utils.decimal import decimal_to_bytes as their_decimal_to_bytes

from moulin.model.schema.single_value import (
    decimal_to_bytes,
    from_bytes,
    from_json,
    to_bytes,
    to_json,
    unscaled_to_bytes,
)
from moulin.model.schema.times import text_to_nanos
from moulin.model.schema.values import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    LongType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)
from tests.model.referee import their_type
from tests.model.strategies import primitive_types, values


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[IcebergType, Any]:
    kind = draw(primitive_types())
    return kind, draw(values(kind))


@settings(deadline=None)
@given(typed_values())
def test_bytes_are_those_of_pyiceberg(made: tuple[IcebergType, Any]) -> None:
    kind, value = made
    data = to_bytes(kind, value)
    assert data == conversions.to_bytes(their_type(kind), value)
    stored = from_bytes(kind, data)
    assert stored == conversions.from_bytes(their_type(kind), data)
    assert to_bytes(kind, stored) == data


@settings(deadline=None)
@given(typed_values())
def test_json_is_that_of_pyiceberg(made: tuple[IcebergType, Any]) -> None:
    kind, value = made
    document = to_json(kind, value)
    assert document == conversions.to_json(their_type(kind), value)
    found = from_json(kind, document)
    assert found == conversions.from_json(their_type(kind), document) == value
    assert from_json(kind, found) == found


@settings(deadline=None)
@given(typed_values())
def test_json_may_be_made_of_what_bytes_hold(made: tuple[IcebergType, Any]) -> None:
    kind, value = made
    assert to_json(kind, from_bytes(kind, to_bytes(kind, value))) == to_json(kind, value)


@given(st.integers(-(2**130), 2**130))
def test_a_number_has_the_shortest_bytes(number: int) -> None:
    assert unscaled_to_bytes(number) == their_decimal_to_bytes(Decimal(number)) == decimal_to_bytes(Decimal(number))
    assert int.from_bytes(unscaled_to_bytes(number), "big", signed=True) == number


@pytest.mark.parametrize(("kind", "narrow", "value"), [(LongType(), "07000000", 7), (DoubleType(), "0000003f", 0.5)])
def test_bytes_from_before_a_column_was_widened(kind: IcebergType, narrow: str, value: float) -> None:
    assert from_bytes(kind, bytes.fromhex(narrow)) == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DateType(), "2024-02-29", date(2024, 2, 29)),
        (TimeType(), "01:02:03.000004", time(1, 2, 3, 4)),
        (TimestampType(), "1969-12-31T23:59:59.999999", datetime(1969, 12, 31, 23, 59, 59, 999999)),
        (UUIDType(), "f79c3e09-677c-4bbd-a479-3f349cb785e7", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
        (BinaryType(), "00ff", b"\0\xff"),
        (DecimalType(9, 2), "-14.20", Decimal("-14.20")),
        (TimestampNanoType(), "1970-01-01T00:00:00.000000007", 7),
    ],
)
def test_json_by_example(kind: IcebergType, text: str, value: Any) -> None:
    assert to_json(kind, value) == text
    assert from_json(kind, text) == value


def test_a_zone_other_than_utc_is_read_as_utc() -> None:
    assert str(from_json(TimestamptzType(), "2024-01-01T02:00:00+02:00")) == "2024-01-01 00:00:00+00:00"
    assert text_to_nanos("1970-01-01T02:00:00.5+02:00", zoned=True) == 500_000_000


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TimestampType(), "2024-01-01T00:00:00+00:00"),
        (TimestamptzType(), "2024-01-01T00:00:00"),
        (TimestampType(), "2024-01-01T00:00:00.1234567"),
        (TimestampNanoType(), "2024-01-01"),
        (FixedType(2), "00"),
    ],
)
def test_text_that_does_not_fit_is_refused(kind: IcebergType, text: str) -> None:
    with pytest.raises(ValueError, match="timestamp with|do not fit"):
        from_json(kind, text)


@pytest.mark.parametrize("kind", [UnknownType()])
def test_types_without_values_are_refused(kind: IcebergType) -> None:
    for make in (to_bytes, to_json, from_json):
        with pytest.raises(TypeError, match="type unknown have no"):
            make(kind, "x")
    assert from_bytes(kind, b"x") is None


def test_decimals_of_another_scale_have_no_bytes() -> None:
    with pytest.raises(ValueError, match="different scale"):
        to_bytes(DecimalType(9, 2), Decimal("1.5"))
    with pytest.raises(ValueError, match="different scale"):
        to_bytes(DecimalType(2, 1), Decimal("12.5"))
