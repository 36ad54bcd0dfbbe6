"""Whether a collector says that it can take requests exactly when it can, and what it counts."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from moulin.errors import Unavailable
from moulin.ingest.collector import health, stream
from moulin.ingest.collector.collector import CollectorSettings
from moulin.ingest.collector.stream import StreamSettings
from tests.ingest.collector.test_collector import post, request
from tests.ingest.conftest import FaultyStore, MemoryRegistry, Running, running


def told(collector: Running) -> tuple[int, str]:
    answer = httpx.get(f"{collector.url}/healthz")
    assert "in_flight_bytes" in answer.json()
    return answer.status_code, answer.json()["status"]


OK, FAILING = (200, "ok"), (503, "failing")


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to that")


@pytest.fixture(autouse=True)
def _asks_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.Health.__init__, "__defaults__", (0.0,))


def test_a_store_that_takes_nothing_is_reported_until_it_does_again(collector: Running, store: FaultyStore) -> None:
    """Nobody sends anything meanwhile: a balancer that was told of the failure sends no requests."""
    assert told(collector) == OK
    assert post(collector, request()).status_code == 200
    store.fault = lambda path: "before"
    assert post(collector, request()).status_code == 503
    assert told(collector) == FAILING
    store.fault = lambda path: None
    until(lambda: told(collector) == OK)
    assert post(collector, request()).status_code == 200


def test_a_catalog_that_does_not_answer_is_reported_until_it_does_again(
    collector: Running, registry: MemoryRegistry
) -> None:
    registry.down = True
    assert post(collector, request()).status_code == 503
    assert told(collector) == FAILING
    registry.down = False
    assert told(collector) == OK
    assert post(collector, request()).status_code == 200


def test_a_store_that_cannot_be_read_is_reported(
    collector: Running, store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(path: str) -> Any:
        raise Unavailable("The store does not answer.")

    monkeypatch.setattr(store, "exists", away, raising=False)
    assert told(collector) == FAILING
    monkeypatch.undo()
    assert told(collector) == OK


def test_a_stream_that_cannot_be_registered_is_reported_for_a_while(
    collector: Running, registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog can be read and not written to. After a while a request has to try."""

    def refuse(*_: Any) -> Any:
        raise Unavailable("The catalog cannot be written to.")

    monkeypatch.setattr(registry, "register", refuse)
    assert post(collector, request()).status_code == 503
    assert told(collector) == FAILING
    monkeypatch.setattr(stream, "RECENT", 0.0)
    assert told(collector) == OK


def test_a_full_budget_is_reported_until_half_of_it_is_free(store: FaultyStore, registry: MemoryRegistry) -> None:
    settings = CollectorSettings(request_bytes=50_000, budget_bytes=60_000, stream=StreamSettings(patience=30))
    gate = threading.Event()

    def wait(path: str) -> None:
        gate.wait(20)

    with running(store, registry, settings) as collector:
        assert post(collector, request()).status_code == 200
        store.fault = wait
        first = threading.Thread(target=lambda: post(collector, request("x" * 40_000)))
        first.start()
        until(lambda: collector.collector.in_flight >= 40_000)
        assert told(collector) == OK
        assert post(collector, request("x" * 40_000)).status_code == 503
        assert told(collector) == FAILING
        gate.set()
        first.join()
        assert told(collector) == OK


def test_many_who_ask_for_health_make_one_question(
    collector: Running, registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    gate = threading.Event()

    def slow(*_: Any) -> None:
        nonlocal asked
        asked += 1
        gate.wait(20)

    monkeypatch.setattr(registry, "stopped_offset", slow)
    answers: list[tuple[int, str]] = []
    clients = [threading.Thread(target=lambda: answers.append(told(collector))) for _ in range(8)]
    for client in clients:
        client.start()
    until(lambda: asked == 1)
    time.sleep(0.2)
    gate.set()
    for client in clients:
        client.join()
    assert answers == [OK] * 8
    assert asked < 8


def test_every_metric_has_a_help_a_type_and_a_value(collector: Running) -> None:
    post(collector, request())
    text = httpx.get(f"{collector.url}/metrics").text
    names = re.findall(r"^(\w+)(?:{.*})? [0-9.eE+-]+$", text, re.MULTILINE)
    assert len(names) >= 20
    for name in names:
        assert re.search(rf"^# HELP {name} [A-Z].{{10,}}\.$", text, re.MULTILINE), name
        kind = "counter" if name.endswith("_total") else "gauge"
        assert f"# TYPE {name} {kind}\n" in text, name
    assert len(names) == len(set(names))
    assert "moulin_collector_stream_objects_total 1\n" in text
    assert re.search(r"^moulin_http_connections_accepted_total [1-9]", text, re.MULTILINE)
