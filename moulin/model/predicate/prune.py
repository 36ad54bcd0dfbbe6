"""Evaluates conditions on statistics alone.

`narrow` takes what is known of some columns, assumes that a row matches, and says what its columns may then hold, or
None when no row can match. Everything else follows from that one function: a segment may hold a match when narrowing
its facts by the condition leaves something, and consists of matches alone when narrowing them by the complement
leaves nothing. A column without facts is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from moulin.errors import Corrupt
from moulin.model.columns import compute as pc
from moulin.model.facts import ColumnFacts
from moulin.model.layout.bounds import INT64_MAX, INT64_MIN, bound_from_bytes
from moulin.model.layout.partition_spec import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    PartitionSpec,
    Transform,
    TruncateTransform,
    YearTransform,
)
from moulin.model.predicate.condition import And, Column, Computed, Condition, Constant, Or
from moulin.model.predicate.domain import Bucket, Domain, following, unknown
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.values import (
    DateType,
    DecimalType,
    IcebergType,
    PrimitiveType,
    Schema,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

State: TypeAlias = Mapping[int, Domain]

_DAY_UNITS: Mapping[type[IcebergType], int] = {
    DateType: 1,
    TimestampType: 86_400_000_000,
    TimestamptzType: 86_400_000_000,
    TimestampNanoType: 86_400_000_000_000,
    TimestamptzNanoType: 86_400_000_000_000,
}
_DAY_NS = 86_400_000_000_000


def narrow(condition: Condition, state: State) -> State | None:
    """What the columns of a matching row may hold, given what is known of all rows; None when no row matches."""
    match condition:
        case Constant(value):
            return state if value else None
        case And(children):
            left: State | None = state
            for child in children:
                if left is None:
                    break
                left = narrow(child, left)
            return left
        case Or(children):
            joined: State | None = None
            for child in children:
                found = narrow(child, state)
                if found is not None:
                    joined = found if joined is None else _join(joined, found)
            return joined
        case Computed():
            return state if _computed_may_match(condition, state) else None
        case _:
            column = condition.column
            domain = state.get(column.field_id)
            domain = (unknown(column) if domain is None else domain).narrowed(condition)
            return None if domain.is_empty else {**state, column.field_id: domain}


def possible(condition: Condition, state: State) -> bool:
    """Whether a row may match."""
    if isinstance(condition, Or):
        return any(possible(child, state) for child in condition.children)
    return narrow(condition, state) is not None


def state_of_facts(columns: Iterable[Column], facts: Mapping[int, ColumnFacts], rows: int) -> State:
    """What a segment's facts say of `columns`."""
    return {
        column.field_id: _domain_of_facts(column, facts[column.field_id], rows)
        for column in columns
        if column.field_id in facts and isinstance(column.type, PrimitiveType)
    }


def state_of_partition(
    columns: Iterable[Column], spec: PartitionSpec, schema: Schema, partition: tuple[bytes | None, ...]
) -> State:
    """What a segment's partition tuple says of `columns`. Void and unknown transforms say nothing."""
    wanted = {column.field_id: column for column in columns}
    state: dict[int, Domain] = {}
    if len(partition) != len(spec.fields):
        return state
    for field, data in zip(spec.fields, partition, strict=True):
        column = wanted.get(field.source_id)
        if column is None or not _same_comparands(column, schema):
            continue
        domain = _domain_of_partition(column, field.transform, data)
        if domain is not None:
            known = state.get(column.field_id)
            state[column.field_id] = domain if known is None else known.meet(domain)
    return state


def time_range(state: State | None, column: Column) -> tuple[int | None, int | None] | None:
    """The closed range of Unix nanoseconds in which `column` lies in a state made by `narrow`; ends fit in 64 bits."""
    if state is None:
        return None
    unit, domain = _DAY_UNITS.get(type(column.type)), state.get(column.field_id)
    # A null lies in no range, so one that may match forbids any.
    if unit is None or domain is None or domain.null:
        return None, None
    step = _DAY_NS // unit
    lower = None if domain.lower is None else _in_64_bits(domain.lower * step)
    return lower, None if domain.upper is None else _in_64_bits(domain.upper * step + step - 1)


def _in_64_bits(ns: int) -> int:
    """As segments' own time ranges, which are compared with this."""
    return max(INT64_MIN, min(ns, INT64_MAX))


def _join(left: State, right: State) -> State:
    return {field_id: domain.join(right[field_id]) for field_id, domain in left.items() if field_id in right}


def _domain_of_facts(column: Column, facts: ColumnFacts, rows: int) -> Domain:
    known = unknown(column)
    value, null, nan = True, True, known.nan
    if facts.values == rows:
        nans = (facts.nans or 0) if nan else 0
        value, null, nan = rows - facts.nulls - nans > 0, facts.nulls > 0, nan and facts.nans != 0
    lower, upper = _comparand(column.type, facts.lower), _comparand(column.type, facts.upper)
    if lower is not None and upper is not None and lower > upper:
        lower = upper = None
    return Domain(
        known.lower if lower is None else lower,
        False,
        known.upper if upper is None else upper,
        False,
        value,
        null,
        nan,
    )


def _domain_of_partition(column: Column, transform: Transform, data: bytes | None) -> Domain | None:
    """None when nothing is known."""
    known = isinstance(
        transform,
        IdentityTransform
        | TruncateTransform
        | BucketTransform
        | YearTransform
        | MonthTransform
        | DayTransform
        | HourTransform,
    )
    if not known:
        return None
    if data is None:
        return Domain(value=False)
    if isinstance(transform, IdentityTransform | TruncateTransform):
        lower = _comparand(column.type, data, nan=True)
        if lower is None:
            return None
        if lower != lower:
            return Domain(value=False, null=False, nan=True)
        width = transform.width if isinstance(transform, TruncateTransform) else 0
        if isinstance(lower, int) and width:
            # Below the smallest value of its type the transform wraps around to the last step, which so tells nothing.
            last = (
                len(data) < 9 and lower + width > 2 ** (8 * len(data) - 1) and not isinstance(column.type, DecimalType)
            )
            return Domain(null=False) if last else Domain(lower, upper=lower + width - 1, null=False)
        if isinstance(lower, str | bytes) and 0 < width <= len(lower):
            end = following(lower)
            return Domain(lower, upper=end, upper_open=end is not None, null=False)
        return Domain(lower, upper=lower, null=False)
    number = _comparand(transform.result_type(column.type), data)
    if number is None:
        return None
    if isinstance(transform, BucketTransform):
        return Domain(null=False, buckets=(Bucket(transform.num_buckets, column.type, number),))
    return _domain_of_time(column, transform, number)


def _domain_of_time(column: Column, transform: Transform, number: int) -> Domain | None:
    unit = _DAY_UNITS.get(type(column.type))
    if unit is None:
        return None
    if isinstance(transform, HourTransform):
        return Domain(number * unit // 24, upper=(number + 1) * unit // 24 - 1, null=False) if unit > 1 else None
    first, end = number, number + 1
    if not isinstance(transform, DayTransform):
        calendar = "datetime64[Y]" if isinstance(transform, YearTransform) else "datetime64[M]"
        first, end = (
            int(day) for day in np.array([number, number + 1]).astype(calendar).astype("datetime64[D]").astype(np.int64)
        )
    return Domain(first * unit, upper=end * unit - 1, null=False)


def _comparand(iceberg: IcebergType, data: bytes | None, nan: bool = False) -> Any:
    """The comparand that single-value bytes stand for; None when there is none, or they are of another type."""
    if data is None or not isinstance(iceberg, PrimitiveType):
        return None
    if isinstance(iceberg, DecimalType):
        return int.from_bytes(data, "big", signed=True)
    try:
        comparand = bound_from_bytes(iceberg, data)
    except Corrupt:
        return None
    if isinstance(comparand, bool):
        return int(comparand)
    return None if comparand != comparand and not nan else comparand


def _same_comparands(column: Column, schema: Schema) -> bool:
    """Whether the partition was made from a type with the same comparands: a date widened to a timestamp has others."""
    try:
        source = schema.find_type(column.field_id)
    except ValueError:
        return False
    return _DAY_UNITS.get(type(source)) == _DAY_UNITS.get(type(column.type))


def _computed_may_match(condition: Computed, state: State) -> bool:
    """Arrow simplifies a filter by what is guaranteed of a fragment, and drops the fragment when nothing is left."""
    if not condition.foreign or condition.inverted:
        return True
    import pyarrow.dataset as ds  # brings pandas along, which takes longer than all the rest
    from pyarrow.fs import LocalFileSystem

    guarantees = [
        _guarantee(column, state[column.field_id]) for column in condition.columns if column.field_id in state
    ]
    guarantee = pc.scalar(True)
    for part in guarantees:
        guarantee = guarantee & part
    schema = pa.schema([(column.path[0], arrow_type(column.type)) for column in condition.columns])
    parquet, files = ds.ParquetFileFormat(), LocalFileSystem()
    fragment = parquet.make_fragment("never-opened", files, partition_expression=guarantee)
    try:
        dataset = ds.FileSystemDataset([fragment], schema, parquet, files)
        return any(True for _ in dataset.get_fragments(filter=condition.expression))
    except pa.ArrowException:
        # It evaluates what has become constant, and may divide by zero there. The rows will tell.
        return True


def _guarantee(column: Column, domain: Domain) -> pc.Expression:
    """What holds for every row, in the form that Arrow can use: null is allowed beside each bound."""
    field, arrow = column.stored, arrow_type(column.type)
    if domain.nan:
        return pc.scalar(True)  # is_null(nan_is_null=True) may be asked
    if not domain.value:
        return field.is_null()
    found = pc.scalar(True) if domain.null else field.is_valid()
    if column.is_floating or isinstance(column.type, UUIDType):
        return found  # it weighs bounds against a NaN in the filter wrongly, and cannot compare extension types
    bounds = []
    with suppress(OverflowError, pa.ArrowInvalid):  # one above the greatest whole number, or below the least
        if domain.lower is not None:
            lower = column.scalar(domain.lower, arrow)
            bounds.append(field > lower if domain.lower_open else field >= lower)
        if domain.upper is not None:
            upper = column.scalar(domain.upper, arrow)
            bounds.append(field < upper if domain.upper_open else field <= upper)
    for bound in bounds:
        found = found & (bound | field.is_null() if domain.null else bound)
    return found
