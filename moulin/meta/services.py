"""Every service that a server has, in one list: its name, its servicer, and which role each of its calls takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from moulin._proto.moulin.lake.v1 import catalog_pb2_grpc
from moulin._proto.moulin.meta.v1 import (
    cluster_pb2_grpc,
    database_pb2_grpc,
    ingest_token_pb2_grpc,
    ingestion_pb2_grpc,
    nursery_pb2_grpc,
    table_pb2_grpc,
    view_pb2_grpc,
)
from moulin.meta.catalog_service import CatalogServicer
from moulin.meta.cluster import ClusterServicer
from moulin.meta.database import DatabaseServicer
from moulin.meta.ingest_token import IngestTokenServicer
from moulin.meta.ingestion import IngestionServicer
from moulin.meta.nursery import NurseryServicer
from moulin.meta.roles import CATALOG_READS, Role
from moulin.meta.site import Site
from moulin.meta.table import TableServicer
from moulin.meta.view import ViewServicer


@dataclass(frozen=True, slots=True)
class Service:
    """One gRPC service.

    `name` is its full name, `add` the generated function that adds a servicer to a server, `servicer` makes one. Its
    calls take `role`, but for those that `roles` names.
    """

    name: str
    add: Callable[[Any, Any], None]
    servicer: Callable[[Site], Any]
    role: Role
    roles: Mapping[str, Role] = field(default_factory=dict)

    def role_of(self, method: str) -> Role:
        return self.roles.get(method, self.role)


def reads(*methods: str) -> dict[str, Role]:
    """The calls of a service that change nothing."""
    return dict.fromkeys(methods, Role.READ)


class Loop(Protocol):
    """Something that a server does in the background, in a thread of its own."""

    def start(self) -> None: ...
    def stop(self) -> None:
        """End, and return when it has ended."""


SERVICES: tuple[Service, ...] = (
    Service(
        "moulin.meta.v1.DatabaseService",
        database_pb2_grpc.add_DatabaseServiceServicer_to_server,
        DatabaseServicer,
        Role.WRITE,
        reads("ListDatabases", "PreviewDeleteDatabase", "GetDatabase", "ListTombstones"),
    ),
    Service(
        "moulin.meta.v1.TableService",
        table_pb2_grpc.add_TableServiceServicer_to_server,
        TableServicer,
        Role.WRITE,
        reads("ListTables", "GetTable", "GetShardingFields"),
    ),
    Service(
        "moulin.meta.v1.ViewService",
        view_pb2_grpc.add_ViewServiceServicer_to_server,
        ViewServicer,
        Role.WRITE,
        reads("GetView", "ListViews", "LookupTableOrView"),
    ),
    Service(
        "moulin.meta.v1.ClusterService",
        cluster_pb2_grpc.add_ClusterServiceServicer_to_server,
        ClusterServicer,
        Role.PIPELINE,
        reads("ListMembers", "GetConfiguration"),
    ),
    Service(
        "moulin.meta.v1.IngestionService",
        ingestion_pb2_grpc.add_IngestionServiceServicer_to_server,
        IngestionServicer,
        Role.PIPELINE,
    ),
    Service(
        "moulin.meta.v1.IngestTokenService",
        ingest_token_pb2_grpc.add_IngestTokenServiceServicer_to_server,
        IngestTokenServicer,
        Role.ADMIN,
        {"ValidateIngestToken": Role.PIPELINE},
    ),
    Service(
        "moulin.meta.v1.NurseryService",
        nursery_pb2_grpc.add_NurseryServiceServicer_to_server,
        NurseryServicer,
        Role.PIPELINE,
    ),
    Service(
        "moulin.lake.v1.CatalogService",
        catalog_pb2_grpc.add_CatalogServiceServicer_to_server,
        CatalogServicer,
        Role.WRITE,
        reads(*CATALOG_READS),
    ),
)

# What a server also runs; each is made from its site.
LOOPS: tuple[Callable[[Site], Loop], ...] = ()
