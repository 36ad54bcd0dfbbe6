"""The gRPC server: every service of `services.SERVICES`, health and reflection, drained when it stops."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from moulin.errors import Unavailable
from moulin.lake import Lake
from moulin.meta.calls import Calls, Observer
from moulin.meta.config import ServeConfig, split_address
from moulin.meta.services import SERVICES, Service
from moulin.meta.site import Site


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
) -> MetaServer:
    """A server over `lake`, bound to its port and not yet started."""
    site = Site(lake, config or ServeConfig())
    serve = site.serve
    pool = ThreadPoolExecutor(serve.threads, thread_name_prefix="moulin-call")
    server = grpc.server(
        pool,
        interceptors=[Calls(observer)],
        maximum_concurrent_rpcs=serve.max_calls,
        options=[
            ("grpc.max_receive_message_length", serve.max_message_bytes),
            ("grpc.max_send_message_length", serve.max_message_bytes),
            ("grpc.so_reuseport", 0),
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
    made.port = _bind(server, serve)
    return made


def _bind(server: grpc.Server, serve: ServeConfig) -> int:
    try:
        port: Any = server.add_insecure_port(serve.bind)
    except RuntimeError:
        port = 0
    if not port:
        raise Unavailable(f"{serve.bind} cannot be listened on: another process may have it, or the host is not here.")
    return int(port)
