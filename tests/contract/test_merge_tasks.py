"""Claims of merge tasks on every catalog: given back, taken over, deleted; and what operators see of them."""

from __future__ import annotations

from uuid import uuid4

import pytest

from moulin.catalog.catalog import Catalog
from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.config import Config
from moulin.errors import FailedPrecondition, Fenced, NotFound
from moulin.model.merge_task import MergeTask, TaskState
from moulin.model.operations import Append, Claim, Compact, Expected
from tests.contract.conftest import Backend, HandClock
from tests.contract.samples import commit, make_table, segment


@pytest.fixture
def timed(backend: Backend, clock: HandClock) -> Catalog:
    return backend.open(backend.new_uri(), config=Config(merge_failures=1), clock=clock)


def begin(catalog: Catalog, worker: str = "first") -> Claim:
    """A task of two segments that a worker has."""
    state = make_table(catalog)
    a, b = segment(catalog, state.id), segment(catalog, state.id)
    commit(catalog, state.id, Append(added=(a, b)))
    catalog.maintenance.create_merge_tasks([PlannedTask(state.id, {a.number: 0, b.number: 0}, 1)])
    return claim(catalog, worker)


def claim(catalog: Catalog, worker: str) -> Claim:
    claimed = catalog.maintenance.claim_merge_task(worker, seconds=300)
    assert claimed is not None
    return claimed.claim


def only(catalog: Catalog) -> MergeTask:
    [task] = catalog.maintenance.merge_tasks()
    return task


def test_a_released_task_is_free_at_once_and_has_no_failure(timed: Catalog) -> None:
    mine = begin(timed)
    assert timed.maintenance.release_merge_task(mine)
    assert (only(timed).state, only(timed).failures, only(timed).worker) == (TaskState.WAITING, 0, None)
    again = claim(timed, "second")
    assert again == Claim(mine.task_id, mine.attempt + 1)
    with pytest.raises(Fenced):
        timed.maintenance.renew_merge_task(mine, 300)


def test_a_worker_cannot_release_or_delete_what_another_took_over(timed: Catalog, clock: HandClock) -> None:
    mine = begin(timed)
    assert timed.maintenance.release_merge_task(Claim(mine.task_id, 0))
    theirs = claim(timed, "second")
    assert not timed.maintenance.release_merge_task(mine)
    assert not timed.maintenance.delete_merge_task(mine.task_id, mine.attempt)
    assert only(timed).worker == "second"
    assert timed.maintenance.delete_merge_task(theirs.task_id, theirs.attempt)
    assert not timed.maintenance.release_merge_task(theirs), "what is gone is no error for a worker that stops"


def test_an_operator_frees_a_task_from_quarantine_and_from_its_back_off(timed: Catalog) -> None:
    mine = begin(timed)
    timed.maintenance.fail_merge_task(mine, "out of luck")
    assert only(timed).state is TaskState.QUARANTINED
    assert timed.maintenance.release_merge_task(Claim(mine.task_id, 0))
    assert (only(timed).state, only(timed).failures) == (TaskState.WAITING, 0)
    assert not timed.maintenance.release_merge_task(Claim(mine.task_id, 0)), "it was free already"
    assert claim(timed, "second").attempt == 2


def test_an_operator_is_told_of_tasks_that_are_gone_or_done(timed: Catalog) -> None:
    with pytest.raises(NotFound):
        timed.maintenance.release_merge_task(Claim(uuid4(), 0))
    mine = begin(timed)
    task = only(timed)
    held = timed.maintenance.merge_task_inputs(mine.task_id)
    out = segment(timed, task.table_id)
    commit(timed, task.table_id, Compact(removed=tuple(Expected(n, 0) for n in held), added=(out,), claim=mine))
    with pytest.raises(FailedPrecondition, match="already completed"):
        timed.maintenance.release_merge_task(Claim(mine.task_id, 0))
    with pytest.raises(NotFound):
        timed.maintenance.merge_task(mine.task_id)


def test_a_task_is_shown_with_its_inputs_and_their_sizes(timed: Catalog) -> None:
    mine = begin(timed)
    task, figures = timed.maintenance.merge_task(mine.task_id)
    assert task == only(timed)
    assert len(timed.maintenance.merge_task_inputs(mine.task_id)) == task.segments == 2
    assert figures.total == figures.smallest + figures.largest > 0


def test_a_task_whose_worker_fell_silent_is_taken_over_when_its_lease_ends(backend: Backend, clock: HandClock) -> None:
    catalog = backend.open(backend.new_uri(), clock=clock)
    begin(catalog)
    clock.forward(299)
    assert catalog.maintenance.claim_merge_task("second") is None
    clock.forward(2)
    taken = catalog.maintenance.claim_merge_task("second")
    assert taken is not None
    assert taken.claim.attempt == 2
    minutes = (taken.lease_until - clock.now) / 60e9
    assert 0 < minutes <= 10, "leases are minutes"
