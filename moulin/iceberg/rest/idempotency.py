"""Idempotency-Key: a mutation that is sent again gets its first answer, and nothing is done twice.

Answers are kept in memory for a while. Commits also keep their key in the catalog, with the version that they made.
"""

# Decisions: docs/decisions/0069

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moulin.iceberg.rest.errors import answer
from moulin.iceberg.rest.requests import MAX_BODY

LIFETIME: Final = "PT30M"
_SECONDS: Final = 1800
_KEPT: Final = 10_000
_BYTES: Final = 64 << 20


@dataclass(slots=True)
class _Kept:
    """A request and, once there is one, its answer."""

    digest: bytes
    since: float
    messages: list[Message] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    size: int = 0


class Idempotency:
    """Plain ASGI around the catalog's app. Answers below 500 are final; after a 5xx the key may be used again."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope.get("headers", ())}
        key = headers.get("idempotency-key")
        if scope["type"] != "http" or key is None or scope["method"] not in ("POST", "DELETE"):
            await self._app(scope, receive, send)
            return
        try:
            UUID(key)
        except ValueError:
            await answer(400, "BadRequestException", "An Idempotency-Key is a UUID.")(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            await answer(413, "BadRequestException", f"A request has at most {MAX_BODY >> 20} MiB.")(
                scope, receive, send
            )
            return
        target = f"{scope['method']} {scope['path']}?{scope['query_string'].decode('latin-1')}\n"
        digest = hashlib.sha256(target.encode() + body).digest()
        place = (hashlib.sha256(headers.get("authorization", "").encode()).hexdigest(), key.lower())
        self._forget()
        while (earlier := self._kept.get(place)) is not None:
            if earlier.digest != digest:
                message = "This Idempotency-Key was sent with another request: use a new one."
                await answer(422, "UnprocessableEntityException", message)(scope, receive, send)
                return
            await earlier.done.wait()
            if earlier.messages:
                for part in earlier.messages:
                    await send(part)
                return
        await self._run(place, digest, body, scope, send)

    async def _run(self, place: tuple[str, str], digest: bytes, body: bytes, scope: Scope, send: Send) -> None:
        mine = self._kept[place] = _Kept(digest, time.monotonic())
        messages: list[Message] = []

        async def replay() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message: Message) -> None:
            messages.append(message)
            await send(message)

        try:
            await self._app(scope, replay, keep)
            if messages and messages[0]["status"] < 500:
                mine.messages, mine.size = messages, sum(len(one.get("body", b"")) for one in messages)
        finally:
            if not mine.messages:
                del self._kept[place]
            mine.done.set()

    def _forget(self) -> None:
        oldest = time.monotonic() - _SECONDS
        total = sum(one.size for one in self._kept.values())
        while self._kept:
            place, first = next(iter(self._kept.items()))
            if not first.done.is_set() or (first.since > oldest and len(self._kept) < _KEPT and total < _BYTES):
                return
            total -= first.size
            del self._kept[place]


async def _body(receive: Receive) -> bytes | None:
    data = bytearray()
    while True:
        message: Any = await receive()
        data += message.get("body", b"")
        if len(data) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(data)
