from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.model.rows import rows as rows_module
from moulin.model.rows.rows import to_batches
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import IntegerType, ListType, MapType, NestedField, Schema, StringType, StructType

SIMPLE = make_schema([("id", "long", False), ("name", "string"), ("ts", "timestamptz")])
PARIS = timezone(timedelta(hours=2))
SOME_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


def collect(data: object, schema: Schema = SIMPLE) -> list[dict[str, Any]]:
    """The rows of the batches, each of which must be valid and exactly of the schema, at every level."""
    found: list[dict[str, Any]] = []
    for batch in to_batches(data, schema):
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(schema), check_metadata=True)
        for column, field in zip(batch.columns, batch.schema, strict=True):
            assert column.type.equals(field.type, check_metadata=True)
        found += batch.to_pylist()
    return found


def one(kind: Any, nullable: bool = True) -> Schema:
    return make_schema([("c", kind, nullable)])


class Stream:
    """Exports an Arrow stream, as polars and others do."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Batch:
    """Exports one Arrow struct array."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


TABLE = pa.table({"name": ["a", None], "id": [1, 2]})
FORMS: dict[str, Any] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "stream": lambda: Stream(TABLE),
    "array": lambda: Batch(TABLE.to_batches()[0]),
    "dicts": TABLE.to_pylist,
    "generator of dicts": lambda: (row for row in TABLE.to_pylist()),
    "dict of lists": lambda: {"name": ["a", None], "id": (1, 2)},
    "dict of arrays": lambda: {"name": pa.chunked_array([["a"], [None]]), "id": np.array([1, 2])},
    "list of batches": lambda: [TABLE.slice(0, 1).to_batches()[0], TABLE.slice(1)],
    "generator of tables": lambda: (TABLE.slice(place, 1) for place in range(2)),
    "pandas": lambda: pd.DataFrame({"name": ["a", None], "id": [1, 2]}),
    "duckdb": lambda: duckdb.sql("select * from (values ('a', 1), (null, 2)) as t(name, id)"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_data_gives_the_same_rows(form: Any) -> None:
    assert collect(form()) == [{"id": 1, "name": "a", "ts": None}, {"id": 2, "name": None, "ts": None}]


@pytest.mark.parametrize("data", [[], {}, iter(()), pa.table({"id": pa.array([], pa.int64())}), {"id": []}])
def test_data_without_rows_gives_none(data: object) -> None:
    schema = one("long") if data == {} else SIMPLE
    assert collect(data, schema) == []


@pytest.mark.parametrize(
    "data",
    ["text", b"bytes", 5, None, [1], [[1, 2]], ["x"], pa.array([1]), pa.chunked_array([[1]]), {"id": 5}, {"id": "xy"}],
    ids=lambda data: repr(data) if isinstance(data, str | bytes | int | list | dict) else type(data).__name__,
)
def test_what_is_not_rows_is_refused(data: object) -> None:
    with pytest.raises(InvalidInput, match=r"use an Arrow table|must be a list or array"):
        collect(data)


def test_data_that_fits_is_not_copied() -> None:
    schema = make_schema([("id", "long", False), ("name", "string"), ("tags", "list<int>")])
    exact = pa.table({"id": [1, 2], "name": ["a", "b"], "tags": [[1], [2]]}).cast(arrow_schema(schema))
    plain = pa.table({"name": exact["name"], "id": exact["id"], "tags": exact["tags"]})
    for data in (exact, plain, exact.to_reader()):
        [batch] = to_batches(data, schema)
        for name, buffer in (("id", 1), ("name", 2), ("tags", 3)):
            assert batch[name].buffers()[buffer].address == exact[name].chunk(0).buffers()[buffer].address


def test_a_batch_of_the_very_schema_is_handed_through() -> None:
    schema = make_schema([("id", "long")])
    batch = pa.record_batch([pa.array([1])], schema=arrow_schema(schema))
    assert next(to_batches(batch, schema)) is not None
    assert next(to_batches(batch, schema)).equals(batch, check_metadata=True)


CASTS: list[tuple[str, pa.Array, list[Any]]] = [
    ("boolean", pa.array([True]), [True]),
    ("int", pa.array([7], pa.uint8()), [7]),
    ("int", pa.array([7]), [7]),
    ("int", pa.array([7.0, None]), [7, None]),
    ("long", pa.array([7], pa.uint64()), [7]),
    ("float", pa.array([0.5, float("inf")]), [0.5, float("inf")]),
    ("float", pa.array([2.5], pa.float16()), [2.5]),
    ("double", pa.array([2**53]), [2.0**53]),
    ("decimal(9, 2)", pa.array([7]), [Decimal("7.00")]),
    ("decimal(9, 2)", pa.array([Decimal("1.5")], pa.decimal256(50, 1)), [Decimal("1.50")]),
    ("decimal(9, 2)", pa.array(["1.5"]), [Decimal("1.50")]),
    ("date", pa.array([date(2024, 1, 1)], pa.date64()), [date(2024, 1, 1)]),
    ("date", pa.array([datetime(2024, 1, 1)]), [date(2024, 1, 1)]),
    ("date", pa.array(["2024-01-01"]), [date(2024, 1, 1)]),
    ("time", pa.array([5], pa.time32("s")), [time(0, 0, 5)]),
    ("time", pa.array(["01:02:03.5"]), [time(1, 2, 3, 500000)]),
    ("timestamp", pa.array([5], pa.timestamp("s")), [datetime(1970, 1, 1, 0, 0, 5)]),
    ("timestamp", pa.array([5000], pa.timestamp("ns")), [datetime(1970, 1, 1, 0, 0, 0, 5)]),
    ("timestamp", pa.array([date(2024, 1, 1)]), [datetime(2024, 1, 1)]),
    ("timestamp", pa.array(["2024-01-01 02:00:00"]), [datetime(2024, 1, 1, 2)]),
    (
        "timestamptz",
        pa.array([datetime(2024, 1, 1)], pa.timestamp("us", "Europe/Paris")),
        [datetime(2024, 1, 1, tzinfo=UTC)],
    ),
    ("timestamptz", pa.array([date(2024, 1, 1)]), [datetime(2024, 1, 1, tzinfo=UTC)]),
    (
        "timestamptz",
        pa.array(["2024-01-01T02:00:00+02:00", "2024-01-01", "2024-01-01T00:00:00Z", None, "2024-01-01 00:00:00"]),
        [datetime(2024, 1, 1, tzinfo=UTC)] * 3 + [None, datetime(2024, 1, 1, tzinfo=UTC)],
    ),
    ("string", pa.array(["a"], pa.large_string()), ["a"]),
    ("string", pa.array(["a"], pa.string_view()), ["a"]),
    ("string", pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
    ("string", pa.array([None, None]), [None, None]),
    ("uuid", pa.array([SOME_UUID.bytes], pa.binary(16)), [SOME_UUID]),
    ("uuid", pa.array([SOME_UUID.bytes]), [SOME_UUID]),
    ("uuid", pa.array([None, str(SOME_UUID), SOME_UUID.hex.upper()]), [None, SOME_UUID, SOME_UUID]),
    ("fixed[2]", pa.array([b"ab"], pa.large_binary()), [b"ab"]),
    ("binary", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    ("list<long>", pa.array([[1], None, []], pa.large_list(pa.int32())), [[1], None, []]),
    ("list<long>", pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
    ("list<long>", pa.array([[1], None, [2, 3]], pa.list_view(pa.int64())), [[1], None, [2, 3]]),
    ("list<string>", pa.array([["a"], []], pa.list_(pa.dictionary(pa.int8(), pa.string()))), [["a"], []]),
    (
        "map<string, long>",
        pa.array([[("a", 1)], None, []], pa.map_(pa.large_string(), pa.int32())),
        [[("a", 1)], None, []],
    ),
    ("struct<x: long, y: string>", pa.array([{"y": "a", "x": 1}, None]), [{"x": 1, "y": "a"}, None]),
    ("struct<x: long, y: string>", pa.array([{"x": 1}]), [{"x": 1, "y": None}]),
]


@pytest.mark.parametrize(
    ("kind", "array", "expected"), CASTS, ids=lambda x: str(x.type) if hasattr(x, "type") else str(x)[:20]
)
def test_values_are_converted_without_loss(kind: str, array: pa.Array, expected: list[Any]) -> None:
    assert [row["c"] for row in collect(pa.table({"c": array}), one(kind))] == expected
    padded = pa.concat_arrays([array, array, array])[len(array) : 2 * len(array)]  # a slice out of the middle
    assert [row["c"] for row in collect(pa.table({"c": padded}), one(kind))] == expected


LOSSES: list[tuple[str, pa.Array, str]] = [
    ("int", pa.array([1, 2**31]), "row 1.*column c.*does not fit type int.*The value is 2147483648"),
    ("int", pa.array([1, 1.5]), "row 1.*1.5"),
    ("long", pa.array([1, 2**63], pa.uint64()), "row 1.*9223372036854775808"),
    ("float", pa.array([0.5, 0.1]), "row 1.*cannot represent it exactly.*0.1"),
    ("float", pa.array([0.5, 2**24 + 1]), "row 1.*16777217"),
    ("double", pa.array([1, 2**53 + 1]), "row 1"),
    ("decimal(4, 2)", pa.array([1, 100]), "row 1.*100"),
    ("decimal(4, 2)", pa.array([Decimal("1.230"), Decimal("1.234")]), "row 1.*1.234"),
    ("date", pa.array([datetime(2024, 1, 1), datetime(2024, 1, 1, 1)]), "row 1.*time of day"),
    ("timestamp", pa.array([1000, 1001], pa.timestamp("ns")), "row 1.*would lose data"),
    ("timestamp_ns", pa.array([datetime(2024, 1, 1), datetime(2400, 1, 1)]), "row 1.*2400"),
    ("timestamp_ns", pa.array([0, 2**62], pa.timestamp("us")), "row 1.*4611686018427387904"),
    ("timestamp", pa.array(["2024-01-01", "soon"]), "row 1.*'soon'"),
    ("uuid", pa.array([str(SOME_UUID), "x"]), "row 1.*not a UUID"),
    ("fixed[2]", pa.array([b"ab", b"abc"]), "row 1.*b'abc'"),
    ("list<int>", pa.array([[1], [2, 2**40]]), r"row 1.*column c\.element.*\[2, 1099511627776\]"),
    ("map<string, int>", pa.array([[("a", 2**40)]], pa.map_(pa.string(), pa.int64())), r"row 0.*column c\.value"),
    ("struct<x: int>", pa.array([{"x": 1}, None, {"x": 2**40}]), r"row 2.*column c\.x"),
]


@pytest.mark.parametrize(("kind", "array", "reason"), LOSSES, ids=lambda x: str(x)[:20])
def test_a_value_that_would_change_is_refused_with_its_row(kind: str, array: pa.Array, reason: str) -> None:
    with pytest.raises(InvalidInput, match=f"(?i){reason}"):
        collect(pa.table({"c": array}), one(kind))


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("int", pa.array(["1"])),
        ("int", pa.array([True])),
        ("string", pa.array([1])),
        ("string", pa.array([b"a"])),
        ("binary", pa.array(["a"])),
        ("boolean", pa.array([1])),
        ("double", pa.array([Decimal(1)])),
        ("decimal(9, 2)", pa.array([1.5])),
        ("timestamp", pa.array([1])),
        ("timestamp", pa.array([0], pa.timestamp("us", "UTC"))),
        ("date", pa.array([0], pa.timestamp("us", "UTC"))),
        ("fixed[2]", pa.array([b"abc"], pa.binary(3))),
        ("list<int>", pa.array([1])),
        ("list<int>", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))),
        ("map<string, int>", pa.array([{"a": 1}])),
        ("int", pa.array([[1]])),
        ("struct<x: int>", pa.array([{"x": "a"}])),
        ("struct<x: int>", pa.array([{"y": 1}])),
    ],
    ids=lambda x: str(x.type) if hasattr(x, "type") else x,
)
def test_types_that_do_not_go_together_are_refused_even_without_rows(kind: str, array: pa.Array) -> None:
    for data in (pa.table({"c": array}), pa.table({"c": array}).slice(0, 0), pa.table({"c": array}).to_reader()):
        with pytest.raises(InvalidInput, match=r"^Column c"):
            to_batches(data, one(kind))


def test_columns_are_matched_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"a column 'nmae' that the table does not have. Did you mean 'name'"):
        to_batches(pa.table({"id": [1], "nmae": ["x"]}), SIMPLE)
    with pytest.raises(InvalidInput, match=r"Row 1 has a column 'ID' .* Did you mean 'id'"):
        collect([{"id": 1}, {"ID": 2}])
    with pytest.raises(InvalidInput, match="column 'id' twice"):
        to_batches(pa.table([[1], [2]], names=["id", "id"]), SIMPLE)
    with pytest.raises(InvalidInput, match="Column id is required, but the data does not have it"):
        to_batches(pa.table({"name": ["x"]}), SIMPLE)
    with pytest.raises(InvalidInput, match="different lengths: id has 2, name has 1"):
        to_batches({"id": [1, 2], "name": ["x"]}, SIMPLE)
    with pytest.raises(InvalidInput, match="Row 1 is not a dict"):
        collect([{"id": 1}, (2, "x", None)])


DEFAULTED = Schema(
    NestedField(1, "id", IntegerType(), True),
    NestedField(2, "kind", StringType(), True, initial_default="old", write_default="new"),
    NestedField(
        3,
        "s",
        StructType(NestedField(4, "x", IntegerType(), True, write_default=7), NestedField(5, "y", IntegerType())),
    ),
)


@pytest.mark.parametrize(
    "data", [[{"id": 1, "s": {"y": 2}}], pa.table({"id": [1], "s": [{"y": 2}]}), {"id": [1], "s": [{"y": 2}]}]
)
def test_what_is_missing_gets_its_write_default(data: object) -> None:
    assert collect(data, DEFAULTED) == [{"id": 1, "kind": "new", "s": {"x": 7, "y": 2}}]


def test_null_is_not_missing() -> None:
    for data in ([{"id": 1, "kind": None}], pa.table({"id": [1], "kind": pa.nulls(1)})):
        with pytest.raises(InvalidInput, match=r"Row 0 .*column kind: it is null"):
            collect(data, DEFAULTED)


NESTED = Schema(
    NestedField(1, "s", StructType(NestedField(2, "x", IntegerType(), True), NestedField(3, "y", IntegerType()))),
    NestedField(4, "l", ListType(5, IntegerType(), True)),
    NestedField(6, "m", MapType(7, StringType(), 8, IntegerType(), True)),
    NestedField(
        9,
        "deep",
        ListType(
            10, StructType(NestedField(11, "z", StructType(NestedField(12, "w", StringType(), True)), True)), False
        ),
    ),
)
GOOD: list[dict[str, Any]] = [
    {"s": {"x": 1, "y": None}, "l": [1, 2], "m": [("a", 1)], "deep": [{"z": {"w": "x"}}, None]},
    {"s": None, "l": None, "m": None, "deep": None},
    {"s": {"x": 2, "y": 3}, "l": [], "m": [], "deep": []},
]


def as_arrow(rows: list[dict[str, Any]]) -> pa.Table:
    loose = pa.schema(
        {
            "s": pa.struct({"x": pa.int64(), "y": pa.int64()}),
            "l": pa.large_list(pa.int64()),
            "m": pa.map_(pa.string(), pa.int64()),
            "deep": pa.list_(pa.struct({"z": pa.struct({"w": pa.large_string()})})),
        }
    )
    return pa.Table.from_pylist(rows, schema=loose)


def test_required_fields_inside_absent_ones_can_be_stored() -> None:
    """Parquet refuses a null in a required field even where the struct around it is null."""
    for data in (GOOD, as_arrow(GOOD), as_arrow(GOOD).slice(1), pa.concat_tables([as_arrow(GOOD)] * 2)):
        batches = list(to_batches(data, NESTED))
        stored = io.BytesIO()
        pq.write_table(pa.Table.from_batches(batches), stored)
        expected = data if isinstance(data, list) else data.to_pylist()
        assert pq.read_table(stored).to_pylist() == expected == [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({"s": {"x": None, "y": 1}}, r"s\.x"),
        ({"l": [1, None]}, r"l\.element"),
        ({"m": [("a", None)]}, r"m\.value"),
        ({"deep": [None, {"z": None}]}, r"deep\.element\.z"),
        ({"deep": [{"z": {"w": None}}]}, r"deep\.element\.z\.w"),
    ],
)
def test_null_in_a_required_nested_field_is_refused_with_its_row(bad: dict[str, Any], path: str) -> None:
    data = [*GOOD, *GOOD, {**GOOD[1], **bad}, *GOOD]
    for form in (data, as_arrow(data), as_arrow(data).to_reader(max_chunksize=2)):
        with pytest.raises(InvalidInput, match=rf"Row 6 \(the first is 0\), column {path}: it is null"):
            collect(form, NESTED)


def test_rows_are_counted_over_all_batches() -> None:
    def batches() -> Iterator[pa.Table]:
        yield pa.table({"id": [1, 2, 3]})
        yield pa.table({"name": ["x"], "id": [4]})
        yield pa.table({"id": [5, None]})

    with pytest.raises(InvalidInput, match=r"Row 5 .*column id"):
        collect(batches())
    with pytest.raises(InvalidInput, match=r"Row 3 .*column id"):
        collect(pa.concat_tables([pa.table({"id": [1, 2]}), pa.table({"id": [3, None, None]})]))


def test_python_rows_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "CHUNK_ROWS", 3)
    data = [{"id": place, "name": str(place)} for place in range(8)]
    for form in (data, {"id": list(range(8)), "name": [str(place) for place in range(8)]}):
        assert [batch.num_rows for batch in to_batches(form, SIMPLE)] == [3, 3, 2]
        assert [row["id"] for row in collect(form)] == list(range(8))
    data[7]["id"] = None
    with pytest.raises(InvalidInput, match="Row 7 "):
        collect(data)
    data[7] = {"other": 1}
    with pytest.raises(InvalidInput, match="Row 7 "):
        collect(data)


PYTHON: list[tuple[str, list[Any], list[Any]]] = [
    ("long", [1, 2.0, None, np.int32(4)], [1, 2, None, 4]),
    ("float", [0.1, 7, None], [float(np.float32(0.1)), 7.0, None]),
    ("decimal(38, 0)", [10**37, Decimal(5), None], [Decimal(10**37), Decimal(5), None]),
    ("decimal(9, 2)", ["1.5", None], [Decimal("1.50"), None]),
    ("date", [date(2024, 1, 1), "2024-01-02"], [date(2024, 1, 1), date(2024, 1, 2)]),
    ("timestamp", [date(2024, 1, 1), datetime(2024, 1, 1, 3)], [datetime(2024, 1, 1), datetime(2024, 1, 1, 3)]),
    (
        "timestamptz",
        [datetime(2024, 1, 1, 2, tzinfo=PARIS), None, "2024-01-01"],
        [datetime(2024, 1, 1, tzinfo=UTC), None, datetime(2024, 1, 1, tzinfo=UTC)],
    ),
    ("uuid", [SOME_UUID, str(SOME_UUID), None, SOME_UUID.bytes], [SOME_UUID, SOME_UUID, None, SOME_UUID]),
    ("binary", [b"a", bytearray(b"b")], [b"a", b"b"]),
    ("list<int>", [[1], (2, 3), np.array([4]), None], [[1], [2, 3], [4], None]),
    ("map<string, int>", [{"a": 1}, [("b", 2)], {}, None], [[("a", 1)], [("b", 2)], [], None]),
    (
        "struct<x: int, y: list<date>>",
        [{"x": 1}, {"y": [date(2024, 1, 1)]}, None],
        [{"x": 1, "y": None}, {"x": None, "y": [date(2024, 1, 1)]}, None],
    ),
]


@pytest.mark.parametrize(("kind", "given_values", "expected"), PYTHON, ids=[row[0] for row in PYTHON])
def test_python_values_of_mixed_kinds_are_converted(kind: str, given_values: list[Any], expected: list[Any]) -> None:
    for data in ([{"c": value} for value in given_values], {"c": given_values}):
        assert [row["c"] for row in collect(data, one(kind))] == expected


@pytest.mark.parametrize(
    ("kind", "values", "row"),
    [
        ("long", [1, 1.5], 1),
        ("long", [1, True], 1),
        ("long", [1, "2"], 1),
        ("long", [1, 2**63], 1),
        ("boolean", [True, 1], 1),
        ("string", ["a", 1], 1),
        ("string", ["a", "\ud800"], 1),
        ("float", [1.0, 1e300], 1),
        ("decimal(4, 2)", [Decimal(1), 1.5], 1),
        ("decimal(4, 2)", [Decimal(1), Decimal("NaN")], 1),
        ("date", [date(2024, 1, 1), datetime(2024, 1, 1, 3)], 1),
        ("timestamp", [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=PARIS)], 1),
        ("timestamp", [datetime(2024, 1, 1, tzinfo=PARIS)], 0),
        ("timestamptz", [datetime(2024, 1, 1, tzinfo=PARIS), datetime(2024, 1, 1)], 1),
        ("timestamptz_ns", [datetime(2024, 1, 1)], 0),
        ("timestamptz", [np.datetime64("2024-01-01T00:00:00")], 0),
        ("timestamp", [5], 0),
        ("binary", [b"a", "b"], 1),
        ("list<int>", [[1], "ab"], 1),
        ("list<int>", [[1], {"a": 1}], 1),
        ("map<string, int>", [{"a": 1}, [1]], 1),
        ("map<string, int>", [{"a": 1}, {1: 1}], 1),
        ("struct<x: int>", [{"x": 1}, {"z": 1}], 1),
        ("struct<x: int>", [{"x": 1}, [1]], 1),
        ("struct<x: int>", [{"x": 1}, {"x": 1.5}], 1),
        ("long", [object()], 0),
    ],
)
def test_python_values_that_do_not_fit_are_refused_with_their_row(kind: str, values: list[Any], row: int) -> None:
    with pytest.raises(InvalidInput, match=f"^Row {row} .*column c"):
        collect([{"c": value} for value in values], one(kind))


VALUE = st.none() | st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**31), 2**31 - 1),
        "texts": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
        "pairs": st.none() | st.lists(st.tuples(st.text(max_size=2), st.none() | st.booleans()), max_size=2),
        "when": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
        "inner": st.none() | st.fixed_dictionaries({"u": st.none() | st.uuids()}),
    }
)
WIDE = "struct<n: int, texts: list<string>, pairs: map<string, boolean>, when: timestamp, inner: struct<u: uuid>>"


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUE, max_size=8), st.integers(0, 8))
def test_nested_values_arrive_as_they_were(values: list[Any], cut: int) -> None:
    schema = one(WIDE)
    data = [{"c": value} for value in values]
    assert collect(data, schema) == data
    loose = pa.struct(
        {
            "inner": pa.struct({"u": pa.binary(16)}),
            "pairs": pa.map_(pa.large_string(), pa.bool_()),
            "texts": pa.large_list(pa.string_view()),
            "n": pa.int64(),
            "when": pa.timestamp("ns"),
        }
    )
    plain = [
        None if v is None else {**v, "inner": v["inner"] and {"u": v["inner"]["u"] and v["inner"]["u"].bytes}}
        for v in values
    ]
    table = pa.table({"c": pa.array(plain, loose)})
    assert collect(table, schema) == data
    assert collect(table.slice(cut), schema) == data[cut:]
