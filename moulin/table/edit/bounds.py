"""A pruning condition for segments of a table, from the values of a merge source."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import FALSE, TRUE, Column, Condition
from moulin.model.where.conditions import between, one_of
from moulin.model.where.literal import Literal, LiteralValue
from moulin.model.where.moment import Clock, Day, Instant

_LISTED = 1024  # values that are listed one by one; of more, the least and the greatest count

_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def within(column: Column, values: pa.Array) -> Condition:
    """True for every row whose `column` equals one of `values`, and for others perhaps."""
    values = pc.unique(values.drop_null())
    if not len(values):
        return FALSE
    if pt.is_floating(values.type) and not column.is_floating:
        return TRUE  # whole numbers are compared with them as doubles, which are not exact
    try:
        if len(values) <= _LISTED:
            return one_of(column, [_literal(value) for value in values])
        ends = pc.min_max(values)
        return between(column, _literal(ends["min"]), _literal(ends["max"]))
    except (InvalidInput, pa.ArrowException):
        return TRUE  # NaN, and types that have no least value


def _literal(scalar: pa.Scalar) -> Literal:
    kind = scalar.type
    value: LiteralValue
    if pt.is_date32(kind):
        value = Day(scalar.value)
    elif pt.is_timestamp(kind):
        value = Instant(scalar.value * _UNIT_NS[kind.unit], kind.tz is not None)
    elif pt.is_time(kind):
        value = Clock(scalar.value * _UNIT_NS[kind.unit])
    else:
        found = scalar.as_py()
        value = Decimal(found) if isinstance(found, int | float) and not isinstance(found, bool) else found
        if isinstance(value, Decimal) and not value.is_finite():
            raise InvalidInput("There is no literal for it.")
    return Literal(value, str(value))
