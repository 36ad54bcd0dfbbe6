"""Random types, values, schemas, partition specs and sort orders."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from itertools import count
from typing import Any

from hypothesis import strategies as st

from moulin.model.layout.partition_spec import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    PartitionField,
    PartitionSpec,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from moulin.model.layout.sort_order import NullOrder, SortDirection, SortField, SortOrder
from moulin.model.schema.single_value import unscaled_to_decimal
from moulin.model.schema.types import PLAIN_TYPES, renumber
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
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    Schema,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="."), min_size=1, max_size=6)
NANOS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def decimal_types(draw: st.DrawFn) -> DecimalType:
    precision = draw(st.integers(1, 38))
    return DecimalType(precision, draw(st.integers(0, precision)))


def primitive_types() -> st.SearchStrategy[IcebergType]:
    return st.sampled_from(list(PLAIN_TYPES.values())) | decimal_types() | st.builds(FixedType, st.integers(1, 20))


def values(kind: IcebergType) -> st.SearchStrategy[Any]:
    """Values of a primitive type, as a schema keeps them for defaults."""
    match kind:
        case BooleanType():
            return st.booleans()
        case IntegerType():
            return st.integers(-(2**31), 2**31 - 1)
        case LongType() | TimestampNanoType() | TimestamptzNanoType():
            return NANOS
        case FloatType():
            return st.floats(width=32, allow_nan=False, allow_infinity=False)
        case DoubleType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case DecimalType():
            largest = 10**kind.precision - 1
            return st.integers(-largest, largest).map(lambda digits: unscaled_to_decimal(digits, kind.scale))
        case DateType():
            return st.dates(date(1, 1, 1))
        case TimeType():
            return st.times(time(0))
        case TimestampType():
            return st.datetimes()
        case TimestamptzType():
            return st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))
        case StringType():
            return TEXT
        case UUIDType():
            return st.uuids()
        case FixedType():
            return st.binary(min_size=len(kind), max_size=len(kind))
        case BinaryType():
            return st.binary(max_size=20)
    raise AssertionError(kind)


@st.composite
def fields(draw: st.DrawFn, kinds: st.SearchStrategy[IcebergType], name: str) -> NestedField:
    kind = draw(kinds)
    defaults = st.none() | values(kind) if isinstance(kind, PrimitiveType) else st.none()
    doc = draw(st.none() | TEXT)
    return NestedField(0, name, kind, draw(st.booleans()), doc, draw(defaults), draw(defaults))


@st.composite
def structs(draw: st.DrawFn, kinds: st.SearchStrategy[IcebergType]) -> StructType:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower))
    return StructType(*(draw(fields(kinds, name)) for name in names))


def types() -> st.SearchStrategy[IcebergType]:
    def nested(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[IcebergType]:
        return (
            structs(inner)
            | st.builds(ListType, st.just(0), inner, st.booleans())
            | st.builds(MapType, st.just(0), inner, st.just(0), inner, st.booleans())
        )

    return st.recursive(primitive_types(), nested, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """A schema whose fields have ids of their own; some have a key."""
    columns = renumber(draw(structs(types())), count(draw(st.integers(1, 50))).__next__)
    assert isinstance(columns, StructType)
    fit = [
        column.field_id
        for column in columns.fields
        if column.required
        and isinstance(column.field_type, PrimitiveType)
        and not isinstance(column.field_type, FloatType | DoubleType)
    ]
    key = draw(st.lists(st.sampled_from(fit), unique=True)) if fit else []
    return Schema(*columns.fields, schema_id=draw(st.integers(0, 9)), identifier_field_ids=key)


def transforms() -> st.SearchStrategy[Transform]:
    plain = (
        IdentityTransform(),
        YearTransform(),
        MonthTransform(),
        DayTransform(),
        HourTransform(),
        VoidTransform(),
    )
    number = st.integers(1, 2**31 - 1)
    return st.sampled_from(plain) | st.builds(BucketTransform, number) | st.builds(TruncateTransform, number)


def specs() -> st.SearchStrategy[PartitionSpec]:
    field = st.builds(PartitionField, st.integers(1, 99), st.integers(1000, 1099), transforms(), TEXT)
    return st.builds(
        lambda found, number: PartitionSpec(*found, spec_id=number), st.lists(field, max_size=4), st.integers(0, 9)
    )


def orders() -> st.SearchStrategy[SortOrder]:
    field = st.builds(
        SortField, st.integers(1, 99), transforms(), st.sampled_from(SortDirection), st.sampled_from(NullOrder)
    )
    return st.builds(
        lambda found, number: SortOrder(*found, order_id=number), st.lists(field, max_size=4), st.integers(0, 9)
    )
