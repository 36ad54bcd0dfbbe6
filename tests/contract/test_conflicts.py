"""The conflict table, pair by pair, with real commits: what becomes of an operation when another one came first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count, product

import pytest

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import Stale, TableCommit
from moulin.errors import AlreadyExists, InvalidInput, NotFound
from moulin.model.conflicts import Verdict, verdict
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFile, SegmentFacts
from moulin.model.filling import Filling, fillings_of
from moulin.model.ids import new_id
from moulin.model.operations import (
    AlterSchema,
    Append,
    Compact,
    CreateIndex,
    Delete,
    DropIndex,
    Expected,
    Fill,
    IndexFile,
    Kind,
    Operation,
    Overwrite,
    Restore,
    SetPartitioning,
    SetProperties,
    SetSortOrder,
    Trim,
    UpdateIndex,
    Upsert,
)
from moulin.model.schema.change import AddColumn, DropColumn, RenameColumn
from moulin.model.schema.values import LongType
from moulin.storage import paths
from tests.contract.samples import commit, live, make_table, segment, vector


@dataclass(frozen=True)
class Scene:
    """A table with two segments, a spare column, an index of it and two more; operations are prepared from `read`."""

    catalog: Catalog
    table: TableState
    segments: tuple[SegmentFacts, SegmentFacts]
    indexes: tuple[CreateIndex, ...]
    read: int

    def commit(self, operation: Operation) -> int:
        return commit(self.catalog, self.table.id, operation, self.read).version

    def new(self) -> tuple[SegmentFacts]:
        return (segment(self.catalog, self.table.id),)

    def fill(self, i: int) -> Fill:
        state = self.catalog.table_by_id(self.table.id, self.read)
        (filling,) = fillings_of(state.properties, state.schema).values()
        path = paths.column_file_path(self.table.id, new_id())
        return Fill((ColumnFile(self.segments[i].number, path, 10, bytes(32), (filling.number,)),))

    def update_index(self, index: CreateIndex, i: int) -> UpdateIndex:
        file = IndexFile(paths.index_path(self.table.id, new_id()), 10, 1, (self.segments[i].number,))
        return UpdateIndex(index.id, index.name, (file,))


_AT_ONCE = 16


@pytest.fixture(scope="module")
def scenes(shared_catalog: Catalog) -> Iterator[Scene]:
    """Scenes without end. Several are made by the same commits, which is most of what a test takes."""
    return chain.from_iterable(_scenes(shared_catalog, number) for number in count())


def _scenes(catalog: Catalog, number: int) -> list[Scene]:
    tables = [make_table(catalog, f"t{number}x{place}", properties={"p": "0"}) for place in range(_AT_ONCE)]
    note = AlterSchema((AddColumn("note", "string"),))  # type: ignore[arg-type]
    catalog.commit([TableCommit(table.id, catalog.version(), note) for table in tables])
    version = catalog.commit([one for table in tables for one in _pending(catalog, table)]).version
    columns = {field.name: field.field_id for field in catalog.table_by_id(tables[0].id).schema.fields}
    names = (("of-note", "note"), ("spare0", "region"), ("spare1", "region"))
    indexes = [tuple(CreateIndex(new_id(), n, "btree", columns[column]) for n, column in names) for _ in tables]
    segments = [(segment(catalog, table.id), segment(catalog, table.id)) for table in tables]
    made = [
        TableCommit(table.id, version, operation)
        for table, own, added in zip(tables, indexes, segments, strict=True)
        for operation in (*own, Append(added=added))
    ]
    read = catalog.commit(made).version
    return [Scene(catalog, *parts, read) for parts in zip(tables, segments, indexes, strict=True)]


def _pending(catalog: Catalog, table: TableState) -> list[TableCommit]:
    """A column that is being filled, as the fills of `TOUCHING` do it."""
    state, kind = catalog.table_by_id(table.id), LongType()
    changes = (AddColumn("late", kind), DropColumn("late"), AddColumn("late", kind))
    number = state.last_column_id + 1
    filling = Filling(number + 1, number, kind, state.schema_id)
    properties = SetProperties({filling.key: filling.to_json()})
    return [TableCommit(table.id, state.version, one) for one in (AlterSchema(changes), properties)]


@pytest.fixture
def scene(scenes: Iterator[Scene]) -> Scene:
    return next(scenes)


Make = Callable[[Scene, int], Operation]

# Operations that touch segment 0 or 1, add rows where they can, change column "note", its index, property "p" or the
# partitioning.
TOUCHING: dict[Kind, Make] = {
    Kind.APPEND: lambda s, i: Append(added=s.new()),
    Kind.DELETE: lambda s, i: Delete(vectors=(vector(s.table.id, s.segments[i].number, 2),)),
    Kind.UPSERT: lambda s, i: Upsert(vectors=(vector(s.table.id, s.segments[i].number, 2),), added=s.new()),
    Kind.COMPACT: lambda s, i: Compact(removed=(Expected(s.segments[i].number, 0),), added=s.new()),
    Kind.TRIM: lambda s, i: Trim(removed=(Expected(s.segments[i].number, 0),)),
    Kind.OVERWRITE: lambda s, i: Overwrite(removed=(Expected(s.segments[i].number, 0),), added=s.new()),
    Kind.RESTORE: lambda s, i: Restore(s.table.version),
    Kind.ALTER_SCHEMA: lambda s, i: AlterSchema((DropColumn("note"),)),
    Kind.SET_PROPERTIES: lambda s, i: SetProperties({"p": str(i)}),
    Kind.SET_PARTITIONING: lambda s, i: SetPartitioning(("note",)),
    Kind.CREATE_INDEX: lambda s, i: CreateIndex(new_id(), "made", "bloom", s.indexes[0].field_id),
    Kind.UPDATE_INDEX: lambda s, i: s.update_index(s.indexes[0], i),
    Kind.DROP_INDEX: lambda s, i: DropIndex(s.indexes[0].id, "of-note"),
    Kind.SET_SORT_ORDER: lambda s, i: SetSortOrder(("note",)),
    Kind.FILL: lambda s, i: s.fill(i),
}

# The same on something that no other operation touches: another segment, column or property; and no rows are added.
APART: dict[Kind, Make] = {
    Kind.APPEND: lambda s, i: Append(),
    Kind.DELETE: lambda s, i: Delete(vectors=(vector(s.table.id, s.segments[i].number, 2),)),
    Kind.UPSERT: lambda s, i: Upsert(vectors=(vector(s.table.id, s.segments[i].number, 2),)),
    Kind.COMPACT: lambda s, i: Compact(removed=(Expected(s.segments[i].number, 0),)),
    Kind.TRIM: lambda s, i: Trim(removed=(Expected(s.segments[i].number, 0),)),
    Kind.OVERWRITE: lambda s, i: Overwrite(removed=(Expected(s.segments[i].number, 0),)),
    Kind.RESTORE: lambda s, i: Restore(s.read),
    Kind.ALTER_SCHEMA: lambda s, i: AlterSchema((AddColumn(f"extra{i}", "int"),)),  # type: ignore[arg-type]
    Kind.SET_PROPERTIES: lambda s, i: SetProperties({f"q{i}": "1"}),
    Kind.SET_PARTITIONING: lambda s, i: SetPartitioning(("region",)),
    Kind.CREATE_INDEX: lambda s, i: CreateIndex(new_id(), f"made{i}", "bloom", s.indexes[1].field_id),
    Kind.UPDATE_INDEX: lambda s, i: s.update_index(s.indexes[1 + i], i),
    Kind.DROP_INDEX: lambda s, i: DropIndex(s.indexes[1 + i].id, f"spare{i}"),
    Kind.SET_SORT_ORDER: lambda s, i: SetSortOrder(("region",)),
    Kind.FILL: lambda s, i: s.fill(i),
}

_PLACES = {kind: place for place, kind in enumerate(Kind)}


def is_tried_on_every_backend(now: Kind, before: Kind) -> bool:
    """Whether `make test` tries a pair on all backends; SQLite tries every pair, and `make test-long` the others.

    An operation meets each kind of verdict that it can get, and each operation comes first and last a few times.
    """
    same = [other for other in KINDS if verdict(now, other) is verdict(now, before)]
    return before is same[_PLACES[now] % len(same)] or (_PLACES[now] + _PLACES[before]) % 7 == 0


# An erase is not handed in like other operations: tests/table/erase has what becomes of those that it meets.
KINDS = [kind for kind in Kind if kind is not Kind.ERASE]
PAIRS = [pytest.param(now, before, id=f"{now}-after-{before}") for now, before in product(KINDS, KINDS)]


@pytest.mark.parametrize(("now", "before"), PAIRS)
def test_operations_that_meet_get_the_verdict_of_the_table(scene: Scene, now: Kind, before: Kind) -> None:
    prepared = TOUCHING[now](scene, 0)
    winner = scene.commit(TOUCHING[before](scene, 0))
    # An upsert meets an append by the keys of its rows, and this table has none: see tests/table/keyed/test_races.py.
    outcome = Verdict.COMMUTES if (now, before) == (Kind.UPSERT, Kind.APPEND) else verdict(now, before)
    if outcome is Verdict.COMMUTES:
        version = scene.commit(prepared)
        assert scene.catalog.history(scene.table.id)[0].kind == now
        assert version == winner + 1
        return
    state, segments = scene.catalog.table_by_id(scene.table.id), live(scene.catalog, scene.table.id)
    with pytest.raises(Stale) as stale:
        scene.commit(prepared)
    assert (stale.value.verdict, stale.value.winner) == (outcome, winner)
    assert stale.value.requirement
    assert stale.value.expected != stale.value.found
    assert f"version {winner}" in stale.value.message
    assert stale.value.retryable
    assert scene.catalog.table_by_id(scene.table.id) == state, "and nothing was changed"
    assert live(scene.catalog, scene.table.id) == segments


ALWAYS_MEET = {(kind, kind) for kind in (Kind.SET_PARTITIONING, Kind.SET_SORT_ORDER)}


@pytest.mark.parametrize(("now", "before"), [pair for pair in PAIRS if tuple(pair.values) not in ALWAYS_MEET])
def test_operations_that_do_not_meet_commute(scene: Scene, now: Kind, before: Kind) -> None:
    prepared = APART[now](scene, 0)
    winner = scene.commit(APART[before](scene, 1))
    assert scene.commit(prepared) == winner + 1
    assert scene.catalog.history(scene.table.id)[0].kind == now


def test_every_pair_has_a_verdict() -> None:
    assert {verdict(now, before) for now, before in product(Kind, Kind)} == set(Verdict)


def test_only_what_touched_the_same_segment_counts(scene: Scene) -> None:
    """An overwrite elsewhere must not turn a rebase into another try."""
    prepared = TOUCHING[Kind.DELETE](scene, 0)
    winner = scene.commit(TOUCHING[Kind.DELETE](scene, 0))
    scene.commit(TOUCHING[Kind.OVERWRITE](scene, 1))
    with pytest.raises(Stale) as stale:
        scene.commit(prepared)
    assert (stale.value.verdict, stale.value.winner) == (Verdict.REBASE, winner)


def test_the_strongest_of_several_decides(scene: Scene) -> None:
    prepared = TOUCHING[Kind.COMPACT](scene, 0)
    scene.commit(TOUCHING[Kind.DELETE](scene, 0))
    seen = scene.catalog.segments_by_number(scene.table.id, [scene.segments[0].number], scene.catalog.version())
    found = seen[scene.segments[0].number].vector
    assert found is not None
    winner = scene.commit(Overwrite(removed=(Expected(scene.segments[0].number, found.id),)))
    with pytest.raises(Stale) as stale:
        scene.commit(prepared)
    assert (stale.value.verdict, stale.value.winner) == (Verdict.CONFLICT, winner)


def test_something_never_seen_is_a_conflict(scene: Scene) -> None:
    for operation in (
        Delete(removed=(Expected(10**9, 0),)),
        Delete(removed=(Expected(scene.segments[0].number, 77),)),
        Delete(vectors=(vector(scene.table.id, scene.segments[0].number, 2, seen=77),)),
    ):
        with pytest.raises(Stale) as stale:
            scene.commit(operation)
        assert (stale.value.verdict, stale.value.winner) == (Verdict.CONFLICT, None)


def test_a_segment_of_another_table_is_not_there(scene: Scene) -> None:
    other = make_table(scene.catalog, "other")
    with pytest.raises(Stale):
        commit(scene.catalog, other.id, Delete(removed=(Expected(scene.segments[0].number, 0),)))


def test_an_overwrite_of_everything_takes_what_came_meanwhile(scene: Scene) -> None:
    prepared = Overwrite(everything=True, added=scene.new())
    scene.commit(TOUCHING[Kind.APPEND](scene, 0))
    scene.commit(TOUCHING[Kind.DELETE](scene, 0))
    scene.commit(prepared)
    assert live(scene.catalog, scene.table.id) == {prepared.added[0].number: 10}


def test_columns_added_by_two_are_both_there(scene: Scene) -> None:
    for name in ("x", "y"):
        scene.commit(AlterSchema((AddColumn(name, "int"),)))  # type: ignore[arg-type]
    assert [f.name for f in scene.catalog.table_by_id(scene.table.id).schema.fields][-2:] == ["x", "y"]
    with pytest.raises(Stale, match="x"):
        scene.commit(AlterSchema((RenameColumn("note", "x"),)))
    with pytest.raises(NotFound):
        commit(scene.catalog, scene.table.id, AlterSchema((DropColumn("never"),)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s: Delete(removed=(Expected(s.segments[0].number, 0),) * 2),
        lambda s: Delete(
            removed=(Expected(s.segments[0].number, 0),), vectors=(vector(s.table.id, s.segments[0].number, 2),)
        ),
        lambda s: Delete(vectors=(vector(s.table.id, s.segments[0].number, 11),)),
        lambda s: Delete(vectors=(vector(s.table.id, s.segments[0].number, 0),)),
        lambda s: Append(added=s.new() * 2),
        lambda s: Append(added=(s.segments[0],)),
        lambda s: Append(added=(segment(s.catalog, s.table.id, schema_id=9),)),
        lambda s: Append(added=(segment(s.catalog, s.table.id, spec_id=9),)),
        lambda s: Compact(added=s.new(), added_vectors={1: vector(s.table.id, 1, 2).facts}),
    ],
)
def test_operations_that_make_no_sense_are_refused_and_change_nothing(
    scene: Scene, wrong: Callable[[Scene], Operation]
) -> None:
    operation, before = wrong(scene), scene.catalog.version()
    with pytest.raises((InvalidInput, AlreadyExists)):
        scene.commit(operation)
    assert scene.catalog.version() == before
    assert live(scene.catalog, scene.table.id) == {s.number: 10 for s in scene.segments}
