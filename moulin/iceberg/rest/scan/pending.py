"""Slow plans: computed in separate threads, fetched and cancelled by id.

They are kept in the memory of this server for a while, limited in number per caller and in bytes overall.
"""

# Decisions: docs/decisions/0523

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid4

from moulin.errors import MoulinError, Unavailable
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.errors import RestError, to_response

PATIENCE: Final = 10.0
"""Seconds that a request waits for its plan before it is answered with an id."""
LIFETIME: Final = 600.0
RUNNING: Final = 8
"""Plans of one caller that may be under way."""
KEPT: Final = 32
"""Plans of one caller that may wait to be fetched."""
BYTES: Final = 64 << 20
_THREADS: Final = 16
_IN_ALL: Final = 64


class Cancelled(Exception):
    """The plan was cancelled."""


@dataclass(slots=True)
class Plan:
    """One plan. `result` is what an answer says of it, once there is something to say."""

    owner: str
    table_id: UUID
    id: str = field(default_factory=lambda: str(uuid4()))
    since: float = field(default_factory=time.monotonic)
    cancelled: bool = False
    result: bytes | None = None

    def go_on(self) -> None:
        """Raises Cancelled if the plan was cancelled; called between the steps of the work."""
        if self.cancelled:
            raise Cancelled


Work = Callable[[Plan], Json]


class Plans:
    """The plans of one server. Safe to use from several threads."""

    def __init__(self, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience, self._clock = patience, clock
        self._lock = threading.Lock()
        self._plans: dict[str, Plan] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="moulin-plan")

    def run(self, owner: str, table_id: UUID, work: Work) -> Plan | Json:
        """The plan itself if it is made soon, else what it can be asked for by.

        Raises what the work raises, and Unavailable when the caller has too many under way.
        """
        plan = Plan(owner, table_id, since=self._clock())
        with self._lock:
            self._forget()
            running = [one for one in self._plans.values() if one.result is None]
            if len(running) >= _IN_ALL or sum(one.owner == owner for one in running) >= RUNNING:
                raise Unavailable("Too many scans are being planned: fetch or cancel those, and try again.")
            self._plans[plan.id] = plan
        future = self._threads.submit(self._make, plan, work)
        if not wait([future], self._patience).done:
            future.add_done_callback(lambda done: self._finish(plan, done))
            return plan
        self._drop(plan)
        return future.result()

    def find(self, owner: str, table_id: UUID, plan_id: str) -> Plan:
        """A plan of this caller's for a table."""
        with self._lock:
            self._forget()
            plan = self._plans.get(plan_id)
        if plan is None or plan.owner != owner or plan.table_id != table_id:
            raise RestError(404, "NoSuchPlanIdException", "Unknown plan-id, or one that was not fetched in time.")
        return plan

    def cancel(self, plan: Plan) -> None:
        plan.cancelled = True
        self._drop(plan)

    def _make(self, plan: Plan, work: Work) -> Json:
        plan.go_on()
        return work(plan)

    def _finish(self, plan: Plan, done: Future[Json]) -> None:
        error = done.exception()
        if error is None:
            plan.result = json.dumps(done.result(), separators=(",", ":")).encode()
        elif isinstance(error, Cancelled):
            plan.result = b'{"status":"cancelled"}'
        else:
            known = error if isinstance(error, Exception) else MoulinError("The plan was not made.")
            plan.result = b'{"status":"failed",' + bytes(to_response(known).body)[1:]
        with self._lock:
            self._forget()

    def _drop(self, plan: Plan) -> None:
        with self._lock:
            self._plans.pop(plan.id, None)

    def _forget(self) -> None:
        """Drop plans that are too old, too many of one caller, or too large together; the oldest first."""
        now, size = self._clock(), 0
        owned: dict[str, int] = {}
        for plan in reversed([*self._plans.values()]):
            if plan.result is None:
                plan.cancelled |= now - plan.since > LIFETIME
                continue
            size += len(plan.result)
            owned[plan.owner] = owned.get(plan.owner, 0) + 1
            if now - plan.since > LIFETIME or size > BYTES or owned[plan.owner] > KEPT:
                del self._plans[plan.id]
                size -= len(plan.result)


__all__ = ["BYTES", "KEPT", "LIFETIME", "PATIENCE", "RUNNING", "Cancelled", "Plan", "Plans"]
