"""A served lake for tests of the REST catalog, and clients for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from moulin.iceberg.rest.app import mount
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.authority import Authority
from moulin.meta.config import ServeConfig
from moulin.meta.server.http import HttpServer, build_app


@contextmanager
def served(lake: Lake, access: AccessFile | Authority | None = None) -> Iterator[str]:
    """The address of the REST catalog of a lake that is served on loopback meanwhile."""
    app = build_app(lake, access=access)
    mount(app)
    server = HttpServer(app, ServeConfig(http_bind="127.0.0.1:0", drain_seconds=1)).start()
    try:
        yield f"http://127.0.0.1:{server.port}/iceberg"
    finally:
        server.stop()


class Client(httpx.Client):
    """Plain requests; paths are relative to /v1."""

    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(base_url=f"{address}/v1", timeout=30, **options)


def error(response: httpx.Response, status: int, kind: str) -> str:
    """The message of an error answer, which has this status and type."""
    assert response.status_code == status, response.text
    found = response.json()["error"]
    assert (found["code"], found["type"]) == (status, kind), found
    assert found["message"]
    return str(found["message"])


def pyiceberg_catalog(address: str, **properties: str) -> Any:
    from pyiceberg.catalog.rest import RestCatalog

    return RestCatalog("lake", uri=address, **properties)


def duckdb_connection() -> Any:
    """A connection of its own; extensions come from packages."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def duckdb_attached(address: str, warehouse: str = "lake") -> Any:
    """A connection of its own with the catalog attached as `ice`."""
    connection = duckdb_connection()
    connection.execute(f"ATTACH '{warehouse}' AS ice (TYPE iceberg, ENDPOINT '{address}', AUTHORIZATION_TYPE 'none')")
    return connection
