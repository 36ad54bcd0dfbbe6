"""The gRPC server: every service of `services.SERVICES`, health and reflection, drained when it stops."""

# Decisions: docs/decisions/0104

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import symbol_database
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from moulin.errors import FailedPrecondition, InvalidInput, Unavailable
from moulin.lake import Lake
from moulin.meta.auth import AccessFile, Authenticator, Gate
from moulin.meta.authority import Authority
from moulin.meta.config import ServeConfig, is_loopback, split_address
from moulin.meta.issuer import Issuer, IssuerSettings
from moulin.meta.roles import Role
from moulin.meta.server.calls import Calls, Observer
from moulin.meta.server.cluster import ClusterCheck
from moulin.meta.server.services import SERVICES, Service
from moulin.meta.site import Site
from moulin.network.limits import grpc_options


class MetaServer:
    """One server over one lake. The lake stays open when the server stops."""

    def __init__(
        self, site: Site, server: grpc.Server, pool: ThreadPoolExecutor, monitor: health.HealthServicer
    ) -> None:
        self.site = site
        self.port = 0
        self._server, self._pool, self._health = server, pool, monitor

    @property
    def address(self) -> str:
        """host:port, as a client on this machine may use it."""
        host, _ = split_address(self.site.serve.bind)
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def start(self) -> MetaServer:
        self._server.start()
        self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        return self

    def stop(self, drain_seconds: float | None = None) -> bool:
        """Take no more calls, wait for those that run, and end; False when some had to be cut off."""
        self._health.enter_graceful_shutdown()
        grace = self.site.serve.drain_seconds if drain_seconds is None else drain_seconds
        drained: bool = self._server.stop(grace).wait(grace)
        self._server.stop(None).wait()
        self._pool.shutdown(wait=True)
        return drained

    def wait(self) -> None:
        self._server.wait_for_termination()


def build_server(
    lake: Lake,
    config: ServeConfig | None = None,
    *,
    services: Sequence[Service] = SERVICES,
    observer: Observer | None = None,
    storage_options: Mapping[str, str] | None = None,
    access: Authenticator | None = None,
) -> MetaServer:
    """A server over `lake`, bound to its port and not yet started.

    `storage_options` are those that the lake's storage was opened with; clients are told them if the configuration says
    so. `access` says who has a token, in place of what the configuration names.
    """
    serve = config or ServeConfig()
    site = Site(lake, serve, storage_options or {})
    gate = Gate(access or open_access(lake, serve), roles_of(services))
    pool = ThreadPoolExecutor(serve.threads, thread_name_prefix="moulin-call")
    server = grpc.server(
        pool,
        interceptors=[Calls(gate, observer), ClusterCheck(site)],
        maximum_concurrent_rpcs=serve.max_calls,
        options=[
            ("grpc.max_receive_message_length", serve.max_message_bytes),
            ("grpc.max_send_message_length", serve.max_message_bytes),
            ("grpc.so_reuseport", 0),
            *grpc_options(serve.limits),
        ],
    )
    for service in services:
        service.add(service.servicer(site), server)
    monitor = health.HealthServicer(experimental_non_blocking=True, experimental_thread_pool=ThreadPoolExecutor(1))
    health_pb2_grpc.add_HealthServicer_to_server(monitor, server)
    for service in services:
        monitor.set(service.name, health_pb2.HealthCheckResponse.SERVING)
    names = [service.name for service in services]
    reflection.enable_server_reflection((*names, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    made = MetaServer(site, server, pool, monitor)
    made.port = bind(server, serve)
    return made


def roles_of(services: Sequence[Service]) -> dict[str, Role]:
    """The role that each call takes, by its path."""
    roles = {}
    for service in services:
        package, _, name = service.name.rpartition(".")
        methods = symbol_database.Default().pool.FindServiceByName(service.name).methods
        roles.update({f"/{package}.{name}/{method.name}": service.role_of(method.name) for method in methods})
    return roles


def access_path(lake: Lake, serve: ServeConfig) -> Path:
    """The file of access tokens: the one set, else access.toml beside the lake's catalog."""
    if serve.access_file:
        return Path(serve.access_file)
    folder = None if "://" in lake.uri and not lake.uri.startswith("file://") else lake.store.local_path("access.toml")
    if folder is None:
        raise InvalidInput("No file with access tokens: set access_file in [serve] of moulin.toml.")
    return folder


def open_access(lake: Lake, serve: ServeConfig) -> Authority | None:
    """The token checker; None if no tokens are required, which is only allowed on loopback."""
    exposed = [name for name in (serve.bind, serve.http_bind) if name and not is_loopback(name)]
    if serve.auth == "off" or (serve.auth == "auto" and not exposed and not serve.issuer):
        if exposed:
            raise FailedPrecondition(
                f"A server on {exposed[0]} can be reached from other machines and must require tokens: remove auth "
                f"or set it to on, or bind to 127.0.0.1."
            )
        return None
    if serve.issuer:
        settings = IssuerSettings.of(serve.issuer, serve.issuer_audience, serve.issuer_role_claim, serve.issuer_roles)
        return Authority(_access_file(lake, serve), Issuer(settings), serve.ticket_seconds)
    access = AccessFile(access_path(lake, serve))
    if not access.tokens():
        raise FailedPrecondition(
            f"The server requires tokens, but {access.path} has none: create one with `moulin access create NAME`."
        )
    return Authority(access, None, serve.ticket_seconds)


def _access_file(lake: Lake, serve: ServeConfig) -> AccessFile | None:
    """The access tokens beside those of an issuer; a lake without a folder need not have any."""
    try:
        return AccessFile(access_path(lake, serve))
    except InvalidInput:
        return None


def bind(server: grpc.Server, serve: ServeConfig) -> int:
    try:
        port: Any
        if serve.tls_certificate:
            port = server.add_secure_port(serve.bind, _credentials(serve))
        else:
            port = server.add_insecure_port(serve.bind)
    except RuntimeError:
        port = 0
    if not port:
        raise Unavailable(
            f"Cannot listen on {serve.bind}: another process may use it, or the host is not on this machine."
        )
    return int(port)


def _credentials(serve: ServeConfig) -> grpc.ServerCredentials:
    """Read again for each new connection, so that a renewed certificate needs no restart."""

    def load() -> Any:
        key, chain = Path(serve.tls_key).read_bytes(), Path(serve.tls_certificate).read_bytes()
        return grpc.ssl_server_certificate_configuration([(key, chain)])

    def renew() -> Any:
        try:
            return load()
        except OSError:
            return None  # it is being replaced: the one in use stays

    try:
        return grpc.dynamic_ssl_server_credentials(load(), renew)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"The TLS certificate or key cannot be read: {error}.") from None
