"""Reading rows for a page is bounded: in time, in memory, and by the client that waits for it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from moulin.console.api import history, requests
from moulin.errors import Unavailable
from moulin.lake import Lake
from moulin.table.read.feed import Feed
from tests.console.conftest import Api, Serve, ids


@pytest.fixture
def api(shop: Lake, serve: Serve) -> Api:
    return serve(shop)


def test_reading_for_a_client_ends_with_its_time(api: Api, shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table_id, table = ids(api)["shop.orders"], shop.table("shop.orders")
    before = {"since": table.tags()["before"], "until": shop.version}
    monkeypatch.setattr(requests, "READ_SECONDS", -1.0)
    for path, query in (("diff", before), ("rows", {})):
        answer = api.get(f"/tables/{table_id}/{path}", params=query)
        assert answer.status_code == 503, path
        assert "seconds" in answer.json()["error"]["message"]
    monkeypatch.undo()
    assert api.get(f"/tables/{table_id}/diff", params=before).status_code == 200, "the turn was given back"


def test_a_diff_that_would_hold_too_many_row_ids_is_refused(
    api: Api, shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_id, table = ids(api)["shop.orders"], shop.table("shop.orders")
    since = table.tags()["before"]
    table.compact(everything=True)
    monkeypatch.setattr(history, "MOST_ROWS_GONE", 100)
    answer = api.get(f"/tables/{table_id}/diff", params={"since": since, "until": shop.version})
    assert answer.status_code == 412
    assert "closer" in answer.json()["error"]["message"]


def test_reading_ends_when_the_client_is_gone(api: Api, shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table_id, table = ids(api)["shop.orders"], shop.table("shop.orders")
    begun, ended = threading.Event(), threading.Event()

    def slow(self: object, go_on: Callable[[], None]) -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.02)
                go_on()
        finally:
            ended.set()

    monkeypatch.setattr(Feed, "bounded", slow)
    query = f"since={table.tags()['before']}&until={shop.version}"
    with socket.create_connection(("127.0.0.1", api.port)) as client:
        client.sendall(f"GET /api/v1/tables/{table_id}/diff?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert begun.wait(10)
    assert ended.wait(10), "long before its time is over"


def test_requests_that_wait_for_a_turn_leave_threads_for_others(
    api: Api, shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty requests that wait would hold all threads, and health checks and engines would wait with them."""
    monkeypatch.setattr(requests, "_READ_WAIT", 30.0)
    table_id = ids(api)["shop.orders"]
    begun, ended = threading.Semaphore(0), threading.Event()

    def hold(*_: object, **__: object) -> object:
        begun.release()
        ended.wait(30)
        raise Unavailable("held")

    monkeypatch.setattr("moulin.table.snapshot.Snapshot.scan", hold)

    def ask(_: int) -> int:
        with Api(api.port) as mine:
            return mine.get(f"/tables/{table_id}/rows").status_code

    with ThreadPoolExecutor(60) as pool:
        asked = [pool.submit(ask, number) for number in range(60)]
        try:
            for _ in range(requests.MOST_READS):
                assert begun.acquire(timeout=20)
            refused = 60 - requests.MOST_READS - requests.MOST_WAITING
            while sum(one.done() for one in asked) < refused:
                time.sleep(0.01)
            assert {one.result() for one in asked if one.done()} == {503}
            assert httpx.get(f"http://127.0.0.1:{api.port}/healthz", timeout=10).status_code == 200
        finally:
            ended.set()
