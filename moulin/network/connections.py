"""The connections of one HTTP server: limits in total and per peer, and which one is closed above the limit.

Connections are counted when accepted, so they count before the TLS handshake, and until the file is closed. Above the
limit of a peer, a new connection replaces another of that peer that waits for its client: first one that never finished
a request, then the oldest. Above the total limit, one of the peer with the most is replaced. If all connections are
busy, the new one is rejected.

Everything happens in the event loop of the server.
"""

# Decisions: docs/decisions/0221

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from moulin.network.counts import Figure, counted, counters
from moulin.network.limits import Limits, affordable

log = logging.getLogger("moulin.http")
_NO_FILES: Final = (errno.EMFILE, errno.ENFILE)
_PAUSE: Final = 0.5  # seconds; the event loop tries again after one


class Speaker(Protocol):
    """What speaks over an accepted connection."""

    finished: int

    def is_waiting(self) -> bool:
        """Whether the next move is the client's."""

    def drop(self) -> None:
        """End the connection at once."""


@dataclass(slots=True)
class ConnectionCounts:
    """What happened to connections so far."""

    accepted: int = counted("HTTP connections accepted.")
    refused: int = counted("HTTP connections rejected because there were too many.")
    displaced: int = counted("HTTP connections closed for a newer one while waiting for their client.")
    timed_out: int = counted("HTTP connections closed because their client was too slow.")


class Accepted(socket.socket):
    """One connection, counted until it is closed."""

    connections: Connections | None = None
    address: Any = None
    peer: str = ""
    speaker: Speaker | None = None  # None during a TLS handshake

    def is_waiting(self) -> bool:
        return self.speaker is None or self.speaker.is_waiting()

    def drop(self) -> None:
        if self.speaker is not None:
            self.speaker.drop()
            return
        with suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)  # readers see the end of the stream

    def close(self) -> None:
        super().close()
        if self.connections is not None:
            self.connections.forget(self)


class Connections:
    """The connections of one server, by peer, the oldest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.most = affordable(limits)
        self.counts = ConnectionCounts()
        self._count = 0
        self._peers: dict[str, dict[Accepted, None]] = {}
        self._by_address: dict[Any, Accepted] = {}

    def __len__(self) -> int:
        return self._count

    def figures(self) -> list[Figure]:
        """For Prometheus."""
        now = Figure("moulin_http_connections", "gauge", "HTTP connections that are open.", len(self))
        return [now, *counters("moulin_http_connections", self.counts)]

    def admit(self, connection: Accepted, address: Any) -> bool:
        """Count a new connection, and drop another if need be; False when there is no room for it."""
        peer = peer_of(address)
        held = self._peers.get(peer, {})
        if len(held) >= min(self.limits.peer_connections, self.most) and not self._displace(peer):
            return self._refuse(peer, "its peer has too many")
        if len(self) >= self.most and not self._displace(max(self._peers, key=lambda p: len(self._peers[p]))):
            return self._refuse(peer, "there are too many")
        connection.connections, connection.address, connection.peer = self, address, peer
        self._peers.setdefault(peer, {})[connection] = None
        self._by_address[address] = connection
        self._count += 1
        self.counts.accepted += 1
        return True

    def find(self, address: Any) -> Accepted | None:
        """The connection from an address that has not been closed."""
        return self._by_address.get(address)

    def forget(self, connection: Accepted) -> None:
        """It is closed, or about to be."""
        held = self._peers.get(connection.peer)
        if held is None or connection not in held:
            return
        del held[connection]
        self._count -= 1
        if not held:
            del self._peers[connection.peer]
        if self._by_address.get(connection.address) is connection:  # not so when a client took its port again quickly
            del self._by_address[connection.address]

    def free_one(self) -> None:
        """Close any connection that waits for its client."""
        for peer in sorted(self._peers, key=lambda p: -len(self._peers[p])):
            if self._displace(peer):
                return

    def note_timeout(self, connection: Accepted | None, phase: str) -> None:
        self.counts.timed_out += 1
        peer = "" if connection is None else connection.peer
        log.warning("a client was too slow", extra={"peer": peer, "phase": phase})

    def _displace(self, peer: str) -> bool:
        found = _first_waiting(self._peers[peer])
        if found is None:
            return False
        self.counts.displaced += 1
        log.warning("a waiting connection was closed for a new one", extra={"peer": peer})
        self.forget(found)
        found.drop()
        return True

    def _refuse(self, peer: str, reason: str) -> bool:
        self.counts.refused += 1
        log.warning("a connection was refused", extra={"peer": peer, "reason": reason})
        return False


class Listener(socket.socket):
    """A listening socket that counts what it accepts."""

    connections: Connections
    secure = False  # TLS; its handshake has as long as the head of a request
    _paused_until = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        if time.monotonic() < self._paused_until:
            raise BlockingIOError
        try:
            plain, address = super().accept()
        except OSError as error:
            if error.errno in _NO_FILES:  # the event loop waits for a second, but would first try on and on
                self._paused_until = time.monotonic() + _PAUSE
                self.connections.free_one()
            raise
        connection = Accepted(plain.family, plain.type, plain.proto, fileno=plain.detach())
        if not self.connections.admit(connection, address):
            connection.close()
            raise ConnectionAbortedError  # the event loop accepts the next one in its next turn
        if self.secure:
            seconds = self.connections.limits.header_seconds
            asyncio.get_running_loop().call_later(seconds, self._end_handshake, connection)
        return connection, address

    def _end_handshake(self, connection: Accepted) -> None:
        if connection.speaker is None and connection.fileno() >= 0:
            self.connections.note_timeout(connection, "handshake")
            connection.drop()


def peer_of(address: Any) -> str:
    """Whom a connection counts for: an IPv4 address, or a network of IPv6, since one host has all addresses of one."""
    text = str(address[0]).partition("%")[0] if isinstance(address, tuple) and address else ""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return text


def _first_waiting(held: Iterable[Accepted]) -> Accepted | None:
    """The one to drop: waiting for its client, if it can be without a finished request, and old."""
    waiting = (one for one in held if one.is_waiting())
    oldest: Accepted | None = None
    for one in waiting:
        if one.speaker is None or not one.speaker.finished:
            return one
        oldest = oldest or one
    return oldest
