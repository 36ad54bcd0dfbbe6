"""A live server on loopback, over SQLite and over PostgreSQL, and stubs for every service.

`live` is one server over one catalog, shared by the tests of a module: each makes objects of its own names. `fresh` is
one of its own. Time stands still in both until a test moves it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
import pytest

from moulin.catalog.catalog import Catalog
from moulin.config import Config
from moulin.errors import MoulinError
from moulin.lake import Lake
from moulin.meta.codec.errors import from_rpc_error
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import MetaServer, build_server
from moulin.storage.store import Store, open_store
from tests.contract.conftest import BACKENDS, Backend, HandClock, _backend, sqlite_template

__all__ = ["sqlite_template"]

Stub = TypeVar("Stub")
LOOPBACK = ServeConfig(bind="127.0.0.1:0", http_bind="", drain_seconds=5)


class Live:
    """A running server, the lake behind it, and channels to it."""

    def __init__(self, lake: Lake, clock: HandClock, serve: ServeConfig) -> None:
        self.lake, self.clock = lake, clock
        self.server: MetaServer = build_server(lake, serve).start()
        self.channel = grpc.insecure_channel(self.server.address, [("grpc.max_receive_message_length", 1 << 27)])

    @property
    def catalog(self) -> Catalog:
        return self.lake.own_catalog()

    def stub(self, kind: Callable[[grpc.Channel], Stub]) -> Stub:
        """The stub of a service: `live.stub(DatabaseServiceStub).ListDatabases(...)`."""
        return kind(self.channel)

    def stop(self) -> None:
        self.channel.close()
        self.server.stop(1)


def name(prefix: str = "x") -> str:
    """A name that no other test uses."""
    return f"{prefix}_{uuid.uuid4().hex[:12]}"


@contextmanager
def refused(code: grpc.StatusCode, match: str = "") -> Iterator[list[MoulinError]]:
    """The call inside fails with this status; its error, as a client sees it, is put into the list."""
    seen: list[MoulinError] = []
    with pytest.raises(grpc.RpcError) as caught:
        yield seen
    error: Any = caught.value
    assert error.code() is code, f"{error.code()}: {error.details()}"
    assert match in error.details(), error.details()
    seen.append(from_rpc_error(error))


@contextmanager
def serving(
    backend: Backend,
    *,
    config: Config | None = None,
    serve: ServeConfig = LOOPBACK,
    uri: str | None = None,
    store: Store | None = None,
) -> Iterator[Live]:
    """A server over an empty catalog, or over the one at `uri` with its `store` (then beside others that serve it)."""
    clock = HandClock()
    store = store or open_store(f"memory://{uuid.uuid5(uuid.NAMESPACE_URL, uri) if uri else uuid.uuid4()}")
    address = uri or backend.new_uri()
    catalog = Catalog.open(address, store, config or Config(), clock=clock)
    lake = Lake(catalog, store, address)
    live = Live(lake, clock, serve)
    try:
        yield live
    finally:
        live.stop()
        lake.close()


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    yield from _backend(request)


@pytest.fixture(scope="module")
def live(backend: Backend) -> Iterator[Live]:
    with serving(backend) as made:
        yield made


@pytest.fixture
def fresh(backend: Backend) -> Iterator[Live]:
    with serving(backend) as made:
        yield made


@pytest.fixture
def clock(live: Live) -> HandClock:
    return live.clock
