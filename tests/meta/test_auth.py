"""Tokens and roles, TLS, and where a server may listen without them."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import moulin
from moulin.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidInput,
    NotFound,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
)
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from moulin.meta.server.http import build_app
from moulin.meta.server.metrics import Metrics
from moulin.meta.server.serve import Serving
from moulin.meta.server.server import MetaServer, build_server
from tests.certificates import make_certificate
from tests.meta.conftest import refused

GUARDED = ServeConfig(bind="127.0.0.1:0", http_bind="", auth="on", drain_seconds=1)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.open(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture
def access(lake: Lake, tmp_path: Path) -> AccessFile:
    return AccessFile(tmp_path / "lake" / "access.toml")


@pytest.fixture
def guarded(lake: Lake, access: AccessFile) -> Iterator[MetaServer]:
    access.create("someone", Role.ADMIN)
    server = build_server(lake, GUARDED).start()
    yield server
    server.stop()


def connect(server: MetaServer, token: str | None = None) -> Lake:
    return moulin.connect(f"grpc://{server.address}", token=token)


def test_without_a_valid_token_nobody_connects(guarded: MetaServer, access: AccessFile) -> None:
    for token in ("", "wrong", "mlt_" + "x" * 43, "ünïcode"):
        with pytest.raises((Unauthenticated, InvalidInput)):
            connect(guarded, token)
    with connect(guarded, access.create("other", Role.READ)) as lake:
        assert lake.version == 0


def test_health_is_answered_without_a_token(guarded: MetaServer) -> None:
    with grpc.insecure_channel(guarded.address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_reader_reads_and_only_a_writer_writes(guarded: MetaServer, access: AccessFile) -> None:
    writer = connect(guarded, access.create("writer", Role.WRITE))
    reader = connect(guarded, access.create("reader", Role.READ))
    writer.create_database("shop")
    table = writer.create_table("shop.t", [("id", "long")])
    table.append([{"id": 1}])
    assert reader.table("shop.t").scan().to_arrow().to_pylist() == [{"id": 1}]
    with reader.table("shop.t").at(version=reader.version) as snapshot:
        assert snapshot.scan().count() == 1
    with pytest.raises(PermissionDenied, match="takes the role write, and token 'reader' has read"):
        reader.create_database("other")
    with pytest.raises(PermissionDenied):
        reader.table("shop.t").append([{"id": 2}])
    writer.close()
    reader.close()


def test_a_revoked_or_expired_token_stops_working_at_once(guarded: MetaServer, access: AccessFile) -> None:
    lake = connect(guarded, access.create("brief", Role.READ))
    assert lake.version == 0
    access.revoke("brief")
    with pytest.raises(Unauthenticated, match="Unknown token"):
        _ = lake.version
    lake.close()
    expiring = access.create("expiring", Role.READ, days=0.5 / 86_400)
    time.sleep(1.1)
    with pytest.raises(Unauthenticated, match="expired"):
        connect(guarded, expiring)


def test_secrets_are_kept_nowhere_and_logged_nowhere(
    guarded: MetaServer, access: AccessFile, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        secret = access.create("quiet", Role.READ)
        with connect(guarded, secret) as lake:
            _ = lake.version
        with pytest.raises(Unauthenticated) as error:
            connect(guarded, secret[:-1] + ("a" if secret[-1] != "a" else "b"))
    assert secret not in access.path.read_text()
    assert access.path.stat().st_mode & 0o077 == 0
    assert secret[:-1] not in caplog.text
    assert secret[:-1] not in str(error.value)


def test_tokens_made_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "access.toml"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: AccessFile(path).create(f"t{n}", Role.READ), range(12)))
    assert {token.name for token in AccessFile(path).tokens()} == {f"t{n}" for n in range(12)}


def test_a_file_of_tokens_with_a_mistake_lets_nobody_in(tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    access.create("a", Role.WRITE, days=1)
    with pytest.raises(AlreadyExists):
        access.create("a", Role.READ)
    with pytest.raises(InvalidInput):
        access.create("a b", Role.READ)
    with pytest.raises(NotFound):
        access.revoke("b")
    for text in ("x = 1", "[tokens.a]\nrole = 'read'", "[tokens.a]\nrole='king'\nsha256='" + "0" * 64 + "'", "["):
        access.path.write_text(text)
        with pytest.raises(InvalidInput, match=r"access\.toml|role"):
            access.tokens()
        with pytest.raises(Unavailable, match="token file"):
            access.authenticate("mlt_x")


@pytest.mark.parametrize(("bind", "http_bind"), [("0.0.0.0:0", ""), ("127.0.0.1:0", "0.0.0.0:0"), ("[::]:0", "")])
def test_a_server_that_others_can_reach_asks_for_tokens(lake: Lake, bind: str, http_bind: str) -> None:
    with pytest.raises(FailedPrecondition, match="other machines"):
        build_server(lake, ServeConfig(bind=bind, http_bind=http_bind, auth="off"))
    with pytest.raises(FailedPrecondition, match="moulin access create"):
        build_server(lake, ServeConfig(bind=bind, http_bind=http_bind))


def test_storage_options_are_sent_to_writers_only_when_set(lake: Lake, access: AccessFile) -> None:
    reader, writer = access.create("reader", Role.READ), access.create("writer", Role.WRITE)
    for share, seen in (("off", [False, False]), ("on", [False, True])):
        config = ServeConfig(bind="127.0.0.1:0", auth="on", share_storage_options=share)
        server = build_server(lake, config, storage_options={"secret_access_key": "hush"}).start()
        try:
            assert [_told(server, token) for token in (reader, writer)] == seen
        finally:
            server.stop(1)


def _told(server: MetaServer, token: str) -> bool:
    from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
    from moulin._proto.moulin.lake.v1.catalog_pb2_grpc import CatalogServiceStub

    with grpc.insecure_channel(server.address) as channel:
        metadata = (("authorization", f"Bearer {token}"),)
        answer = CatalogServiceStub(channel).GetLake(pb.GetLakeRequest(), metadata=metadata)
        return dict(answer.storage_options) == {"secret_access_key": "hush"}


def test_http_is_behind_the_same_gate(lake: Lake, access: AccessFile) -> None:
    secret = access.create("reader", Role.READ)
    app = build_app(lake, access=access, metrics=Metrics())

    @app.post("/change")
    def change() -> None: ...

    def ask(method: str, path: str, token: str = "") -> httpx.Response:
        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://here") as client:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                return await client.request(method, path, headers=headers)

        return asyncio.run(send())

    assert ask("GET", "/healthz").json() == {"status": "ok", "version": 0}
    assert len(ask("GET", "/healthz").headers["x-request-id"]) == 36
    refusal = ask("GET", "/metrics")
    assert (refusal.status_code, refusal.json()["error"]["type"]) == (401, "Unauthenticated")
    assert "moulin_calls_running" in ask("GET", "/metrics", secret).text
    assert ask("POST", "/change", secret).status_code == 403


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for loopback that signs itself, and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_a_client_connects_over_tls_with_the_certificate_only(
    lake: Lake, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    public, private = map(str, certificate)
    server = build_server(lake, ServeConfig(bind="127.0.0.1:0", tls_certificate=public, tls_key=private)).start()
    try:
        with moulin.connect(f"grpcs://{server.address}", certificate=public) as connected:
            assert connected.version == 0
        monkeypatch.setenv("MOULIN_CA_CERTIFICATE", public)
        with moulin.connect(f"grpcs://{server.address}") as connected:
            assert connected.version == 0
        monkeypatch.delenv("MOULIN_CA_CERTIFICATE")
        for scheme, advice in (("grpcs", "Give certificate="), ("grpc", "write grpcs://")):
            with pytest.raises(Unavailable, match=advice):
                moulin.connect(f"{scheme}://{server.address}")
    finally:
        server.stop(1)


def test_http_is_served_over_tls_with_the_same_certificate(
    lake: Lake, access: AccessFile, certificate: tuple[Path, Path]
) -> None:
    public, private = map(str, certificate)
    secret = access.create("reader", Role.READ)
    config = ServeConfig(
        bind="127.0.0.1:0", http_bind="127.0.0.1:0", tls_certificate=public, tls_key=private, auth="on", drain_seconds=1
    )
    serving = Serving(lake, config).start()
    assert serving.http is not None
    try:
        trusted = ssl.create_default_context(cafile=public)
        with httpx.Client(base_url=f"https://127.0.0.1:{serving.http.port}", verify=trusted) as client:
            assert client.get("/healthz").json()["status"] == "ok"
            assert client.get("/metrics").status_code == 401
            figures = client.get("/metrics", headers={"Authorization": f"Bearer {secret}"})
            assert "moulin_lake_version 0.0" in figures.text
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(f"https://127.0.0.1:{serving.http.port}/healthz")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{serving.http.port}/healthz")
    finally:
        assert serving.stop()


def test_a_missing_certificate_is_refused_at_the_start(lake: Lake, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(InvalidInput, match="cannot be read"):
        build_server(lake, ServeConfig(bind="127.0.0.1:0", tls_certificate=missing, tls_key=missing))
    with pytest.raises(InvalidInput, match="both"):
        ServeConfig(tls_certificate=missing)


def test_reflection_is_refused_without_a_token(guarded: MetaServer) -> None:
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    with grpc.insecure_channel(guarded.address) as channel, refused(grpc.StatusCode.UNAUTHENTICATED):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        list(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")])))
