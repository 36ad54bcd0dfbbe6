"""A region's log in a store, beside the table's segments. Bytes: moulin/formats/log_object.py.

An object holds the entries that were waiting when it was written and is named by the position of its first, so the next
one's name is known, and two writers that both think they are at the end collide: the store lets one of them win. The
newest object is never deleted: it says where the end is.
"""

# Decisions: docs/decisions/0046, docs/decisions/0482

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final
from uuid import UUID

from moulin.errors import AlreadyExists, InvalidInput, MoulinError, NotFound, Unavailable
from moulin.formats.log_entry import encode_fence
from moulin.formats.log_object import LogObject, decode_object, encode_object
from moulin.storage.store import Store
from moulin.table.keyed.log.log import Death, check_committable, closed, failed, taken_over
from moulin.table.keyed.log.log_reader import StoreLogReader

_ATTEMPTS: Final = 3  # to put an object whose fate is unknown; the store retries by itself within each


class StoreLog:
    """The log of one region in `store`, claimed by making it: a fence is written at its end, so that a writer that
    still writes under an older epoch collides with it.

    `commit` puts what is waiting as one object and returns when it is in the store, for those who wait together at
    once; a lone caller's entry goes at once. Nothing is acknowledged unless `check_epoch()` still gives `epoch` after
    the put, since trimmed objects collide with nobody. Appends without a commit go out when they have `object_bytes`.
    `covered` is the newest position that is in segments: where the log lacks it, it goes on from there. `known` are the
    first positions of its objects as they were seen before the claim: only later ones are listed.
    """

    def __init__(
        self,
        store: Store,
        table_id: UUID,
        region: int,
        epoch: int,
        check_epoch: Callable[[], int],
        *,
        object_bytes: int = 8 << 20,
        covered: int = 0,
        known: Sequence[int] = (),
    ) -> None:
        self._store, self._table_id, self._region, self._epoch = store, table_id, region, epoch
        self._reader = StoreLogReader(store, table_id, region)
        self._check_epoch, self._object_bytes = check_epoch, object_bytes
        self._nonce = secrets.token_bytes(16)
        self._changed = threading.Condition()
        self._writing = False  # whether some thread is putting an object; only that one does
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._death: Death | None = None
        self._check_claim()
        self._firsts, self.last = self._find_end(covered, known)
        self.last = self._stored = self._durable = self._put_fence()
        self._check_claim()

    def append(self, payload: bytes) -> int:
        return self.append_many((payload,))

    def append_many(self, payloads: Iterable[bytes]) -> int:
        payloads = tuple(payloads)
        if not all(payloads):
            raise InvalidInput("An entry of a log has at least one byte.")
        with self._changed:
            if self._death is not None:
                raise self._death.error()
            self._waiting += payloads
            self._waiting_bytes += sum(map(len, payloads))
            self.last += len(payloads)
            position, full = self.last, self._waiting_bytes >= self._object_bytes
        if full:
            self.commit(position)
        return position

    def commit(self, position: int) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._durable >= position or not self._writing)
                if self._durable >= position:
                    return
                if self._death is not None:
                    raise self._death.error()
                check_committable(position, self.last)
                self._writing = True
            try:
                self._put_waiting()
            finally:
                with self._changed:
                    self._writing = False
                    self._changed.notify_all()

    def replay(self, after: int) -> Iterator[tuple[int, bytes]]:
        """As `Log.replay`; fences are left out."""
        with self._changed:
            firsts, last = self._firsts, self._stored
        if after >= last:
            return
        yield from self._reader.entries(firsts, after)

    def trim(self, through: int) -> None:
        with self._changed:
            doomed = [first for first, following in pairwise(self._firsts) if following - 1 <= through]
            self._firsts = self._firsts[len(doomed) :]
        self._store.delete(map(self._reader.path, doomed))

    def shed(self) -> None:
        self.commit(self.append(encode_fence(self._epoch)))

    def close(self) -> None:
        try:
            if self._death is None:
                self.commit(self.last)
        finally:
            with self._changed:
                self._death = closed()

    def _find_end(self, covered: int, known: Sequence[int]) -> tuple[list[int], int]:
        """The first positions of all objects, and the position of the last entry."""
        firsts = self._reader.firsts(known)
        return firsts, max(self._last_of(self._reader.read(firsts[-1])), covered) if firsts else covered

    def _put_fence(self) -> int:
        """The position of a fence behind the last entry, wherever that turns out to be."""
        while True:
            first = self.last + 1
            found = self._put(first, (encode_fence(self._epoch),))
            self._firsts.append(first)
            if found is None:
                return first
            self.last = self._last_of(decode_object(found, source=self._reader.name_of(first)))

    def _last_of(self, found: LogObject) -> int:
        if found.epoch > self._epoch:
            raise taken_over(
                self._reader.name_of(found.first), self._epoch, f"an object of epoch {found.epoch}"
            ).error()
        return found.last

    def _put_waiting(self) -> None:
        """Writes the waiting entries as one object, and acknowledges them. REQUIRES: this thread has set `_writing`."""
        with self._changed:
            entries, self._waiting, self._waiting_bytes = self._waiting, [], 0
            first = self._stored + 1
        try:
            found = self._put(first, tuple(entries)) if entries else None
        except BaseException as error:
            self._death = failed(
                self._reader.name_of(first), "written", error if isinstance(error, MoulinError) else "interrupted"
            )
            if isinstance(error, MoulinError):
                raise self._death.error() from error
            raise
        if found is not None:
            self._death = taken_over(self._reader.name_of(first), self._epoch, _describe(found))
            raise self._death.error()
        with self._changed:
            stored = self._stored = self._stored + len(entries)
            if entries:
                self._firsts = [*self._firsts, first]
        self._check_claim()
        with self._changed:
            self._durable = stored

    def _check_claim(self) -> None:
        """Marks the log as dead if the region has a newer owner. If that is unknown, nothing is acknowledged yet."""
        current = self._check_epoch()
        if current != self._epoch:
            self._death = taken_over(self._reader.name, self._epoch, f"that epoch {current} owns the region")
            raise self._death.error()

    def _put(self, first: int, entries: tuple[bytes, ...]) -> bytes | None:
        """Puts an object of these entries, or returns the bytes of the one that another writer put there.

        An object that is there already and has our bytes, nonce and all, is ours: only the answer was lost. One that is
        missing after a failure may be put again, since it is the same.
        """
        path = self._reader.path(first)
        data = encode_object(LogObject(self._table_id, self._region, self._epoch, first, self._nonce, entries))
        failure: MoulinError | None = None
        for _ in range(_ATTEMPTS):
            try:
                self._store.put_if_absent(path, data)
                return None
            except (AlreadyExists, Unavailable) as error:
                failure = error
            try:
                found = self._store.get(path)
            except NotFound:
                continue
            return None if found == data else found
        raise Unavailable(f"{self._reader.name_of(first)} can neither be written nor read: {failure}") from failure


def begin_store_log(store: Store, table_id: UUID, region: int, epoch: int, covered: int) -> None:
    """Puts a first object, a fence, so that there is a log before anybody claims it."""
    reader = StoreLogReader(store, table_id, region)
    fence = LogObject(table_id, region, epoch, covered + 1, secrets.token_bytes(16), (encode_fence(epoch),))
    with suppress(AlreadyExists):
        store.put_if_absent(reader.path(fence.first), encode_object(fence))


def _describe(data: bytes) -> str:
    try:
        return f"an object of epoch {decode_object(data, source='').epoch} under the name of its own"
    except MoulinError:
        return "an object that it cannot read under the name of its own"


__all__ = ["StoreLog", "begin_store_log"]
