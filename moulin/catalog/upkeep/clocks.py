"""Clocks that must agree before anything is deleted: this process's, the database's, the store's, and the lake's own.

A clock that is ahead ends promises early: history, pins, grace windows and half-done writes look old. So clean-up first
compares every clock at hand and refuses when they differ by more than `clock_tolerance`. One that is behind keeps
things longer and does no harm, but which of two is wrong cannot be known. While clean-up runs, time goes on by a clock
that nobody sets.
"""

# Decisions: docs/decisions/0176

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS, SimulatedClock
from moulin.catalog.sql.living import seconds_since_boot
from moulin.catalog.sql.pool import Pool
from moulin.errors import FailedPrecondition
from moulin.storage.store import Store


def agreed(pool: Pool, store: Store) -> Callable[[], int]:
    """The time on which all clocks agree. FailedPrecondition if they differ."""
    tolerance = int(pool.config.clock_tolerance * NANOS)
    with pool.read() as connection:
        newest = int(connection.execute(sa.select(s.counter.c.clock_ns)).scalar_one())
        mine, database = pool.own_clock(connection), pool.database_clock(connection)
    began = seconds_since_boot()
    if not isinstance(pool.clock, SimulatedClock):
        for name, found in (("its database", database), ("its storage", _now(store))):
            waited = int((seconds_since_boot() - began) * NANOS)
            apart = max(mine - found, found - (mine + waited))
            if apart > tolerance:
                raise _refused(
                    f"this process has {_shown(mine)} and {name} has {_shown(found)}, {_span(apart)} apart",
                    "set the clock that is wrong",
                )
    if newest > mine + tolerance:
        raise _refused(
            f"the newest change of the lake was made at {_shown(newest)}, {_span(newest - mine)} in the future",
            "set this clock if it is wrong; if it is right, that of a process that changed the lake was ahead: wait "
            "until that time, or clean up with a larger clock_tolerance",
        )
    least = newest if newest < mine + NANOS else 0  # stamps may be ahead of a coarse clock, as one follows another
    if isinstance(pool.clock, SimulatedClock):
        simulated = pool.clock
        return lambda: max(least, simulated())
    return lambda: max(least, mine + int((seconds_since_boot() - began) * NANOS))


def _now(store: Store) -> int:
    return int(store.clock().timestamp() * NANOS)


def _refused(what: str, remedy: str) -> FailedPrecondition:
    return FailedPrecondition(f"Nothing was cleaned up, because clocks differ: {what}. To continue, {remedy}.")


def _shown(nanos: int) -> str:
    return datetime.fromtimestamp(nanos / NANOS, UTC).isoformat(" ", "seconds")


def _span(nanos: int) -> str:
    return str(timedelta(seconds=round(nanos / NANOS)))
