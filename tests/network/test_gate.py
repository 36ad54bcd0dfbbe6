"""What passes the gate: HTTP, under a name of the server, from pages of its own."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, WebSocket

from moulin.errors import InvalidInput
from moulin.iceberg.rest.app import mount
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from moulin.meta.server.http import HttpServer, build_app, hosts_of
from moulin.network.hosts import allowed_hosts, host_of


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.open(tmp_path / "lake") as opened:
        yield opened


LOCAL = ["localhost", "localhost:8181", "LOCALHOST.", "app.localhost", "127.0.0.1:1", "127.9.9.9", "[::1]:8181"]
FOREIGN = ["evil.example", "evil.example:8181", "localhost.evil.example", "127.0.0.1.evil.example", "", "10.0.0.1"]


@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "localhost"])
def test_a_server_on_loopback_answers_to_names_of_this_machine(bound: str) -> None:
    hosts = allowed_hosts(bound, "")
    assert hosts is not None
    for name in LOCAL:
        assert hosts.refusal(name, None) is None, name
        assert hosts.refusal(name, f"http://{name}") is None, name
    for name in FOREIGN:
        told = hosts.refusal(name, None)
        assert told is not None, name
        assert told[0] == 421
    told = hosts.refusal("localhost", "https://evil.example")
    assert told is not None
    assert told[0] == 403
    assert hosts.refusal("localhost", "null") is not None, "what a sandboxed page sends"
    assert hosts.refusal(None, None) is None, "HTTP/1.0 has no Host, and no browser speaks it"


def test_more_names_are_taken_when_they_are_listed() -> None:
    hosts = allowed_hosts("127.0.0.1", "Lake.example.org, [fd00::1]")
    assert hosts is not None
    assert hosts.refusal("lake.example.org:443", "https://lake.example.org") is None
    assert hosts.refusal("[fd00::1]:80", None) is None
    assert hosts.refusal("other.example.org", None) is not None
    assert allowed_hosts("127.0.0.1", "*") is None
    for bad in ("https://lake.example.org", "lake.example.org:443", "a b"):
        with pytest.raises(InvalidInput, match="allowed_hosts"):
            allowed_hosts("127.0.0.1", bad)


def test_a_server_that_others_reach_answers_to_any_name_unless_some_are_listed() -> None:
    assert allowed_hosts("0.0.0.0", "") is None
    hosts = allowed_hosts("0.0.0.0", "lake.example.org")
    assert hosts is not None
    assert hosts.refusal("10.1.2.3:8181", None) is None, "a probe calls a pod by its number"
    assert hosts.refusal("evil.example", None) is not None


@pytest.mark.parametrize(
    ("authority", "host"), [("A.b:1", "a.b"), ("[::1]:8", "::1"), ("[::1]", "::1"), ("x.", "x"), ("", "")]
)
def test_the_host_of_an_authority(authority: str, host: str) -> None:
    assert host_of(authority) == host


def test_a_foreign_host_is_refused_over_a_socket_on_every_path(lake: Lake) -> None:
    serve = ServeConfig(http_bind="127.0.0.1:0", drain_seconds=1, allowed_hosts="lake.example.org")
    app = build_app(lake, hosts=hosts_of(serve))
    mount(app)
    server = HttpServer(app, serve).start()

    def status(path: str, host: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, 20)) as client:
            client.request(method, path, headers={"Host": host, **headers})
            answer = client.getresponse()
            return answer.status, answer.read()

    try:
        for path in ("/healthz", "/metrics", "/iceberg/v1/config", "/iceberg/v1/namespaces", "/nothing"):
            code, text = status(path, "evil.example")
            assert code == 421, path
            assert b"allowed_hosts" in text
        for host in ("localhost", "lake.example.org", f"127.0.0.1:{server.port}"):
            assert status("/iceberg/v1/config", host)[0] == 200
        code, _ = status("/iceberg/v1/namespaces", "localhost", "POST", Origin="https://evil.example")
        assert code == 403
        assert lake.databases() == []
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
        assert status("/iceberg/v1/config", "localhost", **upgrade)[0] == 403
    finally:
        server.stop()


def test_a_web_socket_is_refused_unless_a_route_asks_for_it_and_then_takes_a_token(lake: Lake, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    writer, reader = access.create("w", Role.WRITE), access.create("r", Role.READ)
    app = build_app(lake, access=access, hosts=allowed_hosts("127.0.0.1", ""))
    inner = FastAPI()

    @app.websocket("/feed")
    async def feed(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hello")
        await socket.close()

    @inner.websocket("/feed")
    async def hidden(socket: WebSocket) -> None:
        await socket.accept()

    app.mount("/inner", inner)

    def opened(path: str, token: str | None, **headers: str) -> list[dict[str, Any]]:
        """What the app sends to a web socket."""
        given = {"host": "localhost", **headers} | ({"authorization": f"Bearer {token}"} if token else {})
        raw = [(name.lower().encode(), value.encode()) for name, value in given.items()]
        scope = {"type": "websocket", "path": path, "headers": raw, "query_string": b"", "scheme": "ws"}
        sent: list[dict[str, Any]] = []

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(app({**scope, "subprotocols": []}, receive, send))
        return sent

    assert [one["type"] for one in opened("/feed", writer)][:2] == ["websocket.accept", "websocket.send"]
    refused: list[tuple[str, str | None, dict[str, str]]] = [
        ("/feed", None, {}),
        ("/feed", reader, {}),
        ("/feed", writer, {"host": "evil.example"}),
        ("/feed", writer, {"origin": "https://evil.example"}),
        ("/healthz", writer, {}),
        ("/inner/feed", writer, {}),
        ("/nothing", writer, {}),
    ]
    for path, token, headers in refused:
        assert opened(path, token, **headers) == [{"type": "websocket.close", "code": 1008}], path


def test_a_kind_of_connection_that_is_not_known_is_an_error(lake: Lake) -> None:
    app = build_app(lake)

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    with pytest.raises(RuntimeError, match="only HTTP"):
        asyncio.run(app({"type": "smtp", "headers": [], "path": "/"}, nothing, nothing))
