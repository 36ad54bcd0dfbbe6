"""What tests share: a Spark session, a real PostgreSQL server and an S3 server, each started when a test first asks.

Where tests run in several processes, each process that asks has its own.
A server that does not start fails the tests that need it; they are never skipped.
"""

# Decisions: docs/decisions/0351

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests import compiled
from tests.postgres import Databases, running_postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

settings.register_profile("moulin", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("moulin")
compiled.share()

_MEMORY = Path("/dev/shm")
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))  # thousands of commits need not wait for the disk

_LONGEST = ("pipeline", "crash", "docs", "cli", "interop", "table", "contract")  # folders, by what a file takes
_ON_SPARK = ("pipeline", "benchmarks")
_OTHER_SPARK = ("statements", "write", "nursery")  # folders of pipeline that take about as long as the rest of it


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: one that begins when the others are done leaves a core idle."""
    _mark_cases_beyond_samples(items)
    ranks = {folder: rank for rank, folder in enumerate(_LONGEST)}
    here = Path(__file__).parent
    items.sort(key=lambda item: ranks.get(item.path.relative_to(here).parts[0], len(ranks)))


def _mark_cases_beyond_samples(items: list[pytest.Item]) -> None:
    """Marks all but evenly spaced cases of a test that has `sample(count)` as long."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    for sampled in cases.values():
        marker = sampled[0].get_closest_marker("sample")
        assert marker is not None
        count = min(marker.args[0], len(sampled))
        kept = {number * len(sampled) // count for number in range(count)}
        for number, item in enumerate(sampled):
            if number not in kept:
                item.add_marker(pytest.mark.long)


class _TwoSparks(LoadFileScheduling):
    """A file runs in one process. Files that use Spark run in two halves, which two processes take first.

    No half waits for the other, and other files fill up whichever process is done earlier.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        folders = Path(file).parts
        if folders[1] not in _ON_SPARK:
            return file
        return "other spark" if folders[2] in _OTHER_SPARK else "spark"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _TwoSparks:
    return _TwoSparks(config, log)


@pytest.fixture(scope="session")
def deletions_file() -> Iterator[Path]:
    """Where processes that tests start write what the deletion oracle sees in them."""
    number, name = tempfile.mkstemp(prefix="moulin-deletions-")
    os.close(number)
    os.environ["TEST_DELETIONS_FILE"] = name
    yield Path(name)
    Path(name).unlink()


@pytest.fixture(autouse=True)
def deletion_oracle(deletions_file: Path) -> Iterator[None]:
    """Fails a test that deletes an object which must live, in this process or in one that `tests.commands` starts."""
    from tests import oracle

    oracle.install()
    yield
    seen = deletions_file.read_text().splitlines() if deletions_file.stat().st_size else []
    deletions_file.write_text("")
    if seen:
        pytest.fail("Objects that must live were deleted:\n" + "\n".join(seen[:20]))


S3_KEYS = {"access_key_id": "test", "secret_access_key": "test", "region": "us-east-1"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of a test process: two cores, two shuffle partitions."""
    from moulin.pipeline.session import spark_session

    session = spark_session(
        master="local[2]",
        app_name="moulin tests",
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            # Code that runs a few times is not worth the better compiler, which would take half a core.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address, without a database, of a PostgreSQL server on loopback that trusts everyone and never syncs."""
    with running_postgres() as address:
        yield address


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> str:
    """The name of a database with the empty tables of a catalog: copying it is quicker than making them."""
    import psycopg

    from moulin.catalog.sql.drivers import database_url
    from moulin.catalog.sql.pool import Pool
    from moulin.config import Config

    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
        connection.execute("create database catalog_template template template0")
    pool = Pool(database_url(f"{postgres_server}/catalog_template"), Config())
    pool.migrate()
    pool.close()
    return "catalog_template"


@pytest.fixture(scope="session")
def postgres_databases(postgres_server: str, postgres_template: str) -> Iterator[Databases]:
    databases = Databases(postgres_server, postgres_template)
    yield databases
    databases.close()


@pytest.fixture
def postgres_url(postgres_server: str, postgres_databases: Databases) -> Iterator[str]:
    """A database of its own for each test, without rows."""
    name = postgres_databases.take()
    yield f"{postgres_server}/{name}"
    postgres_databases.give_back(name)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server on loopback."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_options(s3_server: str) -> dict[str, str]:
    """The storage options for `s3_url`."""
    return {"endpoint": s3_server, **S3_KEYS}


@pytest.fixture(scope="session")
def s3_client(s3_server: str) -> Iterator[Any]:
    """Made once: boto3 takes longer to make one than a test to run."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=s3_server,
        region_name=S3_KEYS["region"],
        aws_access_key_id=S3_KEYS["access_key_id"],
        aws_secret_access_key=S3_KEYS["secret_access_key"],
    )
    yield client
    client.close()


@pytest.fixture
def s3_url(s3_client: Any) -> str:
    """A place in a fresh bucket of its own for each test."""
    bucket = f"test-{uuid.uuid4().hex}"
    s3_client.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/lake"
