"""Commits of engines through the REST catalog: one append after another, and 32 writers at once on one table.

The snapshots are written by pyiceberg before the clock starts: what is timed is the catalog's work, from the request
to the answer with the committed metadata. The table rebases appends, so that all may have been written to one state.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pyarrow as pa

import moulin
from benchmarks.harness import Bench, Line, Sample
from benchmarks.postgres import OwnPostgres, Postgres
from moulin.iceberg.rest.app import mount
from moulin.lake import Lake
from moulin.meta.config import ServeConfig
from moulin.meta.server.http import HttpServer, build_app

TITLE = "Writers through the Iceberg REST catalog"
COMMIT_TARGET = 0.025  # seconds, at the median
WRITERS = 32
RATE_TARGET = 1 / 20  # seconds for each commit, of all writers together
_COMMITS = 60
_OF_WRITER = 6
_PROPERTIES = {"format-version": "2", "moulin.rebase-appends": "true"}
_PATH = "/namespaces/writers/tables/"
Snapshot = dict[str, Any]


def run(bench: Bench) -> Iterator[Line]:
    with moulin.connect(bench.folder / "writers-sqlite") as lake, _served(lake) as address:
        bench.step("appends one after another")
        sample = _one_by_one(lake, address)
        yield Line("iceberg_writers", "append commit, SQLite", sample, target=COMMIT_TARGET)
    bench.step(f"{WRITERS} writers at once")
    server: Postgres = bench.shared("postgresql", OwnPostgres)
    uri = server.create_database("writers")
    with moulin.connect(uri, storage=str(bench.folder / "writers")) as lake, _served(lake) as address:
        sample = _at_once(lake, address)
    yield Line("iceberg_writers", f"a commit of {WRITERS} writers, PostgreSQL", sample, target=RATE_TARGET)


@contextmanager
def _served(lake: Lake) -> Iterator[str]:
    app = build_app(lake)
    mount(app)
    server = HttpServer(app, ServeConfig(http_bind="127.0.0.1:0", drain_seconds=1)).start()
    try:
        yield f"http://127.0.0.1:{server.port}/iceberg"
    finally:
        server.stop()


def _table(lake: Lake, address: str) -> Any:
    from pyiceberg.catalog.rest import RestCatalog

    lake.create_database("writers")
    lake.create_table("writers.t", [("id", "long"), ("name", "string")], properties=_PROPERTIES)
    return RestCatalog("lake", uri=address).load_table("writers.t")


def _snapshot(table: Any, number: int) -> Snapshot:
    """An append of some rows, written and not committed."""
    transaction = table.transaction()
    transaction.append(pa.table({"id": pa.array(range(number, number + 100), pa.int64()), "name": ["x"] * 100}))
    dumped = [[json.loads(one.model_dump_json(by_alias=True)) for one in some] for some in _parts(transaction)]
    return {"updates": dumped[0], "requirements": dumped[1]}


def _parts(transaction: Any) -> tuple[Any, Any]:
    return transaction._updates, transaction._requirements


def _one_by_one(lake: Lake, address: str) -> Sample:
    table = _table(lake, address)
    written = [_snapshot(table, number) for number in range(_COMMITS)]
    seconds = []
    with httpx.Client(base_url=f"{address}/v1", timeout=60) as client:
        for one in written:
            started = time.perf_counter()
            client.post(f"{_PATH}t", json=one).raise_for_status()
            seconds.append(time.perf_counter() - started)
    return Sample(tuple(seconds[5:]))


def _at_once(lake: Lake, address: str) -> Sample:
    """Seconds for each commit, of all writers together, in a few rounds."""
    table = _table(lake, address)
    rounds = []
    for _ in range(3):
        written = [_snapshot(table, number) for number in range(WRITERS * _OF_WRITER)]

        def work(writer: int, written: list[Snapshot] = written) -> None:
            with httpx.Client(base_url=f"{address}/v1", timeout=120) as client:
                for one in written[writer::WRITERS]:
                    client.post(f"{_PATH}t", json=one).raise_for_status()

        with ThreadPoolExecutor(WRITERS) as pool:
            started = time.perf_counter()
            for done in [pool.submit(work, writer) for writer in range(WRITERS)]:
                done.result()
            rounds.append((time.perf_counter() - started) / len(written))
    return Sample(tuple(rounds))
