"""Every service that a server has, in one list: its name, its servicer, and which role each of its calls takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from moulin._proto.moulin.lake.v1 import catalog_pb2_grpc
from moulin.meta.catalog_service import CatalogServicer
from moulin.meta.roles import CATALOG_READS, Role
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

    def start(self) -> None: ...
    def stop(self) -> None:
        """End, and return when it has ended."""


SERVICES: tuple[Service, ...] = (
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
