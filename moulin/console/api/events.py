"""Live updates as server-sent events."""

# Decisions: docs/decisions/0533

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from moulin.console.api.requests import Console, ConsoleOf, takes
from moulin.errors import MoulinError, Unavailable
from moulin.network.callers import IDENTIFY, Identify, Role

router = APIRouter(tags=["lake"])
MOST_STREAMS: Final = 128
_LOOK_SECONDS: Final = 0.5
_WAKE_SECONDS: Final = 0.2
_BEAT_SECONDS: Final = 2.0


class Pulse:
    """What all streams of a server tell, asked for once however many there are."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._looked = -_LOOK_SECONDS
        self._last: dict[str, Any] = {}
        self.streams = 0

    def recent(self) -> dict[str, Any] | None:
        """The last answer while it is fresh."""
        return self._last if time.monotonic() - self._looked < _LOOK_SECONDS else None

    def look(self) -> dict[str, Any]:
        with self._lock:
            if (found := self.recent()) is None:
                catalog = self._console.lake.own_catalog()
                tasks, quarantined = catalog.maintenance.task_counts()
                found = {"version": str(catalog.version()), "merge_tasks": tasks, "quarantined": quarantined}
                self._last, self._looked = found, time.monotonic()
            return found


@router.get("/events", response_class=StreamingResponse, **takes(Role.READ))
async def follow(request: Request, console: ConsoleOf) -> StreamingResponse:
    """Events `state` (version, merge_tasks, quarantined) whenever one changes, and `beat` every two seconds.

    `end` comes last: `{"reason": "stopping"}` when the server stops, `"signed-out"` when the token was taken back.
    """
    pulse: Pulse = request.app.state.pulse
    if pulse.streams >= MOST_STREAMS:
        raise Unavailable(f"{MOST_STREAMS} event streams are open: poll /api/v1/lake every few seconds instead.")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    events = _events(console, pulse, request.scope[IDENTIFY])
    return _Counted(pulse, events, headers)


class _Counted(StreamingResponse):
    """A stream that counts from the moment it is let in, however early its client leaves."""

    def __init__(self, pulse: Pulse, events: AsyncIterator[str], headers: dict[str, str]) -> None:
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._pulse = pulse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._pulse.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._pulse.streams -= 1


async def _events(console: Console, pulse: Pulse, identify: Identify) -> AsyncIterator[str]:
    told: dict[str, Any] | None = None
    beat = -_BEAT_SECONDS
    while not console.stopping.is_set():
        try:
            await identify()
            recent = pulse.recent()
            state = recent if recent is not None else await asyncio.to_thread(pulse.look)
        except Unavailable:  # the catalog, or the file of tokens: the beat stops until it is back
            await asyncio.sleep(_WAKE_SECONDS)
            continue
        except MoulinError:
            yield _event("end", {"reason": "signed-out"})
            return
        if state != told:
            told = state
            yield _event("state", state)
        if time.monotonic() - beat >= _BEAT_SECONDS:
            beat = time.monotonic()
            yield _event("beat", {"at": str(time.time_ns())})
        await asyncio.sleep(_WAKE_SECONDS)
    yield _event("end", {"reason": "stopping"})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
