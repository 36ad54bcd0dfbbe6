"""Schemas in metadata of each format version."""

from __future__ import annotations

import pytest

from moulin.iceberg.format.metadata import schema_json
from moulin.model.schema.documents import schema_of
from moulin.model.schema.values import (
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    Schema,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
)

NANO = TimestampNanoType()


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (NANO, None),
        (TimestamptzNanoType(), None),
        (TimestampType(), TimestampType()),
        (ListType(3, NANO), None),
        (MapType(3, LongType(), 4, StructType(NestedField(5, "at", NANO))), None),
        (StructType(NestedField(3, "at", ListType(4, NANO))), None),
        (
            ListType(3, StructType(NestedField(4, "at", NANO), NestedField(5, "n", IntegerType()))),
            ListType(3, StructType(NestedField(5, "n", IntegerType()))),
        ),
    ],
)
def test_schemas_before_version_3_lack_nanoseconds(kind: IcebergType, left: IcebergType | None) -> None:
    number, column = NestedField(1, "id", LongType(), required=True), NestedField(2, "c", kind)
    schema = Schema(number, column, schema_id=4)
    assert schema_of(schema_json(schema, 3)) == schema
    older = schema_of(schema_json(schema, 2))
    assert older == Schema(number, *([] if left is None else [NestedField(2, "c", left)]))
    assert older.schema_id == 4


def test_schemas_before_version_3_lack_defaults_and_keys_of_nanoseconds() -> None:
    key = NestedField(1, "at", NANO, required=True), NestedField(2, "id", LongType(), required=True)
    filled = NestedField(3, "n", LongType(), initial_default=5, write_default=6)
    schema = Schema(*key, filled, identifier_field_ids=[1, 2])
    assert schema_of(schema_json(schema, 3)) == schema
    left = Schema(key[1], NestedField(3, "n", LongType()), identifier_field_ids=[2])
    assert schema_of(schema_json(schema, 2)) == left
    assert schema_json(Schema(key[0]), 2)["fields"] == []
