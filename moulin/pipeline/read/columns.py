"""Maps the columns of a table to Spark: the declaration for the Parquet scan, and the conversion.

Spark reads most types as they are stored. Those it lacks are declared as what it can read and converted:

    timestamp_ns, timestamptz_ns   read as long, shown as timestamp_ntz and timestamp (microseconds, rounded down)
    uuid                           read as binary, shown as string
    fixed                          read and shown as binary

A file is always declared with its own names and types, field ids included, and mapped to the current ones above the
scan. Spark finds columns by field id but filters row groups by name: a declared name that means another column in the
file would silently drop rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as sql

from moulin.errors import Unsupported
from moulin.model.schema import values as ice
from moulin.model.schema.defaults import default_value
from moulin.model.schema.times import datetime_to_micros
from moulin.model.schema.values import Schema

FIELD_ID = "parquet.field.id"
SEGMENT = "_moulin_segment"
"""The number of a row's segment: Spark takes it from the folder's name. See storage/paths.py."""
POSITION_COLUMN = "_moulin_at"
"""The position of a row in its segment, in frames of located rows."""

LINEAGE = ("_moulin_row_id", "_moulin_sequence")
"""The row id and the sequence number that a segment stores of a row, in frames of located rows."""

Convert = Callable[[Column], Column]


@dataclass(frozen=True)
class Reading:
    """The declaration of a stored value for the scan, and its conversion for users; `convert` is None for unchanged."""

    declared: sql.DataType
    convert: Convert | None = None


@dataclass(frozen=True)
class ColumnPlan:
    """One column of the result: a declared field of the scan, converted, or a constant where the files lack it.

    `key` is equal for plans that do the same.
    """

    name: str
    declared: sql.StructField | None
    convert: Convert | None
    constant: Callable[[], Column] | None
    key: tuple[Any, ...]

    def column(self, find: Callable[[str], Column] = lambda name: F.col(quoted(name))) -> Column:
        """The column of the result; `find` gives the declared one."""
        if self.declared is None:
            assert self.constant is not None
            column = self.constant()
        else:
            column = find(self.declared.name)
            if self.convert is not None:
                column = self.convert(column)
        # Without the field id: in files that users write from it, or from joins, it would stand for something else.
        return column.alias(self.name, metadata={})

    def unpruned(self) -> ColumnPlan:
        """The same column, by which Spark skips no row group: it does so by declared columns, and not by expressions.

        For floats that may be NaN. Statistics leave NaN out, and for Spark it is above all other numbers.
        """
        if self.declared is None:
            return self
        before, kind = self.convert, self.declared.dataType

        def convert(column: Column) -> Column:
            same = F.coalesce(column, column) if isinstance(kind, sql.StructType) else F.nanvl(column, column)
            return same if before is None else before(same)

        return replace(self, convert=convert, key=(*self.key, "unpruned"))


def spark_schema(schema: Schema) -> sql.StructType:
    """The schema that users of Spark see; every column can be null, as Spark has it for what it reads from files."""
    return sql.StructType([sql.StructField(f.name, shown_type(f.field_type)) for f in schema.fields])


def located_schema(schema: Schema, *, lineage: bool = False) -> sql.StructType:
    """The same for rows that come with where they are: the number of the segment and the position in it.

    With `lineage`, their stored row id and sequence number follow, null where the segment stores none.
    """
    names = (SEGMENT, POSITION_COLUMN, *(LINEAGE if lineage else ()))
    return sql.StructType([*spark_schema(schema).fields, *(sql.StructField(name, sql.LongType()) for name in names)])


def plan_columns(current: Schema, stored: Schema) -> tuple[ColumnPlan, ...]:
    """How files written with `stored` are read as `current`."""
    by_id = {field.field_id: field for field in stored.fields}
    taken = {field.name.lower() for field in stored.fields}
    return tuple(_plan(field, by_id.get(field.field_id), taken) for field in current.fields)


def floats_of(schema: Schema) -> frozenset[int]:
    """The ids of the floats and doubles that Spark may skip row groups by."""
    return frozenset(number for field in schema.fields for number in float_fields(field))


def float_fields(field: ice.NestedField) -> Iterator[int]:
    """The ids of the floats and doubles in a column, without those inside lists and maps."""
    if isinstance(field.field_type, ice.FloatType | ice.DoubleType):
        yield field.field_id
    elif isinstance(field.field_type, ice.StructType):
        for inner in field.field_type.fields:
            yield from float_fields(inner)


def shown_type(kind: ice.IcebergType) -> sql.DataType:
    """The Spark type that users see."""
    match kind:
        case ice.StructType():
            return sql.StructType([sql.StructField(f.name, shown_type(f.field_type)) for f in kind.fields])
        case ice.ListType():
            return sql.ArrayType(shown_type(kind.element_type))
        case ice.MapType():
            return sql.MapType(shown_type(kind.key_type), shown_type(kind.value_type))
        case ice.TimestampNanoType():
            return sql.TimestampNTZType()
        case ice.TimestamptzNanoType():
            return sql.TimestampType()
        case ice.UUIDType():
            return sql.StringType()
        case _:
            return _stored_primitive(kind)


def quoted(name: str) -> str:
    """A column's name for `F.col`, which would take a dot in it for a path."""
    return "`" + name.replace("`", "``") + "`"


_PRIMITIVES: Mapping[type[ice.IcebergType], Callable[[Any], sql.DataType]] = MappingProxyType(
    {
        ice.BooleanType: lambda _: sql.BooleanType(),
        ice.IntegerType: lambda _: sql.IntegerType(),
        ice.LongType: lambda _: sql.LongType(),
        ice.FloatType: lambda _: sql.FloatType(),
        ice.DoubleType: lambda _: sql.DoubleType(),
        ice.DecimalType: lambda kind: sql.DecimalType(kind.precision, kind.scale),
        ice.DateType: lambda _: sql.DateType(),
        ice.TimeType: lambda _: sql.TimeType(6),
        ice.TimestampType: lambda _: sql.TimestampNTZType(),
        ice.TimestamptzType: lambda _: sql.TimestampType(),
        ice.TimestampNanoType: lambda _: sql.LongType(),
        ice.TimestamptzNanoType: lambda _: sql.LongType(),
        ice.StringType: lambda _: sql.StringType(),
        ice.UUIDType: lambda _: sql.BinaryType(),
        ice.FixedType: lambda _: sql.BinaryType(),
        ice.BinaryType: lambda _: sql.BinaryType(),
    }
)


def _stored_primitive(kind: ice.IcebergType) -> sql.DataType:
    build = _PRIMITIVES.get(type(kind))
    if build is None:
        raise Unsupported(f"Spark cannot read columns of type {kind}; read the table with scan().")
    return build(kind)


def _plan(field: ice.NestedField, stored: ice.NestedField | None, taken: set[str]) -> ColumnPlan:
    default = default_value(field) if stored is None else None
    if stored is None and (default is not None or field.name.lower() in taken):
        constant = partial(_constant, field.field_type, default)
        return ColumnPlan(field.name, None, None, constant, (field.name, repr(field.field_type), repr(default)))
    source = stored or field
    reading = _read(field.field_type, source.field_type)
    declared = _declare(source.name, reading.declared, source.field_id)
    key = (field.name, declared.json(), None if reading.convert is None else repr(field.field_type))
    return ColumnPlan(field.name, declared, reading.convert, None, key)


def _declare(name: str, kind: sql.DataType, field_id: int) -> sql.StructField:
    return sql.StructField(name, kind, metadata={FIELD_ID: field_id})


def _read(current: ice.IcebergType, stored: ice.IcebergType) -> Reading:
    if isinstance(current, ice.StructType) and isinstance(stored, ice.StructType):
        return _read_struct(current, stored)
    if isinstance(current, ice.ListType) and isinstance(stored, ice.ListType):
        element = _read(current.element_type, stored.element_type)
        declared = sql.ArrayType(element.declared)
        return Reading(declared, None if element.convert is None else partial(_convert_list, element.convert))
    if isinstance(current, ice.MapType) and isinstance(stored, ice.MapType):
        key = _read(current.key_type, stored.key_type)
        value = _read(current.value_type, stored.value_type)
        declared_map = sql.MapType(key.declared, value.declared)
        if key.convert is None and value.convert is None:
            return Reading(declared_map)
        return Reading(declared_map, partial(_convert_map, key.convert, value.convert))
    declared_leaf = _stored_primitive(stored)
    return Reading(declared_leaf, _convert_leaf(current, stored))


def _read_struct(current: ice.StructType, stored: ice.StructType) -> Reading:
    by_id = {field.field_id: field for field in stored.fields}
    taken = {field.name.lower() for field in stored.fields}
    plans = [_plan(field, by_id.get(field.field_id), taken) for field in current.fields]
    declared = [plan.declared for plan in plans if plan.declared is not None]
    if not declared:  # a struct must be read to know where it is null, and Spark reads it by one of its fields
        first = stored.fields[0]
        declared = [_declare(first.name, _read(first.field_type, first.field_type).declared, first.field_id)]
    same = all(p.declared is not None and p.convert is None and p.declared.name == p.name for p in plans)
    return Reading(sql.StructType(declared), None if same else partial(_convert_struct, plans))


def _convert_struct(plans: list[ColumnPlan], struct: Column) -> Column:
    return F.when(struct.isNotNull(), F.struct(*(plan.column(struct.getField) for plan in plans)))


def _convert_list(convert: Convert, array: Column) -> Column:
    return F.transform(array, convert)


def _convert_map(key: Convert | None, value: Convert | None, entries: Column) -> Column:
    if value is not None:
        entries = F.transform_values(entries, partial(_second, value))
    if key is not None:
        entries = F.transform_keys(entries, partial(_first, key))
    return entries


def _first(convert: Convert, key: Column, value: Column) -> Column:
    return convert(key)


def _second(convert: Convert, key: Column, value: Column) -> Column:
    return convert(value)


def _convert_leaf(current: ice.IcebergType, stored: ice.IcebergType) -> Convert | None:
    match current, stored:
        case ice.UUIDType(), ice.UUIDType():
            return _uuid_text
        case ice.TimestampNanoType(), ice.TimestampNanoType():
            return _to_local_time
        case ice.TimestamptzNanoType(), ice.TimestamptzNanoType():
            return _to_instant
    shown = shown_type(current)
    return None if shown == _stored_primitive(stored) else partial(_cast, shown)


def _cast(shown: sql.DataType, column: Column) -> Column:
    return column.cast(shown)


def _uuid_text(column: Column) -> Column:
    digits = F.lower(F.hex(column))
    parts = [F.substring(digits, start, length) for start, length in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
    return F.when(column.isNotNull(), F.concat_ws("-", *parts))


def _micros(nanos: Column) -> Column:
    """Rounded down, also before 1970; written so that no long overflows."""
    below = (nanos < 0) & (nanos % 1000 != 0)
    return F.call_function("div", nanos, F.lit(1000)) - below.cast("bigint")


def _to_instant(nanos: Column) -> Column:
    return F.timestamp_micros(_micros(nanos))


def _to_local_time(nanos: Column) -> Column:
    return F.timestamp_add("MICROSECOND", _micros(nanos), F.expr("timestamp_ntz'1970-01-01 00:00:00'"))


def _constant(kind: ice.IcebergType, value: Any) -> Column:
    """A default as Spark shows it. Times go in as text or numbers: Python's would depend on the machine's time zone."""
    match kind:
        case _ if value is None:
            return F.lit(None).cast(shown_type(kind))
        case ice.TimestampNanoType():
            return _to_local_time(F.lit(value).cast("bigint"))
        case ice.TimestamptzNanoType():
            return _to_instant(F.lit(value).cast("bigint"))
        case ice.TimestamptzType():
            return F.timestamp_micros(F.lit(datetime_to_micros(value)).cast("bigint"))
        case ice.UUIDType() | ice.TimestampType() | ice.TimeType() | ice.DateType():
            return F.lit(str(value)).cast(shown_type(kind))
    return F.lit(value).cast(shown_type(kind))
