from __future__ import annotations

import math
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Corrupt, InvalidInput, NotFound
from moulin.model.layout.sort import parse_sort
from moulin.model.layout.sort_order import (
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortOrder,
    sort_from_json,
    sort_to_json,
)
from moulin.model.layout.sort_rows import is_sorted, sort_indices
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema

SCHEMA = make_schema(
    [
        ("ts", "timestamp"),
        ("region", "string"),
        ("n", "int"),
        ("x", "double"),
        ("f", "float"),
        ("b", "boolean"),
        ("at", "struct<hour: int>"),
        ("tags", "list<int>"),
        ("ts desc", "int"),
    ]
)


@pytest.mark.parametrize(
    ("text", "column", "direction", "nulls"),
    [
        ("ts", "ts", "asc", "nulls-first"),
        (" ts  ASC ", "ts", "asc", "nulls-first"),
        ("region desc", "region", "desc", "nulls-last"),
        ("ts nulls last", "ts", "asc", "nulls-last"),
        ("n DESC NULLS FIRST", "n", "desc", "nulls-first"),
        ("at.hour desc", "at.hour", "desc", "nulls-last"),
        ("ts desc", "ts desc", "asc", "nulls-first"),  # there is a column of that name
    ],
)
def test_sort_fields_are_read_from_text(text: str, column: str, direction: str, nulls: str) -> None:
    [field] = parse_sort([text], SCHEMA, order_id=3).fields
    assert SCHEMA.find_column_name(field.source_id) == column
    assert (field.direction, field.null_order) == (SortDirection(direction), NullOrder(nulls))


def test_no_fields_is_unsorted() -> None:
    assert parse_sort([], SCHEMA) == UNSORTED_SORT_ORDER
    assert parse_sort(["n"], SCHEMA).order_id == 1


@pytest.mark.parametrize(
    ("fields", "error", "reason"),
    [
        (["nope"], NotFound, "no column 'nope'"),
        (["ts descending"], NotFound, "no column 'ts descending'"),
        (["day(n)"], InvalidInput, "cannot be sorted by 'day\\(n\\)'"),
        (["bucket(16, n)", "bucket(16, n) desc"], InvalidInput, "names column n twice"),
        (["at"], InvalidInput, "cannot be sorted by at"),
        (["tags.element"], InvalidInput, "list or map"),
        (["n", "n desc"], InvalidInput, "names column n twice"),
        (["  "], InvalidInput, "A sort field must be text"),
        ([5], InvalidInput, "not 5"),
        ("ts", InvalidInput, r"use \['ts'\]"),
    ],
)
def test_impossible_sort_fields_are_refused(fields: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        parse_sort(fields, SCHEMA)


def test_sort_orders_survive_json() -> None:
    order = parse_sort(["ts desc nulls first", "region", "n desc"], SCHEMA, order_id=7)
    assert sort_from_json(sort_to_json(order)) == order
    assert sort_from_json(sort_to_json(UNSORTED_SORT_ORDER)) == UNSORTED_SORT_ORDER
    for text in ("", "{}", '{"order-id": 1, "fields": [{"transform": "identity"}]}', b"\xff"):
        with pytest.raises(Corrupt, match="sort order"):
            sort_from_json(text)


def test_rows_are_sorted_by_transforms_and_then_by_columns() -> None:
    order = parse_sort(["bucket(4, n) desc", "n"], SCHEMA)
    rows = pa.table({"n": pa.array([*range(40), None], pa.int32())})
    indices = sort_indices(rows, order, SCHEMA)
    assert indices is not None
    found = rows.take(pa.array(indices))["n"].to_pylist()
    buckets = [None if n is None else (mmh3.hash(n.to_bytes(8, "little", signed=True)) & 0x7FFFFFFF) % 4 for n in found]
    assert buckets[-1] is None
    assert [(-bucket, n) for bucket, n in zip(buckets[:-1], found[:-1], strict=True)] == sorted(
        (-bucket, n) for bucket, n in zip(buckets[:-1], found[:-1], strict=True)
    )
    assert sorted(found[:-1]) == list(range(40))


def compare_values(one: Any, other: Any) -> int:
    if isinstance(one, float) and isinstance(other, float):
        # NaN after all, -0.0 before 0.0
        one, other = ((True,) if math.isnan(x) else (False, x, math.copysign(1, x)) for x in (one, other))
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    return int(one > other) - int(one < other)


def expected_order(rows: list[dict[str, Any]], order: SortOrder) -> list[int]:
    def compare(one: int, other: int) -> int:
        for field in order.fields:
            a, b = (rows[place][SCHEMA.find_column_name(field.source_id) or ""] for place in (one, other))
            if a is None or b is None:
                found = (a is not None) - (b is not None)
                found = found if field.null_order is NullOrder.NULLS_FIRST else -found
            else:
                found = compare_values(a, b)
                found = found if field.direction is SortDirection.ASC else -found
            if found:
                return found
        return 0

    return sorted(range(len(rows)), key=cmp_to_key(compare))


FLOATS = st.sampled_from([math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5, None])
ROW = st.fixed_dictionaries(
    {
        "ts": st.none() | st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2)),
        "region": st.sampled_from([None, "", "eu", "us", "é", "\U0001f600", "\uffff"]),
        "n": st.none() | st.integers(-2, 2) | st.sampled_from([2**31 - 1, -(2**31)]),
        "x": FLOATS,
        "f": FLOATS,
        "b": st.none() | st.booleans(),
    }
)
ORDER = st.lists(
    st.tuples(
        st.sampled_from(["ts", "region", "n", "x", "f", "b"]),
        st.sampled_from(["", " asc", " desc"]),
        st.sampled_from(["", " nulls first", " nulls last"]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda field: field[0],
).map(lambda fields: ["".join(field).replace("ts desc", "ts  desc") for field in fields])


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, max_size=25), ORDER, st.integers(0, 25))
def test_rows_come_out_as_python_sorts_them(rows: list[dict[str, Any]], by: list[str], cut: int) -> None:
    order = parse_sort(by, SCHEMA)
    table = pa.Table.from_pylist(rows, schema=arrow_schema(SCHEMA))
    table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    expected = expected_order(rows, order)
    indices = sort_indices(table, order, SCHEMA)
    assert (list(range(len(rows))) if indices is None else indices.tolist()) == expected
    assert (indices is None) == (expected == list(range(len(rows)))) == is_sorted(table, order, SCHEMA)
    if indices is not None:
        assert indices.dtype == np.int64
        assert is_sorted(table.take(pa.array(indices)), order, SCHEMA)


OTHERS: list[tuple[str, list[Any]]] = [
    # type, values in order
    ("long", [-(2**63), -1, 0, 2**63 - 1]),
    ("decimal(38, 2)", [Decimal("-1.20"), Decimal("0.00"), Decimal("99999999999999999999.99")]),
    ("decimal(5, 1)", [Decimal("-1.2"), Decimal("10.0")]),
    ("date", [date(1969, 12, 31), date(2024, 1, 1)]),
    ("time", [time(1), time(2)]),
    ("timestamptz", [datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)]),
    ("timestamp_ns", [-1, 0, 1]),
    ("timestamptz_ns", [-1, 0, 1]),
    ("uuid", [uuid.UUID(int=1), uuid.UUID(int=2**127 - 1), uuid.UUID(int=2**127), uuid.UUID(int=2**128 - 1)]),
    ("fixed[2]", [b"\x00\xff", b"\x01\x00", b"\xff\x00"]),
    ("binary", [b"", b"\x00", b"\x00\x01", b"\xff"]),
    ("boolean", [False, True]),
]


@pytest.mark.parametrize(("kind", "values"), OTHERS, ids=[kind for kind, _ in OTHERS])
def test_values_of_every_type_sort(kind: str, values: list[Any]) -> None:
    schema = make_schema([("c", kind), ("place", "string")])
    shuffled = [values[-1], None, *values[:-1], values[-1]]
    table = pa.table(
        {"c": pa.array(shuffled, arrow_schema(schema).field("c").type), "place": list("abcdefgh"[: len(shuffled)])}
    )
    array = pa.array([None, *values, values[-1]], table["c"].type)
    for fields in (["c"], ["c", "place"]):
        order = parse_sort(fields, schema)
        indices = sort_indices(table, order, schema)
        assert indices is not None
        assert table.take(pa.array(indices))["c"].combine_chunks() == array
    order = parse_sort(["c desc"], schema)
    indices = sort_indices(table, order, schema)
    assert indices is not None
    assert table.take(pa.array(indices))["c"].to_pylist() == array.to_pylist()[::-1]
    assert indices[:2].tolist() == [0, len(shuffled) - 1]  # equal rows as they came


def test_null_structs_sort_as_nulls() -> None:
    table = pa.table(
        {"at": pa.array([{"hour": 2}, None, {"hour": None}, {"hour": 1}], arrow_schema(SCHEMA).field("at").type)}
    )
    indices = sort_indices(table, parse_sort(["at.hour"], SCHEMA), SCHEMA)
    assert indices is not None
    assert indices.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("keys", [["n"], ["n", "x"], ["region"], ["ts", "n"], ["ts desc nulls first", "n"]])
def test_a_single_row_out_of_place_among_many_is_noticed(keys: list[str]) -> None:
    """Past the rows that are looked at first, and where they meet the rest."""
    schema = make_schema([("ts", "timestamp"), ("region", "string"), ("n", "int"), ("x", "double")])
    order = parse_sort(keys, schema)
    count = 3000
    ascending = np.arange(count)
    down = keys[0].startswith("ts desc")
    for wrong in (None, 1, 1023, 1024, 1025, count - 1):
        places = ascending.copy()
        if wrong is not None:
            places[wrong - 1 : wrong + 1] = places[wrong - 1 : wrong + 1][::-1]
        table = pa.table(
            {
                "ts": pa.array(-places if down else places, pa.timestamp("us")),
                "region": [f"{place:06d}" for place in places],
                "n": pa.array(places, pa.int32()),
                "x": places.astype(np.float64),
            }
        )
        indices = sort_indices(table, order, schema)
        assert is_sorted(table, order, schema) == (wrong is None) == (indices is None)
        if indices is not None:
            assert table.take(pa.array(indices))["n"].to_pylist() == ascending.tolist()


def test_keys_too_wide_to_pack_into_one_number_are_sorted() -> None:
    schema = make_schema([("a", "long"), ("b", "long")])
    table = pa.table({"a": [2**63 - 1, -(2**63), -(2**63), 0], "b": [1, 2**63 - 1, -(2**63), 0]})
    indices = sort_indices(table, parse_sort(["a", "b desc"], schema), schema)
    assert indices is not None
    assert indices.tolist() == [1, 2, 3, 0]


def test_unsorted_tables_leave_rows_as_they_are() -> None:
    table = pa.table({"n": pa.array([2, 1], pa.int32())})
    assert sort_indices(table, UNSORTED_SORT_ORDER, SCHEMA) is None
    assert is_sorted(table, UNSORTED_SORT_ORDER, SCHEMA)
