"""An HTTP server with limits, for an ASGI app. All HTTP servers of Moulin use it."""

# Decisions: docs/decisions/0221

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from moulin.errors import Unavailable
from moulin.network.connections import Connections, Listener
from moulin.network.limits import Limits
from moulin.network.protocol import IDLE_SECONDS, GuardedProtocol
from moulin.network.websocket import SendingSocket

_BACKLOG = 256


def listen(host: str, port: int, limits: Limits) -> Listener:
    """A bound socket that listens; Unavailable when it cannot. Who connects before the server runs waits for it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, TCP gets TCP_NODELAY from asyncio; without it answers in two parts wait 40 ms for a delayed ACK.
    bound = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.connections = Connections(limits)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise Unavailable(f"Cannot listen on {host}:{port}: {error.strerror}.") from None
    bound.listen(_BACKLOG)
    return bound


def configure(
    app: ASGIApp,
    listener: Listener,
    *,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    drain_seconds: float = 30.0,
    lifespan: bool = True,
) -> uvicorn.Config:
    """The configuration of a uvicorn server for `sockets=[listener]`."""
    listener.secure = bool(certificate)
    protocol: Any = partial(GuardedProtocol, listener.connections)
    return uvicorn.Config(
        app,
        http=cast(Any, protocol),
        loop="asyncio",  # it accepts by the listener's own method
        ws=cast(Any, SendingSocket),
        lifespan="auto" if lifespan else "off",
        backlog=_BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_certfile=certificate or None,
        ssl_keyfile=key or None,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=max(1, int(drain_seconds)),
    )
