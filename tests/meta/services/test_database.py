"""DatabaseService, and what holds for every service."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from moulin.config import Config
from tests.contract.conftest import Backend, memory_store
from tests.meta.api import NOBODY, SECOND, Api
from tests.meta.conftest import Live, name, refused, serving
from tests.meta.rules import rule


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


def names(api: Api, **fields: bool) -> list[str]:
    return [item.name for item in api.ListDatabases(**fields).items]


@rule("DB-01", "DB-05", "GEN-06", "GEN-11")
def test_a_created_database_is_listed_live(api: Api) -> None:
    called = name("db")
    made = api.CreateDatabase(name=called).database
    assert made.name == called
    assert made.id[14] == "7"
    assert not made.HasField("tombstone")
    assert made in api.ListDatabases().items


@rule("DB-02", "GEN-09")
@pytest.mark.parametrize("bad", ["", "  ", "a/b", "a..b", "x" * 300, "a\0b"])
def test_a_bad_name_is_refused(api: Api, bad: str) -> None:
    with refused(StatusCode.INVALID_ARGUMENT):
        api.CreateDatabase(name=bad)


@rule("DB-03", "GEN-09")
def test_a_name_belongs_to_one_live_database(api: Api) -> None:
    called = name("db")
    api.database(called)
    with refused(StatusCode.ALREADY_EXISTS):
        api.CreateDatabase(name=called)


@rule("DB-06", "DB-07", "DB-08", "DB-09", "DB-10", "DB-18", "GEN-15")
def test_children_block_until_they_are_gone(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    view_id, (token_id, _) = api.view(database_id, [table_id]), api.token(database_id, table_id)
    version = api.live.catalog.version()
    for immediate in (False, True):
        with refused(StatusCode.FAILED_PRECONDITION, "cascade"):
            api.DeleteDatabase(database_id=database_id, immediate=immediate)
    assert api.live.catalog.version() == version
    api.DeleteView(database_id=database_id, view_id=view_id)
    with refused(StatusCode.FAILED_PRECONDITION, "token"):
        api.DeleteDatabase(database_id=database_id)
    api.DeleteIngestToken(database_id=database_id, token_id=token_id)
    with refused(StatusCode.FAILED_PRECONDITION, "table"):
        api.DeleteDatabase(database_id=database_id)
    assert api.DeleteTable(database_id=database_id, table_id=table_id).HasField("tombstoned")
    assert api.DeleteDatabase(database_id=database_id).database.HasField("tombstone")


@rule("DB-11", "DB-13", "DB-15", "DB-19", "DB-24", "DB-30", "DB-31", "DB-33", "DB-34", "GEN-07", "GEN-08", "GEN-17")
def test_a_cascade_takes_what_the_preview_named(api: Api) -> None:
    database_id, (one, two) = api.tables(2)
    view_id, (token_id, plaintext) = api.view(database_id, [two, one]), api.token(database_id, one)
    api.DeleteTable(database_id=database_id, table_id=api.table(database_id))
    version = api.live.catalog.version()
    preview = api.PreviewDeleteDatabase(database_id=database_id)
    assert api.live.catalog.version() == version
    assert {child.id for child in preview.tables} == {one, two}
    assert [child.id for child in preview.views] == [view_id]
    assert [child.id for child in preview.ingest_tokens] == [token_id]
    gone = api.DeleteDatabase(database_id=database_id, cascade=True).database
    grace = gone.tombstone.delete_at_unix_ns - gone.tombstone.tombstoned_at_unix_ns
    assert grace == preview.grace_window_seconds * SECOND == 86400 * SECOND
    fallen = {item.id: item.tombstone for item in api.ListTombstones(database_id=database_id).items}
    for key in (one, two, view_id, token_id, database_id):
        assert fallen[key] == gone.tombstone
    assert gone.name not in names(api)
    assert gone in api.ListDatabases(include_deleted=True).items
    for call, fields in (
        (api.GetTable, {"table_id": one}),
        (api.GetView, {"view_id": view_id}),
        (api.GetIngestToken, {"token_id": token_id}),
        (api.LookupTableOrView, {"name": "x"}),
        (api.ListTables, {}),
    ):
        with refused(StatusCode.NOT_FOUND):
            call(database_id=database_id, **fields)
    for call, fields in (
        (api.CreateTable, {"name": "t"}),
        (api.CreateView, {"name": "t", "table_ids": [one]}),
        (api.CreateIngestToken, dict.fromkeys(("traces_table_id", "logs_table_id", "metrics_table_id"), one)),
    ):
        with refused(StatusCode.FAILED_PRECONDITION):
            call(database_id=database_id, **{"name": "t", **fields})
    with refused(StatusCode.UNAUTHENTICATED):
        api.ValidateIngestToken(plaintext_token=plaintext)
    with refused(StatusCode.UNAUTHENTICATED):
        api.stream(plaintext)
    assert api.GetTable(database_id=database_id, table_id=one, include_deleted=True).tombstone == gone.tombstone


@rule("DB-14", "GEN-21")
def test_a_cascade_keeps_earlier_tombstones_and_a_second_delete_extends_nothing(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    first = api.DeleteTable(database_id=database_id, table_id=table_id).tombstoned.tombstone
    api.live.clock.forward(60)
    gone = api.DeleteDatabase(database_id=database_id, cascade=True).database
    assert gone.tombstone != first
    assert api.GetTable(database_id=database_id, table_id=table_id, include_deleted=True).tombstone == first
    api.live.clock.forward(60)
    assert api.DeleteDatabase(database_id=database_id).database == gone
    ended = api.DeleteDatabase(database_id=database_id, immediate=True).database.tombstone
    assert ended.tombstoned_at_unix_ns == gone.tombstone.tombstoned_at_unix_ns
    assert ended.delete_at_unix_ns < gone.tombstone.delete_at_unix_ns


@rule("DB-16", "DB-17", "GEN-05")
def test_an_immediate_delete_has_no_grace_but_bytes_keep_their_floor(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    api.register(database_id, table_id, stream_id, -1, 0)
    gone = api.DeleteDatabase(database_id=database_id, cascade=True, immediate=True).database.tombstone
    assert gone.delete_at_unix_ns == gone.tombstoned_at_unix_ns
    with refused(StatusCode.FAILED_PRECONDITION):
        api.ResurrectDatabase(database_id=database_id)
    assert api.GetConfiguration().tombstone_min_age_seconds == 720


@rule("DB-20", "DB-22", "DB-23", "DB-25", "DB-26", "DB-29", "TB-22")
def test_a_resurrection_brings_back_every_child_in_its_grace(api: Api) -> None:
    database_id, (one, two, alone), stream_id = api.ingest(3)
    view_id, (token_id, plaintext) = api.view(database_id, [two, one]), api.token(database_id, two)
    short = api.view(database_id, [one])
    api.SetTableRetention(database_id=database_id, table_id=one, retention_ns=5 * SECOND)
    api.SetShardingFields(database_id=database_id, table_id=one, fields=[{"field_name": "f", "weight": 2}])
    api.register(database_id, one, stream_id, -1, 4)
    before = (
        api.GetTable(database_id=database_id, table_id=one),
        api.GetView(database_id=database_id, view_id=view_id).view,
        api.GetIngestToken(database_id=database_id, token_id=token_id).token,
        api.GetShardingFields(database_id=database_id, table_id=one),
    )
    api.DeleteView(database_id=database_id, view_id=short)
    api.DeleteTable(database_id=database_id, table_id=alone)
    api.live.clock.forward(400)
    api.DeleteDatabase(database_id=database_id, cascade=True)
    api.live.clock.forward(400)
    alive = api.ResurrectDatabase(database_id=database_id).database
    assert not alive.HasField("tombstone")
    after = (
        api.GetTable(database_id=database_id, table_id=one),
        api.GetView(database_id=database_id, view_id=view_id).view,
        api.GetIngestToken(database_id=database_id, token_id=token_id).token,
        api.GetShardingFields(database_id=database_id, table_id=one),
    )
    assert after == before
    assert api.live_segments(one) == 1
    assert api.ValidateIngestToken(plaintext_token=plaintext).token_id == token_id
    assert not api.GetTable(database_id=database_id, table_id=alone).HasField("tombstone")
    with refused(StatusCode.NOT_FOUND):  # its own five minutes had passed
        api.GetView(database_id=database_id, view_id=short)


@rule("DB-27", "GEN-18", "GEN-19")
def test_a_resurrection_after_the_grace_is_refused(api: Api) -> None:
    database_id = api.database()
    api.DeleteDatabase(database_id=database_id)
    api.live.clock.forward(86401)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.ResurrectDatabase(database_id=database_id)
    assert database_id in [item.id for item in api.ListDatabases(include_deleted=True).items]


@rule("DB-28", "GEN-20", "GEN-22")
def test_a_name_is_free_during_grace_and_a_resurrection_finds_it_taken(api: Api) -> None:
    called = name("db")
    old = api.database(called)
    assert api.ResurrectDatabase(database_id=old).database.id == old
    api.DeleteDatabase(database_id=old)
    new = api.database(called)
    assert new != old
    with refused(StatusCode.ALREADY_EXISTS):
        api.ResurrectDatabase(database_id=old)
    api.RenameDatabase(database_id=new, new_name=name("db"))
    assert api.ResurrectDatabase(database_id=old).database.name == called


@rule("DB-28")
def test_two_dropped_children_of_one_name_are_not_both_resurrected(api: Api) -> None:
    database_id = api.database()
    for _ in range(2):
        api.DeleteTable(database_id=database_id, table_id=api.table(database_id, "twice"))
    api.DeleteDatabase(database_id=database_id)
    with refused(StatusCode.ALREADY_EXISTS, "twice"):
        api.ResurrectDatabase(database_id=database_id)
    with refused(StatusCode.NOT_FOUND):
        api.GetDatabase(database_id=database_id)


@rule("DB-32")
def test_a_child_made_after_the_preview_is_dropped_too(api: Api) -> None:
    database_id = api.database()
    assert not api.PreviewDeleteDatabase(database_id=database_id).tables
    late = api.table(database_id)
    api.DeleteDatabase(database_id=database_id, cascade=True)
    assert api.GetTable(database_id=database_id, table_id=late, include_deleted=True).HasField("tombstone")


@rule("DB-33", "TB-09", "GEN-17")
def test_grace_windows_are_those_configured(backend: Backend) -> None:
    with serving(backend, config=Config(database_grace=77, table_grace=66, view_grace=55, token_grace=44)) as live:
        api = Api(live)
        database_id = api.database()
        assert api.PreviewDeleteDatabase(database_id=database_id).grace_window_seconds == 77
        assert api.ListTables(database_id=database_id).grace_window_seconds == 66
        found = api.GetConfiguration()
        assert (found.view_grace_seconds, found.ingest_token_grace_seconds) == (55, 44)


@rule("DB-35")
def test_a_database_is_found_by_its_id_or_by_its_name(api: Api) -> None:
    called = name("db")
    database_id = api.database(called)
    assert api.GetDatabase(database_id=database_id).database.name == called
    assert api.GetDatabase(name=called).database.id == database_id
    for fields in ({}, {"name": called, "database_id": database_id}, {"name": "a\0b"}):
        with refused(StatusCode.INVALID_ARGUMENT):
            api.GetDatabase(**fields)


@rule("GEN-09", "DB-21", "TB-10")
@pytest.mark.parametrize(
    "call", ["GetDatabase", "DeleteDatabase", "ResurrectDatabase", "PreviewDeleteDatabase", "ListTables", "ListViews"]
)
def test_an_unknown_id_is_not_found_and_a_malformed_one_is_refused(api: Api, call: str) -> None:
    with refused(StatusCode.NOT_FOUND):
        getattr(api, call)(database_id=NOBODY)
    for bad in ("", "x", NOBODY[:-1], NOBODY + "0", "'; drop table databases", "\u0660" * 36):
        with refused(StatusCode.INVALID_ARGUMENT):
            getattr(api, call)(database_id=bad)


@rule("GEN-23")
def test_lists_are_ordered_by_name(api: Api) -> None:
    for called in ("zz", "aa", "mm"):
        api.database(name(called))
    found = names(api)
    assert found == sorted(found)


@rule("GEN-12", "GEN-24")
def test_tombstones_have_the_servers_time(api: Api) -> None:
    gone = api.DeleteDatabase(database_id=api.database()).database.tombstone
    assert abs(gone.tombstoned_at_unix_ns - api.live.clock()) < SECOND


@rule("GEN-16")
def test_the_catalog_survives_a_restart(backend: Backend) -> None:
    uri, store = backend.new_uri(), memory_store()
    with serving(backend, uri=uri, store=store) as live:
        api = Api(live)
        database_id, (table_id,) = api.tables(1)
        view_id = api.view(database_id, [table_id])
    with serving(backend, uri=uri, store=store) as live:
        again = Api(live)
        assert [m.id for m in again.GetView(database_id=database_id, view_id=view_id).view.members] == [table_id]


@rule("GEN-25", "GEN-11")
def test_purged_ids_are_not_found_and_tombstones_are_listed_until_then(fresh: Live) -> None:
    from moulin.catalog.upkeep.gc import collect

    api = Api(fresh)
    database_id, (table_id,) = api.tables(1)
    api.token(database_id, table_id)
    api.DeleteDatabase(database_id=database_id, cascade=True)
    assert {item.kind for item in api.ListTombstones().items} == {"database", "table", "ingest_token"}
    fresh.clock.forward(86401)
    purged = collect(fresh.catalog).purged
    assert len(purged) == 3
    assert not api.ListTombstones().items
    with refused(StatusCode.NOT_FOUND):
        api.GetDatabase(database_id=database_id, include_deleted=True)
    with refused(StatusCode.NOT_FOUND):
        api.ListTombstones(database_id=database_id)


@rule("GEN-26")
def test_reads_take_no_version(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    version = api.live.catalog.version()
    for _ in range(2):
        api.ListDatabases(include_deleted=True)
        api.GetTable(database_id=database_id, table_id=table_id)
        api.GetIngestStreamsForNursery()
        api.ListMembers()
    assert api.live.catalog.version() == version
