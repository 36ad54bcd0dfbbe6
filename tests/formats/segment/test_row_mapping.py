from __future__ import annotations

import io
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moulin.errors import Corrupt, FailedPrecondition, InvalidInput
from moulin.formats.segment.row_mapping import RowMapping
from moulin.formats.segment.writer import SegmentWriter
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
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
    UUIDType,
)


def stored(schema: Schema, rows: list[dict[str, Any]]) -> pq.ParquetFile:
    sink = io.BytesIO()
    writer = SegmentWriter(sink, schema=schema, level=1)
    writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(schema)))
    writer.finish()
    return pq.ParquetFile(pa.BufferReader(sink.getvalue()))


def project(
    old: Schema, rows: list[dict[str, Any]], new: Schema, columns: Sequence[str] | None = None
) -> tuple[list[dict[str, Any]], RowMapping]:
    """The rows, written with `old`, as `new` sees them: whole, in batches and in slices, which must all agree."""
    file = stored(old, rows)
    mapping = RowMapping(file.schema_arrow, new, columns)
    raw = file.reader.read_all(column_indices=list(mapping.leaves))
    table = mapping.apply(raw)
    table.validate(full=True)
    assert table.schema.equals(mapping.schema, check_metadata=True)
    for batch in raw.to_batches():
        assert mapping.apply(batch).to_pylist() == table.to_pylist()
        for start in range(1, batch.num_rows):
            assert mapping.apply(batch.slice(start)).to_pylist() == table.to_pylist()[start:]
            assert mapping.apply(batch.slice(start, 0)).num_rows == 0
    # The result can be stored again: a compaction does just that.
    if mapping.schema.names == [field.name for field in new.fields]:
        writer = SegmentWriter(io.BytesIO(), schema=new, level=1)
        writer.write(table)
        writer.finish()
    return table.to_pylist(), mapping


def one(kind: IcebergType, *, number: int = 1, name: str = "x", **options: Any) -> Schema:
    return Schema(NestedField(number, name, kind, **options))


def test_a_file_with_the_same_schema_is_given_as_it_is() -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "tags", MapType(3, StringType(), 4, LongType(), value_required=False)),
        NestedField(5, "person", StructType(NestedField(6, "token", BinaryType()))),
        NestedField(7, "token", UUIDType()),
    )
    rows = [{"id": 1, "tags": [("a", 1)], "person": {"token": b"x"}, "token": uuid.UUID(int=5)}, {"id": 2}]
    file = stored(schema, rows)
    mapping = RowMapping(file.schema_arrow, schema)
    raw = file.read()
    found = mapping.apply(raw)
    assert mapping.leaves == (0, 1, 2, 3, 4)
    for before, after in zip(raw.columns[:-1], found.columns, strict=True):  # the last is the stored position
        for old, new in zip(before.chunks, after.chunks, strict=True):
            addresses = [None if buffer is None else buffer.address for buffer in old.buffers()]
            assert [None if buffer is None else buffer.address for buffer in new.buffers()] == addresses
    assert found.schema.equals(arrow_schema(schema), check_metadata=True)


def test_columns_are_matched_by_id_whatever_their_names_and_order() -> None:
    old = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", StringType()), NestedField(3, "c", DoubleType()))
    new = Schema(NestedField(3, "a", DoubleType()), NestedField(1, "b", LongType()))
    rows, mapping = project(old, [{"a": 1, "b": "x", "c": 0.5}, {"a": None, "b": "y", "c": None}], new)
    assert rows == [{"a": 0.5, "b": 1}, {"a": None, "b": None}]
    assert mapping.leaves == (0, 2)


def test_only_the_columns_asked_for_are_read_in_their_order() -> None:
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType()), NestedField(3, "c", LongType()))
    rows, mapping = project(schema, [{"a": 1, "b": 2, "c": 3}], schema, ["c", "a"])
    assert [list(row) for row in rows] == [["c", "a"]]
    assert rows == [{"c": 3, "a": 1}]
    assert mapping.leaves == (0, 2)
    nothing = RowMapping(arrow_schema(schema), schema, [])
    assert nothing.leaves == ()
    assert nothing.apply(pa.table({"a": [1, 2]})).num_rows == 2
    with pytest.raises(InvalidInput, match="no column 'd'; choose from a, b, c"):
        RowMapping(arrow_schema(schema), schema, ["a", "d"])


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        (IntegerType(), LongType(), -(2**31), -(2**31)),
        (FloatType(), DoubleType(), 0.5, 0.5),
        (DecimalType(9, 2), DecimalType(38, 2), Decimal("-1.28"), Decimal("-1.28")),
        (DateType(), TimestampType(), date(1969, 12, 31), datetime(1969, 12, 31)),
        (DateType(), TimestamptzType(), date(1969, 12, 31), datetime(1969, 12, 31, tzinfo=UTC)),
    ],
    ids=str,
)
def test_widened_columns_keep_their_values_at_every_depth(
    old: IcebergType, new: IcebergType, value: Any, expected: Any
) -> None:
    assert project(one(old), [{"x": value}, {"x": None}], one(new))[0] == [{"x": expected}, {"x": None}]

    def deep(kind: IcebergType) -> Schema:
        return Schema(
            NestedField(1, "list", ListType(2, kind, element_required=False)),
            NestedField(3, "map", MapType(4, StringType(), 5, kind, value_required=False)),
            NestedField(6, "struct", StructType(NestedField(7, "x", kind))),
        )

    before = {"list": [value, None, value], "map": [("a", value), ("b", None)], "struct": {"x": value}}
    after = {"list": [expected, None, expected], "map": [("a", expected), ("b", None)], "struct": {"x": expected}}
    empty = {"list": None, "map": None, "struct": None}
    bare: dict[str, Any] = {"list": [], "map": [], "struct": {"x": None}}
    assert project(deep(old), [before, empty, bare, before], deep(new))[0] == [after, empty, bare, after]


def test_a_date_becomes_nanoseconds_or_says_that_it_cannot() -> None:
    for kind in (TimestampNanoType(), TimestamptzNanoType()):
        file = stored(one(DateType()), [{"x": date(1969, 12, 31)}])
        found = RowMapping(file.schema_arrow, one(kind)).apply(file.read())
        assert found.column(0).cast(pa.int64()).to_pylist() == [-86_400 * 10**9]
        file = stored(one(DateType()), [{"x": date(9999, 12, 31)}])
        with pytest.raises(FailedPrecondition, match="Column 'x' of s.parquet holds a value"):
            RowMapping(file.schema_arrow, one(kind), name="s.parquet").apply(file.read())


def test_added_columns_hold_their_default_or_null() -> None:
    token = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    old = Schema(NestedField(1, "a", LongType()))
    new = Schema(
        NestedField(2, "text", StringType(), required=True, initial_default="none", write_default="later"),
        NestedField(1, "a", LongType()),
        NestedField(3, "day", DateType(), initial_default=date(2020, 2, 29)),
        NestedField(4, "money", DecimalType(9, 2), initial_default=Decimal("1.50")),
        NestedField(5, "token", UUIDType(), initial_default=token),
        NestedField(6, "nothing", DoubleType()),
        NestedField(7, "person", StructType(NestedField(8, "name", StringType(), required=True))),
        NestedField(9, "tags", MapType(10, StringType(), 11, LongType())),
        NestedField(
            12,
            "deep",
            StructType(
                NestedField(
                    13,
                    "inner",
                    StructType(
                        NestedField(14, "token", UUIDType(), required=True),
                        NestedField(15, "tags", ListType(16, LongType()), required=True),
                        NestedField(17, "more", MapType(18, StringType(), 19, LongType()), required=True),
                    ),
                    required=True,
                )
            ),
        ),
    )
    rows, mapping = project(old, [{"a": 1}, {"a": 2}], new)
    added = {
        "text": "none",
        "day": date(2020, 2, 29),
        "money": Decimal("1.50"),
        "token": token,
        "nothing": None,
        "person": None,
        "tags": None,
        "deep": None,
    }
    assert rows == [added | {"a": 1}, added | {"a": 2}]
    assert mapping.leaves == (0,)
    only, mapping = project(old, [{"a": 1}, {"a": 2}], new, ["text"])
    assert mapping.leaves == ()
    assert only == [{"text": "none"}, {"text": "none"}]


def test_a_required_column_that_a_file_lacks_is_damage() -> None:
    new = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType(), required=True))
    with pytest.raises(Corrupt, match=r"'b' is required .* but s\.parquet lacks it"):
        RowMapping(arrow_schema(one(LongType(), name="a")), new, name="s.parquet")


OLD_PERSON = StructType(
    NestedField(10, "first", StringType()),
    NestedField(11, "age", IntegerType()),
    NestedField(12, "gone", StringType()),
)
NEW_PERSON = StructType(
    NestedField(11, "years", LongType()),
    NestedField(13, "city", StringType(), initial_default="?"),
    NestedField(10, "given", StringType()),
)
BEFORE = {"first": "Ada", "age": 36, "gone": "x"}
AFTER = {"years": 36, "city": "?", "given": "Ada"}


@pytest.mark.parametrize(
    ("wrap", "put", "leaves"),
    [
        (lambda kind: kind, lambda value: value, (0, 1)),
        (lambda kind: ListType(2, kind, element_required=False), lambda value: [value, None, value], (0, 1)),
        (
            lambda kind: MapType(2, StringType(), 3, kind, value_required=False),
            lambda value: [("a", value), ("b", None)],
            (0, 1, 2),
        ),
        (
            lambda kind: MapType(2, kind, 3, IntegerType(), value_required=False),
            lambda value: [(value, 1)],
            (0, 1, 3),
        ),
        (
            lambda kind: ListType(
                2,
                MapType(3, StringType(), 4, StructType(NestedField(5, "p", kind)), value_required=False),
                element_required=False,
            ),
            lambda value: [[("a", {"p": value}), ("b", {"p": None}), ("c", None)], None, []],
            (0, 1, 2),
        ),
    ],
    ids=["struct", "list", "map value", "map key", "deep"],
)
def test_fields_inside_columns_are_added_renamed_moved_widened_and_dropped(
    wrap: Any, put: Any, leaves: tuple[int, ...]
) -> None:
    old, new = one(wrap(OLD_PERSON)), one(wrap(NEW_PERSON))
    rows, mapping = project(old, [{"x": put(BEFORE)}, {"x": None}, {"x": put(BEFORE)}], new)
    assert rows == [{"x": put(AFTER)}, {"x": None}, {"x": put(AFTER)}]
    assert mapping.leaves == leaves


@pytest.mark.parametrize(
    "first", [StringType(), ListType(20, StringType()), MapType(20, StringType(), 21, LongType())], ids=str
)
def test_a_struct_of_only_new_fields_is_null_where_the_old_one_was(first: IcebergType) -> None:
    old = one(StructType(NestedField(10, "a", first), NestedField(11, "b", LongType())))
    new = one(StructType(NestedField(12, "c", StringType()), NestedField(13, "d", LongType(), initial_default=7)))
    value: Any = {"a": None if isinstance(first, StringType) else [], "b": 1}
    rows, mapping = project(old, [{"x": value}, {"x": None}], new)
    assert rows == [{"x": {"c": None, "d": 7}}, {"x": None}]
    assert mapping.leaves == ((0, 1) if isinstance(first, MapType) else (0,))


def test_a_field_dropped_from_the_key_of_a_map_is_not_read() -> None:
    old = one(MapType(2, OLD_PERSON, 3, LongType(), value_required=False))
    new = one(MapType(2, StructType(OLD_PERSON.fields[0]), 3, LongType(), value_required=False))
    rows, mapping = project(old, [{"x": [(BEFORE, 1)]}, {"x": None}], new)
    assert rows == [{"x": [({"first": "Ada"}, 1)]}, {"x": None}]
    assert mapping.leaves == (0, 3)


def test_a_required_field_that_became_optional_is_read() -> None:
    old = one(StructType(NestedField(10, "a", LongType(), required=True)))
    new = one(StructType(NestedField(10, "a", LongType())))
    assert project(old, [{"x": {"a": 1}}, {"x": None}], new)[0] == [{"x": {"a": 1}}, {"x": None}]


def test_files_of_other_engines_are_cast_to_the_types_of_the_table() -> None:
    schema = Schema(
        NestedField(1, "text", StringType()),
        NestedField(2, "at", TimestamptzType()),
        NestedField(3, "token", UUIDType()),
        NestedField(4, "tags", ListType(5, StringType(), element_required=False)),
    )
    table = pa.table(
        {
            "text": pa.array(["a", None]).dictionary_encode(),
            "at": pa.array([1000, -1000], pa.timestamp("ns")),
            "token": pa.array([bytes(16), None], pa.binary(16)),
            "tags": pa.array(
                [["x"], None], pa.large_list(pa.field("item", pa.large_string(), metadata={"PARQUET:field_id": "5"}))
            ),
        }
    )
    fields = [field.with_metadata({"PARQUET:field_id": str(n)}) for n, field in enumerate(table.schema, 1)]
    found = RowMapping(pa.schema(fields), schema).apply(table)
    assert found.to_pylist() == [
        {"text": "a", "at": datetime(1970, 1, 1, microsecond=1, tzinfo=UTC), "token": uuid.UUID(int=0), "tags": ["x"]},
        {"text": None, "at": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "token": None, "tags": None},
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LongType(), StructType(NestedField(2, "a", LongType()))),
        (ListType(2, LongType()), LongType()),
        (MapType(2, LongType(), 3, LongType()), ListType(2, LongType())),
    ],
    ids=str,
)
def test_a_column_of_another_kind_is_damage(old: IcebergType, new: IcebergType) -> None:
    with pytest.raises(Corrupt, match="Column 'x' of s.parquet is stored as"):
        RowMapping(arrow_schema(one(old)), one(new), name="s.parquet")
