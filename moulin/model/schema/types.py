"""The column types that can be stored, their limits, and the field ids inside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from moulin.errors import InvalidInput
from moulin.model.names import check_column_name
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
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

MAX_DEPTH = 32
MAX_PRECISION = 38
MAX_FIXED = 2**31 - 1

PLAIN_TYPES: Mapping[str, IcebergType] = MappingProxyType(
    {
        "boolean": BooleanType(),
        "int": IntegerType(),
        "long": LongType(),
        "float": FloatType(),
        "double": DoubleType(),
        "date": DateType(),
        "time": TimeType(),
        "timestamp": TimestampType(),
        "timestamptz": TimestamptzType(),
        "timestamp_ns": TimestampNanoType(),
        "timestamptz_ns": TimestamptzNanoType(),
        "string": StringType(),
        "uuid": UUIDType(),
        "binary": BinaryType(),
    }
)
_STORABLE = tuple(map(type, PLAIN_TYPES.values()))
KNOWN_TYPES = ", ".join(
    [*PLAIN_TYPES, "decimal(p, s)", "fixed[n]", "list<t>", "list<t>[n]", "map<k, v>", "struct<a: t, ...>"]
)


def renumber(given: IcebergType, next_id: Callable[[], int]) -> IcebergType:
    """The same type with fresh field ids inside, in Iceberg's order: the fields of a struct, then what is in them."""
    if isinstance(given, StructType):
        numbers = [next_id() for _ in given.fields]
        return StructType(
            *(
                replace(field, field_id=number, field_type=renumber(field.field_type, next_id))
                for field, number in zip(given.fields, numbers, strict=True)
            )
        )
    if isinstance(given, ListType):
        number = next_id()
        return ListType(number, renumber(given.element_type, next_id), given.element_required, given.length)
    if isinstance(given, MapType):
        key, value = next_id(), next_id()
        return MapType(
            key, renumber(given.key_type, next_id), value, renumber(given.value_type, next_id), given.value_required
        )
    return given


def check_unique(fields: tuple[NestedField, ...] | list[NestedField], what: str) -> None:
    """Refuses two fields of one struct whose names differ in case alone: SQL engines could not tell them apart."""
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.get(field.name.lower())
        if other is not None:
            clash = f"twice: {other!r}" if other == field.name else f"twice but for case: {other!r} and {field.name!r}"
            raise InvalidInput(f"{what} has a name {clash}. Rename one of the two.")
        seen[field.name.lower()] = field.name


def check_storable(given: IcebergType, what: str, depth: int = 1) -> None:
    """Refuses a type that has no stored form, and names, emptiness or depth that are not allowed inside it."""
    check_depth(depth, what)
    if isinstance(given, StructType):
        if not given.fields:
            raise InvalidInput(f"The struct {what} has no fields: add one, or use another type.")
        for field in given.fields:
            check_column_name(field.name)
            check_storable(field.field_type, f"{what}.{field.name}", depth + 1)
        check_unique(given.fields, f"The struct {what}")
    elif isinstance(given, ListType):
        if given.length is not None and not 0 <= given.length <= MAX_FIXED:
            raise InvalidInput(f"The lists of {what} have {given.length} elements; 0 to {MAX_FIXED} are allowed.")
        check_storable(given.element_type, f"{what}.element", depth + 1)
    elif isinstance(given, MapType):
        check_storable(given.key_type, f"{what}.key", depth + 1)
        check_storable(given.value_type, f"{what}.value", depth + 1)
    elif isinstance(given, DecimalType):
        decimal_type(given.precision, given.scale, what)
    elif isinstance(given, FixedType):
        fixed_type(len(given), what)
    elif not isinstance(given, _STORABLE):
        raise InvalidInput(f"The type {given} of {what} cannot be stored. Known types: {KNOWN_TYPES}.")


def check_depth(depth: int, what: str) -> None:
    """Refuses nesting deeper than MAX_DEPTH, before it can exhaust the stack."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"The type of {what[:100]} is nested deeper than {MAX_DEPTH} levels: flatten it.")


def decimal_type(precision: int, scale: int, what: str) -> DecimalType:
    """decimal(precision, scale), refused outside of what Iceberg stores."""
    if not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= precision:
        raise InvalidInput(
            f"decimal({precision}, {scale}) in {what} is not possible: "
            f"the precision must be 1 to {MAX_PRECISION}, the scale 0 to the precision."
        )
    return DecimalType(precision, scale)


def fixed_type(length: int, what: str) -> FixedType:
    """fixed[length], refused when it is empty or longer than a value can be."""
    if not 1 <= length <= MAX_FIXED:
        raise InvalidInput(f"fixed[{length}] in {what}: the length must be 1 to {MAX_FIXED}.")
    return FixedType(length)


__all__ = [
    "KNOWN_TYPES",
    "MAX_DEPTH",
    "MAX_PRECISION",
    "PLAIN_TYPES",
    "check_depth",
    "check_storable",
    "check_unique",
    "decimal_type",
    "fixed_type",
    "renumber",
]
