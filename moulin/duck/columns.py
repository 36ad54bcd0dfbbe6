"""Maps the columns of a table to DuckDB: the declaration for the Parquet scan, and the SQL that computes the column.

Files are read by field id: `schema=` of read_parquet finds a column under any name, casts it to a wider type, and gives
rows that were stored before it was added their default. It does so for whole columns only. A struct, list or map with
changed fields is declared as stored, and converted by an expression.

DuckDB has every type of a table but one: timestamptz_ns is shown in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from moulin.errors import Unsupported
from moulin.model.layout.bounds import bound_from_bytes
from moulin.model.layout.partition import python_value
from moulin.model.schema import values as ice
from moulin.model.schema.defaults import default_value
from moulin.model.schema.values import Schema


@dataclass(frozen=True, slots=True)
class Declaration:
    """A column of a scan, and the expression that is the column of the table."""

    field_id: int
    type: str
    default: str | None
    expression: str
    name: str

    @property
    def entry(self) -> str:
        """For `schema=` of read_parquet."""
        default = "NULL" if self.default is None else quoted_text(self.default)
        name, kind = quoted_text(column_name(self.field_id)), quoted_text(self.type)
        return f"{self.field_id}: {{name: {name}, type: {kind}, default_value: {default}}}"

    @property
    def selected(self) -> str:
        return f"{self.expression} AS {quoted(self.name)}"


def declare(
    current: Schema, stored: Schema, constants: Mapping[int, bytes | None] | None = None
) -> tuple[Declaration, ...]:
    """How files written with `stored` are read as `current`; `constants` are columns that they lack, of one value."""
    by_id = {field.field_id: field for field in stored.fields}
    given = constants or {}
    return tuple(
        _constant(field, given[field.field_id])
        if field.field_id in given
        else _declaration(field, by_id.get(field.field_id))
        for field in current.fields
    )


def column_name(field_id: int) -> str:
    """The name of a column in scans: never that of a column which DuckDB adds, such as `filename`."""
    return f"c{field_id}"


def duck_type(kind: ice.IcebergType) -> str:
    """The type that a value of `kind` has in a file, as DuckDB reads it."""
    match kind:
        case ice.StructType():
            return f"STRUCT({', '.join(f'{quoted(f.name)} {duck_type(f.field_type)}' for f in kind.fields)})"
        case ice.ListType():
            return f"{duck_type(kind.element_type)}[]"
        case ice.MapType():
            return f"MAP({duck_type(kind.key_type)}, {duck_type(kind.value_type)})"
    build = _PRIMITIVES.get(type(kind))
    if build is None:
        raise Unsupported(f"DuckDB cannot read columns of type {kind}; read the table with scan().")
    return build(kind)


def shown_type(kind: ice.IcebergType) -> str:
    """The type of a column in DuckDB: as `duck_type`, and lists of a fixed length are arrays."""
    if isinstance(kind, ice.ListType) and kind.length is not None:
        return f"{duck_type(kind.element_type)}[{kind.length}]"
    return duck_type(kind)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_PRIMITIVES: Mapping[type[ice.IcebergType], Callable[[Any], str]] = MappingProxyType(
    {
        ice.BooleanType: lambda _: "BOOLEAN",
        ice.IntegerType: lambda _: "INTEGER",
        ice.LongType: lambda _: "BIGINT",
        ice.FloatType: lambda _: "FLOAT",
        ice.DoubleType: lambda _: "DOUBLE",
        ice.DecimalType: lambda kind: f"DECIMAL({kind.precision},{kind.scale})",
        ice.DateType: lambda _: "DATE",
        ice.TimeType: lambda _: "TIME",
        ice.TimestampType: lambda _: "TIMESTAMP",
        ice.TimestamptzType: lambda _: "TIMESTAMPTZ",
        ice.TimestampNanoType: lambda _: "TIMESTAMP_NS",
        ice.TimestamptzNanoType: lambda _: "TIMESTAMPTZ",
        ice.StringType: lambda _: "VARCHAR",
        ice.UUIDType: lambda _: "UUID",
        ice.FixedType: lambda _: "BLOB",
        ice.BinaryType: lambda _: "BLOB",
    }
)


def _constant(field: ice.NestedField, data: bytes | None) -> Declaration:
    assert isinstance(field.field_type, ice.PrimitiveType)
    value = None if data is None else python_value(field.field_type, bound_from_bytes(field.field_type, data))
    column, kind = column_name(field.field_id), duck_type(field.field_type)
    return Declaration(field.field_id, kind, _text(field.field_type, value), column, field.name)


def _declaration(field: ice.NestedField, stored: ice.NestedField | None) -> Declaration:
    column, kind, shown = column_name(field.field_id), duck_type(field.field_type), shown_type(field.field_type)
    expression = column
    if stored is None:
        default = _text(field.field_type, default_value(field))
    else:
        default = None
        before = duck_type(stored.field_type)
        if not field.field_type.is_primitive and _differs(field.field_type, stored.field_type):
            kind, expression = before, _converted(column, field.field_type, stored.field_type, 0)
    if shown != duck_type(field.field_type):
        expression = f"CAST({expression} AS {shown})"
    return Declaration(field.field_id, kind, default, expression, field.name)


def _differs(current: ice.IcebergType, stored: ice.IcebergType) -> bool:
    """Whether a stored value is not read as the current type, field by field."""
    now, before = ice.inner_fields(current), ice.inner_fields(stored)
    if not now:
        return duck_type(current) != duck_type(stored)
    return [(f.field_id, f.name) for f in now] != [(f.field_id, f.name) for f in before] or any(
        _differs(a.field_type, b.field_type) for a, b in zip(now, before, strict=True)
    )


def _converted(value: str, current: ice.IcebergType, stored: ice.IcebergType, depth: int) -> str:
    """The SQL of a stored value as the current type. `depth` keeps the variables of nested lambdas apart."""
    if not _differs(current, stored):
        return value
    item = f"e{depth}"
    match current, stored:
        case ice.StructType(), ice.StructType():
            return _converted_struct(value, current, stored, depth)
        case ice.ListType(), ice.ListType():
            inner = _converted(item, current.element_type, stored.element_type, depth + 1)
            return f"list_transform({value}, lambda {item}: {inner})"
        case ice.MapType(), ice.MapType():
            key = _converted(f"{item}.key", current.key_type, stored.key_type, depth + 1)
            one = _converted(f"{item}.value", current.value_type, stored.value_type, depth + 1)
            entries = f"list_transform(map_entries({value}), lambda {item}: {{'key': {key}, 'value': {one}}})"
            return f"CASE WHEN {value} IS NULL THEN NULL ELSE map_from_entries({entries}) END"
    return f"CAST({value} AS {duck_type(current)})"


def _converted_struct(value: str, current: ice.StructType, stored: ice.StructType, depth: int) -> str:
    by_id = {field.field_id: field for field in stored.fields}
    parts = []
    for field in current.fields:
        source = by_id.get(field.field_id)
        if source is None:
            default = _text(field.field_type, default_value(field))
            part = f"CAST({'NULL' if default is None else quoted_text(default)} AS {duck_type(field.field_type)})"
        else:
            inner = f"struct_extract({value}, {quoted_text(source.name)})"
            part = _converted(inner, field.field_type, source.field_type, depth)
        parts.append(f"{quoted(field.name)} := {part}")
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(parts)}) END"


def _text(kind: ice.IcebergType, value: Any) -> str | None:
    """A default as text that DuckDB casts to the type."""
    match kind:
        case _ if value is None:
            return None
        case ice.TimestampNanoType():
            return f"{_from_micros(value // 1_000, None)}{value % 1_000:03}"
        case ice.TimestamptzNanoType():
            return str(_from_micros(value // 1_000, UTC))
        case ice.BooleanType():
            return "true" if value else "false"
        case ice.FloatType() | ice.DoubleType():
            return repr(value)
        case ice.FixedType() | ice.BinaryType():
            return "".join(f"\\x{byte:02X}" for byte in value)
    return str(value)


def _from_micros(micros: int, zone: Any) -> str:
    moment = datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=micros)
    return moment.isoformat(sep=" ", timespec="microseconds")
