"""OTLP/HTTP as a stranger sees it: which names the collector is called by, and how it is left."""

from __future__ import annotations

import httpx

from moulin.ingest.collector.collector import CollectorSettings
from moulin.ingest.collector.stream import StreamSettings
from tests.ingest.collector.test_collector import post, request
from tests.ingest.conftest import TOKEN, FaultyStore, MemoryRegistry, Running, running


def sent(collector: Running, **headers: str) -> httpx.Response:
    given = {"content-type": "application/x-protobuf", "authorization": f"Bearer {TOKEN}", **headers}
    return httpx.post(f"{collector.url}/v1/logs", content=request(), headers=given)


def test_a_foreign_host_or_page_is_refused(collector: Running) -> None:
    told = sent(collector, host="evil.example")
    assert (told.status_code, told.json()["code"]) == (421, 7)
    assert "allowed_hosts" in told.json()["message"]
    assert sent(collector, origin="https://evil.example").status_code == 403
    for path in ("/healthz", "/metrics", "/v1/append/shop.orders"):
        assert httpx.get(f"{collector.url}{path}", headers={"host": "evil.example"}).status_code == 421
    assert collector.entries() == []
    assert sent(collector, host="localhost:4318", origin="http://localhost:3000").status_code == 200


def test_listed_hosts_and_pages_are_taken(store: FaultyStore, registry: MemoryRegistry) -> None:
    settings = CollectorSettings(stream=StreamSettings(patience=0.5), allowed_hosts="otel.example.org")
    with running(store, registry, settings) as collector:
        assert sent(collector, host="otel.example.org", origin="https://otel.example.org").status_code == 200
        assert sent(collector, host="other.example.org").status_code == 421
        assert post(collector, request()).status_code == 200
