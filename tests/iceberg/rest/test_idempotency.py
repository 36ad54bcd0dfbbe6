"""Idempotency-Key in front of a plain app: what runs once, what runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

import pytest
from starlette.types import Message, Receive, Scope, Send

from moulin.iceberg.rest import idempotency
from moulin.iceberg.rest.idempotency import Idempotency

KEY = str(uuid4())


class Counting:
    """Answers with how often it was called; `status` of a call is `statuses` from the front, then 200."""

    def __init__(self, *statuses: int, size: int = 0) -> None:
        self.calls = 0
        self.statuses = list(statuses)
        self.size = size
        self.pause = asyncio.Event()
        self.pause.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        self.calls += 1
        mine = self.calls
        await self.pause.wait()
        status = self.statuses.pop(0) if self.statuses else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": str(mine).encode().ljust(self.size)})


async def ask(app: Idempotency, key: str = KEY, body: bytes = b"{}") -> tuple[int, bytes]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"idempotency-key", key.encode())]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:]).strip()


def check(test: Callable[[], object]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_a_repeated_request_gets_its_first_answer() -> None:
    async def test() -> None:
        app = Idempotency(Counting())
        assert [await ask(app), await ask(app), await ask(app, str(uuid4()))] == [(200, b"1"), (200, b"1"), (200, b"2")]

    check(test)


def test_an_error_of_the_client_is_final_and_one_of_the_server_is_not() -> None:
    async def test() -> None:
        app = Idempotency(Counting(503, 409))
        assert [await ask(app), await ask(app), await ask(app)] == [(503, b"1"), (409, b"2"), (409, b"2")]

    check(test)


def test_a_key_with_another_body_is_refused() -> None:
    async def test() -> None:
        app = Idempotency(counting := Counting())
        await ask(app)
        assert (await ask(app, body=b"[]"))[0] == 422
        assert counting.calls == 1

    check(test)


def test_a_request_that_comes_while_the_first_runs_waits_for_its_answer() -> None:
    async def test() -> None:
        app = Idempotency(counting := Counting())
        counting.pause.clear()
        asked = [asyncio.create_task(ask(app)) for _ in range(3)]
        while not counting.calls:
            await asyncio.sleep(0)
        assert (await ask(app, body=b"[]"))[0] == 422
        counting.pause.set()
        assert await asyncio.gather(*asked) == [(200, b"1")] * 3

    check(test)


def test_a_waiting_request_runs_when_the_first_one_failed() -> None:
    async def test() -> None:
        app = Idempotency(counting := Counting(500))
        counting.pause.clear()
        asked = [asyncio.create_task(ask(app)) for _ in range(2)]
        while not counting.calls:
            await asyncio.sleep(0)
        counting.pause.set()
        assert sorted(await asyncio.gather(*asked)) == [(200, b"2"), (500, b"1")]

    check(test)


def test_an_answer_past_its_lifetime_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        app = Idempotency(Counting())
        await ask(app)
        monkeypatch.setattr(idempotency, "_SECONDS", 0)
        assert await ask(app) == (200, b"2")

    check(test)


def test_answers_are_kept_within_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(idempotency, "_BYTES", 10_000)
        app = Idempotency(counting := Counting(size=3000))
        keys = [str(uuid4()) for _ in range(4)]
        for key in keys:
            await ask(app, key)
        assert [await ask(app, key) for key in keys[1:]] == [(200, b"2"), (200, b"3"), (200, b"4")]
        await ask(app, keys[0])
        assert counting.calls == 5

    check(test)
