"""The disk cache in front of remote storage: what it keeps, what it never serves, and that it never gets in the way."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moulin
from moulin.errors import Corrupt, InvalidInput, NotFound, Unavailable
from moulin.storage import ObjectInfo, Store, open_store, paths
from moulin.storage.bases import BasesStore
from moulin.storage.block_folder import BlockFolder
from moulin.storage.cache import BLOCK_BYTES, CachedStore
from moulin.storage.local import LocalStore

MIB = 1 << 20
TABLE = UUID(int=1)


class Counting(LocalStore):
    """A folder that plays a remote store and counts what it is asked for."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.asked: Counter[str] = Counter()
        self.ranges: list[tuple[str, int, int]] = []
        self.gate: Callable[[], None] = lambda: None

    @property
    def is_local(self) -> bool:
        return False

    def get(self, path: str) -> bytes:
        self.asked["get"] += 1
        self.gate()
        return super().get(path)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes, ...]:
        self.asked["range"] += 1
        self.ranges += [(path, *wanted) for wanted in ranges]
        self.gate()
        return super().get_ranges(path, ranges)

    def head(self, path: str) -> ObjectInfo:
        self.asked["head"] += 1
        return super().head(path)


def segment(number: int = 1) -> str:
    return paths.segment_path(TABLE, number, "00000000")


def noise(size: int, seed: int = 0) -> bytes:
    return (os.urandom(1021) * (size // 1021 + 1))[:size]


@pytest.fixture
def remote(tmp_path: Path) -> Counting:
    (tmp_path / "remote").mkdir()
    return Counting(str(tmp_path / "remote"))


@pytest.fixture
def cached(remote: Counting, tmp_path: Path) -> CachedStore:
    return CachedStore(remote, str(tmp_path / "cache"), 64 * MIB)


def files(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_a_small_object_is_read_once(remote: Counting, cached: CachedStore) -> None:
    data = noise(5000)
    remote.put(segment(), data)
    assert cached.get(segment()) == data
    assert cached.get(segment()) == data
    assert cached.get_range(segment(), 10, 100) == data[10:110]
    with cached.reader(segment(), 5000) as source:
        assert source.read() == data
    assert remote.asked == {"get": 1}
    stats = cached.stats()
    assert (stats.misses, stats.miss_bytes) == (1, 5000)
    assert (stats.hits, stats.hit_bytes) == (3, 15000)


def test_a_large_object_is_kept_in_blocks(remote: Counting, cached: CachedStore) -> None:
    data = noise(5 * MIB + 17)
    remote.put(segment(), data)
    assert cached.get_range(segment(), 100, 50) == data[100:150]
    assert cached.get_range(segment(), 2 * MIB - 5, 10) == data[2 * MIB - 5 : 2 * MIB + 5]
    assert cached.get_range(segment(), 5 * MIB + 10, 7) == data[-7:]
    assert remote.ranges == [
        (segment(), 0, BLOCK_BYTES),
        (segment(), BLOCK_BYTES, 2 * BLOCK_BYTES),
        (segment(), 5 * BLOCK_BYTES, 17),
    ]
    assert cached.get(segment()) == data
    assert remote.ranges[3:] == [(segment(), 3 * BLOCK_BYTES, 2 * BLOCK_BYTES)]
    assert cached.get_ranges(segment(), [(0, 3), (4 * MIB, 3)]) == (data[:3], data[4 * MIB : 4 * MIB + 3])
    assert (remote.asked["range"], remote.asked["head"]) == (4, 1)


def test_a_range_past_the_end_of_a_cached_object_is_damage(remote: Counting, cached: CachedStore) -> None:
    remote.put(segment(), bytes(1000))
    assert cached.get(segment()) == bytes(1000)
    with pytest.raises(Corrupt, match="truncated"):
        cached.get_range(segment(), 990, 11)
    with pytest.raises(Corrupt, match="999"):
        cached.reader(segment(), 999)


def test_only_what_never_changes_is_kept(remote: Counting, cached: CachedStore, tmp_path: Path) -> None:
    mutable = [
        paths.marker(),
        paths.lake_manifest(1, "delta"),
        paths.lake_manifest(1, "full"),
        paths.table_manifest(TABLE, 1, "full"),
        "tables/else",
    ]
    for path in mutable:
        remote.put(path, b"old")
        assert cached.get(path) == b"old"
        assert cached.get_range(path, 0, 3) == b"old"
        remote.put(path, b"new")
        assert cached.get(path) == cached.reader(path).read() == b"new"
    assert files(tmp_path) == []
    for path in (
        segment(),
        paths.key_index_path(segment()),
        paths.vector_path(TABLE, uuid4()),
        paths.journal_path(TABLE, uuid4()),
    ):
        remote.put(path, b"kept")
        assert cached.get(path) == b"kept"
    assert len(files(tmp_path)) == 4


def test_parquet_is_read_through_the_cache(remote: Counting, cached: CachedStore, tmp_path: Path) -> None:
    table = pa.table({"n": pa.array(range(3_000_000)), "x": pa.array([os.urandom(16) for _ in range(3000)] * 1000)})
    with cached.writer(segment()) as file:
        pq.write_table(table, file, row_group_size=500_000, compression="none", use_dictionary=False)
    size = cached.head(segment()).size
    assert size > 40 * MIB
    with cached.reader(segment(), size) as source:
        parquet = pq.ParquetFile(source)
        assert parquet.read_row_group(3, ["n"]) == table.select(["n"]).slice(1_500_000, 500_000)
    first = remote.asked["range"]
    assert sum(length for _, _, length in remote.ranges) < size / 2
    again = pickle.loads(pickle.dumps(cached))
    with again.reader(segment(), size) as source:
        assert pq.ParquetFile(source).read_row_group(3, ["n"]).num_rows == 500_000
    assert again.stats().misses == 0
    assert remote.asked["range"] == first


def test_the_least_recently_used_go_first(remote: Counting, tmp_path: Path) -> None:
    cached = CachedStore(remote, str(tmp_path / "cache"), 10 * MIB)
    for number in range(9):
        remote.put(segment(number), noise(MIB - 100))
    for number in range(8):
        cached.get(segment(number))
        for file in files(tmp_path):
            if file.stat().st_mtime > 100:
                os.utime(file, (number, number))
    cached.get(segment(0))  # now the one used last
    remote.put(segment(20), noise(3 * MIB - 100))
    cached.get(segment(20))
    assert cached.stats().evicted >= 2
    before = cached.stats().misses
    cached.get(segment(0))
    cached.get(segment(7))
    assert cached.stats().misses == before
    cached.get(segment(1))
    assert cached.stats().misses == before + 1


def test_the_limit_holds_across_a_restart(remote: Counting, tmp_path: Path) -> None:
    for number in range(12):
        remote.put(segment(number), noise(MIB))
        CachedStore(remote, str(tmp_path / "cache"), 5 * MIB).get(segment(number))
    assert 0 < BlockFolder(str(tmp_path / "cache"), 5 * MIB).used_bytes() <= 5 * MIB


def test_a_lower_limit_holds_from_the_start(remote: Counting, cached: CachedStore, tmp_path: Path) -> None:
    for number in range(6):
        remote.put(segment(number), noise(MIB))
        cached.get(segment(number))
    BlockFolder(str(tmp_path / "cache"), 3 * MIB).trim()
    assert 0 < BlockFolder(str(tmp_path / "cache"), 3 * MIB).used_bytes() <= 3 * MIB


def test_what_is_larger_than_the_cache_is_not_kept(remote: Counting, tmp_path: Path) -> None:
    cached = CachedStore(remote, str(tmp_path / "cache"), 1000)
    remote.put(segment(), noise(5000))
    assert len(cached.get(segment())) == len(cached.get(segment())) == 5000
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:10],
        lambda data: b"",
        lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
        lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:],
        lambda data: b"XXXX" + data[4:],
    ],
)
def test_a_damaged_file_is_dropped_and_read_again(
    remote: Counting, cached: CachedStore, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    data = noise(3 * MIB)
    remote.put(segment(), data)
    assert cached.get(segment()) == data
    for file in files(tmp_path):
        file.write_bytes(damage(file.read_bytes()))
    assert cached.get(segment()) == data
    assert cached.stats().damaged == 3
    assert cached.stats().misses == 6
    for file in files(tmp_path):
        file.write_bytes(damage(file.read_bytes()))
    fresh = pickle.loads(pickle.dumps(cached))
    with fresh.reader(segment(), len(data)) as source:
        assert source.read() == data


def test_blocks_are_not_served_under_another_name(remote: Counting, cached: CachedStore, tmp_path: Path) -> None:
    remote.put(segment(1), b"one")
    remote.put(segment(2), b"two")
    cached.get(segment(1))
    (first,) = files(tmp_path)
    cached.get(segment(2))
    (second,) = set(files(tmp_path)) - {first}
    second.write_bytes(first.read_bytes())
    assert pickle.loads(pickle.dumps(cached)).get(segment(2)) == b"two"


def test_readers_of_one_block_share_a_request(remote: Counting, cached: CachedStore) -> None:
    data = noise(3 * MIB)
    remote.put(segment(), data)
    cached.get_range(segment(), 2 * MIB, 1)
    waiting = threading.Event()
    remote.gate = lambda: (waiting.wait(10), None)[1]
    remote.ranges.clear()
    with ThreadPoolExecutor(8) as threads:
        reads = [threads.submit(cached.get_range, segment(), 10 * n, 100) for n in range(8)]
        waiting.set()
        assert [read.result() for read in reads] == [data[10 * n : 10 * n + 100] for n in range(8)]
    assert remote.ranges == [(segment(), 0, BLOCK_BYTES)]


def test_a_failed_request_is_not_everybodys(remote: Counting, cached: CachedStore) -> None:
    remote.put(segment(), b"data")
    failures = iter([True, True])
    waiting = threading.Barrier(2, timeout=10)

    def fail() -> None:
        if next(failures, False):
            waiting.wait()
            raise Unavailable("The network is gone.")

    remote.gate = fail
    with ThreadPoolExecutor(4) as threads:
        reads = [threads.submit(cached.get, segment()) for _ in range(4)]
        waiting.wait()
        waiting.wait()
        outcomes = [read.exception() for read in reads]
    assert sum(isinstance(outcome, Unavailable) for outcome in outcomes) == 2
    assert outcomes.count(None) == 2


def _read_many(store: bytes, numbers: list[int]) -> tuple[bool, int]:
    cached: CachedStore = pickle.loads(store)
    same = all(cached.get(segment(n)) == bytes([n]) * (MIB // 2) for n in numbers for _ in range(2))
    return same, cached.stats().misses


def test_two_processes_share_a_folder(tmp_path: Path) -> None:
    remote = open_store(tmp_path / "remote")
    for number in range(40):
        remote.put(segment(number), bytes([number]) * (MIB // 2))
    folder = tmp_path / "cache"
    large, small = (pickle.dumps(CachedStore(remote, str(folder), limit)) for limit in (64 * MIB, 4 * MIB))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first = pool.starmap(_read_many, [(large, [*range(20)]), (large, [*reversed(range(20))])], chunksize=1)
        second = pool.starmap(_read_many, [(large, [*range(20)])] * 2, chunksize=1)
        assert [same for same, _ in first + second] == [True] * 4
        assert [misses for _, misses in second] == [0, 0]
        fought = pool.starmap(_read_many, [(small, [*range(20, 40)] * 3)] * 2, chunksize=1)
        assert [same for same, _ in fought] == [True, True]
    assert BlockFolder(str(folder), 0).used_bytes() <= 5 * MIB


def test_a_stale_temporary_file_is_removed(remote: Counting, cached: CachedStore, tmp_path: Path) -> None:
    (tmp_path / "cache" / "ab").mkdir(parents=True)
    old, young = (tmp_path / "cache" / "ab" / f"{name}.tmp" for name in ("old", "young"))
    for file in (old, young):
        file.write_bytes(b"x")
    os.utime(old, (1, 1))
    remote.put(segment(), b"data")
    cached.get(segment())
    assert (old.exists(), young.exists()) == (False, True)


def _unwritable(tmp_path: Path) -> str:
    (tmp_path / "file").write_bytes(b"not a folder")
    return str(tmp_path / "file" / "cache")


def test_reads_go_on_without_a_working_folder(
    remote: Counting, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cached = CachedStore(remote, _unwritable(tmp_path), 64 * MIB)
    data = noise(20 * MIB)
    remote.put(segment(1), data)
    remote.put(segment(2), b"small")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert cached.get(segment(2)) == b"small"
            assert cached.get_range(segment(1), 5, 10) == data[5:15]
            assert cached.reader(segment(1), 20 * MIB).read() == data
    assert len(caplog.records) == 1
    assert "reads continue without it" in caplog.text


def test_a_full_disk_is_no_reason_to_fail(
    remote: Counting,
    cached: CachedStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    remote.put(segment(), b"data")

    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert cached.get(segment()) == b"data"
    assert files(tmp_path) == []
    assert "No space left" in caplog.text


def test_deletes_and_writes_forget(remote: Counting, cached: CachedStore, tmp_path: Path) -> None:
    remote.put(segment(), noise(3 * MIB))
    cached.get(segment())
    assert len(files(tmp_path)) == 3
    cached.put(segment(), b"other")
    assert files(tmp_path) == []
    assert cached.get(segment()) == b"other"
    with cached.writer(segment()) as file:
        file.write(b"third")
    assert cached.get(segment()) == b"third"
    cached.delete([segment()])
    assert files(tmp_path) == []
    with pytest.raises(NotFound):
        cached.get(segment())


@pytest.fixture
def s3_lake(tmp_path: Path, s3_url: str, s3_options: dict[str, str]) -> Iterator[Callable[..., moulin.Lake]]:
    opened: list[moulin.Lake] = []

    def connect(**settings: object) -> moulin.Lake:
        opened.append(moulin.connect(tmp_path / "lake", storage=s3_url, storage_options=s3_options, **settings))
        return opened[-1]

    yield connect
    for lake in opened:
        lake.close()


@pytest.mark.s3
def test_a_lake_on_s3_reads_through_the_cache(s3_lake: Callable[..., moulin.Lake], tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    lake = s3_lake(cache_folder=str(folder), cache_bytes=64 * MIB)
    lake.create_database("d")
    table = lake.create_table("d.t", [("id", "long"), ("name", "string")])
    rows = pa.table({"id": pa.array(range(1000)), "name": pa.array([f"n{n}" for n in range(1000)])})
    table.append(rows)
    table.delete_where("id = 7")
    assert table.scan().count() == 999
    assert table.scan(where="id >= 0").to_arrow().num_rows == 999
    assert isinstance(lake.store, BasesStore)
    assert isinstance(lake.store.own, CachedStore)
    assert (before := lake.store.own.stats()).misses > 0
    again = s3_lake(cache_folder=str(folder))
    assert again.table("d.t").scan(where="id >= 0").to_arrow().num_rows == 999
    assert isinstance(again.store, BasesStore)
    assert isinstance(again.store.own, CachedStore)
    assert (again.store.own.stats().misses, again.store.own.stats().hits > 0) == (0, True)
    assert lake.store.own.stats() == before


@pytest.mark.s3
def test_without_a_folder_there_is_no_cache(s3_lake: Callable[..., moulin.Lake], tmp_path: Path) -> None:
    assert not isinstance(s3_lake().store, CachedStore)
    with moulin.connect(tmp_path / "other", cache_folder=str(tmp_path / "cache")) as local:
        assert local.store.is_local


@pytest.mark.s3
def test_blocks_of_an_object_on_s3_are_fetched_once(s3_url: str, s3_options: dict[str, str], tmp_path: Path) -> None:
    store: Store = open_store(s3_url, s3_options)
    cached = CachedStore(store, str(tmp_path / "cache"), 64 * MIB)
    data = noise(20 * MIB + 5)
    cached.put(segment(), data)
    source = cached.reader(segment(), len(data))
    source.seek(3 * MIB - 2)
    assert source.read(4) == data[3 * MIB - 2 : 3 * MIB + 2]
    assert cached.get(segment()) == data
    assert cached.stats().miss_bytes == len(data)
    store.delete([segment()])
    assert pickle.loads(pickle.dumps(cached)).get(segment()) == data


def test_the_settings_of_the_cache_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cache_folder"):
        moulin.connect(tmp_path / "lake", cache_folder=5)
    with pytest.raises(InvalidInput, match="cache_bytes"):
        moulin.connect(tmp_path / "lake", cache_bytes=0)
