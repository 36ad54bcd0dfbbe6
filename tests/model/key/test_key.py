"""Keys: bytes that compare as the values do, one form of every value, and a clear no to what cannot be a key."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cmp_to_key
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.model.key.key import Key, successor, with_key
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import Schema

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.text("a\0b\x01\U0001f600", max_size=4)
_BYTES = st.binary(max_size=4) | st.lists(st.sampled_from([0, 1, 97, 254, 255]), max_size=4).map(bytes)
_DATETIMES = st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29))

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-3, 3),
    "long": st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3),
    "string": _TEXT,
    "binary": _BYTES,
    "date": st.dates(),
    "time": st.times(),
    "timestamp": _DATETIMES,
    "timestamptz": st.builds(lambda moment: moment.replace(tzinfo=UTC), _DATETIMES),
    "timestamp_ns": st.integers(-(1 << 63), (1 << 63) - 1),
    "timestamptz_ns": st.integers(-(1 << 63), (1 << 63) - 1),
    "decimal(9, 2)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    "decimal(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-10")),
    "uuid": st.uuids(),
    "fixed(3)": st.binary(min_size=3, max_size=3),
}


def key_of(kinds: list[str]) -> Key:
    schema = make_schema([(f"c{place}", kind) for place, kind in enumerate(kinds)])
    key = Key.of(with_key(schema, [f"c{place}" for place in range(len(kinds))]))
    assert key is not None
    return key


def as_bytes(value: Any) -> Any:
    """What Python compares as Moulin does: text by its bytes, UUIDs by theirs."""
    if isinstance(value, tuple):
        return tuple(map(as_bytes, value))
    return value.encode() if isinstance(value, str) else value.bytes if isinstance(value, UUID) else value


@st.composite
def keys(draw: st.DrawFn, least: int = 1) -> tuple[Key, list[Any]]:
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=least, max_size=4))
    one = KINDS[kinds[0]] if len(kinds) == 1 else st.tuples(*(KINDS[kind] for kind in kinds))
    return key_of(kinds), draw(st.lists(one, min_size=1, max_size=12))


def parts_of(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@settings(max_examples=300)
@given(keys())
def test_bytes_compare_as_values_do(case: tuple[Key, list[Any]]) -> None:
    key, values = case
    checked = [key.check(value) for value in values]
    encoded = [key.encode_one(value) for value in checked]
    for left, left_bytes in zip(checked, encoded, strict=True):
        for right, right_bytes in zip(checked, encoded, strict=True):
            assert (as_bytes(left) < as_bytes(right)) == (left_bytes < right_bytes)
            assert (left == right) == (left_bytes == right_bytes)


@settings(max_examples=300)
@given(keys())
def test_one_by_one_and_all_at_once_are_the_same(case: tuple[Key, list[Any]]) -> None:
    key, values = case
    checked = [key.check(value) for value in values]
    rows = key.to_table(checked)
    encoded = key.encode(rows)
    assert encoded.to_pylist() == [key.encode_one(value) for value in checked]
    if key.width is not None:
        assert encoded.type == pa.binary(key.width)
    assert key.values(rows) == checked
    assert key.encode(rows.slice(1)).to_pylist() == encoded.to_pylist()[1:], "a slice begins inside of a buffer"
    assert [key.check(value) for value in key.values(rows)] == checked


@settings(max_examples=200)
@given(keys(least=2), st.data())
def test_a_prefix_begins_exactly_the_keys_that_have_it(case: tuple[Key, list[Any]], data: st.DataObject) -> None:
    key, values = case
    checked = [key.check(value) for value in values]
    columns = data.draw(st.integers(1, len(key.fields) - 1))
    wanted = data.draw(st.sampled_from(checked))[:columns]
    prefix = key.encode_prefix(wanted)
    end = successor(prefix)
    for value in checked:
        encoded = key.encode_one(value)
        assert encoded.startswith(prefix) == (value[:columns] == wanted)
        assert (prefix <= encoded and (end is None or encoded < end)) == (value[:columns] == wanted)


@given(keys(), st.data())
def test_a_whole_key_is_a_prefix_too(case: tuple[Key, list[Any]], data: st.DataObject) -> None:
    key, values = case
    value = data.draw(st.sampled_from(values))
    assert key.encode_prefix(value) == key.encode_one(key.check(value))


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_the_successor_ends_what_begins_with_a_prefix(prefix: bytes, other: bytes) -> None:
    end = successor(prefix)
    assert (other >= prefix and (end is None or other < end)) == other.startswith(prefix)


def test_text_with_zeros_keeps_its_place_before_other_columns() -> None:
    key = key_of(["string", "long"])
    values = [("", 9), ("", 10), ("\0", -1), ("\0\0", 5), ("\0a", 0), ("\x01", 0), ("a", 1), ("a\0", 0), ("ab", 0)]
    encoded = [key.encode_one(value) for value in values]
    assert encoded == sorted(encoded)
    assert len(set(encoded)) == len(values)


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("timestamptz", datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamptz", "2024-01-01T02:00:00+02:00", datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamptz", "2024-01-01T00:00:00", datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamp_ns", datetime(1970, 1, 1, 0, 0, 1), 1_000_000_000),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("decimal(9, 2)", 5, Decimal("5.00")),
        ("decimal(9, 2)", Decimal("-0"), Decimal("0.00")),
        ("decimal(9, 2)", Decimal("1.5"), Decimal("1.50")),
        ("uuid", "0f8fad5b-d9cb-469f-a165-70867728950e", UUID("0f8fad5b-d9cb-469f-a165-70867728950e")),
        ("uuid", UUID(int=5).bytes, UUID(int=5)),
        ("binary", bytearray(b"x"), b"x"),
        ("string", "x", "x"),
        ("long", (7,), 7),
    ],
)
def test_a_value_has_one_form(kind: str, given: Any, stored: Any) -> None:
    found = key_of([kind]).check(given)
    assert found == stored
    assert type(found) is type(stored)
    assert key_of([kind]).encode_one(found) == key_of([kind]).encode_one(stored)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("int", True),
        ("int", 1 << 31),
        ("int", 1.0),
        ("int", "1"),
        ("long", 1 << 63),
        ("long", None),
        ("string", b"x"),
        ("string", "\ud800"),
        ("binary", "x"),
        ("fixed(3)", b"xx"),
        ("date", datetime(2024, 1, 1)),
        ("date", "soon"),
        ("time", "12:00"),
        ("time", time(12, tzinfo=UTC)),
        ("timestamp", datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamp", date(2024, 1, 1)),
        ("timestamptz", "now"),
        ("timestamptz", datetime(2024, 1, 1)),
        ("timestamptz_ns", datetime(2024, 1, 1)),
        ("timestamptz", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))),
        ("timestamp_ns", datetime(2300, 1, 1)),
        ("decimal(9, 2)", Decimal("1.005")),
        ("decimal(9, 2)", Decimal("1e7")),
        ("decimal(9, 2)", Decimal("NaN")),
        ("decimal(9, 2)", 1.5),
        ("uuid", "no uuid"),
        ("uuid", b"short"),
        ("uuid", 5),
        ("long", (1, 2)),
    ],
)
def test_what_does_not_fit_is_refused_and_named(kind: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="c0"):
        key_of([kind]).check(value)


@pytest.mark.parametrize("value", [1, (1,), (1, "a", 2), "ab", None, {"c0": 1}])
def test_a_key_of_two_columns_takes_pairs(value: Any) -> None:
    with pytest.raises(InvalidInput):
        key_of(["long", "string"]).check(value)


def test_a_key_of_two_columns_may_be_a_dict_or_list() -> None:
    key = key_of(["long", "string"])
    assert key.check({"c1": "a", "c0": 1}) == key.check([1, "a"]) == (1, "a")


@pytest.mark.parametrize("value", [(), (1, "a", 2), (None,), ("x",)])
def test_a_prefix_that_does_not_fit_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        key_of(["long", "string"]).encode_prefix(value)


@pytest.mark.parametrize("kind", ["float", "double", "list<int>", "map<string, int>", "struct<x: int>"])
def test_floats_and_nested_types_cannot_be_keys(kind: str) -> None:
    with pytest.raises(InvalidInput, match="c cannot be|cannot be a key"):
        with_key(make_schema([("c", kind)]), ["c"])


@pytest.mark.parametrize("names", [["nope"], ["a", "a"], "a"])
def test_key_columns_are_named_once_and_exist(names: Any) -> None:
    with pytest.raises(InvalidInput):
        with_key(make_schema([("a", "long"), ("b", "long")]), names)


def test_key_columns_become_required_and_keep_their_order() -> None:
    schema: Schema = with_key(make_schema([("a", "long"), ("b", "string"), ("c", "long")]), ["c", "b"])
    assert [field.required for field in schema.fields] == [False, True, True]
    key = Key.of(schema)
    assert key is not None
    assert key.names == ("c", "b")
    assert Key.of(make_schema([("a", "long")])) is None


def test_a_time_beyond_python_is_refused_not_changed() -> None:
    rows = pa.table({"c0": pa.array([1 << 60], pa.timestamp("us"))})
    with pytest.raises(InvalidInput):
        key_of(["timestamp"]).values(rows)


def test_the_order_of_arrow_is_that_of_the_bytes() -> None:
    """Segments are sorted by Arrow and searched by bytes."""
    key = key_of(["string", "decimal(9, 2)"])
    values = [("é", Decimal("1.00")), ("z", Decimal("-3.10")), ("z", Decimal("0.00")), ("\U0001f600", Decimal("2.00"))]
    rows = key.to_table([key.check(value) for value in values])
    by_arrow = rows.sort_by([("c0", "ascending"), ("c1", "ascending")])
    encoded = key.encode(by_arrow).to_pylist()
    assert encoded == sorted(encoded)
    assert sorted(values, key=cmp_to_key(lambda a, b: -1 if as_bytes(a) < as_bytes(b) else 1)) == list(
        zip(*by_arrow.to_pydict().values(), strict=True)
    )
