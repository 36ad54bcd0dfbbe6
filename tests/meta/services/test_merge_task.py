"""MergeTaskService. Names of rules are those of the list of what the meta service must do."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from moulin._proto.moulin.meta.v1 import common_pb2, janitor_pb2, merge_task_pb2
from moulin.catalog.sql import schema as s
from moulin.model.schema.arrow import STORED_POSITION
from moulin.table.compact.worker import CompactionWorker
from tests.meta.conftest import Live, refused
from tests.meta.merging import Shop, open_shop


@pytest.fixture
def shop(live: Live) -> Shop:
    return open_shop(live)


def beat(shop: Shop, task: common_pb2.SegmentMergeTaskInfo, seconds: int = 60) -> int:
    asked = merge_task_pb2.HeartbeatSegmentMergeTaskRequest(
        task_id=task.task_id, attempt=task.attempt, lease_seconds=seconds
    )
    return int(shop.tasks.HeartbeatSegmentMergeTask(asked).lease_until_unix_ns)


def fail(shop: Shop, task: common_pb2.SegmentMergeTaskInfo, message: str = "out of memory") -> None:
    asked = merge_task_pb2.FailSegmentMergeTaskRequest(
        task_id=task.task_id, attempt=task.attempt, error_message=message
    )
    shop.tasks.FailSegmentMergeTask(asked)


def test_a_worker_gets_a_task_with_all_it_needs(shop: Shop) -> None:
    """MT-01, MT-03, MT-04, TB-30"""
    assert shop.poll() is None
    shop.table.set_properties({"moulin.sharding-fields": '[["id", 2.0]]'})
    shop.fill(3)
    assert shop.create().tasks_created == 1
    task = shop.claim("worker 7")
    assert task.table_id == str(shop.id)
    assert task.cloud_object_prefix.prefix == f"tables/{shop.id}/data"
    assert [(f.field_name, f.weight) for f in task.sharding_fields] == [("id", 2.0)]
    assert [s.number_of_events for s in task.segments] == [4, 4, 4]
    assert all(s.audt_hash and s.version and s.time_range.end_time for s in task.segments)
    assert shop.poll() is None, "it is claimed"
    (listed,) = shop.list()
    assert (listed.assigned_to_worker, listed.attempt, listed.state) == ("worker 7", 1, "claimed")
    assert listed.assigned_at


def test_a_task_goes_to_one_of_many_pollers(shop: Shop) -> None:
    """MT-02"""
    shop.table.set_properties({"moulin.max-merge-span-ns": str(200 * 10**9)})
    shop.fill(12)
    made = shop.create().tasks_created
    assert made > 2
    with ThreadPoolExecutor(8) as pool:
        got = [task.task_id for task in pool.map(lambda n: shop.poll(f"w{n}"), range(16)) if task is not None]
    assert len(got) == len(set(got)) == made


def test_completion_swaps_inputs_for_outputs(shop: Shop) -> None:
    """MT-06, MT-07, MT-08, MT-13, MT-14, MT-15, INV-2"""
    shop.fill(3)
    before, rows = shop.table.version, shop.ids()
    shop.create()
    task = shop.claim()
    done = shop.complete(task)
    assert done.WhichOneof("result") == "success", done.error.message
    assert shop.ids() == rows
    state = shop.table.state()
    after = shop.live.catalog.segments(state.id, state.version)
    assert len(after) == 1
    assert after[0].added_version == done.success.version == state.head_version
    assert after[0].facts.level == task.level
    assert shop.list() == []
    assert len(shop.live.catalog.segments(state.id, before)) == 3, "an older version sees the inputs, and only them"
    assert (
        len(
            shop.live.catalog.compactions_of(
                state.id, [s.facts.number for s in shop.live.catalog.segments(state.id, before)], 0
            )
        )
        == 3
    )
    kinds = [commit.kind for commit in shop.table.history(limit=1)]
    assert kinds == ["merge"]


def test_outputs_may_be_many_or_none(shop: Shop) -> None:
    """MT-13 as the design has it"""
    shop.fill(4, rows=400)
    shop.create()
    request = shop.merge(shop.claim(), outputs=2)
    assert len(request.merged_segments) == 1
    done = shop.tasks.CompleteSegmentMergeTask(request)
    assert len(done.success.segment_ids) == 2, done.error.message
    assert len(shop.ids()) == 1600
    shop.fill(2)
    shop.janitor.RewriteAllSegments(janitor_pb2.RewriteAllSegmentsRequest(table_id=str(shop.id)))
    task = shop.claim()
    dead = {s.id for s in task.segments}
    shop.live.lake.table(shop.table.name).delete_where("id >= 0 and id < 10000")
    assert shop.ids() == []
    assert shop.complete(task).WhichOneof("result") == "success", "its rows were deleted while it ran"
    assert shop.ids() == []
    assert dead


def test_inputs_whose_times_nobody_knows_may_have_any(shop: Shop) -> None:
    """MT-13: an uploaded file may tell no times, and its rows have some."""
    shop.fill(3)
    rows, g = shop.ids(), s.segments
    with shop.live.catalog.pool.write() as write:
        write.connection.execute(g.update().where(g.c.table_id == shop.id).values(time_min=None, time_max=None))
    shop.create()
    done = shop.complete(shop.claim())
    assert done.WhichOneof("result") == "success", done.error.message
    assert shop.ids() == rows


def test_a_repeated_completion_does_nothing(shop: Shop) -> None:
    """MT-09, MT-11"""
    shop.fill(2)
    shop.create()
    request = shop.merge(shop.claim())
    first = shop.tasks.CompleteSegmentMergeTask(request)
    again = shop.tasks.CompleteSegmentMergeTask(request)
    assert first == again
    assert shop.table.version == first.success.version
    request.merged_segment.cloud_object_key.key = "00000000.parquet"
    request.merged_segment.ClearField("data_file")
    assert "is not in storage" in shop.tasks.CompleteSegmentMergeTask(request).error.message


def test_a_late_worker_is_fenced(shop: Shop) -> None:
    """MT-10, MT-18, JN-08, JN-10, INV-6"""
    shop.fill(2)
    shop.create()
    first = shop.claim("slow", lease_seconds=60)
    late = shop.merge(first)
    shop.live.clock.forward(61)
    second = shop.claim("quick")
    assert (second.task_id, second.attempt) == (first.task_id, 2)
    assert second.first_segment_number != first.first_segment_number
    assert "taken over" in shop.tasks.CompleteSegmentMergeTask(late).error.message
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "taken over"):
        beat(shop, first)
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "taken over"):
        fail(shop, first)
    assert shop.complete(second).WhichOneof("result") == "success"
    assert "already completed" in shop.tasks.CompleteSegmentMergeTask(late).error.message
    assert len(shop.ids()) == 8


def test_a_worker_that_does_not_know_of_attempts_may_complete_its_own(shop: Shop) -> None:
    """MT-10: attempt 0 stands for whichever claim there is"""
    shop.fill(2)
    shop.create()
    assert shop.complete(shop.claim(), attempt=0).WhichOneof("result") == "success"


def test_heartbeats_keep_a_claim(shop: Shop) -> None:
    """MT-18 as the design has it"""
    shop.fill(2)
    shop.create()
    task = shop.claim(lease_seconds=60)
    for _ in range(3):
        shop.live.clock.forward(40)
        assert beat(shop, task) == shop.live.clock() + 60 * 10**9
    assert shop.poll() is None
    assert shop.complete(task).WhichOneof("result") == "success"


def test_without_heartbeats_a_lease_lasts_an_hour(shop: Shop) -> None:
    """MT-18"""
    shop.fill(2)
    shop.create()
    shop.claim("gone")
    shop.live.clock.forward(3599)
    assert shop.poll() is None
    shop.live.clock.forward(2)
    assert shop.claim("next").attempt == 2
    assert "gone" in shop.list()[0].last_error


def test_failures_back_off_and_end_in_quarantine(shop: Shop) -> None:
    """MT-16, MT-17"""
    shop.fill(2)
    shop.create()
    waits = []
    for n in range(1, 6):
        task = shop.claim()
        assert task.attempt == n
        fail(shop, task, f"bad bytes {n}")
        fail(shop, task, "said twice")
        (seen,) = shop.list()
        assert (seen.failures, seen.last_error, seen.assigned_to_worker) == (n, f"bad bytes {n}", "")
        waits.append(seen.state)
        assert shop.poll() is None, "it waits"
        assert len(shop.ids()) == 8
        shop.live.clock.forward(30 * 2 ** (n - 1))
    assert waits == ["waiting"] * 4 + ["quarantined"]
    shop.live.clock.forward(10**6)
    assert shop.poll() is None
    assert shop.create().tasks_created == 0, "its inputs are still its own"
    deleted = shop.janitor.DeleteMergeTask(janitor_pb2.DeleteMergeTaskRequest(task_id=shop.list()[0].task_id)).deleted
    assert deleted
    assert shop.create().tasks_created == 1


def test_tasks_of_dropped_tables_and_of_gone_inputs_are_not_handed_out(shop: Shop) -> None:
    """MT-05, MT-12, TB-24"""
    shop.fill(3)
    shop.create()
    lake, full, table_id = shop.live.lake, shop.table.name, str(shop.id)
    lake.drop_table(full)
    asked = merge_task_pb2.PollForSegmentMergeTaskRequest(worker_id="w", table_id=table_id)
    assert not shop.tasks.PollForSegmentMergeTask(asked).HasField("task")
    lake.resurrect_table(full)
    shop.table = lake.table(full)
    shop.table.delete_where("id < 4")
    task = shop.claim()
    assert len(task.segments) == 2, "the segment that is gone is left out"
    shop.table.overwrite([])
    assert "conflicts with another commit" in shop.complete(task).error.message
    assert shop.ids() == []


def test_deletes_during_a_compaction_are_carried_over(shop: Shop) -> None:
    """MT-12 as the design has it; INV-2"""
    shop.fill(2)
    shop.create()
    request = shop.merge(shop.claim())
    shop.table.delete_where("id = 3 or id = 6")
    done = shop.tasks.CompleteSegmentMergeTask(request)
    assert done.WhichOneof("result") == "success", done.error.message
    assert shop.ids() == [0, 1, 2, 4, 5, 7]


def test_without_a_journal_a_delete_during_the_compaction_fails_it(shop: Shop) -> None:
    shop.fill(2)
    shop.create()
    request = shop.merge(shop.claim())
    del request.rewrite_journal_relative_paths[:]
    shop.table.delete_where("id = 3")
    assert shop.tasks.CompleteSegmentMergeTask(request).WhichOneof("result") == "error"
    assert shop.ids() == [0, 1, 2, 4, 5, 6, 7]


def test_an_output_without_stored_positions_is_refused(shop: Shop) -> None:
    """MT-13"""
    shop.fill(2)
    shop.create()
    answer = shop.tasks.CompleteSegmentMergeTask(shop.merge(shop.claim(), level=0))
    assert STORED_POSITION in answer.error.message
    assert {segment.facts.level for segment in shop.live.catalog.segments(shop.id, shop.table.version)} == {0}


BAD = {
    "another table": lambda r, s: setattr(r.merged_segment, "table_id", str(uuid.uuid4())),
    "no table": lambda r, s: setattr(r.merged_segment, "table_id", ""),
    "no hash": lambda r, s: (r.merged_segment.ClearField("audt_hash"), r.merged_segment.data_file.ClearField("sha256")),
    "fewer rows": lambda r, s: (
        setattr(r.merged_segment.data_file, "num_rows", 5),
        setattr(r.merged_segment, "number_of_events", 5),
    ),
    "way out": lambda r, s: setattr(r.merged_segment.cloud_object_key, "key", "../../x.parquet"),
    "another size": lambda r, s: (
        setattr(r.merged_segment.data_file, "file_size", 5),
        setattr(r.merged_segment, "compressed_size_bytes", 5),
    ),
    "no lineage": lambda r, s: setattr(r.merged_segment.data_file, "has_lineage", False),
    "a number of nobody": lambda r, s: _renumber(r),
    "no output": lambda r, s: r.ClearField("merged_segment"),
    "a journal elsewhere": lambda r, s: r.rewrite_journal_relative_paths.append("../x"),
    "a journal that is not there": lambda r, s: r.rewrite_journal_relative_paths.append(f"journals/{'0' * 32}.journal"),
    "twice": lambda r, s: r.merged_segments.append(r.merged_segment),
    "unknown task": lambda r, s: setattr(r, "task_id", str(uuid.uuid4())),
    "not a task": lambda r, s: setattr(r, "task_id", "x"),
    "negative attempt": lambda r, s: setattr(r, "attempt", -1),
}


def _renumber(request: merge_task_pb2.CompleteSegmentMergeTaskRequest) -> None:
    segment = request.merged_segment
    number = segment.data_file.number
    segment.data_file.number = number + 10_000
    for place in (segment.data_file, segment.cloud_object_key.prefix):
        field = "path" if place is segment.data_file else "prefix"
        setattr(place, field, getattr(place, field).replace(f"={number}", f"={number + 10_000}"))


def test_a_false_completion_is_answered_with_an_error_and_adds_nothing(shop: Shop) -> None:
    """MT-06, MT-11, MT-13, NU-36: an in-band error, nothing added"""
    shop.fill(2)
    shop.create()
    good = shop.merge(shop.claim())
    before = shop.table.version
    for what, spoil in BAD.items():
        request = merge_task_pb2.CompleteSegmentMergeTaskRequest()
        request.CopyFrom(good)
        spoil(request, shop)
        answer = shop.tasks.CompleteSegmentMergeTask(request)
        assert answer.WhichOneof("result") == "error", what
        assert len(answer.error.message) > 10, what
    assert shop.table.version == before
    assert shop.tasks.CompleteSegmentMergeTask(good).WhichOneof("result") == "success"


def test_bad_polls_are_refused(shop: Shop) -> None:
    """GEN-09"""
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "worker_id"):
        shop.poll(" ")
    for seconds in (-1, 10**9):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "lease_seconds"):
            shop.poll(lease_seconds=seconds)
    unknown = common_pb2.SegmentMergeTaskInfo(task_id=str(uuid.uuid4()), attempt=1)
    with refused(grpc.StatusCode.NOT_FOUND):
        beat(shop, unknown)
    with refused(grpc.StatusCode.NOT_FOUND):
        fail(shop, unknown)


def test_compaction_and_workers_do_the_tasks_of_the_service(shop: Shop) -> None:
    """A merge task is what `compact` and the merge worker run"""
    shop.fill(3)
    shop.create()
    assert shop.table.compact().segments_in == 3
    assert shop.list() == []
    shop.fill(2)
    shop.create()
    done = CompactionWorker(shop.live.lake.context, "in process").run_once(shop.id)
    assert done is not None
    assert len(done.group.segments) >= 2
    assert len(shop.ids()) == 20
