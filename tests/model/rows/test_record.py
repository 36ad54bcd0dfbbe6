"""The fast check of single rows takes exactly what `model.rows` takes, and makes the same of it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.model.rows.nano_datetime import NanoDatetime, SingleRows, to_rows
from moulin.model.rows.record import RecordType
from moulin.model.rows.rows import to_batches
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.change import AddColumn
from moulin.model.schema.evolution import apply_changes
from moulin.model.schema.schema import make_schema
from moulin.model.schema.type_reader import to_type


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Moment(datetime):
    pass


ZONE = timezone(timedelta(hours=2))
SIMPLE = ["boolean", "int", "long", "double", "string", "binary", "date", "time", "timestamp", "timestamptz", "uuid"]
KINDS = [
    *SIMPLE, "float", "decimal(9, 2)", "decimal(38, 0)", "decimal(3, 3)", "timestamp_ns", "timestamptz_ns", "fixed(1)",
    "list<int>", "list<float>", "list<list<decimal(4, 1)>>", "list<timestamp_ns>", "list<uuid>", "list<timestamptz>",
    "struct<a: long, b: list<string>>", "struct<a: timestamptz_ns>", "map<string, long>", "map<float, int>",
    "map<timestamp_ns, struct<a: date>>",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1,
    0.0, 1.5, -0.0, 2.0, float("inf"), float("nan"), "", "x", "1", "true", "é\0", "\ud800", "aGVsbG8=", "2024-02-29",
    "2024-02-30", "2024-01-01T00:00:00", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.1234567",
    "2024-01-01T00:00:00+02:00", "2024-01-01 00:00:00", "0f8fad5b-d9cb-469f-a165-70867728950e",
    "0f8fad5bd9cb469fa16570867728950e", "{0f8fad5b-d9cb-469f-a165-70867728950e}", b"", b"x", b"\0" * 16,
    bytearray(b"x"),
    memoryview(b"x"), date(2024, 2, 29), date.min, datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1),
    datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=ZONE), datetime.min, datetime.max, time(1, 2),
    timedelta(1), Decimal(1), Decimal("1.5"), UUID(int=5), [], [1], {}, {"a": 1}, (1,), {1}, object(), np.int64(5),
    np.float64(1.5), np.bool_(True), np.str_("x"), np.bytes_(b"x"), np.datetime64("2024-01-01"), pd.Timestamp(0),
    pd.Timestamp(1), pd.Timestamp(0, tz="UTC"), pd.NaT, Number.ONE, Text("x"), 1 + 2j,
    1e39, -1e39, 3.4028235677973366e38, 3.4028235677973362e38, 1e-50, 0.1, 2**24, 2**24 + 1, 1e300,
    Decimal("-0.00"), Decimal("1.50"), Decimal("1.500"), Decimal("1.005"), Decimal("NaN"), Decimal("Infinity"),
    Decimal("1E+3"), Decimal("1E+7"), Decimal("9999999.99"), Decimal("99999999.99"), Decimal("0E-30"), Decimal("0E+9"),
    Decimal("0.999"), Decimal("-0.001"), Decimal(10) ** 37, Decimal(10) ** 38, 10**37, 10**38, 9999999, 10**7,
    time(1, 2, 3, 4, tzinfo=UTC), time(1, fold=1), time.max, date.max, datetime(2262, 4, 12), datetime(1677, 9, 21),
    datetime(2200, 1, 1, tzinfo=ZONE), NanoDatetime.of(1, zoned=False), NanoDatetime.of(-1, zoned=True), Moment.min,
    NanoDatetime.of(1000, zoned=True), [1, None], [True], [1, 2.5], [2.5, 0.1], [1, "x"], ["x"], [1e39], [2**40],
    [[Decimal("1.5")], None, []], [[Decimal("1.55")]], [datetime(2024, 1, 1), None], [datetime(2024, 1, 1, tzinfo=UTC)],
    [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1)], [UUID(int=1), None], [date(2024, 1, 1)], ["2024-01-01"],
    (2, 3), range(3), np.array([1, 2]), np.array([0.1, 0.2]), np.array([1.5], "float32"), np.array([[1]]),
    np.array(["x"]), np.array([1], "uint8"), np.array([True]), {"a": None}, {"b": ["x"]}, {"a": 1, "b": []},
    {"a": 1, "c": 2}, {"a": "1"}, {"a": datetime(2024, 1, 1, tzinfo=UTC)}, {1: 2}, {"x": 5, "y": None}, {"x": 1.5},
    {0.1: 1, 0.25: None}, {0.1: 1, 0.10000000149011612: 2}, {float("nan"): 1}, [("x", 5)], [("x", 5), ("x", 6)],
    [("x", 5), ["y", 6]], {None: 1}, {datetime(2024, 1, 1): {"a": date(2024, 1, 1)}}, {datetime(2024, 1, 1): None},
    {datetime(2024, 1, 1): {}}, {datetime(2024, 1, 1): {"a": datetime(2024, 1, 1)}},
]  # fmt: skip


def is_same_moment(fast: dict[str, Any], slow: list[dict[str, Any]]) -> bool:
    """Arrow gives times in UTC, and the fast check keeps the zone they came with."""
    return fast == slow[0]


def by_rows(row: Any, schema: Any) -> pa.Table | None:
    try:
        return pa.Table.from_batches(to_batches([row], schema), arrow_schema(schema))
    except InvalidInput:
        return None


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_fast_check_takes_the_slow_one_takes_as_the_same(kind: str, required: bool) -> None:
    schema = make_schema([("c", kind, not required)])
    record = RecordType(schema)
    assert record.is_simple == (kind in SIMPLE)
    assert record.is_fast
    taken = 0
    for value in VALUES:
        fast = record.check({"c": value})
        if fast is None or fast == ("\ud800",):  # which nothing can encode: the log refuses it
            continue
        taken += 1
        slow = by_rows({"c": value}, schema)
        try:
            made = record.to_arrow([fast])
        except pa.ArrowException as error:
            pytest.fail(f"{value!r} was taken and cannot be stored: {error}")
        assert slow is not None, f"{value!r} is taken by the fast check alone"
        assert str(made.to_pydict()) == str(slow.to_pydict()), f"{value!r} is stored as two different things"
        assert made.schema == slow.schema
        assert str(record.to_dict(fast)) == str(to_rows(made)[0]) or is_same_moment(record.to_dict(fast), to_rows(made))
    assert taken >= 1, "plain values need no closer look"


@settings(max_examples=100)
@given(
    st.fixed_dictionaries(
        {
            "b": st.booleans() | st.none(),
            "l": st.integers(-(2**63), 2**63 - 1),
            "d": st.floats(-(2.0**52), 2.0**52) | st.none(),
        },
        optional={
            "s": st.text(st.characters(exclude_categories=["Cs"])) | st.none(),
            "x": st.binary() | st.none(),
            "t": st.datetimes(timezones=st.just(UTC)) | st.none(),
        },
    )
)
def test_rows_of_several_columns_are_checked_as_arrow_does(row: dict[str, Any]) -> None:
    kinds = [("b", "boolean"), ("l", "long", False), ("d", "double"), ("s", "string"), ("x", "binary")]
    schema = make_schema([*kinds, ("t", "timestamptz")])
    record = RecordType(schema)
    fast = record.check(row)
    assert fast is not None
    slow = by_rows(row, schema)
    assert slow is not None
    assert str(record.to_arrow([fast]).to_pydict()) == str(slow.to_pydict())
    assert str(record.to_dict(fast)) == str({name: row.get(name) for name in record.names})
    assert record.check_all([row, row]) == [fast, fast]


@pytest.mark.parametrize(
    "row", [{}, {"b": "x"}, {"a": 1, "c": 2}, {"a": None}, [("a", 1)], 5, None, "a", {"a": 1, 2: 3}]
)
def test_what_needs_a_closer_look_is_not_judged(row: Any) -> None:
    record = RecordType(make_schema([("a", "long", False), ("b", "string")]))
    assert record.check(row) is None
    assert record.check_all([{"a": 1}, row]) is None


def test_maps_whose_keys_no_dict_can_hold_go_through_arrow() -> None:
    assert not RecordType(make_schema([("a", "long"), ("c", "map<list<int>, int>")])).is_fast


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("boolean", True),
        ("int", 5),
        ("double", 1.5),
        ("string", "x"),
        ("binary", b"x"),
        ("date", date(2024, 2, 29)),
        ("timestamp", datetime(2024, 1, 1, 2)),
        ("timestamptz", datetime(2024, 1, 1, 2, tzinfo=UTC)),
        ("uuid", UUID(int=7)),
        ("time", time(1, 2, 3)),
        ("float", 1.5),
        ("decimal(5, 2)", Decimal("1.50")),
        ("fixed(2)", b"ab"),
        ("timestamp_ns", NanoDatetime.of(1_700_000_000_123_456_789, zoned=False)),
        ("timestamptz_ns", NanoDatetime.of(-1, zoned=True)),
    ],
)
@pytest.mark.parametrize("required", [True, False])
def test_a_missing_column_has_its_default(kind: str, default: Any, required: bool) -> None:
    change = AddColumn("c", to_type(kind, "c"), default, required, None)
    schema, _ = apply_changes(make_schema([("a", "long", False)]), 1, [change], schema_id=1)
    record = RecordType(schema)
    fast, slow = record.check({"a": 1}), by_rows({"a": 1}, schema)
    assert slow is not None
    assert to_rows(slow) == [{"a": 1, "c": default}]
    assert fast is not None
    assert record.to_dict(fast) == {"a": 1, "c": default}
    assert record.to_arrow([fast]).equals(slow)
    none, slowly = record.check({"a": 1, "c": None}), by_rows({"a": 1, "c": None}, schema)
    assert (slowly is None) == required
    assert none is None if required else none == (1, None)


def test_a_missing_field_of_a_struct_has_its_default_in_nanoseconds() -> None:
    change = AddColumn("s.c", to_type("timestamptz_ns", "c"), NanoDatetime.of(1, zoned=True), False, None)
    schema, _ = apply_changes(make_schema([("a", "long", False), ("s", "struct<b: int>")]), 3, [change], schema_id=1)
    record, row = RecordType(schema), {"a": 1, "s": {"b": 2}}
    fast, slow = record.check(row), by_rows(row, schema)
    assert fast is not None
    assert slow is not None
    assert to_rows(slow) == [record.to_dict(fast)] == [{"a": 1, "s": {"b": 2, "c": NanoDatetime.of(1, zoned=True)}}]
    assert record.to_arrow([fast]).equals(slow)


@pytest.mark.parametrize("kind", KINDS)
def test_single_rows_of_a_batch_are_those_of_the_whole(kind: str) -> None:
    schema = make_schema([("a", "long", False), ("c", kind)])
    rows = [found for number, value in enumerate(VALUES) if (found := by_rows({"a": number, "c": value}, schema))]
    whole = pa.concat_tables(rows).combine_chunks()
    for batch in (part.to_batches()[0] for part in (whole, whole.slice(1), whole.slice(whole.num_rows - 1))):
        one_by_one = [SingleRows(batch).row(index) for index in range(batch.num_rows)]
        assert repr(one_by_one) == repr(to_rows(batch))
