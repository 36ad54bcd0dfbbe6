"""The part of the tour that shows telemetry: from senders to a collector, to fresh queries, to compacted segments."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from moulin.cli.output import console, show_rows
from moulin.cli.values import size
from moulin.lake import Lake

REQUESTS = 60
_SENDERS = 20
_ERRORS = """
select service_name, count(*) as spans, round(100 * avg(if(status_code = 'error', 1, 0)), 1) as error_percent
from otel.traces group by service_name order by error_percent desc, service_name
"""
_SLOWEST = """
select service_name, name, trace_id as trace, round(duration_ns / 1e6) as ms
from otel.traces order by duration_ns desc limit 3
"""
Timed = Callable[[str], AbstractContextManager[None]]


def telemetry(lake: Lake, timed: Timed, ask: Callable[[Lake, str], list[dict[str, Any]]]) -> None:
    """Send a fleet's telemetry through a real collector, query it at once, load it and compact it."""
    from moulin.cli.demo.fleet import fleet
    from moulin.ingest.setup import set_up
    from moulin.pipeline.nursery.nursery import Nursery

    token = set_up(lake).token
    assert token is not None
    requests = list(fleet(REQUESTS, time.time_ns()))
    total = sum(len(data) for _, data in requests)
    with _collecting(lake) as port:
        began = time.perf_counter()
        with ThreadPoolExecutor(_SENDERS) as pool:
            for _ in pool.map(lambda one: _send(port, token, *one), requests):
                pass
        acknowledged = time.perf_counter()
        console.print(
            f"   {REQUESTS} requests ({size(total)}) acknowledged in {acknowledged - began:.1f} s, over OTLP/HTTP, "
            "each after the store confirmed it"
        )
        counted = ask(
            lake, "select count(*) as records from (select 1 from otel.traces union all select 1 from otel.logs)"
        )
        seconds = time.perf_counter() - acknowledged
        console.print(
            f"   {counted[0]['records']:,} records seen by SQL {seconds:.1f} s later, none of them in tables yet"
        )
    done = Nursery(lake).drain()
    console.print(
        f"   The nursery took {done.rows:,} rows into {done.segments} segments in {done.seconds:.1f} s "
        f"({done.raw_bytes / 1e6 / max(done.seconds, 1e-9):.0f} MB/s), as version {done.version}"
    )
    with timed("Compacted otel.traces and otel.logs"):
        for name in ("traces", "logs"):
            lake.table(f"otel.{name}").compact(everything=True)
    stored = sum(lake.table(f"otel.{name}").stats().bytes for name in ("traces", "logs"))
    console.print(f"   {size(total)} of OTLP are {size(stored)} in the lake")
    with timed("Error rates by service, and the slowest traces"):
        rates, slowest = ask(lake, _ERRORS), ask(lake, _SLOWEST)
    show_rows(rates, False)
    show_rows(slowest, False)


def _send(port: int, token: str, signal: str, data: bytes) -> None:
    url = f"http://127.0.0.1:{port}/v1/{signal}"
    headers = {"authorization": f"Bearer {token}", "content-type": "application/x-protobuf"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:
        answer.read()


@contextmanager
def _collecting(lake: Lake) -> Iterator[int]:
    """A collector in a thread, on a free port."""
    from moulin.ingest.collector.collector import Collector, CollectorSettings
    from moulin.ingest.collector.registry import CatalogRegistry
    from moulin.ingest.collector.service import Listen, serve

    started: queue.Queue[Any] = queue.Queue()

    async def live() -> None:
        stop = asyncio.Event()
        collector = Collector(
            lake.store, CatalogRegistry(lake.own_catalog()), CollectorSettings.of(lake.config, "demo")
        )

        def ready(grpc_port: int, http_port: int) -> None:
            started.put((http_port, asyncio.get_running_loop(), stop))

        await serve(collector, Listen(grpc_port=0, http_port=0), ready=ready, stop=stop)

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            started.put(error)

    thread = threading.Thread(target=run, name="moulin-demo-collector")
    thread.start()
    found = started.get(timeout=60)
    if isinstance(found, BaseException):
        raise found
    port, loop, stop = found
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
