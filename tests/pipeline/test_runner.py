"""Planned tasks on Spark: deletes and compactions, what fails in them, and what commits while they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import moulin
from moulin import Lake, Table
from moulin.errors import Corrupt, Unavailable
from moulin.formats.journal import Journal
from moulin.pipeline.runner import SparkRunner
from moulin.table.compact.kernel import CompactionSlice
from moulin.table.runner import R, S, Stopped, never
from moulin.table.write.match import MatchSlice, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Ids = Callable[[Any], list[int]]
Rows = Callable[..., list[dict[str, Any]]]


class Watched:
    """A SparkRunner that notes the tasks it ran, and does something between the first of a kind and their commit."""

    def __init__(self, spark: SparkSession) -> None:
        self.slices: list[object] = []
        self.meanwhile: dict[type, Callable[[], object]] = {}
        self._runner = SparkRunner(spark)

    def map(self, kernel: Callable[[S], R], slices: Sequence[S], *, stopped: Callable[[], bool] = never) -> Iterable[R]:
        self.slices += slices
        results = self._runner.map(kernel, slices, stopped=stopped)
        action = self.meanwhile.pop(type(slices[0]), None)
        if action is not None:
            action()
        return results


@pytest.fixture
def watched(lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Watched:
    runner = Watched(spark)
    monkeypatch.setattr(lake.context.spark(), "runner", lambda: runner)
    return runner


def lineage(table: Table) -> dict[int, tuple[int, int]]:
    scan = table.scan(columns=["id", "_row_id", "_last_updated_version"]).to_pylist()
    return {row["id"]: (row["_row_id"], row["_last_updated_version"]) for row in scan}


def test_deletes_and_compactions_run_on_spark_once_it_has_started(
    lake: Lake, orders: Table, rows: Rows, ids: Ids, watched: Watched
) -> None:
    for n in range(4):
        orders.append(rows(n * 100, 100))
    before = lineage(orders)
    orders.delete_where("id in (5, 105, 399)")
    assert watched.slices
    assert all(isinstance(work, MatchSlice) for work in watched.slices)
    watched.slices.clear()
    inputs = [s.facts.number for s in lake.catalog.segments(orders.id, lake.version)]
    version = lake.version
    done = orders.compact(everything=True)
    assert all(isinstance(work, CompactionSlice) for work in watched.slices)
    assert watched.slices
    assert (done.merges, done.segments_in, done.segments_out, done.rows) == (1, 4, 1, 397)
    assert ids(orders) == ids(orders.to_spark()) == sorted(set(range(400)) - {5, 105, 399})
    assert lineage(orders) == {key: value for key, value in before.items() if key not in (5, 105, 399)}
    (merge,) = lake.catalog.compactions_of(orders.id, inputs[:1], version)
    journals = [Journal.decode(lake.store.get(path)) for path in merge.journals]
    assert {segment for journal in journals for segment in journal.segments()} == set(inputs)


def test_small_work_stays_in_process(lake: Lake, orders: Table, rows: Rows, watched: Watched) -> None:
    orders.append(rows(0, 10))
    lake.context.catalog.config = lake.config.replace(merge_local_bytes=1 << 30)
    orders.delete_where("id = 5")
    orders.append(rows(10, 10))
    orders.compact(everything=True)
    assert watched.slices == []


def test_large_work_starts_spark_only_where_it_may(tmp_path: Path, spark: SparkSession) -> None:
    with moulin.connect(tmp_path / "lake", spark=spark, merge_local_bytes=1) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long")])
        for number in range(4):
            table.append([{"id": number}])
            lake.context.starts_spark = number == 3
            table.compact(everything=True)
            assert (lake.context.spark().runner() is not None) == (number == 3)
        assert table.scan().to_arrow()["id"].to_pylist() == [0, 1, 2, 3]


def test_a_delete_that_commits_while_a_compaction_runs_is_carried_over(
    orders: Table, rows: Rows, ids: Ids, watched: Watched
) -> None:
    orders.append(rows(0, 50))
    orders.append(rows(50, 50))
    orders.delete_where("id = 1")
    before = lineage(orders)
    watched.meanwhile[CompactionSlice] = lambda: orders.delete_where("id in (2, 60)")
    orders.compact(everything=True)
    left = sorted(set(range(100)) - {1, 2, 60})
    assert ids(orders) == ids(orders.to_spark()) == left
    assert lineage(orders) == {key: before[key] for key in left}
    stats = orders.stats()
    assert (stats.segments, stats.deleted_rows) == (1, 2)


def test_a_compaction_that_commits_while_a_delete_runs_is_followed(
    orders: Table, rows: Rows, ids: Ids, watched: Watched
) -> None:
    orders.append(rows(0, 50))
    orders.append(rows(50, 50))
    before = lineage(orders)
    watched.meanwhile[MatchSlice] = lambda: orders.compact(everything=True)
    assert orders.delete_where("id in (2, 60)").rows_deleted == 2
    left = sorted(set(range(100)) - {2, 60})
    assert ids(orders) == ids(orders.to_spark()) == left
    assert lineage(orders) == {key: before[key] for key in left}
    assert orders.stats().segments == 1


def test_an_error_of_a_task_keeps_its_kind(lake: Lake, orders: Table, rows: Rows, tmp_path: Path) -> None:
    orders.append(rows(0, 50))
    version = orders.version
    (segment,) = (tmp_path / "lake").rglob("*.parquet")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-10])
    with pytest.raises(Corrupt, match=segment.name):
        orders.delete_where("id = 1")
    with pytest.raises(Corrupt, match=segment.name):
        orders.compact(everything=True)
    assert orders.version == version
    segment.write_bytes(whole)
    assert orders.delete_where("id = 1").rows_deleted == 1


def test_a_task_that_breaks_is_unavailable_and_says_why(spark: SparkSession) -> None:
    with pytest.raises(Unavailable, match="has no attribute 'segments'"):
        SparkRunner(spark).map(match, ["not a slice"])  # type: ignore[list-item]
    assert SparkRunner(spark).map(match, []) == []


def test_an_index_is_made_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    """The same tasks, as one Spark job; and a compaction on Spark carries the index along."""
    with moulin.connect(tmp_path / "lake", spark=spark, merge_local_bytes=1) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long"), ("name", "string")])
        for part in range(3):
            table.append([{"id": n, "name": f"n{n}"} for n in range(part, 60, 3)])
        assert lake.spark() is not None
        table.create_index("name")
        table.create_index("id", "bloom")
        assert table.scan(where="name = 'n7'").plan().index_skipped == 2
        table.compact(everything=True)
        assert all(index.covered == index.segments for index in table.indexes())
        assert table.scan(where="name = 'n7'").to_arrow()["id"].to_pylist() == [7]
        assert table.scan(where="id = 1000").plan().segments == ()


def sleep_long(marker: Path) -> None:
    marker.touch()
    time.sleep(600)


def test_a_job_that_is_stopped_is_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    marker = tmp_path / "begun"
    with pytest.raises(Stopped):
        SparkRunner(spark).map(sleep_long, [marker], stopped=marker.exists)
    assert SparkRunner(spark).map(str, [1, 2], stopped=never) == ["1", "2"], "the session goes on"
