"""A private server for child processes: on loopback, with one token that only they know."""

# Decisions: docs/decisions/0650

from __future__ import annotations

import hmac
import secrets
from typing import Final

from moulin.errors import Unauthenticated
from moulin.lake import Lake
from moulin.meta.auth import Caller
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from moulin.meta.server.server import MetaServer, build_server

_NAME: Final = "child"
_THREADS: Final = 4


class OneToken:
    """Knows one token, for as long as the process lives."""

    def __init__(self, role: Role) -> None:
        self.secret: Final = secrets.token_urlsafe(32)
        self._caller = Caller(_NAME, role)

    def authenticate(self, token: str) -> Caller:
        if not hmac.compare_digest(token.encode(), self.secret.encode()):
            raise Unauthenticated("Unknown token.")
        return self._caller


class PrivateServer:
    """Serves the catalog of a lake to children. `address` and `token` are what they open it with."""

    def __init__(self, lake: Lake, role: Role) -> None:
        access = OneToken(role)
        config = ServeConfig(bind="127.0.0.1:0", http_bind="", threads=_THREADS, drain_seconds=1.0)
        self._server: MetaServer = build_server(lake, config, access=access).start()
        self.address, self.token = f"grpc://{self._server.address}", access.secret

    def stop(self) -> None:
        self._server.stop()


__all__ = ["PrivateServer"]
