"""A collector on the network: both servers, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import uvicorn

from moulin.errors import FailedPrecondition, InvalidInput, Unavailable
from moulin.ingest.collector.collector import Collector
from moulin.ingest.collector.grpc_server import make_server
from moulin.ingest.collector.http import make_app
from moulin.network.connections import Listener
from moulin.network.hosts import allowed_hosts
from moulin.network.http_server import configure
from moulin.network.http_server import listen as open_listener
from moulin.network.limits import Limits

_log = logging.getLogger(__name__)

GRPC_PORT: Final = 4317
HTTP_PORT: Final = 4318


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen; port 0 takes any that is free. `certificate` and `key` are PEM files, and switch TLS on."""

    host: str = "127.0.0.1"
    grpc_port: int = GRPC_PORT
    http_port: int = HTTP_PORT
    certificate: Path | None = None
    key: Path | None = None
    drain_seconds: float = 30.0


class _HttpServer(uvicorn.Server):
    """Leaves signals to the collector, which drains both servers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    collector: Collector,
    listen: Listen,
    *,
    ready: Callable[[int, int], None] = lambda grpc_port, http_port: None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, or until `stop` is set; then everything taken is stored and answered.

    `ready` is told the ports once requests are taken.
    """
    if (listen.certificate is None) != (listen.key is None):
        raise InvalidInput("TLS needs a certificate and its key: give both, or none.")
    ended = stop or asyncio.Event()
    settings = collector.settings
    with _bound(listen.host, listen.http_port, settings.connections) as listener:
        grpc_server = make_server(collector)
        grpc_port = _add_port(grpc_server, listen)
        app = make_app(collector, allowed_hosts(listen.host, settings.allowed_hosts), listener.connections)
        web = _HttpServer(
            configure(
                app,
                listener,
                certificate=listen.certificate,
                key=listen.key,
                drain_seconds=listen.drain_seconds,
                lifespan=False,
            )
        )
        with _on_signal(ended.set):
            async with collector.running():
                await grpc_server.start()
                serving = asyncio.create_task(web.serve(sockets=[listener]))
                http_port = listener.getsockname()[1]
                _log.info("collecting", extra={"host": listen.host, "grpc": grpc_port, "http": http_port})
                ready(grpc_port, http_port)
                ending = asyncio.create_task(ended.wait())
                await asyncio.wait([ending, serving], return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
                _log.info("stopping", extra={"drain_seconds": listen.drain_seconds})
                collector.drain()
                web.should_exit = True
                await asyncio.gather(grpc_server.stop(listen.drain_seconds), serving)
    _log.info("stopped")


def _add_port(server: grpc.aio.Server, listen: Listen) -> int:
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    address = f"{host}:{listen.grpc_port}"
    try:
        if listen.certificate is None or listen.key is None:
            port: int = server.add_insecure_port(address)
            return port
        pair = (listen.key.read_bytes(), listen.certificate.read_bytes())
        secure: int = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        return secure
    except OSError as error:
        raise InvalidInput(f"The certificate or its key cannot be read: {error.strerror}.") from None
    except RuntimeError:
        raise FailedPrecondition(f"Nothing can listen on {address}: is another collector running?") from None


@contextmanager
def _bound(host: str, port: int, limits: Limits) -> Iterator[Listener]:
    try:
        bound = open_listener(host, port, limits)
    except Unavailable as error:
        raise FailedPrecondition(f"{error.message} Is another collector running?") from None
    with bound:
        yield bound


@contextmanager
def _on_signal(call: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    caught = []
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, call)
            caught.append(number)
        except (RuntimeError, ValueError):  # not in the main thread: the caller sets `stop`
            break
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
