"""Branches in the catalog: isolated from main and from one another, after recovery and on a replica, too."""

from __future__ import annotations

import pytest

from moulin.catalog.backend import CatalogBackend
from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.on_branch import branch_catalog
from moulin.catalog.replica import ReplicaCatalog
from moulin.config import Config
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound, Unsupported
from moulin.model.entities import Database
from moulin.model.operations import Append, Delete, Overwrite
from tests.contract.conftest import Backend, memory_store
from tests.contract.samples import commit, live, make_table, new_table, segment, vector


def names(databases: list[Database]) -> list[str]:
    return [database.name for database in databases]


def rows(catalog: CatalogBackend, database: str = "d", table: str = "t") -> int:
    return catalog.count_rows(catalog.table(database, table).id, catalog.version())


def test_a_branch_and_main_do_not_see_what_the_other_does(catalog: Catalog) -> None:
    main = make_table(catalog)
    a = segment(catalog, main.id)
    commit(catalog, main.id, Append(added=(a,)))
    made = catalog.create_branch("exp")
    assert (made.tables, made.opened, made.version) == (1, 0, catalog.version() - 1)
    exp = branch_catalog(catalog, "exp")
    table = exp.table("d", "t")
    assert (table.database, table.name, live(catalog, table.id)) == ("d", "t", {a.number: 10})
    commit(catalog, table.id, Delete(vectors=(vector(table.id, a.number, 4),)))
    b = segment(catalog, main.id)
    commit(catalog, main.id, Append(added=(b,)))
    assert (rows(exp), rows(catalog)) == (6, 20)
    commit(catalog, main.id, Overwrite(everything=True))
    assert (rows(exp), rows(catalog)) == (6, 0)
    assert (names(catalog.databases()), names(exp.databases())) == (["d"], ["d"])
    assert catalog.branch("exp").opened == 1


def test_names_of_a_branch_are_its_own(catalog: Catalog) -> None:
    make_table(catalog)
    catalog.create_view("d", "v", ["t"])
    catalog.create_branch("one")
    catalog.create_branch("two")
    one, two = branch_catalog(catalog, "one"), branch_catalog(catalog, "two")
    one.rename_table("d", "t", "d", "renamed")
    one.create_database("fresh")
    one.create_table("fresh", "t", new_table())
    with pytest.raises(FailedPrecondition, match="used by the view v"):
        two.drop_table("d", "t")
    two.drop_view("d", "v")
    two.drop_table("d", "t")
    with pytest.raises(AlreadyExists):
        one.create_table("d", "renamed", new_table())
    assert [entry.name for entry in one.tables("d")] == ["renamed"]
    assert [entry.database for entry in one.tables("fresh")] == ["fresh"]
    assert (names(one.databases()), names(two.databases())) == (["d", "fresh"], ["d"])
    assert two.tables("d") == []
    assert [entry.name for entry in catalog.tables("d")] == ["t"]
    assert [member.name for member in one.view("d", "v").members] == ["renamed"]
    assert catalog.view("d", "v").members != one.view("d", "v").members
    two.drop_database("d", cascade=True)
    assert (names(two.databases()), names(catalog.databases())) == ([], ["d"])
    assert two.resurrect_database("d").name == "d"


def test_a_table_that_a_branch_did_not_open_stays_as_it_was_when_the_branch_began(catalog: Catalog) -> None:
    main = make_table(catalog)
    commit(catalog, main.id, Append(added=(segment(catalog, main.id),)))
    catalog.create_branch("exp")
    commit(catalog, main.id, Append(added=(segment(catalog, main.id),)))
    catalog.rename_table("d", "t", "d", "elsewhere")
    catalog.drop_table("d", "elsewhere")
    exp = branch_catalog(catalog, "exp")
    (entry,) = exp.tables("d")
    assert entry.name == "t"
    assert exp.table_by_id(entry.id).name == "t"
    assert rows(exp) == 10
    old = catalog.version()
    with pytest.raises(NotFound):
        catalog.table_by_id(main.id)
    assert catalog.version() == old


def test_a_branch_may_begin_in_the_past_or_have_some_tables_only(catalog: Catalog) -> None:
    first = make_table(catalog, "first")
    commit(catalog, first.id, Append(added=(segment(catalog, first.id),)))
    then = catalog.version()
    commit(catalog, first.id, Append(added=(segment(catalog, first.id),)))
    second = make_table(catalog, "second")
    catalog.create_branch("old", version=then)
    catalog.create_branch("some", only=[second.id])
    old, some = branch_catalog(catalog, "old"), branch_catalog(catalog, "some")
    assert [entry.name for entry in old.tables("d")] == ["first"]
    assert rows(old, table="first") == 10
    assert [entry.name for entry in some.tables("d")] == ["second"]


def test_a_dropped_branch_comes_back_with_all_that_was_on_it(catalog: Catalog) -> None:
    main = make_table(catalog)
    commit(catalog, main.id, Append(added=(segment(catalog, main.id),)))
    catalog.create_branch("exp")
    exp = branch_catalog(catalog, "exp")
    own = exp.table("d", "t")
    commit(catalog, own.id, Append(added=(segment(catalog, own.id),)))
    assert catalog.drop_branch("exp").tombstone is not None
    assert catalog.branches() == []
    assert [one.name for one in catalog.branches(include_dropped=True)] == ["exp"]
    with pytest.raises(NotFound, match="Branch 'exp' does not exist"):
        exp.table("d", "t")
    catalog.create_branch("exp")
    with pytest.raises(AlreadyExists):
        catalog.resurrect_branch("exp")
    catalog.drop_branch("exp")
    assert catalog.resurrect_branch("exp").opened == 0  # of two that were dropped, the last
    catalog.drop_branch("exp")


@pytest.mark.parametrize("name", ["", "main", "a b", "a.b", "a@b", "a/b", "x" * 101, "_moulin"])
def test_a_branch_needs_a_name_that_addresses_can_hold(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidInput):
        catalog.create_branch(name)
    assert catalog.branches() == []


def test_bad_branches_are_refused_and_leave_nothing(catalog: Catalog) -> None:
    make_table(catalog)
    version = catalog.version()
    for wrong in ({"version": 99}, {"version": -1}, {"expires_in": 0.0}, {"expires_in": float("nan")}):
        with pytest.raises(InvalidInput):
            catalog.create_branch("exp", **wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        catalog.drop_branch("exp")
    with pytest.raises(NotFound):
        branch_catalog(catalog, "exp")
    with pytest.raises(InvalidInput, match="there is no branch"):
        catalog.create_database("shop@exp")
    assert catalog.version() == version
    catalog.create_branch("exp")
    with pytest.raises(AlreadyExists, match="Branch 'exp' already exists"):
        catalog.create_branch("exp")
    with pytest.raises(InvalidInput, match="stays on its branch"):
        catalog.rename_database("d@exp", "d2")
    with pytest.raises(Unsupported, match="only be used on main"):
        branch_catalog(catalog, "exp").ingest.tokens("d")


def test_manifests_bring_branches_back(backend: Backend) -> None:
    store = memory_store()
    catalog = backend.open(backend.new_uri(), store)
    main = make_table(catalog)
    make_table(catalog, "unopened")
    commit(catalog, main.id, Append(added=(segment(catalog, main.id),)))
    catalog.create_view("d", "v", ["t", "unopened"])
    replica = ReplicaCatalog.from_manifests(store, Config())
    catalog.create_branch("exp", expires_in=1e6)
    exp = branch_catalog(catalog, "exp")
    own = exp.table("d", "t")
    commit(catalog, own.id, Append(added=(segment(catalog, own.id),)))
    catalog.create_branch("gone")
    catalog.drop_branch("gone")
    branches, views = catalog.branches(include_dropped=True), exp.views("d")
    entries, databases = exp.tables("d"), exp.databases()
    catalog.close()
    replica.refresh()
    uri = backend.new_uri()
    recover(store, uri, Config())
    fresh = ReplicaCatalog.from_manifests(store, Config())
    recovered = backend.open(uri, store)
    for other in (replica, fresh, recovered):
        seen = branch_catalog(other, "exp")
        assert other.branches(include_dropped=True) == branches
        assert (seen.views("d"), seen.tables("d"), seen.databases()) == (views, entries, databases)
        assert rows(seen) == 20
    for other in (replica, fresh):  # which clone it for themselves
        version = other.version()
        assert rows(branch_catalog(other, "exp"), table="unopened") == 0
        assert (other.branch("exp").opened, other.version()) == (1, version)
    assert rows(branch_catalog(recovered, "exp"), table="unopened") == 0
    replica.close()
    fresh.close()
