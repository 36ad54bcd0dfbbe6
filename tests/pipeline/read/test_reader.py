"""Tables as DataFrames: the same rows and columns as a scan, at every version and after every change of schema."""

from __future__ import annotations

import random
import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import moulin
from moulin import Lake, Table
from moulin.errors import Closed, NotFound
from moulin.formats import deletion_vector
from moulin.model.predicate import Predicate
from moulin.pipeline.read import reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Ids = Callable[[Any], list[int]]
Rows = Callable[..., list[dict[str, Any]]]

EVERY_TYPE = [
    ("boolean", "boolean"),
    ("int", "int"),
    ("long", "long"),
    ("float", "float"),
    ("double", "double"),
    ("decimal", "decimal(20, 3)"),
    ("date", "date"),
    ("time", "time"),
    ("timestamp", "timestamp"),
    ("timestamptz", "timestamptz"),
    ("timestamp_ns", "timestamp_ns"),
    ("timestamptz_ns", "timestamptz_ns"),
    ("string", "string"),
    ("uuid", "uuid"),
    ("fixed", "fixed[4]"),
    ("binary", "binary"),
    ("list", "list<uuid>"),
    ("map", "map<string, timestamp_ns>"),
    ("struct", "struct<a: int, b: struct<c: uuid, d: list<timestamptz_ns>>>"),
]
MOMENT = datetime(1955, 11, 12, 22, 4, 0, 123456)
CODE = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
EVERY_VALUE: dict[str, Any] = {
    "boolean": True,
    "int": -(2**31),
    "long": 2**63 - 1,
    "float": 0.5,
    "double": -1e300,
    "decimal": Decimal("-12345678901234567.891"),
    "date": date(1950, 1, 1),
    "time": time(23, 59, 59, 999999),
    "timestamp": MOMENT,
    "timestamptz": MOMENT.replace(tzinfo=UTC),
    "timestamp_ns": "1955-11-12T22:04:00.123456789",
    "timestamptz_ns": "1969-12-31T23:59:59.999999999+00:00",
    "string": "Zürich 🏔",
    "uuid": CODE,
    "fixed": b"\x00\x01\x02\xff",
    "binary": b"",
    "list": [CODE, None],
    "map": {"x": "1969-12-31T23:59:59.999999999", "y": None},
    "struct": {"a": 1, "b": {"c": CODE, "d": ["1970-01-01T00:00:00.000000999Z", None]}},
}


def executed_plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_every_type_reads_as_documented(lake: Lake) -> None:
    table = lake.create_table("shop.types", EVERY_TYPE)
    table.append([EVERY_VALUE, dict.fromkeys(EVERY_VALUE)])
    frame = table.to_spark()
    assert {name: kind for name, kind in frame.dtypes if name in ("time", "timestamp", "timestamptz_ns", "uuid")} == {
        "time": "time(6)",
        "timestamp": "timestamp_ntz",
        "timestamptz_ns": "timestamp",
        "uuid": "string",
    }
    full, empty = sorted(frame.toArrow().to_pylist(), key=lambda row: row["int"] is None)
    assert set(empty.values()) == {None}
    epoch = datetime(1970, 1, 1)
    assert full == EVERY_VALUE | {
        "time": full["time"],  # Spark hands out nanoseconds; the value is compared below
        "timestamp_ns": MOMENT,
        "timestamptz_ns": epoch.replace(tzinfo=UTC) - timedelta(microseconds=1),
        "uuid": str(CODE),
        "list": [str(CODE), None],
        "map": [("x", epoch - timedelta(microseconds=1)), ("y", None)],
        "struct": {"a": 1, "b": {"c": str(CODE), "d": [epoch.replace(tzinfo=UTC), None]}},
    }
    assert frame.where("time is not null").selectExpr("cast(time as string) t").first()["t"] == "23:59:59.999999"


@pytest.fixture
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """Plans whose lists are not cut."""
    spark.conf.set("spark.sql.maxMetadataStringLength", "10000")
    yield
    spark.conf.unset("spark.sql.maxMetadataStringLength")


@pytest.mark.usefixtures("whole_plans")
def test_filters_and_columns_reach_the_parquet_scan(orders: Table, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_FEW_ROWS", 0)
    orders.append(rows(0, 100))
    orders.append(rows(100, 100))
    query = "amount > 50 and region = 'eu'"

    def check(scans: int) -> None:
        plan = executed_plan(orders.to_spark().where(query).select("region", "amount"))
        assert plan.count("FileScan parquet") == plan.count("Batched: true") == scans
        pushed = re.findall(r"PushedFilters: \[(.*?)\]", plan)
        assert len(pushed) == scans
        assert all("GreaterThan(amount,50.0)" in found and "EqualTo(region,eu)" in found for found in pushed)
        read = [
            found.replace(",_tmp_metadata_row_index:bigint", "") for found in re.findall(r"ReadSchema: (\S+)", plan)
        ]
        assert set(read) == {"struct<region:string,amount:double>"}

    check(scans=1)
    orders.delete_where("id = 7")
    check(scans=2)
    plan = executed_plan(orders.to_spark().where(query))
    assert "Join" not in plan
    assert plan.count("_tmp_metadata_row_index:bigint") == 1, "only segments with a deletion vector pay for it"


def test_deleted_rows_are_gone_from_the_version_that_deleted_them_on(orders: Table, rows: Rows, ids: Ids) -> None:
    orders.append(rows(0, 1000))
    orders.append(rows(1000, 1000))
    before = orders.version
    orders.delete_where("id in (0, 63, 64, 65, 127, 999)")
    orders.delete_where("id >= 1500")
    assert ids(orders.to_spark()) == ids(orders)
    assert orders.to_spark().count() == 2000 - 6 - 500
    assert ids(orders.to_spark(before)) == list(range(2000))
    assert orders.to_spark().where("id < 70").count() == 70 - 4


def test_deleted_rows_of_fresh_and_compacted_segments_are_gone_together(orders: Table, rows: Rows, ids: Ids) -> None:
    for start in (0, 500):
        orders.append(rows(start, 500))
    orders.compact(everything=True)
    orders.append(rows(1000, 100))
    gone = {n for n in range(1100) if n % 7 == 3}
    orders.delete_where(f"id in ({', '.join(map(str, gone))})")
    plan = executed_plan(orders.to_spark())
    assert plan.count("_moulin_position:bigint") == plan.count("_tmp_metadata_row_index:bigint") == 1
    assert ids(orders.to_spark()) == ids(orders) == [n for n in range(1100) if n not in gone]
    assert orders.to_spark().columns == orders.schema.names


def test_a_compacted_segment_without_positions_stops_the_query(orders: Table, rows: Rows, tmp_path: Path) -> None:
    orders.append(rows(0, 10))
    orders.delete_where("id = 3")
    with sqlite3.connect(tmp_path / "lake" / "catalog.sqlite") as catalog:
        assert catalog.execute("update segments set level = 1").rowcount == 1
    catalog.close()
    with pytest.raises(PySparkException, match="no column _moulin_position"):
        orders.to_spark().collect()


@pytest.mark.usefixtures("whole_plans")
def test_few_rows_beside_deleted_ones_need_no_scan_of_their_own(orders: Table, rows: Rows, ids: Ids) -> None:
    for start in range(0, 300, 100):
        orders.append(rows(start, 100))
    orders.delete_where("id in (7, 99, 163)")
    assert executed_plan(orders.to_spark()).count("FileScan parquet") == 1
    assert ids(orders.to_spark()) == [number for number in range(300) if number not in (7, 99, 163)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_the_same_however_many_are_tested(
    lake: Lake, orders: Table, rows: Rows, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Referee: a set of ids in Python, and plain Spark over the rows of `scan`."""
    chance = random.Random(f"tested rows {seed}")
    live: set[int] = set()
    for turn in range(5):
        for _ in range(chance.randrange(1, 4)):
            first, count = max(live, default=0) + 1, chance.choice((1, 63, 64, 65, 200))
            orders.append(rows(first, count))
            live |= set(range(first, first + count))
        if chance.random() < 0.3:
            orders.compact(everything=True)
        gone = set(chance.sample(sorted(live), chance.randrange(1, 20))) if len(live) > 20 else set()
        if gone:
            orders.delete_where(f"id in ({', '.join(map(str, gone))})")
            live -= gone
        state = lake.catalog.state_until(orders.id, lake.version, lake.version)
        plain = spark.createDataFrame(orders.scan().to_arrow()).groupBy("region").agg({"amount": "sum"})
        sums = sorted((row[0], round(row[1], 6)) for row in plain.collect())
        for few in (0, 100, 1 << 18):
            monkeypatch.setattr(reader, "_FEW_ROWS", few)
            tables = reader.TableReader(spark, lake.context)
            everything = Predicate.everything(state.schema)
            frame, located = tables.frame(state).frame, tables.located(state, everything).frame
            assert {row.id for row in frame.select("id").collect()} == live, (turn, few)
            found = frame.groupBy("region").agg({"amount": "sum"}).collect()
            assert sorted((row[0], round(row[1], 6)) for row in found) == sums
            assert {row.id for row in located.select("id").collect()} == live
            places = located.select("_moulin_segment", "_moulin_at").distinct()
            assert places.count() == len(live)
            tables.close()


def test_bitmaps_are_built_once_for_a_set_of_vectors(
    orders: Table, rows: Rows, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    monkeypatch.setattr(reader, "_FEW_ROWS", 0)
    monkeypatch.setattr(reader.deletion_vector, "words", lambda *a: built.append(a) or WORDS(*a))
    orders.append(rows(0, 10))
    orders.delete_where("id = 3")
    assert ids(orders.to_spark()) == [0, 1, 2, *range(4, 10)]
    orders.append(rows(10, 10))
    assert ids(orders.to_spark()) == [0, 1, 2, *range(4, 20)]
    assert len(built) == 1
    orders.delete_where("id = 4")
    assert ids(orders.to_spark()) == [0, 1, 2, *range(5, 20)]
    assert len(built) == 2


WORDS = deletion_vector.words


def test_columns_are_added_renamed_moved_widened_and_dropped(lake: Lake) -> None:
    table = lake.create_table("shop.evolving", [("a", "int"), ("b", "string"), ("c", "date"), ("d", "float")])
    table.append([{"a": 1, "b": "one", "c": date(1969, 12, 31), "d": 0.5}])
    first = table.version
    table.rename_column("b", "label")
    table.widen_column("a", "long")
    table.widen_column("c", "timestamp_ns")
    table.widen_column("d", "double")
    table.add_column("plain", "string")
    table.add_column("filled", "long", default=7)
    table.move_column("label", first=True)
    table.append([{"label": "two", "a": 2**40, "filled": None}])
    table.drop_column("d")
    frame = table.to_spark()
    assert frame.columns == ["label", "a", "c", "plain", "filled"]
    assert [tuple(row) for row in frame.orderBy("a").collect()] == [
        ("one", 1, datetime(1969, 12, 31), None, 7),
        ("two", 2**40, None, None, None),
    ]
    assert frame.where("filled = 7").count() == 1
    assert [tuple(row) for row in table.to_spark(first).collect()] == [(1, "one", date(1969, 12, 31), 0.5)]


def test_a_filter_means_the_column_of_now_and_not_the_one_that_had_its_name(lake: Lake) -> None:
    table = lake.create_table("shop.swapped", [("a", "long"), ("b", "long"), ("gone", "long")])
    table.append([{"a": n, "b": 1000 + n, "gone": n} for n in range(100)])
    table.rename_column("a", "x")
    table.rename_column("b", "a")
    table.rename_column("x", "b")
    table.drop_column("gone")
    table.add_column("gone", "long")
    frame = table.to_spark()
    assert frame.where("a >= 1090").count() == 10
    assert frame.where("b = 5").select("a").first()["a"] == 1005
    assert frame.where("gone is null").count() == 100
    assert frame.where("gone = 5").count() == 0
    assert "GreaterThanOrEqual(b,1090)" in executed_plan(frame.where("a >= 1090")), "pushed under the file's own name"


def test_defaults_of_every_type_read_as_written_values_do(lake: Lake) -> None:
    defaults: dict[str, Any] = {
        name: value for name, value in EVERY_VALUE.items() if name not in ("list", "map", "struct")
    }
    table = lake.create_table("shop.defaults", [("id", "long")])
    table.append([{"id": 1}])
    for name, kind in EVERY_TYPE:
        if name in defaults:
            table.add_column(name, kind, default=defaults[name])
    native = lake.create_table("shop.native", [("id", "long"), *EVERY_TYPE[: len(defaults)]])
    native.append([{"id": 1, **defaults}])
    assert table.to_spark().toArrow().to_pylist() == native.to_spark().toArrow().to_pylist()


def test_fields_of_structs_evolve(lake: Lake) -> None:
    table = lake.create_table("shop.nested", [("s", "struct<a: int, b: string>"), ("l", "list<struct<x: int>>")])
    table.append([{"s": {"a": 1, "b": "x"}, "l": [{"x": 1}, None]}, {"s": None, "l": None}])
    table.rename_column("s.b", "c")
    table.widen_column("s.a", "long")
    table.add_column("s.d", "int", default=5)
    table.add_column("l.element.y", "string", default="why")
    table.append([{"s": {"a": 2, "c": "y", "d": None}, "l": [{"x": 2, "y": None}]}])
    frame = table.to_spark()
    found = sorted(frame.toArrow().to_pylist(), key=str)
    assert found == sorted(
        [
            {"s": {"a": 1, "c": "x", "d": 5}, "l": [{"x": 1, "y": "why"}, None]},
            {"s": None, "l": None},
            {"s": {"a": 2, "c": "y", "d": None}, "l": [{"x": 2, "y": None}]},
        ],
        key=str,
    )
    assert found == sorted(table.scan().to_pylist(), key=str)
    assert frame.where("s.d = 5").count() == 1


def test_compacted_files_of_several_schemas_are_one_scan_again(lake: Lake) -> None:
    table = lake.create_table("shop.merged", [("a", "long")])
    table.append([{"a": 1}])
    table.add_column("b", "long", default=2)
    table.append([{"a": 3, "b": 4}])
    assert executed_plan(table.to_spark()).count("FileScan") == 2
    table.compact(everything=True)
    assert executed_plan(table.to_spark()).count("FileScan") == 1
    assert sorted(map(tuple, table.to_spark().collect())) == [(1, 2), (3, 4)]


def test_columns_with_odd_names_are_read(lake: Lake) -> None:
    names = ["with space", "SELECT", "ünï"]
    table = lake.create_table("shop.odd", [(name, "long") for name in names])
    table.append([dict.fromkeys(names, 1)])
    table.delete_where("`SELECT` = 2")
    assert table.to_spark().collect()[0].asDict() == dict.fromkeys(names, 1)


def test_an_empty_table_has_its_columns(lake: Lake, rows: Rows) -> None:
    table = lake.create_table("shop.empty", EVERY_TYPE)
    frame = table.to_spark()
    assert frame.collect() == []
    table.append([EVERY_VALUE])
    assert frame.dtypes == table.to_spark().dtypes
    assert not any(field.metadata for field in table.to_spark().schema), "field ids stay out of files that users write"
    table.delete_where("true")
    assert table.to_spark().count() == 0


def test_a_frame_goes_on_showing_the_version_it_was_made_at(orders: Table, rows: Rows, ids: Ids) -> None:
    orders.append(rows(0, 5))
    frame = orders.to_spark()
    orders.append(rows(5, 5))
    orders.delete_where("id < 5")
    assert ids(frame) == [0, 1, 2, 3, 4]
    assert ids(orders.to_spark()) == [5, 6, 7, 8, 9]
    with pytest.raises(NotFound):
        orders.to_spark(10**9)


def test_partitions_do_not_show(lake: Lake, rows: Rows, ids: Ids) -> None:
    table = lake.create_table(
        "shop.parted", [("id", "long"), ("ts", "timestamptz"), ("region", "string")], partition_by=["day(ts)", "region"]
    )
    table.append([{k: row[k] for k in ("id", "ts", "region")} for row in rows(0, 4000)])
    assert table.to_spark().columns == ["id", "ts", "region"]
    assert ids(table.to_spark()) == list(range(4000))


def test_a_lake_in_a_folder_with_an_odd_name_is_read(tmp_path: Path, spark: SparkSession, rows: Rows, ids: Ids) -> None:
    with moulin.connect(tmp_path / "la ke%20{a,b}[0-9]*é=1") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long")])
        table.append([{"id": 1}, {"id": 2}])
        table.delete_where("id = 1")
        assert ids(table.to_spark()) == [2]


@pytest.mark.s3
def test_files_of_an_object_store_are_copied_once(
    tmp_path: Path, spark: SparkSession, s3_url: str, s3_options: dict[str, str], rows: Rows, ids: Ids
) -> None:
    lake = moulin.connect(tmp_path / "lake", storage=s3_url, storage_options=s3_options)
    lake.create_database("shop")
    table = lake.create_table("shop.orders", [("id", "long")])
    table.append([{"id": 1}, {"id": 2}])
    assert ids(table.to_spark()) == [1, 2]
    copies = list(lake.context.spark()._tables._reader._staging._folder.rglob("*.parquet"))  # type: ignore[attr-defined]
    made = copies[0].stat().st_mtime_ns
    table.append([{"id": 3}])
    table.delete_where("id = 1")
    assert ids(table.to_spark()) == [2, 3]
    assert copies[0].stat().st_mtime_ns == made
    lake.close()
    assert not copies[0].exists()
    with pytest.raises(Closed):
        lake.sql("select 1")


def test_rows_read_by_planned_tasks_are_the_same(lake: Lake, spark: SparkSession) -> None:
    """The way that a cluster reads an object store without a connector for it."""
    table = lake.create_table("shop.types", EVERY_TYPE)
    table.append([EVERY_VALUE, dict.fromkeys(EVERY_VALUE)])
    table.append([EVERY_VALUE | {"int": 5}])
    table.delete_where("int = 5")
    state = table.state()
    segments = lake.catalog.segments(state.id, state.version)
    frame = reader.planned_scan(spark, lake.store, state.schema, segments)
    assert frame.dtypes == table.to_spark().dtypes
    assert sorted(frame.toArrow().to_pylist(), key=str) == sorted(table.to_spark().toArrow().to_pylist(), key=str)


def test_an_append_of_what_was_read_is_the_same_again(lake: Lake) -> None:
    source = lake.create_table("shop.source", EVERY_TYPE)
    source.append([EVERY_VALUE, dict.fromkeys(EVERY_VALUE)])
    target = lake.create_table("shop.target", EVERY_TYPE)
    target.append(source.to_spark())
    assert target.to_spark().toArrow().sort_by("int") == source.to_spark().toArrow().sort_by("int")
