"""Claims of merge tasks: who works on which task, for how long, and who may finish it.

A task is claimed for the time of a lease, which heartbeats renew. Every claim has the next attempt number, and only the
newest claim can finish the task: in the transaction that commits its compaction (`finish`).
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.segments import staging
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.pool import Pool, chunks, take
from moulin.catalog.tasks.merge_tasks import COMPACT, delete_all, unknown_task
from moulin.errors import FailedPrecondition, Fenced, InvalidInput
from moulin.model.merge_task import ClaimedTask
from moulin.model.operations import Claim, Compact, Fill

_NUMBERS = 64  # segment numbers reserved for the outputs of a claimed task
_LONGEST_BACKOFF = 3600.0
_LONGEST_ERROR = 2000


def claim(pool: Pool, worker: str, seconds: float, table_id: UUID | None = None) -> ClaimedTask | None:
    """Claim the task that has waited longest, if there is any, for `seconds`. Any number may ask at once."""
    if not worker:
        raise InvalidInput("A worker needs an id to claim a merge task.")
    while True:
        with pool.unordered(durable=False) as connection:
            row = _next(pool, connection, table_id)
            if row is None and _bound_leases(pool, connection):
                row = _next(pool, connection, table_id)
            if row is None:
                return None
            if (claimed := _claim(pool, connection, row, worker, seconds)) is not None:
                return claimed


def _next(pool: Pool, connection: sa.Connection, table_id: UUID | None) -> Any:
    t, owner, parent = s.merge_tasks, s.tables, s.databases
    query = (
        sa.select(t)
        .join(owner, owner.c.id == t.c.table_id)
        .join(parent, parent.c.id == owner.c.database_id)
        .where(
            t.c.available_at <= pool.now(connection),
            t.c.kind == COMPACT,
            owner.c.tombstoned_at.is_(None),
            parent.c.tombstoned_at.is_(None),
        )
        .order_by(t.c.available_at, t.c.id)
        .limit(1)
        .with_for_update(of=t, skip_locked=True)
    )
    return connection.execute(query if table_id is None else query.where(t.c.table_id == table_id)).first()


def _bound_leases(pool: Pool, connection: sa.Connection) -> bool:
    """Whether tasks were held back by a clock that was ahead, and are no longer.

    A lease that began in the future counts as begun now, and no task waits longer than the longest back-off.
    """
    t, now = s.merge_tasks, pool.now(connection)
    waits = sa.and_(t.c.available_at != s.OPEN, t.c.finished_version.is_(None))
    late = sa.and_(waits, t.c.worker.is_(None), t.c.available_at > now + int(_LONGEST_BACKOFF * NANOS))
    freed = connection.execute(t.update().where(late).values(available_at=now)).rowcount
    ahead = sa.and_(waits, t.c.claimed_at > now + int(pool.config.clock_tolerance * NANOS))
    left = t.c.available_at - t.c.claimed_at
    connection.execute(t.update().where(ahead).values(available_at=now + left, claimed_at=now))
    return freed > 0


def _claim(pool: Pool, connection: sa.Connection, row: Any, worker: str, seconds: float) -> ClaimedTask | None:
    """None when the task turned out to be nothing to claim: then it is gone, or in quarantine."""
    t = s.merge_tasks
    now = pool.now(connection)
    if row.worker is not None and _note_failure(
        pool, connection, row, now, f"The lease of worker {row.worker} has expired."
    ):
        return None
    version = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
    inputs = _live_inputs(connection, row)
    if inputs is None:
        return None
    attempt, lease_until = row.attempt + 1, now + int(seconds * NANOS)
    first = take(connection, "segment", _NUMBERS)
    pool.note_reserved(first, _NUMBERS)
    staging.stage(connection, first, _NUMBERS, row.table_id, f"{row.id}/{attempt}", now, lease_until)
    values = {
        "worker": worker,
        "claimed_at": now,
        "attempt": attempt,
        "available_at": lease_until,
        "read_version": version,
        "first_number": first,
        "numbers": _NUMBERS,
    }
    connection.execute(t.update().where(t.c.id == row.id).values(values))
    return ClaimedTask(Claim(row.id, attempt), row.table_id, row.level, inputs, version, lease_until, first, _NUMBERS)


def _live_inputs(connection: sa.Connection, row: Any) -> dict[int, int] | None:
    """The inputs that are live, with their vectors. A task that has lost what made it worth doing goes; then None."""
    i, p = s.merge_task_inputs, s.segment_spans
    mine = p.c.table_id == row.table_id
    open_span = sa.and_(mine, p.c.segment == i.c.segment, p.c.removed_version == s.OPEN)
    rows = connection.execute(
        sa.select(i.c.segment, i.c.vector_id, p.c.vector_id.label("found"))
        .select_from(i.join(p, open_span, isouter=True))
        .where(i.c.task_id == row.id)
        .order_by(i.c.segment)
    ).all()
    live = {found.segment: found.found for found in rows if found.found is not None}
    if not live or (len(live) == 1 and len(rows) > 1):
        delete_all(connection, [row.id])
        return None
    gone = [found.segment for found in rows if found.found is None]
    connection.execute(i.delete().where(i.c.segment.in_(gone)))
    for found in rows:
        if found.found is not None and found.found != found.vector_id:
            connection.execute(i.update().where(i.c.segment == found.segment).values(vector_id=found.found))
    return live


def _note_failure(pool: Pool, connection: sa.Connection, row: Any, now: int, message: str) -> bool:
    """Count a failure; whether it was the last that is allowed, and the task is in quarantine now."""
    t, config = s.merge_tasks, pool.config
    failures = row.failures + 1
    wait = min(config.merge_backoff * 2 ** min(failures - 1, 30), _LONGEST_BACKOFF)
    over = bool(failures >= config.merge_failures)
    values = {
        "failures": failures,
        "last_error": message[:_LONGEST_ERROR],
        "worker": None,
        "claimed_at": None,
        "available_at": s.OPEN if over else now + int(wait * NANOS),
    }
    connection.execute(t.update().where(t.c.id == row.id).values(values))
    return over


def heartbeat(pool: Pool, claim: Claim, seconds: float) -> int:
    """Renew the lease; returns until when. Raises Fenced when the claim no longer holds."""
    with pool.unordered(durable=False) as connection:
        row = _claimed(connection, claim)
        until = pool.now(connection) + int(seconds * NANOS)
        t, staged = s.merge_tasks, s.staged_segments
        connection.execute(t.update().where(t.c.id == row.id).values(available_at=until))
        mine = staged.c.owner == f"{row.id}/{row.attempt}"
        connection.execute(staged.update().where(mine).values(expires_at=until))
        return until


def fail(pool: Pool, claim: Claim, message: str) -> None:
    """Give a claimed task back with the reason: it waits, or goes into quarantine. Saying so twice changes nothing."""
    with pool.unordered(durable=False) as connection:
        row = _locked(connection, claim.task_id)
        if row.worker is None and row.finished_version is None and claim.attempt in (0, row.attempt):
            return
        _note_failure(pool, connection, _claimed(connection, claim), pool.now(connection), message or "It failed.")


def release(pool: Pool, claim: Claim) -> bool:
    """Make a task available at once; whether that changed anything. It does not count as a failure.

    A worker that stops releases its own attempt; that does nothing when the claim no longer holds. Attempt 0 is an
    operator's: it takes the task from its worker, ends its back-off, and resets the failures of a quarantined one.
    """
    t = s.merge_tasks
    with pool.unordered() as connection:
        row = connection.execute(sa.select(t).where(t.c.id == claim.task_id).with_for_update()).first()
        if claim.attempt:
            if row is None or row.finished_version is not None or row.worker is None or row.attempt != claim.attempt:
                return False
        elif row is None:
            raise unknown_task(claim.task_id)
        elif row.finished_version is not None:
            raise FailedPrecondition(
                f"Merge task {claim.task_id} was already completed, as version {row.finished_version}."
            )
        now = pool.now(connection)
        if row.worker is None and row.available_at <= now:
            return False
        changed = {"worker": None, "claimed_at": None, "available_at": now}
        if row.available_at == s.OPEN:
            changed["failures"] = 0
        connection.execute(t.update().where(t.c.id == claim.task_id).values(changed))
        return True


def unclaim(pool: Pool, task_id: UUID, min_seconds: float) -> bool:
    """Take a task from its worker if it has had it for `min_seconds`; whether it was taken."""
    t = s.merge_tasks
    with pool.unordered() as connection:
        now = pool.now(connection)
        before = max(now - int(min_seconds * NANOS), 0)  # no longer than there was time
        old = sa.and_(t.c.worker.is_not(None), t.c.claimed_at <= before)
        changed = {"worker": None, "claimed_at": None, "available_at": now}
        mine = sa.and_(t.c.id == task_id, t.c.finished_version.is_(None), old)
        return bool(connection.execute(t.update().where(mine).values(changed)).rowcount)


def claimed_task(connection: sa.Connection, claim: Claim) -> ClaimedTask:
    """What a claim that holds stands for."""
    row = _claimed(connection, claim)
    i = s.merge_task_inputs
    inputs = connection.execute(sa.select(i.c.segment, i.c.vector_id).where(i.c.task_id == row.id)).all()
    return ClaimedTask(
        Claim(row.id, row.attempt),
        row.table_id,
        row.level,
        {found.segment: found.vector_id for found in inputs},
        row.read_version,
        row.available_at,
        row.first_number,
        row.numbers,
    )


def finish(connection: sa.Connection, operation: Compact, table_id: UUID, table: str, version: int) -> None:
    """Finish the task of a compaction in the transaction that commits it to a table (id and name) as `version`.

    Raises Fenced when the claim no longer holds.
    """
    i = s.merge_task_inputs
    if operation.claim is not None:
        _finish(connection, operation.claim, table_id, table, version, [facts.path for facts in operation.added])
    for chunk in chunks([e.segment for e in operation.removed]):
        connection.execute(i.delete().where(i.c.segment.in_(chunk)))


def finish_fill(connection: sa.Connection, operation: Fill, table_id: UUID, table: str, version: int) -> None:
    """The same of a fill; its segments stay, and are free for other tasks."""
    if operation.claim is not None:
        _finish(connection, operation.claim, table_id, table, version, [file.path for file in operation.files])


def _finish(
    connection: sa.Connection, claim: Claim, table_id: UUID, table: str, version: int, outputs: list[str]
) -> None:
    t, i = s.merge_tasks, s.merge_task_inputs
    row = _claimed(connection, claim)
    if row.table_id != table_id:
        raise InvalidInput(f"Merge task {claim.task_id} belongs to another table than {table}.")
    done = {"finished_version": version, "available_at": s.OPEN, "outputs": outputs}
    connection.execute(t.update().where(t.c.id == row.id).values(done))
    connection.execute(i.delete().where(i.c.task_id == row.id))


def _claimed(connection: sa.Connection, claim: Claim) -> Any:
    """The row of a task whose claim holds. Attempt 0 stands for whichever there is, of workers that know of none."""
    row = _locked(connection, claim.task_id)
    if row.finished_version is not None:
        raise Fenced(f"Merge task {claim.task_id} was already completed, as version {row.finished_version}.")
    if row.worker is None or claim.attempt not in (0, row.attempt):
        raise Fenced(
            f"Attempt {claim.attempt or row.attempt} at merge task {claim.task_id} was cancelled or taken over: "
            f"discard its output and request another task."
        )
    return row


def _locked(connection: sa.Connection, task_id: UUID) -> Any:
    t = s.merge_tasks
    row = connection.execute(sa.select(t).where(t.c.id == task_id).with_for_update()).first()
    if row is None:
        raise unknown_task(task_id)
    return row
