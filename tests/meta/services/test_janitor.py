"""JanitorService: figures and tasks as operators see them."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from moulin._proto.moulin.meta.v1 import janitor_pb2 as pb
from moulin.model.layout.size_tier import TIER_STARTS, size_tier
from moulin.table.compact import planner
from tests.contract.conftest import Backend
from tests.meta.conftest import Live, refused, serving
from tests.meta.merging import HOUR, START, Shop, open_shop

KEYED = [("id", "long", False), ("ts", "timestamptz")]


@pytest.fixture
def shop(live: Live) -> Shop:
    return open_shop(live)


def stats(shop: Shop) -> pb.GetJanitorStatsResponse:
    return shop.janitor.GetJanitorStats(pb.GetJanitorStatsRequest(table_id=str(shop.id)))


def tiers(shop: Shop, **filters: int) -> list[pb.SegmentSizeTier]:
    asked = pb.GetSegmentSizeStatsRequest(table_id=str(shop.id), **filters)
    return list(shop.janitor.GetSegmentSizeStats(asked).tiers)


def unclaim(shop: Shop, task_id: str, seconds: int = 0) -> bool:
    asked = pb.UnclaimMergeTaskRequest(task_id=task_id, min_claimed_secs=seconds)
    return bool(shop.janitor.UnclaimMergeTask(asked).unclaimed)


def delete(shop: Shop, task_id: str) -> bool:
    return bool(shop.janitor.DeleteMergeTask(pb.DeleteMergeTaskRequest(task_id=task_id)).deleted)


def rewrite(shop: Shop) -> tuple[int, int]:
    made = shop.janitor.RewriteAllSegments(pb.RewriteAllSegmentsRequest(table_id=str(shop.id)))
    return made.tasks_created, made.segments_included


def test_stats_count_what_is_live(shop: Shop) -> None:
    """JN-01, JN-02"""
    shop.fill(3)
    entry = shop.live.catalog.table_entry(shop.id)
    seen = stats(shop)
    assert (seen.segment_count, seen.total_compressed_size_bytes, seen.segments_incl_tombstoned) == (3, entry.bytes, 3)
    shop.create()
    shop.claim()
    assert stats(shop).outstanding_merge_tasks == 1, "claimed ones count"
    assert stats(shop).staged_segments > 0
    shop.table.compact(everything=True)
    shop.live.clock.forward(4000)
    shop.table.compact(everything=True)
    seen = stats(shop)
    assert (seen.segment_count, seen.outstanding_merge_tasks, seen.segments_incl_tombstoned) == (1, 0, 4)
    everything = shop.janitor.GetJanitorStats(pb.GetJanitorStatsRequest())
    assert everything.segment_count >= seen.segment_count
    with refused(grpc.StatusCode.NOT_FOUND):
        shop.janitor.GetJanitorStats(pb.GetJanitorStatsRequest(table_id=str(uuid.uuid4())))


def test_size_tiers_cover_all_and_overlap_nowhere(shop: Shop) -> None:
    """JN-03, JN-04, JN-05, JN-02"""
    assert tiers(shop) == []
    shop.fill(2)
    shop.fill(1, rows=9000)
    found = tiers(shop)
    assert [t.tier for t in found] == sorted({t.tier for t in found})
    assert sum(t.segment_count for t in found) == 3
    for t in found:
        assert t.smallest <= t.avg_size <= t.largest
        assert int(t.tier_min) <= t.smallest
        assert t.largest < int(t.tier_max)
        assert t.earliest_time.startswith("2023-11-14T")
        assert t.earliest_time <= t.latest_time
    small = min(t.smallest for t in found)
    assert sum(t.segment_count for t in tiers(shop, max_compressed_size=small)) >= 1, "the size itself is included"
    assert tiers(shop, max_compressed_size=small - 1) == []
    shop.live.clock.forward(100)
    shop.fill(1)
    assert sum(t.segment_count for t in tiers(shop, min_age_secs=50)) == 3, "at least this old"
    assert sum(t.segment_count for t in tiers(shop, max_age_secs=50)) == 1, "at most this old"
    assert sum(t.segment_count for t in tiers(shop, min_age_secs=50, max_age_secs=60)) == 0
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        tiers(shop, min_age_secs=-1)
    assert [size_tier(start) for start in TIER_STARTS] == list(range(len(TIER_STARTS)))
    assert size_tier(TIER_STARTS[1] - 1) == 0


def test_tasks_are_listed_with_their_figures(shop: Shop) -> None:
    """JN-06, JN-07, GEN-12"""
    shop.fill(3)
    shop.create()
    (task,) = shop.list()
    assert (task.assigned_to_worker, task.assigned_at, task.segment_count, task.state) == ("", "", 3, "waiting")
    assert task.created_at.startswith("2023-11-14T")
    seen = shop.get(task.task_id)
    state = shop.table.state()
    sizes = [s.facts.size for s in shop.live.catalog.segments(state.id, state.version)]
    assert (seen.smallest_segment_size, seen.largest_segment_size) == (min(sizes), max(sizes))
    assert (seen.total_size, seen.total_compressed_size) == (sum(sizes), sum(sizes))
    assert seen.segment_count == len(seen.segment_ids) == 3
    assert seen.earliest_time < seen.latest_time
    with refused(grpc.StatusCode.NOT_FOUND):
        shop.get(str(uuid.uuid4()))
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        shop.get("")


def test_unclaim_takes_a_task_that_was_claimed_long_enough(shop: Shop) -> None:
    """JN-08, JN-09, JN-10, MT-10"""
    shop.fill(2)
    shop.create()
    task_id = shop.list()[0].task_id
    assert not unclaim(shop, task_id, 1), "not claimed"
    task = shop.claim("first", lease_seconds=7200)
    late = shop.merge(task)
    shop.live.clock.forward(100)
    assert not unclaim(shop, task_id, 101)
    assert not unclaim(shop, task_id), "unset means an hour"
    assert unclaim(shop, task_id, 100)
    (seen,) = shop.list()
    assert (seen.assigned_to_worker, seen.assigned_at, seen.state) == ("", "", "waiting")
    assert "taken over" in shop.tasks.CompleteSegmentMergeTask(late).error.message
    second = shop.claim("second", lease_seconds=7200)
    shop.live.clock.forward(3600)
    assert unclaim(shop, task_id)
    assert shop.complete(shop.claim("third")).WhichOneof("result") == "success"
    assert second.attempt == 2
    assert not unclaim(shop, task_id, 1), "done"
    assert not unclaim(shop, str(uuid.uuid4()), 1)
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        unclaim(shop, task_id, -1)


def test_creating_tasks_applies_the_filters_and_takes_no_segment_twice(shop: Shop) -> None:
    """JN-11, JN-12, JN-13, JN-14, JN-04, JN-05"""
    shop.fill(1)
    assert shop.create().tasks_created == 0, "one segment is not worth a task"
    shop.fill(3)
    assert shop.create(max_compressed_size=1).tasks_created == 0
    assert shop.create(min_age_secs=10).tasks_created == 0
    shop.live.clock.forward(11)
    assert shop.create(max_age_secs=9).tasks_created == 0
    made = shop.create(min_age_secs=10)
    assert (made.tasks_created, made.segments_included) == (1, 4)
    assert shop.create().tasks_created == 0
    assert rewrite(shop) == (0, 0)
    with refused(grpc.StatusCode.NOT_FOUND):
        shop.janitor.CreateMergeTasks(pb.CreateMergeTasksRequest(table_id=str(uuid.uuid4())))


def test_a_task_stays_within_the_merge_span(shop: Shop) -> None:
    """JN-13, TB-36"""
    shop.fill(8, step=HOUR // 2)
    shop.table.append([{"id": 900, "ts": _at(START)}, {"id": 901, "ts": _at(START + 5 * HOUR)}])
    shop.table.set_properties({"moulin.max-merge-span-ns": str(HOUR)})
    made = shop.create()
    assert made.tasks_created >= 4
    for task in shop.list():
        seen = shop.get(task.task_id)
        assert seen.segment_count >= 2
        assert _seconds(seen.latest_time) - _seconds(seen.earliest_time) <= 3600
    for task in shop.list():
        assert delete(shop, task.task_id)
    shop.table.set_properties({"moulin.retention-ns": str(40 * HOUR)}, remove=["moulin.max-merge-span-ns"])
    shop.create()
    assert all(
        _seconds(shop.get(t.task_id).latest_time) - _seconds(shop.get(t.task_id).earliest_time) <= 3600
        for t in shop.list()
    ), "from the retention, when it is not set"


def test_tasks_are_planned_page_by_page(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """JN-11, JN-14. A page on which nothing fits together does not hide the pages after it."""
    monkeypatch.setattr(planner, "_AT_ONCE", 2)
    shop.table.set_properties({"moulin.max-merge-span-ns": str(HOUR)})
    shop.fill(2, step=5 * HOUR)
    shop.fill(4, start=START + 20 * HOUR)
    assert [shop.create().segments_included for _ in range(3)] == [2, 2, 0]
    assert len(shop.list()) == 2


def test_without_a_table_all_of_them_are_planned(backend: Backend) -> None:
    """JN-02, JN-11"""
    with serving(backend) as live:
        shops = [open_shop(live), open_shop(live), open_shop(live, primary_key=["id"], columns=KEYED)]
        for shop in shops:
            shop.fill(3)
        made = shops[0].janitor.CreateMergeTasks(pb.CreateMergeTasksRequest())
        assert (made.tasks_created, made.segments_included) == (3, 9)
        assert [len(shop.list()) for shop in shops] == [1, 1, 1]
        assert shops[0].janitor.CreateMergeTasks(pb.CreateMergeTasksRequest()).tasks_created == 0


def test_partitions_are_not_mixed(live: Live) -> None:
    """JN-13"""
    shop = open_shop(live, partition_by=["bucket(2, id)"])
    shop.fill(4, rows=20)
    assert shop.create().tasks_created == 2
    for task in shop.list():
        claimed = shop.claim()
        assert len({tuple(s.data_file.partition[0].value) for s in claimed.segments}) == 1
        assert shop.complete(claimed).WhichOneof("result") == "success"
        assert task.segment_count == 4
    assert len(shop.ids()) == 80


def test_many_creators_at_once_share_no_segment(shop: Shop) -> None:
    """JN-12"""
    shop.fill(6)

    def work(n: int) -> int:
        return rewrite(shop)[1] if n % 2 else shop.create().segments_included

    with ThreadPoolExecutor(6) as pool:
        made = sum(pool.map(work, range(6)))
    assert made == 6
    ids = [one for task in shop.list() for one in shop.get(task.task_id).segment_ids]
    assert len(ids) == len(set(ids)) == 6


def test_rewrite_makes_a_task_of_every_segment(shop: Shop) -> None:
    """JN-16"""
    shop.fill(3)
    assert rewrite(shop) == (3, 3)
    assert rewrite(shop) == (0, 0)
    rows = shop.ids()
    while (task := shop.poll()) is not None:
        assert len(task.segments) == 1
        assert shop.complete(task).WhichOneof("result") == "success"
    assert shop.ids() == rows
    state = shop.table.state()
    assert {s.facts.level for s in shop.live.catalog.segments(state.id, state.version)} == {1}


def test_a_deleted_task_frees_its_segments_and_stops_its_worker(shop: Shop) -> None:
    """JN-17, MT-11"""
    shop.fill(2)
    shop.create()
    request = shop.merge(shop.claim())
    assert delete(shop, request.task_id)
    assert not delete(shop, request.task_id)
    assert "does not exist" in shop.tasks.CompleteSegmentMergeTask(request).error.message
    assert len(shop.ids()) == 8
    assert shop.create().tasks_created == 1


def _at(nanos: int) -> object:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(nanos / 1e9, UTC)


def _seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()
