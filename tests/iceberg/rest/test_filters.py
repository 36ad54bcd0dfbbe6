"""Filters of scan requests as conditions. Referees: pyiceberg's evaluation of them, and a `where` in text."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyiceberg.expressions as ice
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.typedef import Record

from moulin.errors import InvalidInput
from moulin.iceberg.format.pyiceberg_values import to_pyiceberg_schema
from moulin.iceberg.rest.scan.filter import read_filter
from moulin.model.predicate.condition import TRUE, Condition
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema
from moulin.model.where import parse_where

SCHEMA = make_schema(
    [("l", "long"), ("g", "double"), ("s", "string"), ("d", "date"), ("ts", "timestamp"), ("y", "binary")]
)
# Values of rows as Iceberg keeps them: dates are days, timestamps microseconds.
ROWS: dict[str, list[Any]] = {
    "l": [None, -3, 0, 1, 2**62],
    "g": [None, math.nan, -0.0, 1.5, math.inf],
    "s": [None, "", "a", "ab", "a%b", "it's", "\\"],
    "d": [None, -1, 0, 19_000],
    "ts": [None, -1, 0, 1_700_000_000_123_456],
    "y": [None, b"", b"\x00\xff"],
}
COMPARISONS: dict[str, tuple[str, Any]] = {
    "lt": ("<", ice.LessThan),
    "lt-eq": ("<=", ice.LessThanOrEqual),
    "gt": (">", ice.GreaterThan),
    "gt-eq": (">=", ice.GreaterThanOrEqual),
    "eq": ("=", ice.EqualTo),
    "not-eq": ("<>", ice.NotEqualTo),
}
UNARY: dict[str, Any] = {"is-null": ice.IsNull, "not-null": ice.NotNull, "is-nan": ice.IsNaN, "not-nan": ice.NotNaN}


def wire(column: str, value: Any) -> Any:
    """A value as engines send it."""
    return value.hex() if isinstance(value, bytes) else value


def iceberg(column: str, value: Any) -> Any:
    """A value as pyiceberg's expressions take it."""
    if column == "d":
        return date.fromordinal(719_163 + value)
    return datetime.fromtimestamp(value / 1e6, UTC).replace(tzinfo=None).isoformat() if column == "ts" else value


def values_of(column: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([v for v in ROWS[column] if v is not None and not (column == "g" and not math.isfinite(v))])


@st.composite
def leaves(draw: st.DrawFn) -> tuple[Any, Any]:
    """A filter, and what it is to pyiceberg."""
    column = draw(st.sampled_from(sorted(ROWS)))
    kind = draw(st.sampled_from([*COMPARISONS, *UNARY, "in", "not-in", "starts-with", "not-starts-with"]))
    if kind in UNARY and (column == "g" or "null" in kind):
        return {"type": kind, "term": column}, UNARY[kind](column)
    if kind in ("in", "not-in"):
        values = draw(st.lists(values_of(column), min_size=1, max_size=3, unique_by=str))
        made = ice.In if kind == "in" else ice.NotIn
        sent = [wire(column, value) for value in values]
        return {"type": kind, "term": column, "values": sent}, made(column, [iceberg(column, v) for v in values])
    if "starts" in kind:
        prefix = draw(values_of("s"))
        made = ice.StartsWith if kind == "starts-with" else ice.NotStartsWith
        return {"type": kind, "term": "s", "value": prefix}, made("s", prefix)
    kind = kind if kind in COMPARISONS else "eq"
    value = draw(values_of(column))
    sent = {"type": kind, "term": column, "value": wire(column, value)}
    return sent, COMPARISONS[kind][1](column, iceberg(column, value))


def join(children: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    def both(kind: str, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        made = ice.And if kind == "and" else ice.Or
        return {"type": kind, "left": left[0], "right": right[0]}, made(left[1], right[1])

    negated = children.map(lambda child: ({"type": "not", "child": child[0]}, ice.Not(child[1])))
    return negated | st.builds(both, st.sampled_from(["and", "or"]), children, children)


FILTERS = st.recursive(leaves(), join, max_leaves=6)


def arrow_array(column: str, value: Any) -> pa.Array:
    kind = arrow_schema(SCHEMA).field(column).type
    if column == "d":
        return pa.array([value], pa.int32()).cast(kind)
    return pa.array([value], pa.int64()).cast(kind) if column == "ts" else pa.array([value], kind)


@settings(max_examples=400, deadline=None)
@given(FILTERS, st.tuples(*(st.sampled_from(values) for values in ROWS.values())))
def test_a_filter_takes_every_row_that_iceberg_takes(filters: tuple[Any, Any], row: tuple[Any, ...]) -> None:
    document, expression = filters
    arrays = [arrow_array(column, value) for column, value in zip(ROWS, row, strict=True)]
    batch = pa.record_batch(arrays, schema=arrow_schema(SCHEMA))
    if expression_evaluator(to_pyiceberg_schema(SCHEMA), expression, case_sensitive=True)(Record(*row)):
        assert read_filter(document, SCHEMA).mask(batch).to_pylist() == [True], document


def condition(document: Any) -> Condition:
    return read_filter(document, SCHEMA).condition


@pytest.mark.parametrize("kind", sorted(set(COMPARISONS) - {"not-eq"}))
@pytest.mark.parametrize(
    ("column", "value", "sql"),
    [
        ("l", 5, "5"),
        ("l", -(2**63) - 1, "-9223372036854775809"),
        ("l", 1.5, "1.5"),
        ("l", "7", "'7'"),
        ("g", -1e-7, "-0.0000001"),
        ("g", 10**400, "1e400"),
        ("s", "it's \\ %", "'it''s \\ %'"),
        ("s", "\0", "'\0'"),
        ("d", 19_000, "'2022-01-08'"),
        ("d", -1, "'1969-12-31'"),
        ("d", "2022-01-08", "'2022-01-08'"),
        ("ts", 1_700_000_000_123_456, "'2023-11-14T22:13:20.123456'"),
        ("ts", "2024-01-01", "'2024-01-01'"),
        ("y", "00fF", "x'00ff'"),
    ],
)
def test_a_comparison_is_what_the_same_where_is(kind: str, column: str, value: Any, sql: str) -> None:
    text = f"{column} {COMPARISONS[kind][0]} {sql}"
    assert condition({"type": kind, "term": column, "value": value}) == parse_where(text, SCHEMA).condition


def test_other_leaves_are_what_the_same_where_is() -> None:
    for document, text in (
        ({"type": "in", "term": "L", "values": [1, 2, 2**70]}, "l in (1, 2)"),
        ({"type": "not-in", "term": "s", "values": ["a"]}, "s <> 'a' or s is null"),
        ({"type": "starts-with", "term": "s", "value": "a%_\\"}, r"s like 'a\%\_\\%'"),
        ({"type": "starts-with", "term": "s", "value": ""}, "s is not null"),
        ({"type": "not-eq", "term": "g", "value": 1}, "g <> 1 or g is null or isnan(g)"),
        ({"type": "not", "child": {"type": "is-nan", "term": "g"}}, "not isnan(g)"),
        ({"type": "not", "child": {"type": "is-null", "term": "y"}}, "y is not null"),
    ):
        assert condition(document) == parse_where(text, SCHEMA).condition, document


@pytest.mark.parametrize(
    "leaf",
    [
        {"type": "eq", "term": "l", "value": "no number"},
        {"type": "eq", "term": "l", "value": True},
        {"type": "eq", "term": "l", "value": None},
        {"type": "eq", "term": "g", "value": math.nan},
        {"type": "eq", "term": "d", "value": math.nan},
        {"type": "lt", "term": "d", "value": 0.5},
        {"type": "lt", "term": "d", "value": True},
        {"type": "eq", "term": "s", "value": "\ud800"},
        {"type": "eq", "term": "s", "value": 5},
        {"type": "eq", "term": "y", "value": "0"},
        {"type": "eq", "term": "y", "value": "no hex"},
        {"type": "in", "term": "l", "values": [1, "x"]},
        {"type": "in", "term": "l", "values": []},
        {"type": "in", "term": "l", "values": 7},
        {"type": "in", "term": "l"},
        {"type": "starts-with", "term": "l", "value": "1"},
        {"type": "starts-with", "term": "s", "value": "\udfff"},
        {"type": "is-nan", "term": "l"},
        {"type": "eq", "term": {"type": "transform", "transform": "day", "term": "ts"}, "value": 0},
    ],
)
def test_what_has_no_equal_counts_as_true_on_both_sides_of_a_negation(leaf: Any) -> None:
    assert condition(leaf) == TRUE
    assert condition({"type": "not", "child": leaf}) == TRUE
    known = {"type": "eq", "term": "l", "value": 1}
    assert condition({"type": "and", "left": leaf, "right": known}) == condition(known)
    assert condition({"type": "or", "left": leaf, "right": known}) == TRUE


def test_a_long_chain_of_conditions_is_taken_and_a_longer_one_refused() -> None:
    def chain(length: int) -> Any:
        found: Any = {"type": "eq", "term": "l", "value": 0}
        for number in range(1, length):
            found = {"type": "or", "left": found, "right": {"type": "eq", "term": "l", "value": number}}
        return found

    assert condition(chain(101)) == parse_where(f"l in ({', '.join(map(str, range(101)))})", SCHEMA).condition
    with pytest.raises(InvalidInput, match="at most 100 levels"):
        condition(chain(102))


def test_fields_of_structs_are_found_by_their_id() -> None:
    schema = make_schema([("home", "struct<city: string, City2: long>"), ("city", "long"), ("tags", "list<string>")])
    for term, path in (("home.CITY", ("home", "city")), ("home.city2", ("home", "City2")), ("City", ("city",))):
        found = read_filter({"type": "eq", "term": term, "value": "1"}, schema).condition
        assert found.column.path == path  # type: ignore[union-attr]
    assert read_filter({"type": "eq", "term": "tags.element", "value": "x"}, schema).is_true
    with pytest.raises(InvalidInput, match=r"There is no column 'tags\.element'"):
        read_filter({"type": "is-null", "term": "tags.element"}, schema)
