"""DataFrames into tables: one version, sorted segments, the same rules for rows as everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moulin
from moulin import Lake, Table
from moulin.catalog.upkeep.gc import collect
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.pipeline.write import writer
from moulin.table.write.append import AppendPlan, append_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Ids = Callable[[Any], list[int]]
Rows = Callable[..., list[dict[str, Any]]]


def events(spark: SparkSession, start: int, end: int, parts: int = 2) -> DataFrame:
    """Rows in falling order of time."""
    return spark.range(start, end, 1, parts).selectExpr(
        "cast(id % 7 as double) as amount",
        "id",
        "timestamp_seconds(1709251200 + 10000 - id) as ts",
        "concat('r', id % 3) as region",
    )


@pytest.fixture
def every_task_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few its rows are."""
    monkeypatch.setattr(writer, "HELD_BYTES", 0)
    monkeypatch.setattr(writer, "TASK_BYTES", 1)


@pytest.mark.usefixtures("every_task_writes")
def test_an_append_is_one_version_of_sorted_segments(lake: Lake, orders: Table, spark: SparkSession, ids: Ids) -> None:
    version = lake.version
    done = orders.append(events(spark, 0, 1000, parts=3))
    assert (done.version, done.rows_added) == (version + 1, 1000)
    assert lake.version == version + 1
    assert ids(orders) == list(range(1000))
    segments = lake.catalog.segments(orders.id, lake.version)
    assert [(s.facts.level, s.facts.sort_order_id) for s in segments] == [(0, orders.state().sort_order_id)] * 3
    for segment in segments:
        low, high = segment.facts.time_min, segment.facts.time_max
        assert low is not None
        assert high is not None
        assert high - low == (segment.facts.rows - 1) * 10**9
    stamps = orders.scan(columns=["ts"]).to_arrow().column(0).to_pylist()
    assert all(stamps[n] < stamps[n + 1] for n in range(300)), "a segment is sorted by event time"
    assert len({s.facts.number for s in segments}) == 3


@pytest.mark.usefixtures("every_task_writes")
def test_tasks_write_files_as_the_table_says(lake: Lake, spark: SparkSession) -> None:
    properties = {"write.parquet.compression-codec": "gzip", "write.parquet.row-group-limit": 100}
    columns = [("id", "long"), ("ts", "timestamptz"), ("region", "string"), ("amount", "double")]
    table = lake.create_table("shop.files", columns, properties=properties)
    table.append(events(spark, 0, 1000))
    for segment in lake.catalog.segments(table.id, lake.version):
        footer = pq.read_metadata(pa.BufferReader(lake.store.get(segment.facts.path)))
        assert footer.row_group(0).num_rows == 100
        assert footer.row_group(0).column(0).compression == "GZIP"


@pytest.mark.usefixtures("every_task_writes")
def test_rows_are_split_by_partition(lake: Lake, spark: SparkSession, ids: Ids) -> None:
    table = lake.create_table("shop.parted", [("id", "long"), ("region", "string")], partition_by=["region"])
    table.append(events(spark, 0, 300).select("region", "id"))
    segments = lake.catalog.segments(table.id, lake.version)
    assert sorted(s.facts.partition for s in segments) == sorted([(b"r0",), (b"r1",), (b"r2",)] * 2)
    assert [s.facts.rows for s in segments] == [50] * 6
    assert table.scan(where="region = 'r1'").count() == 100


def test_overwrite_and_transactions_take_frames_too(
    lake: Lake, orders: Table, spark: SparkSession, rows: Rows, ids: Ids
) -> None:
    orders.append(rows(0, 10))
    assert orders.overwrite(events(spark, 100, 110), where="id < 5").rows_deleted == 5
    assert ids(orders) == [*range(5, 10), *range(100, 110)]
    shrunk = orders.overwrite(orders.to_spark().where("id >= 105"))
    assert (shrunk.rows_added, shrunk.rows_deleted) == (5, 15)
    assert ids(orders) == list(range(105, 110))
    other = lake.create_table("shop.other", [("id", "long")])
    version = lake.version
    with lake.transaction() as tx:
        tx.table("shop.orders").append(events(spark, 0, 3))
        tx.table("shop.other").append(spark.range(2))
    assert tx.version == lake.version == version + 1
    assert ids(orders) == [0, 1, 2, *range(105, 110)]
    assert ids(other) == [0, 1]
    assert orders.overwrite(events(spark, 0, 0)).rows_added == 0
    assert ids(orders) == []


def test_a_frame_without_rows_changes_nothing(lake: Lake, orders: Table, spark: SparkSession) -> None:
    version = lake.version
    assert orders.append(events(spark, 0, 0)).rows_added == 0
    assert lake.version == version


def test_a_request_is_done_once(orders: Table, spark: SparkSession, ids: Ids) -> None:
    first = orders.append(events(spark, 0, 5), request_id="one")
    assert orders.append(events(spark, 5, 10), request_id="one").version == first.version
    assert ids(orders) == [0, 1, 2, 3, 4]


def test_columns_that_do_not_fit_are_refused_before_anything_runs(
    lake: Lake, orders: Table, spark: SparkSession, tmp_path: Path
) -> None:
    frame = events(spark, 0, 10)
    for wrong, message in [
        (frame.withColumnRenamed("region", "regoin"), "'regoin' that the table does not have. Did you mean 'region'"),
        (frame.drop("id"), "Column id is required"),
        (frame.withColumn("amount", frame.region), "Column amount: values of Arrow type string do not fit type double"),
        (frame.withColumn("ts", frame.ts.cast("timestamp_ntz").cast("string").cast("binary")), "Column ts"),
        (frame.selectExpr("*", "interval 1 month as i"), "unsupported type|'i' that the table"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            orders.append(wrong)
    assert not list((tmp_path / "lake").rglob("*.parquet"))


def test_a_row_that_does_not_fit_is_named_and_nothing_is_committed(
    orders: Table, spark: SparkSession, lake: Lake
) -> None:
    version = lake.version
    frame = events(spark, 0, 10)
    with pytest.raises(InvalidInput, match=r"partition 1 of the DataFrame: Row 2 .*column id: it is null"):
        orders.append(frame.selectExpr("nullif(id, 7) as id", "ts"))
    with pytest.raises(InvalidInput, match="column amount"):
        orders.append(frame.selectExpr("id", "cast('9007199254740993' as bigint) as amount"))
    assert lake.version == version


def test_a_table_opened_read_only_takes_no_frame(lake: Lake, orders: Table, spark: SparkSession) -> None:
    with pytest.raises(FailedPrecondition, match="read-only"):
        lake.table("shop.orders", read_only=True).append(events(spark, 0, 5))


def test_small_frames_make_one_segment_for_each_partition_value(
    lake: Lake, orders: Table, spark: SparkSession, ids: Ids
) -> None:
    orders.append(events(spark, 0, 60, parts=30))
    assert len(lake.catalog.segments(orders.id, lake.version)) == 1
    orders.overwrite(events(spark, 0, 90, parts=30))
    assert len(lake.catalog.segments(orders.id, lake.version)) == 1
    assert ids(orders) == list(range(90))
    parted = lake.create_table("shop.parted", [("id", "long"), ("region", "string")], partition_by=["region"])
    parted.append(events(spark, 0, 90, parts=30).select("id", "region"))
    assert sorted(s.facts.partition for s in lake.catalog.segments(parted.id, lake.version)) == [
        (b"r0",),
        (b"r1",),
        (b"r2",),
    ]
    keyed = lake.create_table("shop.keyed", [("id", "long", False), ("region", "string")], primary_key=["id"])
    for _ in range(2):
        keyed.append(events(spark, 0, 90, parts=30).select("id", "region"))
        assert len(lake.catalog.segments(keyed.id, lake.version)) == 1, "the second replaces every row of the first"
    assert keyed.scan().count() == 90


def test_a_frame_that_is_not_small_is_written_by_its_tasks(
    lake: Lake, orders: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks with much to write do so; the few rows of their neighbours go together, in the order of tasks."""
    monkeypatch.setattr(writer, "HELD_BYTES", 100_000)
    monkeypatch.setattr(writer, "TASK_BYTES", 1)
    skewed = (
        events(spark, 0, 8, parts=4).union(events(spark, 100, 20_100, parts=2)).union(events(spark, 8, 16, parts=4))
    )
    orders.append(skewed)
    segments = lake.catalog.segments(orders.id, lake.version)
    assert [s.facts.rows for s in sorted(segments, key=lambda s: s.facts.number)] == [8, 10_000, 10_000, 8]


def test_a_frame_of_many_partitions_makes_few_segments(
    lake: Lake, orders: Table, spark: SparkSession, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "HELD_BYTES", 0)
    cores = spark.sparkContext.defaultParallelism
    orders.append(events(spark, 0, 4000, parts=200))
    assert len(lake.catalog.segments(orders.id, lake.version)) == 2 * cores
    assert ids(orders) == list(range(4000))
    keyed = lake.create_table("shop.keyed", [("id", "long", False), ("region", "string")], primary_key=["id"])
    keyed.append(events(spark, 0, 4000, parts=200).select("id", "region"))
    assert len(lake.catalog.segments(keyed.id, lake.version)) == 2 * cores
    assert keyed.scan().count() == 4000


def test_a_frame_is_coalesced_by_its_bytes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = spark.sparkContext.defaultParallelism
    frame = spark.range(0, 1000, 1, 200)  # 8 bytes each
    for task_bytes, parts in ((1 << 20, 2 * cores), (-(-8000 // (3 * cores)), 3 * cores), (1, 200)):
        monkeypatch.setattr(writer, "TASK_BYTES", task_bytes)
        assert writer.coalesced(frame).rdd.getNumPartitions() == parts
    monkeypatch.setattr(writer, "TASK_BYTES", 1 << 20)
    unknown = spark.createDataFrame(spark.sparkContext.parallelize([(1,)], 50), "id long")
    assert writer.coalesced(unknown).rdd.getNumPartitions() == 50, "Spark does not know its size"


def test_a_frame_is_computed_once(lake: Lake, orders: Table, spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from uuid import uuid4

        Path(folder, f"task-{uuid4()}").touch()
        yield from batches

    frame = spark.range(0, 20, 1, 5).mapInArrow(note, "id long")
    orders.append(frame)
    frame.write.format("moulin").option("lake", lake.uri).mode("append").save("shop.orders")
    assert len(list(tmp_path.glob("task-*"))) == 2 * 5


def test_what_tasks_hand_over_is_bounded(lake: Lake, orders: Table, spark: SparkSession) -> None:
    plan = AppendPlan.of(lake.context, orders.state())
    job = writer.FrameJob.of(lake.context, append_rows, plan, events(spark, 0, 1).schema)
    batches = events(spark, 0, 2000).toArrow().to_batches()
    size = sum(batch.nbytes for batch in batches)
    held = [isinstance(job.write(task, batches), writer.HeldRows) for task in (0, 2 * writer.HELD_BYTES // size)]
    assert held == [True, False]


@pytest.mark.usefixtures("every_task_writes")
def test_numbers_are_enough_for_every_task(
    lake: Lake, orders: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = AppendPlan.of(lake.context, orders.state())
    job = writer.FrameJob.of(lake.context, append_rows, plan, events(spark, 0, 1).schema)
    batches = events(spark, 0, 1).toArrow().to_batches()
    written = job.write(3, batches)
    assert not isinstance(written, writer.HeldRows)
    assert [f.number - job.numbers.first for f in written] == [3 << 16]
    with pytest.raises(FailedPrecondition, match="coalesce"):
        job.write(1 << 16, batches)
    monkeypatch.setattr(writer, "_NUMBERS", 0)
    with pytest.raises(FailedPrecondition, match="more coarsely"):
        job.write(0, batches)


RETRIES = """
import json, sys
import moulin
from moulin.errors import Unavailable
from moulin.pipeline.session import spark_session
from moulin.pipeline.write import writer
from flaky import FlakyStore

folder = sys.argv[1]
writer.HELD_BYTES = 0
spark = spark_session(master="local[2,3]", conf={"spark.driver.memory": "1g"})
lake = moulin.connect(folder, merge_local_bytes=1)
lake.create_database("shop")
table = lake.create_table("shop.orders", [("id", "long")], sort_by=["id"])
lake.context.store = FlakyStore(lake.store, failures=1)
table.append(spark.range(0, 100, 1, 2))
found = {"appended": sorted(r.id for r in table.to_spark().collect()), "segments": table.stats().segments}
found["files after append"] = sum(i.path.endswith(".parquet") for i in lake.store.list())
table.compact(everything=True)
found["merged"] = sorted(r.id for r in table.to_spark().collect())
found["compacted segments"] = table.stats().segments
version = table.version
lake.context.store = FlakyStore(lake.store, failures=3)
try:
    table.append(spark.range(5))
except Unavailable as error:
    found["error"] = error.message
found["version unchanged"] = table.version == version
found["files"] = sum(i.path.endswith(".parquet") for i in lake.store.list())
print("FOUND " + json.dumps(found))
spark.stop()
"""

FLAKY = '''
"""A folder that breaks after a file was written, in the first few attempts at every Spark task."""
from contextlib import contextmanager
from pyspark import TaskContext
from moulin.storage.local import LocalStore


class FlakyStore(LocalStore):
    def __init__(self, inner, failures):
        super().__init__(inner._root)
        self.failures = failures

    def __reduce__(self):
        return FlakyStore, (LocalStore(self._root), self.failures)

    @contextmanager
    def writer(self, path):
        with super().writer(path) as sink:
            yield sink
        task = TaskContext.get()
        if task is not None and task.attemptNumber() < self.failures:
            raise OSError("the machine went away")
'''


@pytest.mark.long
def test_attempts_that_fail_leave_no_trace_in_the_table(tmp_path: Path, spark: SparkSession) -> None:
    """On a session that tries a task three times: first every task fails once after writing a file, then always."""
    (tmp_path / "flaky.py").write_text(FLAKY)
    paths = [str(Path(moulin.__file__).parent.parent), str(tmp_path), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", RETRIES, str(tmp_path / "lake")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    report = next((line for line in done.stdout.splitlines() if line.startswith("FOUND ")), None)
    assert report is not None, done.stderr[-3000:]
    found = json.loads(report.removeprefix("FOUND "))
    assert found["appended"] == found["merged"] == list(range(100))
    assert found["segments"] == 2
    assert found["files after append"] == 4, "each task wrote its file twice"
    assert found["compacted segments"] == 1
    assert "the machine went away" in found["error"]
    assert found["version unchanged"]
    with moulin.connect(tmp_path / "lake") as lake:
        kept = {s.facts.path for s in lake.catalog.segments(lake.table("shop.orders").id, lake.version)}
        result = collect(lake.catalog, orphan_grace=0.0)
        assert len(result.deleted) >= 2
        left = {info.path for info in lake.store.list() if info.path.endswith(".parquet")}
        assert kept <= left
        assert len(left) == 3, "the compacted segment, and two that older versions show"
        assert lake.table("shop.orders").scan().count() == 100
