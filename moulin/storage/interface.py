"""The guarantees of every store, a folder or an object store.

- A path is relative to the root and passes `paths.checked`. Objects are atomic: visible completely or not at all.
- When `put`, `put_if_absent` or a `writer` block returns, the bytes are durable.
- `put_if_absent` has exactly one winner, between threads, processes and machines.
- Errors are those of `moulin.errors`. Errors and `repr` never contain keys, tokens or signed URLs.
- A store may be used from several threads at once, and pickled. A folder may also be used after a fork; the client of
  object stores may not, and raises an error.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from moulin.errors import AlreadyExists, Corrupt, FailedPrecondition, InvalidInput, NotFound
from moulin.storage import paths
from moulin.storage.sts import Sts

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing knows of an object. `modified` is in UTC; `etag` changes whenever the bytes do."""

    path: str
    size: int
    modified: datetime
    etag: str | None = None


class Store(ABC):
    """The root of a lake in a folder or an object store. Made by `open_store`; the module says what it promises."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def __repr__(self) -> str:
        return f"Store({self.uri!r})"

    @property
    def is_local(self) -> bool:
        return False

    @property
    def service(self) -> tuple[str, str]:
        """Endpoint and region of an object store, where they are not the provider's own; never a secret."""
        return "", ""

    @property
    def sts(self) -> Sts | None:
        """The vendor of short-lived credentials for parts of this store; None if there is none."""
        return None

    def location(self, path: str) -> str:
        """The address of an object as Iceberg engines spell it: not percent-encoded, which none of them undoes."""
        local = self.local_path(paths.checked(path))
        return f"{self.uri}/{path}" if local is None else f"file://{local}"

    def local_path(self, path: str) -> Path | None:
        """The absolute path of the file behind `path`, or None when this store is not a folder."""
        return None

    @abstractmethod
    def get(self, path: str) -> bytes:
        """All bytes of an object."""

    @abstractmethod
    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`; Corrupt when the object ends before that."""

    @abstractmethod
    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes, ...]:
        """`get_range` for several (start, length) at once; near neighbours share a request."""

    @abstractmethod
    def head(self, path: str) -> ObjectInfo: ...

    def exists(self, path: str) -> bool:
        try:
            self.head(path)
        except NotFound:
            return False
        return True

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Writes an object, replacing one of that name."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> None:
        """Writes an object if there is none of that name, else raises AlreadyExists.

        AlreadyExists is never said of an object that this very call wrote, whatever became of the store's answers.
        After Unavailable the object may or may not be there: who repeats the call compares the bytes it finds.
        """

    def put_derived(self, path: str, data: bytes) -> None:
        """As `put_if_absent`, for what can be made again: a power cut may take the object away, or cut it short."""
        self.put_if_absent(path, data)

    def put_fresh(self, path: str, *parts: bytes) -> None:
        """As `put_if_absent`, for a name that nobody looks for before this returns: a crash may leave it cut short.

        The object is what the parts are together.
        """
        self.put_if_absent(path, b"".join(parts))

    @abstractmethod
    def writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        """A file to stream into. The object appears when the block ends, and not at all when the block raises."""

    @abstractmethod
    def reader(self, path: str, size: int | None = None, etag: str = "") -> pa.NativeFile:
        """A random-access file for pyarrow. Given the `size` that was recorded, any other size is Corrupt.

        So is another `etag`, if one was recorded and the store tells it with the bytes; a folder does not.
        """

    @abstractmethod
    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        """Every object below the folder `prefix`, streamed, in no order; temporary ones too (`paths.is_temporary`).

        With `after`, only those whose path sorts after it; an object store does not look at the others.
        """

    @abstractmethod
    def delete(self, objects: Iterable[str]) -> None:
        """Removes objects. One that is missing already is fine."""

    @abstractmethod
    def remove_empty_folders(self, prefix: str = "") -> None:
        """Removes empty folders below and including `prefix`, never the root. An object store has none."""

    def clock(self) -> datetime:
        """The store's own time, which it gives to an object that is written now."""
        probe = paths.temporary(f"{paths.tables_prefix()}/clock", secrets.token_hex(8))
        self.put(probe, b"clock")
        try:
            return self.head(probe).modified
        finally:
            self.delete([probe])

    def check_put_if_absent(self) -> None:
        """Proves with a probe that the store can be written and honours put-if-absent, on which every commit relies."""
        probe = paths.temporary("put-if-absent", secrets.token_hex(8))
        self.put_if_absent(probe, b"first")
        try:
            self.put_if_absent(probe, b"second")
        except AlreadyExists:
            honoured = self.get(probe) == b"first"
        else:
            honoured = False
        finally:
            self.delete([probe])
        if not honoured:
            raise FailedPrecondition(f"{self.uri} does not support put-if-absent: use another store.")


def checked_prefix(prefix: str) -> str:
    """A folder below the root, or the root itself as the empty string; a trailing slash is dropped."""
    prefix = prefix.removesuffix("/")
    return paths.checked(prefix) if prefix else ""


def checked_ranges(ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    for start, length in ranges:
        if start < 0 or length < 0 or start + length > paths.MAX_NUMBER:
            raise InvalidInput(f"No object has {length} bytes from {start} on: a range must be between 0 and 2**63.")
    return ranges


def complete(name: str, start: int, length: int, data: bytes) -> bytes:
    """`data` if it is all of the range that was asked for."""
    if len(data) != length:
        raise Corrupt(
            f"{name} has only {len(data)} of the {length} bytes from {start} on: it is truncated. Restore it."
        )
    return data


def checked_etag(name: str, found: str | None, recorded: str) -> None:
    """Refuse an object that is not the one that had the ETag `recorded`. Stores spell the same one in several ways."""
    if recorded and found and _plain(found) != _plain(recorded):
        raise Corrupt(
            f"{name} was changed: its ETag is {found[:100]}, not {recorded}. Restore the object; if its content did "
            f"not change, set check_etags to 'off'."
        )


def _plain(etag: str) -> str:
    return etag.removeprefix("W/").strip('"')


def checked_size(name: str, found: int, recorded: int | None) -> int:
    """`found` if it is what was recorded when the object was written."""
    if recorded is not None and found != recorded:
        raise Corrupt(f"{name} has {found} bytes, but {recorded} were written: restore it, or run `moulin check`.")
    return found
