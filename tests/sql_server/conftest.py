"""A SQL server in this process, on its Spark session, and clients that send it messages of their own making."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import grpc
import pytest

import moulin
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moulin import Lake
    from moulin.sql_server.server import SqlServer


@dataclass
class Served:
    lake: Lake
    server: SqlServer
    tokens: dict[str, str]
    access: AccessFile

    def url(self, token: str) -> str:
        """The address for PySpark."""
        return f"{self.server.address}/;token={self.tokens[token]}"

    def client(self, token: str | None) -> Client:
        return Client(self.server.port, None if token is None else self.tokens[token])


@dataclass
class Client:
    """Sends messages as they are, each with the session that a well-meaning client would name."""

    port: int
    token: str | None
    session: str = field(default_factory=lambda: str(uuid4()))

    def __post_init__(self) -> None:
        from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.stub: Any = SparkConnectServiceStub(self.channel)  # type: ignore[no-untyped-call]

    @property
    def metadata(self) -> list[tuple[str, str]]:
        return [] if self.token is None else [("authorization", f"Bearer {self.token}")]

    def call(self, name: str, request: Any) -> Any:
        if hasattr(request, "session_id") and not request.session_id:
            request.session_id = self.session
        return getattr(self.stub, name)(request, metadata=self.metadata, timeout=120)

    def close(self) -> None:
        import pyspark.sql.connect.proto as pb

        self.call("ReleaseSession", pb.ReleaseSessionRequest())
        self.channel.close()

    def execute(self, plan: Any, *, operation: str = "", reattachable: bool = False) -> list[Any]:
        """All answers to a plan."""
        return list(self.stream(plan, operation=operation, reattachable=reattachable))

    def stream(self, plan: Any, *, operation: str = "", reattachable: bool = False) -> Any:
        import pyspark.sql.connect.proto as pb

        request = pb.ExecutePlanRequest(session_id=self.session, operation_id=operation, plan=plan)
        if reattachable:
            request.request_options.add().reattach_options.reattachable = True
        return self.call("ExecutePlan", request)


@pytest.fixture(scope="session")
def served(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from moulin.sql_server.server import SqlServer

    folder: Path = tmp_path_factory.mktemp("sql-server")
    access = AccessFile(folder / "access.toml")
    tokens = {name: access.create(name, Role.READ) for name in ("reader", "other")}
    tokens["writer"] = access.create("writer", Role.WRITE)
    config = ServeConfig(
        bind="127.0.0.1:0",
        http_bind="",
        auth="on",
        access_file=str(access.path),
        drain_seconds=5,
        max_message_bytes=4 << 20,
    )
    with moulin.connect(folder / "lake", merge_local_bytes=1) as lake:
        lake.create_database("shop")
        orders = lake.create_table("shop.orders", [("id", "long", False), ("amount", "double"), ("name", "string")])
        orders.append([{"id": number, "amount": number / 2, "name": f"n{number}"} for number in range(1, 6)])
        server = SqlServer(lake, config).start()
        yield Served(lake, server, tokens, access)
        server.stop()


@pytest.fixture
def reader(served: Served) -> Iterator[Client]:
    client = served.client("reader")
    yield client
    client.close()


@pytest.fixture
def writer(served: Served) -> Iterator[Client]:
    client = served.client("writer")
    yield client
    client.close()
