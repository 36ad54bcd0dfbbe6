"""The schema of a table as merutable has it: JSON under a property of full manifests, without which it refuses them.

It knows Parquet's physical types. Columns are what files hold: text as bytes, times as numbers; structs, lists and maps
are left out.
"""

# Decisions: docs/decisions/0454

from __future__ import annotations

import json
from typing import Final

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
    Schema,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

# DO NOT CHANGE: merutable looks for these.
SCHEMA_PROPERTY: Final = "merutable.schema.json"
FORMAT_PROPERTY: Final = "merutable.format_version"
FORMAT: Final = "3"

_TYPES: dict[type[IcebergType], str] = {
    BooleanType: "Boolean",
    IntegerType: "Int32",
    DateType: "Int32",
    LongType: "Int64",
    TimeType: "Int64",
    TimestampType: "Int64",
    TimestamptzType: "Int64",
    TimestampNanoType: "Int64",
    TimestamptzNanoType: "Int64",
    FloatType: "Float",
    DoubleType: "Double",
    StringType: "ByteArray",
    BinaryType: "ByteArray",
}


def merutable_properties(table: str, schema: Schema, last_column_id: int) -> dict[str, str]:
    """The properties that merutable looks for in a manifest of `table`."""
    columns = []
    for field in schema.fields:
        if (kind := _type_of(field.field_type)) is not None:
            column = {"name": field.name, "col_type": kind, "nullable": not field.required}
            columns.append({**column, "field_id": field.field_id})
    order = {column["field_id"]: index for index, column in enumerate(columns)}
    document = {
        "table_name": table,
        "columns": columns,
        "primary_key": [order[field_id] for field_id in schema.identifier_field_ids],
        "schema_id": schema.schema_id,
        "last_column_id": last_column_id,
    }
    return {SCHEMA_PROPERTY: json.dumps(document), FORMAT_PROPERTY: FORMAT}


def _type_of(kind: IcebergType) -> str | dict[str, int] | None:
    match kind:
        case FixedType():
            return {"FixedLenByteArray": len(kind)}
        case UUIDType():
            return {"FixedLenByteArray": 16}
        case DecimalType(precision=precision):
            if precision <= 18:
                return "Int32" if precision <= 9 else "Int64"
            return {"FixedLenByteArray": _decimal_bytes(precision)}
    return _TYPES.get(type(kind))


def _decimal_bytes(precision: int) -> int:
    """As many bytes as hold every number of this many digits."""
    return (int(10**precision - 1).bit_length() + 8) // 8


__all__ = ["FORMAT_PROPERTY", "SCHEMA_PROPERTY", "merutable_properties"]
