"""Merge tasks: which segments are to be rewritten. A segment is an input of one task at most.

Nothing here takes a version. Tasks survive everything but a recovery, after which they are planned again. Workers get
them by claims (claims.py).
"""

# Decisions: docs/decisions/0090

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.drivers import upsert
from moulin.catalog.sql.pool import Pool, chunks
from moulin.errors import InvalidInput, NotFound
from moulin.model.facts import MAX_LEVEL
from moulin.model.ids import new_id
from moulin.model.operations import Claim

COMPACT, FILL = "compact", "fill"


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """Segments of one partition to be compacted into `level`, each with the deletion vector that the plan saw.

    A task of the kind `FILL` holds segments whose pending columns are being filled. Only its creator runs it: once
    its lease is over, it is forgotten.
    """

    table_id: UUID
    inputs: Mapping[int, int]
    level: int
    kind: str = COMPACT


@dataclass(frozen=True, slots=True)
class Begin:
    """Who claims tasks the moment they are created, and as of which version they were planned."""

    worker: str
    seconds: float
    read_version: int


def create(pool: Pool, planned: Sequence[PlannedTask], begin: Begin | None = None) -> list[Claim | None]:
    """Make a task of each plan whose inputs are all free, in one transaction; None for the others.

    A claim's attempt is 0 unless `begin` says who claims it.
    """
    t, i = s.merge_tasks, s.merge_task_inputs
    claims = [Claim(new_id(), 0 if begin is None else 1) for _ in planned]
    owners = {number: index for index, plan in enumerate(planned) for number in plan.inputs}
    if len(owners) != sum(len(plan.inputs) for plan in planned):
        raise InvalidInput("Merge tasks that are planned together must not share segments.")
    if wrong := [plan.level for plan in planned if not 0 <= plan.level <= MAX_LEVEL]:
        raise InvalidInput(f"Levels are from 0 to {MAX_LEVEL}: segments cannot be compacted into level {wrong[0]}.")
    wanted = sorted(owners)  # in one order, so that two who want the same do not wait for each other in turn
    # One that is claimed at once is of no use to anybody after a power cut, and does not wait for the disk.
    if begin is None and any(plan.kind != COMPACT for plan in planned):
        raise InvalidInput("A task that fills columns must be claimed by the worker that creates it: give the worker.")
    with pool.unordered(durable=begin is None) as connection:
        now = pool.now(connection)
        _forget_lapsed(connection, now)
        lost = {owners[number] for number in held(connection, wanted)}
        rows = [
            _row(claim, plan, now, begin)
            for index, (claim, plan) in enumerate(zip(claims, planned, strict=True))
            if index not in lost and plan.inputs
        ]
        if not rows:
            return [None] * len(planned)
        connection.execute(t.insert(), rows)
        granted: set[int] = set()
        free = [number for number in wanted if owners[number] not in lost]
        for chunk in chunks(free):
            inputs = [_input(number, claims[owners[number]], planned[owners[number]]) for number in chunk]
            query = upsert(connection, i).values(inputs).on_conflict_do_nothing().returning(i.c.segment)
            granted.update(connection.execute(query).scalars())
        late = {owners[number] for number in free if number not in granted}
        delete_all(connection, [claims[index].task_id for index in sorted(late)])
    return [
        None if index in lost or index in late or not planned[index].inputs else claim
        for index, claim in enumerate(claims)
    ]


def _row(claim: Claim, plan: PlannedTask, now: int, begin: Begin | None) -> dict[str, Any]:
    row = {
        "id": claim.task_id,
        "table_id": plan.table_id,
        "created_at": now,
        "level": plan.level,
        "kind": plan.kind,
        "available_at": now,
        "worker": None,
        "claimed_at": None,
        "attempt": claim.attempt,
        "failures": 0,
        "read_version": 0,
        "first_number": 0,
        "numbers": 0,
    }
    if begin is not None:
        lease = {"available_at": now + int(begin.seconds * NANOS), "claimed_at": now, "worker": begin.worker}
        row.update(lease, read_version=begin.read_version)
    return row


def _input(number: int, claim: Claim, plan: PlannedTask) -> dict[str, Any]:
    return {"segment": number, "task_id": claim.task_id, "vector_id": plan.inputs[number]}


def _forget_lapsed(connection: sa.Connection, now: int) -> None:
    """Fills that nobody works at any more hold no segments."""
    t = s.merge_tasks
    lapsed = sa.select(t.c.id).where(t.c.kind == FILL, t.c.finished_version.is_(None), t.c.available_at <= now)
    delete_all(connection, connection.execute(lapsed.with_for_update(skip_locked=True)).scalars().all())


def held(connection: sa.Connection, numbers: Iterable[int]) -> set[int]:
    """Those of the segments that are inputs of a task."""
    i = s.merge_task_inputs
    found: set[int] = set()
    for chunk in chunks(sorted(numbers)):
        found.update(connection.execute(sa.select(i.c.segment).where(i.c.segment.in_(chunk))).scalars())
    return found


def delete(pool: Pool, task_id: UUID, attempt: int | None = None) -> bool:
    """Forget a task; its inputs are free again. False when there is none, it is done, or has a newer attempt."""
    with pool.unordered() as connection:
        t = s.merge_tasks
        found = sa.select(t.c.id).where(t.c.id == task_id, t.c.finished_version.is_(None)).with_for_update()
        if attempt is not None:
            found = found.where(t.c.attempt == attempt)
        if connection.execute(found).first() is None:
            return False
        delete_all(connection, [task_id])
        return True


def delete_of_table(connection: sa.Connection, table_id: UUID) -> None:
    """Forget all tasks of a table that is purged."""
    delete_all(connection, connection.execute(_tasks_of(table_id)).scalars().all())


def _tasks_of(table_id: UUID) -> sa.Select[Any]:
    return sa.select(s.merge_tasks.c.id).where(s.merge_tasks.c.table_id == table_id)


def delete_all(connection: sa.Connection, ids: Sequence[UUID]) -> None:
    """Forget tasks and their inputs, in the running transaction."""
    for chunk in chunks(ids):
        connection.execute(s.merge_task_inputs.delete().where(s.merge_task_inputs.c.task_id.in_(chunk)))
        connection.execute(s.merge_tasks.delete().where(s.merge_tasks.c.id.in_(chunk)))


def prune(pool: Pool, keep_seconds: float) -> int:
    """Delete old finished tasks; returns how many."""
    t, v = s.merge_tasks, s.versions
    with pool.unordered(durable=False) as connection:
        before = pool.now(connection) - int(keep_seconds * NANOS)
        old = sa.select(sa.func.max(v.c.version)).where(v.c.timestamp_ns <= before).scalar_subquery()
        return int(connection.execute(t.delete().where(t.c.finished_version <= old)).rowcount)


def unknown_task(task_id: UUID) -> NotFound:
    return NotFound(f"Merge task {task_id} does not exist: it was deleted, or completed long ago.")
