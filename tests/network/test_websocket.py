"""Web sockets that the server alone sends over."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from fastapi import FastAPI, WebSocket
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocketDisconnect

from moulin.meta.config import ServeConfig
from moulin.meta.server.http import HttpServer
from moulin.network import websocket
from tests.network.sockets import CLOSE, PING, PONG, TEXT, Client, Dial
from tests.network.sockets import dial as dial


@dataclass
class Served:
    server: HttpServer
    ended: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.port


@pytest.fixture
def served() -> Iterator[Served]:
    app = FastAPI()
    app.state.stopping = threading.Event()
    ended: list[str] = []

    @app.websocket("/count")
    async def count(opened: WebSocket) -> None:
        await opened.accept()
        try:
            await opened.send_text("x" * int(opened.query_params["size"]))
            while (await opened.receive())["type"] != "websocket.disconnect":
                pass
        finally:
            ended.append("count")

    @app.websocket("/flood")
    async def flood(opened: WebSocket) -> None:
        await opened.accept()
        try:
            while True:
                await opened.send_text("x" * 100_000)
        except WebSocketDisconnect:
            ended.append("flood")

    @app.websocket("/refused")
    async def refused(opened: WebSocket) -> None:
        await opened.send_denial_response(PlainTextResponse("It does not fit.", 400))

    @app.websocket("/closed")
    async def closed(opened: WebSocket) -> None:
        await opened.accept()
        await opened.close(4000)

    server = HttpServer(app, ServeConfig(http_bind="127.0.0.1:0", drain_seconds=2)).start()
    yield Served(server, ended)
    server.stop()


def code_of(client: Client) -> int:
    kind, payload = client.frame()
    assert kind == CLOSE
    return int(struct.unpack(">H", payload)[0])


def wait_until(served: Served, name: str) -> None:
    end = time.monotonic() + 10
    while name not in served.ended:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 300_000])
def test_text_of_any_length_arrives(served: Served, dial: Dial, size: int) -> None:
    client = dial(served.port, f"/count?size={size}")
    assert client.status == 101
    assert "sec-websocket-accept: " in client.head
    assert client.frame() == (TEXT, b"x" * size)
    client.send(PING, b"are you there")
    assert client.frame() == (PONG, b"are you there")
    client.send(CLOSE, struct.pack(">H", 1000))
    assert code_of(client) == 1000
    wait_until(served, "count")


def test_a_refusal_is_an_answer_in_http(served: Served, dial: Dial) -> None:
    client = dial(served.port, "/refused")
    assert (client.status, client.body) == (400, "It does not fit.")
    assert dial(served.port, "/nothing").status == 403
    assert dial(served.port, "/count?size=1", Sec_WebSocket_Version="8").status == 400
    assert code_of(dial(served.port, "/closed")) == 4000


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"kind": TEXT, "payload": b"hello"}, 1003),
        ({"kind": 2, "payload": b"\x00" * 300}, 1003),
        ({"kind": PING, "payload": b"x" * 126}, 1002),
        ({"kind": PING, "first": PING}, 1002),
        ({"kind": PING, "masked": False}, 1002),
        ({"kind": PING, "first": 0xC0 | PING}, 1002),
    ],
)
def test_what_a_client_must_not_send_ends_the_connection(
    served: Served, dial: Dial, frame: dict[str, object], code: int
) -> None:
    client = dial(served.port, "/count?size=1")
    client.frame()
    client.send(**frame)  # type: ignore[arg-type]
    assert code_of(client) == code
    wait_until(served, "count")


def test_a_client_that_goes_or_is_silent_is_noticed(
    served: Served, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = dial(served.port, "/count?size=1")
    client.frame()
    client.close()
    wait_until(served, "count")
    served.ended.clear()
    monkeypatch.setattr(websocket, "PING_SECONDS", 0.1)
    silent = dial(served.port, "/count?size=1")
    assert silent.frame() == (TEXT, b"x")
    assert [silent.frame() for _ in range(2)] == [(PING, b"")] * 2
    wait_until(served, "count")


def test_a_client_that_does_not_read_is_cut_off(served: Served, dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "_READ_SECONDS", 0.3)
    assert dial(served.port, "/flood").status == 101
    wait_until(served, "flood")


def test_open_sockets_do_not_hold_up_the_stop_of_a_server(served: Served, dial: Dial) -> None:
    clients = [dial(served.port, "/count?size=1") for _ in range(20)]
    assert {client.frame() for client in clients} == {(TEXT, b"x")}
    began = time.monotonic()
    served.server.stop()
    assert time.monotonic() - began < 1.5
    assert {code_of(client) for client in clients} == {1001}


def test_an_open_socket_is_one_of_the_connections_of_its_server(served: Served, dial: Dial) -> None:
    client = dial(served.port, "/count?size=1")
    assert len(served.server.connections) == 1
    client.close()
    wait_until(served, "count")
    end = time.monotonic() + 5
    while len(served.server.connections):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_socket_over_which_an_app_fails_is_closed() -> None:
    async def fails(scope: object, receive: object, send: object) -> None:
        raise OSError

    async def run() -> list[bytes]:
        here, there = socket.socketpair()
        loop = asyncio.get_running_loop()
        config = type("Config", (), {"loaded_app": staticmethod(fails), "root_path": ""})
        state = type("State", (), {"connections": set(), "tasks": set()})
        transport, protocol = await loop.create_connection(
            lambda: websocket.SendingSocket(config, state, {}), sock=there
        )
        protocol.data_received(
            b"GET / HTTP/1.1\r\nsec-websocket-key: a\r\nsec-websocket-version: 13\r\nupgrade: websocket\r\n\r\n"
        )
        here.setblocking(False)
        answer = await loop.sock_recv(here, 1000)
        here.close()
        transport.close()
        return answer.split(b"\r\n")

    assert asyncio.run(run())[0] == b"HTTP/1.1 403 Forbidden"
