"""The janitor loop: retention never early, purge at its time, bytes past the floor, failures seen and tried again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from uuid import UUID

import pytest

from moulin.config import Config
from moulin.errors import Unavailable
from moulin.meta.server import janitor_loop
from moulin.meta.server.janitor_loop import Janitor
from moulin.model.facts import LiveSegment
from moulin.table.compact import planner
from moulin.table.compact.planner import Planned
from moulin.table.context import Context
from tests.contract.conftest import Backend
from tests.meta.conftest import Live, serving
from tests.meta.merging import HOUR, START, Shop, open_shop

FLOOR = 12 * 60
DAY = 24 * HOUR


@pytest.fixture
def live(backend: Backend) -> Iterator[Live]:
    with serving(backend, config=Config(history_keep=0, gc_interval=1, orphan_interval=0, merge_min_inputs=3)) as made:
        yield made


@pytest.fixture
def shop(live: Live) -> Shop:
    return open_shop(live)


def test_retention_takes_whole_segments_and_never_early(shop: Shop) -> None:
    """TB-32, TB-34, TB-35"""
    janitor = Janitor(shop.live.lake)
    shop.fill(3, step=HOUR)
    last = START + 3 * 10**9  # the end of the first segment
    assert janitor.run_once().expired == {}, "kept for ever"  # type: ignore[union-attr]
    shop.table.set_properties({"moulin.retention-ns": str(DAY)})
    shop.live.clock.now = last + DAY
    assert janitor.run_once().expired == {}  # type: ignore[union-attr]
    assert len(shop.ids()) == 12
    shop.live.clock.now += 1
    assert janitor.run_once().expired == {shop.table.name: 1}  # type: ignore[union-attr]
    assert shop.ids() == list(range(4, 12))
    assert shop.table.history(limit=1)[0].kind == "trim"
    shop.table.set_properties({"moulin.retention-ns": str(HOUR)})
    janitor.run_once()
    assert shop.ids() == [], "a change counts for what is there already"


def test_retention_leaves_what_is_being_compacted(shop: Shop) -> None:
    """MT-12 as the design has it"""
    janitor = Janitor(shop.live.lake)
    shop.fill(2)
    shop.create()
    task = shop.claim(lease_seconds=3600)
    shop.table.set_properties({"moulin.retention-ns": "1"})
    assert janitor.run_once().expired == {}  # type: ignore[union-attr]
    assert shop.complete(task).WhichOneof("result") == "success"
    assert janitor.run_once().expired == {shop.table.name: 1}  # type: ignore[union-attr]
    assert shop.ids() == []


def test_compactions_are_planned_by_tier(shop: Shop) -> None:
    """JN-14; planned by size"""
    janitor = Janitor(shop.live.lake)
    shop.fill(2)
    shop.fill(1, rows=20_000)
    assert janitor.run_once().tasks == 0, "two small ones and a large one"  # type: ignore[union-attr]
    shop.fill(1)
    assert janitor.run_once().tasks == 1  # type: ignore[union-attr]
    assert [task.segment_count for task in shop.list()] == [3]
    assert janitor.run_once().tasks == 0  # type: ignore[union-attr]


def test_a_table_that_cannot_be_planned_stops_no_other(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = shop.live.lake.create_table(f"{shop.table.name.partition(chr(46))[0]}.broken", [("id", "long")])
    for number in range(3):
        broken.append([{"id": number}])
    shop.fill(3)
    create = janitor_loop.create_due_tasks

    def failing(context: Context, table_id: UUID, segments: Collection[LiveSegment] | None = None) -> Planned:
        if table_id == broken.id:
            raise RuntimeError("no plan")
        return create(context, table_id, segments)

    monkeypatch.setattr(janitor_loop, "create_due_tasks", failing)
    report = Janitor(shop.live.lake).run_once()
    assert report is not None
    assert (report.tasks, len(report.failures), report.collection is not None) == (1, 1, True)
    assert str(broken.id) in report.failures[0]


def test_a_large_table_is_planned_page_by_page(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "_AT_ONCE", 3)
    shop.fill(7)
    assert Janitor(shop.live.lake).run_once().tasks == 2  # type: ignore[union-attr]
    assert [task.segment_count for task in shop.list()] == [3, 3]


def test_a_dropped_table_goes_at_its_time_with_its_tasks(shop: Shop) -> None:
    """GEN-18, TB-26, INV-5"""
    janitor = Janitor(shop.live.lake)
    table_id, store = shop.id, shop.live.lake.store
    shop.fill(2)
    shop.create()
    shop.live.lake.drop_table(shop.table.name)
    shop.live.clock.forward(24 * 3600 - 2)
    assert janitor.run_once().collection.purged == []  # type: ignore[union-attr]
    assert shop.live.catalog.maintenance.merge_tasks(table_id)
    shop.live.clock.forward(3)
    assert janitor.run_once().collection.purged == ["table t"]  # type: ignore[union-attr]
    assert shop.live.catalog.maintenance.merge_tasks(table_id) == []
    assert list(store.list(f"tables/{table_id}"))
    shop.live.clock.forward(FLOOR + 1)
    janitor.run_once()
    assert not list(store.list(f"tables/{table_id}"))


def test_a_failed_deletion_of_bytes_is_reported_and_tried_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-4, INV-6: retried for ever, and visible"""
    from moulin._proto.moulin.meta.v1 import janitor_pb2

    janitor, store = Janitor(shop.live.lake), shop.live.lake.store
    shop.fill(3)
    shop.table.compact(everything=True)
    shop.live.clock.forward(2)
    janitor.run_once()
    shop.live.clock.forward(FLOOR + 1)

    def refuse(paths: Iterable[str]) -> None:
        if list(paths):
            raise Unavailable("The store says no.")

    with monkeypatch.context() as patched:
        patched.setattr(type(store), "delete", lambda self, paths: refuse(paths))
        for _ in range(2):
            shop.live.clock.forward(2)
            assert "The store says no." in str(janitor.run_once().failures)  # type: ignore[union-attr]
    seen = shop.janitor.GetJanitorStats(janitor_pb2.GetJanitorStatsRequest())
    assert seen.objects_failing >= 3
    assert seen.deletion_error == "The store says no."
    shop.live.clock.forward(2)
    assert janitor.run_once().failures == []  # type: ignore[union-attr]
    assert shop.janitor.GetJanitorStats(janitor_pb2.GetJanitorStatsRequest()).objects_failing == 0
    assert len(shop.ids()) == 12


def test_uploads_that_were_never_registered_are_swept(shop: Shop) -> None:
    """INV-5: staged segments"""
    janitor, store = Janitor(shop.live.lake), shop.live.lake.store
    shop.fill(2)
    shop.create()
    lost = shop.merge(shop.claim("dies", lease_seconds=60))
    path = f"{lost.merged_segment.cloud_object_key.prefix.prefix}/{lost.merged_segment.cloud_object_key.key}"
    shop.live.clock.forward(FLOOR + 61)
    janitor.run_once()
    assert store.exists(path), "the claim still holds: nobody else has the task"
    task = shop.claim("lives")
    kept = shop.merge(task)
    assert shop.tasks.CompleteSegmentMergeTask(kept).WhichOneof("result") == "success"
    shop.live.clock.forward(2)
    janitor.run_once()
    assert not store.exists(path)
    shop.live.clock.forward(3600 + FLOOR + 1)
    janitor.run_once()
    assert shop.live.catalog.maintenance.staged_segments(shop.id) == []
    assert len(shop.ids()) == 8, "what was registered stays"


def test_one_of_several_servers_is_the_janitor(live: Live) -> None:
    """One lease row"""
    first, second = Janitor(live.lake), Janitor(live.lake)
    assert first.run_once() is not None
    assert second.run_once() is None
    live.clock.forward(301)
    assert second.run_once() is not None, "the first was not heard of"
    assert first.run_once() is None
    second.stop()
    assert first.run_once() is not None


def test_a_janitor_runs_by_itself_and_stops(backend: Backend) -> None:
    with serving(backend, config=Config(janitor_interval=0.01, gc_interval=3600)) as live:
        janitor = Janitor(live.lake)
        janitor.start()
        for _ in range(500):
            if janitor.last is not None:
                break
            janitor._over.wait(0.01)
        janitor.stop()
        assert janitor.last is not None
        assert janitor.last.failures == []
