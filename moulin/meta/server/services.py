"""The list of services of a server: name, servicer, and the role of each call."""

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
    janitor_pb2_grpc,
    merge_task_pb2_grpc,
    nursery_pb2_grpc,
    segment_deletion_pb2_grpc,
    segment_lookup_pb2_grpc,
    table_pb2_grpc,
    view_pb2_grpc,
)
from moulin.meta.roles import CATALOG_READS, Role
from moulin.meta.server.cluster import ClusterServicer
from moulin.meta.server.janitor_loop import Janitor
from moulin.meta.services.catalog_service import CatalogServicer
from moulin.meta.services.database import DatabaseServicer
from moulin.meta.services.ingest_token import IngestTokenServicer
from moulin.meta.services.ingestion import IngestionServicer
from moulin.meta.services.janitor import JanitorServicer
from moulin.meta.services.merge_task import MergeTaskServicer
from moulin.meta.services.nursery import NurseryServicer
from moulin.meta.services.segment_deletion import SegmentDeletionServicer
from moulin.meta.services.segment_lookup import SegmentLookupServicer
from moulin.meta.services.table import TableServicer
from moulin.meta.services.view import ViewServicer
from moulin.meta.site import Site


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

    def start(self) -> object: ...
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
        "moulin.meta.v1.MergeTaskService",
        merge_task_pb2_grpc.add_MergeTaskServiceServicer_to_server,
        MergeTaskServicer,
        Role.PIPELINE,
    ),
    Service(
        "moulin.meta.v1.SegmentDeletionService",
        segment_deletion_pb2_grpc.add_SegmentDeletionServiceServicer_to_server,
        SegmentDeletionServicer,
        Role.PIPELINE,
    ),
    Service(
        "moulin.meta.v1.SegmentLookupService",
        segment_lookup_pb2_grpc.add_SegmentLookupServiceServicer_to_server,
        SegmentLookupServicer,
        Role.READ,
    ),
    Service(
        "moulin.meta.v1.JanitorService",
        janitor_pb2_grpc.add_JanitorServiceServicer_to_server,
        JanitorServicer,
        Role.PIPELINE,
        reads("GetJanitorStats", "GetSegmentSizeStats", "ListMergeTasks", "GetMergeTask"),
    ),
    Service(
        "moulin.lake.v1.CatalogService",
        catalog_pb2_grpc.add_CatalogServiceServicer_to_server,
        CatalogServicer,
        Role.WRITE,
        {
            **reads(*CATALOG_READS),
            **dict.fromkeys(("AddBase", "DropBase"), Role.ADMIN),  # the server reads what lies there
            "EraseRows": Role.ADMIN,  # takes history away, for good
        },
    ),
)

# What a server also runs; each is made from its site.
LOOPS: tuple[Callable[[Site], Loop], ...] = (lambda site: Janitor(site.lake),)
