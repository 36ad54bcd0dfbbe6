"""Slow and silent clients over real sockets: they are ended, and others are answered."""

from __future__ import annotations

import errno
import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from moulin.network.connections import Accepted, Connections, peer_of
from moulin.network.http_server import configure, listen
from moulin.network.limits import Limits
from tests.meta.test_auth import certificate

__all__ = ["certificate"]

LARGE = 32 << 20


@dataclass
class Site:
    """A served app that remembers what happened in it."""

    port: int
    connections: Connections
    gate: threading.Event = field(default_factory=threading.Event)
    waiting: int = 0
    disconnected: int = 0
    clients: list[socket.socket] = field(default_factory=list)

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=20, source_address=(source, 0))
        self.clients.append(made)
        return made

    def half(self, text: str = "GET / HTTP/1.1\r\nHost: x\r\n", source: str = "127.0.0.1") -> socket.socket:
        made = self.connect(source)
        made.sendall(text.encode())
        return made

    def get(self, path: str = "/", source: str = "127.0.0.1") -> int:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, 20, source_address=(source, 0))) as client:
            client.request("GET", path)
            answer = client.getresponse()
            answer.read()
            return answer.status


@contextmanager
def served(limits: Limits, **tls: Any) -> Iterator[Site]:
    listener = listen("127.0.0.1", 0, limits)
    site = Site(listener.getsockname()[1], listener.connections)

    async def hello(request: Request) -> Response:
        return PlainTextResponse("hello")

    async def body(request: Request) -> Response:
        try:
            return PlainTextResponse(str(len(await request.body())))
        except ClientDisconnect:
            site.disconnected += 1
            raise

    def slow(request: Request) -> Response:
        site.waiting += 1
        site.gate.wait(20)
        return PlainTextResponse("at last")

    async def large(request: Request) -> Response:
        return Response(bytes(LARGE))

    routes = [
        Route("/", hello),
        Route("/body", body, methods=["POST"]),
        Route("/slow", slow),
        Route("/large", large),
    ]
    app = Starlette(routes=routes, exception_handlers={ClientDisconnect: lambda request, error: Response()})
    server = uvicorn.Server(configure(app, listener, drain_seconds=1, lifespan=False, **tls))
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
    thread.start()
    try:
        yield site
    finally:
        site.gate.set()
        for client in site.clients:
            client.close()
        server.should_exit = True
        thread.join(20)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to that")


def everything(client: socket.socket) -> bytes:
    """What a server sends until it closes."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


PATIENT = Limits(header_seconds=600, body_seconds=600, connections=20, peer_connections=10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GET / HTTP/1.1\r\nHost: x\r\n",
        "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
        "POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf",
    ],
)
def test_a_client_is_answered_while_many_requests_are_half_sent(text: str) -> None:
    """Nothing times out here: the new connection takes the place of one that waits."""
    with served(PATIENT) as site:
        _ = [site.half(text) for _ in range(100)]
        assert site.get() == 200
        until(lambda: site.connections.counts.displaced >= 90)
        assert len(site.connections) <= 10
        assert site.connections.counts.refused == 0


def test_a_connection_that_the_server_works_for_is_not_closed_for_another() -> None:
    with served(PATIENT) as site:
        answers: list[int] = []
        clients = [threading.Thread(target=lambda: answers.append(site.get("/slow"))) for _ in range(10)]
        for client in clients:
            client.start()
        until(lambda: site.waiting == 10)
        assert everything(site.half()) == b""
        assert site.connections.counts.refused == 1
        site.gate.set()
        for client in clients:
            client.join()
        assert answers == [200] * 10
        assert site.get() == 200


def test_the_connections_of_one_peer_leave_room_for_others() -> None:
    with served(PATIENT) as site:
        mine = site.half(source="127.0.0.2")
        _ = [site.half(source="127.0.0.3") for _ in range(60)]
        until(lambda: site.connections.counts.displaced == 50)
        assert len(site.connections) == 11
        mine.sendall(b"\r\n")
        assert mine.recv(100).startswith(b"HTTP/1.1 200")
        _ = [site.half(source=f"127.0.0.{number}") for number in range(4, 40)]
        until(lambda: site.connections.counts.accepted == 97)
        assert len(site.connections) <= 20
        assert site.get(source="127.0.0.99") == 200


def test_a_connection_that_was_served_outlives_those_that_never_sent_a_request() -> None:
    with served(PATIENT) as site, closing(http.client.HTTPConnection("127.0.0.1", site.port, 20)) as client:
        client.request("GET", "/")
        client.getresponse().read()
        _ = [site.half() for _ in range(40)]
        until(lambda: site.connections.counts.displaced >= 31)
        client.request("GET", "/")
        assert client.getresponse().status == 200


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", b""),
        ("GET / HTTP/1.1\r\nHost: x\r\n", b"HTTP/1.1 408 "),
        ("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", b"HTTP/1.1 408 "),
        ("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", b"HTTP/1.1 408 "),
        # the app answers without reading the body: the rest of it is not waited for
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", b"HTTP/1.1 405 "),
    ],
)
def test_a_request_that_does_not_arrive_in_time_ends_its_connection(text: str, answer: bytes) -> None:
    with served(Limits(header_seconds=0.2, body_seconds=0.2)) as site:
        with site.half(text) as client:
            assert everything(client).startswith(answer)
        until(lambda: len(site.connections) == 0)
        assert site.connections.counts.timed_out == 1
        assert site.disconnected == ("/body" in text)
        assert site.get() == 200


def test_a_head_that_trickles_ends_like_one_that_stops() -> None:
    with served(Limits(header_seconds=0.3)) as site, site.half() as client:

        def trickle() -> None:
            try:
                while True:
                    client.sendall(b"a: b\r\n")
                    time.sleep(0.05)
            except OSError:
                pass

        trickling = threading.Thread(target=trickle)
        trickling.start()
        until(lambda: site.connections.counts.timed_out == 1)
        trickling.join(20)
        assert len(site.connections) == 0


def test_a_client_may_pause_between_requests_and_not_within_one() -> None:
    with served(Limits(header_seconds=0.2)) as site, site.connect() as client:
        for _ in range(2):
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"hello"):
                answer += client.recv(1000)
            time.sleep(0.5)
        assert (site.connections.counts.accepted, site.connections.counts.timed_out) == (1, 0)
        client.sendall(b"GET / HTTP/1.1\r\n")
        assert everything(client).startswith(b"HTTP/1.1 408 ")
        assert site.connections.counts.timed_out == 1


def test_a_large_body_that_moves_is_taken_however_long_it_takes() -> None:
    with served(Limits(body_seconds=0.2)) as site, site.connect() as client:
        client.sendall(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 163840\r\n\r\n")
        for _ in range(10):
            client.sendall(bytes(16384))
            time.sleep(0.05)
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        assert site.connections.counts.timed_out == 0


def test_an_answer_that_nobody_reads_ends_its_connection() -> None:
    with served(Limits(body_seconds=0.2)) as site, site.half("GET /large HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        until(lambda: site.connections.counts.timed_out == 1)
        assert len(everything(client)) < LARGE


def test_connections_count_before_their_tls_handshake(certificate: tuple[Path, Path]) -> None:
    public, private = certificate
    with served(PATIENT, certificate=public, key=private) as site:
        _ = [site.half(text) for text in ("", "GET / HTTP/1.1\r\n") for _ in range(30)]
        until(lambda: site.connections.counts.accepted == 60)
        assert len(site.connections) <= 10


def test_a_tls_handshake_that_does_not_come_ends_its_connection(certificate: tuple[Path, Path]) -> None:
    public, private = certificate
    with served(Limits(header_seconds=0.3), certificate=public, key=private) as site:
        with site.connect() as silent:
            assert everything(silent) == b""
        until(lambda: len(site.connections) == 0)
        assert site.connections.counts.timed_out == 1
        context = ssl.create_default_context(cafile=str(public))
        with closing(http.client.HTTPSConnection("localhost", site.port, timeout=20, context=context)) as client:
            client.request("GET", "/slow")
            until(lambda: site.waiting == 1)
            time.sleep(0.5)
            site.gate.set()
            assert client.getresponse().status == 200, "its handshake was over in time"
        assert site.connections.counts.timed_out == 1


def test_a_port_that_a_client_takes_again_is_counted_apart() -> None:
    connections = Connections(Limits())
    first, second = Accepted(), Accepted()
    address = ("10.0.0.1", 5)
    assert connections.admit(first, address)
    assert connections.admit(second, address)
    first.close()
    assert (len(connections), connections.find(address)) == (1, second)
    second.close()
    assert (len(connections), connections.find(address)) == (0, None)


def test_a_process_without_free_files_makes_room_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with served(PATIENT) as site:
        for _ in range(5):
            site.half()
        until(lambda: len(site.connections) == 5)
        real, failures, scarce_until = socket.socket.accept, 0, time.monotonic() + 0.3

        def accept(self: socket.socket) -> Any:
            nonlocal failures
            if time.monotonic() < scarce_until:
                failures += 1
                raise OSError(errno.EMFILE, "Too many open files")
            return real(self)

        monkeypatch.setattr(socket.socket, "accept", accept)
        with caplog.at_level(logging.ERROR, "asyncio"):
            assert site.get() == 200
        assert failures == 1, "the event loop alone would try as often as its backlog is long"
        assert site.connections.counts.displaced == 1
        assert len([record for record in caplog.records if record.name == "asyncio"]) == 1


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("10.1.2.3", 5), "10.1.2.3"),
        (("::ffff:10.1.2.3", 5, 0, 0), "10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::/64"),
        ("", ""),
    ],
)
def test_a_peer_is_an_address_or_a_network_of_ipv6(address: Any, peer: str) -> None:
    assert peer_of(address) == peer
