"""What clean-up must not do: forget what somebody still has a right to, or delete what came back."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.sql import schema as s
from moulin.catalog.upkeep.gc import collect
from moulin.config import DAY, HOUR, MINUTE, Config
from moulin.errors import NotFound, Unavailable
from moulin.model.operations import Append, Delete, Expected, Restore, SetProperties
from moulin.model.tags import EXPIRE_PREFIX, MAX_REF_AGE, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, Ref, refs_of
from moulin.storage import paths
from moulin.storage.store import Store, open_store
from tests.contract.conftest import HandClock
from tests.contract.samples import commit, live, make_table, segment, vector


@pytest.fixture
def clock() -> HandClock:
    """Far in the future, so that objects just written are in its past."""
    clock = HandClock()
    clock.now = 4_000_000_000 * 10**9
    return clock


@pytest.fixture
def store() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}")


@pytest.fixture
def catalog(tmp_path: Path, store: Store, clock: HandClock) -> Iterator[Catalog]:
    catalog = Catalog.open(f"sqlite:///{tmp_path}/catalog.sqlite", store, Config(), clock=clock)
    yield catalog
    catalog.close()


def names(catalog: Catalog) -> set[str]:
    return {
        t.name for d in catalog.databases(include_dropped=True) for t in catalog.tables(d.name, include_dropped=True)
    }


def test_a_child_keeps_its_own_grace_when_its_database_goes_first(catalog: Catalog, clock: HandClock) -> None:
    """GEN-18: the row may linger after delete_at, never vanish before it"""
    make_table(catalog, "slow", "shop")
    make_table(catalog, "quick", "shop")
    catalog.drop_table("shop", "slow")
    catalog.drop_database("shop", cascade=True, immediate=True)
    clock.forward(HOUR)
    assert names(catalog) == {"slow", "quick"}
    collect(catalog)
    assert names(catalog) == {"slow"}
    clock.forward(DAY)
    collect(catalog)
    assert catalog.databases(include_dropped=True) == []


def test_purged_names_and_ids_do_not_come_back(catalog: Catalog, clock: HandClock) -> None:
    state = make_table(catalog, "t", "shop")
    catalog.create_view("shop", "v", ["t"])
    catalog.drop_database("shop", cascade=True)
    clock.forward(DAY + HOUR)
    report = collect(catalog)
    assert len(report.purged) == 3
    with pytest.raises(NotFound):
        catalog.resurrect_database("shop")
    with pytest.raises(NotFound):
        catalog.table_by_id(state.id)
    assert make_table(catalog, "t", "shop").id != state.id


@pytest.mark.parametrize("text", ["soon", "", "nan", "-5", "inf"])
def test_a_senseless_time_to_keep_is_passed_over(catalog: Catalog, clock: HandClock, text: str) -> None:
    state = make_table(catalog)
    old = commit(catalog, state.id, SetProperties({"moulin.history-keep-seconds": text})).version
    commit(catalog, state.id, SetProperties({"a": "b"}))
    clock.forward(6 * DAY)
    collect(catalog)
    assert catalog.table_by_id(state.id, old).properties["moulin.history-keep-seconds"] == text
    clock.forward(2 * DAY)
    collect(catalog)
    with pytest.raises(NotFound, match="cleaned up"):
        catalog.table_by_id(state.id, old)


def test_a_table_may_keep_its_history_longer_than_the_lake(catalog: Catalog, clock: HandClock) -> None:
    long, short = make_table(catalog, "long"), make_table(catalog, "short")
    commit(catalog, long.id, SetProperties({"moulin.history-keep-seconds": str(30 * DAY)}))
    commit(catalog, short.id, SetProperties({"moulin.history-keep-seconds": "60"}))
    for table in (long, short):
        commit(catalog, table.id, SetProperties({"a": "b"}))
    clock.forward(2 * DAY)
    collect(catalog)
    assert catalog.table_by_id(long.id, long.version).id == long.id
    with pytest.raises(NotFound, match="cleaned up"):
        catalog.table_by_id(short.id, short.version)


def test_a_pin_that_ran_out_and_was_passed_cannot_be_renewed(catalog: Catalog, clock: HandClock) -> None:
    state = make_table(catalog)
    commit(catalog, state.id, SetProperties({"a": "b"}))
    pin = catalog.pin(state.id, state.version)
    clock.forward(8 * DAY)
    collect(catalog)
    with pytest.raises(NotFound):
        catalog.renew_pin(pin)


def test_what_restore_brings_back_is_not_deleted(catalog: Catalog, clock: HandClock, store: Store) -> None:
    """A segment leaves, its removal ages, and it is restored in time; or its vector's file holds a live one's too."""
    state = make_table(catalog)
    a, b = segment(catalog, state.id), segment(catalog, state.id)
    for facts in (a, b):
        store.put(facts.path, b"data")
    commit(catalog, state.id, Append(added=(a, b)))
    new = vector(state.id, a.number, 2)
    other = vector(state.id, b.number, 3)
    shared = other.__class__(other.expected, other.facts.__class__(0, b.number, new.facts.path, 50, 40, 3))
    store.put(new.facts.path, b"vectors")
    target = commit(catalog, state.id, Delete(vectors=(new, shared))).version
    seen = {
        n: x.vector.id
        for n, x in catalog.segments_by_number(state.id, [a.number, b.number], target).items()
        if x.vector
    }
    commit(catalog, state.id, Delete(removed=(Expected(a.number, seen[a.number]),)))
    clock.forward(6 * DAY)
    collect(catalog)
    commit(catalog, state.id, Restore(target))
    clock.forward(8 * DAY)
    collect(catalog)
    clock.forward(HOUR)
    collect(catalog)
    assert live(catalog, state.id) == {a.number: 8, b.number: 7}
    assert all(store.exists(path) for path in (a.path, b.path, new.facts.path))
    seen = {
        n: x.vector.id
        for n, x in catalog.segments_by_number(state.id, [a.number], catalog.version()).items()
        if x.vector
    }
    commit(catalog, state.id, Delete(removed=(Expected(a.number, seen[a.number]),)))
    clock.forward(8 * DAY)
    collect(catalog)
    clock.forward(HOUR)
    collect(catalog)
    assert not store.exists(a.path)
    assert store.exists(new.facts.path), "b's vector is in it"


def test_the_trash_is_looked_through_before_it_is_emptied(catalog: Catalog, clock: HandClock, store: Store) -> None:
    state = make_table(catalog)
    a = segment(catalog, state.id)
    store.put(a.path, b"data")
    commit(catalog, state.id, Append(added=(a,)))
    folder = f"{paths.table_prefix(state.id)}/"
    with catalog.pool.unordered() as connection:
        rows = [{"path": path, "size": 1, "reason": "?", "delete_after": 0, "failures": 0} for path in (a.path, folder)]
        connection.execute(s.trash.insert(), rows)
    collect(catalog)
    assert store.exists(a.path)
    assert live(catalog, state.id) == {a.number: 10}


def test_one_object_that_cannot_be_deleted_does_not_keep_the_others(
    catalog: Catalog, clock: HandClock, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = make_table(catalog)
    made = [segment(catalog, state.id) for _ in range(3)]
    for facts in made:
        store.put(facts.path, b"data")
    commit(catalog, state.id, Append(added=tuple(made)))
    commit(catalog, state.id, Delete(removed=tuple(Expected(facts.number, 0) for facts in made)))
    clock.forward(8 * DAY)
    collect(catalog)
    clock.forward(HOUR)
    delete, stuck = store.delete, made[1].path

    def refuse(objects: object) -> None:
        wanted = list(objects)  # type: ignore[call-overload]
        if stuck in wanted:
            raise Unavailable("The store does not let go of one object.")
        delete(wanted)

    with monkeypatch.context() as patch:
        patch.setattr(store, "delete", refuse)
        report = collect(catalog)
    assert len(report.failures) == 1
    assert [store.exists(facts.path) for facts in made] == [False, True, False]
    clock.forward(1)
    collect(catalog)
    assert not store.exists(stuck)


def test_orphans_wait_after_a_recovery(catalog: Catalog, clock: HandClock, store: Store, tmp_path: Path) -> None:
    """They may be all that is left of commits that were never published; give people a day to find the old catalog."""
    state = make_table(catalog)
    orphan = paths.segment_path(state.id, 77, "00c0ffee")
    store.put(orphan, b"data")
    uri = f"sqlite:///{tmp_path}/again.sqlite"
    recover(store, uri, Config(), clock)
    again = Catalog.open(uri, store, Config(), clock=clock)
    collect(again)
    assert store.exists(orphan)
    clock.forward(DAY + MINUTE)
    collect(again)
    assert not store.exists(orphan)
    again.close()


@pytest.mark.postgres
def test_a_pin_being_made_is_seen(postgres_url: str, store: Store, clock: HandClock) -> None:
    """Clean-up decides while a pin is not committed yet: it must wait for it."""
    catalog = Catalog.open(postgres_url, store, Config(), clock=clock)
    state = make_table(catalog)
    commit(catalog, state.id, SetProperties({"a": "b"}))
    clock.forward(8 * DAY)
    inserted, go_on = threading.Event(), threading.Event()

    def pin() -> None:
        with catalog.pool.unordered() as connection:
            values = {
                "id": uuid.uuid4(),
                "table_id": state.id,
                "version": state.version,
                "expires_at": clock.now + 10**12,
            }
            connection.execute(s.pins.insert().values(values))
            inserted.set()
            go_on.wait(2)

    with ThreadPoolExecutor(2) as pool:
        pinning = pool.submit(pin)
        inserted.wait(30)
        collecting = pool.submit(collect, catalog)
        go_on.set() if collecting.done() else threading.Timer(1, go_on.set).start()
        pinning.result()
        collecting.result()
    assert catalog.table_by_id(state.id, state.version).version == state.version
    with catalog.pool.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(s.pins)).scalar_one() == 1
    catalog.close()


def test_many_rows_are_forgotten_a_few_at_a_time(
    catalog: Catalog, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans of one segment may end without anything to delete; that must not stop what comes after."""
    monkeypatch.setattr("moulin.catalog.upkeep.gc._AT_ONCE", 2)
    state, doomed = make_table(catalog), make_table(catalog, "doomed")
    a = segment(catalog, state.id, rows=100)
    commit(catalog, state.id, Append(added=(a,)))
    commit(catalog, doomed.id, Append(added=tuple(segment(catalog, doomed.id) for _ in range(9))))
    seen = 0
    for n in range(1, 12):
        commit(catalog, state.id, Delete(vectors=(vector(state.id, a.number, n, seen),)))
        found = catalog.segments(state.id, catalog.version())[0].vector
        assert found is not None
        seen = found.id
    catalog.drop_table("d", "doomed")
    clock.forward(8 * DAY)
    report = collect(catalog)
    assert len([g for g in report.trashed if g.path.endswith(".puffin")]) == 10
    with catalog.pool.read() as connection:
        for table, rows in ((s.segment_spans, 1), (s.deletion_vectors, 1), (s.segments, 1)):
            assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() == rows
    assert live(catalog, state.id) == {a.number: 89}


def test_a_stopped_clean_up_is_taken_up_again(
    catalog: Catalog, clock: HandClock, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the promise was taken back, and before the rows are gone."""
    state = make_table(catalog)
    a, b = segment(catalog, state.id), segment(catalog, state.id)
    store.put(a.path, b"data")
    commit(catalog, state.id, Append(added=(a,)))
    commit(catalog, state.id, Append(added=(b,)))
    commit(catalog, state.id, Delete(removed=(Expected(a.number, 0),)))
    clock.forward(8 * DAY)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("moulin.catalog.expiry.forget", stop)
        with pytest.raises(KeyboardInterrupt):
            collect(catalog)
    with pytest.raises(NotFound, match="cleaned up"):
        catalog.segments(state.id, state.version)
    collect(catalog)
    clock.forward(HOUR)
    assert [g.path for g in collect(catalog).deleted] == [a.path]


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_commits_that_run_during_a_clean_up_keep_their_files(
    kind: str, tmp_path: Path, store: Store, request: pytest.FixtureRequest
) -> None:
    """Appends, deletes and restores go on; whatever is live at the end has its files, and recovery agrees."""
    uri = f"sqlite:///{tmp_path}/catalog.sqlite" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    catalog = Catalog.open(uri, store, Config(manifest_deltas=8))
    state = make_table(catalog)
    done = threading.Event()

    def clean_up() -> int:
        rounds = 0
        while not done.is_set():
            collect(catalog, history_keep=0.05, byte_floor=0, orphan_grace=DAY)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(1) as pool:
        cleaning = pool.submit(clean_up)
        for n in range(25):
            added = segment(catalog, state.id)
            store.put(added.path, b"data")
            version = commit(catalog, state.id, Append(added=(added,))).version
            if n % 3 == 2:
                commit(catalog, state.id, Delete(removed=(Expected(added.number, 0),)))
            if n % 5 == 4:
                try:
                    commit(catalog, state.id, Restore(version))
                except NotFound:
                    assert catalog.table_by_id(state.id).oldest_version > version
        done.set()
        assert cleaning.result() > 0
    found = catalog.segments(state.id, catalog.version())
    assert all(store.exists(x.facts.path) for x in found)
    again_uri = f"sqlite:///{tmp_path}/again.sqlite"
    recover(store, again_uri, Config())
    again = Catalog.open(again_uri, store, Config())
    assert again.segments(state.id, again.version()) == found
    assert [c.version for c in again.history(state.id)] == [c.version for c in catalog.history(state.id)]
    again.close()
    catalog.close()


def test_a_name_lapses_with_its_snapshot(catalog: Catalog, clock: HandClock) -> None:
    state = make_table(catalog)
    old = commit(catalog, state.id, Append(added=(segment(catalog, state.id),))).version
    names = (Ref("short", old, options={MAX_REF_AGE: int(3 * DAY * 1000)}), Ref("long", old, "branch"), Ref("tag", old))
    commit(catalog, state.id, SetProperties({ref.key: ref.to_json() for ref in names}))
    clock.forward(2 * DAY)
    newer = commit(catalog, state.id, Append(added=(segment(catalog, state.id),))).version
    collect(catalog, history_keep=0)
    assert set(refs_of(catalog.table_by_id(state.id).properties)) == {"short", "long", "tag"}
    clock.forward(2 * DAY)
    collect(catalog, history_keep=0, dry_run=True)
    assert set(refs_of(catalog.table_by_id(state.id).properties)) == {"short", "long", "tag"}
    collect(catalog, history_keep=0)
    assert set(refs_of(catalog.table_by_id(state.id).properties)) == {"long", "tag"}
    commit(catalog, state.id, SetProperties({f"{EXPIRE_PREFIX}{MAX_REF_AGE}": str(int(DAY * 1000))}))
    moved = Ref("long", newer, "branch", {MAX_REF_AGE: int(30 * DAY * 1000)})
    commit(catalog, state.id, SetProperties({moved.key: moved.to_json()}))
    collect(catalog, history_keep=0)
    assert set(refs_of(catalog.table_by_id(state.id).properties)) == {"long"}
    with pytest.raises(NotFound):
        catalog.table_by_id(state.id, old)
    assert catalog.table_by_id(state.id, newer).version == newer


@pytest.mark.parametrize("seed", range(8))
def test_branches_keep_as_many_snapshots_and_as_old_ones_as_they_say(
    catalog: Catalog, clock: HandClock, seed: int
) -> None:
    """The model is Iceberg's rule, over a list of (version, time)."""
    chance = random.Random(seed)
    state, made = make_table(catalog), []
    for _ in range(8):
        clock.forward(chance.choice((HOUR, DAY)))
        made.append((commit(catalog, state.id, Append(added=(segment(catalog, state.id),))).version, clock.now))
        if chance.random() < 0.3:
            commit(catalog, state.id, SetProperties({"a": str(chance.random())}))
    properties: dict[str, str] = {}
    for option, values in (
        (MIN_SNAPSHOTS, range(1, 6)),
        (MAX_SNAPSHOT_AGE, range(int(HOUR * 1000), int(4 * DAY * 1000))),
    ):
        if chance.random() < 0.5:
            properties[EXPIRE_PREFIX + option] = str(chance.choice(values))
    refs = [("main", made[-1][0], {})]
    for name in ("a", "b"):
        options = {MIN_SNAPSHOTS: chance.randint(1, 4)} if chance.random() < 0.5 else {}
        options |= {MAX_SNAPSHOT_AGE: chance.randint(1, int(4 * DAY * 1000))} if chance.random() < 0.5 else {}
        ref = Ref(name, chance.choice(made)[0], "branch", options)
        properties[ref.key] = ref.to_json()
        refs.append((name, ref.version, options))
    commit(catalog, state.id, SetProperties(properties))
    clock.forward(HOUR)
    collect(catalog, history_keep=0)
    wanted: set[int] = set()
    for _, version, options in refs:
        chain = [one for one in made if one[0] <= version]
        least = options.get(MIN_SNAPSHOTS, int(properties.get(EXPIRE_PREFIX + MIN_SNAPSHOTS, 1)))
        age = options.get(MAX_SNAPSHOT_AGE, int(properties.get(EXPIRE_PREFIX + MAX_SNAPSHOT_AGE, 1)))
        young = [one for one in chain if one[1] >= clock.now - age * 10**6]
        wanted |= {version for version, _ in {*chain[-least:], *young}}
    assert catalog.table_by_id(state.id).oldest_version <= min(wanted)
    for version in wanted:
        assert catalog.table_by_id(state.id, version).version == version
    gone = [version for version, _ in made if version < min(wanted)]
    for version in gone[:-1]:  # the last may be what was current at the oldest time that is kept
        with pytest.raises(NotFound):
            catalog.table_by_id(state.id, version)
