"""Connections and transactions: one snapshot for readers, one lock for writers.

Every mutation goes through `Pool.write`, which locks the counter row first. So versions become visible in order: once
version V was read, nothing with a version <= V appears later. No I/O but SQL happens while the lock is held.
"""

# Decisions: docs/decisions/0002, docs/decisions/0142, docs/decisions/0701

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from moulin.catalog.sql import drivers
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import Clock, SimulatedClock
from moulin.catalog.sql.creation import create_tables, stamp
from moulin.catalog.sql.database_errors import reason, translated
from moulin.catalog.sql.living import InUse, Living, survey
from moulin.catalog.sql.prepared import Prepared, execute
from moulin.config import Config
from moulin.errors import (
    Closed,
    Fenced,
    InvalidInput,
    Unavailable,
    Unsupported,
)

HEAD_REVISION = "0020"
GIVEN_UP = (
    "This catalog is not the lake's any more: manifests of another one lie in its storage. Use that one, or move this "
    "one away and run `moulin recover`."
)
_MIGRATION_LOCK = 0x6D6F756C696E  # an arbitrary key for PostgreSQL's advisory lock
_AHEAD = 4096  # segment numbers that a process takes beyond those asked for
_ALEMBIC = threading.Lock()  # it keeps what it works on in module variables

# Says, where a server runs a call, that nobody waits for it any more: its deadline has passed, or the caller has gone.
gave_up: ContextVar[Callable[[], bool] | None] = ContextVar("gave_up", default=None)
T = TypeVar("T")


@dataclass(slots=True)
class Write:
    """An open mutation: the counter is locked, `now` is its stamp, which is later than all before it.

    `clock` is the same, unless stamps are so far ahead that they must come from a wrong clock; then it is the time.
    """

    connection: sa.Connection
    version: int
    now: int
    clock: int
    deltas: int
    incarnation: int
    response_seq: int
    routing_seq: int

    def take_response_seq(self) -> int:
        """The number of a result, higher than that of every result from an earlier state."""
        self.response_seq += 1
        return self.response_seq

    def take_version(self, kind: str) -> int:
        """The next version of the lake, recorded with its time."""
        self.version += 1
        _VERSION.run(self.connection, {"version": self.version, "timestamp_ns": self.now, "kind": kind})
        return self.version


_LOCK_COUNTER = Prepared(
    sa.select(s.counter, sa.select(s.lake.c.incarnation).scalar_subquery().label("incarnation"))
    .where(s.counter.c.id == 1)
    .with_for_update(of=s.counter)
)


_VERSION = Prepared(s.versions.insert())
_COUNTER = Prepared(s.counter.update().where(s.counter.c.id == 1))


class Pool:
    """One catalog database, SQLite or PostgreSQL. Safe to use from several threads and processes."""

    def __init__(self, url: sa.URL, config: Config, clock: Clock | None = None) -> None:
        self.config = config
        self.clock = clock
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.incarnation: int | None = None
        self._file = url.database if self.is_sqlite else None
        self._inode: int | None = None
        self._engine = drivers.sqlite(url, config) if self.is_sqlite else drivers.postgresql(url, config)
        self._turns = threading.Lock()
        self._views = threading.local()
        self.living: Living | None = None
        if self._file is not None:
            self.living = Living(Path(self._file), config.orphan_grace)
        self._newest = 0  # the newest version that this process has committed
        self.given_up: str | None = None
        self.is_closed = False
        self._ahead_lock = threading.Lock()
        self._ahead, self._ahead_of = range(0), 0  # segment numbers that this process has and did not hand out yet

    def close(self) -> None:
        if self.living is not None:
            self.living.close()
        self.is_closed = True
        self._engine.dispose()

    def _connect(self) -> sa.Connection:
        if self.is_closed:  # a pool that was disposed of would open another connection, which nobody closes
            raise Closed("The lake was closed; connect again.")
        return self._engine.connect()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One consistent snapshot. Do not keep it open during slow work."""
        if (shared := getattr(self._views, "connection", None)) is not None:
            yield shared
            return
        with translated(), self._connect() as connection:
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    @contextmanager
    def view(self) -> Iterator[None]:
        """Within the block all reads of this thread see one snapshot, and share a connection: each is one round trip.

        Later changes, including those of this thread, are not seen.
        """
        with self.read() as connection:
            before = getattr(self._views, "connection", None)
            self._views.connection = connection
            try:
                yield
            finally:
                self._views.connection = before

    @contextmanager
    def unordered(self, *, durable: bool = True) -> Iterator[sa.Connection]:
        """A mutation that takes no version: reserved numbers, leases, pins, the outbox and the trash.

        One that is not `durable` may be lost in a power cut, and does not wait for the disk.
        """
        with self._turn(), translated(), self._connect() as connection:
            connection = connection.execution_options(moulin_write="FULL" if durable else "NORMAL")
            decided = False
            try:
                with connection.begin():
                    yield connection
                    decided = True
            except exc.DBAPIError as error:
                if not decided or isinstance(error, (exc.IntegrityError, exc.DataError)):
                    raise
                raise Unavailable(
                    f"The catalog did not confirm the change: {reason(error)}. Its outcome is unknown: check whether "
                    f"it was committed before repeating it."
                ) from error

    @contextmanager
    def repeatable(self) -> Iterator[sa.Connection]:
        """A mutation as of `unordered` that is simply made again when it was lost: in a power cut, or in a crash of
        the database's server, which this process may outlive.
        """
        with self.unordered(durable=False) as connection:
            if not self.is_sqlite:
                execute(connection, "SET LOCAL synchronous_commit TO OFF").close()
            yield connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Writers of this process take turns on SQLite: it lets those that wait poll for the file, and some starve."""
        if not self.is_sqlite:
            yield
            return
        seconds = self.config.lock_seconds
        if not self._turns.acquire(timeout=seconds):
            raise Unavailable(f"The catalog was busy with other changes for {seconds:g} s; nothing was done.")
        try:
            yield
        finally:
            self._turns.release()

    @contextmanager
    def write(self) -> Iterator[Write]:
        """A mutation under the counter's lock, committed on leaving, rolled back on an error."""
        with self.unordered() as connection:
            (row,) = _LOCK_COUNTER.all(connection, {})
            if (gone := gave_up.get()) is not None and gone():
                raise Unavailable("The call was cancelled while it waited for others; nothing was done.")
            self._require_newest(row)
            clock = self.now(connection)
            now = max(row.clock_ns + 1, clock)
            clock = now if now - clock <= self.config.clock_tolerance * 1e9 else clock
            rest = (row.deltas, row.incarnation, row.response_seq, row.routing_seq)
            write = Write(connection, row.version, now, clock, *rest)
            yield write
            kept = ("version", "deltas", "response_seq", "routing_seq")
            changed = {"clock_ns": now, **{name: getattr(write, name) for name in kept}}
            _COUNTER.run(connection, changed)
        self._newest = max(self._newest, write.version)

    def _require_newest(self, row: Any) -> None:
        """Reject an outdated catalog before anything is committed to it."""
        if self.given_up is not None or row.incarnation < 0:
            raise Fenced(self.given_up or GIVEN_UP)
        if self.incarnation not in (None, row.incarnation) or self._was_replaced():
            raise Fenced("The lake's catalog was replaced since it was opened; connect to the lake again.")
        if row.version < self._newest:
            raise Fenced(
                f"The catalog went back from version {self._newest} to {row.version} while it was open: an older copy "
                "replaced it. Stop, and connect to the lake again."
            )

    def give_up(self, reason: str) -> None:
        """Take no more changes, here and in every process: storage belongs to another catalog.

        The mark is the sign of the incarnation, which every mutation reads in any case.
        """
        self.given_up = reason
        with suppress(Unavailable), self.unordered() as connection:
            connection.execute(s.lake.update().values(incarnation=-sa.func.abs(s.lake.c.incarnation)))

    def _was_replaced(self) -> bool:
        """Whether the file that this process has open is no longer the lake's catalog, so that commits would be
        lost.
        """
        return self._inode is not None and self._inode != self._find_inode()

    def _find_inode(self) -> int | None:
        try:
            return None if self._file is None else os.stat(self._file).st_ino
        except OSError:
            return -1

    def now(self, connection: sa.Connection) -> int:
        """Unix nanoseconds by the database's clock, or by the one injected if that is later.

        What is promised from now on for some time must not end early because the injected clock is behind.
        """
        if self.clock is None:
            return self.database_clock(connection)
        mine = self.clock()
        return mine if isinstance(self.clock, SimulatedClock) else max(mine, self.database_clock(connection))

    def own_clock(self, connection: sa.Connection) -> int:
        """The clock injected, else the database's."""
        return self.database_clock(connection) if self.clock is None else self.clock()

    def database_clock(self, connection: sa.Connection) -> int:
        """The clock of the database server; of SQLite, that of this machine."""
        if self.is_sqlite:
            return time.time_ns()
        micros = connection.execute(sa.text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
        return int(micros.scalar_one()) * 1000

    def reserve(self, name: str, count: int, *, noted: bool = True) -> int:
        """Hand out `count` numbers that are never handed out again; returns the first.

        Segment numbers are taken from the catalog many at a time: every small append needs one, and no transaction.
        Those that are `noted` are kept from clean-up.
        """
        if count < 1:
            raise InvalidInput(f"Request at least one {name} number, not {count}.")
        if name != "segment":
            with self.unordered() as connection:
                return take(connection, name, count)
        with self._ahead_lock:
            if os.getpid() != self._ahead_of:
                self._ahead = range(0)
            if count > len(self._ahead):
                with self.unordered() as connection:
                    first = take(connection, name, count + _AHEAD)
                self._ahead, self._ahead_of = range(first, first + count + _AHEAD), os.getpid()
            first = self._ahead.start
            self._ahead = self._ahead[count:]
        if noted:
            self.note_reserved(first, count)
        return first

    def note_reserved(self, first: int, count: int) -> None:
        """Protect files with these segment numbers from clean-up while this process runs and may commit them."""
        if self.living is not None:
            self.living.reserve(first, count)

    def in_use(self) -> InUse:
        """The state of running processes, if the catalog is a file and they are all on this machine."""
        return InUse() if self.living is None else survey(Path(self._file or ""))

    def rewrite(self, busy_ms: int) -> bool:
        """Write the file of a SQLite catalog again, without what was deleted from it, and empty its log.

        False when others hold it up: they read, or write, for longer than `busy_ms`.
        """
        with self._turn(), translated(), self._connect() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            cursor = raw.cursor()
            try:
                cursor.execute(f"PRAGMA busy_timeout={busy_ms}")
                cursor.execute("PRAGMA temp_store=DEFAULT")  # a copy of the whole catalog need not fit into memory
                cursor.execute("VACUUM")
                blocked, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return not blocked
            except sqlite3.OperationalError:
                return False
            finally:
                cursor.execute("PRAGMA temp_store=MEMORY")
                cursor.execute(f"PRAGMA busy_timeout={int(self.config.lock_seconds * 1000)}")
                cursor.close()

    def revision(self) -> str | None:
        """The schema revision found, None for an empty database."""
        with self.read() as connection:
            return _revision(connection)

    def migrate(self) -> None:
        """Migrate the schema to this version, under a lock; a newer one is rejected."""
        found = self.revision()
        self._inode = self._find_inode()
        if found is not None and found > HEAD_REVISION:
            raise Unsupported(
                f"The catalog has schema revision {found}, newer than {HEAD_REVISION} of this version; upgrade moulin."
            )
        if found == HEAD_REVISION:
            return
        with _ALEMBIC, self.unordered() as connection:
            if not self.is_sqlite:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            if _revision(connection) is None:
                create_tables(connection)
                stamp(connection, HEAD_REVISION)
            else:
                upgrade(connection)


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return found


def upgrade(connection: sa.Connection) -> None:
    """Run the migrations that lead from the revision found, or from nothing, to this version's."""
    from alembic import command
    from alembic.config import Config as AlembicConfig

    settings = AlembicConfig()
    settings.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    settings.attributes["connection"] = connection
    command.upgrade(settings, HEAD_REVISION)


def take(connection: sa.Connection, name: str, count: int) -> int:
    """Numbers from a reserve, inside the running transaction; returns the first of `count`."""
    row = s.reserves.c.name == name
    connection.execute(s.reserves.update().where(row).values(next=s.reserves.c.next + count))
    return int(connection.execute(sa.select(s.reserves.c.next).where(row)).scalar_one()) - count


def chunks(values: Sequence[T], size: int = 500) -> Iterator[Sequence[T]]:
    """`values` in pieces short enough for one IN list."""
    return (values[start : start + size] for start in range(0, len(values), size))
