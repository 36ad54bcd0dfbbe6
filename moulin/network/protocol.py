"""HTTP/1.1 with timeouts: for the head of a request, for its body, and for reading a response.

A head must be complete `header_seconds` after the connection was made, or after its first byte came on one that was
answered before: until then the connection is idle, for `IDLE_SECONDS` at most. A body has `body_seconds`, plus a second
for every `SLOWEST` bytes received, so that a large body on a slow line is accepted but a trickle is not. Time in which
the app is slow to read does not count. A response that the client does not read for `body_seconds` is aborted.
"""

# Decisions: docs/decisions/0221

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from moulin.network.connections import Accepted, Connections

SLOWEST: Final = 4096
IDLE_SECONDS: Final = 75  # clients that pause between requests keep their connection; most give it up sooner themselves
_HEAD, _BODY = "head", "body"
_PHASES: Final = {h11.IDLE: _HEAD, h11.SEND_BODY: _BODY}
_LATE: Final = b"The request did not arrive in time: send it again, faster."


class GuardedProtocol(H11Protocol):
    """One connection."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._all = connections
        self._limits = connections.limits
        self._accepted: Accepted | None = None
        self._phase: str | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self.finished = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._accepted = self._all.find(transport.get_extra_info("peername"))
        if self._accepted is not None:
            self._accepted.speaker = self
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()
        if self._accepted is not None:
            self._accepted.speaker = None
            self._accepted = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._phase is _BODY:
            self._deadline += len(data) / SLOWEST
        self._watch()

    def on_response_complete(self) -> None:
        self.finished += 1
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.body_seconds, self._not_read)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def is_waiting(self) -> bool:
        """Whether the next move is the client's."""
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete or self.flow.write_paused:
            return True
        return bool(cycle.more_body) and not self.flow.read_paused

    def drop(self) -> None:
        self.transport.abort()

    def _watch(self) -> None:
        """Note what is waited for, and until when."""
        phase = _PHASES.get(self.conn.their_state)
        if phase is _HEAD and self.finished and not self.conn.trailing_data[0]:
            phase = None  # idle: uvicorn ends that
        if phase is self._phase:
            return
        self._phase = phase
        if phase is None:
            return
        seconds = self._limits.header_seconds if phase is _HEAD else self._limits.body_seconds
        self._deadline = self.loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(self._deadline, self._check)

    def _check(self) -> None:
        """Runs when a deadline may have passed; it may have moved since."""
        self._timer = None
        if self._phase is None or self.transport.is_closing():
            return
        if self._phase is _BODY and self.flow.read_paused:  # it is the app that does not read
            self._deadline = self.loop.time() + self._limits.body_seconds
        if self.loop.time() < self._deadline:
            self._timer = self.loop.call_at(self._deadline, self._check)
            return
        self._all.note_timeout(self._accepted, self._phase)
        self._answer_late()

    def _not_read(self) -> None:
        self._all.note_timeout(self._accepted, "answer")
        self.transport.abort()

    def _answer_late(self) -> None:
        """408 when something was sent and nothing answered; then the end."""
        cycle: Any = self.cycle
        begun = self._phase is _BODY or bool(self.conn.trailing_data[0])
        answered = self._phase is _BODY and cycle is not None and cycle.response_started
        if begun and not answered:
            headers = [
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", b"%d" % len(_LATE)),
                (b"connection", b"close"),
            ]
            try:
                for event in (
                    h11.Response(status_code=408, headers=headers, reason=b"Request Timeout"),
                    h11.Data(data=_LATE),
                    h11.EndOfMessage(),
                ):
                    self.transport.write(self.conn.send(event) or b"")
            except h11.LocalProtocolError:
                pass
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()
