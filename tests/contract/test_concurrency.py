"""Several processes and threads on one lake: no update is lost, versions are contiguous, and they appear in order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import Stale
from moulin.config import Config
from moulin.errors import Unavailable
from moulin.model.operations import Append, Delete, SetProperties
from moulin.storage.store import open_store
from tests.contract.conftest import BACKENDS, Backend
from tests.contract.processes import start_worker, versions_of
from tests.contract.samples import commit, live, make_table, segment, vector

PROCESSES, ROUNDS = 4, 5


@pytest.mark.parametrize("backend", BACKENDS, indirect=True)  # the processes use the catalog itself
def test_four_processes_commit_at_once(backend: Backend) -> None:
    uri = backend.new_uri()
    catalog = backend.open(uri, open_store(backend.folder))
    state = make_table(catalog)
    first = catalog.version()
    workers = [start_worker(uri, backend.folder, state.id, ROUNDS) for _ in range(PROCESSES)]
    done = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        watchers = [pool.submit(_watch, catalog, state.id, done) for _ in range(2)]
        try:
            committed = [version for worker in workers for version in versions_of(worker)]
        finally:
            done.set()
        assert sum(watcher.result() for watcher in watchers) > 0
    last = first + 2 * PROCESSES * ROUNDS
    assert sorted(committed) == list(range(first + 1, last + 1)), "each version was given to one commit"
    assert catalog.version() == last
    assert [c.version for c in catalog.history(state.id)] == list(range(last, first - 1, -1))
    after = catalog.table_by_id(state.id)
    assert after.properties["n"] == str(PROCESSES * ROUNDS), "no count was lost"
    found = catalog.segments(state.id, last)
    assert len(found) == PROCESSES * ROUNDS
    assert sorted(s.first_row_id for s in found) == list(range(0, 10 * PROCESSES * ROUNDS, 10))
    assert sorted(s.sequence for s in found) == list(range(1, PROCESSES * ROUNDS + 1))


def _watch(catalog: Catalog, table_id: object, done: threading.Event) -> int:
    """Once version V was read, nothing with a version <= V may appear."""
    seen: dict[int, set[int]] = {}
    rounds = 0
    while not done.wait(0.002):
        version = catalog.version()
        versions = {c.version for c in catalog.history(table_id)}  # type: ignore[arg-type]
        for earlier, then in seen.items():
            assert {v for v in versions if v <= earlier} == then
        seen = {version: {v for v in versions if v <= version}}
        rounds += 1
    return rounds


def test_threads_share_a_catalog(catalog: Catalog) -> None:
    state = make_table(catalog)

    def append(_: int) -> int:
        return commit(catalog, state.id, Append(added=(segment(catalog, state.id),))).version

    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(append, range(24)))
    assert sorted(versions) == list(range(state.version + 1, state.version + 25))
    assert len(live(catalog, state.id)) == 24


def test_of_two_who_saw_the_same_one_wins(catalog: Catalog) -> None:
    state = make_table(catalog)
    target = segment(catalog, state.id)
    commit(catalog, state.id, Append(added=(target,)))
    read = catalog.version()

    def delete(_: int) -> bool:
        try:
            commit(catalog, state.id, Delete(vectors=(vector(state.id, target.number, 1),)), read=read)
        except Stale:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(delete, range(4))) == 1
    assert live(catalog, state.id) == {target.number: 9}


def test_a_reader_sees_one_snapshot(catalog: Catalog) -> None:
    """A version and its segments belong together, however many commits happen between two reads."""
    state = make_table(catalog)
    done = threading.Event()

    def write() -> None:
        for n in range(12):
            commit(catalog, state.id, Append(added=(segment(catalog, state.id),)))
            commit(catalog, state.id, SetProperties({"n": str(n)}))
        done.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not done.is_set() and not writing.done():
            read = catalog.table_by_id(state.id)
            rows = catalog.count_rows(state.id, read.version)
            assert rows == 10 * len(catalog.segments(state.id, read.version)) == read.next_row_id
        writing.result()


def test_waiting_for_the_lock_ends(backend: Backend) -> None:
    """A lock that another holds ends in Unavailable, and the next try succeeds."""
    uri, store = backend.new_uri(), open_store(backend.folder)
    holder = backend.open(uri, store)
    other = backend.open(uri, store, Config(lock_seconds=1.0))
    with holder.pool.write(), pytest.raises(Unavailable):
        other.create_database("d")
    assert other.create_database("d").name == "d"
