"""The change feed in Spark, and streams into tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from moulin import Lake, Table
from moulin.catalog.sql import schema as s
from moulin.catalog.upkeep.gc import collect
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.pipeline.source.datasource import MoulinSource
from moulin.pipeline.source.feed_source import FeedStreamReader
from moulin.pipeline.source.options import FeedOptions
from moulin.pipeline.source.stream_writer import StreamTableWriter, _Written
from tests.table.read.test_feed import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = Callable[..., list[dict[str, Any]]]
Ids = Callable[[Any], list[int]]
FEED = ["_change_type", "_row_id", "_version", "_commit_timestamp"]


def options(lake: Lake, **more: Any) -> dict[str, str]:
    return {"lake": lake.uri, "path": "shop.orders", **{name: str(value) for name, value in more.items()}}


@pytest.fixture
def changed(orders: Table, rows: Rows) -> Table:
    """Appended to, upserted, deleted from, merged and restored."""
    orders.append(rows(0, 50))
    upsert(orders, rows(10, 5, region="us") + rows(100, 2))
    orders.delete_where("id in (1, 11)")
    orders.compact(everything=True)
    upsert(orders, rows(20, 3, region="ap"))
    orders.restore(orders.history(5)[2].version)
    return orders


def as_set(found: pa.Table) -> set[str]:
    names = ["_change_type", "_row_id", "_version", "id", "region", "amount"]
    return {str(row) for row in found.select(names).to_pylist()}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"changes_since": "three"}, "number of a version"),
        ({"changes_since": "3", "changes_until": "x"}, "number of a version"),
        ({"changes_until": "3"}, "needs changes_since"),
        ({"max_versions_per_batch": "3"}, "needs changes_since"),
        ({"changes_since": "3", "max_versions_per_batch": "0"}, "above zero"),
        ({"changes_since": "3", "changes_net": "maybe"}, "true or false"),
        ({"changes_since": "3", "version": "4"}, "not with version"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        FeedOptions.of(given)


@pytest.mark.spark
def test_a_batch_reads_what_the_table_says(changed: Table, lake: Lake, spark: SparkSession) -> None:
    base = changed.history()[-1].version

    def load(**more: Any) -> DataFrame:
        return spark.read.format("moulin").options(**options(lake, **more)).load()

    frame = load(changes_since=base)
    assert frame.columns == [*FEED, "id", "ts", "region", "amount"]
    feed = changed.changes(base).to_arrow()
    assert {"update_before", "update_after", "delete", "insert"} == set(feed["_change_type"].to_pylist())
    found = frame.toArrow()
    assert found.num_rows == feed.num_rows
    assert as_set(found) == as_set(feed)
    assert set(found["_commit_timestamp"].to_pylist()) == set(feed["_commit_timestamp"].to_pylist())
    middle = base + 2
    assert as_set(load(changes_since=base, changes_until=middle).toArrow()) == as_set(
        changed.changes(base, middle).to_arrow()
    )
    assert as_set(load(changes_since=base, changes_net="true").toArrow()) == as_set(
        changed.changes(base, net=True).to_arrow()
    )
    assert load(changes_since=changed.version).count() == 0
    narrow = spark.read.format("moulin").options(**options(lake, changes_since=base)).schema("id long, _version long")
    assert narrow.load().where("_version > 0").count() == feed.num_rows


@pytest.mark.spark
@pytest.mark.parametrize("where", ["id < 12", "region = 'us'", "id = 1000", "region is null or amount > 40"])
def test_changes_that_a_condition_leaves_out_are_not_read(
    changed: Table, rows: Rows, lake: Lake, spark: SparkSession, where: str
) -> None:
    base = changed.history()[-1].version
    changed.append(rows(200, 30))
    frame = spark.read.format("moulin").options(**options(lake, changes_since=base, where=where)).load()
    assert as_set(frame.toArrow()) == as_set(changed.changes(base, where=where).to_arrow())
    reader = MoulinSource(options(lake, changes_since=changed.version - 1, where=where)).reader(frame.schema)
    read = [part for partition in reader.partitions() for part in partition.parts]  # type: ignore[attr-defined]
    assert len(read) == (where == "region is null or amount > 40"), "the last append has the ids from 200 on"


@pytest.mark.spark
def test_a_stream_leaves_out_changes(
    orders: Table, rows: Rows, lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    base = orders.version
    given = options(lake, changes_since=base, where="id between 3 and 21")
    frame = spark.readStream.format("moulin").options(**given).load()
    orders.append(rows(0, 5))
    orders.append(rows(20, 5))
    orders.append(rows(40, 5))
    found = [row for _, batch in run_stream(frame, tmp_path / "checkpoint") for row in batch]
    assert sorted(row.id for row in found) == [3, 4, 20, 21]


@pytest.mark.spark
def test_wrong_ranges_stop_a_batch(changed: Table, lake: Lake) -> None:
    columns = MoulinSource(options(lake, changes_since=changed.version)).schema()
    for more, message in [
        ({"changes_since": changed.version + 5}, "does not exist yet"),
        ({"changes_since": "now"}, "is only for readStream"),
        ({"changes_since": changed.version, "max_versions_per_batch": 2}, "is only for readStream"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            MoulinSource(options(lake, **more)).reader(columns)
    with pytest.raises(InvalidInput, match="are only for reading"):
        MoulinSource(options(lake, changes_since=1)).writer(columns, False)


@pytest.mark.spark
@pytest.mark.parametrize("size", [1, 32 << 20])
def test_parts_of_any_size_give_every_row_once(
    changed: Table, lake: Lake, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Also when the segments of one version, whose rows must be matched, go to different tasks."""
    monkeypatch.setattr("moulin.pipeline.read.feed.PARTITION_BYTES", size)
    base = changed.history()[-1].version
    source = MoulinSource(options(lake, changes_since=base))
    reader = source.reader(source.schema())
    parts = reader.partitions()
    assert (len(parts) > 6) if size == 1 else (len(parts) == 1)
    found = pa.Table.from_batches([batch for part in parts for batch in reader.read(part)])
    feed = changed.changes(base).to_arrow()
    assert found.num_rows == feed.num_rows
    assert as_set(found) == as_set(feed)


def stream_reader(lake: Lake, **more: Any) -> FeedStreamReader:
    source = MoulinSource(options(lake, **more))
    reader = source.streamReader(source.schema())
    assert isinstance(reader, FeedStreamReader)
    return reader


@pytest.mark.spark
def test_offsets_are_versions_of_the_table(orders: Table, rows: Rows, lake: Lake) -> None:
    base = orders.version
    reader = stream_reader(lake, changes_since=base, max_versions_per_batch=2)
    start = reader.initialOffset()
    assert start["version"] == base
    assert stream_reader(lake, changes_since="now").initialOffset()["version"] == lake.version
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxFiles(2)
    assert stream_reader(lake, changes_since=base).getDefaultReadLimit() == ReadAllAvailable()
    assert reader.latestOffset(start, limit) == start
    for place in range(3):
        orders.append(rows(place, 1))
        lake.create_database(f"other{place}")
    assert reader.latestOffset(start, limit)["version"] == base + 3, "two versions of the table, not of the lake"
    assert reader.latestOffset(start, ReadAllAvailable())["version"] == orders.version
    end = {**start, "version": orders.version}
    assert reader.latestOffset(end, limit) == end, "what other tables do makes no batch"
    assert reader.partitions(end, end) == []
    reader.prepareForTriggerAvailableNow()
    orders.append(rows(9, 1))
    assert reader.latestOffset(end, limit) == end, "what comes after the trigger waits for the next one"


@pytest.mark.spark
def test_a_stream_is_refused_where_it_would_miss_something(orders: Table, rows: Rows, lake: Lake) -> None:
    columns = MoulinSource(options(lake, changes_since=orders.version)).schema()
    with pytest.raises(InvalidInput, match="readStream reads changes"):
        MoulinSource(options(lake)).streamReader(columns)
    with pytest.raises(InvalidInput, match="only for read"):
        MoulinSource(options(lake, changes_since=1, changes_until=2)).streamReader(columns)
    reader = stream_reader(lake, changes_since=orders.version)
    start = reader.initialOffset()
    orders.append(rows(0, 3))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert len(reader.partitions(start, end)) == 1
    orders.append(rows(5, 1))
    collect(lake.catalog, history_keep=0)
    assert orders.state().oldest_version == start["version"], "what is being read is pinned"
    reader.stop()
    collect(lake.catalog, history_keep=0)
    assert orders.state().oldest_version > start["version"]
    for call in (lambda: reader.latestOffset(start, ReadAllAvailable()), lambda: reader.partitions(start, end)):
        with pytest.raises(FailedPrecondition, match="oldest possible since"):
            call()
    start = {**start, "version": orders.version}
    orders.rename_column("amount", "price")
    with pytest.raises(InvalidInput, match="no column 'amount'"):
        reader.partitions(start, {**start, "version": orders.version})
    lake.drop_table("shop.orders")
    lake.create_table("shop.orders", [("id", "long")])
    with pytest.raises(FailedPrecondition, match="new checkpoint"):
        reader.latestOffset(start, ReadAllAvailable())


def run_stream(frame: DataFrame, checkpoint: Path, **more: Any) -> list[tuple[int, list[Any]]]:
    """Run until all is read; the rows of each batch."""
    seen: list[tuple[int, list[Any]]] = []

    def keep(batch: DataFrame, number: int) -> None:
        seen.append((number, batch.collect()))

    query = (
        frame.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .options(**more)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen


@pytest.mark.spark
def test_a_stream_goes_on_where_it_stopped(
    orders: Table, rows: Rows, lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    base = orders.version
    orders.append(rows(0, 5))
    upsert(orders, rows(1, 2, region="us"))
    orders.delete_where("id = 0")
    given = options(lake, changes_since=base, max_versions_per_batch=2)
    del given["path"]
    frame = spark.readStream.format("moulin").options(**given).load("shop.orders")
    batches = run_stream(frame, tmp_path / "checkpoint")
    assert [(number, len(found)) for number, found in batches] == [(0, 9), (1, 1)]
    everything = [row for _, found in batches for row in found]
    assert {(r._change_type, r._row_id, r._version, r.region) for r in everything} == {
        (r["_change_type"], r["_row_id"], r["_version"], r["region"]) for r in orders.changes(base).to_pylist()
    }
    middle = orders.version
    orders.append(rows(50, 3))
    (again,) = run_stream(frame, tmp_path / "checkpoint")
    assert again[0] == 2
    assert {(r._change_type, r.id, r._version) for r in again[1]} == {("insert", n, middle + 1) for n in (50, 51, 52)}
    orders.append(rows(60, 1))
    orders.append(rows(61, 1))
    with lake.catalog.pool.unordered() as connection:  # Spark kills the process that pinned; its pins would run out
        connection.execute(s.pins.delete())
    collect(lake.catalog, history_keep=0)
    with pytest.raises(Exception, match="oldest possible since"):
        run_stream(frame, tmp_path / "checkpoint")


def start_sink(frame: DataFrame, lake: Lake, checkpoint: Path, **more: str) -> None:
    writer = frame.writeStream.format("moulin").option("lake", lake.uri).option("checkpointLocation", str(checkpoint))
    writer.options(**more).trigger(availableNow=True).start("shop.orders").awaitTermination()


@pytest.mark.long
@pytest.mark.spark
def test_every_batch_is_appended_once(
    orders: Table, rows: Rows, ids: Ids, lake: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark forgets that a batch was done when it dies between the sink's commit and its own."""
    source = lake.create_table("shop.source", [("id", "long"), ("amount", "double")])
    base = source.version
    source.append([{"id": n, "amount": 1.0} for n in range(4)])
    source.append([{"id": n, "amount": 1.0} for n in range(4, 8)])
    feed = spark.readStream.format("moulin").option("lake", lake.uri).option("changes_since", str(base))
    frame = feed.option("max_versions_per_batch", "1").load("shop.source").select("id", "amount")
    checkpoint = tmp_path / "checkpoint"
    start_sink(frame, lake, checkpoint)
    assert ids(orders) == list(range(8))
    (second, first) = orders.history(2)
    assert (first.kind, first.summary["batch-id"], second.summary["batch-id"]) == ("append", "0", "1")
    for note in [*(checkpoint / "commits").glob("1"), *(checkpoint / "commits").glob(".1.*")]:
        note.unlink()
    version = lake.version
    start_sink(frame, lake, checkpoint)
    assert lake.version == version
    assert ids(orders) == list(range(8))
    source.append([{"id": 8, "amount": 1.0}])
    start_sink(frame, lake, checkpoint)
    assert ids(orders) == list(range(9))
    assert orders.history(1)[0].summary["query-id"] == first.summary["query-id"]
    start_sink(frame, lake, tmp_path / "other", query_id=first.summary["query-id"])
    assert ids(orders) == list(range(9)), "the same query under another checkpoint"


@pytest.mark.spark
def test_a_sink_refuses_what_it_cannot_do_once(orders: Table, lake: Lake, spark: SparkSession) -> None:
    columns = spark.range(1).schema

    def writer(overwrite: bool = False, **more: str) -> StreamTableWriter:
        made = MoulinSource(options(lake, **more)).streamWriter(columns, overwrite)
        assert isinstance(made, StreamTableWriter)
        return made

    with pytest.raises(InvalidInput, match="can only append"):
        writer(overwrite=True)
    with pytest.raises(InvalidInput, match="must not be empty"):
        writer(query_id="")
    with pytest.raises(InvalidInput, match="for writeStream"):
        MoulinSource(options(lake, query_id="q")).writer(columns, False)
    made = writer()
    version = lake.version
    made.commit([None, _Written(0, (), None)], 0)
    made.abort([None], 0)
    assert lake.version == version, "a batch without rows is no version"
    facts = made._write.write(0, [pa.record_batch({"id": [1]})])
    with pytest.raises(FailedPrecondition, match="query_id"):
        made.commit([_Written(0, facts, None)], 0)
    made.commit([_Written(0, facts, "q")], 0)
    again = made._write.write(1, [pa.record_batch({"id": [1]})])
    made.commit([_Written(1, again, "q")], 0)
    assert orders.scan().count() == 1
    with pytest.raises(InvalidInput, match="no primary key"):
        writer(mode="upsert")
