"""Columns as Spark's parser reads them, as columns of a lake table; and back, as SQL text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from itertools import count
from types import MappingProxyType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as sql

from moulin.errors import InvalidInput, Unsupported
from moulin.model.names import check_column_name
from moulin.model.schema import values as ice
from moulin.model.schema.defaults import coerce_default
from moulin.model.schema.types import check_storable, check_unique, renumber
from moulin.pipeline.sql.catalyst import Expression, content, python_type
from moulin.pipeline.sql.expressions import literal_number, literal_text
from moulin.pipeline.statements.session import Session

_PLAIN: Mapping[type[sql.DataType], ice.IcebergType] = MappingProxyType(
    {
        sql.BooleanType: ice.BooleanType(),
        sql.ByteType: ice.IntegerType(),
        sql.ShortType: ice.IntegerType(),
        sql.IntegerType: ice.IntegerType(),
        sql.LongType: ice.LongType(),
        sql.FloatType: ice.FloatType(),
        sql.DoubleType: ice.DoubleType(),
        sql.DateType: ice.DateType(),
        sql.TimeType: ice.TimeType(),
        sql.TimestampType: ice.TimestamptzType(),
        sql.TimestampNTZType: ice.TimestampType(),
        sql.BinaryType: ice.BinaryType(),
    }
)
_CONSTANT = {"Literal", "UnaryMinus", "UnaryPositive", "Cast"}


def lake_type(kind: sql.DataType, what: str) -> ice.IcebergType:
    """The type of a lake table that holds values of a type of Spark; Unsupported names the column without one."""
    match kind:
        case sql.StructType():
            return ice.StructType(*(_field(field, what) for field in kind.fields))
        case sql.ArrayType():
            return ice.ListType(0, lake_type(kind.elementType, what), not kind.containsNull)
        case sql.MapType():
            key, value = lake_type(kind.keyType, what), lake_type(kind.valueType, what)
            return ice.MapType(0, key, 0, value, not kind.valueContainsNull)
        case sql.DecimalType():
            return ice.DecimalType(kind.precision, kind.scale)
        case sql.StringType() if kind == sql.StringType():
            return ice.StringType()
    found = _PLAIN.get(type(kind))
    if found is None:
        raise Unsupported(
            f"Tables of the lake do not support the type of {what}, {kind.simpleString().upper()}: choose another, "
            f"such "
            "as STRING."
        )
    return found


def lake_schema(fields: list[ice.NestedField]) -> ice.Schema:
    """Columns as a schema, with field ids that a table exchanges for its own."""
    check_unique(fields, "The table")
    struct = renumber(ice.StructType(*fields), count(1).__next__)
    assert isinstance(struct, ice.StructType)
    return ice.Schema(*struct.fields)


def result_columns(columns: sql.StructType) -> list[ice.NestedField]:
    """The columns of a query's result; all may be null, and so may all that is inside them."""
    shown = [(field.name, _nullable(field.dataType)) for field in columns]
    return [ice.NestedField(0, name, lake_type(kind, f"column {name}")) for name, kind in shown]


def defined_column(session: Session, definition: Any) -> ice.NestedField:
    """A column as CREATE TABLE defines it."""
    name = check_column_name(definition.name())
    if content(definition.generationExpression()) is not None or content(definition.identityColumnSpec()) is not None:
        raise Unsupported(f"Column {name} is GENERATED, which is not supported: write its values.")
    kind = lake_type(python_type(definition.dataType()), f"column {name}")
    field = ice.NestedField(0, name, kind, not definition.nullable(), content(definition.comment()))
    return with_default(session, field, content(definition.defaultValue()))


def with_default(session: Session, field: ice.NestedField, default: Any) -> ice.NestedField:
    """The column with the default that DEFAULT says; as it is without one."""
    if default is None:
        return field
    value = default_value(session, default.child(), field)
    return ice.NestedField(0, field.name, field.field_type, field.required, field.doc, value, value)


def default_value(session: Session, expression: Expression, field: ice.NestedField) -> Any:
    """The value of a constant as the default of a column."""
    what = f"column {field.name}"
    parts = json.loads(expression.toJSON())
    if any(part["class"].rpartition(".")[2] not in _CONSTANT for part in parts):
        raise InvalidInput(f"The default of {what} must be a constant such as 3, 'eu' or date '2024-03-01'.")
    value: Any = literal_text(expression.toJSON())
    if value is None:
        value = literal_number(expression.toJSON())
    if value is None:
        try:
            value = session.catalyst.evaluate(expression).select(F.col("value")).toArrow().column(0)[0].as_py()
        except PySparkException as error:
            reason = str(error).strip().partition("\n")[0]
            raise InvalidInput(f"The default of {what} has no value: {reason}") from None
    if isinstance(value, Decimal) and isinstance(field.field_type, ice.FloatType | ice.DoubleType):
        value = float(value)
    return None if value is None else coerce_default(field.field_type, value, what)


def typed(fields: list[ice.NestedField], types: Mapping[str, ice.IcebergType]) -> list[ice.NestedField]:
    """The columns, those in `types` with that type; they are declared as Spark shows them."""
    for name, kind in types.items():
        if name not in {field.name for field in fields}:
            raise InvalidInput(f"Property 'column_type.{name}' is for an unknown column.")
        check_storable(kind, f"column {name}")
    return [_retyped(field, types[field.name]) if field.name in types else field for field in fields]


def _retyped(field: ice.NestedField, kind: ice.IcebergType) -> ice.NestedField:
    default = field.write_default
    value = None if default is None else coerce_default(kind, default, f"column {field.name}")
    return ice.NestedField(0, field.name, kind, field.required, field.doc, value, value)


def _nullable(kind: sql.DataType) -> sql.DataType:
    match kind:
        case sql.StructType():
            return sql.StructType([sql.StructField(field.name, _nullable(field.dataType)) for field in kind.fields])
        case sql.ArrayType():
            return sql.ArrayType(_nullable(kind.elementType))
        case sql.MapType():
            return sql.MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind


def _field(field: sql.StructField, what: str) -> ice.NestedField:
    kind = lake_type(field.dataType, f"{what}.{field.name}")
    comment = (field.metadata or {}).get("comment")
    return ice.NestedField(0, check_column_name(field.name), kind, not field.nullable, comment)
