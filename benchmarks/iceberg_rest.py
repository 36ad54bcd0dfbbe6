"""What engines wait for at the REST catalog: a table loaded with nothing new, and rows put until DuckDB sees them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

import moulin
from benchmarks.harness import Bench, Contender, Line, Sample, Skipped, take_turns
from benchmarks.lakes import merged_table
from moulin.iceberg.rest.app import mount
from moulin.lake import Lake
from moulin.meta.config import ServeConfig
from moulin.meta.server.http import HttpServer, build_app

TITLE = "Iceberg REST catalog"
LOAD_TARGET = 0.010  # seconds, at the median
OLD_TARGET = 0.015
APPEND_TARGET = 0.025
_LOADS = 60
_COMMITS = 60
_SNAPSHOTS = 1000


def run(bench: Bench) -> Iterator[Line]:
    merged_table(bench)
    lake = bench.lake()
    app = build_app(lake)
    mount(app)
    server = HttpServer(app, ServeConfig(http_bind="127.0.0.1:0", drain_seconds=1)).start()
    try:
        address = f"http://127.0.0.1:{server.port}/iceberg"
        yield _load(bench, address)
        yield _visible(bench, lake, address)
        yield _old_table(bench, lake, address)
    finally:
        server.stop()
    yield _append(bench)


def _load(bench: Bench, address: str) -> Line:
    bench.step("loading a table")
    with httpx.Client(base_url=f"{address}/v1") as client:

        def load() -> None:
            client.get("/namespaces/bench/tables/merged").raise_for_status()

        samples = take_turns({"load": Contender(load)}, _LOADS, warm_up=5)
    return Line("iceberg_rest", "load-table, nothing new", samples["load"], target=LOAD_TARGET)


def _old_table(bench: Bench, lake: Lake, address: str) -> Line:
    bench.step("loading a table of many snapshots")
    table = lake.create_table("bench.old", [("id", "long")], if_not_exists=True)
    for number in range(_SNAPSHOTS):
        table.append({"id": [number]})
    with httpx.Client(base_url=f"{address}/v1", timeout=60) as client:

        def load() -> None:
            client.get("/namespaces/bench/tables/old").raise_for_status()

        samples = take_turns({"load": Contender(load)}, _LOADS, warm_up=5)
    return Line("iceberg_rest", f"load-table, {_SNAPSHOTS:,} snapshots", samples["load"], target=OLD_TARGET)


def _append(bench: Bench) -> Line:
    """Commits of pyiceberg's appends with `verify` = manifest, without what pyiceberg does before and after."""
    bench.step("appends of an engine")
    folder = bench.folder / "iceberg-appends"
    with moulin.connect(folder, iceberg_verify="manifest") as lake:
        lake.create_database("bench")
        lake.create_table("bench.taken", [("id", "long"), ("n", "long")], properties={"format-version": "2"})
        app = build_app(lake)
        mount(app)
        server = HttpServer(app, ServeConfig(http_bind="127.0.0.1:0", drain_seconds=1)).start()
        try:
            return _appends(f"http://127.0.0.1:{server.port}/iceberg")
        finally:
            server.stop()


def _appends(address: str) -> Line:
    from pyiceberg.catalog.rest import RestCatalog

    rows = pa.table({"id": pa.array(range(1000), pa.int64()), "n": pa.array(range(1000), pa.int64())})
    catalog, taken = RestCatalog("bench", uri=address), list[float]()
    with httpx.Client(base_url=f"{address}/v1", timeout=60) as client:
        for _ in range(_COMMITS):
            transaction = catalog.load_table("bench.taken").transaction()
            transaction.append(rows)
            sent = {
                name: [one.model_dump(mode="json", by_alias=True) for one in some]
                for name, some in (("updates", transaction._updates), ("requirements", transaction._requirements))
            }
            start = time.perf_counter()
            client.post("/namespaces/bench/tables/taken", json=sent).raise_for_status()
            taken.append(time.perf_counter() - start)
    return Line("iceberg_rest", "append commit, verify = manifest", Sample(tuple(taken)), target=APPEND_TARGET)


def _visible(bench: Bench, lake: Lake, address: str) -> Line:
    case = "put until DuckDB sees it"
    bench.step(case)
    table = lake.create_table(
        "bench.visible", [("id", "long", False), ("n", "long")], primary_key=["id"], if_not_exists=True
    )
    try:
        connection = _duckdb(address)
    except Skipped as skipped:
        return Line("iceberg_rest", case, reason=str(skipped))
    put = 0

    def once() -> None:
        nonlocal put
        put += 1
        table.put({"id": put, "n": put})
        lake.flush()  # DuckDB reads no snapshot that is younger than its transaction
        (found,) = connection.execute("SELECT max(n) FROM ice.bench.visible").fetchone()
        assert found == put

    samples = take_turns({"put": Contender(once)}, bench.runs)
    return Line("iceberg_rest", case, samples["put"])


def _duckdb(address: str) -> Any:
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):
        spec = find_spec(f"duckdb_extension_{name}")
        if spec is None or spec.origin is None:
            raise Skipped(f"duckdb-extension-{name} is not installed")
        (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    connection.execute(f"ATTACH 'lake' AS ice (TYPE iceberg, ENDPOINT '{address}', AUTHORIZATION_TYPE 'none')")
    return connection
