"""Every service that a server has, in one list: its name, its servicer, and which role each of its calls takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from moulin.meta.roles import Role
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


# For example, in the order of the seed's list:
#   Service("moulin.meta.v1.DatabaseService", database_pb2_grpc.add_DatabaseServiceServicer_to_server, DatabaseServicer,
#           Role.WRITE, reads("ListDatabases", "PreviewDeleteDatabase")),
SERVICES: tuple[Service, ...] = ()
