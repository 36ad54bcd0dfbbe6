from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from moulin.storage import Store, open_store

BUCKET = "storage-tests"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "s3: needs the S3 server of the tests")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server that lives as long as the tests."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def s3_options(s3_server: str) -> dict[str, str]:
    options = {
        "endpoint": s3_server,
        "access_key_id": "AKIATESTING",
        "secret_access_key": "a-very-secret-key",
        "region": "us-east-1",
    }
    keys = {"aws_access_key_id": options["access_key_id"], "aws_secret_access_key": options["secret_access_key"]}
    boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1", **keys).create_bucket(Bucket=BUCKET)
    return options


@pytest.fixture
def s3_url(s3_options: dict[str, str]) -> str:
    """A prefix of its own for each test."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.s3)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Every kind of store, empty."""
    if request.param == "local":
        return open_store(tmp_path / "lake")
    if request.param == "memory":
        return open_store(f"memory://{uuid.uuid4().hex}")
    options: dict[str, str] = request.getfixturevalue("s3_options")
    return open_store(request.getfixturevalue("s3_url"), options)
