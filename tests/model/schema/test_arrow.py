from __future__ import annotations

import pyarrow as pa
import pytest

from moulin.errors import Unsupported
from moulin.model.schema.arrow import arrow_schema, arrow_type, field_id, leaves
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
    Schema,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

NESTED = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(
        2,
        "places",
        ListType(
            3,
            StructType(
                NestedField(4, "x", DoubleType(), required=True),
                NestedField(5, "tags", MapType(6, StringType(), 7, UUIDType(), value_required=False)),
            ),
            element_required=False,
        ),
    ),
    NestedField(8, "note", StringType()),
)


@pytest.mark.parametrize(
    ("iceberg", "expected"),
    [
        (BooleanType(), pa.bool_()),
        (IntegerType(), pa.int32()),
        (LongType(), pa.int64()),
        (FloatType(), pa.float32()),
        (DoubleType(), pa.float64()),
        (DecimalType(9, 2), pa.decimal128(9, 2)),
        (DecimalType(38, 10), pa.decimal128(38, 10)),
        (DateType(), pa.date32()),
        (TimeType(), pa.time64("us")),
        (TimestampType(), pa.timestamp("us")),
        (TimestamptzType(), pa.timestamp("us", tz="UTC")),
        (TimestampNanoType(), pa.timestamp("ns")),
        (TimestamptzNanoType(), pa.timestamp("ns", tz="UTC")),
        (StringType(), pa.string()),
        (UUIDType(), pa.uuid()),
        (FixedType(7), pa.binary(7)),
        (BinaryType(), pa.binary()),
    ],
    ids=str,
)
def test_each_type_has_one_arrow_type(iceberg: IcebergType, expected: pa.DataType) -> None:
    assert arrow_type(iceberg) == expected


def test_every_field_carries_its_id_and_whether_it_may_be_null() -> None:
    schema = arrow_schema(NESTED)
    places = schema.field("places")
    element = places.type.value_field
    tags = element.type.field("tags")
    ids = [field_id(field) for field in (schema.field("id"), places, element, element.type.field("x"), tags)]
    assert ids == [1, 2, 3, 4, 5]
    assert [field_id(tags.type.key_field), field_id(tags.type.item_field)] == [6, 7]
    assert (element.name, tags.type.key_field.name, tags.type.item_field.name) == ("element", "key", "value")
    assert [field.nullable for field in (schema.field("id"), places, element, element.type.field("x"))] == [
        False,
        True,
        True,
        False,
    ]
    assert not tags.type.key_field.nullable


def test_lineage_columns_follow_with_their_reserved_ids() -> None:
    plain, lineage = arrow_schema(NESTED), arrow_schema(NESTED, lineage=True)
    assert lineage.names == [*plain.names, "_row_id", "_last_updated_sequence_number"]
    assert [field_id(lineage.field(at)) for at in (-2, -1)] == [2147483540, 2147483539]
    assert all(lineage.field(at).type == pa.int64() and lineage.field(at).nullable for at in (-2, -1))


def test_the_schema_is_made_once_per_schema_object() -> None:
    twin = Schema(*NESTED.fields)
    assert arrow_schema(NESTED) is arrow_schema(NESTED)
    assert arrow_schema(NESTED, lineage=True) is not arrow_schema(NESTED)
    assert arrow_schema(twin) is not arrow_schema(NESTED)
    assert arrow_schema(twin).equals(arrow_schema(NESTED), check_metadata=True)


def test_a_type_that_cannot_be_stored_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="unknown"):
        arrow_type(UnknownType())


def test_leaves_are_numbered_as_parquet_stores_them() -> None:
    found = leaves(arrow_schema(NESTED))
    assert [(leaf.index, leaf.column, leaf.path, leaf.field_id, leaf.repeated) for leaf in found] == [
        (0, 0, "id", 1, False),
        (1, 1, "places.list.element.x", 4, True),
        (2, 1, "places.list.element.tags.key_value.key", 6, True),
        (3, 1, "places.list.element.tags.key_value.value", 7, True),
        (4, 2, "note", 8, False),
    ]
