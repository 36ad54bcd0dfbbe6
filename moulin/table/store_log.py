"""A region's log in a store, beside the table's segments. Bytes: moulin/formats/log_object.py.

An object holds the entries that were waiting when it was written and is named by the position of its first, so the next
one's name is known, and two writers that both think they are at the end collide: the store lets one of them win. The
newest object is never deleted: it says where the end is.
"""

from __future__ import annotations

import secrets
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final
from uuid import UUID

from moulin.errors import AlreadyExists, Corrupt, InvalidInput, MoulinError, NotFound, Unavailable
from moulin.formats.log_entry import encode_fence, is_fence
from moulin.formats.log_object import LogObject, decode_object, encode_object
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.log import Death, check_committable, closed, failed, missing, taken_over

_ATTEMPTS: Final = 3  # to put an object whose fate is unknown; the store retries by itself within each
_READERS: Final = 8


class StoreLog:
    """The log of one region in `store`, claimed by making it: a fence is written at its end, so that whoever still
    writes under an older epoch collides with it.

    `commit` puts what is waiting as one object and returns when it is in the store, for those who wait together at
    once; a lone caller's entry goes at once. Nothing is acknowledged unless `check_epoch()` still gives `epoch` after
    the put, since trimmed objects collide with nobody. Appends without a commit go out when they have `object_bytes`.
    `covered` is the newest position that is in segments: where the log lacks it, it goes on from there.
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
    ) -> None:
        self._store, self._table_id, self._region, self._epoch = store, table_id, region, epoch
        self._check_epoch, self._object_bytes = check_epoch, object_bytes
        self._nonce = secrets.token_bytes(16)
        self._changed = threading.Condition()
        self._writing = False  # whether some thread is putting an object; only that one does
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._death: Death | None = None
        self._check_claim()
        self._firsts, self.last = self._find_end(covered)
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
        start = bisect_right(firsts, after + 1) - 1
        if start < 0:
            raise missing(self._name(after + 1), after + 1, firsts[0])
        expected, epoch = firsts[start], 0
        with ThreadPoolExecutor(_READERS) as readers:
            for at in range(start, len(firsts), _READERS):
                for found in readers.map(self._read, firsts[at : at + _READERS]):
                    if found.first != expected:
                        raise missing(self._name(found.first), expected, found.first)
                    expected = found.last + 1
                    if all(map(is_fence, found.entries)):  # of a claim; one that came too late may have an old epoch
                        continue
                    if found.epoch < epoch:
                        raise Corrupt(
                            f"{self._name(found.first)} was written under epoch {found.epoch}, after one of epoch "
                            f"{epoch}, so it was never acknowledged: restore the log from a copy."
                        )
                    epoch = found.epoch
                    for position, entry in enumerate(found.entries, found.first):
                        if position > after:
                            yield position, entry

    def trim(self, through: int) -> None:
        with self._changed:
            doomed = [first for first, following in pairwise(self._firsts) if following - 1 <= through]
            self._firsts = self._firsts[len(doomed) :]
        self._store.delete(map(self._path, doomed))

    def close(self) -> None:
        try:
            if self._death is None:
                self.commit(self.last)
        finally:
            with self._changed:
                self._death = closed()

    def _find_end(self, covered: int) -> tuple[list[int], int]:
        """The first positions of all objects, and the position of the last entry."""
        listed = (paths.parse_log_object(info.path) for info in self._store.list(self._prefix()))
        firsts = sorted(found[2] for found in listed if found is not None)
        return firsts, max(self._last_of(self._read(firsts[-1])), covered) if firsts else covered

    def _put_fence(self) -> int:
        """The position of a fence behind the last entry, wherever that turns out to be."""
        while True:
            first = self.last + 1
            found = self._put(first, (encode_fence(self._epoch),))
            self._firsts.append(first)
            if found is None:
                return first
            self.last = self._last_of(decode_object(found, source=self._name(first)))

    def _last_of(self, found: LogObject) -> int:
        if found.epoch > self._epoch:
            raise taken_over(self._name(found.first), self._epoch, f"an object of epoch {found.epoch}").error()
        return found.last

    def _put_waiting(self) -> None:
        """Puts what is waiting as one object, and acknowledges it. REQUIRES: this thread has set `_writing`."""
        with self._changed:
            entries, self._waiting, self._waiting_bytes = self._waiting, [], 0
            first = self._stored + 1
        try:
            found = self._put(first, tuple(entries)) if entries else None
        except BaseException as error:
            self._death = failed(
                self._name(first), "written", error if isinstance(error, MoulinError) else "interrupted"
            )
            if isinstance(error, MoulinError):
                raise self._death.error() from error
            raise
        if found is not None:
            self._death = taken_over(self._name(first), self._epoch, _describe(found))
            raise self._death.error()
        with self._changed:
            stored = self._stored = self._stored + len(entries)
            if entries:
                self._firsts = [*self._firsts, first]
        self._check_claim()
        with self._changed:
            self._durable = stored

    def _check_claim(self) -> None:
        """Kills the log if the region has a newer owner. If nobody can say, nothing is acknowledged for now."""
        current = self._check_epoch()
        if current != self._epoch:
            self._death = taken_over(self._prefix(), self._epoch, f"that epoch {current} owns the region")
            raise self._death.error()

    def _put(self, first: int, entries: tuple[bytes, ...]) -> bytes | None:
        """Puts an object of these entries, or returns the bytes of the one that another writer put there.

        An object that is there already and has our bytes, nonce and all, is ours: only the answer was lost. One that is
        missing after a failure may be put again, since it is the same.
        """
        path = self._path(first)
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
        raise Unavailable(f"{self._name(first)} can neither be written nor read: {failure}") from failure

    def _read(self, first: int) -> LogObject:
        name = self._name(first)
        try:
            data = self._store.get(self._path(first))
        except NotFound as error:
            raise Corrupt(f"{name} has disappeared while the log was read: another writer may own it.") from error
        found = decode_object(data, source=name)
        if (found.table_id, found.region, found.first) != (self._table_id, self._region, first):
            raise Corrupt(
                f"{name} belongs to region {found.region} of table {found.table_id}, from position {found.first} on: "
                "this is not its place. Move it away."
            )
        return found

    def _prefix(self) -> str:
        return paths.log_prefix(self._table_id, self._region)

    def _path(self, first: int) -> str:
        return paths.log_object(self._table_id, self._region, first)

    def _name(self, first: int) -> str:
        return f"{self._store.uri}/{self._path(first)}"


def _describe(data: bytes) -> str:
    try:
        return f"an object of epoch {decode_object(data, source='').epoch} in the place of its own"
    except MoulinError:
        return "an object that it cannot read in the place of its own"


__all__ = ["StoreLog"]
