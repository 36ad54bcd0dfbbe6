"""Databases: names, drops and their grace windows, previews, returns. Rule numbers are those of the meta service."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from moulin.catalog.catalog import Catalog
from moulin.config import DAY, Config
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, MoulinError, NotFound
from moulin.model.operations import Append
from tests.contract.conftest import Backend, HandClock
from tests.contract.samples import commit, live, make_table, new_table, segment


def names(catalog: Catalog, **options: bool) -> list[str]:
    return [database.name for database in catalog.databases(**options)]


def test_create_gives_a_live_database(catalog: Catalog, clock: HandClock) -> None:
    """DB-01, GEN-06"""
    made = catalog.create_database("shop", {"owner": "ann"})
    assert (made.name, made.properties, made.tombstone) == ("shop", {"owner": "ann"}, None)
    assert made.id.version == 7
    assert made.created_at >= clock.now
    assert catalog.database("shop") == made


@pytest.mark.parametrize("name", ["", "  ", "a..b", ".a", "a/b", " a", "_moulin_x", "x" * 256, "a\nb"])
def test_impossible_names_are_refused(catalog: Catalog, name: str) -> None:
    """DB-02"""
    with pytest.raises(InvalidInput):
        catalog.create_database(name)
    catalog.create_database("shop")
    with pytest.raises(InvalidInput):
        catalog.rename_database("shop", name)
    assert names(catalog) == ["shop"]


def test_a_live_name_is_taken(catalog: Catalog) -> None:
    """DB-03"""
    first = catalog.create_database("shop")
    with pytest.raises(AlreadyExists, match="shop"):
        catalog.create_database("shop")
    version = catalog.version()
    assert catalog.create_database("shop", {"ignored": "yes"}, if_not_exists=True) == first
    assert catalog.version() == version, "nothing changed, so no version was taken"


def test_one_of_many_who_create_it_at_once_succeeds(catalog: Catalog) -> None:
    """DB-04"""

    def create(_: int) -> bool:
        try:
            catalog.create_database("shop")
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(8))) == 1
    assert names(catalog) == ["shop"]


def test_lists_hide_dropped_ones_unless_asked(catalog: Catalog) -> None:
    """DB-05, GEN-07, GEN-23"""
    for name in ("b", "c", "a"):
        catalog.create_database(name)
    catalog.drop_database("b")
    assert names(catalog) == ["a", "c"]
    assert names(catalog, include_dropped=True) == ["a", "b", "c"]
    assert [d.tombstone is None for d in catalog.databases(include_dropped=True)] == [True, False, True]
    with pytest.raises(NotFound):
        catalog.database("b")


def test_unknown_ones_are_not_found(catalog: Catalog) -> None:
    """DB-21, GEN-09"""
    for call in (
        catalog.database,
        catalog.drop_database,
        catalog.resurrect_database,
        catalog.preview_drop_database,
        catalog.tables,
        catalog.views,
    ):
        with pytest.raises(NotFound):
            call("nowhere")
    with pytest.raises(NotFound):
        catalog.rename_database("nowhere", "here")
    with pytest.raises(NotFound):
        catalog.create_table("nowhere", "t", new_table())


@pytest.mark.parametrize("child", ["table", "view"])
def test_a_drop_without_cascade_is_refused_while_children_live(catalog: Catalog, child: str) -> None:
    """DB-06, DB-07, DB-10, DB-18"""
    make_table(catalog, "t", "shop")
    if child == "view":
        catalog.create_view("shop", "v", ["t"])
    version = catalog.version()
    for immediate in (False, True):
        with pytest.raises(FailedPrecondition, match="'t'"):
            catalog.drop_database("shop", immediate=immediate)
    assert catalog.version() == version
    assert catalog.database("shop").tombstone is None


def test_dropped_children_do_not_block(catalog: Catalog) -> None:
    """DB-09"""
    make_table(catalog, "t", "shop")
    catalog.drop_table("shop", "t")
    assert catalog.drop_database("shop").tombstone is not None


def test_cascade_takes_everything_with_the_same_end_of_grace(catalog: Catalog, clock: HandClock) -> None:
    """DB-11, DB-13, DB-14, DB-15, DB-24, DB-34"""
    make_table(catalog, "early", "shop")
    make_table(catalog, "t", "shop")
    catalog.create_view("shop", "v", ["t"])
    early = catalog.drop_table("shop", "early").tombstone
    clock.forward(60)
    preview = catalog.preview_drop_database("shop")
    assert [m.name for m in preview.tables] == ["t"]
    assert [m.name for m in preview.views] == ["v"]
    dropped = catalog.drop_database("shop", cascade=True)
    assert dropped.tombstone is not None
    assert dropped.tombstone.delete_at - dropped.tombstone.tombstoned_at == preview.grace_seconds * 1e9
    tables = {t.name: t.tombstone for t in catalog.tables("shop", include_dropped=True)}
    views = {v.name: v.tombstone for v in catalog.views("shop", include_dropped=True)}
    assert tables == {"early": early, "t": dropped.tombstone}
    assert views == {"v": dropped.tombstone}


def test_a_preview_changes_nothing_and_is_only_advice(catalog: Catalog) -> None:
    """DB-30, DB-31, DB-32"""
    make_table(catalog, "t", "shop")
    make_table(catalog, "gone", "shop")
    catalog.drop_table("shop", "gone")
    version = catalog.version()
    preview = catalog.preview_drop_database("shop")
    assert [m.name for m in preview.tables] == ["t"]
    assert catalog.version() == version
    make_table(catalog, "later", "shop")
    catalog.drop_database("shop", cascade=True)
    assert all(t.tombstone for t in catalog.tables("shop", include_dropped=True))


def test_grace_windows_are_configuration(backend: Backend, clock: HandClock) -> None:
    """DB-33, GEN-17"""
    catalog = backend.open(backend.new_uri(), config=Config(database_grace=77.0), clock=clock)
    catalog.create_database("shop")
    assert catalog.preview_drop_database("shop").grace_seconds == 77
    tombstone = catalog.drop_database("shop").tombstone
    assert tombstone is not None
    assert tombstone.delete_at - tombstone.tombstoned_at == 77 * 10**9


def test_an_immediate_drop_has_no_grace(catalog: Catalog) -> None:
    """DB-16, GEN-05"""
    catalog.create_database("shop")
    tombstone = catalog.drop_database("shop", immediate=True).tombstone
    assert tombstone is not None
    assert tombstone.delete_at == tombstone.tombstoned_at
    with pytest.raises(FailedPrecondition, match="grace"):
        catalog.resurrect_database("shop")


def test_a_second_drop_never_extends_the_grace_but_may_end_it(catalog: Catalog, clock: HandClock) -> None:
    """GEN-21"""
    make_table(catalog, "t", "shop")
    first = catalog.drop_database("shop", cascade=True)
    clock.forward(3600)
    version = catalog.version()
    assert catalog.drop_database("shop", cascade=True) == first
    assert catalog.version() == version
    ended = catalog.drop_database("shop", immediate=True).tombstone
    assert ended is not None
    assert first.tombstone is not None
    assert ended.tombstoned_at == first.tombstone.tombstoned_at
    assert ended.delete_at < first.tombstone.delete_at
    assert catalog.tables("shop", include_dropped=True)[0].tombstone == ended, "and that of what fell with it"


def test_nothing_is_made_or_found_in_a_dropped_database(catalog: Catalog) -> None:
    """DB-19, GEN-08, TB-10"""
    state = make_table(catalog, "t", "shop")
    catalog.create_view("shop", "v", ["t"])
    catalog.drop_database("shop", cascade=True)
    for call in (
        lambda: catalog.create_table("shop", "x", new_table()),
        lambda: catalog.create_view("shop", "x", ["t"]),
        lambda: catalog.resurrect_table("shop", "t"),
        lambda: catalog.resurrect_view("shop", "v"),
    ):
        with pytest.raises(FailedPrecondition, match="dropped"):
            call()
    for look in (
        lambda: catalog.table("shop", "t"),
        lambda: catalog.table_by_id(state.id),
        lambda: catalog.segments(state.id, state.version),
        lambda: catalog.view("shop", "v"),
        lambda: catalog.tables("shop"),
        lambda: catalog.views("shop"),
        lambda: commit(catalog, state.id, Append()),
    ):
        with pytest.raises(NotFound):
            look()


def test_resurrect_brings_back_all_that_is_in_grace(catalog: Catalog, clock: HandClock) -> None:
    """DB-20, DB-22, DB-23, DB-25, DB-26, DB-29"""
    make_table(catalog, "old", "shop")
    catalog.drop_table("shop", "old")
    clock.forward(0.75 * DAY)
    state = make_table(catalog, "t", "shop", properties={"a": "b"})
    make_table(catalog, "before", "shop")
    number = segment(catalog, state.id)
    version = commit(catalog, state.id, Append(added=(number,))).version
    view = catalog.create_view("shop", "v", ["t", "before"], "both")
    catalog.drop_table("shop", "old")
    catalog.drop_view("shop", "v")
    catalog.drop_table("shop", "before")
    catalog.drop_database("shop", cascade=True)
    clock.forward(0.5 * DAY)
    back = catalog.resurrect_database("shop")
    assert back.tombstone is None
    assert [t.name for t in catalog.tables("shop")] == ["before", "t"], "also one dropped on its own, unless past grace"
    assert catalog.views("shop") == [], "its five minutes are over"
    again = catalog.table("shop", "t")
    assert (again.id, again.properties, again.schema) == (state.id, state.properties, state.schema)
    assert live(catalog, state.id, version) == {number.number: 10}
    assert view.tombstone is None


def test_a_view_comes_back_with_its_tables_or_not_at_all(catalog: Catalog, clock: HandClock) -> None:
    """GEN-25 against DB-22"""
    make_table(catalog, "a", "shop")
    make_table(catalog, "b", "shop")
    catalog.create_view("shop", "v", ["a", "b"])
    catalog.drop_view("shop", "v")
    catalog.drop_table("shop", "b", immediate=True)
    catalog.drop_database("shop", cascade=True)
    clock.forward(1)
    catalog.resurrect_database("shop")
    assert [t.name for t in catalog.tables("shop")] == ["a"]
    assert catalog.views("shop") == []


def test_resurrect_fails_past_grace_even_when_nothing_was_purged(catalog: Catalog, clock: HandClock) -> None:
    """DB-27, GEN-18, GEN-19"""
    catalog.create_database("shop")
    catalog.drop_database("shop")
    clock.forward(DAY - 1)
    catalog.resurrect_database("shop")
    catalog.drop_database("shop")
    clock.forward(DAY + 1)
    version = catalog.version()
    with pytest.raises(FailedPrecondition, match="grace"):
        catalog.resurrect_database("shop")
    assert catalog.version() == version
    assert names(catalog, include_dropped=True) == ["shop"]


def test_a_dropped_name_is_free_and_then_blocks_the_return(catalog: Catalog) -> None:
    """GEN-20, DB-28"""
    first = catalog.create_database("shop")
    catalog.drop_database("shop")
    second = catalog.create_database("shop")
    assert second.id != first.id
    with pytest.raises(AlreadyExists, match="shop"):
        catalog.resurrect_database("shop")
    catalog.rename_database("shop", "store")
    assert catalog.resurrect_database("shop").id == first.id
    assert names(catalog) == ["shop", "store"]


def test_children_that_share_a_name_block_the_return(catalog: Catalog, clock: HandClock) -> None:
    """DB-28: the whole call fails and names them"""
    make_table(catalog, "t", "shop")
    catalog.drop_table("shop", "t")
    clock.forward(1)
    make_table(catalog, "t", "shop")
    catalog.drop_database("shop", cascade=True)
    with pytest.raises(AlreadyExists, match="'t'"):
        catalog.resurrect_database("shop")
    with pytest.raises(NotFound):
        catalog.database("shop")


def test_resurrecting_a_live_one_does_nothing(catalog: Catalog) -> None:
    """GEN-22"""
    made = catalog.create_database("shop")
    version = catalog.version()
    assert catalog.resurrect_database("shop") == made
    assert catalog.version() == version


def test_rename_keeps_what_is_inside(catalog: Catalog) -> None:
    state = make_table(catalog, "t", "shop")
    made = catalog.database("shop")
    assert catalog.rename_database("shop", "store").id == made.id
    assert catalog.table("store", "t").id == state.id
    assert catalog.table_by_id(state.id).full_name == "store.t"
    with pytest.raises(NotFound):
        catalog.table("shop", "t")
    catalog.create_database("shop")
    with pytest.raises(AlreadyExists):
        catalog.rename_database("store", "shop")
    version = catalog.version()
    catalog.rename_database("store", "store")
    assert catalog.version() == version


def test_a_failed_change_leaves_nothing(catalog: Catalog) -> None:
    """GEN-15"""
    make_table(catalog, "t", "shop")
    version, listed = catalog.version(), catalog.databases(include_dropped=True)
    for call in (
        lambda: catalog.create_database("shop"),
        lambda: catalog.drop_database("shop"),
        lambda: catalog.create_view("shop", "t", ["t"]),
        lambda: catalog.create_view("shop", "v", ["t", "missing"]),
    ):
        with pytest.raises(MoulinError):
            call()
    assert (catalog.version(), catalog.databases(include_dropped=True)) == (version, listed)
    assert catalog.views("shop") == []


def test_a_database_with_others_below_it_is_neither_dropped_nor_renamed(catalog: Catalog) -> None:
    for name in ("a", "a.b", "A.c", "a_.d"):
        catalog.create_database(name)
    for change in (
        lambda: catalog.drop_database("a", cascade=True),
        lambda: catalog.rename_database("a", "z"),
    ):
        with pytest.raises(FailedPrecondition, match=r"others below it, 'a\.b': (drop|rename) those first"):
            change()
    catalog.drop_database("a.b")
    assert catalog.rename_database("a", "z").name == "z"
