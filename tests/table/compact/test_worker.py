"""Compaction workers that stop, lose their lease or are killed: their tasks go on elsewhere, soon and once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.segments.stats import Filter
from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.errors import Fenced, Unavailable
from moulin.lake import Lake
from moulin.model.merge_task import MergeTask, TaskState
from moulin.model.operations import Claim
from moulin.table.compact.compaction import compact
from moulin.table.compact.planner import create_tasks
from moulin.table.compact.worker import CompactionWorker
from moulin.table.runner import LocalRunner, Stopped, never
from moulin.table.table import Table

# A process that runs `moulin ...` with slices that never end.
STUCK = """
import sys, time
import moulin.table.compact.job as job
job.compact_slice = lambda work: time.sleep(600)
from moulin.cli.main import main
main()
"""


class Waits:
    """A runner whose slices wait until the work is stopped, or do what `then` does."""

    def __init__(self, then: Callable[[], None] | None = None) -> None:
        self.begun = threading.Event()
        self._then = then

    def map(self, kernel: Any, slices: Sequence[Any], *, stopped: Callable[[], bool] = never) -> Iterable[Any]:
        self.begun.set()
        if self._then is not None:
            self._then()
        while not stopped():
            time.sleep(0.01)
        raise Stopped


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake", merge_background="off") as lake:
        lake.create_database("shop")
        yield lake


@pytest.fixture
def table(lake: Lake) -> Table:
    made = lake.create_table("shop.t", [("id", "long")])
    for n in range(4):
        made.append([{"id": n}])
    assert create_tasks(lake.context, made.id, Filter()).tasks == 1
    return made


def only(lake: Lake) -> MergeTask:
    [task] = lake.catalog.maintenance.merge_tasks()
    return task


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_worker_that_is_stopped_gives_its_task_back_while_its_slices_still_run(lake: Lake, table: Table) -> None:
    seen: list[TaskState] = []
    worker = CompactionWorker(lake.context, "mine")

    def stop() -> None:
        stopping = threading.Thread(target=worker.stop)
        stopping.start()
        stopping.join()
        seen.append(only(lake).state)

    runner = Waits(stop)
    worker._runner = runner
    before = lake.version
    assert worker.run_once() is None
    assert seen == [TaskState.WAITING], "it was free before the slices ended"
    assert (only(lake).failures, lake.version) == (0, before)
    assert worker.run_once() is None, "a stopped worker begins nothing"
    assert next(CompactionWorker(lake.context, "other").run_all()).claim.attempt == 2


def test_an_interrupted_worker_gives_its_task_back_without_a_failure(lake: Lake, table: Table) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CompactionWorker(lake.context, "mine", runner=Waits(interrupt)).run_once()
    assert (only(lake).state, only(lake).failures) == (TaskState.WAITING, 0)


def test_a_failure_is_noted_with_the_task(lake: Lake, table: Table) -> None:
    def fail() -> None:
        raise Unavailable("no disk")

    with pytest.raises(Unavailable):
        CompactionWorker(lake.context, "mine", runner=Waits(fail)).run_once()
    assert (only(lake).state, only(lake).failures, only(lake).last_error) == (TaskState.WAITING, 1, "no disk")


def test_a_worker_that_lost_its_lease_stops_before_it_commits(lake: Lake, table: Table) -> None:
    def take_away() -> None:
        assert lake.catalog.maintenance.release_merge_task(Claim(only(lake).id, 0))

    before = lake.version
    worker = CompactionWorker(lake.context, "mine", seconds=0.3, runner=Waits(take_away))
    with pytest.raises(Fenced):
        worker.run_once()
    assert lake.version == before
    assert (only(lake).state, only(lake).failures) == (TaskState.WAITING, 0)


def test_heartbeats_keep_a_task_for_longer_than_its_lease(lake: Lake, table: Table) -> None:
    others = []

    def linger() -> None:
        first = only(lake).available_at
        until(lambda: only(lake).available_at > first + 5e8)  # renewed for more than a whole lease
        others.append(lake.catalog.maintenance.claim_merge_task("other", seconds=60))
        raise Unavailable("enough")

    with pytest.raises(Unavailable, match="enough"):
        CompactionWorker(lake.context, "mine", seconds=0.5, runner=Waits(linger)).run_once()
    assert others == [None]


def test_an_interrupted_compaction_frees_its_segments(lake: Lake, table: Table) -> None:
    [task] = lake.catalog.maintenance.merge_tasks()
    lake.catalog.maintenance.delete_merge_task(task.id)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compact(lake.context, table.state, runner=Waits(interrupt))
    assert lake.catalog.maintenance.merge_tasks() == []
    assert table.compact().segments_in == 4


def test_a_compaction_that_fails_leaves_the_task_to_whoever_took_it_over(lake: Lake, table: Table) -> None:
    lake.catalog.maintenance.delete_merge_task(only(lake).id)

    def take_over() -> None:
        assert lake.catalog.maintenance.release_merge_task(Claim(only(lake).id, 0))
        assert lake.catalog.maintenance.claim_merge_task("other", seconds=60) is not None
        raise Unavailable("slow")

    with pytest.raises(Unavailable):
        compact(lake.context, table.state, runner=Waits(take_over))
    assert only(lake).worker == "other"


def test_the_slices_of_stopped_work_are_not_begun() -> None:
    begun: list[int] = []

    def kernel(work: int) -> int:
        begun.append(work)
        return work

    with pytest.raises(Stopped):
        list(LocalRunner().map(kernel, list(range(50)), stopped=lambda: len(begun) >= 2))
    assert len(begun) < 50


def start(lake: Lake, *words: str, lease: float) -> subprocess.Popen[bytes]:
    """A process with a merge task that never ends."""
    command = [sys.executable, "-c", STUCK, "--lake", lake.uri, *words]
    environment = {"MOULIN_MERGE_LEASE_SECONDS": str(lease), "PATH": "", "HOME": "/nonexistent"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: process.poll() is not None or only(lake).state is TaskState.CLAIMED)
    assert process.poll() is None
    return process


def test_a_killed_workers_task_is_taken_over_when_its_lease_ends(lake: Lake, table: Table) -> None:
    process = start(lake, "worker", "--no-spark", lease=1.0)
    process.kill()
    process.wait()
    assert only(lake).state is TaskState.CLAIMED
    other = CompactionWorker(lake.context, "other")
    done: list[Any] = []
    until(lambda: bool(done) or bool(done.extend(filter(None, [other.run_once()]))))
    assert done[0].claim.attempt == 2
    assert table.stats().segments == 1
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_process_that_is_told_to_end_gives_its_task_back(
    lake: Lake, table: Table, number: signal.Signals
) -> None:
    process = start(lake, "worker", "--no-spark", lease=3600)
    process.send_signal(number)
    until(lambda: only(lake).state is TaskState.WAITING)
    assert only(lake).failures == 0
    process.kill()
    process.wait()


def test_a_compaction_process_that_is_told_to_end_frees_its_segments(lake: Lake, table: Table) -> None:
    lake.catalog.maintenance.delete_merge_task(only(lake).id)
    command = [sys.executable, "-c", STUCK, "--lake", lake.uri, "compact", "shop.t"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    until(lambda: process.poll() is not None or bool(lake.catalog.maintenance.merge_tasks()))
    process.terminate()
    until(lambda: not lake.catalog.maintenance.merge_tasks())
    process.kill()
    process.wait()


def test_a_keyed_table_takes_over_what_a_killed_process_began(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", merge_background="off", level0_trigger=2) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.k", [("id", "long")], primary_key=["id"])
        for n in range(3):
            table.put({"id": n})
            table.flush()
        state = table.state()
        tasks = lake.catalog.maintenance
        numbers = {s.facts.number: 0 for s in lake.catalog.segments(state.id, state.version)}
        lake.own_catalog().maintenance.create_merge_tasks([PlannedTask(state.id, numbers, 1)])
        assert tasks.claim_merge_task("killed", seconds=0.05) is not None
        time.sleep(0.1)
        done = compact(lake.context, table.state, due_only=True)
        assert done.segments_in == 3
        assert tasks.merge_tasks() == []
