"""NurseryService: streams, registrations, batches, and how streams end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
import pytest
from grpc import StatusCode

from moulin._proto.moulin.meta.v1 import nursery_pb2 as pb
from moulin.catalog.upkeep.gc import collect
from moulin.formats import manifest as codec
from moulin.formats.segment import writer as segment
from moulin.formats.segment.tuning import LEVELS
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.operations import Kind
from moulin.model.schema.arrow import STORED_POSITION, arrow_schema
from moulin.storage import paths
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import write_segment
from tests.contract.conftest import Backend, memory_store
from tests.meta.api import NOBODY, SECOND, Api
from tests.meta.conftest import Live, name, refused, serving
from tests.meta.rules import rule


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


def info(api: Api, stream_id: str) -> pb.IngestStreamInfo:
    found = api.stream_info(stream_id)
    assert found is not None
    return found


def offsets(api: Api, stream_id: str) -> dict[str, int]:
    return {table.table_id: table.merged_offset for table in info(api, stream_id).tables}


@rule("NU-01", "NU-08", "NU-09", "NU-11", "NU-14", "GEN-14")
def test_a_new_stream_is_listed_with_nothing_taken_in(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    listed = api.GetIngestStreamsForNursery()
    found = next(stream for stream in listed.streams if stream.stream_id == stream_id)
    assert found.cloud_stream_prefix.prefix == f"ingest-stream/{stream_id}/"
    assert (found.deleted_offset, found.frontier_offset) == (-1, -1)
    assert not found.tables
    assert found.known_complete_through_nanos == found.created_at_nanos
    assert not found.HasField("stopped_at_nanos")
    assert not found.HasField("stopped_offset")
    owners = {table.id: table.database_id for table in listed.tables}
    assert owners[table_id] == database_id
    assert 5 not in {field.number for field in pb.GetIngestStreamsResponse.DESCRIPTOR.fields}
    assert {4, 5}.isdisjoint(field.number for field in pb.IngestStreamTableInfo.DESCRIPTOR.fields)
    assert 2 not in {field.number for field in pb.UpdateDeletedOffsetRequest.DESCRIPTOR.fields}


@rule("NU-30", "NU-39", "NU-41", "NU-42", "NU-43", "NU-44", "NU-08", "NU-12")
def test_a_registration_moves_the_offset_with_the_segment(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    answer = api.register(database_id, table_id, stream_id, -1, 7, time=5 * SECOND - 1)
    (version,) = answer.segment_versions
    (table,) = answer.streams[0].tables
    assert (table.table_id, table.merged_offset) == (table_id, 7)
    assert table.merged_ingest_time_nanos == 5 * SECOND
    (point,) = table.offset_checkpoints
    assert (point.segment_offset, point.stream_offset, point.ingest_timestamp_nanos) == (version, 7, 5 * SECOND)
    assert answer.streams[0].known_complete_through_nanos == 5 * SECOND
    assert table.cloud_merged_segments_prefix.prefix == f"tables/{table_id}/data/"
    live = api.live.catalog.segments(UUID(table_id), version)
    assert [segment.added_version for segment in live] == [version]
    assert api.live.catalog.history(UUID(table_id))[0].kind == Kind.APPEND
    later = api.register(database_id, table_id, stream_id, 7, 8, time=SECOND)
    assert later.streams[0].tables[0].merged_ingest_time_nanos == 5 * SECOND
    assert later.meta_response_seq > answer.meta_response_seq
    assert api.GetIngestStreamsForNursery().meta_response_seq > later.meta_response_seq


@rule("NU-23", "NU-24", "NU-25", "NU-35", "NU-40", "NU-44", "GEN-10")
def test_a_bad_registration_is_refused_and_leaves_nothing(api: Api) -> None:
    database_id, (one, two), stream_id = api.ingest(2)
    good = api.merge(database_id, one, api.offset(stream_id, one, -1, 3))
    strange = api.merge(database_id, one, api.offset(stream_id, two, -1, 3))
    backwards = api.merge(database_id, one, api.offset(stream_id, one, -1, -1))
    overflowing = api.merge(database_id, one, api.offset(stream_id, one, -1, (1 << 63) - 1))
    negative = api.merge(database_id, one, api.offset(stream_id, one, -5, 3))
    untimely = api.merge(database_id, one, api.offset(stream_id, one, -1, 3, time=-1))
    unknown = api.merge(database_id, one, api.offset(NOBODY, one, -1, 3))
    mixed = [good, api.merge(database_id, two, api.offset(stream_id, two, -1, 3))]
    bad = StatusCode.INVALID_ARGUMENT
    for database, merges, request_id, code in (
        (database_id, [], "r", bad),
        ("", [good], "r", bad),
        (api.database(), [good], "r", bad),
        (NOBODY, [good], "r", StatusCode.NOT_FOUND),
        (database_id, [good], "", bad),
        (database_id, [good], "x" * 300, bad),
        (database_id, mixed, "r", bad),
        (database_id, [strange], "r", bad),
        (database_id, [backwards], "r", bad),
        (database_id, [overflowing], "r", bad),
        (database_id, [negative], "r", bad),
        (database_id, [untimely], "r", bad),
        (database_id, [unknown], "r", StatusCode.NOT_FOUND),
    ):
        with refused(code):
            api.RegisterMergedSegments(database_id=database, merges=merges, register_request_id=request_id)
    assert api.live_segments(one) == 0
    assert not info(api, stream_id).tables


@rule("NU-26", "NU-34", "NU-37", "GEN-09", "GEN-15")
def test_a_stale_offset_is_a_conflict_and_leaves_nothing(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    api.register(database_id, table_id, stream_id, -1, 5)
    version, request_id = api.live.catalog.version(), name("r")
    merges = [
        api.merge(database_id, table_id, api.offset(stream_id, table_id, 5, 6)),
        api.merge(database_id, table_id, api.offset(stream_id, table_id, 5, 7)),
    ]
    with refused(StatusCode.ABORTED) as seen:
        api.RegisterMergedSegments(database_id=database_id, merges=merges, register_request_id=request_id)
    assert (getattr(seen[0], "expected", 0), getattr(seen[0], "found", 0)) == (5, 6)
    assert api.live.catalog.version() == version
    assert offsets(api, stream_id) == {table_id: 5}
    merges[1].stream_offsets[0].start_merged_offset = 6
    answer = api.RegisterMergedSegments(database_id=database_id, merges=merges, register_request_id=request_id)
    assert list(answer.segment_versions) == [version + 1, version + 2]
    assert offsets(api, stream_id) == {table_id: 7}


@rule("NU-27", "NU-28", "NU-29", "NU-30", "NU-38", "NU-47")
def test_a_batch_chains_and_idle_streams_follow(api: Api) -> None:
    database_id, (table_id, other), first = api.ingest(2)
    second, idle = (api.stream(api.token(database_id, table_id)[1]) for _ in range(2))
    api.register(database_id, other, first, -1, 100)
    merges = [
        api.merge(database_id, table_id, api.offset(first, table_id, -1, 1), api.offset(second, table_id, -1, 4)),
        api.merge(database_id, table_id, api.offset(first, table_id, 1, 2)),
    ]
    request = {"database_id": database_id, "merges": merges}
    with refused(StatusCode.INVALID_ARGUMENT):
        api.RegisterMergedSegments(
            **request, idle_advances=[api.offset(second, table_id, 4, 5)], register_request_id=name("r")
        )
    answer = api.RegisterMergedSegments(
        **request, idle_advances=[api.offset(idle, table_id, -1, 9)], register_request_id=name("r")
    )
    one, two = answer.segment_versions
    assert two == one + 1
    streams = {stream.stream_id: stream for stream in answer.streams}
    assert streams.keys() == {first, second, idle}
    assert streams[idle].tables[0].merged_offset == 9
    assert streams[idle].tables[0].offset_checkpoints[0].segment_offset == two
    assert [point.segment_offset for point in streams[second].tables[0].offset_checkpoints] == [one]
    assert offsets(api, first) == {table_id: 2, other: 100}


@rule("NU-32", "NU-33", "NU-35", "NU-04")
def test_a_repeated_request_answers_what_was_done(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    request = {
        "database_id": database_id,
        "merges": [
            api.merge(database_id, table_id, api.offset(stream_id, table_id, -1, 1)),
            api.merge(database_id, table_id, api.offset(stream_id, table_id, 1, 2)),
        ],
        "register_request_id": name("r"),
    }
    first = api.RegisterMergedSegments(**request)
    api.register(database_id, table_id, stream_id, 2, 50)
    version = api.live.catalog.version()
    again = api.RegisterMergedSegments(**request)
    assert again.segment_versions == first.segment_versions
    assert again.meta_response_seq > first.meta_response_seq
    assert api.live.catalog.version() == version
    assert api.live_segments(table_id) == 3
    request["merges"] = [api.merge(database_id, table_id, api.offset(stream_id, table_id, 50, 51))]
    with refused(StatusCode.INVALID_ARGUMENT, "another batch"):
        api.RegisterMergedSegments(**request)


@rule("NU-33", "NU-04", "GEN-16")
def test_requests_offsets_and_numbers_survive_a_restart(backend: Backend) -> None:
    uri, store = backend.new_uri(), memory_store()
    with serving(backend, uri=uri, store=store) as live:
        api = Api(live)
        database_id, (table_id,), stream_id = api.ingest()
        merges = [api.merge(database_id, table_id, api.offset(stream_id, table_id, -1, 1))]
        request = {"database_id": database_id, "merges": merges, "register_request_id": "once"}
        first = api.RegisterMergedSegments(**request)
    with serving(backend, uri=uri, store=store) as live:
        api = Api(live)
        again = api.RegisterMergedSegments(**request)
        assert again.segment_versions == first.segment_versions
        assert again.meta_response_seq > first.meta_response_seq
        assert api.live_segments(table_id) == 1
        assert offsets(api, stream_id) == {table_id: 1}


@rule("NU-36")
def test_a_segment_is_registered_once(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    merge = api.merge(database_id, table_id, api.offset(stream_id, table_id, -1, 1))
    request = {"database_id": database_id, "merges": [merge]}
    api.RegisterMergedSegments(**request, register_request_id=name("r"))
    merge.stream_offsets[0].start_merged_offset, merge.stream_offsets[0].new_merged_offset = 1, 2
    with refused(StatusCode.ALREADY_EXISTS):
        api.RegisterMergedSegments(**request, register_request_id=name("r"))
    assert offsets(api, stream_id) == {table_id: 1}


@rule("NU-45", "NU-13", "NU-02")
def test_nothing_goes_past_the_end_of_a_stream(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    api.MarkStreamStopped(stream_id=stream_id, final_offset=5, stopped_at_nanos=9)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.register(database_id, table_id, stream_id, -1, 6)
    api.register(database_id, table_id, stream_id, -1, 5)
    found = info(api, stream_id)
    assert (found.stopped_at_nanos, found.stopped_offset) == (9, 5)
    assert found.tables[0].merged_offset == found.stopped_offset


@rule("NU-46", "TB-25")
def test_a_dropped_table_takes_what_was_acknowledged_until_its_end(api: Api) -> None:
    database_id, (table_id, other) = api.tables(2)
    stream_id = api.stream(api.token(database_id, other)[1])
    api.DeleteTable(database_id=database_id, table_id=table_id)
    api.register(database_id, table_id, stream_id, -1, 1)
    late = api.merge(database_id, table_id, api.offset(stream_id, table_id, 1, 2))
    api.live.clock.forward(86401)
    with refused(StatusCode.NOT_FOUND):
        api.RegisterMergedSegments(database_id=database_id, merges=[late], register_request_id=name("r"))


@rule("NU-48", "SG-02", "SG-03")
@pytest.mark.parametrize(
    "fields",
    [
        {"audt_hash": b"short"},
        {"audt_hash": b"x" * 32, "audt_algo": 3},
        {"time_range": {"start_time": 5, "end_time": 4}},
        {"time_range": {"start_time": 5, "end_time": 9}, "ingest_time_range": {"start_time": 4, "end_time": 9}},
        {"time_range": {"start_time": 5, "end_time": 9}, "ingest_time_range": {"start_time": 5, "end_time": 8}},
        {"time_range": {"start_time": 0, "end_time": 99}},
        {"number_of_events": 11},
        {"number_of_events": -1},
        {"size_bytes": -1},
        {"compressed_size_bytes": -5},
        {"cloud_object_key": {"key": "/abs"}},
        {"cloud_object_key": {"key": "../x"}},
        {"cloud_object_key": {"key": "seg-456.parquet"}},
        {"cloud_object_key": {"prefix": {"bucket": {"bucket": "other"}}}},
        {"cloud_object_key": {"prefix": {"bucket": {"provider": "gcs"}}}},
    ],
)
def test_a_segment_with_a_bad_field_is_refused(api: Api, fields: dict[str, object]) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    segment = api.segment(database_id, table_id, **fields)
    merge = pb.MergeRegistration(segment=segment, stream_offsets=[api.offset(stream_id, table_id, -1, 1)])
    with refused(StatusCode.INVALID_ARGUMENT):
        api.RegisterMergedSegments(database_id=database_id, merges=[merge], register_request_id=name("r"))


@rule("NU-48")
def test_a_segment_that_was_never_written_is_refused(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    segment = api.segment(database_id, table_id)
    api.live.lake.store.delete([segment.data_file.path])
    for _ in ("with its facts", "and without them"):
        merge = pb.MergeRegistration(segment=segment, stream_offsets=[api.offset(stream_id, table_id, -1, 1)])
        with refused(StatusCode.FAILED_PRECONDITION, "not in storage"):
            api.RegisterMergedSegments(database_id=database_id, merges=[merge], register_request_id=name("r"))
        segment.ClearField("data_file")


@dataclass(frozen=True)
class Written:
    """A segment of two rows that lies where it was staged, and the registration of it by its key alone."""

    state: TableState
    facts: SegmentFacts
    nanos: int
    merge: pb.MergeRegistration

    @classmethod
    def at(cls, api: Api, database_id: str, table_id: str, stream_id: str, *, level: int) -> Written:
        state = api.live.catalog.table_by_id(UUID(table_id))
        key = api.StageSegments(database_id=database_id, table_id=table_id, count=1).keys[0]
        parsed = paths.parse_segment_path(f"{key.prefix.prefix}/{key.key}")
        assert parsed is not None
        moment = datetime(2026, 1, 2, tzinfo=UTC)
        rows = [{"event_time": moment, "ingest_time": moment, "body": text} for text in ("a", "b")]
        table = pa.Table.from_pylist(rows, schema=arrow_schema(state.schema))
        facts = write_segment(api.live.lake.store, Layout.of(state), [table], (), parsed[1], level=level)
        folder, _, called = facts.path.rpartition("/")
        nanos = int(moment.timestamp()) * SECOND
        segment = {
            "table_id": table_id,
            "cloud_object_key": {"prefix": {"prefix": f"{folder}/"}, "key": called},
            "time_range": {"start_time": nanos, "end_time": nanos},
            "number_of_events": 2,
        }
        offset = api.offset(stream_id, table_id, -1, 1)
        return cls(state, facts, nanos, pb.MergeRegistration(segment=segment, stream_offsets=[offset]))

    def live(self, api: Api) -> SegmentFacts:
        (found,) = api.live.catalog.segments(self.state.id, api.live.catalog.version())
        return found.facts


@rule("NU-43", "NU-48")
def test_a_written_segment_is_read_in_the_next_scan(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    written = Written.at(api, database_id, table_id, stream_id, level=0)
    wrong = pb.MergeRegistration.FromString(written.merge.SerializeToString())
    wrong.segment.number_of_events = 3
    with refused(StatusCode.INVALID_ARGUMENT, "2 rows"):
        api.RegisterMergedSegments(database_id=database_id, merges=[wrong], register_request_id=name("r"))
    api.RegisterMergedSegments(database_id=database_id, merges=[written.merge], register_request_id=name("r"))
    read = api.live.lake.table(written.state.full_name).scan().to_arrow()
    assert read.column("body").to_pylist() == ["a", "b"]
    found = written.live(api)
    assert (found.sha256, found.time_min, found.rows) == (written.facts.sha256, written.nanos, 2)


@rule("NU-48")
def test_the_level_of_a_segment_is_that_of_its_file(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    written = Written.at(api, database_id, table_id, stream_id, level=1)
    api.RegisterMergedSegments(database_id=database_id, merges=[written.merge], register_request_id=name("r"))
    assert written.live(api).level == 1


@rule("NU-48")
def test_a_file_without_stored_positions_is_of_level_0(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    with monkeypatch.context() as patch:
        patch.setattr(segment, "tuning", lambda level, settings: LEVELS[0])  # knows of levels, not of positions
        written = Written.at(api, database_id, table_id, stream_id, level=1)
    given = pb.MergeRegistration.FromString(written.merge.SerializeToString())
    given.segment.data_file.CopyFrom(codec.segment_to_ref(LiveSegment(written.facts, 0, 0, 0), codec.ADDED))
    with refused(StatusCode.INVALID_ARGUMENT, STORED_POSITION):
        api.RegisterMergedSegments(database_id=database_id, merges=[given], register_request_id=name("r"))
    api.RegisterMergedSegments(database_id=database_id, merges=[written.merge], register_request_id=name("r"))
    assert written.live(api).level == 0


def test_a_segment_number_that_was_never_handed_out_is_refused(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    segment = api.segment(database_id, table_id)
    folder = f"tables/{table_id}/data/_moulin_segment=9000000"
    segment.cloud_object_key.prefix.prefix = folder
    segment.data_file.path, segment.data_file.number = f"{folder}/{segment.cloud_object_key.key}", 9_000_000
    api.live.lake.store.put(segment.data_file.path, bytes(100))
    merge = pb.MergeRegistration(segment=segment, stream_offsets=[api.offset(stream_id, table_id, -1, 1)])
    with refused(StatusCode.INVALID_ARGUMENT, "allocated"):
        api.RegisterMergedSegments(database_id=database_id, merges=[merge], register_request_id=name("r"))
    for bad in (0, -1, 1 << 30):
        with refused(StatusCode.INVALID_ARGUMENT):
            api.StageSegments(database_id=database_id, table_id=table_id, count=bad)


def test_a_keyed_table_takes_no_streams(api: Api) -> None:
    database_id, _, stream_id = api.ingest()
    called = api.GetDatabase(database_id=database_id).database.name
    keyed = api.live.lake.create_table(f"{called}.keyed", [("id", "long", False)], primary_key=["id"])
    merge = api.merge(database_id, str(keyed.id), api.offset(stream_id, str(keyed.id), -1, 1))
    merge.segment.ClearField("time_range")
    with refused(StatusCode.FAILED_PRECONDITION, "key"):
        api.RegisterMergedSegments(database_id=database_id, merges=[merge], register_request_id=name("r"))


@rule("NU-10")
def test_checkpoints_of_the_last_half_hour_and_the_one_before_are_kept(fresh: Live) -> None:
    api = Api(fresh)
    database_id, (table_id,), stream_id = api.ingest()
    for offset in range(4):
        api.register(database_id, table_id, stream_id, offset - 1, offset)
        fresh.clock.forward(1000)
    collect(fresh.catalog)
    points = info(api, stream_id).tables[0].offset_checkpoints
    assert [point.stream_offset for point in points] == [2, 3]
    fresh.clock.forward(4000)
    collect(fresh.catalog)
    assert [point.stream_offset for point in info(api, stream_id).tables[0].offset_checkpoints] == [3]


@rule("NU-18", "NU-19", "NU-20", "NU-21")
def test_a_stream_is_stopped_once_and_not_before_what_is_taken_in(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    assert (pb.STOP_REASON_UNSPECIFIED, pb.STOP_REASON_CLIENT, pb.STOP_REASON_TIMEOUT) == (0, 1, 2)
    api.register(database_id, table_id, stream_id, -1, 5)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.MarkStreamStopped(stream_id=stream_id, final_offset=4, stopped_at_nanos=1)
    stopped = {"stream_id": stream_id, "final_offset": 6, "stopped_at_nanos": 7, "reason": pb.STOP_REASON_TIMEOUT}
    api.MarkStreamStopped(**stopped)
    api.MarkStreamStopped(**{**stopped, "stopped_at_nanos": 8, "reason": pb.STOP_REASON_CLIENT})
    with refused(StatusCode.FAILED_PRECONDITION):
        api.MarkStreamStopped(**{**stopped, "final_offset": 9})
    found = info(api, stream_id)
    assert (found.stopped_at_nanos, found.stopped_offset, found.stop_reason) == (7, 6, pb.STOP_REASON_TIMEOUT)
    with refused(StatusCode.NOT_FOUND):
        api.MarkStreamStopped(stream_id=NOBODY, final_offset=1)
    for bad in ({"stream_id": "x"}, {"final_offset": -2}, {"final_offset": (1 << 63) - 1}, {"stopped_at_nanos": -1}):
        with refused(StatusCode.INVALID_ARGUMENT):
            api.MarkStreamStopped(**{**stopped, **bad})


@rule("NU-49", "NU-50", "NU-51", "NU-52", "NU-54", "NU-55")
def test_the_deleted_offset_rises_up_to_what_every_table_took_in(api: Api) -> None:
    database_id, (one, two), stream_id = api.ingest(2)
    with refused(StatusCode.FAILED_PRECONDITION):  # no table has merged anything
        api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=0)
    api.register(database_id, one, stream_id, -1, 9)
    api.register(database_id, two, stream_id, -1, 5)
    with refused(StatusCode.FAILED_PRECONDITION):
        api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=6)
    api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=5, deleted_ingest_time_nanos=77)
    for lower in (5, 3, -1):
        api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=lower, deleted_ingest_time_nanos=1)
    found = info(api, stream_id)
    assert (found.deleted_offset, found.deleted_ingest_time_nanos) == (5, 77)
    with refused(StatusCode.NOT_FOUND):
        api.UpdateDeletedOffset(stream_id=NOBODY, deleted_offset=1)
    for bad in (-2, (1 << 63) - 1):
        with refused(StatusCode.INVALID_ARGUMENT):
            api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=bad)


@rule("NU-56", "NU-57", "NU-58", "NU-59", "NU-60", "NU-02")
def test_a_table_leaves_a_stream_when_all_of_it_is_taken_in_and_deleted(api: Api) -> None:
    database_id, (one, two), stream_id = api.ingest(2)
    for table_id, offset in ((one, 5), (two, 5)):
        api.register(database_id, table_id, stream_id, -1, offset, time=offset * SECOND)
    ids = {"stream_id": stream_id, "table_id": one}
    for current, merged in ((4, 5), (5, 4), (5, 5)):  # nothing is deleted yet, so the last is refused too
        with refused(StatusCode.FAILED_PRECONDITION):
            api.DeleteIngestStreamTable(**ids, current_offset=current, merged_offset=merged)
    api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=5)
    api.DeleteIngestStreamTable(**ids, current_offset=5, merged_offset=5)
    assert offsets(api, stream_id) == {two: 5}
    with refused(StatusCode.NOT_FOUND):
        api.DeleteIngestStreamTable(**ids, current_offset=5, merged_offset=5)
    with refused(StatusCode.ABORTED):  # it comes back where nothing that was deleted would be read
        api.register(database_id, one, stream_id, -1, 6)
    api.register(database_id, one, stream_id, 5, 6)
    api.register(database_id, two, stream_id, 5, 6)
    api.MarkStreamStopped(stream_id=stream_id, final_offset=6, stopped_at_nanos=1)
    assert api.stream_info(stream_id) is not None
    api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=6)
    assert api.stream_info(stream_id) is None
    api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=6)


@rule("NU-59")
def test_removing_the_last_table_of_a_stopped_stream_retires_it(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    api.register(database_id, table_id, stream_id, -1, 5)
    api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=5)
    api.MarkStreamStopped(stream_id=stream_id, final_offset=6, stopped_at_nanos=1)
    assert api.stream_info(stream_id) is not None
    api.DeleteIngestStreamTable(stream_id=stream_id, table_id=table_id, current_offset=6, merged_offset=5)
    assert api.stream_info(stream_id) is None


def batch(api: Api, stream_id: str, start: int, new: int, **fields: object) -> pb.CommitNurseryBatchResponse:
    frontier = {"stream_id": stream_id, "start_offset": start, "new_offset": new, "ingest_time_nanos": SECOND}
    request = {
        "request_id": name("b"),
        "routing_seq": api.GetIngestStreamsForNursery().routing_seq,
        "frontiers": [frontier],
    }
    answer: pb.CommitNurseryBatchResponse = api.CommitNurseryBatch(**{**request, **fields})
    return answer


@rule("NU-23", "NU-24", "NU-43", "NU-44", "NU-55")
def test_a_batch_is_many_tables_and_one_frontier_in_one_version(api: Api) -> None:
    database_id, (one, two, new), stream_id = api.ingest(3)
    segments = [api.segment(database_id, table_id) for table_id in (one, two, one)]
    routing_seq = api.GetIngestStreamsForNursery().routing_seq
    request = {
        "request_id": name("b"),
        "routing_seq": routing_seq,
        "segments": segments,
        "frontiers": [
            {
                "stream_id": stream_id,
                "start_offset": -1,
                "new_offset": 9,
                "ingest_time_nanos": 3 * SECOND,
                "table_ids": [one, two],
            }
        ],
        "set_asides": [{"stream_id": stream_id, "stream_offset": 4, "records": 2, "reason": "not OTLP"}],
    }
    answer = api.CommitNurseryBatch(**request)
    assert api.CommitNurseryBatch(**request).version == answer.version
    assert api.live_segments(one) == 2
    for table_id in (one, two):
        live = api.live.catalog.segments(UUID(table_id), answer.version)
        assert {segment.added_version for segment in live} == {answer.version}
    assert offsets(api, stream_id) == {one: 9, two: 9}
    assert answer.streams[0].frontier_offset == 9
    aside = api.ListSetAsides(stream_id=stream_id).items
    assert [(item.stream_offset, item.records, item.reason, item.version) for item in aside] == [
        (4, 2, "not OTLP", answer.version)
    ]
    with refused(StatusCode.ABORTED):  # a table new to the stream starts at its frontier
        api.register(database_id, new, stream_id, -1, 10)
    api.register(database_id, new, stream_id, 9, 10)
    with refused(StatusCode.ABORTED, "offset 10"):  # one table is further: its rows would come twice
        batch(api, stream_id, 9, 12)
    api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=9)


def test_a_batch_without_segments_moves_the_frontier(api: Api) -> None:
    _, _, stream_id = api.ingest()
    batch(api, stream_id, -1, 3)
    assert info(api, stream_id).frontier_offset == 3
    with refused(StatusCode.ABORTED):
        batch(api, stream_id, -1, 3)
    api.UpdateDeletedOffset(stream_id=stream_id, deleted_offset=3)
    api.MarkStreamStopped(stream_id=stream_id, final_offset=3, stopped_at_nanos=1)
    assert api.stream_info(stream_id) is None


@rule("TK-15", "IG-11")
def test_a_batch_is_refused_when_routing_moved(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    planned = api.GetIngestStreamsForNursery().routing_seq
    changes = [
        lambda: api.token(database_id, table_id),
        lambda: api.table(database_id),
        lambda: api.RenameTable(database_id=database_id, table_id=table_id, new_name=name("t")),
    ]
    for change in changes:
        change()
        with refused(StatusCode.ABORTED, "outing"):
            batch(api, stream_id, -1, 3, routing_seq=planned)
        planned = api.GetIngestStreamsForNursery().routing_seq
    api.SetTableRetention(database_id=database_id, table_id=table_id, retention_ns=SECOND)
    batch(api, stream_id, -1, 3, routing_seq=planned)


def test_a_bad_batch_is_refused_and_leaves_nothing(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    frontier = {"stream_id": stream_id, "start_offset": -1, "new_offset": 3}
    for fields in (
        {"frontiers": []},
        {"frontiers": [frontier, frontier]},
        {"frontiers": [{**frontier, "new_offset": -2}]},
        {"frontiers": [{**frontier, "start_offset": 5}]},
        {"frontiers": [{**frontier, "table_ids": [table_id]}]},
        {"frontiers": [{**frontier, "stream_id": "x"}]},
        {"request_id": ""},
        {"set_asides": [{"stream_id": stream_id, "stream_offset": 1, "records": -1, "reason": "r"}]},
        {"set_asides": [{"stream_id": stream_id, "stream_offset": 1}]},
        {"set_asides": [{"stream_id": NOBODY, "stream_offset": 1, "reason": "r"}]},
        {"segments": [{"table_id": "x"}]},
        {"segments": [{"table_id": table_id}]},
    ):
        with refused(StatusCode.INVALID_ARGUMENT):
            batch(api, stream_id, -1, 3, **fields)
    assert info(api, stream_id).frontier_offset == -1
    assert api.live_segments(table_id) == 0
    assert database_id


def test_retired_routing_stays_until_streams_have_drained(fresh: Live) -> None:
    api = Api(fresh)
    database_id, (table_id,) = api.tables(1)
    token_id, plaintext = api.token(database_id, table_id)
    stream_id = api.stream(plaintext)
    api.DeleteIngestToken(database_id=database_id, token_id=token_id)
    fresh.clock.forward(4000)
    collect(fresh.catalog)
    assert [token.retired for token in api.GetIngestStreamsForNursery().token_routing] == [True]
    now = fresh.clock()
    frontier = {"stream_id": stream_id, "start_offset": -1, "new_offset": 3, "ingest_time_nanos": now}
    batch(api, stream_id, -1, 3, frontiers=[frontier])
    collect(fresh.catalog)
    assert not api.GetIngestStreamsForNursery().token_routing


def test_what_was_staged_and_never_registered_is_swept(fresh: Live) -> None:
    api = Api(fresh)
    database_id, (table_id,) = api.tables(1)
    key = api.StageSegments(database_id=database_id, table_id=table_id, count=1).keys[0]
    path = f"{key.prefix.prefix}/{key.key}"
    fresh.lake.store.put(path, b"never registered")
    fresh.clock.now = 1 << 62  # far past the object's own time
    swept = collect(fresh.catalog, orphan_grace=3600.0)
    assert path in [garbage.path for garbage in swept.deleted]
