"""Backfills: every file of a folder once, in batches, whatever is killed, raced, added or changed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moulin
from moulin import Lake, Table
from moulin.errors import Conflict, Corrupt, FailedPrecondition, InvalidInput, NotFound
from moulin.mirror import Mirror
from moulin.pipeline.runner import SparkRunner
from moulin.pipeline.write import backfill as loading
from moulin.table.ports import BatchLoaded
from tests.commands import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Ids = Callable[[Any], list[int]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    return made


def write_csv(folder: Path, name: str, first: int, count: int = 10) -> None:
    lines = [f"{n},2024-03-01 00:00:00,eu,{n}.5" for n in range(first, first + count)]
    (folder / name).write_text("\n".join(["id,ts,region,amount", *lines]) + "\n")


def test_loads_every_format_once(orders: Table, folder: Path, ids: Ids, lake: Lake) -> None:
    write_csv(folder, "a.csv", 0)
    rows = "".join(json.dumps({"id": n, "ts": "2024-03-01T00:00:00Z", "amount": 1}) + "\n" for n in range(10, 20))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    (folder / "day").mkdir()
    pq.write_table(pa.table({"id": pa.array(range(20, 30), pa.int64())}), folder / "day" / "c.parquet")
    (folder / "empty.csv").touch()
    (folder / "_SUCCESS").touch()
    (folder / "README.md").write_text("no data")
    version = lake.version
    told: list[BatchLoaded] = []
    done = orders.backfill(folder, batch_bytes=1, progress=told.append)
    assert (done.batches, done.files, done.rows, done.ignored, done.loaded_before) == (3, 4, 30, 1, 0)
    assert ids(orders) == list(range(30))
    assert orders.version == done.version == version + 3, "one version for each batch"
    assert [batch.number for batch in told] == [0, 1, 2, 3], "the empty one took no number"
    assert told[-1].bytes_done == told[-1].bytes_total
    assert [info.summary["batch"] for info in orders.history(3)] == ["2", "1", "0"]
    again = orders.backfill(folder)
    assert (again.batches, again.rows, again.loaded_before) == (0, 0, 3)
    write_csv(folder, "a0.csv", 100, 1)  # sorts before what is there
    assert orders.backfill(folder).rows == 1
    assert ids(orders) == [*range(30), 100]
    other = orders.backfill(folder / "a.csv", source="another")
    assert other.rows == 10, "another source is another load"
    assert orders.backfill(folder / "a.csv").rows == 0, "a file alone belongs to its folder's source"


def test_the_first_error_names_file_and_column_and_a_fixed_file_goes_in(
    orders: Table, folder: Path, ids: Ids, lake: Lake
) -> None:
    write_csv(folder, "a.csv", 0)
    (folder / "b.csv").write_text("id,amount\n10,1\neleven,2\n")
    with pytest.raises(InvalidInput, match=r"b\.csv .*column id.*'eleven'"):
        orders.backfill(folder, batch_bytes=1)
    assert ids(orders) == list(range(10)), "batches before it stay"
    (folder / "b.csv").write_text("id,amount\n10,1\n11,2\n")
    (folder / "c.json").write_text('{"id": 12}\n{"id": 13, "ts": "yesterday"}\n')
    with pytest.raises(InvalidInput, match=r"c\.json: Row 1 .*column ts.*'yesterday'"):
        orders.backfill(folder, batch_bytes=1)
    (folder / "c.json").unlink()
    (folder / "d.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InvalidInput, match=r"d\.parquet cannot be read as parquet"):
        orders.backfill(folder)
    (folder / "d.parquet").unlink()
    assert orders.backfill(folder).rows == 0
    assert ids(orders) == list(range(12))
    (folder / "d.csv").write_text("id,nope\n1,2\n")
    with pytest.raises(InvalidInput, match=r"d\.csv: .*column 'nope'"):
        orders.backfill(folder)


def test_a_file_that_changed_is_an_error_or_left_alone(orders: Table, folder: Path, ids: Ids) -> None:
    write_csv(folder, "a.csv", 0)
    orders.backfill(folder)
    write_csv(folder, "a.csv", 50)
    write_csv(folder, "b.csv", 10)
    with pytest.raises(FailedPrecondition, match=r"1 files changed .* a\.csv"):
        orders.backfill(folder)
    done = orders.backfill(folder, changed="skip")
    assert (done.changed, done.rows, done.loaded_before) == (("a.csv",), 10, 0)
    assert ids(orders) == list(range(20))
    (folder / "a.csv").unlink()
    assert orders.backfill(folder).loaded_before == 1, "a file that was loaded may go"
    wrongs: list[dict[str, Any]] = [{"format": "xml"}, {"changed": "maybe"}, {"batch_bytes": 0}, {"source": " "}]
    for wrong in wrongs:
        with pytest.raises(InvalidInput):
            orders.backfill(folder, **wrong)
    for missing in (folder / "nowhere", folder / "x.csv"):
        with pytest.raises(NotFound):
            orders.backfill(missing)


def test_a_keyed_table_gets_the_last_row_of_each_key(lake: Lake, folder: Path) -> None:
    table = lake.create_table("shop.stock", [("sku", "string", False), ("count", "int")], primary_key=["sku"])
    table.put({"sku": "a", "count": 1})
    table.put({"sku": "z", "count": 26})
    (folder / "1.csv").write_text("sku,count\na,2\nb,2\na,3\n")
    (folder / "2.csv").write_text("sku,count\nb,3\nc,3\n")
    (folder / "3.csv").write_text("sku,count\nc,4\n")
    done = table.backfill(folder, batch_bytes=40)
    assert (done.batches, done.files) == (2, 3)
    assert {row["sku"]: row["count"] for row in table.scan().to_pylist()} == {"a": 3, "b": 3, "c": 4, "z": 26}
    table.put({"sku": "a", "count": 9})
    assert table.backfill(folder).rows == 0
    assert table.get("a") == {"sku": "a", "count": 9}, "what was loaded before does not come back"


def test_names_of_folders_are_columns(lake: Lake, folder: Path, spark: SparkSession) -> None:
    columns = [("id", "long"), ("day", "date"), ("hour", "int"), ("region", "string")]
    table = lake.create_table("shop.parts", columns)
    frame = spark.sql(
        "select id, date '2024-05-01' as day, cast(id % 2 as int) as hour, nullif('e u', 'e u') as region from range(4)"
    )
    for kind in ("parquet", "json", "csv"):
        writer = frame.write.format(kind).option("header", "true").partitionBy("day", "hour", "region")
        writer.save(str(folder / kind))
    done = table.backfill(folder)
    assert done.rows == 12
    found = {(row["id"], str(row["day"]), row["hour"], row["region"]) for row in table.scan().to_pylist()}
    assert found == {(n, "2024-05-01", n % 2, None) for n in range(4)}
    (folder / "hour=late").mkdir()
    (folder / "hour=late" / "x.csv").write_text("id\n1\n")
    with pytest.raises(InvalidInput, match=r"x\.csv: column hour: 'late'"):
        table.backfill(folder)


def test_of_two_loads_each_file_is_committed_once(
    orders: Table, folder: Path, ids: Ids, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one load has written its first batch and not committed it, another loads the folder in other batches."""
    for n in range(3):
        write_csv(folder, f"{n}.csv", 10 * n)
    real, calls = SparkRunner.map, 0

    def overtaken(self: SparkRunner, kernel: Any, tasks: Any) -> Any:
        nonlocal calls
        calls += 1
        written = real(self, kernel, tasks)
        if calls == 1:
            with moulin.connect(lake.uri) as other:
                size = (folder / "0.csv").stat().st_size
                assert other.table("shop.orders").backfill(folder, batch_bytes=2 * size + 10).rows == 30
        return written

    monkeypatch.setattr(SparkRunner, "map", overtaken)
    done = orders.backfill(folder, batch_bytes=1)
    assert (done.rows, done.batches) == (0, 0)
    assert ids(orders) == list(range(30))


def test_a_file_that_changes_while_it_is_read_commits_nothing(
    orders: Table, folder: Path, monkeypatch: pytest.MonkeyPatch, lake: Lake
) -> None:
    write_csv(folder, "a.csv", 0)
    listed = loading._files(*loading._open_source(str(folder), None), None)
    write_csv(folder, "a.csv", 7, 3)
    monkeypatch.setattr(loading, "_files", lambda *arguments: listed)
    version = lake.version
    with pytest.raises((Conflict, Corrupt)):
        orders.backfill(folder)
    assert lake.version == version


def test_loads_from_and_into_an_object_store_behind_a_server(
    spark: SparkSession, postgres_url: str, s3_url: str, s3_options: dict[str, str], folder: Path
) -> None:
    from moulin.meta.config import ServeConfig
    from moulin.meta.server.server import build_server
    from moulin.storage.store import open_store

    inbox = open_store(f"{s3_url}-inbox", s3_options)
    inbox.put("in/a.csv", b"id\n1\n2\n")
    with moulin.connect(postgres_url, storage=s3_url, storage_options=s3_options) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long")])
        place = f"{s3_url}-inbox/in"
        assert table.backfill(place, storage_options=s3_options).rows == 2
        inbox.put("in/b.csv", b"id\n3\n")
        server = build_server(lake, ServeConfig(bind="127.0.0.1:0", http_bind="", drain_seconds=5)).start()
        try:
            with moulin.connect(f"grpc://{server.address}", storage_options=s3_options) as behind:
                done = behind.table("shop.orders").backfill(place, storage_options=s3_options)
                assert (done.rows, done.loaded_before) == (1, 1)
        finally:
            server.stop(1)
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_recovered_mirror_knows_what_was_loaded(
    orders: Table, folder: Path, ids: Ids, lake: Lake, tmp_path: Path
) -> None:
    write_csv(folder, "a.csv", 0)
    orders.backfill(folder)
    root = tmp_path / "mirror"
    Mirror(lake, str(root)).run_once()
    with Command("--lake", str(root), "recover") as recovery:
        assert recovery.wait() == 0
    with moulin.connect(root) as recovered:
        write_csv(folder, "b.csv", 10)
        assert recovered.table("shop.orders").backfill(folder).rows == 10
        assert ids(recovered.table("shop.orders")) == list(range(20))


@pytest.mark.crash
@pytest.mark.parametrize("keyed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_killed_load_goes_on(tmp_path: Path, folder: Path, spark: SparkSession, keyed: bool) -> None:
    for n in range(40):
        write_csv(folder, f"{n:02}.csv", 10 * n)
    columns = [("id", "long", False), ("ts", "timestamptz"), ("region", "string"), ("amount", "double")]
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", columns, primary_key=["id"] if keyed else ())
        before = lake.version
        arguments = ["--lake", lake.uri, "backfill", "shop.orders", str(folder), "--batch-bytes", "1"]
        # Spark starts anew: not worth the better compiler.
        environment = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        with Command(*arguments, environment=environment) as process:
            process.wait_until(lambda: lake.version >= before + 3, 120)
            process.kill()
        part = table.scan().count()
        assert 0 < part < 400
        done = table.backfill(folder, batch_bytes=4000)
        assert done.loaded_before == part // 10
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(400))
