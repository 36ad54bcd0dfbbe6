"""Write to a branch with DuckDB, audit it, and publish it."""

from __future__ import annotations

import importlib.util
import json
import sys
import urllib.request
from pathlib import Path

import duckdb

address = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8181/iceberg"


def load(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """An extension: from its Python package, such as duckdb-extension-iceberg, or from DuckDB's own server."""
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    if package is not None and package.origin is not None:
        (file,) = Path(package.origin).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    else:
        connection.execute(f"INSTALL {name}; LOAD {name}")


connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for extension in ("avro", "httpfs", "iceberg"):
    load(connection, extension)
for name, warehouse in (("nightly", "lake@nightly"), ("main", "lake")):
    options = f"TYPE iceberg, ENDPOINT '{address}', AUTHORIZATION_TYPE 'none'"
    connection.execute(f"ATTACH '{warehouse}' AS {name}_lake ({options})")

connection.execute("INSERT INTO nightly_lake.shop.orders VALUES (100, 7.0), (101, 8.0)")

audited = connection.execute("SELECT count(*) FROM nightly_lake.shop.orders WHERE amount < 0").fetchall()[0][0]
if audited:
    raise SystemExit(f"{audited} orders have a negative amount: nothing is published.")

request = urllib.request.Request(f"{address}/v1/@nightly/publish", b"{}", {"Content-Type": "application/json"})
with urllib.request.urlopen(request) as answer:
    published = json.load(answer)

found = connection.execute("SELECT count(*) FROM main_lake.shop.orders").fetchall()[0][0]
print(f"version {published['version']} has {found} orders")
