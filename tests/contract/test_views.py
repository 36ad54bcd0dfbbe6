"""Views: ordered unions of tables of one database, and queries. Rule numbers are those of the meta service."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from moulin.catalog.catalog import Catalog
from moulin.errors import AlreadyExists, Conflict, FailedPrecondition, InvalidInput, NotFound
from moulin.model.entities import Representation
from moulin.model.schema.values import LongType, NestedField, Schema
from tests.contract.conftest import HandClock
from tests.contract.samples import make_table, view_query


@pytest.fixture
def abc(catalog: Catalog) -> Catalog:
    """A catalog with tables a, b, c in database d."""
    for name in "abc":
        make_table(catalog, name)
    return catalog


def members(catalog: Catalog, name: str = "v") -> str:
    return "".join(member.name for member in catalog.view("d", name).members)


def test_create_keeps_the_order_of_members(abc: Catalog) -> None:
    """VW-01, VW-06, VW-07"""
    made = abc.create_view("d", "v", ["c", "a", "b"], "all of them")
    assert (made.database, made.name, made.description, made.tombstone) == ("d", "v", "all of them", None)
    assert [m.name for m in made.members] == ["c", "a", "b"]
    assert [m.id for m in made.members] == [abc.table("d", name).id for name in "cab"]
    assert abc.view("d", "v") == made
    assert abc.views("d") == [made]


def test_no_description_is_not_an_empty_one(abc: Catalog) -> None:
    """VW-08"""
    assert abc.create_view("d", "v", ["a"]).description is None
    assert abc.create_view("d", "w", ["a"], "").description == ""
    assert [view.description for view in abc.views("d")] == [None, ""]


def test_members_must_be_live_tables_of_the_database(abc: Catalog) -> None:
    """VW-02, VW-03, VW-04"""
    make_table(abc, "elsewhere", "e")
    abc.create_view("d", "v", ["a"])
    abc.drop_table("d", "c")
    version = abc.version()
    for wrong, error in (
        ([], InvalidInput),
        (["a", "a"], InvalidInput),
        (["elsewhere"], NotFound),
        (["v"], NotFound),
        (["a", "c"], NotFound),
    ):
        with pytest.raises(error):
            abc.create_view("d", "w", wrong)
        with pytest.raises(error):
            abc.set_view_members("d", "v", wrong)
    assert abc.version() == version
    assert members(abc) == "a", "VW-10: the old list stays"


def test_a_live_name_is_taken(abc: Catalog) -> None:
    """VW-05"""
    abc.create_view("d", "v", ["a"])
    with pytest.raises(AlreadyExists, match=r"d\.v"):
        abc.create_view("d", "v", ["b"])
    with pytest.raises(InvalidInput):
        abc.create_view("d", " ", ["a"])


def test_members_are_replaced_as_a_whole(abc: Catalog) -> None:
    """VW-10, VW-12"""
    abc.create_view("d", "v", ["a", "b"], "text")
    changed = abc.set_view_members("d", "v", ["c", "b"])
    assert (changed.name, changed.description) == ("v", "text")
    assert members(abc) == "cb"
    abc.drop_view("d", "v")
    with pytest.raises(NotFound):
        abc.set_view_members("d", "v", ["a"])


def test_readers_see_one_list_or_the_other(abc: Catalog) -> None:
    """VW-11"""
    abc.create_view("d", "v", ["a", "b"])

    def change(place: int) -> None:
        for _ in range(8):
            abc.set_view_members("d", "v", ["a", "b"] if place else ["c", "b", "a"])

    with ThreadPoolExecutor(3) as pool:
        changes = [pool.submit(change, place) for place in range(2)]
        while not all(done.done() for done in changes):
            assert members(abc) in ("ab", "cba")
        for done in changes:
            done.result()
    assert members(abc) in ("ab", "cba")


def test_a_drop_has_five_minutes_of_grace(abc: Catalog, clock: HandClock) -> None:
    """VW-13, VW-16"""
    made = abc.create_view("d", "v", ["b", "a"], "text")
    dropped = abc.drop_view("d", "v").tombstone
    assert dropped is not None
    assert dropped.delete_at - dropped.tombstoned_at == 300 * 10**9
    assert abc.views("d") == []
    assert [v.tombstone for v in abc.views("d", include_dropped=True)] == [dropped]
    with pytest.raises(NotFound):
        abc.view("d", "v")
    clock.forward(10)
    assert abc.drop_view("d", "v").tombstone == dropped
    assert abc.resurrect_view("d", "v") == made
    assert abc.resurrect_view("d", "v") == made
    abc.drop_view("d", "v")
    clock.forward(301)
    with pytest.raises(FailedPrecondition, match="grace"):
        abc.resurrect_view("d", "v")


def test_resurrect_needs_the_members_and_the_name(abc: Catalog) -> None:
    """VW-17"""
    abc.create_database("e")
    abc.create_view("d", "v", ["a", "b"])
    abc.drop_view("d", "v")
    abc.drop_table("d", "a")
    with pytest.raises(FailedPrecondition, match=": a"):
        abc.resurrect_view("d", "v")
    abc.resurrect_table("d", "a")
    abc.rename_table("d", "b", "e", "b")
    with pytest.raises(FailedPrecondition, match=": b"):
        abc.resurrect_view("d", "v")
    abc.rename_table("e", "b", "d", "b")
    abc.create_view("d", "v", ["c"])
    with pytest.raises(AlreadyExists):
        abc.resurrect_view("d", "v")
    abc.rename_view("d", "v", "w")
    abc.resurrect_view("d", "v")
    assert (members(abc), members(abc, "w")) == ("ab", "c")


def test_a_renamed_view_keeps_its_id_and_members(abc: Catalog) -> None:
    made = abc.create_view("d", "v", ["b", "a"])
    renamed = abc.rename_view("d", "v", "w")
    assert (renamed.id, renamed.members) == (made.id, made.members)
    with pytest.raises(NotFound):
        abc.view("d", "v")
    with pytest.raises(NotFound):
        abc.rename_view("d", "v", "x")
    with pytest.raises(InvalidInput):
        abc.rename_view("d", "w", "a/b")
    version = abc.version()
    abc.rename_view("d", "w", "w")
    assert abc.version() == version


def test_a_query_is_kept_as_it_was_given(abc: Catalog) -> None:
    made = abc.create_view("d", "v", [], "text", query=view_query("select n from d.a", "from d.a", owner="sales"))
    assert made.query == view_query("select n from d.a", "from d.a", owner="sales")
    assert (made.members, made.description) == ((), "text")
    assert abc.view("d", "v") == made
    assert abc.views("d") == [made]


def test_a_query_shares_the_names_of_tables_and_unions(abc: Catalog) -> None:
    abc.create_view("d", "v", [], query=view_query("select 1 as n"))
    for name in ("a", "v"):
        with pytest.raises(AlreadyExists):
            abc.create_view("d", name, [], query=view_query("select 2 as n"))
    with pytest.raises(AlreadyExists):
        make_table(abc, "v")
    with pytest.raises(AlreadyExists, match="Table"):
        abc.create_view("d", "a", [], query=view_query("select 2 as n"), replace=True)
    abc.drop_table("d", "a")
    assert abc.view("d", "v").query is not None, "what a query names may go"


def test_a_view_that_is_replaced_keeps_its_id_and_counts_versions(abc: Catalog) -> None:
    first = abc.create_view("d", "v", ["a", "b"], "union", replace=True)
    second = abc.create_view("d", "v", [], query=view_query("select 1 as n"), replace=True)
    third = abc.create_view("d", "v", [], query=view_query("select 2 as n", x="y"), replace=True)
    assert first.id == second.id == third.id
    assert (second.members, second.description) == ((), None)
    assert [view.query.version for view in (second, third) if view.query] == [1, 2]
    last = abc.create_view("d", "v", ["b"], replace=True)
    assert (last.query, [member.name for member in last.members]) == (None, ["b"])


def test_a_query_is_dropped_brought_back_and_renamed(abc: Catalog) -> None:
    made = abc.create_view("d", "v", [], query=view_query("select 1 as n", x="y"))
    abc.drop_view("d", "v")
    assert abc.views("d") == []
    assert abc.resurrect_view("d", "v") == made
    renamed = abc.rename_view("d", "v", "w")
    assert (renamed.id, renamed.query) == (made.id, made.query)
    abc.drop_database("d", cascade=True)
    abc.resurrect_database("d")
    assert abc.view("d", "w") == renamed


def test_properties_of_a_query_are_set_and_removed(abc: Catalog) -> None:
    abc.create_view("d", "v", [], query=view_query("select 1 as n", a="1", b="2"))
    changed = abc.set_view_properties("d", "v", {"b": "3", "c": "4"}, ["a", "gone"]).query
    assert changed is not None
    assert (changed.properties, changed.version) == ({"b": "3", "c": "4"}, 2)
    version = abc.version()
    abc.set_view_properties("d", "v", {"b": "3"})
    assert abc.version() == version
    abc.create_view("d", "u", ["a"])
    with pytest.raises(FailedPrecondition, match="union"):
        abc.set_view_properties("d", "u", {"a": "b"})
    with pytest.raises(FailedPrecondition, match="query"):
        abc.set_view_members("d", "v", ["a"])


def test_a_query_that_says_nothing_is_refused(abc: Catalog) -> None:
    version = abc.version()
    good = view_query("select 1 as n")
    for wrong in (
        view_query(),
        view_query(" "),
        view_query("a\0b"),
        replace(good, representations=good.representations * 2),
        replace(good, representations=(Representation("", "select 1"),)),
        replace(good, schema=Schema(schema_id=0)),
        replace(good, schema=Schema(*good.schema.fields, NestedField(2, "N", LongType()), schema_id=0)),
        replace(good, properties={"moulin.merge-segment-bytes": "1"}),
    ):
        with pytest.raises(InvalidInput):
            abc.create_view("d", "v", [], query=wrong)
    with pytest.raises(InvalidInput, match="not both"):
        abc.create_view("d", "v", ["a"], query=good)
    assert abc.version() == version


def test_a_replaced_query_keeps_its_versions(abc: Catalog) -> None:
    abc.create_view("d", "v", [], query=view_query("select 1 as n"))
    abc.set_view_properties("d", "v", {"version.history.num-entries": "3"})
    kept = {"version.history.num-entries": "3"}
    for number in range(2, 6):
        abc.create_view("d", "v", [], query=view_query(f"select {number} as n", **kept), replace=True)
    query = abc.view("d", "v").query
    assert query is not None
    assert query.history is not None
    assert [one.representations[0].sql for one in query.history.versions] == [f"select {n} as n" for n in (3, 4, 5)]
    assert query.history.current.representations == query.representations
    assert [version_id for _, version_id in query.history.log] == [one.version_id for one in query.history.versions]
    again = abc.create_view("d", "v", [], query=view_query("select 4 as n", **kept), replace=True).query
    assert again is not None
    assert again.history is not None
    assert (len(again.history.versions), again.history.current_id) == (3, query.history.versions[1].version_id)


def test_a_view_is_replaced_only_as_it_was_read(abc: Catalog) -> None:
    with pytest.raises(NotFound):
        abc.create_view("d", "v", [], query=view_query("select 1 as n"), replace=True, expected=0)
    abc.create_view("d", "v", ["a"])
    made = abc.create_view("d", "v", [], query=view_query("select 1 as n"), replace=True, expected=0)
    version = abc.version()
    for wrong in (0, 2):
        with pytest.raises(Conflict, match="changed by another writer"):
            abc.create_view("d", "v", [], query=view_query("select 2 as n"), replace=True, expected=wrong)
    assert (abc.view("d", "v"), abc.version()) == (made, version)

    def change(number: int) -> bool:
        try:
            abc.create_view("d", "v", [], query=view_query(f"select {number} as n"), replace=True, expected=1)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(change, range(4))) == 1


def test_a_query_moves_to_another_database_and_a_union_does_not(abc: Catalog) -> None:
    abc.create_database("other")
    made = abc.create_view("d", "v", [], query=view_query("select 1 as n"))
    abc.create_view("d", "u", ["a"])
    moved = abc.rename_view("d", "v", "w", "other")
    assert (moved.id, moved.database, moved.name, moved.query) == (made.id, "other", "w", made.query)
    assert [view.name for view in abc.views("d")] == ["u"]
    with pytest.raises(InvalidInput, match="cannot move to another database"):
        abc.rename_view("d", "u", "u", "other")
    make_table(abc, "t", "other")
    with pytest.raises(AlreadyExists):
        abc.rename_view("other", "w", "t", "other")


def test_a_history_that_contradicts_itself_is_refused(abc: Catalog) -> None:
    query = abc.create_view("d", "v", [], query=view_query("select 1 as n"))
    query = abc.create_view("d", "v", [], query=view_query("select 2 as n"), replace=True)
    assert query.query is not None
    good = query.query.history
    assert good is not None
    for wrong in (
        replace(good, current_id=9),
        replace(good, versions=good.versions * 2),
        replace(good, schemas=()),
        replace(good, current_id=1),
        replace(good, log=((0, 7),)),
        replace(good, log=((-1, 1),)),
        replace(good, location="\0"),
        replace(good, versions=(good.versions[0], replace(good.versions[1], version_id=2**31)), current_id=2**31),
        replace(good, versions=(replace(good.versions[0], summary={"a": "b" * (1 << 20)}), good.versions[1])),
    ):
        with pytest.raises(InvalidInput):
            abc.create_view("d", "w", [], query=replace(query.query, history=wrong))
