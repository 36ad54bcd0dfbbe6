"""Recovery: from the manifests in storage alone, everything is as it was at the last complete version."""

from __future__ import annotations

import math
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pytest
import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.manifests.recover import Recovery, recover
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import (
    Corrupt,
    FailedPrecondition,
    Fenced,
    InvalidInput,
    MoulinError,
    NotFound,
    Unavailable,
    Unsupported,
)
from moulin.formats import manifest as codec
from moulin.model.entities import TableState
from moulin.model.operations import (
    AlterSchema,
    Append,
    Compact,
    Delete,
    Expected,
    Overwrite,
    Restore,
    SetPartitioning,
    SetProperties,
)
from moulin.model.schema.change import AddColumn, RenameColumn
from moulin.storage import paths
from moulin.storage.store import Store, open_store
from tests.contract.processes import start_worker, versions_of
from tests.contract.samples import commit, journal, live, make_table, segment, vector, view_query

NOT_RECOVERED = {
    "lake",
    "counter",
    "reserves",
    "incarnations",
    "merge_tasks",
    "merge_task_inputs",
    "staged_segments",
    "leases",
    "pins",
    "outbox",
    "trash",
}


@dataclass
class Place:
    """A lake in memory, and as many catalog files for it as are needed."""

    folder: Path
    store: Store
    config: Config = field(default_factory=Config)
    opened: list[Catalog] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.uri = self.new_uri()

    def new_uri(self) -> str:
        return f"sqlite:///{self.folder}/{uuid.uuid4().hex}.sqlite"

    def open(self) -> Catalog:
        self.opened.append(Catalog.open(self.uri, self.store, self.config))
        return self.opened[-1]

    def lose_and_recover(self) -> Recovery:
        self.uri = self.new_uri()
        return recover(self.store, self.uri, self.config)

    def names(self, *, kind: str = "delta", table: UUID | None = None) -> list[str]:
        prefix = paths.lake_manifests_prefix() if table is None else paths.table_manifests_prefix(table)
        return sorted(i.path for i in self.store.list(prefix) if i.path.endswith(kind))


@pytest.fixture
def place() -> Iterator[Place]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        place = Place(Path(folder), open_store(f"memory://{uuid.uuid4().hex}"))
        yield place
        for catalog in place.opened:
            catalog.close()


def dump(catalog: Catalog) -> dict[str, list[str]]:
    """Every row that recovery must bring back, with partitions in place of their serial numbers."""
    rows: dict[str, list[str]] = {}
    with catalog.pool.read() as connection:
        partitions = {p[0]: p[1:] for p in connection.execute(sa.select(s.partitions))}
        for table in s.metadata.sorted_tables:
            if table.name in NOT_RECOVERED:
                continue
            found = []
            for row in connection.execute(sa.select(table)).mappings():
                values = dict(row)
                if table is s.segment_spans or table is s.partitions:
                    values.pop("id")
                if "partition_id" in values:
                    values["partition_id"] = partitions[values["partition_id"]]
                if table is not s.versions or values["kind"] != "recover":
                    ordered = {k: sorted(v.items()) if isinstance(v, dict) else v for k, v in values.items()}
                    found.append(repr(sorted(ordered.items())))
            rows[table.name] = sorted(found)
    return rows


def keep_busy(catalog: Catalog) -> TableState:
    """Everything that can happen to a lake, at least once."""
    state = make_table(catalog, "orders", "shop", partition_by=["region"], properties={"owner": "ann"})
    other = make_table(catalog, "returns", "shop", event_time=None)
    make_table(catalog, "gone", "shop")
    catalog.create_view("shop", "all", ["returns", "orders"], "")
    catalog.create_view("shop", "dropped", ["orders"])
    catalog.create_view("shop", "query", [], "text", query=view_query("select 1 as n", owner="ann"))
    catalog.create_view("shop", "query", [], "text", query=view_query("select 2 as n", owner="ann"), replace=True)
    catalog.set_view_properties("shop", "query", {"größe": "2"})
    a, b, c, d = (segment(catalog, state.id, partition=(p,), time_min=n, time_max=n * 9) for n, p in
                  enumerate((b"eu", b"us", None, b"eu")))  # fmt: skip
    e = segment(catalog, other.id, key_min=b"a", key_max=b"b")
    commit(catalog, state.id, Append(added=(a, b, c)), request_id="first")
    commit(catalog, state.id, Delete(vectors=(vector(state.id, a.number, 2), vector(state.id, b.number, 3))))
    found = catalog.segments_by_number(state.id, [a.number, b.number], catalog.version())
    seen = {n: x.vector.id for n, x in found.items() if x.vector}
    target = catalog.version()
    merge = Compact(
        removed=(Expected(a.number, seen[a.number]), Expected(b.number, seen[b.number])),
        added=(d,),
        added_vectors={d.number: vector(state.id, d.number, 1).facts},
        journals=(journal(state.id), journal(state.id)),
    )
    commit(catalog, state.id, merge)
    commit(catalog, state.id, AlterSchema((AddColumn("note", "string", default="é"),)))  # type: ignore[arg-type]
    commit(catalog, state.id, SetPartitioning(("bucket(8, id)", "month(ts)")))
    commit(catalog, state.id, SetProperties({"größe": "1"}, ("owner",)))
    read = catalog.version()
    catalog.commit(
        [
            TableCommit(state.id, read, AlterSchema((RenameColumn("note", "remark"),))),
            TableCommit(other.id, read, Append(added=(e,)), {"by": "bob"}),
            TableCommit(other.id, read, Delete(vectors=(vector(other.id, e.number, 4),))),
        ],
        request_id="both",
    )
    commit(catalog, state.id, Overwrite(everything=True))
    commit(catalog, state.id, Restore(target))
    catalog.drop_table("shop", "gone")
    catalog.drop_view("shop", "dropped")
    make_table(catalog, "x", "trash")
    catalog.drop_database("trash", cascade=True)
    catalog.rename_table("shop", "returns", "shop", "back")
    catalog.create_database("empty", {"k": "v"})
    catalog.rename_database("empty", "void")
    return catalog.table_by_id(state.id)


def test_a_recovered_catalog_has_every_row_it_had(place: Place) -> None:
    catalog = place.open()
    state = keep_busy(catalog)
    before, version = dump(catalog), catalog.version()
    found = place.lose_and_recover()
    again = place.open()
    assert dump(again) == before
    assert (found.version, found.incarnation, found.incomplete, found.ignored) == (version, 2, None, ())
    assert (found.databases, found.tables, found.views, found.segments) == (3, 4, 3, 5)
    assert again.uuid == catalog.uuid
    assert again.version() == found.first_version > version
    assert again.committed("both") == catalog.committed("both")
    for v in range(state.created_version, version + 1):
        assert again.table_by_id(state.id, v) == catalog.table_by_id(state.id, v)
        assert again.segments(state.id, v) == catalog.segments(state.id, v)
    assert again.version_at(catalog.history(state.id)[2].timestamp_ns) == catalog.history(state.id)[2].version


@pytest.mark.postgres
@pytest.mark.s3
def test_a_lake_on_s3_is_recovered_into_postgresql(
    place: Place, postgres_url: str, s3_url: str, s3_options: dict[str, str]
) -> None:
    place.store = open_store(s3_url, s3_options)
    keep_busy(place.open())
    before = dump(place.opened[0])
    place.new_uri = lambda: postgres_url  # type: ignore[method-assign]
    place.lose_and_recover()
    again = place.open()
    assert dump(again) == before
    state = again.table("shop", "orders")
    commit(again, state.id, Append(added=(segment(again, state.id, partition=(b"eu",)),)))


def test_what_is_new_is_told_from_what_was_lost(place: Place) -> None:
    """Recover, write more, lose it again, recover again; a process of the first life writes on all the while."""
    first = place.open()
    first.publisher.fence_seconds = math.inf
    state = make_table(first)
    commit(first, state.id, Append(added=(segment(first, state.id),)))
    place.lose_and_recover()
    second = place.open()
    zombie = segment(first, state.id)
    lost = commit(first, state.id, Append(added=(zombie,))).version
    first.create_database("lost")
    kept = segment(second, state.id)
    commit(second, state.id, Append(added=(kept,)))
    second.create_database("kept")
    expected, version = dump(second), second.version()
    found = place.lose_and_recover()
    third = place.open()
    assert dump(third) == expected
    assert (found.version, found.incarnation) == (version, 3)
    assert paths.table_manifest(state.id, lost, "delta") in found.ignored
    assert zombie.number not in live(third, state.id)
    assert kept.number > zombie.number + 900_000
    first.publisher.write_full(state.id)
    first.publisher.write_full(None)
    place.lose_and_recover()
    assert dump(place.open()) == expected
    assert place.open().pool.incarnation == 4


def test_a_catalog_that_was_given_up_finds_out(place: Place) -> None:
    first = place.open()
    first.publisher.fence_seconds = 0
    first.create_database("before")
    place.lose_and_recover()
    with pytest.raises(Unavailable, match="unknown.*recovered"):
        first.create_database("after")
    version = first.version()
    with pytest.raises(Fenced, match="recovered"):
        first.create_database("later")
    assert first.version() == version, "what is refused is not committed"
    second = place.open()
    second.publisher.fence_seconds = 0
    second.create_database("kept")
    assert [d.name for d in second.databases()] == ["before", "kept"]


def test_counters_jump_over_everything_ever_seen(place: Place) -> None:
    catalog = place.open()
    state = make_table(catalog)
    place.store.put(paths.segment_path(state.id, 5_000_123, "00c0ffee"), b"written, never committed")
    place.lose_and_recover()
    again = place.open()
    assert again.reserve_segments(1) > 6_000_000
    a = segment(again, state.id)
    version = commit(again, state.id, Append(added=(a,))).version
    assert version > 1_000_000
    commit(again, state.id, Delete(vectors=(vector(state.id, a.number, 1),)))
    stored = again.segments(state.id, again.version())[0].vector
    assert stored is not None
    assert stored.id > 1_000_000
    stamps = [c.timestamp_ns for c in again.history(state.id)]
    assert stamps == sorted(stamps, reverse=True)


@pytest.mark.crash
@pytest.mark.parametrize("put", [1, 2, 5])
def test_a_kill_between_commit_and_publish_loses_nothing_once_the_lake_is_opened_again(
    tmp_path: Path, put: int
) -> None:
    uri, store = f"sqlite:///{tmp_path}/catalog.sqlite", open_store(tmp_path)
    catalog = Catalog.open(uri, store, Config())
    state = make_table(catalog)
    published = catalog.version() + put - 1
    catalog.close()
    told = versions_of(start_worker(uri, tmp_path, state.id, 10, "--die-at-put", str(put)), killed=True)
    assert told == list(range(state.version + 1, published + 1)), "the last commit was never answered"
    alone = f"sqlite:///{tmp_path}/alone.sqlite"
    lost = recover(_copy(store), alone, Config())
    assert (lost.version, lost.incomplete) == (published, None)
    catalog = Catalog.open(uri, store, Config())
    expected = dump(catalog)
    assert catalog.version() == published + 1
    catalog.close()
    found = recover(store, f"sqlite:///{tmp_path}/whole.sqlite", Config())
    assert found.version == published + 1, "opening the lake published what waited"
    again = Catalog.open(f"sqlite:///{tmp_path}/whole.sqlite", store, Config())
    assert dump(again) == expected
    again.close()


def _copy(store: Store) -> Store:
    copy = open_store(f"memory://{uuid.uuid4().hex}")
    for item in store.list():
        if not item.path.endswith(("sqlite", "-wal", "-shm")):
            copy.put(item.path, store.get(item.path))
    return copy


def test_a_version_of_several_tables_is_recovered_whole_or_not(place: Place) -> None:
    catalog = place.open()
    one, two = make_table(catalog, "one"), make_table(catalog, "two")
    before, complete = dump(catalog), catalog.version()
    a, b = segment(catalog, one.id), segment(catalog, two.id)
    version = catalog.commit(
        [TableCommit(one.id, complete, Append(added=(a,))), TableCommit(two.id, complete, Append(added=(b,)))]
    ).version
    missing = paths.table_manifest(two.id, version, "delta")
    place.store.delete([missing])
    found = place.lose_and_recover()
    assert found.version == complete
    assert found.incomplete is not None
    assert missing in found.incomplete
    assert set(found.ignored) == {paths.table_manifest(one.id, version, "delta")}
    assert dump(place.open()) == before


@pytest.fixture
def busy(place: Place) -> tuple[Place, Catalog]:
    """Versions of every shape: of the lake alone, of one table, of a table and the lake, of two tables."""
    catalog = place.open()
    one, two = make_table(catalog, "one"), make_table(catalog, "two")
    for _ in range(2):
        commit(catalog, one.id, Append(added=(segment(catalog, one.id),)))
        catalog.create_view("d", f"v{catalog.version()}", ["one"])
        read = catalog.version()
        catalog.commit([TableCommit(t.id, read, Append(added=(segment(catalog, t.id),))) for t in (one, two)])
    return place, catalog


def test_a_manifest_that_is_missing_below_a_later_version_is_named(busy: tuple[Place, Catalog]) -> None:
    """It was published, so it is damage: nothing is recovered, and nothing is written."""
    place, catalog = busy
    newest = catalog.version()
    every = [i.path for i in place.store.list() if i.path.endswith("delta")]
    assert len(every) == 13
    for name in every:
        data, before = place.store.get(name), {i.path for i in place.store.list()}
        place.store.delete([name])
        if name.endswith(f"{newest:020}.delta"):
            assert place.lose_and_recover().version == newest - 1
            place.store.delete([paths.lake_manifest(2_000_000, "full")])
        else:
            with pytest.raises(Corrupt, match=name):
                place.lose_and_recover()
        place.store.put(name, data)
        assert {i.path for i in place.store.list()} == before
    with pytest.raises(InvalidInput, match=str(newest)):
        recover(place.store, place.new_uri(), place.config, to_version=newest + 5, discard_newer=True)
    assert place.lose_and_recover().version == newest


def test_recovery_goes_back_only_when_told_to_and_keeps_what_it_gives_up(busy: tuple[Place, Catalog]) -> None:
    place, catalog = busy
    newest, gap = catalog.version(), catalog.version() - 2
    state = catalog.table("d", "one")
    kept = catalog.table_by_id(state.id, gap - 1)
    discarded = catalog.segments(state.id, newest)[-1].facts
    (lost,) = (i.path for i in place.store.list() if i.path.endswith(f"{gap:020}.delta"))
    newer = [i.path for i in place.store.list() if i.path.endswith((f"{newest:020}.delta", f"{newest - 1:020}.delta"))]
    restored = place.store.get(lost)
    place.store.delete([lost])
    place.uri = place.new_uri()

    def back(to_version: int | None, discard_newer: bool = True) -> Recovery:
        return recover(place.store, place.uri, place.config, to_version=to_version, discard_newer=discard_newer)

    with pytest.raises(FailedPrecondition, match="--discard-newer"):
        back(gap - 1, discard_newer=False)
    with pytest.raises(Corrupt, match=lost):
        back(newest)
    with pytest.raises(InvalidInput, match="to_version"):
        back(None)
    bytes_of = {name: place.store.get(name) for name in newer}
    expected = dump(catalog)
    found = back(gap - 1)
    assert (found.version, found.incarnation) == (gap - 1, 2)
    assert sorted(found.set_aside) == sorted(paths.discarded_manifest(2, name) for name in newer)
    again = place.open()
    assert again.table_by_id(state.id, gap - 1) == kept
    commit(again, state.id, Append(added=(segment(again, state.id),)))
    place.store.put(discarded.path, b"rows of a version that was given up")
    collect(again, history_keep=0, orphan_grace=0, byte_floor=0)
    collect(again, history_keep=0, orphan_grace=0, byte_floor=0)
    assert {name: place.store.get(paths.discarded_manifest(2, name)) for name in newer} == bytes_of
    assert place.store.exists(discarded.path), "the files of what was given up are there as long as its manifests are"
    before = dump(again)
    place.lose_and_recover()
    assert dump(place.open()) == before, "what lies aside is not read again"
    for name, data in {**bytes_of, lost: restored}.items():
        place.store.put(name, data)
    place.uri = place.new_uri()
    assert back(newest).version == newest, "with the lost manifest back, what was given up can be had again"
    assert dump(place.open()) == expected


def test_the_full_manifest_that_a_recovered_lake_begins_with_is_missed(busy: tuple[Place, Catalog]) -> None:
    place, _ = busy
    first = place.lose_and_recover().first_version
    place.open().create_database("later")
    name = paths.lake_manifest(first, "full")
    place.store.delete([name])
    with pytest.raises(Corrupt, match=name):
        place.lose_and_recover()


def test_manifests_that_two_catalogs_wrote_for_one_version_are_told_apart(busy: tuple[Place, Catalog]) -> None:
    """Of two tables each has a part, and neither names the other."""
    place, catalog = busy
    one, two = (catalog.table("d", name) for name in ("one", "two"))
    version = commit(catalog, one.id, SetProperties({"a": "b"})).version
    other = codec.decode(place.store.get(paths.table_manifest(one.id, version, "delta")), "x").manifest
    other.table_uuid = str(two.id)
    del other.tables[:]
    other.tables.append(two.id.bytes)
    place.store.put(paths.table_manifest(two.id, version, "delta"), codec.encode(other, full=False))
    with pytest.raises(Corrupt, match="two catalogs"):
        place.lose_and_recover()


def test_segments_without_a_single_manifest_are_not_an_empty_lake(place: Place) -> None:
    catalog = place.open()
    state = make_table(catalog)
    place.store.put(paths.segment_path(state.id, 5, "00c0ffee"), b"rows")
    place.store.delete([i.path for i in place.store.list() if i.path.endswith("delta")])
    with pytest.raises(Corrupt, match="manifest"):
        place.lose_and_recover()


def test_a_new_table_needs_both_of_its_manifests(place: Place) -> None:
    catalog = place.open()
    catalog.create_database("d")
    before = dump(catalog)
    state = make_table(catalog)
    place.store.delete([paths.table_manifest(state.id, state.version, "delta")])
    assert place.lose_and_recover().version == state.version - 1
    assert dump(place.open()) == before


def forget_before(catalog: Catalog, table_id: UUID, version: int) -> None:
    """What clean-up does to the catalog: versions before `version` are no longer promised."""
    with catalog.pool.write() as write:
        draft = Draft(write, catalog.uuid, "gc")
        write.connection.execute(s.tables.update().where(s.tables.c.id == table_id).values(oldest_version=version))
        add_rows(draft, s.tables, [table_id])
        draft.save()
    catalog.publisher.publish()


@pytest.fixture
def trimmed(place: Place) -> tuple[Place, Catalog, TableState]:
    """A table whose first versions are forgotten; a full manifest stands where the deltas before it may go."""
    catalog = place.open()
    state = make_table(catalog, properties={"a": "b"})
    a, b, c = (segment(catalog, state.id) for _ in range(3))
    commit(catalog, state.id, Append(added=(a, b)))
    commit(catalog, state.id, Delete(vectors=(vector(state.id, a.number, 2),)))
    commit(catalog, state.id, SetProperties({"c": "d"}))
    catalog.publisher.write_full(state.id)
    base = catalog.version()
    commit(catalog, state.id, Append(added=(c,)))
    commit(catalog, state.id, Delete(removed=(Expected(b.number, 0),)))
    forget_before(catalog, state.id, base)
    catalog.publisher.write_full(None)
    commit(catalog, state.id, SetProperties({"e": "f"}))
    return place, catalog, catalog.table_by_id(state.id)


@pytest.mark.parametrize("removed", [[0, 1, 2, 3], [0], [1], [0, 2], [3], [2, 3]])
def test_kept_versions_are_recovered_from_trimmed_chains(
    trimmed: tuple[Place, Catalog, TableState], removed: list[int]
) -> None:
    """The deltas before a full manifest, all or any of them: clean-up may have been stopped anywhere."""
    place, catalog, state = trimmed
    deltas = place.names(table=state.id)
    place.store.delete([deltas[n] for n in removed])
    place.store.delete(place.names()[:2])
    place.lose_and_recover()
    again = place.open()
    for version in range(state.oldest_version, catalog.version() + 1):
        assert again.table_by_id(state.id, version) == catalog.table_by_id(state.id, version)
        assert again.segments(state.id, version) == catalog.segments(state.id, version)
    assert again.history(state.id) == catalog.history(state.id)
    assert again.sequence_versions(state.id) == catalog.sequence_versions(state.id)
    assert again.birth_versions(state.id) == catalog.birth_versions(state.id)
    for kept in ("tables", "table_schemas", "databases", "deletion_vectors"):
        assert [_without(r, "time_classes") for r in dump(again)[kept]] == [
            _without(r, "time_classes") for r in dump(catalog)[kept]
        ]
    assert set(dump(again)["segment_spans"]) <= set(dump(catalog)["segment_spans"])
    with pytest.raises(NotFound, match="cleaned up"):
        again.table_by_id(state.id, state.oldest_version - 1)
    commit(again, state.id, Restore(state.oldest_version))
    assert live(again, state.id) == live(catalog, state.id, state.oldest_version)


def _without(row: str, column: str) -> str:
    return ", ".join(part for part in row.split("), (") if f"'{column}'" not in part)


def test_a_trimmed_chain_without_its_full_manifest_is_corrupt(trimmed: tuple[Place, Catalog, TableState]) -> None:
    place, _, state = trimmed
    place.store.delete([*place.names(table=state.id)[:2], *place.names(table=state.id, kind="full")])
    with pytest.raises(Corrupt, match=str(state.id)):
        place.lose_and_recover()


@pytest.mark.parametrize("place_in_chain", [4, 5])
def test_a_lost_delta_of_a_kept_version_is_corrupt(
    trimmed: tuple[Place, Catalog, TableState], place_in_chain: int
) -> None:
    """Before the lake's full manifest no version is looked at as a whole, but a table's own chain shows the gap."""
    place, _, state = trimmed
    place.store.delete([place.names(table=state.id)[place_in_chain]])
    with pytest.raises(Corrupt, match=str(state.id)):
        place.lose_and_recover()


def test_purged_tables_leave_nothing_behind(place: Place) -> None:
    catalog = place.open()
    state, other = make_table(catalog, "gone"), make_table(catalog, "kept")
    read = catalog.version()
    both = [TableCommit(t.id, read, SetProperties({"a": "b"})) for t in (state, other)]
    catalog.commit(both)
    catalog.drop_table("d", "gone", immediate=True)
    with catalog.pool.write() as write:
        draft = Draft(write, catalog.uuid, "purge")
        for table in (s.table_commits, s.table_schemas, s.table_specs, s.table_sort_orders):
            write.connection.execute(table.delete().where(table.c.table_id == state.id))
        write.connection.execute(s.tables.delete().where(s.tables.c.id == state.id))
        draft.lake().purged.append(state.id.bytes)
        draft.save()
    catalog.publisher.publish()
    place.store.delete([item.path for item in place.store.list(paths.table_prefix(state.id))])
    before = dump(catalog)
    found = place.lose_and_recover()
    assert found.incomplete is None
    assert dump(place.open()) == before


Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:20] + b"\0" + data[21:], lambda _: b""])
@pytest.mark.parametrize("whose", ["lake", "table"])
def test_a_damaged_manifest_is_named(place: Place, damage: Damage, whose: str) -> None:
    catalog = place.open()
    state = make_table(catalog)
    commit(catalog, state.id, SetProperties({"a": "b"}))
    name = paths.lake_manifest(1, "delta") if whose == "lake" else paths.table_manifest(state.id, 2, "delta")
    place.store.put(name, damage(place.store.get(name)))
    with pytest.raises(Corrupt, match=name):
        place.lose_and_recover()
    assert recover_again_fails_alike(place, name)


def recover_again_fails_alike(place: Place, name: str) -> bool:
    with pytest.raises(Corrupt, match=name):
        recover(place.store, place.uri, place.config)
    return True


def test_a_damaged_manifest_at_the_very_end_is_named(place: Place) -> None:
    """It appeared whole, or not at all: what is damaged now was published, and its version was acknowledged."""
    catalog = place.open()
    state = make_table(catalog)
    before, version = dump(catalog), catalog.version()
    last = commit(catalog, state.id, SetProperties({"a": "b"})).version
    name = paths.table_manifest(state.id, last, "delta")
    place.store.put(name, place.store.get(name)[:-3])
    with pytest.raises(Corrupt, match=name):
        place.lose_and_recover()
    found = recover(place.store, place.uri, place.config, to_version=version, discard_newer=True)
    assert (found.version, found.ignored) == (version, (name,))
    assert place.store.exists(paths.discarded_manifest(2, name))
    assert dump(place.open()) == before


def test_a_damaged_full_manifest_of_the_lake_is_named_and_the_deltas_replace_it(place: Place) -> None:
    catalog = place.open()
    keep_busy(catalog)
    catalog.publisher.write_full(None)
    before = dump(catalog)
    (name,) = place.names(kind="full")
    whole = place.store.get(name)
    place.store.put(name, whole[:50])
    with pytest.raises(Corrupt, match=name):
        place.lose_and_recover()
    place.store.delete([name])
    place.lose_and_recover()
    assert dump(place.open()) == before, "the deltas tell the same"


def test_a_full_manifest_proves_that_all_deltas_up_to_it_were_published(place: Place) -> None:
    catalog = place.open()
    state = make_table(catalog)
    last = commit(catalog, state.id, Append(added=(segment(catalog, state.id),))).version
    catalog.publisher.write_full(state.id)
    name = paths.table_manifest(state.id, last, "delta")
    place.store.delete([name])
    with pytest.raises(Corrupt, match=name):
        place.lose_and_recover()


def test_a_full_manifest_never_comes_before_the_deltas_that_it_stands_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else recovery would believe versions complete of which tables have lost their part."""
    catalog = place.open()
    state = make_table(catalog)
    before, version = dump(catalog), catalog.version()
    put = place.store.put_if_absent

    def refuse(path: str, data: bytes) -> None:
        if path.endswith("delta"):
            raise Unavailable("The store is full.")
        put(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(place.store, "put_if_absent", refuse)
        commit(catalog, state.id, Append(added=(segment(catalog, state.id),)))
        for table_id in (None, state.id):
            with pytest.raises(Unavailable):
                catalog.publisher.write_full(table_id)
        lost = recover(place.store, place.new_uri(), place.config)
    assert lost.version == version
    assert catalog.publisher.published_version() == version
    assert dump(catalog) != before


def test_manifests_of_another_lake_are_refused(place: Place) -> None:
    catalog = place.open()
    catalog.create_database("d")
    decoded = codec.decode(place.store.get(paths.lake_manifest(1, "delta")), "x").manifest
    decoded.lake_uuid = bytes(16)
    place.store.put(paths.lake_manifest(1, "delta"), codec.encode(decoded, full=False))
    catalog.create_database("e")
    with pytest.raises(Corrupt, match="another lake"):
        place.lose_and_recover()


def test_manifests_with_features_of_a_newer_version_are_refused(place: Place) -> None:
    """Recovery writes, so it refuses where only reading would be allowed."""
    catalog = place.open()
    catalog.create_database("d")
    decoded = codec.decode(place.store.get(paths.lake_manifest(1, "delta")), "x").manifest
    decoded.writer_features |= 1 << 20
    place.store.put(paths.lake_manifest(1, "delta"), codec.encode(decoded, full=False))
    with pytest.raises(Unsupported, match="newer"):
        place.lose_and_recover()


def test_only_manifests_with_a_query_ask_for_readers_that_know_queries(place: Place) -> None:
    """Others are read by releases before them, as long as no view of the lake is a query."""
    catalog = place.open()
    make_table(catalog, "t")
    catalog.create_view("d", "union", ["t"])
    catalog.create_view("d", "query", [], query=view_query("select 1 as n"))
    catalog.drop_view("d", "union")
    versions = range(1, catalog.version() + 1)
    found = [codec.decode(place.store.get(paths.lake_manifest(v, "delta")), "x").manifest for v in versions]
    known = codec.FEATURE_QUERY_VIEWS
    assert [bool(m.reader_features & m.writer_features & known) for m in found] == [
        *[False] * (len(found) - 2),
        True,
        False,
    ]
    place.lose_and_recover()
    first = place.open().version()
    assert codec.decode(place.store.get(paths.lake_manifest(first, "full")), "x").manifest.reader_features == 7


def test_a_manifest_under_another_name_is_corrupt(place: Place) -> None:
    catalog = place.open()
    catalog.create_database("d")
    catalog.create_database("e")
    place.store.put(paths.lake_manifest(1, "delta"), place.store.get(paths.lake_manifest(2, "delta")))
    with pytest.raises(Corrupt, match="moved"):
        place.lose_and_recover()


def test_only_an_empty_catalog_is_filled(place: Place) -> None:
    catalog = place.open()
    keep_busy(catalog)
    with pytest.raises(FailedPrecondition, match="already"):
        recover(place.store, place.uri, place.config)
    catalog.create_database("still-works")


def test_without_a_lake_there_is_nothing_to_recover(place: Place) -> None:
    with pytest.raises(NotFound, match=r"moulin\.json"):
        place.lose_and_recover()


def test_an_empty_lake_comes_back_empty(place: Place) -> None:
    place.open()
    assert place.lose_and_recover().version == 0
    assert place.open().databases() == []


def test_of_those_who_recover_at_once_the_newest_incarnation_counts(place: Place) -> None:
    keep_busy(place.open())
    expected = dump(place.opened[0])
    uris = [place.new_uri(), place.new_uri()]

    def attempt(uri: str) -> tuple[int, str] | None:
        try:
            return recover(place.store, uri, place.config).incarnation, uri
        except MoulinError:
            return None

    with ThreadPoolExecutor(4) as pool:
        lives = sorted(life for life in pool.map(attempt, [*uris, *uris]) if life)
    assert lives
    assert len({number for number, _ in lives}) == len(lives) == len(place.names(kind="full"))
    *others, (_, place.uri) = lives
    assert dump(place.open()) == expected
    for _, place.uri in others:
        with pytest.raises(Fenced, match="recovered into another catalog"):
            place.open()


def test_recovery_that_stops_can_be_done_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_busy(place.open())
    expected = dump(place.opened[0])

    def refuse(path: str, data: bytes) -> None:
        raise Unavailable("The store went away.")

    with monkeypatch.context() as patch:
        patch.setattr(place.store, "put_if_absent", refuse)
        with pytest.raises(Unavailable):
            place.lose_and_recover()
    recover(place.store, place.uri, place.config)
    assert dump(place.open()) == expected


def test_progress_is_reported(place: Place) -> None:
    keep_busy(place.open())
    seen: list[tuple[int, int]] = []
    recover(place.store, place.new_uri(), place.config, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 4) for n in range(5)]


def test_full_manifests_say_what_the_deltas_say(place: Place) -> None:
    """Long chains get full manifests in the background, and recovery still prefers the whole history."""
    place.config = Config(manifest_deltas=3)
    catalog = place.open()
    state = make_table(catalog)
    for n in range(12):
        commit(catalog, state.id, Append(added=(segment(catalog, state.id),)), request_id=f"r{n}")
        catalog.create_database(f"n{n}")
    catalog.publisher.close()
    assert place.names(kind="full")
    assert place.names(kind="full", table=state.id)
    before = dump(catalog)
    place.lose_and_recover()
    again = place.open()
    after = dump(again)
    assert [_without(r, "deltas") for r in after.pop("tables")] == [_without(r, "deltas") for r in before.pop("tables")]
    assert after == before
    assert again.committed("r3") is not None


def test_a_folder_that_lost_only_its_catalog_file_is_recovered(place: Place) -> None:
    """The files that SQLite keeps beside it may still be there."""
    folder = place.folder / "lake"
    place.store = open_store(folder)
    place.uri = f"sqlite:///{folder}/catalog.sqlite"
    state = make_table(place.open())
    before = dump(place.opened[0])
    (folder / "catalog.sqlite").unlink()
    assert (folder / "catalog.sqlite-wal").exists()
    place.new_uri = lambda: f"sqlite:///{folder}/catalog.sqlite"  # type: ignore[method-assign]
    assert place.lose_and_recover().version == state.version
    assert dump(place.open()) == before
