"""What a table keeps of Arrow's types and metadata, and what Python gets for times in nanoseconds."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from moulin.errors import InvalidInput
from moulin.iceberg.check.checker import check
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.model.rows.nano_datetime import NanoDatetime

NANOS = 1_700_000_000_123_456_789
VECTORS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"doc": "who it is", "unit": "none"}),
        pa.field(
            "v", pa.list_(pa.float32(), 3), metadata={"comment": "an embedding", "model": "small", "raw": b"\xff\x00"}
        ),
        pa.field("s", pa.struct([pa.field("m", pa.list_(pa.list_(pa.int32(), 2), 2))])),
    ],
    metadata={"source": "lab", "pandas": "{}"},
)
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "v": [[1.0, 2.0, 3.0], None, [4.0, 5.0, 6.0]],
        "s": [{"m": [[1, 2], [3, 4]]}, None, {"m": None}],
    },
    VECTORS,
)


@pytest.mark.parametrize("key", [[], ["id"]])
def test_lists_of_a_fixed_length_come_back_as_such(lake: Lake, key: list[str]) -> None:
    table = lake.create_table("shop.vectors", VECTORS, primary_key=key)
    table.append(ROWS)
    assert table.scan().schema.field("v").type == pa.list_(pa.field("element", pa.float32()), 3)
    assert table.schema.field("s").type.field(0).type.list_size == 2
    found = table.scan().to_arrow()
    found.validate(full=True)
    assert found.to_pylist() == ROWS.to_pylist()
    table.append(found) if not key else table.put_batch(found)
    table.compact(everything=True)
    assert table.scan(["v"]).to_arrow().schema.field("v").type.list_size == 3
    assert pl.DataFrame(table.scan(["v"])).schema["v"] == pl.Array(pl.Float32, 3)
    assert check(project(lake.context, table.id).location, Files(lake.store)) == []
    if key:
        assert table.get(1)["v"] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": 1, "v": [1.0, 2.0]}],
        pa.table({"id": [1], "v": pa.array([[1.0]], pa.list_(pa.float32()))}),
        pa.table({"id": [1], "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))}),
        [{"id": 1, "s": {"m": [[1, 2]]}}],
    ],
)
def test_a_list_of_another_length_is_refused(lake: Lake, rows: Any) -> None:
    table = lake.create_table("shop.vectors", VECTORS)
    with pytest.raises(InvalidInput, match="elements; each list of this column has"):
        table.append(rows)
    keyed = lake.create_table("shop.keyed", VECTORS, primary_key=["id"])
    with pytest.raises(InvalidInput, match="elements; each list of this column has"):
        keyed.put_batch(rows)
    with pytest.raises(InvalidInput, match="elements; each list of this column has"):
        keyed.merge(rows)


def test_docs_and_metadata_of_arrow_are_kept(lake: Lake) -> None:
    table = lake.create_table("shop.vectors", VECTORS)
    table.rename_column("v", "vector")
    table.add_column("w", "float[2]")
    schema = table.scan().schema
    assert schema.metadata == {b"source": b"lab"}
    assert schema.field("id").metadata == {b"unit": b"none", b"doc": b"who it is", b"PARQUET:field_id": b"1"}
    assert schema.field("vector").metadata == {
        b"model": b"small",
        b"doc": b"an embedding",
        b"PARQUET:field_id": b"2",
    }
    assert schema.field("w").type.list_size == 2
    table.append([{"id": 1}])
    assert table.scan(["vector"]).to_arrow().schema.equals(pa.schema([schema.field("vector")], schema.metadata), True)
    assert next(table.scan().to_batches()).schema.equals(schema, check_metadata=True)
    assert table.state().schema.find_field("vector").doc == "an embedding"
    again = lake.create_table("shop.again", VECTORS)
    assert lake.create_table("shop.copy", again.schema).schema.equals(again.schema, check_metadata=True)


def test_metadata_of_a_schema_is_kept_in_keyed_tables(lake: Lake) -> None:
    table = lake.create_table("shop.vectors", VECTORS, primary_key=["id"])
    table.rename_column("v", "vector")
    table.put({"id": 1, "vector": [1.0, 2.0, 3.0]})
    table.flush()
    assert table.schema.metadata == {b"source": b"lab"}
    assert table.scan().to_arrow().schema.metadata == {b"source": b"lab"}


def test_engines_see_nothing_of_what_only_arrow_knows(lake: Lake) -> None:
    table = lake.create_table("shop.vectors", VECTORS)
    table.append(ROWS)
    location = project(lake.context, table.id).location
    text = lake.store.get(location.partition("/lake/")[2]).decode()
    assert "an embedding" in text
    assert "moulin-length" not in text
    assert "moulin-metadata" not in text


def test_large_metadata_is_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match="remove_metadata"):
        lake.create_table("shop.t", pa.schema({"a": pa.int64()}).with_metadata({"x": "y" * 100_000}))


def test_times_in_nanoseconds_come_back_whole_without_pandas(tmp_path: Path) -> None:
    program = f"""
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Missing())
import moulin, pyarrow as pa
with moulin.connect({str(tmp_path)!r}) as lake:
    lake.create_database("d")
    columns = [("id", "long"), ("a", "timestamp_ns"), ("b", "timestamptz_ns"), ("l", "list<timestamp_ns>"),
               ("m", "map<string, struct<t: timestamptz_ns>>")]
    table = lake.create_table("d.k", columns, primary_key=["id"])
    at = "2023-11-14T22:13:20.123456789"
    table.put({{"id": 1, "a": at, "b": at + "Z", "l": [at, None], "m": {{"x": {{"t": at + "Z"}}}}}})
    first = table.get(1)
    table.flush()
    rows = [first, table.get(1), table.scan().to_pylist()[0]]
    feed = table.changes(table.version - 1).to_pylist()[0]
    rows.append({{name: feed[name] for name in first}})
    assert all(row == first for row in rows), rows
    print(first["a"], first["b"], first["l"], first["m"]["x"]["t"].value, first["a"].nanosecond)
    table.put(first)
    assert table.get(1) == first
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "2023-11-14 22:13:20.123456789 2023-11-14 22:13:20.123456789+00:00 "
        "[NanoDatetime('2023-11-14T22:13:20.123456789'), None] 1700000000123456789 789\n"
    )


def test_a_time_with_nanoseconds_is_a_datetime() -> None:
    zoned, plain = NanoDatetime.of(NANOS, zoned=True), NanoDatetime.of(NANOS, zoned=False)
    whole = datetime(2023, 11, 14, 22, 13, 20, 123456, UTC)
    assert zoned > whole
    assert whole < zoned
    assert zoned != whole
    assert NanoDatetime.of(NANOS - 789, zoned=True) == whole
    assert hash(NanoDatetime.of(NANOS - 789, zoned=True)) == hash(whole)
    assert zoned.value == plain.value == NANOS
    assert NanoDatetime.of(-1, zoned=False).value == -1
    assert min([NanoDatetime.of(n, zoned=True) for n in (3, 1, 2)]).nanosecond == 1
    for copied in (copy.deepcopy(zoned), pickle.loads(pickle.dumps(zoned)), zoned.astimezone(UTC), zoned.replace()):
        assert (copied, copied.nanosecond, copied.tzinfo) == (zoned, 789, UTC)
    with pytest.raises(TypeError):
        assert zoned < plain


def test_a_time_without_a_zone_is_refused_where_the_column_has_one(lake: Lake) -> None:
    naive = datetime(2024, 3, 1, 12)
    table = lake.create_table("shop.events", [("id", "long"), ("ts", "timestamptz")])
    keyed = lake.create_table("shop.keyed", [("ts", "timestamptz"), ("n", "long")], primary_key=["ts"])
    for rows in ([{"id": 1, "ts": naive}], {"id": [1], "ts": [naive]}, pa.table({"id": [1], "ts": [naive]})):
        with pytest.raises(InvalidInput, match=r"no time zone.*datetime.now\(UTC\)"):
            table.append(rows)
    for write in (lambda: keyed.put({"ts": naive, "n": 1}), lambda: keyed.get(naive), lambda: keyed.delete(naive)):
        with pytest.raises(InvalidInput, match="time zone"):
            write()
    table.append([{"id": 1, "ts": "2024-03-01T12:00:00"}])  # text without a zone is UTC
    assert table.scan().to_pylist() == [{"id": 1, "ts": naive.replace(tzinfo=UTC)}]


@pytest.mark.parametrize("primary_key", [[], ["id"]])
def test_maps_come_back_as_dicts_wherever_rows_are_read(lake: Lake, primary_key: list[str]) -> None:
    columns = [("id", "long", False), ("m", "map<string, int>"), ("l", "list<map<int, struct<d: map<date, string>>>>")]
    table = lake.create_table("shop.maps", [*columns, ("p", "map<list<int>, int>")], primary_key=primary_key)
    row = {"id": 1, "m": {"a": 1, "b": None}, "l": [{7: {"d": {date(2024, 1, 1): "x"}}}, {}], "p": [([1], 2)]}
    empty = {"id": 2, "m": {}, "l": None, "p": None}
    before = table.version
    table.append([row, empty])
    assert table.scan(order_by="id").to_pylist() == [row, empty]
    feed = table.changes(before).to_pylist()
    assert [{name: one[name] for name in row} for one in feed] == [row, empty]
    if primary_key:
        table.put(row | {"id": 3})
        assert [table.get(number) for number in (1, 3)] == [row, row | {"id": 3}]
        table.put(table.get(1))
        table.flush()
        assert table.get_many([3, 1]) == [row | {"id": 3}, row]


def test_of_a_key_that_a_map_has_twice_the_last_value_is_read(lake: Lake) -> None:
    table = lake.create_table("shop.twice", [("m", "map<string, int>")])
    table.append(pa.table({"m": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))}))
    assert table.scan().to_pylist() == [{"m": {"a": 2}}]
    assert table.scan().to_arrow().to_pylist() == [{"m": [("a", 1), ("a", 2)]}]
