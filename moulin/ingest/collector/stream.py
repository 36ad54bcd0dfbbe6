"""The writer of one collector's stream: stores requests as numbered baby segments, then acknowledges them.

Requests are stored at once if no write is running; requests during a write share the next baby segment. On average
there is one baby segment per `flush_seconds`, so that a fast store does not fill with tiny ones; bursts of up to
`BURST` are allowed.

Only one baby segment is written at a time, and the next number is used only when the outcome is known. So a stream has
no gaps, and nothing after its end:

- Stored, or already there with this writer's nonce and hash: its requests are acknowledged.
- There with another nonce: the stream was ended by a process that considered this writer dead. The writer registers a
  new stream and stores the same requests there; they are not in the old one.
- Unknown, because the store did not answer: the same bytes are written again under the same number until it is known.
  After `patience` seconds callers get a retryable error, and new ones at once, until the store answers.

Everything runs in the event loop, except calls of store and registry, which run in threads.
"""

# Decisions: docs/decisions/0072, docs/decisions/0222

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from moulin.errors import AlreadyExists, Corrupt, Fenced, MoulinError, NotFound, Unavailable, Unsupported
from moulin.formats.baby_segment import (
    HEADER_SIZE,
    Entry,
    decode_header,
    encode_data,
    encode_keep_alive,
    encode_stop,
)
from moulin.ingest.collector.registry import OpenStream, StreamRegistry
from moulin.model.ids import new_id
from moulin.model.ingest import StopReason
from moulin.network.counts import counted
from moulin.storage import paths
from moulin.storage.store import Store

T = TypeVar("T")

_log = logging.getLogger(__name__)
_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 2.0
_FIRST_BYTES: Final = 16 << 20
RECENT: Final = 10.0
BURST: Final = 100


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Timings of a stream, in seconds."""

    keep_alive: float = 120.0
    patience: float = 10.0
    # After so long without a baby segment, the stream may have been ended and cleared away: its row is asked for, too.
    stale_after: float = 60.0
    description: str = ""


@dataclass(slots=True)
class StreamCounts:
    """Counters of the writer."""

    objects: int = counted("Baby segments stored.")
    bytes: int = counted("Bytes of stored baby segments.")
    records: int = counted("Records in stored baby segments.")
    streams: int = counted("Streams registered.")
    fenced: int = counted("Times that another process had ended the stream.")
    unknown_outcomes: int = counted("Puts whose outcome was unknown, and that were found stored.")
    store_errors: int = counted("Calls of the store or the catalog that failed, and were tried again.")


@dataclass(eq=False, slots=True)
class _Waiting:
    entry: Entry
    token: str = field(repr=False)
    done: asyncio.Future[None]


class StreamWriter:
    """Created and used in one event loop. `run` runs it; `close` ends it."""

    def __init__(self, store: Store, registry: StreamRegistry, settings: StreamSettings | None = None) -> None:
        self.settings = settings or StreamSettings()
        self.counts = StreamCounts()
        self._store = store
        self._registry = registry
        self._nonce = secrets.token_bytes(16)
        self._stream: OpenStream | None = None
        self._offset = 0
        self._confirmed_at = 0.0
        self._queue: deque[_Waiting] = deque()
        self._queued = 0
        self._changed = asyncio.Event()
        self._closing = False
        self._closed = asyncio.Event()
        self._down: str | None = None
        self._failure: tuple[float, str] | None = None
        self._due = -math.inf  # when the next baby segment would begin if they came evenly

    def problem(self) -> str | None:
        """Why requests are refused now; None when they are taken, as far as is known.

        A failure of the last batch counts for `RECENT` seconds only: then a request has to try.
        """
        if self._closing:
            return "The collector is shutting down."
        if self._down is None and self._failure is not None and time.monotonic() - self._failure[0] < RECENT:
            return self._failure[1]
        return self._down

    async def submit(self, entry: Entry, token: str) -> None:
        """Returns when the entry is durable. Unavailable means that it may or may not be: send it again.

        `token` is the plaintext of the entry's token, needed to register a stream; it is kept in memory only.
        """
        if self._closing:
            raise Unavailable("The collector is shutting down: send it again, to another.")
        if self._down is not None:
            raise Unavailable(self._down)
        waiting = _Waiting(entry, token, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._queued += len(entry.data)
        self._changed.set()
        await waiting.done

    async def run(self) -> None:
        """Writes baby segments until `close` was called and everything is stored or refused."""
        try:
            while True:
                batch = await self._next_batch()
                if batch:
                    await self._write(batch)
                elif self._closing:
                    break
                elif self._stream is not None:
                    await self._keep_alive()
            await self._stop()
        finally:
            self._closing = True
            self._refuse(self._take(None), Unavailable("The collector has ended: send it again."))
            self._closed.set()

    def close(self) -> None:
        """Accept no more, store everything, and end the stream."""
        self._closing = True
        self._changed.set()

    async def closed(self) -> None:
        await self._closed.wait()

    # Batches

    async def _next_batch(self) -> list[_Waiting]:
        """What goes into the next baby segment; nothing when it is time for a keep-alive, or to end."""
        while not self._queue:
            if self._closing:
                return []
            if not await self._wait(self.settings.keep_alive if self._stream is not None else None):
                return []
        if self._stream is None:  # when to flush is known from the stream
            return self._take(_FIRST_BYTES)
        flush, size = self._stream.flush_seconds, self._stream.segment_bytes
        while self._queued < size and not self._closing and (left := self._due - time.monotonic()) > 0:
            await self._wait(left)
        self._due = max(self._due, time.monotonic() - BURST * flush) + flush
        return self._take(size)

    async def _wait(self, seconds: float | None) -> bool:
        """Whether something changed before the time was up."""
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _take(self, size: int | None) -> list[_Waiting]:
        """The first of those waiting, until they have `size` bytes; all without it. Who has gone is left out."""
        batch: list[_Waiting] = []
        total = 0
        while self._queue and (size is None or total < size):
            waiting = self._queue.popleft()
            self._queued -= len(waiting.entry.data)
            if not waiting.done.done():
                batch.append(waiting)
                total += len(waiting.entry.data)
        return batch

    # Baby segments

    async def _write(self, batch: list[_Waiting]) -> None:
        """Stores a batch, registering new streams if needed, and acknowledges it."""
        while batch:
            try:
                stream = await self._registered(batch)
                entries = [waiting.entry for waiting in batch]
                data = await _thread(encode_data, stream.id, self._nonce, self._offset, time.time_ns(), entries)
                await self._put(stream, data, batch)
            except Fenced:
                self._leave("It was ended by someone else.")
                batch = [waiting for waiting in batch if not waiting.done.done()]
                continue
            except MoulinError as error:
                if error.retryable:
                    self._failure = (time.monotonic(), error.message)
                self._refuse(batch, error)
                return
            self._failure = None
            self.counts.objects += 1
            self.counts.bytes += len(data)
            self.counts.records += sum(entry.records for entry in entries)
            _answer(batch)
            return

    async def _registered(self, batch: Iterable[_Waiting]) -> OpenStream:
        """The stream, registered with the first token that is good for it."""
        if self._stream is not None:
            return self._stream
        failure: MoulinError = Unavailable("No stream could be registered.")
        for token in dict.fromkeys(waiting.token for waiting in batch):
            try:
                stream = await _thread(self._registry.register, token, str(new_id()), self.settings.description)
            except MoulinError as error:
                failure = error
                continue
            self._stream, self._offset, self._confirmed_at = stream, 0, _clock()
            self.counts.streams += 1
            return stream
        raise failure

    async def _put(self, stream: OpenStream, data: bytes, batch: list[_Waiting]) -> None:
        """Return when the baby segment at the current offset is this one; the next follows. Fenced when it never will.

        Callers whose patience ends before that are refused; the number is not left all the same.
        """
        path = paths.baby_segment(stream.id, self._offset)
        delay, give_up = _FIRST_DELAY, time.monotonic() + self.settings.patience
        while True:
            try:
                await _thread(self._attempt, path, data)
                await self._check_still_ours(stream, batch)
                break
            except Fenced:
                self._down = None
                raise
            except MoulinError as error:
                self.counts.store_errors += 1
                if time.monotonic() + delay > give_up and self._down is None:
                    _log.warning(
                        "Stream %s: baby segment %d cannot be stored: %s", stream.id, self._offset, error.message
                    )
                    self._down = "The store does not answer: send it again later."
                    self._refuse([*batch, *self._take(None)], Unavailable(self._down))
                if self._closing and self._down is not None:
                    raise Unavailable(self._down) from None
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
        self._down = None
        self._offset += 1
        self._confirmed_at = _clock()

    def _attempt(self, path: str, data: bytes) -> None:
        """Writes the baby segment, or finds that it exists. Fenced if another one exists."""
        try:
            self._store.put_if_absent(path, data)
            return
        except AlreadyExists:
            pass
        try:
            found = decode_header(self._store.get_range(path, 0, HEADER_SIZE), source=path)
        except (Corrupt, Unsupported):
            raise Fenced(f"{path} was written by another.") from None
        mine = decode_header(data, source=path)
        if (found.nonce, found.digest) != (mine.nonce, mine.digest):
            raise Fenced(f"{path} was written by another.")
        self.counts.unknown_outcomes += 1

    async def _check_still_ours(self, stream: OpenStream, batch: list[_Waiting]) -> None:
        """After a long silence: the stream may have ended and its stop object been cleared away, and then nobody reads
        the baby segment just put."""
        if _clock() - self._confirmed_at <= self.settings.stale_after:
            return
        try:
            final = await _thread(self._registry.stopped_offset, stream.id)
        except NotFound:  # whether the baby segment was read is no longer known: those who sent it decide
            self._refuse(batch, Unavailable("The stream is gone: send it again."))
            raise Fenced("The stream is gone.") from None
        if final is not None and final < self._offset:
            raise Fenced("The stream was ended.")

    async def _keep_alive(self) -> None:
        assert self._stream is not None
        data = encode_keep_alive(self._stream.id, self._nonce, self._offset, time.time_ns())
        try:
            await self._put(self._stream, data, [])
        except Fenced:
            self._leave("It was ended by someone else.")
        except MoulinError as error:  # only when closing
            _log.warning("Stream %s: no keep-alive: %s", self._stream.id, error.message)

    async def _stop(self) -> None:
        """Ends the stream. When that fails, a nursery does it once the stream has been silent for long enough."""
        stream = self._stream
        if stream is None:
            return
        data = encode_stop(stream.id, self._nonce, self._offset, time.time_ns(), StopReason.CLIENT)
        final = self._offset - 1
        try:
            await self._put(stream, data, [])
            await _thread(self._registry.stop, stream.id, final, StopReason.CLIENT)
        except MoulinError as error:
            _log.warning("Stream %s was not ended: %s", stream.id, error.message)
        self._stream = None

    def _leave(self, reason: str) -> None:
        if self._stream is not None:
            _log.warning("Leaving stream %s at baby segment %d. %s", self._stream.id, self._offset, reason)
        self.counts.fenced += 1
        self._stream = None
        self._nonce = secrets.token_bytes(16)

    def _refuse(self, batch: Iterable[_Waiting], error: MoulinError) -> None:
        for waiting in batch:
            if not waiting.done.done():
                waiting.done.set_exception(error)


def _answer(batch: Iterable[_Waiting]) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_result(None)


def _clock() -> float:
    """A clock in seconds that continues while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


async def _thread(call: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.to_thread(call, *arguments)
