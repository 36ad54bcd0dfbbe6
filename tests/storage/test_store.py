"""One suite for every kind of store: what `Store` promises."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moulin.errors import AlreadyExists, Corrupt, FailedPrecondition, InvalidInput, MoulinError, NotFound
from moulin.storage import Store, paths, range_file, remote

MIB = 1 << 20


def test_a_put_replaces_and_get_returns_the_last(store: Store) -> None:
    store.put("a/b", b"first")
    store.put("a/b", b"second")
    store.put("empty", b"")
    assert store.get("a/b") == b"second"
    assert store.get("empty") == b""


def test_put_if_absent_keeps_the_first(store: Store) -> None:
    store.put_if_absent("a/b", b"first")
    with pytest.raises(AlreadyExists, match="a/b"):
        store.put_if_absent("a/b", b"second")
    assert store.get("a/b") == b"first"
    assert [info.path for info in store.list()] == ["a/b"]


@pytest.mark.parametrize("sizes", [[0], [10], [3 << 20], [1 << 20, 1 << 20, 7], [5, 0, (1 << 20) + 1, 70_000]])
def test_a_fresh_object_is_its_parts_one_after_the_other(store: Store, sizes: list[int]) -> None:
    parts = [os.urandom(size) for size in sizes]
    store.put_fresh("a/b", *parts)
    assert store.get("a/b") == b"".join(parts)
    with pytest.raises(AlreadyExists):
        store.put_fresh("a/b", b"another")


def test_put_if_absent_has_one_winner_among_threads(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        for name in ("a", "b", "c/d", "c/e"):
            wins = [*threads.map(lambda writer, name=name: _try_put(store, name, writer), range(8))]
            assert wins.count(True) == 1
            assert store.get(name) == bytes([wins.index(True)]) * 1000
    assert not [info.path for info in store.list() if paths.is_temporary(info.path)]


@pytest.mark.sample(3)
def test_put_if_absent_has_one_winner_among_processes(store: Store) -> None:
    if store.uri.startswith("memory:"):
        pytest.skip("memory is not shared between processes")
    names = [f"manifests/{number}" for number in range(20)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        arguments = [(pickle.dumps(store), names, writer) for writer in range(4)]
        wins = pool.starmap(_put_all, arguments, chunksize=1)
    for index, name in enumerate(names):
        winners = [writer for writer in range(4) if wins[writer][index]]
        assert len(winners) == 1
        assert store.get(name) == bytes(winners) * 1000


def test_a_working_store_passes_the_probe(store: Store) -> None:
    store.check_put_if_absent()
    assert [*store.list()] == []


def test_a_store_that_ignores_put_if_absent_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(store), "put_if_absent", type(store).put)
    with pytest.raises(FailedPrecondition, match="put-if-absent"):
        store.check_put_if_absent()
    assert [*store.list()] == []


def test_a_store_that_answers_exists_but_overwrites_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrite(self: Store, path: str, data: bytes) -> None:
        existed = self.exists(path)
        self.put(path, data)
        if existed:
            raise AlreadyExists(path)

    monkeypatch.setattr(type(store), "put_if_absent", overwrite)
    with pytest.raises(FailedPrecondition, match="put-if-absent"):
        store.check_put_if_absent()


def test_ranges_are_read_as_asked(store: Store) -> None:
    data = bytes(range(200))
    store.put("a", data)
    assert store.get_range("a", 10, 5) == data[10:15]
    assert store.get_range("a", 0, 200) == data
    assert store.get_range("a", 200, 0) == b""
    assert store.get_ranges("a", [(150, 50), (0, 1), (7, 0), (1, 3)]) == (data[150:], data[:1], b"", data[1:4])
    assert store.get_ranges("a", []) == ()


@pytest.mark.parametrize(("start", "length"), [(195, 6), (200, 1), (500, 10), (0, 201), (0, 2**62), (2**62, 1)])
def test_a_range_past_the_end_means_a_damaged_object(store: Store, start: int, length: int) -> None:
    store.put("folder/a", bytes(200))
    with pytest.raises(Corrupt, match="folder/a"):
        store.get_range("folder/a", start, length)
    with pytest.raises(Corrupt, match="folder/a"):
        store.get_ranges("folder/a", [(0, 1), (start, length)])


def test_impossible_ranges_are_refused(store: Store) -> None:
    store.put("a", b"x")
    for start, length in ((-1, 1), (0, -1), (0, 2**63), (2**70, 1)):
        with pytest.raises(InvalidInput):
            store.get_range("a", start, length)


def test_head_tells_size_time_and_etag(store: Store) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    store.put("folder/a", b"12345")
    info = store.head("folder/a")
    assert (info.path, info.size) == ("folder/a", 5)
    assert info.modified.utcoffset() == timedelta(0)
    assert before <= info.modified <= datetime.now(UTC) + timedelta(seconds=2)
    store.put("folder/a", b"54321")
    assert store.head("folder/a").etag != info.etag
    assert store.exists("folder/a")
    assert not store.exists("folder")
    assert not store.exists("folder/a/b")


def test_what_is_missing_is_not_found(store: Store) -> None:
    store.put("folder/a", b"x")
    for path in ("gone", "folder", "folder/gone", "folder/a/gone"):
        for read in (store.get, store.head, store.reader, lambda path: store.get_range(path, 0, 1)):
            with pytest.raises(NotFound, match=path):
                read(path)


def test_list_streams_what_lies_below_a_folder(store: Store) -> None:
    for path in ("a", "t/1/x", "t/1/y", "t/2/x", "t/10/x"):
        store.put(path, path.encode())
    listed = {info.path: info for info in store.list()}
    assert sorted(listed) == ["a", "t/1/x", "t/1/y", "t/10/x", "t/2/x"]
    assert listed["t/1/x"] == store.head("t/1/x")
    assert sorted(info.path for info in store.list("t/1")) == ["t/1/x", "t/1/y"]
    assert sorted(info.path for info in store.list("t/1/")) == ["t/1/x", "t/1/y"]
    assert [*store.list("a")] == []
    assert [*store.list("gone")] == []
    assert sorted(info.path for info in store.list("t/1", after="t/1/x")) == ["t/1/y"]
    assert sorted(info.path for info in store.list(after="t/1/y")) == ["t/10/x", "t/2/x"]
    assert iter(store.list()) is not None


def test_list_goes_past_one_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_BATCH", 7)
    with ThreadPoolExecutor(8) as threads:
        [*threads.map(lambda number: store.put(f"many/{number:03}", b""), range(50))]
    assert len({info.path for info in store.list("many")}) == 50
    store.delete(info.path for info in store.list("many"))
    assert [*store.list()] == []


def test_delete_does_not_mind_what_is_missing(store: Store) -> None:
    store.put("t/a", b"x")
    store.put("t/b", b"x")
    store.put("t/c", b"x")
    store.delete(["gone", "t/a", "t", "t/c/gone", "t/b"])
    assert [info.path for info in store.list()] == ["t/c"]
    store.delete([])


def test_a_writer_shows_the_object_only_when_it_is_whole(store: Store) -> None:
    with store.writer("t/1/big") as file:
        for _ in range(20):
            assert file.write(b"x" * MIB) == MIB
        assert file.tell() == 20 * MIB
        assert not store.exists("t/1/big")
    assert store.head("t/1/big").size == 20 * MIB
    assert [info.path for info in store.list()] == ["t/1/big"]


def test_a_writer_may_be_closed_early_and_replaces(store: Store) -> None:
    store.put("a", b"old")
    with store.writer("a") as file:
        file.write(b"new")
        file.close()
        assert store.get("a") == b"old"
    assert store.get("a") == b"new"
    with pytest.raises(ValueError, match="closed"):
        file.write(b"more")


@pytest.mark.parametrize("size", [0, 10, 20 * MIB])
@pytest.mark.parametrize("closed", [False, True])
def test_a_writer_that_fails_leaves_nothing(store: Store, size: int, closed: bool) -> None:
    with pytest.raises(KeyError, match="own error"), store.writer("t/1/big") as file:
        file.write(b"x" * size)
        if closed:
            file.close()
        raise KeyError("own error")
    assert [*store.list()] == []


def test_an_empty_writer_makes_an_empty_object(store: Store) -> None:
    with store.writer("a"):
        pass
    assert store.get("a") == b""


@pytest.mark.parametrize("whole", [16 * MIB, 100_000])
@pytest.mark.parametrize("known", [False, True])
def test_parquet_goes_in_by_a_writer_and_out_by_a_reader(
    store: Store, monkeypatch: pytest.MonkeyPatch, whole: int, known: bool
) -> None:
    monkeypatch.setattr(remote, "_WHOLE_OBJECT_BYTES", whole)
    monkeypatch.setattr(range_file, "READ_AHEAD_BYTES", 50_000)
    table = pa.table({"number": pa.array(range(100_000)), "name": pa.array([f"row {n % 977}" for n in range(100_000)])})
    with store.writer("t/x.parquet") as file, pq.ParquetWriter(file, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=10_000):
            writer.write_batch(batch, row_group_size=10_000)
    size = store.head("t/x.parquet").size
    assert size > 200_000
    with store.reader("t/x.parquet", size if known else None) as source:
        assert source.size() == size
        parquet = pq.ParquetFile(source)
        assert parquet.read() == table
        assert parquet.read_row_group(7, columns=["name"]) == table.slice(70_000, 10_000).select(["name"])
        assert pq.ParquetFile(source, pre_buffer=False).read(columns=["number"]) == table.select(["number"])


@pytest.mark.parametrize("whole", [16 * MIB, 10])
def test_a_reader_is_a_random_access_file(store: Store, monkeypatch: pytest.MonkeyPatch, whole: int) -> None:
    monkeypatch.setattr(remote, "_WHOLE_OBJECT_BYTES", whole)
    monkeypatch.setattr(range_file, "READ_AHEAD_BYTES", 32)
    data = bytes(range(256)) * 2
    store.put("a", data)
    with store.reader("a") as source:
        for start, length in ((0, 4), (4, 4), (100, 20), (110, 300), (500, 100), (490, 5), (512, 5), (3, 0)):
            source.seek(start)
            assert source.read(length) == data[start : start + length]
            assert source.tell() == min(start + length, 512)
        source.seek(-10, io.SEEK_END)
        assert source.read() == data[-10:]
        assert source.read_at(7, 13) == data[13:20]


@pytest.mark.parametrize("whole", [16 * MIB, 10])
@pytest.mark.parametrize("recorded", [99, 101, 1000, 5])
def test_a_reader_notices_another_size(
    store: Store, monkeypatch: pytest.MonkeyPatch, whole: int, recorded: int
) -> None:
    monkeypatch.setattr(remote, "_WHOLE_OBJECT_BYTES", whole)
    monkeypatch.setattr(range_file, "READ_AHEAD_BYTES", 4)
    store.put("folder/a", bytes(100))
    with pytest.raises(Corrupt, match="folder/a"):
        store.reader("folder/a", recorded)


def test_a_reader_of_an_empty_object_reads_nothing(store: Store) -> None:
    store.put("a", b"")
    assert store.reader("a").read() == b""
    assert store.reader("a", 0).size() == 0
    with pytest.raises(Corrupt):
        store.reader("a", 1)


@pytest.mark.parametrize("path", ["", "/etc/hosts", "../x", "a/../../x", "a//b", "a/", "a\0b"])
def test_hostile_paths_are_refused_everywhere(store: Store, path: str) -> None:
    uses: list[Any] = [
        store.get,
        store.head,
        store.exists,
        store.reader,
        lambda path: store.get_range(path, 0, 1),
        lambda path: store.put(path, b""),
        lambda path: store.put_if_absent(path, b""),
        lambda path: store.writer(path).__enter__(),
        lambda path: store.delete([path]),
    ]
    if path not in ("", "a/"):
        uses.append(store.list)
    if store.is_local:
        uses.append(store.local_path)
    for use in uses:
        with pytest.raises(InvalidInput):
            use(path)
    assert [*store.list()] == []


def test_a_pickled_store_reads_the_same_objects(store: Store) -> None:
    store.put("a", b"x")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.get("a") == b"x"
    assert (copy.uri, copy.is_local) == (store.uri, store.is_local)
    assert repr(copy) == repr(store)


def test_many_threads_share_a_store(store: Store) -> None:
    def work(number: int) -> bytes:
        path = f"t/{number % 5}/{number}"
        with store.writer(path) as file:
            file.write(b"%d" % number)
        return b"%b%b%d" % (store.get(path), store.reader(path).read(), store.head(path).size)

    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(work, range(60))] == [b"%d%d%d" % (n, n, len(str(n))) for n in range(60)]
    assert len([*store.list("t")]) == 60


def test_errors_are_of_the_tree(store: Store) -> None:
    with pytest.raises(MoulinError) as caught:
        store.get("gone")
    assert str(caught.value).endswith(".")


def _try_put(store: Store, name: str, writer: int) -> bool:
    try:
        store.put_if_absent(name, bytes([writer]) * 1000)
    except AlreadyExists:
        return False
    return True


def _put_all(pickled: bytes, names: list[str], writer: int) -> list[bool]:
    store: Store = pickle.loads(pickled)
    return [_try_put(store, name, writer) for name in names]
