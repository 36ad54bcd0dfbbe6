"""array_contains in a `where`: Spark's three truth values, DuckDB as the referee where it has the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    Schema,
    StringType,
    StructType,
    UUIDType,
)
from moulin.model.where import parse_where

SCHEMA = Schema(
    NestedField(1, "i", ListType(2, IntegerType(), False)),
    NestedField(3, "s", ListType(4, StringType(), False)),
    NestedField(5, "d", ListType(6, DoubleType(), False)),
    NestedField(7, "f", ListType(8, FloatType(), False)),
    NestedField(9, "u", ListType(10, UUIDType(), False)),
    NestedField(11, "p", ListType(12, DecimalType(6, 2), False)),
    NestedField(13, "home", StructType(NestedField(14, "tags", ListType(15, StringType(), False)))),
    NestedField(16, "n", IntegerType()),
    NestedField(17, "deep", ListType(18, ListType(19, IntegerType()))),
    NestedField(20, "map", MapType(21, StringType(), 22, StringType())),
    NestedField(23, "three", ListType(24, IntegerType(), False, length=3)),
)
UID = UUID(int=7)

values = st.none() | st.integers(-1, 3)
lists = st.none() | st.lists(values, max_size=4)
texts = st.none() | st.lists(st.sampled_from([None, "", "a", "b", "it's"]), max_size=4)
doubles = st.none() | st.lists(st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, math.inf]), max_size=4)
rows_strategy = st.lists(st.fixed_dictionaries({"i": lists, "s": texts, "d": doubles}), max_size=12)
wanted_strategy = st.one_of(
    st.integers(-1, 4).map(lambda value: ("i", value, str(value))),
    st.sampled_from(["", "a", "c", "it's"]).map(lambda value: ("s", value, "'" + value.replace("'", "''") + "'")),
    st.sampled_from([0.0, 1.5, math.inf, math.nan]).map(lambda value: ("d", value, f"cast('{value}' as double)")),
)


def truth(found: list[Any] | None, value: Any) -> bool | None:
    """Spark's array_contains."""
    if found is None:
        return None
    if any(one == value or (one is not None and one != one and value != value) for one in found):
        return True
    return None if None in found else False


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    schema = arrow_schema(SCHEMA)
    columns = []
    for field in schema:
        given = [row.get(field.name) for row in rows]
        if field.name == "u":  # Arrow makes no lists of uuids from Python's
            flat = pa.array([value for found in given for value in found or ()], pa.binary(16))
            ends = [0, *accumulate(len(found or ()) for found in given)]
            uuids = pa.ExtensionArray.from_storage(pa.uuid(), flat)
            nulls = pa.array([found is None for found in given], pa.bool_())
            columns.append(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), uuids, type=field.type, mask=nulls))
        else:
            columns.append(pa.array(given, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def matches(where: str, rows: list[dict[str, Any]]) -> list[bool]:
    predicate = parse_where(where, SCHEMA)
    table = table_of(rows)
    found = [bit for batch in table.to_batches() for bit in predicate.mask(batch).to_pylist()]
    sent = Predicate(SCHEMA, predicate.condition, where)
    assert found == [bit for batch in table.to_batches(max_chunksize=5) for bit in sent.mask(batch).to_pylist()]
    return found


@settings(max_examples=60, deadline=None)
@given(rows_strategy, wanted_strategy, st.integers(0, 8))
def test_each_form_takes_the_rows_that_spark_takes(
    rows: list[dict[str, Any]], wanted: tuple[str, Any, str], form: int
) -> None:
    column, value, literal = wanted
    call = f"array_contains({column}, {literal})"
    truths = [truth(row[column], value) for row in rows]
    forms = {
        call: [found is True for found in truths],
        f"not {call}": [found is False for found in truths],
        f"{call} is null": [found is None for found in truths],
        f"{call} is not null": [found is not None for found in truths],
        f"{call} is true": [found is True for found in truths],
        f"{call} is not true": [found is not True for found in truths],
        f"{call} is not false": [found is not False for found in truths],
        f"{call} or {column} is null": [f is True or row[column] is None for f, row in zip(truths, rows, strict=True)],
        f"{call} and {column} is null": [False] * len(rows),
    }
    where, taken = list(forms.items())[form]
    assert matches(where, rows) == taken, where


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@settings(max_examples=40, deadline=None)
@given(rows=rows_strategy, wanted=wanted_strategy)
def test_duckdb_finds_the_same_rows(
    duck: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], wanted: tuple[str, Any, str]
) -> None:
    """It calls lists with nulls and without the value a mismatch, which only the negated form can tell apart."""
    table = table_of(rows).select(["i", "s", "d"]).append_column("n", pa.array(range(len(rows)), pa.int64()))
    duck.register("t", table)
    where = f"array_contains({wanted[0]}, {wanted[2]})"
    found = {at for (at,) in duck.execute(f"select n from t where {where}").fetchall()}
    assert {at for at, taken in enumerate(matches(where, rows)) if taken} == found


def test_values_take_the_type_of_the_elements() -> None:
    row = {"u": [UID.bytes], "f": [0.5, 0.1], "p": [None], "home": {"tags": ["x"]}, "three": [1, 2, 3], "i": [2, 1]}
    for where, taken in {
        f"array_contains(u, '{UID}')": True,
        f"not array_contains(u, '{UUID(int=8)}')": True,
        "array_contains(f, 0.5)": True,
        "array_contains(f, 0.1)": False,  # beside a double, as elsewhere
        "array_contains(home.tags, 'x')": True,
        "not array_contains(home.tags, 'y')": True,
        "array_contains(three, 2)": True,
        "array_contains(i, 2.0)": True,
        "array_contains(i, 1.5)": False,
        "not array_contains(i, 1.5)": True,
        "not array_contains(i, 1e30)": True,
        "not array_contains(p, 1e30)": False,
        "array_contains(p, 1.25)": False,
        "array_contains(i, null)": False,
        "array_contains(i, null) is null": True,
    }.items():
        assert matches(where, [row]) == [taken], where


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("array_contains(n, 1)", "column n is of type int"),
        ("array_contains(map, 'x')", "a column of lists"),
        ("array_contains(i, n)", "a literal"),
        ("array_contains(i, 'x')", "a number"),
        ("array_contains(deep, 1)", "cannot be compared"),
        ("array_contains(1, 1)", "a column of lists"),
        ("array_contains(i)", "cannot be read|array_contains"),
    ],
)
def test_what_is_not_a_list_or_no_element_is_refused(where: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_where(where, SCHEMA)


def test_a_summary_holds_no_element() -> None:
    assert (
        parse_where("not array_contains(s, 'secret') and n = 5", SCHEMA).outline()
        == "n = ? and not array_contains(s, ?)"
    )
