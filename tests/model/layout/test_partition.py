from __future__ import annotations

import uuid
from collections import defaultdict
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Corrupt, InvalidInput, NotFound
from moulin.model.layout.partition import adopt_spec, decode_partition, format_partition, parse_spec
from moulin.model.layout.partition_rows import split_by_partition
from moulin.model.layout.partition_spec import (
    BucketTransform,
    IdentityTransform,
    PartitionField,
    PartitionSpec,
    spec_from_json,
    spec_to_json,
)
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.change import DropColumn, WidenColumn
from moulin.model.schema.evolution import apply_changes
from moulin.model.schema.schema import make_schema
from moulin.model.schema.single_value import to_bytes
from moulin.model.schema.type_reader import to_type
from tests.model.referee import their_schema, their_spec, their_transform, their_type

SCHEMA = make_schema(
    [
        ("id", "long"),
        ("ts", "timestamp"),
        ("region", "string"),
        ("name", "string"),
        ("price", "decimal(4, 2)"),
        ("at", "struct<hour: int, zone: string>"),
        ("tags", "list<string>"),
        ("day", "date"),
    ]
)


def fields(spec: PartitionSpec) -> list[tuple[str, int, str]]:
    return [(field.name, field.field_id, str(field.transform)) for field in spec.fields]


def test_fields_are_named_and_numbered_as_iceberg_does() -> None:
    spec, last = parse_spec(
        ["day(ts)", " bucket( 16 ,id ) ", "truncate(4, name)", "region", "identity(at.zone)", "void(price)"], SCHEMA
    )
    assert spec.spec_id == 0
    assert last == 1005
    assert fields(spec) == [
        ("ts_day", 1000, "day"),
        ("id_bucket", 1001, "bucket[16]"),
        ("name_trunc", 1002, "truncate[4]"),
        ("region", 1003, "identity"),
        ("at.zone", 1004, "identity"),
        ("price_null", 1005, "void"),
    ]
    assert spec.fields[4].source_id == SCHEMA.find_field("at.zone").field_id
    their_spec(spec).check_compatible(their_schema(SCHEMA))


@pytest.mark.parametrize("unit", ["year", "month", "day", "hour"])
def test_time_transforms_in_singular_and_plural(unit: str) -> None:
    assert parse_spec([f"{unit}(ts)"], SCHEMA) == parse_spec([f"{unit.upper()}s(ts)"], SCHEMA)
    assert fields(parse_spec([f"{unit}(ts)"], SCHEMA)[0]) == [(f"ts_{unit}", 1000, unit)]


def test_no_fields_is_the_unpartitioned_spec() -> None:
    assert parse_spec([], SCHEMA) == (PartitionSpec(spec_id=0), 999)


def test_a_column_wins_over_a_transform_of_the_same_look() -> None:
    schema = make_schema([("day(ts)", "int"), ("ts", "timestamp")])
    assert fields(parse_spec(["day(ts)"], schema)[0]) == [("day(ts)", 1000, "identity")]


def test_a_field_takes_the_name_that_it_is_given() -> None:
    first, last = parse_spec(["day(ts) as d", "bucket(16, id) AS spread", "region"], SCHEMA)
    assert [name for name, _, _ in fields(first)] == ["d", "spread", "region"]
    again, last = parse_spec(["day(ts)", "bucket(16, id)", "region"], SCHEMA, previous=[first], last_partition_id=last)
    assert again is first, "without a name a field keeps the one it has"
    renamed, _ = parse_spec(["day(ts) as on_day"], SCHEMA, previous=[first], last_partition_id=last)
    assert fields(renamed) == [("on_day", 1000, "day")]
    for wrong in ("day(ts) as region", "day(ts) as "):
        with pytest.raises((InvalidInput, NotFound)):
            parse_spec([wrong], SCHEMA)
    with pytest.raises(InvalidInput, match="given twice"):
        parse_spec(["day(ts) as d", "bucket(4, id) as d"], SCHEMA)


def test_equal_fields_keep_their_ids_and_equal_specs_are_reused() -> None:
    first, last = parse_spec(["day(ts)", "bucket(16, id)"], SCHEMA)
    second, last = parse_spec(["bucket(16, id)", "region"], SCHEMA, previous=[first], last_partition_id=last)
    assert (second.spec_id, last) == (1, 1002)
    assert fields(second) == [("id_bucket", 1001, "bucket[16]"), ("region", 1002, "identity")]
    third, last = parse_spec(["bucket(32, id)"], SCHEMA, previous=[first, second], last_partition_id=last)
    assert fields(third) == [("id_bucket_32", 1003, "bucket[32]")]  # one name never means two fields of a table
    assert parse_spec(
        ["days(ts)", "bucket(16, id)"], SCHEMA, previous=[first, second, third], last_partition_id=last
    ) == (
        first,
        1003,
    )
    empty, last = parse_spec([], SCHEMA, previous=[first, second, third], last_partition_id=last)
    assert (empty.spec_id, empty.fields, last) == (3, (), 1003)


def test_names_of_columns_are_left_to_the_columns() -> None:
    schema = make_schema(
        [("ts", "timestamp"), ("TS_day", "int"), ("id", "long"), ("id_bucket", "int"), ("id_bucket_8", "int")]
    )
    spec, _ = parse_spec(["day(ts)", "bucket(8, id)"], schema)
    assert [field.name for field in spec.fields] == ["ts_day_2", "id_bucket_8_2"]


def test_a_column_of_the_same_name_but_another_id_is_another_field() -> None:
    first, last = parse_spec(["region"], SCHEMA)
    other = PartitionSpec(PartitionField(99, 1000, IdentityTransform(), "region"), spec_id=0)
    again, _ = parse_spec(["region"], SCHEMA, previous=[other], last_partition_id=last)
    assert fields(again) == [("region_identity", 1001, "identity")]
    assert first.fields[0].name == "region"


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("dya(ts)", InvalidInput, "Unknown transform 'dya'.*Did you mean 'day'.*Known ones: identity"),
        ("day(tz)", NotFound, "no column 'tz'"),
        ("regoin", NotFound, "Did you mean 'region'"),
        ("day(4, ts)", InvalidInput, "takes only a column"),
        ("bucket(id)", InvalidInput, "takes a number and a column"),
        ("bucket(0, id)", InvalidInput, "must be 1 to 2147483647"),
        ("bucket(4294967296, id)", InvalidInput, "must be 1 to 2147483647"),
        ("bucket(-1, id)", NotFound, "no column"),
        ("day(id)", InvalidInput, "column id is of type long"),
        ("hour(day)", InvalidInput, "column day is of type date"),
        ("truncate(3, ts)", InvalidInput, "of type timestamp"),
        ("at", InvalidInput, "of type struct"),
        ("tags", InvalidInput, "of type list"),
        ("tags.element", InvalidInput, "inside a list or map"),
        ("", NotFound, "no column ''"),
        (5, InvalidInput, "not int"),
    ],
)
def test_impossible_fields_are_refused(text: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        parse_spec([text], SCHEMA)


@pytest.mark.parametrize("both", [["day(ts)", "hour(ts)"], ["region", "region"], ["bucket(4, id)", "bucket(4, id)"]])
def test_redundant_fields_are_refused(both: list[str]) -> None:
    with pytest.raises(InvalidInput, match="redundant"):
        parse_spec(both, SCHEMA)


def test_text_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"use \['region'\]"):
        parse_spec("region", SCHEMA)


def test_two_buckets_of_one_column_are_two_fields() -> None:
    spec, _ = parse_spec(["bucket(4, id)", "bucket(8, id)"], SCHEMA)
    assert [field.name for field in spec.fields] == ["id_bucket", "id_bucket_8"]


def test_specs_survive_json() -> None:
    spec, _ = parse_spec(["day(ts)", "bucket(16, id)", "truncate(4, name)", "region", "void(day)"], SCHEMA)
    assert spec_from_json(spec_to_json(spec)) == spec
    assert spec_from_json(spec_to_json(PartitionSpec(spec_id=3))) == PartitionSpec(spec_id=3)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"spec-id": 0, "fields": [{"name": "x"}]}', '{"fields": 4}', b"\xff"]
)
def test_damaged_specs_are_corrupt(text: str | bytes) -> None:
    with pytest.raises(Corrupt, match="partition spec"):
        spec_from_json(text)


def rows(*values: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(values), schema=arrow_schema(SCHEMA))


def test_unpartitioned_rows_are_handed_through() -> None:
    table = rows({"id": 1}, {"id": 2})
    [(values, part)] = split_by_partition(table, PartitionSpec(), SCHEMA)
    assert values == ()
    assert part is table
    assert split_by_partition(table.slice(0, 0), PartitionSpec(), SCHEMA) == []


def test_rows_of_one_partition_are_not_copied() -> None:
    table = rows({"region": "eu", "id": 1}, {"region": "eu", "id": 2})
    spec, _ = parse_spec(["region", "void(id)"], SCHEMA)
    [(values, part)] = split_by_partition(table, spec, SCHEMA)
    assert values == (b"eu", None)
    assert part is table


def test_rows_that_lie_in_order_are_sliced() -> None:
    table = rows(*({"region": region, "id": i} for i, region in enumerate(["eu", "eu", None, "us"])))
    parts = split_by_partition(table, parse_spec(["region"], SCHEMA)[0], SCHEMA)
    assert [(values, part["id"].to_pylist()) for values, part in parts] == [
        ((b"eu",), [0, 1]),
        ((None,), [2]),
        ((b"us",), [3]),
    ]
    original = table["id"].chunk(0).buffers()[1].address
    assert [part["id"].chunk(0).buffers()[1].address for _, part in parts] == [original] * 3


MOMENTS = st.datetimes(datetime(1969, 12, 30), datetime(1970, 1, 3))
ROW = st.fixed_dictionaries(
    {
        "ts": st.none() | MOMENTS,
        "region": st.sampled_from([None, "eu", "us", ""]),
        "id": st.none() | st.integers(-3, 3),
        "price": st.none() | st.decimals(-99, 99, places=2),
        "at": st.none() | st.fixed_dictionaries({"hour": st.just(1), "zone": st.sampled_from([None, "x", "y"])}),
    }
)
SPECS = st.lists(
    st.sampled_from(["day(ts)", "region", "bucket(3, id)", "truncate(50, price)", "at.zone", "void(name)"]),
    unique=True,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, max_size=20), SPECS, st.integers(0, 20))
def test_every_row_lands_in_its_partition_and_in_its_order(made: list[dict[str, Any]], by: list[str], cut: int) -> None:
    spec, _ = parse_spec(by, SCHEMA)
    numbered = [{**row, "name": str(place)} for place, row in enumerate(made)]
    table = rows(*numbered)
    table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])  # two chunks

    expected: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for row in numbered:
        key = []
        for field in spec.fields:
            path = (SCHEMA.find_column_name(field.source_id) or "").split(".")
            value: Any = row
            for name in path:
                value = None if value is None else value.get(name)
            if isinstance(value, datetime):
                value = (value - datetime(1970, 1, 1)).days * 86_400_000_000
            key.append(their_transform(field.transform).transform(their_type(SCHEMA.find_type(field.source_id)))(value))
        expected[tuple(key)].append(row["name"])

    found: dict[tuple[Any, ...], list[str]] = {}
    for values, part in split_by_partition(table, spec, SCHEMA):
        decoded = decode_partition(spec, SCHEMA, values)
        key = tuple((value - date(1970, 1, 1)).days if isinstance(value, date) else value for value in decoded.values())
        assert key not in found
        assert part.schema.equals(table.schema, check_metadata=True)
        found[key] = part["name"].to_pylist()
    assert found == dict(expected)


def test_rows_are_split_by_more_partitions_than_codes_could_count() -> None:
    """The product of the cardinalities of these columns exceeds 64 bits, and that of two of them a table of codes."""
    names = [f"c{place}" for place in range(8)]
    schema = make_schema([(name, "long") for name in names])
    count = 1100
    table = pa.table({name: [(row * (place + 7)) % count for row in range(count)] for place, name in enumerate(names)})
    spec, _ = parse_spec(names, schema)
    parts = split_by_partition(table.cast(arrow_schema(schema)), spec, schema)
    assert len(parts) == count
    assert {tuple(decode_partition(spec, schema, values).values()) for values, _ in parts} == {
        tuple(row.values()) for row in table.to_pylist()
    }


SOME_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
VALUES: list[tuple[str, Any, Any, str]] = [
    # type, value, decoded, formatted
    ("boolean", True, True, "true"),
    ("int", -5, -5, "-5"),
    ("double", 1.5, 1.5, "1.5"),
    ("decimal(38, 2)", Decimal("-1.20"), Decimal("-1.20"), "-1.20"),
    ("date", date(1969, 12, 31), date(1969, 12, 31), "1969-12-31"),
    ("time", time(1, 2, 3), time(1, 2, 3), "01:02:03"),
    ("timestamp", datetime(2024, 1, 1, 2), datetime(2024, 1, 1, 2), "2024-01-01T02:00:00"),
    ("timestamptz", datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00+00:00"),
    ("timestamp_ns", 1, 1, "1970-01-01T00:00:00.000000001"),
    ("string", "a/b", "a/b", "a/b"),
    ("uuid", SOME_UUID, SOME_UUID, str(SOME_UUID)),
    ("fixed[2]", b"\x00\xff", b"\x00\xff", "AP8="),
    ("binary", b"", b"", ""),
]


@pytest.mark.parametrize(("kind", "value", "decoded", "formatted"), VALUES, ids=[row[0] for row in VALUES])
def test_values_of_every_type_as_bytes_python_and_text(kind: str, value: Any, decoded: Any, formatted: str) -> None:
    schema = make_schema([("c", kind)])
    spec, _ = parse_spec(["c"], schema)
    table = pa.table({"c": pa.array([value, None], arrow_schema(schema).field("c").type)})
    (values, _), (null, _) = split_by_partition(table, spec, schema)
    assert values == (to_bytes(schema.find_type("c"), value),)
    assert null == (None,)
    assert decode_partition(spec, schema, values) == {"c": decoded}
    assert format_partition(spec, schema, values) == f"c={formatted}"
    assert format_partition(spec, schema, null) == "c=null"


def test_transformed_values_as_text() -> None:
    spec, _ = parse_spec(["month(ts)", "bucket(16, id)", "truncate(50, price)", "void(name)"], SCHEMA)
    table = rows({"ts": datetime(2024, 3, 1), "id": 34, "price": Decimal("-99.99"), "name": "x"})
    [(values, _)] = split_by_partition(table, spec, SCHEMA)
    assert format_partition(spec, SCHEMA, values) == "ts_month=2024-03/id_bucket=3/price_trunc=-100.00/name_null=null"
    assert format_partition(PartitionSpec(), SCHEMA, ()) == ""


def test_nan_and_the_two_zeros_are_partitions_of_their_own() -> None:
    schema = make_schema([("x", "double")])
    spec, _ = parse_spec(["x"], schema)
    table = pa.table({"x": [0.0, float("nan"), -0.0, float("nan"), None]})
    assert [part.num_rows for _, part in split_by_partition(table, spec, schema)] == [1, 2, 1, 1]


def test_partitions_outlive_their_column() -> None:
    spec, _ = parse_spec(["region", "day(ts)"], SCHEMA)
    table = rows({"region": "eu", "ts": datetime(2024, 3, 1)})
    [(values, _)] = split_by_partition(table, spec, SCHEMA)
    later, _ = apply_changes(SCHEMA, 99, [DropColumn("region"), DropColumn("ts")], schema_id=1)
    assert decode_partition(spec, later, values) == {"region": b"eu", "ts_day": date(2024, 3, 1)}
    assert format_partition(spec, later, values).endswith("/ts_day=2024-03-01")


def test_partitions_written_before_a_widening_are_still_read() -> None:
    schema = make_schema([("n", "int")])
    spec, _ = parse_spec(["n"], schema)
    [(values, _)] = split_by_partition(pa.table({"n": pa.array([7], pa.int32())}), spec, schema)
    wider, _ = apply_changes(schema, 1, [WidenColumn("n", to_type("long"))], schema_id=1)
    assert decode_partition(spec, wider, values) == {"n": 7}


def test_dates_beyond_what_python_can_hold_stay_numbers() -> None:
    spec, _ = parse_spec(["day(ts)"], SCHEMA)
    table = pa.table({"ts": pa.array([2**62], pa.timestamp("us"))})
    [(values, _)] = split_by_partition(table, spec, SCHEMA)
    days = 2**62 // 86_400_000_000
    assert decode_partition(spec, SCHEMA, values) == {"ts_day": days}
    assert format_partition(spec, SCHEMA, values) == f"ts_day={days}"


def test_damaged_partition_values_are_corrupt() -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))
    with pytest.raises(Corrupt, match="id_bucket is not one of type int"):
        decode_partition(spec, SCHEMA, (b"abc",))
    with pytest.raises(Corrupt, match="2 values where 1 belong"):
        format_partition(spec, SCHEMA, (None, None))


def test_a_spec_of_somebody_else_is_taken_with_its_valid_ids_and_names() -> None:
    first, last = parse_spec(["bucket(8, id)"], SCHEMA)

    def adopt(*fields: tuple[int, str, str]) -> tuple[PartitionSpec, int]:
        """Fields as id, name and column: `id` goes into buckets, others are as they are."""
        sources = [SCHEMA.find_field(column).field_id for _, _, column in fields]
        transforms = [BucketTransform(8) if column == "id" else IdentityTransform() for _, _, column in fields]
        made = [
            PartitionField(source, number, transform, name)
            for source, transform, (number, name, _) in zip(sources, transforms, fields, strict=True)
        ]
        texts = ["bucket(8, id)" if column == "id" else column for _, _, column in fields]
        return adopt_spec(PartitionSpec(*made), texts, SCHEMA, previous=[first], last_partition_id=last)

    assert adopt((1000, "id_bucket", "id")) == (first, 1000), "the same spec"
    renamed, last_id = adopt((1000, "shard", "id"), (1007, "where", "region"))
    assert (renamed.spec_id, last_id, [field.name for field in renamed.fields]) == (1, 1007, ["shard", "where"])
    assert adopt((1001, "again", "id"))[0].fields[0].field_id == 1001, "a field that was there, under a new id"
    for wrong, reason in (
        ([(1000, "x", "region")], "of another field"),
        ([(999, "x", "region")], "above 1000"),
        ([(1001, "x", "region"), (1001, "y", "name")], "above 1000"),
        ([(1001, "x", "region"), (1002, "x", "name")], "given twice"),
        ([(1001, "", "region")], "is empty"),
        ([(1000, "ts", "id")], "name of a different column"),
        ([(1001, "name", "region")], "name of a different column"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            adopt(*wrong)
