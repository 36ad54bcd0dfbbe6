"""The statements of a server: owner, progress, and rows, kept for some minutes.

A statement belongs to the token that started it. Other tokens cannot see it.
"""

# Decisions: docs/decisions/0650, docs/decisions/0651

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Literal
from uuid import UUID, uuid4

import pyarrow as pa

from moulin.console.sql.children import Children, Step, Work, error_of
from moulin.console.sql.wire import Explain, Failed, Plan, Rows, Run, Said
from moulin.errors import Closed, FailedPrecondition, InvalidInput, MoulinError, NotFound, Unavailable
from moulin.network.callers import Caller
from moulin.network.slots import Slots

State = Literal["waiting", "starting", "running", "done", "failed", "cancelled"]
LONGEST_TEXT: Final = 1 << 17
WAITING: Final = 16
"""How many statements of one token wait at most."""
KEPT_SECONDS: Final = 600.0
KEPT_BYTES: Final = 256 << 20
KEPT: Final = 100
"""For how long rows that nobody asks for are kept, how many bytes of them, and how many statements of a token."""
_PLAN_SECONDS: Final = 30.0
_PLANS: Final = 4
"""How many plans are waited for at a time. Each holds a thread of the server."""
_TEND_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Limits:
    """What a statement may take: seconds, rows and bytes of its result; how many run at a time, and DuckDB's memory."""

    seconds: float = 60.0
    rows: int = 10_000
    running: int = 2
    result_bytes: int = 64 << 20
    memory_bytes: int = 1 << 30


@dataclass(eq=False)
class Statement:
    """One statement. `rows` are its result once it is done; `more` and `cut` say that they are not all."""

    owner: Caller
    engine: str
    text: str
    limit: int
    version: int | None
    id: UUID = field(default_factory=uuid4)
    state: State = "waiting"
    created_at: int = field(default_factory=time.time_ns)
    started: float | None = None
    ended: float | None = None
    progress: float | None = None
    error: MoulinError | None = None
    rows: pa.Table | None = None
    kept_bytes: int = 0
    more: bool = False
    cut: bool = False
    plan: Plan | None = None
    asked: float = field(default_factory=time.monotonic)
    cancelled: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def seconds(self) -> float | None:
        """How long it has run."""
        if self.started is None:
            return None
        return (time.monotonic() if self.ended is None else self.ended) - self.started

    def end(self, state: State, error: MoulinError | None = None) -> None:
        self.state, self.error, self.ended = state, error, time.monotonic()
        self.over.set()


class Statements:
    """All statements of a server. Thread-safe. REQUIRES: there is an engine."""

    def __init__(self, children: Children, limits: Limits) -> None:
        self.limits = limits
        self._children = children
        self._lock = threading.Lock()
        self._known: dict[UUID, Statement] = {}
        self._pool = ThreadPoolExecutor(limits.running, thread_name_prefix="moulin-sql")
        self._watch: Callable[[], None] | None = None
        self._plans = threading.Semaphore(_PLANS)
        self._slots = Slots(self._pool, share=limits.running, waiting=WAITING)

    @property
    def engines(self) -> list[str]:
        return list(self._children.recipes)

    def start(
        self, owner: Caller, text: str, engine: str | None = None, limit: int | None = None, version: int | None = None
    ) -> Statement:
        """Start a statement; it waits for its turn."""
        engine = engine or self.engines[0]
        if engine not in self.engines:
            known = " and ".join(self.engines)
            raise FailedPrecondition(f"This server runs SQL on {known}, and not on {engine}: choose another engine.")
        if not text.strip():
            raise InvalidInput("Write a statement.")
        if len(text) > LONGEST_TEXT:
            raise InvalidInput(f"A statement has at most {LONGEST_TEXT:,} characters.")
        made = Statement(owner, engine, text, min(limit or self.limits.rows, self.limits.rows), version)
        self._slots.check(owner)
        with self._lock:
            self._make_room(made)
            self._known[made.id] = made
        self._begin_watching()
        self._submit(made, lambda: self._run(made))
        return made

    def _begin_watching(self) -> None:
        """In a thread that there is from the first statement on."""
        with self._lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            threading.Thread(target=watch, name="moulin-sql-watch", daemon=True).start()

    def get(self, owner: Caller, id: UUID) -> Statement:
        """The statement of this id that this token started."""
        with self._lock:
            self._forget_old()
            found = self._known.get(id)
        if found is None or found.owner != owner:
            raise NotFound("There is no such statement: results are kept for ten minutes. Run it again.")
        found.asked = time.monotonic()
        return found

    def cancel(self, owner: Caller, id: UUID) -> Statement:
        """Stop a statement that has not ended; forget one that has."""
        found = self.get(owner, id)
        if found.over.is_set():
            with self._lock:
                self._known.pop(id, None)
        found.cancelled.set()
        return found

    def plan(self, owner: Caller, id: UUID) -> Plan:
        """How the engine would run a statement. It takes a place among those that run."""
        of = self.get(owner, id)
        if of.plan is not None:
            return of.plan
        made = Statement(owner, of.engine, of.text, 0, of.version)
        self._slots.check(owner)
        if not self._plans.acquire(blocking=False):
            raise Unavailable(f"{_PLANS} plans are made just now: retry in a moment.")
        try:
            self._submit(made, lambda: self._explain(made))
            if not made.over.wait(_PLAN_SECONDS):
                made.cancelled.set()
                raise Unavailable("Statements run, and the plan waits for its turn: retry in a moment.")
        finally:
            self._plans.release()
        if made.error is not None:
            raise made.error
        assert made.plan is not None
        of.plan = made.plan
        return made.plan

    def end_with(self, stopping: threading.Event) -> None:
        """Close as soon as this is set, and end children that nobody uses until then."""

        def watch() -> None:
            while not stopping.wait(_TEND_SECONDS):
                self._children.tend()
            self.close()

        self._watch = watch

    def close(self) -> None:
        """Cancel what runs, and end the children."""
        with self._lock:
            for one in self._known.values():
                one.cancelled.set()
        self._children.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, statement: Statement, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                if statement.cancelled.is_set():
                    raise Closed("The statement was cancelled.")
                work()
            except Closed as error:
                statement.end("cancelled", error)
            except MoulinError as error:
                statement.end("cancelled" if statement.cancelled.is_set() else "failed", error)
            except Exception as error:  # noqa: BLE001 - the thread must continue, and waiting callers must be notified
                statement.end(
                    "failed", Unavailable(f"The server failed in a way it should not: {type(error).__name__}.")
                )

        try:
            self._slots.submit(statement.owner, guarded)
        except RuntimeError:
            raise Unavailable("The server stops.") from None

    def _run(self, statement: Statement) -> None:
        number = str(statement.id)
        ask = Run(number, statement.text, statement.limit, statement.version)
        said = self._do(statement, Work(ask, number, self.limits.seconds, *self._listeners(statement)))
        if not isinstance(said, Rows):
            raise Unavailable("The engine gave no rows: run the statement again.")
        statement.rows, statement.kept_bytes = _table(said.arrow), len(said.arrow)
        statement.more, statement.cut = said.more, said.cut
        statement.end("done")

    def _explain(self, statement: Statement) -> None:
        number = str(statement.id)
        ask = Explain(number, statement.text, statement.version)
        said = self._do(statement, Work(ask, number, self.limits.seconds, *self._listeners(statement)))
        if not isinstance(said, Plan):
            raise Unavailable("The engine gave no plan: ask again.")
        statement.plan = said
        statement.end("done")

    def _do(self, statement: Statement, work: Work) -> Said:
        said = self._children.do(statement.engine, work)
        if isinstance(said, Failed):
            raise error_of(said)
        return said

    def _listeners(
        self, statement: Statement
    ) -> tuple[threading.Event, Callable[[Step], None], Callable[[float], None]]:
        def on_state(state: Step) -> None:
            statement.state = state
            if state == "running":
                statement.started = time.monotonic()

        def on_progress(part: float) -> None:
            statement.progress = part

        return statement.cancelled, on_state, on_progress

    def _make_room(self, coming: Statement) -> None:
        """Forget what ended first while too much is kept. REQUIRES: the lock."""
        self._forget_old()
        ended = sorted((one for one in self._known.values() if one.over.is_set()), key=lambda one: one.asked)
        kept = sum(one.kept_bytes for one in ended)
        own = sum(one.owner == coming.owner for one in self._known.values())
        for one in ended:
            mine = one.owner == coming.owner
            if kept + self.limits.result_bytes > KEPT_BYTES or (mine and own >= KEPT):
                del self._known[one.id]
                kept, own = kept - one.kept_bytes, own - mine

    def _forget_old(self) -> None:
        now = time.monotonic()
        for one in [one for one in self._known.values() if one.over.is_set() and now - one.asked > KEPT_SECONDS]:
            del self._known[one.id]


def _table(arrow: bytes) -> pa.Table:
    """The rows that a child sent. What a child sends is checked as what a stranger sends."""
    try:
        found = pa.ipc.open_stream(pa.py_buffer(arrow)).read_all()
        found.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise Unavailable(f"The engine sent rows that cannot be read ({str(error)[:100]}): run it again.") from None
    return found
