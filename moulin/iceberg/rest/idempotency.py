"""Idempotency-Key: a repeated mutation gets its first response and is not applied twice.

Responses are cached in memory for a while. Commits also store their key in the catalog, with their version.
"""

# Decisions: docs/decisions/0069

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moulin.iceberg.rest.errors import answer
from moulin.iceberg.rest.requests import MAX_BODY
from moulin.sized_cache import SizedCache

LIFETIME: Final = "PT30M"
_SECONDS: Final = 1800
_KEPT: Final = 10_000
_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class _Running:
    """A running request."""

    digest: bytes
    done: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class _Answered:
    """A request, when it was sent, and its final answer."""

    digest: bytes
    since: float
    messages: Sequence[Message]

    @property
    def weight(self) -> int:
        """Its bytes, with a minimum so that there are never more than `_KEPT` responses."""
        return max(_BYTES // _KEPT, sum(len(one.get("body", b"")) for one in self.messages))


_Key = tuple[str, str]


class Idempotency:
    """Plain ASGI around the catalog's app. Answers below 500 are final; after a 5xx the key may be used again."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: dict[_Key, _Running] = {}
        self._answered: SizedCache[_Key, _Answered] = SizedCache(_BYTES, lambda answered: answered.weight)

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
        try:
            body = await _body(receive)
        except ClientDisconnect:
            return
        if body is None:
            await answer(413, "BadRequestException", f"A request has at most {MAX_BODY >> 20} MiB.")(
                scope, receive, send
            )
            return
        target = f"{scope['method']} {scope['path']}?{scope['query_string'].decode('latin-1')}\n"
        digest = hashlib.sha256(target.encode() + body).digest()
        sent = (hashlib.sha256(headers.get("authorization", "").encode()).hexdigest(), key.lower())
        while (earlier := self._earlier(sent)) is not None:
            if earlier.digest != digest:
                message = "This Idempotency-Key was sent with another request: use a new one."
                await answer(422, "UnprocessableEntityException", message)(scope, receive, send)
                return
            if isinstance(earlier, _Answered):
                for part in earlier.messages:
                    await send(part)
                return
            await earlier.done.wait()
        await self._run(sent, digest, body, scope, send)

    def _earlier(self, key: _Key) -> _Running | _Answered | None:
        running = self._running.get(key)
        if running is not None:
            return running
        answered = self._answered.find(key)
        return answered if answered is not None and answered.since > time.monotonic() - _SECONDS else None

    async def _run(self, key: _Key, digest: bytes, body: bytes, scope: Scope, send: Send) -> None:
        running = self._running[key] = _Running(digest)
        since = time.monotonic()
        messages: list[Message] = []

        async def replay() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message: Message) -> None:
            messages.append(message)
            await send(message)

        try:
            await self._app(scope, replay, keep)
            if messages and messages[0]["status"] < 500:
                self._answered.keep(key, _Answered(digest, since, messages))
        finally:
            del self._running[key]
            running.done.set()


async def _body(receive: Receive) -> bytes | None:
    data = bytearray()
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":  # half a request is none
            raise ClientDisconnect
        data += message.get("body", b"")
        if len(data) > MAX_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(data)
