"""Limits for clients of a server: time to send a request, and connections."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Any, Final

_RESERVED: Final = 384  # open files for the lake itself, and for connections that are just being closed
_FEWEST: Final = 16
_IDLE_SECONDS: Final = 300
_CALLS: Final = 256


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one server. A body may take longer than `body_seconds` as long as it moves (see `protocol`)."""

    header_seconds: float = 10.0
    body_seconds: float = 30.0
    connections: int = 1000
    peer_connections: int = 250


def raise_open_files(limits: Limits) -> None:
    """Let this process open as many files as its connections take, over gRPC and HTTP, if the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * limits.connections + _RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))


def affordable(limits: Limits) -> int:
    """The connections that one of two servers in this process may have: the limit, or what open files allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits.connections
    return min(limits.connections, max(_FEWEST, (soft - _RESERVED) // 2))


def grpc_options(limits: Limits) -> list[tuple[str, Any]]:
    """Options of a gRPC server. gRPC counts connections in all, not by peer, and has no time-out for one message."""
    return [
        ("grpc.max_allowed_incoming_connections", affordable(limits)),
        ("grpc.server_handshake_timeout_ms", max(1, int(limits.header_seconds * 1000))),
        ("grpc.max_concurrent_streams", _CALLS),  # of one connection; its client keeps the others back
        # Else calls that Python has not yet freed count, too, and a client that keeps to the limit is refused.
        ("grpc.http.overload_protection", 0),
        ("grpc.max_connection_idle_ms", _IDLE_SECONDS * 1000),  # clients connect again with their next call
        ("grpc.keepalive_time_ms", 60_000),  # notices clients that vanished
        ("grpc.keepalive_timeout_ms", 20_000),
    ]
