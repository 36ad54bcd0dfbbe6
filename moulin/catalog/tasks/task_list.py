"""Merge tasks as they are looked at: listed, counted, and found again when they are done. None of it changes any."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.tasks.merge_tasks import unknown_task
from moulin.errors import NotFound
from moulin.model.merge_task import MergeTask, MergeTaskFigures, TaskState
from moulin.model.operations import Claim


def list_all(connection: sa.Connection, table_id: UUID | None = None) -> list[MergeTask]:
    """The unfinished tasks, oldest first."""
    return [_to_task(row) for row in connection.execute(_listed(s.merge_tasks.c.finished_version.is_(None), table_id))]


def get(connection: sa.Connection, task_id: UUID) -> tuple[MergeTask, MergeTaskFigures]:
    """A task that is not done, with sums over its inputs."""
    t, i, g = s.merge_tasks, s.merge_task_inputs, s.segments
    row = connection.execute(_listed(sa.and_(t.c.id == task_id, t.c.finished_version.is_(None)), None)).first()
    if row is None:
        raise NotFound(f"Merge task {task_id} does not exist; it may be completed or deleted.")
    low, high, total = sa.func.min, sa.func.max, sa.func.sum
    sums = connection.execute(
        sa.select(low(g.c.size), high(g.c.size), total(g.c.size), low(g.c.time_min), high(g.c.time_max))
        .select_from(i.join(g, g.c.number == i.c.segment))
        .where(i.c.task_id == task_id)
    ).one()
    return _to_task(row), MergeTaskFigures(sums[0] or 0, sums[1] or 0, int(sums[2] or 0), sums[3], sums[4])


def inputs(connection: sa.Connection, task_id: UUID) -> list[int]:
    """The segments that a task is about, by number."""
    i = s.merge_task_inputs
    query = sa.select(i.c.segment).where(i.c.task_id == task_id).order_by(i.c.segment)
    return list(connection.execute(query).scalars())


def table_of(connection: sa.Connection, task_id: UUID) -> UUID:
    """The table of a task, including finished tasks."""
    found: UUID | None = connection.execute(
        sa.select(s.merge_tasks.c.table_id).where(s.merge_tasks.c.id == task_id)
    ).scalar()
    if found is None:
        raise unknown_task(task_id)
    return found


def count(connection: sa.Connection, table_id: UUID | None = None) -> tuple[int, int]:
    """How many tasks there are that are not done, and how many of them are in quarantine."""
    t = s.merge_tasks
    stuck = sa.func.sum(sa.case((t.c.available_at == s.OPEN, 1), else_=0))
    query = sa.select(sa.func.count(), stuck).where(t.c.finished_version.is_(None))
    row = connection.execute(query if table_id is None else query.where(t.c.table_id == table_id)).one()
    return int(row[0]), int(row[1] or 0)


def holds(connection: sa.Connection, owner: str) -> bool:
    """Whether staged numbers belong to a claim that can still be finished."""
    task, _, attempt = owner.partition("/")
    try:
        claim = Claim(UUID(task), int(attempt))
    except ValueError:
        return False
    t = s.merge_tasks
    same = sa.and_(t.c.id == claim.task_id, t.c.attempt == claim.attempt)
    open_claim = sa.and_(t.c.worker.is_not(None), t.c.finished_version.is_(None))
    return connection.execute(sa.select(t.c.id).where(same, open_claim)).first() is not None


def finished(connection: sa.Connection, claim: Claim) -> tuple[int, list[str]] | None:
    """The version that this claim was finished as and the paths of its outputs; None when it was not."""
    t = s.merge_tasks
    row = connection.execute(sa.select(t).where(t.c.id == claim.task_id, t.c.finished_version.is_not(None))).first()
    if row is None or claim.attempt not in (0, row.attempt):
        return None
    return row.finished_version, list(row.outputs)


def _listed(condition: sa.ColumnElement[bool], table_id: UUID | None) -> sa.Select[Any]:
    t, i = s.merge_tasks, s.merge_task_inputs
    inputs = sa.select(sa.func.count()).where(i.c.task_id == t.c.id).scalar_subquery().label("inputs")
    query = sa.select(t, inputs).where(condition).order_by(t.c.created_at, t.c.id)
    return query if table_id is None else query.where(t.c.table_id == table_id)


def _to_task(row: Any) -> MergeTask:
    if row.finished_version is not None:
        state = TaskState.DONE
    elif row.worker is not None:
        state = TaskState.CLAIMED
    else:
        state = TaskState.QUARANTINED if row.available_at == s.OPEN else TaskState.WAITING
    return MergeTask(
        row.id,
        row.table_id,
        state,
        row.level,
        row.inputs,
        row.created_at,
        row.available_at,
        row.worker,
        row.claimed_at,
        row.attempt,
        row.failures,
        row.last_error,
    )
