"""Conditions written as pyarrow expressions: Arrow is the referee. What is understood of them lets scans prune."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import (
    And,
    Compare,
    Computed,
    Condition,
    arrow_comparison,
    expression_of,
)
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    Schema,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
)
from moulin.model.where import parse_where
from moulin.model.where.substrait import parse

SCHEMA = Schema(
    *(
        NestedField(number, name, kind, required=False)
        for number, (name, kind) in enumerate(
            {
                "i": IntegerType(),
                "l": LongType(),
                "d": DoubleType(),
                "f": FloatType(),
                "s": StringType(),
                "b": BooleanType(),
                "day": DateType(),
                "ts": TimestamptzType(),
                "plain": TimestampType(),
                "n": DecimalType(9, 2),
                "ns": TimestampNanoType(),
                "bin": BinaryType(),
            }.items(),
            1,
        )
    )
)
_FLOATS = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, math.nan, math.inf, -math.inf])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "l": st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
    "d": _FLOATS,
    "f": _FLOATS,
    "s": st.sampled_from(["", "a", "ab", "b", "ä", "\" and (i == 1'"]),
    "b": st.booleans(),
    "day": st.sampled_from([date(1969, 12, 31), date(2024, 1, 1), date(2024, 1, 2)]),
    "ts": st.sampled_from([datetime(1969, 12, 31, tzinfo=UTC), datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
    "plain": st.sampled_from([datetime(1969, 12, 31), datetime(2024, 1, 1, 0, 0, 0, 1)]),
    "n": st.sampled_from([Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")]),
    "ns": st.sampled_from([datetime(1969, 12, 31), datetime(2024, 1, 1)]),
    "bin": st.sampled_from([b"", b"a", b"\xff"]),
}
ARROW = arrow_schema(SCHEMA)


def _row() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})


@st.composite
def _leaves(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(sorted(VALUES)))
    field = pc.field(name)
    kind = draw(st.sampled_from(["compare", "turned", "in", "null", "valid", "nan", "flag"]))
    if kind == "nan" and name in ("d", "f"):
        return draw(st.sampled_from([pc.is_nan(field), field.is_null(nan_is_null=True)]))
    if kind == "flag":
        return pc.field("b")
    if kind in ("null", "valid"):
        return field.is_null() if kind == "null" else field.is_valid()
    if kind == "in":
        values = draw(st.lists(st.none() | VALUES[name], max_size=3))
        return field.isin(pa.array(values, ARROW.field(name).type))
    value = pa.scalar(
        draw(VALUES[name]), draw(st.sampled_from([ARROW.field(name).type, None])) if name != "ns" else None
    )
    operator = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
    literal = pc.scalar(value)
    return arrow_comparison(operator, *((literal, field) if kind == "turned" else (field, literal)))


EXPRESSIONS = st.recursive(
    _leaves(),
    lambda inner: st.one_of(
        st.builds(lambda one, other: one & other, inner, inner),
        st.builds(lambda one, other: one | other, inner, inner),
        st.builds(lambda one: ~one, inner),
    ),
    max_leaves=6,
)


@given(st.lists(_row(), max_size=12), EXPRESSIONS)
def test_an_arrow_expression_takes_the_rows_that_arrow_takes(rows: list[dict[str, Any]], where: pc.Expression) -> None:
    table = pa.Table.from_pylist(rows, ARROW)
    wanted = table.filter(where)
    condition = parse_where(where, SCHEMA).condition
    assert str(table.filter(expression_of(condition)).to_pylist()) == str(wanted.to_pylist())
    for part in condition.children if isinstance(condition, And) else (condition,):
        assert table.filter(expression_of(part)).num_rows >= wanted.num_rows


def _read(where: pc.Expression) -> Condition:
    condition = parse_where(where, SCHEMA).condition
    assert isinstance(condition, And)
    (known,) = [child for child in condition.children if not isinstance(child, Computed)]
    return known


@pytest.mark.parametrize(
    ("where", "known"),
    [
        (pc.field("l") == 5, ("l", "=", 5)),
        (pc.scalar(5) < pc.field("l"), ("l", ">", 5)),
        (~(pc.field("s") < "b"), ("s", ">=", "b")),
        (pc.field("d") >= 1.5, ("d", ">=", 1.5)),
        (pc.field("b"), ("b", "=", 1)),
        (pc.field("n") == Decimal("2.25"), ("n", "=", 225)),
        (pc.field("day") == date(1970, 1, 3), ("day", "=", 2)),
        (pc.field("ts") > datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), ("ts", ">", 1_000_000)),
        ((pc.field("l") == 5) & (pc.add(pc.field("i"), 1) == 2), ("l", "=", 5)),
    ],
)
def test_a_comparison_with_a_literal_is_understood(where: pc.Expression, known: tuple[str, str, object]) -> None:
    found = _read(where)
    assert isinstance(found, Compare)
    assert (found.column.name, found.operator, found.comparand) == known


def test_what_is_not_understood_may_hold_for_every_row() -> None:
    columns = parse_where(pc.field("i") + pc.field("l") == 3, SCHEMA).columns
    assert set(columns) == {"i", "l"}
    for where in (
        pc.match_substring(pc.field("s"), "a"),
        (pc.field("l") == 5) | pc.match_substring(pc.field("s"), "a"),
        pc.field("l") == pc.field("i"),
        pc.field("ns") == pa.scalar(5, pa.timestamp("ns")),
    ):
        assert isinstance(parse_where(where, SCHEMA).condition, Computed)


@pytest.mark.parametrize("data", [b"\x80", b"\x0a\x05a", b"\x0b", b"\xff" * 20])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse(data)
