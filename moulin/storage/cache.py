"""A read-through disk cache in front of a remote store.

Only immutable objects are cached: segments and their index files, deletion vectors and journals. Manifests, the marker
and everything else pass through. An object is cached in aligned blocks, a small one in a single block; adjacent missing
blocks are fetched in one request, and concurrent readers of a block share one request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar

from moulin.config import Config
from moulin.errors import Corrupt, MoulinError
from moulin.model.columns.batching import batched
from moulin.sized_cache import SizedCache
from moulin.storage import paths
from moulin.storage.block_folder import BlockFolder
from moulin.storage.interface import ObjectInfo, Store, checked_ranges, checked_size
from moulin.storage.range_file import RangeFile
from moulin.storage.store import open_store
from moulin.storage.sts import Sts

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES: Final = 1 << 20
_WHOLE_OBJECT_BYTES: Final = 16 << 20  # a reader takes objects up to this size at once
_STRETCH_BLOCKS: Final = 16  # asked for in one request
_PARALLEL_READS: Final = 8
_SIZES_KEPT: Final = 65_536
_BATCH: Final = 1000
_OPENING: Final = -1  # stands for a block's number while the size of an object is found out

T = TypeVar("T")
_Opened = tuple[int, bytes | None]  # an object's size, and its bytes if they had to be read to learn it


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Since the store was opened, in this process: blocks found and not found, and bytes served from each side."""

    hits: int
    misses: int
    hit_bytes: int
    miss_bytes: int
    evicted: int
    damaged: int


def is_immutable(path: str) -> bool:
    """Whether an object of that name never changes once it is there."""
    return any(parse(path) is not None for parse in _IMMUTABLE)


_IMMUTABLE: Final[tuple[Callable[[str], object | None], ...]] = (
    paths.parse_segment_path,
    paths.parse_key_index_path,
    paths.parse_vector_path,
    paths.parse_column_file_path,
    paths.parse_journal_path,
    paths.parse_index_path,
)


def open_cached(uri: str | Path, options: Mapping[str, str] | None, config: Config) -> Store:
    """`open_store`, with the cache that `config` asks for."""
    return with_cache(open_store(uri, options), config)


def with_cache(store: Store, config: Config) -> Store:
    """`store` with the cache that `config` asks for in front of it, when the store is remote."""
    if store.is_local or not config.cache_folder:
        return store
    BlockFolder(config.cache_folder, config.cache_bytes).trim()
    return CachedStore(store, config.cache_folder, config.cache_bytes)


class CachedStore(Store):
    """`remote` with a cache of at most `limit` bytes in `folder`. Several stores and processes may share a folder."""

    def __init__(self, remote: Store, folder: str, limit: int, cacheable: Callable[[str], bool] = is_immutable) -> None:
        super().__init__(remote.uri)
        self._remote, self._cacheable = remote, cacheable
        self._blocks = BlockFolder(folder, limit)
        self._lock = threading.Lock()
        self._flights: dict[tuple[str, int], Future[object]] = {}
        self._sizes: SizedCache[str, int] = SizedCache(_SIZES_KEPT)
        self._hits = self._misses = self._hit_bytes = self._miss_bytes = 0

    def __reduce__(self) -> tuple[type[CachedStore], tuple[object, ...]]:
        return CachedStore, (self._remote, self._blocks.folder, self._blocks.limit, self._cacheable)

    def stats(self) -> CacheStats:
        with self._lock:
            counts = (self._hits, self._misses, self._hit_bytes, self._miss_bytes)
        return CacheStats(*counts, self._blocks.evicted, self._blocks.damaged)

    @property
    def service(self) -> tuple[str, str]:
        return self._remote.service

    @property
    def sts(self) -> Sts | None:
        return self._remote.sts

    def get(self, path: str) -> bytes:
        if not self._cacheable(path):
            return self._remote.get(path)
        size, whole = self._open(path, None, lambda: self._take(path, self._remote.get(path)))
        return self._read(path, size, 0, size) if whole is None else whole

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self.get_ranges(path, [(start, length)])[0]

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes, ...]:
        if not self._cacheable(path):
            return self._remote.get_ranges(path, ranges)
        if not any(length for _, length in checked_ranges(ranges)):
            return tuple(b"" for _ in ranges)
        size, _ = self._open(path, None, lambda: (self._remote.head(path).size, None))
        for start, length in ranges:
            if start + length > size and length:
                raise Corrupt(
                    f"{self._name(path)} has {size} bytes, and not the {length} from {start} on: it is truncated. "
                    f"Restore it."
                )
        wanted = {b for start, length in ranges if length for b in _numbers(start, length)}
        blocks = self._collect(path, size, sorted(wanted))
        return tuple(_cut(blocks, start, length) for start, length in ranges)

    def head(self, path: str) -> ObjectInfo:
        return self._remote.head(path)

    def put(self, path: str, data: bytes) -> None:
        self._remote.put(path, data)
        self._forget(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._remote.put_if_absent(path, data)
        self._forget(path)

    def put_derived(self, path: str, data: bytes) -> None:
        self._remote.put_derived(path, data)
        self._forget(path)

    def put_fresh(self, path: str, *parts: bytes) -> None:
        self._remote.put_fresh(path, *parts)
        self._forget(path)

    @contextmanager
    def writer(self, path: str) -> Iterator[BinaryIO]:
        with self._remote.writer(path) as file:
            yield file
        self._forget(path)

    def reader(self, path: str, size: int | None = None, etag: str = "") -> pa.NativeFile:
        if not self._cacheable(path):
            return self._remote.reader(path, size, etag)
        import pyarrow as pa

        def ask() -> _Opened:
            if size is not None and size <= _WHOLE_OBJECT_BYTES:
                with self._remote.reader(path, size, etag) as source:
                    return self._take(path, source.read())
            return self._remote.head(path).size, None

        found, whole = self._open(path, size, ask)
        checked_size(self._name(path), found, size)
        if found <= _WHOLE_OBJECT_BYTES:
            return pa.BufferReader(self._read(path, found, 0, found) if whole is None else whole)
        tail = self._read(path, found, found - BLOCK_BYTES, BLOCK_BYTES)  # of a segment: its footer
        return pa.PythonFile(RangeFile(self, path, found, tail), mode="r")

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        return self._remote.list(prefix, after)

    def delete(self, objects: Iterable[str]) -> None:
        for batch in batched(objects, _BATCH):
            self._remote.delete(batch)
            for path in batch:
                self._forget(path)

    def remove_empty_folders(self, prefix: str = "") -> None:
        self._remote.remove_empty_folders(prefix)

    def _name(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def _open(self, path: str, recorded: int | None, ask: Callable[[], _Opened]) -> _Opened:
        """The size of an object: as known already, as a cached block of it says, or by `ask`."""
        paths.checked(path)
        size = self._sizes.find(path)
        if size is None:
            last = _numbers(recorded - 1, 1)[0] if recorded else 0
            block = self._blocks.read(self._name(path), last)
            if block is None:
                opened = self._once((path, _OPENING), ask)
                self._sizes.keep(path, opened[0])
                return opened
            size = block.object_size
            self._sizes.keep(path, size)
        return size, None

    def _once(self, key: tuple[str, int], ask: Callable[[], T]) -> T:
        """What `ask` answers, asked once by all who want it at the same time. A failure is only the asker's own."""
        while True:
            with self._lock:
                flight = self._flights.get(key)
                mine = flight is None
                if flight is None:
                    flight = self._flights[key] = Future()
            if mine:
                with self._landing([(key, flight)]):
                    answer = ask()
                    flight.set_result(answer)
                    return answer
            try:
                return flight.result()  # type: ignore[return-value]
            except MoulinError:
                continue

    @contextmanager
    def _landing(self, flights: Sequence[tuple[tuple[str, int], Future[object]]]) -> Iterator[None]:
        """Around the work of those who took off: whatever happens, nobody waits for them for ever."""
        try:
            yield
        finally:
            with self._lock:
                for key, _ in flights:
                    del self._flights[key]
            for _, flight in flights:
                if not flight.done():
                    flight.set_exception(MoulinError("A concurrent read of the same block failed."))

    def _take(self, path: str, data: bytes) -> _Opened:
        """Keep an object that was read whole."""
        count = self._keep(path, len(data), 0, data)
        with self._lock:
            self._misses += count
            self._miss_bytes += len(data)
        return len(data), data

    def _keep(self, path: str, size: int, first: int, data: bytes) -> int:
        """Keep the blocks from number `first` on that `data` holds; returns how many."""
        view, count = memoryview(data), max(1, -(-len(data) // BLOCK_BYTES))
        for index in range(count):
            block = view[index * BLOCK_BYTES : (index + 1) * BLOCK_BYTES]
            self._blocks.write(self._name(path), first + index, size, block)
        return count

    def _read(self, path: str, size: int, start: int, length: int) -> bytes:
        return _cut(self._collect(path, size, _numbers(start, length)), start, length)

    def _collect(self, path: str, size: int, numbers: Iterable[int]) -> dict[int, memoryview]:
        """Blocks of an object, from the cache or else from the remote store."""
        found, missing = self._look(path, size, numbers)
        while missing:
            mine, others = self._claim(path, missing)
            again = []
            with self._landing([((path, b), flight) for b, flight in mine.items()]):
                kept, left = self._look(path, size, mine)  # somebody may have landed since
                found |= kept
                for number, block in kept.items():
                    mine[number].set_result(block)
                found |= self._fetch(path, size, {b: mine[b] for b in left})
            for number, flight in others.items():
                try:
                    found[number] = flight.result()  # type: ignore[assignment]
                    self._count_hits(1, len(found[number]))
                except MoulinError:
                    again.append(number)
            missing = again
        return found

    def _look(self, path: str, size: int, numbers: Iterable[int]) -> tuple[dict[int, memoryview], Sequence[int]]:
        name, found, missing = self._name(path), {}, []
        for number in numbers:
            block = self._blocks.read(name, number)
            if block is None or block.object_size != size:
                missing.append(number)
            else:
                found[number] = block.data
        self._count_hits(len(found), sum(map(len, found.values())))
        return found, missing

    def _count_hits(self, blocks: int, size: int) -> None:
        with self._lock:
            self._hits += blocks
            self._hit_bytes += size

    def _claim(self, path: str, numbers: Sequence[int]) -> tuple[dict[int, Future[object]], dict[int, Future[object]]]:
        """Blocks that this thread is to fetch, and those that another one is fetching."""
        mine: dict[int, Future[object]] = {}
        others: dict[int, Future[object]] = {}
        with self._lock:
            for number in numbers:
                if (flight := self._flights.get((path, number))) is not None:
                    others[number] = flight
                else:
                    mine[number] = self._flights[path, number] = Future()
        return mine, others

    def _fetch(self, path: str, size: int, flights: dict[int, Future[object]]) -> dict[int, memoryview]:
        stretches = _stretches(sorted(flights))

        def fetch(stretch: Sequence[int]) -> dict[int, memoryview]:
            start = stretch[0] * BLOCK_BYTES
            data = self._remote.get_range(path, start, min(size, (stretch[-1] + 1) * BLOCK_BYTES) - start)
            self._keep(path, size, stretch[0], data)
            with self._lock:
                self._misses += len(stretch)
                self._miss_bytes += len(data)
            view = memoryview(data)
            blocks = {b: view[b * BLOCK_BYTES - start : (b + 1) * BLOCK_BYTES - start] for b in stretch}
            for number, block in blocks.items():
                flights[number].set_result(block)
            return blocks

        if len(stretches) <= 1:
            return fetch(stretches[0]) if stretches else {}
        with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="moulin-cache") as threads:
            return {b: block for blocks in threads.map(fetch, stretches) for b, block in blocks.items()}

    def _forget(self, path: str) -> None:
        if self._cacheable(path):
            self._sizes.drop(path)
            self._blocks.forget(self._name(path))


def _numbers(start: int, length: int) -> range:
    return range(start // BLOCK_BYTES, -(-(start + length) // BLOCK_BYTES))


def _stretches(numbers: Sequence[int]) -> list[list[int]]:
    """Ascending numbers in stretches without gaps, none longer than one request may be."""
    stretches: list[list[int]] = []
    for number in numbers:
        if stretches and stretches[-1][-1] == number - 1 and len(stretches[-1]) < _STRETCH_BLOCKS:
            stretches[-1].append(number)
        else:
            stretches.append([number])
    return stretches


def _cut(blocks: dict[int, memoryview], start: int, length: int) -> bytes:
    """The bytes of a range out of the blocks that hold it."""
    end = start + length
    pieces = []
    for number in _numbers(start, length) if length else ():
        first = number * BLOCK_BYTES
        pieces.append(blocks[number][max(start - first, 0) : end - first])
    return b"".join(pieces)
