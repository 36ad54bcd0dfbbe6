from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types as pyiceberg_types

from moulin.errors import Corrupt, InvalidInput, NotFound
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.documents import schema_from_json, schema_to_json
from moulin.model.schema.schema import (
    coerce_default,
    column_path,
    default_value,
    find_column,
    key_names,
    make_schema,
    parse_type,
)
from moulin.model.schema.type_reader import to_type
from moulin.model.schema.types import PLAIN_TYPES
from moulin.model.schema.values import (
    DecimalType,
    FloatType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    Schema,
    StringType,
    StructType,
    UnknownType,
)
from tests.model.referee import their_schema

SOME_UUID = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize("text", list(PLAIN_TYPES))
def test_every_plain_type_has_its_own_name(text: str) -> None:
    assert str(parse_type(text)) == text
    assert str(parse_type(f" {text.upper()} ")) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bool", "boolean"),
        ("bigint", "long"),
        ("decimal(9,2)", "decimal(9, 2)"),
        ("fixed[16]", "fixed[16]"),
        ("fixed(16)", "fixed[16]"),
        ("list< int >", "list<int>"),
        ("array<int>", "list<int>"),
        ("map<string, list<long>>", "map<string, list<long>>"),
        ("struct<a: int, b c: string>", "struct<1: a: optional int, 2: b c: optional string>"),
        ("list<struct<a:map<date,uuid>>>", "list<struct<2: a: optional map<date, uuid>>>"),
    ],
)
def test_types_are_read_from_text(text: str, expected: str) -> None:
    assert str(parse_type(text)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("strin", "Did you mean 'string'.*Known types: boolean, int, long"),
        ("", "its end at character 1 where a type belongs"),
        ("list<int", "its end at character 9 where '>' belongs"),
        ("int)", r"'\)' at character 4 where nothing more belongs"),
        ("map<int>", "where ',' belongs"),
        ("decimal(39, 2)", "precision must be 1 to 38"),
        ("decimal(5, 6)", "scale 0 to the precision"),
        ("decimal(99999999999, 6)", "where a precision belongs"),
        ("fixed[0]", "length must be 1"),
        ("struct<>", "a field name"),
        ("struct<a: int, A: long>", "twice but for case: 'a' and 'A'"),
        ("struct<_row_id: int>", "reserved"),
        ("list<" * 5000, "deeper than 32"),
        (None, "not NoneType"),
    ],
)
def test_unknown_types_are_refused(text: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_type(text)


def test_field_ids_count_from_the_top_level_inwards() -> None:
    schema = make_schema(
        [("a", "struct<x: int, y: list<struct<z: int>>>"), ("m", "map<string, struct<v: int>>"), ("id", "long", False)],
        primary_key=["id"],
    )
    ids = {name: schema.find_field(name).field_id for name in schema.column_names}
    outer, inner = {"a": 1, "m": 2, "id": 3}, {"a.x": 4, "a.y": 5, "a.y.element": 6, "a.y.element.z": 7}
    assert ids == outer | inner | {"m.key": 8, "m.value": 9, "m.value.v": 10}
    assert schema.highest_field_id == 10
    assert schema.identifier_field_ids == (3,)


def test_a_key_makes_its_columns_required_and_keeps_its_order() -> None:
    schema = make_schema(pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.int32()}), primary_key=["c", "a"])
    assert key_names(schema) == ("c", "a")
    assert [field.required for field in schema.fields] == [True, False, True]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (["z"], "'z', which is not a top-level column"),
        (["s.x"], "'s.x', which is not a top-level column"),
        (["a", "a"], "'a' twice"),
        (["d"], "type double cannot be part"),
        (["s"], "cannot be part of a primary key"),
        ("a", r"use \['a'\]"),
    ],
)
def test_impossible_keys_are_refused(key: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        make_schema([("a", "long"), ("d", "double"), ("s", "struct<x: int>")], primary_key=key)


ARROW = [
    (pa.int8(), "int"),
    (pa.uint16(), "int"),
    (pa.uint32(), "long"),
    (pa.int64(), "long"),
    (pa.float16(), "float"),
    (pa.float64(), "double"),
    (pa.decimal256(20, 3), "decimal(20, 3)"),
    (pa.decimal32(5, 1), "decimal(5, 1)"),
    (pa.date64(), "date"),
    (pa.time32("ms"), "time"),
    (pa.time64("ns"), "time"),
    (pa.timestamp("s"), "timestamp"),
    (pa.timestamp("ms", "Europe/Paris"), "timestamptz"),
    (pa.timestamp("ns"), "timestamp_ns"),
    (pa.timestamp("ns", "UTC"), "timestamptz_ns"),
    (pa.large_string(), "string"),
    (pa.string_view(), "string"),
    (pa.large_binary(), "binary"),
    (pa.binary(7), "fixed[7]"),
    (pa.uuid(), "uuid"),
    (pa.json_(), "string"),
    (pa.dictionary(pa.int8(), pa.large_string()), "string"),
    (pa.run_end_encoded(pa.int32(), pa.int64()), "long"),
    (pa.large_list(pa.int8()), "list<int>"),
    (pa.list_(pa.int8(), 3), "list<int>"),
    (pa.list_view(pa.int8()), "list<int>"),
    (pa.map_(pa.string(), pa.uuid()), "map<string, uuid>"),
]


@pytest.mark.parametrize(("given_type", "expected"), ARROW, ids=[str(kind) for kind, _ in ARROW])
def test_types_are_read_from_arrow(given_type: pa.DataType, expected: str) -> None:
    schema = make_schema([("c", given_type)])
    assert str(schema.fields[0].field_type) == expected


@pytest.mark.parametrize(
    ("given_type", "reason"),
    [
        (pa.uint64(), r"decimal128\(20, 0\)"),
        (pa.null(), "give the column a type"),
        (pa.duration("us"), "number of microseconds"),
        (pa.decimal256(50, 3), "precision must be 1 to 38"),
        (pa.decimal128(5, -2), "scale 0 to the precision"),
        (pa.list_(pa.struct([("x", pa.uint64())])), r"column c\.element\.x"),
        (pa.struct([]), "has no fields"),
        (pa.struct([("x", pa.int8()), ("X", pa.int8())]), "twice but for case"),
    ],
)
def test_arrow_types_without_a_counterpart_are_refused(given_type: pa.DataType, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        make_schema(pa.schema({"c": given_type}))


def test_arrow_nullability_and_docs_reach_every_level() -> None:
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.int32())])
    fields = [
        pa.field("l", pa.list_(pa.field("item", inner, nullable=False)), nullable=False, metadata={"doc": "a list"}),
        pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))),
    ]
    schema = make_schema(pa.schema(fields))
    required = {name for name in schema.column_names if schema.find_field(name).required}
    assert required == {"l", "l.element", "l.element.x", "m.key", "m.value"}
    assert schema.find_field("l").doc == "a list"


class Exporter:
    """Something that is not pyarrow but has a schema."""

    def __arrow_c_schema__(self) -> object:
        return pa.schema({"a": pa.int64()}).__arrow_c_schema__()


def test_whatever_exports_an_arrow_schema_is_one() -> None:
    assert make_schema(Exporter()) == make_schema([("a", "long")]) == make_schema([pa.field("a", pa.int64())])


def test_an_iceberg_schema_is_numbered_anew_and_keeps_key_and_defaults() -> None:
    own = Schema(
        NestedField(40, "a", LongType(), True, doc="number"),
        NestedField(7, "b", StringType(), False, initial_default="x", write_default="y"),
        identifier_field_ids=[40],
    )
    schema = make_schema(own)
    assert make_schema(their_schema(own)) == schema
    assert [(field.field_id, field.doc, field.write_default) for field in schema.fields] == [
        (1, "number", None),
        (2, None, "y"),
    ]
    assert key_names(schema) == ("a",)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ([], "at least one column"),
        ("a long", "not str"),
        ({"a": "long"}, "not dict"),
        (5, "not int"),
        ([("a", "long"), ("a", "int")], "twice: 'a'"),
        ([("a", "long"), ("A", "int")], "twice but for case"),
        ([("_row_id", "long")], "reserved"),
        ([("a",)], "is not \\(name, type\\)"),
        ([("a", "long", "no")], "True or False"),
        ([("a", 5)], "not int"),
        ([("a", pyiceberg_types.GeometryType())], "cannot be stored"),
        (Schema(NestedField(1, "a", UnknownType())), "cannot be stored"),
        (their_schema(Schema(NestedField(1, "a", UnknownType()))), "cannot be stored"),
        ([("a", "struct<" + ", ".join(f"f{i}: int" for i in range(10_001)) + ">")], "at most 10000"),
    ],
)
def test_impossible_schemas_are_refused(spec: object, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        make_schema(spec)


def test_columns_are_found_by_path_and_unknown_ones_named() -> None:
    schema = make_schema([("a", "struct<b: int>"), ("l", "list<struct<x: int>>")])
    assert find_column(schema, "a.b").field_id == 3
    assert column_path(schema, 3) == ("a", "b")
    assert column_path(schema, find_column(schema, "l.element.x").field_id) is None
    assert column_path(schema, 99) is None
    with pytest.raises(NotFound, match=r"no column 'zzz'\. The columns are: a, l\."):
        find_column(schema, "zzz")
    with pytest.raises(NotFound, match=r"Did you mean 'a\.b'"):
        find_column(schema, "a.bb")


DEFAULTS: list[tuple[str, Any, Any, Any]] = [
    # type, given, kept, JSON
    ("boolean", False, False, False),
    ("int", -(2**31), -(2**31), -(2**31)),
    ("long", 2**63 - 1, 2**63 - 1, 2**63 - 1),
    ("float", 0.1, 0.10000000149011612, 0.10000000149011612),
    ("double", 0.1, 0.1, 0.1),
    ("double", 7, 7.0, 7.0),
    ("decimal(9, 2)", "-1.2", Decimal("-1.20"), "-1.20"),
    ("decimal(9, 2)", 0.5, Decimal("0.50"), "0.50"),
    ("decimal(38, 0)", 10**38 - 1, Decimal(10**38 - 1), "9" * 38),
    ("date", date(1969, 12, 31), date(1969, 12, 31), "1969-12-31"),
    ("date", "2024-02-29", date(2024, 2, 29), "2024-02-29"),
    ("time", time(22, 31, 8, 1), time(22, 31, 8, 1), "22:31:08.000001"),
    ("timestamp", datetime(1960, 1, 1, 0, 0, 0, 5), datetime(1960, 1, 1, 0, 0, 0, 5), "1960-01-01T00:00:00.000005"),
    (
        "timestamptz",
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(2023, 12, 31, 22, tzinfo=UTC),
        "2023-12-31T22:00:00+00:00",
    ),
    ("timestamptz", "2024-01-01T00:00:00", datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00+00:00"),
    ("timestamp_ns", "2024-01-01T00:00:00.123456789", 1704067200123456789, "2024-01-01T00:00:00.123456789"),
    ("timestamp_ns", -1, -1, "1969-12-31T23:59:59.999999999"),
    ("timestamptz_ns", "2024-01-01T02:00:00+02:00", 1704067200000000000, "2024-01-01T00:00:00.000000000+00:00"),
    ("timestamptz_ns", datetime(2024, 1, 1, tzinfo=UTC), 1704067200000000000, "2024-01-01T00:00:00.000000000+00:00"),
    ("string", "é\n", "é\n", "é\n"),
    ("uuid", str(SOME_UUID), SOME_UUID, str(SOME_UUID)),
    ("uuid", SOME_UUID.bytes, SOME_UUID, str(SOME_UUID)),
    ("fixed[2]", b"\x00\xff", b"\x00\xff", "00ff"),
    ("binary", b"", b"", ""),
]


@pytest.mark.parametrize(("kind", "given_value", "kept", "stored"), DEFAULTS)
def test_defaults_survive_json_and_pickle_exactly(kind: str, given_value: Any, kept: Any, stored: Any) -> None:
    field_type = parse_type(kind)
    value = coerce_default(field_type, given_value, "column a")
    assert (value, type(value)) == (kept, type(kept))
    schema = Schema(NestedField(1, "a", field_type, True, initial_default=value, write_default=value), schema_id=4)
    text = schema_to_json(schema)
    field = json.loads(text)["fields"][0]
    assert (field["initial-default"], field["write-default"]) == (stored, stored)
    for again in (schema_from_json(text), pickle.loads(pickle.dumps(schema))):
        assert again == schema
        assert again.schema_id == 4
        assert (again.fields[0].initial_default, type(again.fields[0].initial_default)) == (kept, type(kept))
    scalar = pa.scalar(default_value(schema.fields[0]), arrow_type(field_type))
    assert scalar.is_valid
    assert scalar == pa.scalar(kept, arrow_type(field_type))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("int", 2**31),
        ("int", True),
        ("int", 1.0),
        ("long", "5"),
        ("float", 1e39),
        ("double", float("nan")),
        ("double", float("inf")),
        ("double", 2**53 + 1),
        ("decimal(4, 2)", "100"),
        ("decimal(4, 2)", "0.001"),
        ("decimal(4, 2)", "NaN"),
        ("date", datetime(2024, 1, 1)),
        ("date", "2024-13-01"),
        ("time", "25:00"),
        ("timestamp", datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamptz", datetime(2024, 1, 1)),
        ("timestamp", date(2024, 1, 1)),
        ("timestamp", "2024-01-01T00:00:00.123456789"),
        ("timestamp_ns", "2400-01-01T00:00:00"),
        ("timestamp_ns", "2024-01-01T00:00:00+00:00"),
        ("string", 5),
        ("string", "\ud800"),
        ("uuid", "nope"),
        ("fixed[2]", b"abc"),
        ("binary", "text"),
        ("list<int>", []),
    ],
)
def test_defaults_that_do_not_fit_are_refused(kind: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="column a"):
        coerce_default(parse_type(kind), value, "column a")


def types() -> st.SearchStrategy[IcebergType]:
    leaves = st.sampled_from([*PLAIN_TYPES.values(), DecimalType(38, 10), DecimalType(3, 3), FloatType()])

    def nest(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[IcebergType]:
        fields = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3)
        return (
            st.builds(ListType, st.just(0), inner, st.booleans())
            | st.builds(MapType, st.just(0), leaves, st.just(0), inner, st.booleans())
            | fields.map(lambda fs: StructType(*(NestedField(0, f"f{i}", t, r) for i, (t, r) in enumerate(fs))))
        )

    return st.recursive(leaves, nest, max_leaves=6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(types(), st.booleans()), min_size=1, max_size=4))
def test_any_schema_survives_json_and_has_every_id_once(columns: list[tuple[IcebergType, bool]]) -> None:
    schema = make_schema([(f"c{place}", kind, nullable) for place, (kind, nullable) in enumerate(columns)])
    assert schema_from_json(schema_to_json(schema)) == schema
    names = schema.column_names
    assert sorted(schema.find_field(name).field_id for name in names) == list(range(1, len(names) + 1))
    assert [field.field_id for field in schema.fields] == list(range(1, len(columns) + 1))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"type": "struct"}',
        '{"type": "struct", "fields": 7}',
        '{"type": "struct", "fields": [{"id": 1, "name": "a", "required": true, "type": "lo"}]}',
        '{"type": "struct", "fields": [{"id": 1, "name": "a", "required": true, "type": "fixed"}]}',
        '{"type": "struct", "fields": [{"id": 1, "required": true, "type": "long"}]}',
        '{"type": "struct", "fields": [{"id": 1, "name": "a", "required": true, "type": "long"}], '
        '"identifier-field-ids": [9]}',
        '{"type": "struct", "fields": [{"id": 1, "name": "a", "required": true, "type": "date", '
        '"initial-default": "yesterday"}]}',
        b"\xff\xfe",
    ],
)
def test_damaged_json_is_corrupt(text: str | bytes) -> None:
    with pytest.raises(Corrupt, match="stored schema"):
        schema_from_json(text)


ALIASES = {
    "long": "int64 bigint uint32 int8 BIGINT",
    "int": "int32 integer int16 smallint tinyint uint16 int4",
    "float": "float32 real float16",
    "double": "float64 float8 double",
    "string": "utf8 large_string text varchar str string_view",
    "boolean": "bool boolean",
    "binary": "blob bytes bytea large_binary",
    "date": "date32 date32[day]",
    "time": "time64[us] time32[ms] time(6)",
    "timestamp": "datetime timestamp[us] timestamp[s] timestamp(3) timestamp_ntz",
    "timestamp_ns": "timestamp[ns] timestamp(9)",
    "timestamptz": "timestamp_ltz timestamp[us,tz=UTC]",
    "decimal(10, 2)": "decimal(10,2) numeric(10,2) decimal128(10,2)",
    "decimal(10, 0)": "numeric(10)",
    "fixed[16]": "fixed_size_binary[16] fixed(16)",
    "list<long>": "list<int64> array<bigint> bigint[] list<item:int64> fixed_size_list<item:int64>[3] int64[3]",
    "list<list<int>>": "int[][]",
    "map<string, long>": "map<varchar,int64>",
}


@pytest.mark.parametrize(("text", "name"), [(text, name) for name, texts in ALIASES.items() for text in texts.split()])
def test_types_have_the_names_of_arrow_and_sql_too(text: str, name: str) -> None:
    assert str(parse_type(text)) == str(parse_type(name))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("timestamp with time zone", "timestamptz"),
        ("TIMESTAMP WITHOUT TIME ZONE", "timestamp"),
        ("timestamp(6) with time zone", "timestamptz"),
        ("timestamp[us, tz=UTC]", "timestamptz"),
        ("timestamp[ns, tz=Europe/Paris]", "timestamptz_ns"),
        ("double precision", "double"),
        ("time without time zone", "time"),
        ("list<item: struct<a: int64, b: timestamp[us, tz=UTC]>>", "list<struct<a: long, b: timestamptz>>"),
    ],
)
def test_types_of_several_words_are_read(text: str, name: str) -> None:
    assert parse_type(text) == parse_type(name)


@pytest.mark.parametrize("kind", [
    pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(),
    pa.binary(), pa.binary(16), pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.decimal128(9, 2), pa.list_(pa.int64()),
    pa.list_(pa.field("item", pa.int64(), nullable=False)), pa.list_(pa.float32(), 3), pa.map_(pa.string(), pa.int64()),
    pa.struct([("a", pa.int32()), pa.field("b", pa.string(), nullable=False)]), pa.list_(pa.list_(pa.int32(), 2)),
])  # fmt: skip
def test_a_type_as_arrow_shows_it_is_that_type(kind: pa.DataType) -> None:
    shown = parse_type(str(kind))
    if kind != pa.int8():  # which is the name of a larger type in SQL
        assert shown == to_type(kind)
    if isinstance(shown, ListType):
        assert shown.length == to_type(kind).length


@pytest.mark.parametrize(
    "text", ["varchar(20)", "time with time zone", "decimal", "int8[", "timestamp[h]", "timestamp(12)", "uint64"]
)
def test_what_would_be_lost_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_type(text)
