"""Object stores (S3, GCS, Azure) and memory as a store, through obstore."""

# Decisions: docs/decisions/0234, docs/decisions/0481

from __future__ import annotations

import io
import os
import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import SplitResult, urlsplit

import obstore
from obstore import exceptions
from obstore.store import MemoryStore, from_url

from moulin.errors import FailedPrecondition, InvalidInput, MoulinError, NotFound
from moulin.model.columns.batching import batched
from moulin.storage import paths, range_file
from moulin.storage.interface import (
    ObjectInfo,
    Store,
    checked_etag,
    checked_prefix,
    checked_ranges,
    checked_size,
    complete,
)
from moulin.storage.remote_errors import failure, may_be_done
from moulin.storage.sts import OPTIONS as STS_OPTIONS
from moulin.storage.sts import Sts, sts_of

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore import Attributes, ObjectMeta, WritableFile
    from obstore.store import ObjectStore, RetryConfig

_WHOLE_OBJECT_BYTES: Final = 16 << 20  # a reader fetches objects up to this size in one request
_PART_BYTES: Final = 8 << 20  # one part of a multipart upload; 10,000 parts bound an object to 80 GB
_UPLOADS: Final = 4  # parts of one object under way at once
_PARALLEL_READS: Final = 8  # stretches of one object asked for at once
_BATCH: Final = 1000  # objects listed or deleted by one request
_RETRY: Final[RetryConfig] = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=3), "base": 2},
}
_CLIENT_DEFAULTS: Final = {"connect_timeout": "3s", "read_timeout": "30s", "timeout": "300s"}
_CLIENT_OPTIONS: Final = frozenset(_CLIENT_DEFAULTS) | {
    "allow_http",
    "allow_invalid_certificates",
    "default_content_type",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "randomize_addresses",
    "root_certificate",
    "user_agent",
}
_MARK: Final = "moulinput"  # of the metadata of each object: which call wrote it. Letters only, as Azure wants it
_ENDPOINT: Final = re.compile(r"(?:\w+_)?endpoint(?:_url(?:_s3)?)?")
_MEMORY: Final[dict[str, MemoryStore]] = {}


def open_memory(uri: str) -> RemoteStore:
    """A store in this process's memory: the same one for the same URI."""
    return RemoteStore(uri, {}, _MEMORY.setdefault(uri, MemoryStore()))


def open_remote(uri: str, options: Mapping[str, str]) -> RemoteStore:
    """The store in a bucket or container, which must exist; nothing is asked of the network yet.

    `options` are obstore's for this kind of store (`endpoint`, `access_key_id`) and for its HTTP client (`timeout`),
    and those of `storage/sts.py`.
    """
    uri = _checked_uri(uri)
    options = _checked_options(options)
    client = _CLIENT_DEFAULTS | {key: value for key, value in options.items() if key in _CLIENT_OPTIONS}
    config = {key: value for key, value in options.items() if key not in _CLIENT_OPTIONS | STS_OPTIONS}
    try:
        backend = from_url(uri, config=cast(Any, config), client_options=cast(Any, client), retry_config=_RETRY)
    except exceptions.UnknownConfigurationKeyError as error:
        key = re.search(r"key: '(\w+)'", str(error))
        raise InvalidInput(f"{uri} has no storage option {key[1] if key else ''!r}: check its name.") from None
    except (exceptions.BaseError, ValueError):  # its text may quote a secret
        raise InvalidInput(
            f"{uri} cannot be opened: check the bucket's name and the values of the options {', '.join(options)}."
        ) from None
    return RemoteStore(uri, options, backend)


class RemoteStore(Store):
    """An object store, or memory, behind obstore."""

    def __init__(self, uri: str, options: Mapping[str, str], backend: ObjectStore) -> None:
        super().__init__(uri)
        self._options = dict(options)
        self._backend = backend
        self._sts = sts_of(uri, options)

    def __reduce__(self) -> tuple[Callable[..., RemoteStore], tuple[object, ...]]:
        return (
            (open_memory, (self.uri,)) if self.uri.startswith("memory:") else (open_remote, (self.uri, self._options))
        )

    @property
    def service(self) -> tuple[str, str]:
        found = {"endpoint": "", "region": ""}
        for key, value in self._options.items():
            kind = (
                "endpoint"
                if _ENDPOINT.fullmatch(key) and key not in STS_OPTIONS
                else "region"
                if key in ("region", "aws_region")
                else ""
            )
            if kind and "@" not in value and "?" not in value:
                found[kind] = value
        return found["endpoint"], found["region"]

    @property
    def sts(self) -> Sts | None:
        return self._sts

    def get(self, path: str) -> bytes:
        with self._asking(path):
            return bytes(obstore.get(self._backend, path).bytes())

    def get_range(self, path: str, start: int, length: int) -> bytes:
        checked_ranges([(start, length)])
        if length == 0:
            return b""
        with self._asking(path):
            data = bytes(obstore.get_range(self._backend, path, start=start, length=length))
        return complete(self._name(path), start, length, data)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes, ...]:
        # Not obstore.get_ranges: it panics when an object is shorter than the ranges say.
        stretches = _stretches(checked_ranges(ranges))
        with ThreadPoolExecutor(_PARALLEL_READS) as threads:  # starts a thread only for each stretch
            data = [*threads.map(lambda stretch: self.get_range(path, *stretch), stretches)]

        def cut(start: int, length: int) -> bytes:
            at = bisect_right(stretches, start, key=lambda stretch: stretch[0]) - 1
            offset = start - stretches[at][0]
            return data[at][offset : offset + length]

        return tuple(cut(start, length) if length else b"" for start, length in ranges)

    def head(self, path: str) -> ObjectInfo:
        with self._asking(path):
            return _info(obstore.head(self._backend, path))

    def put(self, path: str, data: bytes) -> None:
        with self._asking(path), self._own(path) as mark:
            obstore.put(self._backend, path, data, attributes=mark, chunk_size=_PART_BYTES, max_concurrency=_UPLOADS)

    def put_if_absent(self, path: str, data: bytes) -> None:
        with self._asking(path), self._own(path) as mark:
            obstore.put(self._backend, path, data, attributes=mark, mode="create")

    @contextmanager
    def writer(self, path: str) -> Iterator[BinaryIO]:
        mark = _new_mark()
        with self._asking(path):
            upload = obstore.open_writer(
                self._backend, path, attributes=mark, buffer_size=_PART_BYTES, max_concurrency=_UPLOADS
            )
        file = _Upload(self, path, upload)
        try:
            yield cast(BinaryIO, file)
            with self._asking(path), self._own(path, mark):
                upload.close()
        except BaseException as error:
            with suppress(
                Exception
            ):  # drops the parts sent so far; if that fails too, the first error is the one to see
                upload.__exit__(type(error), error, error.__traceback__)
            raise
        finally:
            file.close()

    def reader(self, path: str, size: int | None = None, etag: str = "") -> pa.NativeFile:
        import pyarrow as pa

        name = self._name(path)
        with self._asking(path):
            if size is None or size <= _WHOLE_OBJECT_BYTES:
                whole = obstore.get(self._backend, path)
                size = checked_size(name, whole.meta["size"], size)
                checked_etag(name, whole.meta["e_tag"], etag)
                if size <= _WHOLE_OBJECT_BYTES:
                    return pa.BufferReader(pa.py_buffer(whole.bytes()))
            end = obstore.get(self._backend, path, options={"range": (size - range_file.READ_AHEAD_BYTES, size)})
            checked_size(name, end.meta["size"], size)
            checked_etag(name, end.meta["e_tag"], etag)
            return pa.PythonFile(range_file.RangeFile(self, path, size, bytes(end.bytes())), mode="r")

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        return self._stream(checked_prefix(prefix), after)

    def delete(self, objects: Iterable[str]) -> None:
        for batch in batched(map(paths.checked, objects), _BATCH):
            try:
                self._delete(batch)
            except NotFound:  # some stores say so, and stop there
                for path in batch:
                    with suppress(NotFound):
                        self._delete([path])

    def remove_empty_folders(self, prefix: str = "") -> None:
        """Nothing to do: a folder of an object store is gone with its last object."""

    def _stream(self, prefix: str, after: str) -> Iterator[ObjectInfo]:
        with self._asking(prefix or "*"):
            for chunk in obstore.list(self._backend, prefix or None, offset=after or None, chunk_size=_BATCH):
                for meta in chunk:
                    yield _info(meta)

    def _delete(self, batch: Sequence[str]) -> None:
        with self._asking(batch[0]):
            try:
                obstore.delete(self._backend, batch)
            except exceptions.BaseError as error:
                if not may_be_done(error):
                    raise
                obstore.delete(self._backend, batch)

    @contextmanager
    def _own(self, path: str, mark: Attributes | None = None) -> Iterator[Attributes]:
        """Around a request that writes an object with a mark: a failure after the work was done is none.

        The answer was lost on its way, and what the store says of the next attempt (that the object exists, that the
        upload is unknown) is about this very call. The mark of the object that is there shows whose it is.
        """
        mark = mark or _new_mark()
        try:
            yield mark
        except (exceptions.BaseError, OSError) as error:
            if not (may_be_done(error) and self._has_mark(path, mark)):
                raise

    def _has_mark(self, path: str, mark: Attributes) -> bool:
        try:
            with self._asking(path):
                found = obstore.get(self._backend, path, options={"head": True})
        except MoulinError:  # the first error is the one to see
            return False
        return found.attributes.get(_MARK) == mark[_MARK]

    def _name(self, path: str) -> str:
        return f"{self.uri}/{path}"

    @contextmanager
    def _asking(self, path: str) -> Iterator[None]:
        """Around each use of obstore: its errors become ours, and a forked child is refused instead of left hanging."""
        paths.checked(path)
        _Client.enter(self.uri)
        try:
            yield
        except MoulinError:
            raise
        except (exceptions.BaseError, OSError, ValueError, NotImplementedError) as error:
            raise failure(error, self.uri, self._name(path)) from None


class _Client:
    """obstore's threads, which a fork does not copy: a child that calls into them would wait for ever."""

    started = False
    lost = False

    @classmethod
    def enter(cls, uri: str) -> None:
        if cls.lost:
            raise FailedPrecondition(
                f"{uri} was used before this process was forked: start processes with 'spawn' or 'forkserver' instead."
            )
        cls.started = True

    @classmethod
    def forked(cls) -> None:
        cls.lost = cls.started


os.register_at_fork(after_in_child=_Client.forked)


class _Upload(io.RawIOBase):
    """What a remote writer yields. Closing it only ends the writing: the block decides whether the object appears."""

    def __init__(self, store: RemoteStore, path: str, upload: WritableFile) -> None:
        self._store, self._path, self._upload = store, path, upload
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        if self.closed:
            raise ValueError("write to a closed file")
        with self._store._asking(self._path):
            count = self._upload.write(data)
        self._written += count
        return count

    def tell(self) -> int:
        return self._written


def _stretches(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The fewest (start, length) that cover `ranges`, in order, with no gap inside worth a request of its own."""
    stretches: list[tuple[int, int]] = []
    for start, length in sorted(wanted for wanted in ranges if wanted[1]):
        if stretches and start <= sum(stretches[-1]) + range_file.READ_AHEAD_BYTES:
            first, covered = stretches[-1]
            stretches[-1] = (first, max(covered, start + length - first))
        else:
            stretches.append((start, length))
    return stretches


def _checked_uri(uri: str) -> str:
    """`uri` in one spelling. Not quoted in an error before it is known to hold no secret."""
    parts = _split(uri, "A storage URI must look like s3://bucket/prefix.")
    account = parts.scheme in ("abfs", "abfss") and ":" not in parts.netloc
    if ("@" in parts.netloc and not account) or parts.query or parts.fragment:
        raise InvalidInput(
            "A storage URI must not contain user, password or query string: pass those as storage options."
        )
    if not parts.netloc:
        raise InvalidInput(f"The storage URI has no bucket: write {parts.scheme}://bucket/prefix.")
    prefix = checked_prefix(parts.path.strip("/"))
    return f"{parts.scheme}://{parts.netloc}/{prefix}".rstrip("/")


def _checked_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options with lower-case names. A plain-http endpoint is taken at its word: nobody writes one by accident."""
    checked = {}
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInput(f"The storage option {key!r} is not a string: pass every option as a string.")
        checked[key.lower()] = value
    for key, value in [*checked.items()]:
        if _ENDPOINT.fullmatch(key) and "fabric" not in key:
            wrong = f"The storage option {key!r} is not an http:// or https:// address."
            parts = _split(value, wrong)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InvalidInput(wrong)
            if parts.scheme == "http" and key not in STS_OPTIONS:
                checked.setdefault("allow_http", "true")
    return checked


def _split(uri: str, wrong: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError:
        raise InvalidInput(wrong) from None


def _new_mark() -> Attributes:
    return {_MARK: secrets.token_hex(16)}


def _info(meta: ObjectMeta) -> ObjectInfo:
    return ObjectInfo(meta["path"], meta["size"], meta["last_modified"].astimezone(UTC), meta["e_tag"])
