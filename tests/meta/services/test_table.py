"""TableService."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from moulin._proto.moulin.meta.v1 import table_pb2
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake
from tests.meta.api import NOBODY, SECOND, Api
from tests.meta.conftest import Live, name, refused
from tests.meta.rules import rule

DAY = 86_400 * SECOND
HOUR = 3600 * SECOND


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


@rule("TB-01", "TB-06", "TB-07", "TB-08", "TB-32", "GEN-06", "GEN-13")
def test_a_new_table_has_default_sharding_and_no_settings(api: Api) -> None:
    database_id, called = api.database(), name("t")
    made = api.CreateTable(database_id=database_id, name=called)
    assert (made.name, made.database_id) == (called, database_id)
    found = api.GetTable(database_id=database_id, table_id=made.id)
    assert (found.id, found.name, found.database_id) == (made.id, called, database_id)
    for field in ("retention_ns", "max_merge_time_span_ns", "tombstone"):
        assert not found.HasField(field)
    fields = {f.field_name: f.weight for f in api.GetShardingFields(database_id=database_id, table_id=made.id).fields}
    assert fields["metric_name"] == 10
    assert fields["resource.service.name"] == 10


def test_a_table_made_over_grpc_opens_in_the_lake(api: Api) -> None:
    database, called = name("db"), name("t")
    api.table(api.database(database), called)
    lake: Lake = api.live.lake
    table = lake.table(f"{database}.{called}")
    assert "event_time" in table.schema.names
    assert table.scan().to_arrow().num_rows == 0


@rule("TB-02", "TB-03", "TB-04", "VW-05", "GEN-09")
def test_tables_and_views_of_a_database_share_one_set_of_names(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    taken = api.GetTable(database_id=database_id, table_id=table_id).name
    view = name("v")
    api.view(database_id, [table_id], view)
    for called in (taken, view):
        with refused(StatusCode.ALREADY_EXISTS):
            api.CreateTable(database_id=database_id, name=called)
        with refused(StatusCode.ALREADY_EXISTS):
            api.CreateView(database_id=database_id, name=called, table_ids=[table_id])
    assert api.table(api.database(), taken)
    for bad in ("", " x", "a/b"):
        with refused(StatusCode.INVALID_ARGUMENT):
            api.CreateTable(database_id=database_id, name=bad)


@rule("TB-07", "GEN-04", "GEN-10")
@pytest.mark.parametrize(
    ("call", "more"),
    [
        ("GetTable", {}),
        ("DeleteTable", {}),
        ("ResurrectTable", {}),
        ("GetShardingFields", {}),
        ("SetShardingFields", {}),
        ("SetTableRetention", {}),
        ("SetTableMaxMergeTimeSpan", {}),
        ("RenameTable", {"new_name": "n"}),
        ("StageSegments", {"count": 1}),
    ],
)
def test_a_table_is_not_reached_through_another_database(api: Api, call: str, more: dict[str, object]) -> None:
    database_id, (table_id,) = api.tables(1)
    other = api.database()
    with refused(StatusCode.INVALID_ARGUMENT) as seen:
        getattr(api, call)(database_id=other, table_id=table_id, **more)
    assert api.GetTable(database_id=database_id, table_id=table_id).name not in seen[0].message
    for owner, table in (("", table_id), (database_id, ""), (database_id, "x"), ("x", table_id)):
        with refused(StatusCode.INVALID_ARGUMENT):
            getattr(api, call)(database_id=owner, table_id=table, **more)
    for owner, table in ((NOBODY, table_id), (database_id, NOBODY)):
        with refused(StatusCode.NOT_FOUND):
            getattr(api, call)(database_id=owner, table_id=table, **more)


@rule("TB-09", "TB-10", "GEN-07", "GEN-23")
def test_a_list_has_live_tables_by_name_and_deleted_ones_on_request(api: Api) -> None:
    database_id, (one, two) = api.tables(2)
    api.tables(1)
    api.DeleteTable(database_id=database_id, table_id=two)
    found = api.ListTables(database_id=database_id)
    assert [item.id for item in found.items] == [one]
    assert found.grace_window_seconds == 86400
    everything = api.ListTables(database_id=database_id, include_deleted=True).items
    assert {item.id: item.HasField("tombstone") for item in everything} == {one: False, two: True}
    assert [item.name for item in everything] == sorted(item.name for item in everything)


@rule("TB-11", "TB-12", "TB-13", "TB-14", "TB-15", "TB-16", "TB-17", "TB-20", "VW-15", "TK-16")
def test_blockers_are_listed_at_once(api: Api) -> None:
    database_id, (target, left, right) = api.tables(3)
    first, second = api.view(database_id, [left, target, right]), api.view(database_id, [target])
    all_three, _ = api.token(database_id, target)
    one, _ = api.token(database_id, left, target, right)
    api.token(database_id, left)
    dead = api.view(database_id, [target])
    api.DeleteView(database_id=database_id, view_id=dead)
    for immediate in (False, True):
        answer = api.DeleteTable(database_id=database_id, table_id=target, immediate=immediate)
        assert answer.WhichOneof("outcome") == "blocked"
        views = {view.id: [member.id for member in view.other_members] for view in answer.blocked.views}
        assert views == {first: [left, right], second: []}
        tokens = {token.id: list(token.signals) for token in answer.blocked.ingest_tokens}
        assert tokens == {all_three: ["traces", "logs", "metrics"], one: ["logs"]}
        for item in (*answer.blocked.views, *answer.blocked.ingest_tokens):
            assert not item.HasField("tombstone")
    assert not api.GetTable(database_id=database_id, table_id=target).HasField("tombstone")
    for view_id in (first, second):
        api.DeleteView(database_id=database_id, view_id=view_id)
    routing = dict.fromkeys(("traces_table_id", "logs_table_id", "metrics_table_id"), left)
    for token_id in (all_three, one):
        api.UpdateIngestTokenRouting(database_id=database_id, token_id=token_id, routing=routing)
    assert api.DeleteTable(database_id=database_id, table_id=target).HasField("tombstoned")


@rule("TB-18", "TB-19", "TB-24", "GEN-08", "GEN-21")
def test_a_deleted_table_is_hidden_at_once_and_named_until_its_grace_ends(api: Api) -> None:
    database_id, (table_id, at_once) = api.tables(2)
    called = api.GetTable(database_id=database_id, table_id=table_id).name
    gone = api.DeleteTable(database_id=database_id, table_id=table_id).tombstoned
    assert gone.tombstone.delete_at_unix_ns - gone.tombstone.tombstoned_at_unix_ns == DAY
    assert api.DeleteTable(database_id=database_id, table_id=table_id).tombstoned == gone
    ended = api.DeleteTable(database_id=database_id, table_id=at_once, immediate=True).tombstoned.tombstone
    assert ended.delete_at_unix_ns == ended.tombstoned_at_unix_ns
    api.live.clock.forward(1)
    for call, fields in (
        (api.GetTable, {"table_id": table_id}),
        (api.LookupTableOrView, {"name": called}),
        (api.SetTableRetention, {"table_id": table_id, "retention_ns": 1}),
        (api.SetTableMaxMergeTimeSpan, {"table_id": table_id}),
        (api.SetShardingFields, {"table_id": table_id}),
        (api.RenameTable, {"table_id": table_id, "new_name": "n"}),
        (api.StageSegments, {"table_id": at_once, "count": 1}),
    ):
        with refused(StatusCode.NOT_FOUND):
            call(database_id=database_id, **fields)
    listed = api.GetIngestStreamsForNursery()
    assert table_id not in [table.id for table in listed.tables]
    assert table_id in [table.id for table in listed.retired_tables]
    assert at_once not in [table.id for table in (*listed.tables, *listed.retired_tables)]
    assert api.LookupTableOrView(database_id=database_id, name=called, include_deleted=True).table.id == table_id


@rule("TB-22", "TB-23", "GEN-19", "GEN-20", "GEN-22")
def test_a_resurrected_table_is_as_it_was_unless_its_name_is_taken(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    called = api.GetTable(database_id=database_id, table_id=table_id).name
    api.SetTableRetention(database_id=database_id, table_id=table_id, retention_ns=7 * DAY)
    before = api.GetTable(database_id=database_id, table_id=table_id)
    assert api.ResurrectTable(database_id=database_id, table_id=table_id).table.id == table_id
    api.DeleteTable(database_id=database_id, table_id=table_id)
    view_id = api.view(database_id, [api.table(database_id)], called)
    with refused(StatusCode.ALREADY_EXISTS):
        api.ResurrectTable(database_id=database_id, table_id=table_id)
    api.DeleteView(database_id=database_id, view_id=view_id)
    assert not api.ResurrectTable(database_id=database_id, table_id=table_id).table.HasField("tombstone")
    assert api.GetTable(database_id=database_id, table_id=table_id) == before
    api.DeleteTable(database_id=database_id, table_id=table_id)
    api.live.clock.forward(86401)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.ResurrectTable(database_id=database_id, table_id=table_id)


@rule("TB-23")
def test_a_table_of_a_dropped_database_is_not_resurrected(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    api.DeleteDatabase(database_id=database_id, cascade=True)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.ResurrectTable(database_id=database_id, table_id=table_id)


@rule("TB-26", "TB-25")
def test_a_purge_takes_segments_and_stream_rows(fresh: Live) -> None:
    api = Api(fresh)
    database_id, (table_id, other) = api.tables(2)
    _, plaintext = api.token(database_id, other)
    stream_id = api.stream(plaintext)
    api.register(database_id, table_id, stream_id, -1, 3)
    api.DeleteTable(database_id=database_id, table_id=table_id)
    api.register(database_id, table_id, stream_id, 3, 4)  # what was acknowledged before still goes in
    fresh.clock.forward(86401)
    with refused(StatusCode.NOT_FOUND):
        api.segment(database_id, table_id)
    assert len(collect(fresh.catalog).purged) == 1
    info = api.stream_info(stream_id)
    assert info is not None
    assert not info.tables
    with refused(StatusCode.NOT_FOUND):
        api.GetTable(database_id=database_id, table_id=table_id, include_deleted=True)


@rule("TB-27", "TB-28")
def test_sharding_fields_are_replaced_and_cleared(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    fields = [{"field_name": "b", "weight": 0.5}, {"field_name": "a", "weight": 0}]
    answer = api.SetShardingFields(database_id=database_id, table_id=table_id, fields=fields)
    assert [(f.field_name, f.weight) for f in answer.fields] == [("b", 0.5), ("a", 0.0)]
    assert api.GetShardingFields(database_id=database_id, table_id=table_id).fields == answer.fields
    assert not api.SetShardingFields(database_id=database_id, table_id=table_id).fields
    assert not api.GetShardingFields(database_id=database_id, table_id=table_id).fields
    api.DeleteTable(database_id=database_id, table_id=table_id)
    with refused(StatusCode.NOT_FOUND):
        api.GetShardingFields(database_id=database_id, table_id=table_id)
    assert not api.GetShardingFields(database_id=database_id, table_id=table_id, include_deleted=True).fields


@rule("TB-29")
@pytest.mark.parametrize(
    "fields",
    [
        [{"field_name": "", "weight": 1}],
        [{"field_name": "a", "weight": 1}, {"field_name": "a", "weight": 2}],
        [{"field_name": "a", "weight": float("nan")}],
        [{"field_name": "a", "weight": float("inf")}],
        [{"field_name": "a", "weight": -1}],
        [{"field_name": str(n), "weight": 1} for n in range(1000)],
    ],
)
def test_bad_sharding_fields_are_refused_and_change_nothing(api: Api, fields: list[dict[str, object]]) -> None:
    database_id, (table_id,) = api.tables(1)
    before = api.GetShardingFields(database_id=database_id, table_id=table_id)
    with refused(StatusCode.INVALID_ARGUMENT):
        api.SetShardingFields(database_id=database_id, table_id=table_id, fields=fields)
    assert api.GetShardingFields(database_id=database_id, table_id=table_id) == before


@rule("TB-31", "TB-36", "TB-37", "TB-38", "TB-08", "GEN-13")
def test_the_merge_span_follows_retention_unless_it_is_set(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    ids = {"database_id": database_id, "table_id": table_id}

    def effective() -> int:
        span: int = api.GetTable(**ids).effective_max_merge_time_span_ns
        return span

    assert effective() == 7 * DAY
    assert api.SetTableRetention(**ids, retention_ns=30 * DAY).retention_ns == 30 * DAY
    assert api.GetTable(**ids).retention_ns == 30 * DAY
    assert effective() == 18 * HOUR
    answer = api.SetTableMaxMergeTimeSpan(**ids, max_merge_time_span_ns=HOUR)
    assert answer.max_merge_time_span_ns == answer.effective_max_merge_time_span_ns == effective() == HOUR
    assert api.GetTable(**ids).max_merge_time_span_ns == HOUR
    assert not api.SetTableMaxMergeTimeSpan(**ids).HasField("max_merge_time_span_ns")
    assert not api.SetTableRetention(**ids).HasField("retention_ns")
    found = api.GetTable(**ids)
    assert not found.HasField("retention_ns")
    assert not found.HasField("max_merge_time_span_ns")
    assert found.effective_max_merge_time_span_ns == 7 * DAY


@rule("TB-33")
@pytest.mark.parametrize("bad", [0, -1, -(1 << 63)])
def test_a_bad_duration_is_refused(api: Api, bad: int) -> None:
    database_id, (table_id,) = api.tables(1)
    with refused(StatusCode.INVALID_ARGUMENT):
        api.SetTableRetention(database_id=database_id, table_id=table_id, retention_ns=bad)
    with refused(StatusCode.INVALID_ARGUMENT):
        api.SetTableMaxMergeTimeSpan(database_id=database_id, table_id=table_id, max_merge_time_span_ns=bad)


def test_a_table_moves_to_another_database_unless_a_token_names_it(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    other, called = api.database(), name("t")
    routing = api.GetIngestStreamsForNursery().routing_seq
    moved = api.RenameTable(database_id=database_id, table_id=table_id, new_name=called, new_database_id=other).table
    assert (moved.name, moved.database_id) == (called, other)
    assert api.GetIngestStreamsForNursery().routing_seq > routing
    api.token(other, table_id)
    with refused(StatusCode.FAILED_PRECONDITION, "token"):
        api.RenameTable(database_id=other, table_id=table_id, new_name=called, new_database_id=database_id)
    assert api.RenameTable(database_id=other, table_id=table_id, new_name=name("t")).table.id == table_id


@rule("TB-39")
def test_types_keep_their_codes() -> None:
    codes = {
        value.name.removeprefix("BQL_TYPE_").lower(): value.number for value in table_pb2.BqlType.DESCRIPTOR.values
    }
    order = ["bool", "int", "long", "real", "string", "datetime", "timespan", "guid", "dynamic"]
    assert codes == {kind: number for number, kind in enumerate(order)}
