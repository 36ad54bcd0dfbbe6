"""Schemas and their JSON are what pyiceberg's are: lakes hold what it wrote."""

from __future__ import annotations

import pickle

import pyiceberg.types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json as pydantic_json
from pyiceberg.schema import Schema as TheirSchema

from moulin.errors import Corrupt, InvalidInput
from moulin.model.schema.change import AddColumn, change_from_json, change_to_json
from moulin.model.schema.documents import schema_from_json, schema_to_json, to_text, type_document
from moulin.model.schema.foreign import own_value
from moulin.model.schema.values import (
    DecimalType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    Schema,
    StringType,
    StructType,
)
from tests.model.referee import their_schema, their_type
from tests.model.strategies import TEXT, primitive_types, schemas, types

NESTED = Schema(
    NestedField(1, "id", LongType(), True),
    NestedField(
        2, "rows", ListType(3, StructType(NestedField(4, "a", LongType()), NestedField(5, "B", StringType())), False)
    ),
    NestedField(6, "byname", MapType(7, StringType(), 8, StructType(NestedField(9, "x", DoubleType())))),
)


@settings(max_examples=1000)
@given(st.floats() | st.floats(1e-8, 1e-3) | TEXT | st.integers())
def test_numbers_and_text_are_spelled_as_pydantic_does(value: float | str | int) -> None:
    assert to_text(value) == pydantic_json(value, inf_nan_mode="null").decode()


@settings(deadline=None, max_examples=50)
@given(schemas())
def test_a_schema_has_the_text_that_pyiceberg_writes(schema: Schema) -> None:
    text = schema_to_json(schema)
    theirs = TheirSchema.model_validate_json(text)
    assert theirs.model_dump_json() == text
    assert schema_from_json(theirs.model_dump_json()) == own_value(theirs) == schema
    assert schema_to_json(own_value(theirs)) == text


@settings(deadline=None, max_examples=30)
@given(schemas())
def test_fields_are_found_as_in_pyiceberg(schema: Schema) -> None:
    theirs = their_schema(schema)
    assert schema.column_names == theirs.column_names
    assert schema.field_ids == theirs.field_ids
    assert schema.highest_field_id == theirs.highest_field_id
    assert str(schema) == str(theirs)
    for name in [*schema.column_names, *theirs._name_to_id]:
        assert schema.find_field(name).field_id == theirs.find_field(name).field_id
        lower = theirs.find_field(name.lower(), case_sensitive=False)
        assert schema.find_field(name.lower(), case_sensitive=False).field_id == lower.field_id
    for number in schema.field_ids:
        assert str(schema.find_field(number)) == str(theirs.find_field(number))
        assert schema.find_column_name(number) == theirs.find_column_name(number)


@settings(deadline=None)
@given(types())
def test_a_type_has_the_form_that_pyiceberg_gives_it(kind: IcebergType) -> None:
    theirs = their_type(kind)
    assert str(theirs) == str(kind)
    assert theirs.model_dump_json() == to_text(type_document(kind))
    assert own_value(theirs) == kind


@given(primitive_types())
def test_a_column_of_a_type_of_pyiceberg_may_be_added(kind: IcebergType) -> None:
    change = AddColumn("a", their_type(kind))
    assert change == AddColumn("a", kind)
    assert change_from_json(change_to_json(change)) == change


@settings(deadline=None, max_examples=30)
@given(schemas())
def test_schemas_are_values(schema: Schema) -> None:
    other = pickle.loads(pickle.dumps(schema))
    assert other == schema
    assert hash(other) == hash(schema)
    assert other.column_names == schema.column_names
    assert other.schema_id == schema.schema_id
    assert {schema: 1}[other] == 1


def test_schemas_that_differ_in_their_id_alone_are_equal() -> None:
    field = NestedField(1, "a", LongType(), True)
    assert Schema(field, schema_id=1) == Schema(field, schema_id=2)
    assert Schema(field) != Schema(field, identifier_field_ids=[1])
    assert Schema(field) != Schema(NestedField(1, "a", LongType(), True, doc="a"))


def test_a_struct_in_a_list_or_map_may_be_named_by_that_alone() -> None:
    assert NESTED.find_field("rows.a") == NESTED.find_field("rows.element.a")
    assert NESTED.find_field("byname.x") == NESTED.find_field("byname.value.x")
    assert NESTED.find_field("ROWS.b", case_sensitive=False).field_id == 5
    with pytest.raises(ValueError, match="no field 'rows.b'"):
        NESTED.find_field("rows.b")
    with pytest.raises(ValueError, match="no field 77"):
        NESTED.find_field(77)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ([NestedField(1, "a", LongType()), NestedField(2, "a", LongType())], []),
        ([NestedField(1, "a", LongType())], [1]),
        ([NestedField(1, "a", LongType(), True)], [2]),
        ([NestedField(1, "a", DoubleType(), True)], [1]),
        ([NestedField(1, "a", ListType(2, LongType(), True), True)], [1]),
        ([NestedField(1, "a", ListType(2, LongType(), True), True)], [2]),
        ([NestedField(1, "a", StructType(NestedField(2, "b", LongType(), True)))], [2]),
    ],
)
def test_schemas_that_pyiceberg_refuses_are_refused(fields: list[NestedField], key: list[int]) -> None:
    with pytest.raises(ValueError, match="same name|part of a key|no field"):
        Schema(*fields, identifier_field_ids=key)
    columns = [type_document(StructType(field))["fields"][0] for field in fields]  # type: ignore[index]
    with pytest.raises(ValueError):  # noqa: PT011  pyiceberg's own
        TheirSchema.model_validate({"type": "struct", "fields": columns, "identifier-field-ids": key})


def test_a_key_may_lie_in_required_structs() -> None:
    inner = StructType(NestedField(2, "b", LongType(), True))
    assert Schema(NestedField(1, "a", inner, True), identifier_field_ids=[2]).identifier_field_ids == (2,)


@pytest.mark.parametrize(
    "text",
    [
        '{"fields": [{"id": true, "name": "a", "type": "long", "required": false}]}',
        '{"fields": [{"id": 1, "name": 2, "type": "long", "required": false}]}',
        '{"fields": [{"id": 1, "name": "a", "type": "decimal(39, 1)", "required": false}]}',
        '{"fields": [{"id": 1, "name": "a", "type": "variety", "required": false}]}',
        '{"fields": [{"id": 1, "name": "a", "type": {"type": "list"}, "required": false}]}',
        '{"fields": [{"id": 1, "name": "a", "type": "date", "required": false, "initial-default": "soon"}]}',
        '{"fields": ["a"]}',
        '{"type": "list", "fields": []}',
    ],
)
def test_damaged_schemas_are_corrupt(text: str) -> None:
    with pytest.raises(Corrupt, match="stored schema cannot be read"):
        schema_from_json(text)


def test_a_decimal_has_at_most_38_digits() -> None:
    with pytest.raises(ValueError, match="1 to 38, not 39"):
        DecimalType(39, 0)


def test_a_value_of_pyiceberg_that_has_no_type_of_ours_is_invalid() -> None:
    class Later(pyiceberg.types.PrimitiveType):
        root: str = "variant"

    with pytest.raises(InvalidInput, match="unknown type 'variant'"):
        own_value(Later())
