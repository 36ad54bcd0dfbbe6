"""Clients of a server with a certificate, at an address that is not `localhost`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pyspark.sql.connect.proto as pb
import pytest
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

from moulin.meta.config import ServeConfig
from moulin.sql_server.server import SqlServer
from tests.certificates import make_certificate
from tests.sql_server.conftest import Client, Served

pytestmark = pytest.mark.spark
HOST = "127.0.0.2"
PROGRAM = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(spark.sql("select count(*) as n from shop.orders").first().n)
spark.stop()
"""


@dataclass
class Secured:
    port: int
    certificate: Path

    def client(self, token: str, channel: grpc.Channel) -> Client:
        client = Client(self.port, token)
        client.channel.close()
        client.channel, client.stub = channel, SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
        return client


@pytest.fixture(scope="module")
def secured(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    certificate, key = make_certificate(tmp_path_factory.mktemp("tls"))
    config = ServeConfig(
        bind=f"{HOST}:0",
        http_bind="",
        auth="on",
        access_file=str(served.access.path),
        tls_certificate=str(certificate),
        tls_key=str(key),
        drain_seconds=5,
    )
    server = SqlServer(served.lake, config).start()
    yield Secured(server.port, certificate)
    server.stop()


def code(client: Client) -> grpc.StatusCode:
    request = pb.ConfigRequest()
    request.operation.get_all.SetInParent()
    try:
        client.call("Config", request)
    except grpc.RpcError as error:
        return error.code()
    finally:
        client.channel.close()
    return grpc.StatusCode.OK


def test_pyspark_connects_with_a_token_when_it_trusts_the_certificate(served: Served, secured: Secured) -> None:
    url = f"sc://{HOST}:{secured.port}/;use_ssl=true;token={served.tokens['reader']}"
    trusting = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(secured.certificate)}
    program = [sys.executable, "-c", PROGRAM, url]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False, env=trusting)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["5"]


def test_a_token_is_asked_for_over_tls_too(secured: Secured) -> None:
    trusted = grpc.ssl_channel_credentials(secured.certificate.read_bytes())
    channel = grpc.secure_channel(f"{HOST}:{secured.port}", trusted)
    assert code(secured.client("mlt_wrong", channel)) is grpc.StatusCode.UNAUTHENTICATED


def test_a_client_without_tls_is_refused(served: Served, secured: Secured) -> None:
    channel = grpc.insecure_channel(f"{HOST}:{secured.port}")
    assert code(secured.client(served.tokens["reader"], channel)) is grpc.StatusCode.UNAVAILABLE


def test_a_client_that_does_not_trust_the_certificate_sends_nothing(served: Served, secured: Secured) -> None:
    channel = grpc.secure_channel(f"{HOST}:{secured.port}", grpc.ssl_channel_credentials())
    assert code(secured.client(served.tokens["reader"], channel)) is grpc.StatusCode.UNAVAILABLE
