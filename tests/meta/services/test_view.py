"""ViewService."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from tests.contract.conftest import Backend, memory_store
from tests.meta.api import NOBODY, SECOND, Api
from tests.meta.conftest import Live, name, refused, serving
from tests.meta.rules import rule


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


@rule("VW-01", "VW-06", "VW-07", "VW-08", "GEN-06")
@pytest.mark.parametrize("description", [None, "", "all of it"])
def test_a_view_keeps_the_order_of_its_members_and_its_description(api: Api, description: str | None) -> None:
    database_id, tables = api.tables(3)
    order = [tables[2], tables[0], tables[1]]
    called = name("v")
    made = api.CreateView(database_id=database_id, name=called, table_ids=order, description=description).view
    assert [member.id for member in made.members] == order
    assert made.HasField("description") == (description is not None)
    assert made.description == (description or "")
    assert api.GetView(database_id=database_id, view_id=made.id).view == made
    assert list(api.ListViews(database_id=database_id).items) == [made]
    found = api.LookupTableOrView(database_id=database_id, name=called).view
    assert (found.id, list(found.members)) == (made.id, list(made.members))
    named = {item.id: item.name for item in api.ListTables(database_id=database_id).items}
    assert {member.id: member.name for member in made.members} == named


@rule("VW-02", "VW-03", "VW-04", "VW-10")
def test_members_must_be_live_tables_of_the_database(api: Api) -> None:
    database_id, (one, two, dead) = api.tables(3)
    _, (foreign,) = api.tables(1)
    api.DeleteTable(database_id=database_id, table_id=dead)
    view_id = api.view(database_id, [one, two])
    for members, code in (
        ([], StatusCode.INVALID_ARGUMENT),
        ([one, one], StatusCode.INVALID_ARGUMENT),
        ([foreign], StatusCode.INVALID_ARGUMENT),
        (["x"], StatusCode.INVALID_ARGUMENT),
        ([""], StatusCode.INVALID_ARGUMENT),
        ([dead], StatusCode.FAILED_PRECONDITION),
        ([NOBODY], StatusCode.NOT_FOUND),
        ([view_id], StatusCode.NOT_FOUND),
    ):
        with refused(code):
            api.CreateView(database_id=database_id, name=name("v"), table_ids=members)
        with refused(code):
            api.SetViewTables(database_id=database_id, view_id=view_id, table_ids=members)
    assert [m.id for m in api.GetView(database_id=database_id, view_id=view_id).view.members] == [one, two]


@rule("VW-09", "GEN-10", "GEN-09")
@pytest.mark.parametrize("call", ["GetView", "SetViewTables", "DeleteView", "ResurrectView", "RenameView"])
def test_a_view_is_not_reached_through_another_database(api: Api, call: str) -> None:
    database_id, (table_id,) = api.tables(1)
    view_id = api.view(database_id, [table_id])
    more: dict[str, object] = {"SetViewTables": {"table_ids": [table_id]}, "RenameView": {"new_name": "n"}}.get(
        call, {}
    )
    with refused(StatusCode.INVALID_ARGUMENT):
        getattr(api, call)(database_id=api.database(), view_id=view_id, **more)
    with refused(StatusCode.NOT_FOUND):
        getattr(api, call)(database_id=database_id, view_id=NOBODY, **more)
    with refused(StatusCode.INVALID_ARGUMENT):
        getattr(api, call)(database_id=database_id, view_id="nonsense", **more)


@rule("VW-10", "VW-12")
def test_setting_tables_changes_the_members_only(api: Api) -> None:
    database_id, (one, two) = api.tables(2)
    made = api.CreateView(database_id=database_id, name=name("v"), table_ids=[one], description="d").view
    changed = api.SetViewTables(database_id=database_id, view_id=made.id, table_ids=[two, one]).view
    assert [member.id for member in changed.members] == [two, one]
    assert (changed.name, changed.description) == (made.name, "d")
    api.DeleteView(database_id=database_id, view_id=made.id)
    with refused(StatusCode.NOT_FOUND):
        api.SetViewTables(database_id=database_id, view_id=made.id, table_ids=[one])


@rule("VW-13", "VW-14", "VW-16", "VW-17", "GEN-07", "GEN-08", "GEN-22")
def test_a_deleted_view_is_hidden_and_comes_back_when_name_and_members_allow(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    called = name("v")
    view_id = api.view(database_id, [table_id], called)
    before = api.ResurrectView(database_id=database_id, view_id=view_id).view
    gone = api.DeleteView(database_id=database_id, view_id=view_id).view
    assert gone.tombstone.delete_at_unix_ns - gone.tombstone.tombstoned_at_unix_ns == 300 * SECOND
    assert not api.ListViews(database_id=database_id).items
    assert list(api.ListViews(database_id=database_id, include_deleted=True).items) == [gone]
    with refused(StatusCode.NOT_FOUND):
        api.GetView(database_id=database_id, view_id=view_id)
    assert api.GetView(database_id=database_id, view_id=view_id, include_deleted=True).view == gone
    other = api.view(database_id, [table_id], called)
    with refused(StatusCode.ALREADY_EXISTS):
        api.ResurrectView(database_id=database_id, view_id=view_id)
    assert api.LookupTableOrView(database_id=database_id, name=called, include_deleted=True).view.id == other
    api.RenameView(database_id=database_id, view_id=other, new_name=name("v"))
    api.DeleteView(database_id=database_id, view_id=other)
    api.DeleteTable(database_id=database_id, table_id=table_id)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.ResurrectView(database_id=database_id, view_id=view_id)
    api.ResurrectTable(database_id=database_id, table_id=table_id)
    assert api.ResurrectView(database_id=database_id, view_id=view_id).view == before
    api.DeleteView(database_id=database_id, view_id=view_id)
    api.live.clock.forward(301)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.ResurrectView(database_id=database_id, view_id=view_id)


@rule("VW-18", "VW-19", "VW-20")
def test_a_lookup_finds_a_live_table_or_view_by_its_exact_name(api: Api) -> None:
    database_id, called = api.database(), name("Case")
    table_id = api.table(database_id, called)
    found = api.LookupTableOrView(database_id=database_id, name=called)
    assert (found.WhichOneof("kind"), found.table.id, found.table.name) == ("table", table_id, called)
    for owner, wanted in ((database_id, called.lower()), (database_id, name("no")), (api.database(), called)):
        with refused(StatusCode.NOT_FOUND):
            api.LookupTableOrView(database_id=owner, name=wanted)
    with refused(StatusCode.INVALID_ARGUMENT):
        api.LookupTableOrView(database_id=database_id, name="")
    with refused(StatusCode.INVALID_ARGUMENT):
        api.LookupTableOrView(database_id=database_id, name="a\0b")
    with refused(StatusCode.INVALID_ARGUMENT):
        api.CreateView(database_id=database_id, name=name("v"), table_ids=[table_id], description="\0")
    api.DeleteTable(database_id=database_id, table_id=table_id)
    api.live.clock.forward(1)
    later = api.view(database_id, [api.table(database_id)], called)
    api.DeleteView(database_id=database_id, view_id=later)
    lookup = api.LookupTableOrView(database_id=database_id, name=called, include_deleted=True)
    assert lookup.view.id == later
    with refused(StatusCode.NOT_FOUND):
        api.LookupTableOrView(database_id=database_id, name=called)


def test_a_view_takes_a_new_name_unless_it_is_taken_or_bad(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    view_id, called = api.view(database_id, [table_id]), name("v")
    assert api.RenameView(database_id=database_id, view_id=view_id, new_name=called).view.name == called
    taken = api.GetTable(database_id=database_id, table_id=table_id).name
    with refused(StatusCode.ALREADY_EXISTS):
        api.RenameView(database_id=database_id, view_id=view_id, new_name=taken)
    with refused(StatusCode.INVALID_ARGUMENT):
        api.RenameView(database_id=database_id, view_id=view_id, new_name="")


@rule("VW-06")
def test_order_survives_a_restart(backend: Backend) -> None:
    uri, store = backend.new_uri(), memory_store()
    with serving(backend, uri=uri, store=store) as live:
        api = Api(live)
        database_id, tables = api.tables(3)
        view_id = api.view(database_id, tables[::-1])
    with serving(backend, uri=uri, store=store) as live:
        found = Api(live).GetView(database_id=database_id, view_id=view_id).view
        assert [member.id for member in found.members] == tables[::-1]
