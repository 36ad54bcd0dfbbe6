"""The backends that every test of this suite runs on: SQLite, PostgreSQL, and SQLite behind a live server.

Tests use the public methods of Catalog only, which a catalog over gRPC has, too.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.delivery import named_objects
from moulin.catalog.commit.table_commit import CommitResult, TableCommit
from moulin.catalog.sql.clock import Clock, SimulatedClock
from moulin.catalog.sql.drivers import database_url
from moulin.catalog.sql.pool import Pool
from moulin.config import Config
from moulin.lake import Lake
from moulin.meta.client.catalog import ClientCatalog
from moulin.meta.client.connection import Connection
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import MetaServer, build_server
from moulin.storage.store import Store, open_store
from tests.postgres import Databases


@pytest.hookimpl(tryfirst=True)  # before those with the marker are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pairs of operations that `test_conflicts` tries on SQLite are tried on the other backends by `make test-long`."""
    for item in items:
        found: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        if "before" in found and found.get("module_backend", "sqlite") != "sqlite":
            from tests.contract.test_conflicts import is_tried_on_every_backend

            if not is_tried_on_every_backend(found["now"], found["before"]):
                item.add_marker(pytest.mark.long)


class HandClock(SimulatedClock):
    """Time that tests move by hand, in nanoseconds."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


class Backend(ABC):
    """Makes empty catalogs. A folder for files is at hand, where several processes can work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[Catalog] = []

    @abstractmethod
    def new_uri(self) -> str:
        """The address of a catalog database with nothing in it but its empty tables."""

    def open(
        self, uri: str, store: Store | None = None, config: Config | None = None, clock: Clock | None = None
    ) -> Catalog:
        catalog = Catalog.open(uri, store or memory_store(), config or Config(), clock=clock)
        self._opened.append(catalog)
        return catalog

    def close(self) -> None:
        """Let go of all catalogs; their databases may be used again. Nothing prevents from opening new ones."""
        for catalog in self._opened:
            catalog.close()
        self._opened.clear()


class SqliteBackend(Backend):
    def __init__(self, folder: Path, template: Path) -> None:
        super().__init__(folder)
        self._template = template

    def new_uri(self) -> str:
        file = self.folder / f"{uuid.uuid4().hex}.sqlite"
        shutil.copyfile(self._template, file)
        return f"sqlite:///{file}"


class GrpcBackend(SqliteBackend):
    """Catalogs in SQLite, each behind a server of its own; tests get the client's side of it."""

    def __init__(self, folder: Path, template: Path) -> None:
        super().__init__(folder, template)
        self._servers: list[MetaServer] = []
        self._patch = pytest.MonkeyPatch()

    def open(
        self, uri: str, store: Store | None = None, config: Config | None = None, clock: Clock | None = None
    ) -> Catalog:
        # Samples have no rows in them.
        for look in ("check_footer", "check_vectors", "check_index", "check_column_file"):
            self._patch.setattr(f"moulin.catalog.commit.delivery.{look}", lambda *_: None)
        served = super().open(uri, store, config, clock)
        server = build_server(Lake(served, served.store, uri), ServeConfig(bind="127.0.0.1:0", http_bind="", threads=8))
        self._servers.append(server.start())
        return cast(Catalog, GrpcCatalog(f"grpc://{server.address}", served))

    def close(self) -> None:
        for server in self._servers:
            server.stop(5)
        self._servers.clear()
        self._patch.undo()
        super().close()


class GrpcCatalog(ClientCatalog):
    """The client's side; `pool`, `store` and `publisher` are those of the catalog behind the server."""

    def __init__(self, uri: str, served: Catalog) -> None:
        super().__init__(Connection(uri), served.uuid, served.config)
        self.pool, self.store, self.publisher = served.pool, served.store, served.publisher

    def commit(
        self, changes: Sequence[TableCommit], *, request_id: str | None = None, digest: bytes | None = None
    ) -> CommitResult:
        """The server looks for the files of a commit: those of samples are made now, empty but of the right size."""
        for path, size, _ in (one for change in changes for one in named_objects(change)):
            if not self.store.exists(path):
                self.store.put(path, bytes(size))
        return super().commit(changes, request_id=request_id, digest=digest)


class PostgresBackend(Backend):
    """Databases are emptied and used again: making one takes longer than most tests."""

    def __init__(self, folder: Path, server: str, databases: Databases) -> None:
        super().__init__(folder)
        self._server, self._databases = server, databases
        self._used: list[str] = []

    def new_uri(self) -> str:
        self._used.append(self._databases.take())
        return f"{self._server}/{self._used[-1]}"

    def close(self) -> None:
        super().close()
        while self._used:
            self._databases.give_back(self._used.pop())


def memory_store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


def _migrate(uri: str) -> None:
    pool = Pool(database_url(uri), Config())
    pool.migrate()
    pool.close()


@contextmanager
def _fast_folder() -> Iterator[Path]:
    """A folder in memory where the system has one: the suite makes thousands of commits, each waiting for the disk."""
    parent = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=parent if parent.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("template") / "template.sqlite"
    _migrate(f"sqlite:///{file}")
    return file


BACKENDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
ALL_BACKENDS = [*BACKENDS, "grpc"]


def _backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made: Backend
    with _fast_folder() as folder:
        if request.param in ("sqlite", "grpc"):
            kind = SqliteBackend if request.param == "sqlite" else GrpcBackend
            made = kind(folder, request.getfixturevalue("sqlite_template"))
        else:
            server: str = request.getfixturevalue("postgres_server")
            made = PostgresBackend(folder, server, request.getfixturevalue("postgres_databases"))
        yield made
        made.close()


@pytest.fixture(params=ALL_BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    yield from _backend(request)


@pytest.fixture(scope="module", params=ALL_BACKENDS)
def module_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    yield from _backend(request)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(scope="module")
def shared_catalog(module_backend: Backend) -> Catalog:
    """One catalog for many tests that each make a table of their own."""
    return module_backend.open(module_backend.new_uri())


@pytest.fixture
def catalog(backend: Backend, clock: HandClock) -> Catalog:
    """An empty catalog whose time stands still until the test moves it."""
    return backend.open(backend.new_uri(), clock=clock)
