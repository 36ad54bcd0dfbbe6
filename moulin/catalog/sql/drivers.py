"""The two databases that a catalog may be in: how SQLAlchemy connects to SQLite and to PostgreSQL, and to which one."""

# Decisions: docs/decisions/0498, docs/decisions/0641

from __future__ import annotations

import math
import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy import exc

from moulin.catalog.sql.prepared import execute
from moulin.config import Config
from moulin.errors import InvalidInput, missing_extra
from moulin.storage import modes

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql as _postgresql
    from sqlalchemy.dialects import sqlite as _sqlite

_PING_SECONDS: Final = 1.0
_SQLITE = "sqlite:///"
_LEVEL = "moulin_synchronous"  # as a connection was last told


def sqlite(url: sa.URL, config: Config) -> sa.Engine:
    if url.database:
        with suppress(OSError):  # it is there, or SQLite will say what is wrong
            os.close(modes.open_private(url.database, os.O_RDWR | os.O_EXCL))  # those beside it get its mode
    arguments = {"timeout": config.lock_seconds, "check_same_thread": False}
    # The connection used last knows the statements, and the pages that they need.
    engine = sa.create_engine(url, connect_args=arguments, poolclass=sa.QueuePool, pool_use_lifo=True)

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions on its own
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "foreign_keys=ON", "temp_store=MEMORY"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        level = connection.get_execution_options().get("moulin_write")
        if level is not None and connection.info.get(_LEVEL) != level:
            execute(connection, f"PRAGMA synchronous={level}").close()
            connection.info[_LEVEL] = level
        execute(connection, "BEGIN" if level is None else "BEGIN IMMEDIATE").close()

    return engine


def postgresql(url: sa.URL, config: Config) -> sa.Engine:
    millis = int(config.lock_seconds * 1000)
    options = f"-c lock_timeout={millis} -c idle_in_transaction_session_timeout={millis}"
    try:
        engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,
            max_overflow=27,  # with the five that stay open, one for each call that a server runs at a time
            connect_args={
                "options": options,
                "connect_timeout": max(2, int(config.lock_seconds)),
                **_until_lost(url, millis),
            },
        )
    except ImportError:  # without psycopg, or without a libpq for it
        raise missing_extra("A catalog in PostgreSQL", "postgres") from None
    _ping_seldom(engine.dialect)
    return engine


def _until_lost(url: sa.URL, millis: int) -> dict[str, int]:
    """Timeouts for detecting a dead server; the catalog's address takes precedence."""
    idle, interval = max(1, millis // 3000), max(1, millis // 9000)
    chosen = {"keepalives_idle": idle, "keepalives_interval": interval, "keepalives_count": 6}
    return {name: value for name, value in {**chosen, "tcp_user_timeout": millis}.items() if name not in url.query}


def _ping_seldom(dialect: Any) -> None:
    """Check a recently used connection only if the server sent something: when the server closes it, it sends a
    message.
    """
    ping, answered = dialect.do_ping, WeakKeyDictionary[Any, float]()

    def do_ping(connection: Any) -> bool:
        if time.monotonic() < answered.get(connection, -math.inf) + _PING_SECONDS and not _has_input(connection):
            return True
        found = bool(ping(connection))
        answered[connection] = time.monotonic()
        return found

    dialect.do_ping = do_ping


def _has_input(connection: Any) -> bool:
    """Whether something can be read from a connection that waits for nothing; also of one that is closed."""
    if connection.closed:
        return True
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    return bool(waiting.poll(0))


def upsert(connection: sa.Connection, table: sa.Table) -> _sqlite.Insert | _postgresql.Insert:
    """An INSERT that can say what to do `on_conflict`. The dialect of the other database is not loaded."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        return sqlite_insert(table)
    from sqlalchemy.dialects.postgresql import insert as postgresql_insert

    return postgresql_insert(table)


def database_url(uri: str) -> sa.URL:
    """The SQLAlchemy form of a catalog's address; the error never repeats a password."""
    if uri.startswith(_SQLITE):  # what follows is the path of a file as it is: `?` and `%` in it mean nothing
        return sa.URL.create("sqlite", database=uri.removeprefix(_SQLITE))
    try:
        url = sa.make_url(uri)
    except exc.ArgumentError:
        raise InvalidInput("The catalog's address is not a valid postgresql:// URL.") from None
    if url.drivername not in ("postgresql", "postgresql+psycopg", "sqlite"):
        raise InvalidInput(f"Unknown catalog {url.drivername!r}; use a folder or a postgresql:// URL.")
    return url
