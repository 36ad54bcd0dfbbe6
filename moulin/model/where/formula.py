"""Computed parts of a `where`: arithmetic, functions, and comparisons of columns.

It becomes an Arrow expression. Whole numbers are computed in 64 bits and fail on overflow, decimals exactly in up to 76
digits. A float makes the result a double, and so does `/`, which gives null for a zero divisor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Literal as Choice
from typing import TypeAlias

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import FALSE, Column, Computed, Condition, Constant, Operator, arrow_comparison
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from moulin.model.where.literal import Literal, read_number, shown

Kind: TypeAlias = Choice[
    "whole", "decimal", "floating", "text", "boolean", "bytes", "uuid", "time", "timestamp", "timestamp with time zone"
]
Arithmetic: TypeAlias = Choice["+", "-", "*", "/"]

_KINDS: Mapping[type[IcebergType], Kind] = {
    IntegerType: "whole",
    LongType: "whole",
    DecimalType: "decimal",
    FloatType: "floating",
    DoubleType: "floating",
    StringType: "text",
    BooleanType: "boolean",
    BinaryType: "bytes",
    FixedType: "bytes",
    UUIDType: "uuid",
    TimeType: "time",
    DateType: "timestamp",
    TimestampType: "timestamp",
    TimestampNanoType: "timestamp",
    TimestamptzType: "timestamp with time zone",
    TimestamptzNanoType: "timestamp with time zone",
}
_ARITHMETIC: Mapping[Arithmetic, str] = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}
# Digits enough for any product of two literals that fit a column, and exponents that cannot grow into memory.
_EXACT = Context(prec=200, traps=[])


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """An Arrow expression, what it computes, and from which columns."""

    expression: pc.Expression
    kind: Kind
    columns: tuple[Column, ...] = ()

    @property
    def is_number(self) -> bool:
        return self.kind in ("whole", "decimal", "floating")

    def as_number(self, kind: Kind) -> pc.Expression:
        """As a number of a kind that is not below its own."""
        if kind == "floating":
            return self.expression.cast(pa.float64(), safe=False)
        return (
            self.expression.cast(pa.decimal256(19, 0))
            if kind == "decimal" and self.kind == "whole"
            else self.expression
        )


Term: TypeAlias = Column | Literal | Formula


def term_columns(term: Term) -> tuple[Column, ...]:
    """The columns that a term is computed from."""
    if isinstance(term, Column):
        return (term,)
    return term.columns if isinstance(term, Formula) else ()


def formula(term: Term, beside: Formula | None = None) -> Formula:
    """Any term as a formula; text `beside` a number is read as one."""
    if isinstance(term, Formula):
        return term
    if isinstance(term, Column):
        return _formula_of_column(term)
    value = term.value
    if isinstance(value, str) and beside is not None and beside.is_number:
        value = read_number(value)
    if isinstance(value, Decimal):
        return _formula_of_number(value, term)
    if isinstance(value, str):
        return Formula(pc.scalar(value), "text")
    raise InvalidInput(f"A where cannot compute with {shown(term)}; use lake.sql for that.")


def arithmetic(operator: Arithmetic, left: Term, right: Term) -> Term:
    """`left operator right`, folded when both are literals."""
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _folded(operator, left, right)
    one, other = formula(left), formula(right)
    _need_number(f"The operator {operator}", one, other)
    columns = (*one.columns, *other.columns)
    if operator == "/":
        dividend, divisor = one.as_number("floating"), other.as_number("floating")
        nothing = pa.scalar(None, pa.float64())
        return Formula(pc.if_else(divisor == 0.0, nothing, pc.divide(dividend, divisor)), "floating", columns)
    kind = _wider(one, other)
    return Formula(getattr(pc, _ARITHMETIC[operator])(one.as_number(kind), other.as_number(kind)), kind, columns)


def negative(term: Term) -> Term:
    if isinstance(term, Literal) and isinstance(term.value, Decimal):
        return Literal(term.value.copy_negate(), f"-{term.sql}")
    found = formula(term)
    _need_number("The operator -", found)
    return Formula(pc.negate_checked(found.expression), found.kind, found.columns)


def absolute(term: Term) -> Term:
    found = formula(term)
    _need_number("abs", found)
    return Formula(pc.abs_checked(found.expression), found.kind, found.columns)


def changed_case(name: Choice["lower", "upper"], term: Term) -> Term:
    found = formula(term)
    if found.kind != "text":
        raise InvalidInput(f"{name} needs text, but got {_named(found)}.")
    change = pc.utf8_lower if name == "lower" else pc.utf8_upper
    return Formula(change(found.expression), "text", found.columns)


def map_value(term: Term, key: str) -> Formula:
    """The value that a map has for a key; null where it has no such key."""
    of = term.type if isinstance(term, Column) else None
    if not isinstance(term, Column) or not isinstance(of, MapType):
        what = f"column {term.name} is of type {term.type}" if isinstance(term, Column) else "no column was given"
        raise InvalidInput(f"A key in brackets needs a column of maps, and {what}.")
    if not isinstance(of.key_type, StringType) or not isinstance(of.value_type, StringType):
        raise InvalidInput(f"[...] works only on maps of strings, but column {term.name} is of type {of}.")
    return Formula(pc.map_lookup(term.stored, pa.scalar(key), "first"), "text", (term,))


def compared(operator: Operator, left: Term, right: Term) -> Condition:
    """The rows for which the two compare so; at least one is more than a column or a literal, or both are columns."""
    one = formula(left, None if isinstance(right, Literal) else formula(right))
    other = formula(right, one)
    columns = (*one.columns, *other.columns)
    if not (one.is_number and other.is_number):
        if one.kind != other.kind:
            raise InvalidInput(
                f"{_named(one).capitalize()} cannot be compared with {_named(other)}: compare values of the same type."
            )
        return Computed(arrow_comparison(operator, one.expression, other.expression), columns)
    kind = _wider(one, other)
    a, b = one.as_number(kind), other.as_number(kind)
    return Computed(_total_order(operator, a, b) if kind == "floating" else arrow_comparison(operator, a, b), columns)


def equal_forms(left: Term, right: Term) -> tuple[pc.Expression, pc.Expression]:
    """Two expressions that are equal where the terms are, but for the types of times and the scales of decimals."""
    one, other = formula(left), formula(right)
    if one.is_number and other.is_number:
        kind = _wider(one, other)
        return one.as_number(kind), other.as_number(kind)
    return one.expression, other.expression


def compared_literals(operator: Operator, left: Literal, right: Literal) -> Condition:
    """`1 = 1` and the like."""
    a, b = left.value, right.value
    if a is None or b is None:
        return FALSE
    if type(a) is not type(b):
        raise InvalidInput(f"{shown(left)} cannot be compared with {shown(right)}: write both with the same type.")
    holds = {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}  # type: ignore[operator]
    return Constant(holds[operator])


def _formula_of_column(column: Column) -> Formula:
    kind = _KINDS.get(type(column.type))
    if kind is None:
        raise InvalidInput(
            f"Column {column.name} is of type {column.type} and cannot be compared as a whole: use a field inside it."
        )
    expression = column.comparable
    if isinstance(column.type, IntegerType):
        expression = expression.cast(pa.int64())
    elif isinstance(column.type, DecimalType):
        expression = expression.cast(pa.decimal256(column.type.precision, column.type.scale))
    elif isinstance(column.type, FixedType):
        expression = expression.cast(pa.binary())
    return Formula(expression, kind, (column,))


def _formula_of_number(value: Decimal, term: Literal) -> Formula:
    if value == 0 or (value.adjusted() < 19 and value == value.to_integral_value(context=_EXACT)):
        whole = int(value)
        if -(2**63) <= whole < 2**63:
            return Formula(pc.scalar(whole), "whole")
    try:
        found = pa.scalar(value)
        return Formula(pc.scalar(found.cast(pa.decimal256(found.type.precision, found.type.scale))), "decimal")
    except pa.ArrowException as error:
        raise InvalidInput(
            f"The number {shown(term)} has too many digits to compute with; use lake.sql for that."
        ) from error


def _folded(operator: Arithmetic, left: Literal, right: Literal) -> Literal:
    a, b, sql = left.value, right.value, f"{left.sql} {operator} {right.sql}"
    if a is None or b is None or (operator == "/" and b == 0):
        return Literal(None, sql)
    if not isinstance(a, Decimal) or not isinstance(b, Decimal):
        raise InvalidInput(f"The operator {operator} needs numbers; {shown(left)} and {shown(right)} are not.")
    fold = {"+": _EXACT.add, "-": _EXACT.subtract, "*": _EXACT.multiply, "/": _EXACT.divide}[operator]
    folded = fold(a, b)
    if not folded.is_finite():
        raise InvalidInput(f"{shown(Literal(None, sql))} is too large a number: use a smaller one.")
    return Literal(folded, sql)


def _total_order(operator: Operator, a: pc.Expression, b: pc.Expression) -> pc.Expression:
    """Arrow's comparison of doubles, corrected where NaN is involved: equal to itself and above all else."""
    nan_a, nan_b = pc.is_nan(a), pc.is_nan(b)
    plain = arrow_comparison(operator, a, b)
    match operator:
        case "=":
            return plain | (nan_a & nan_b)
        case "!=":
            return plain & ~(nan_a & nan_b)
        case "<":
            return plain | (~nan_a & nan_b)
        case ">":
            return plain | (nan_a & ~nan_b)
        case "<=":
            return plain | (nan_b & a.is_valid())
        case ">=":
            return plain | (nan_a & b.is_valid())


def _wider(one: Formula, other: Formula) -> Kind:
    kinds = (one.kind, other.kind)
    return "floating" if "floating" in kinds else "decimal" if "decimal" in kinds else "whole"


def _need_number(what: str, *formulas: Formula) -> None:
    for found in formulas:
        if not found.is_number:
            raise InvalidInput(f"{what} needs numbers, but got {_named(found)}.")


def _named(found: Formula) -> str:
    kind = "a number" if found.is_number else found.kind
    return f"column {found.columns[0].name} ({kind})" if found.columns else kind
