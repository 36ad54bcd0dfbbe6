"""Clients that know only the messages of the first version: no field from 100 on, no staged paths, no lineage."""

from __future__ import annotations

import hashlib
import io
import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from google.protobuf.message import Message
from grpc import StatusCode

from moulin._proto.moulin.meta.v1 import common_pb2, merge_task_pb2
from moulin._proto.moulin.meta.v1 import nursery_pb2 as pb
from moulin.config import Config
from moulin.model.layout.sort_order import UNSORTED_SORT_ORDER
from moulin.model.schema.arrow import arrow_schema
from tests.contract.conftest import Backend
from tests.meta.api import SECOND, Api
from tests.meta.conftest import Live, name, refused, serving
from tests.meta.merging import Shop, open_shop
from tests.meta.rules import rule

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
NANOS = int(MOMENT.timestamp()) * SECOND


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


@pytest.fixture
def shop(live: Live) -> Shop:
    return open_shop(live)


def forget_later_fields(message: Message) -> Any:
    """The message as a client of the first version sees it."""
    for field, value in message.ListFields():
        if field.number >= 100:
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in value if field.is_repeated else [value]:
                forget_later_fields(one)
    return message


def upload(api: Api, table_id: str, texts: str = "ab", **columns: Any) -> common_pb2.CreateSegment:
    """A file that pyarrow wrote, below the prefix that the list of streams gives, and its description."""
    tables = forget_later_fields(api.GetIngestStreamsForNursery()).tables
    prefix = next(table.cloud_object_prefix for table in tables if table.id == table_id)
    state = api.live.catalog.table_by_id(UUID(table_id))
    rows = [{"event_time": MOMENT, "ingest_time": MOMENT, "body": text, **columns} for text in texts]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(state.schema)), sink)
    data, called = sink.getvalue(), f"{name('seg')}.parquet"
    api.live.lake.store.put(f"{prefix.prefix.strip('/')}/{called}", data)
    return common_pb2.CreateSegment(
        table_id=table_id,
        time_range={"start_time": NANOS, "end_time": NANOS},
        ingest_time_range={"start_time": NANOS, "end_time": NANOS},
        size_bytes=len(data),
        compressed_size_bytes=len(data),
        number_of_events=len(rows),
        cloud_object_key={"prefix": prefix, "key": called},
        audt_hash=hashlib.sha256(data).digest(),
    )


def path_of(segment: common_pb2.CreateSegment) -> str:
    return f"{segment.cloud_object_key.prefix.prefix.strip('/')}/{segment.cloud_object_key.key}"


def merge(api: Api, segment: common_pb2.CreateSegment, stream_id: str, start: int, new: int) -> pb.MergeRegistration:
    offset = api.offset(stream_id, segment.table_id, start, new, NANOS)
    return pb.MergeRegistration(segment=segment, stream_offsets=[offset])


def bodies(api: Api, table_id: str) -> list[str]:
    full_name = api.live.catalog.table_by_id(UUID(table_id)).full_name
    return sorted(api.live.lake.table(full_name).scan().to_arrow().column("body").to_pylist())


@rule("NU-32", "NU-36", "NU-43", "NU-48")
def test_an_upload_under_a_name_of_its_own_is_registered_once(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    segment = upload(api, table_id)
    request = {
        "database_id": database_id,
        "merges": [merge(api, segment, stream_id, -1, 1)],
        "register_request_id": name("r"),
    }
    first = api.RegisterMergedSegments(**request)
    assert bodies(api, table_id) == ["a", "b"]
    again = api.RegisterMergedSegments(**request)
    assert list(again.segment_versions) == list(first.segment_versions)
    api.live.lake.store.delete([path_of(segment)])
    assert list(api.RegisterMergedSegments(**request).segment_versions) == list(first.segment_versions)
    assert bodies(api, table_id) == ["a", "b"], "the upload may go: the segment is a copy"
    other = {**request, "merges": [merge(api, segment, stream_id, 1, 2)]}
    with refused(StatusCode.INVALID_ARGUMENT, "another batch"):
        api.RegisterMergedSegments(**other)


@rule("NU-36")
def test_the_same_upload_under_another_request_is_refused(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    segment = upload(api, table_id)
    for start, code in ((-1, None), (1, StatusCode.ALREADY_EXISTS)):
        merges = [merge(api, segment, stream_id, start, start + 2)]
        request = {"database_id": database_id, "merges": merges, "register_request_id": name("r")}
        if code is None:
            api.RegisterMergedSegments(**request)
            continue
        with refused(code):
            api.RegisterMergedSegments(**request)
    assert bodies(api, table_id) == ["a", "b"]


@rule("NU-48")
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(("algorithm", "make"), [(0, hashlib.sha256), (2, hashlib.sha3_256)])
def test_a_wrong_hash_is_refused_and_leaves_nothing(api: Api, algorithm: int, make: Any, staged: bool) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    segment = upload(api, table_id)
    data = api.live.lake.store.get(path_of(segment))
    if staged:
        key = api.StageSegments(database_id=database_id, table_id=table_id, count=1).keys[0]
        segment.cloud_object_key.CopyFrom(key)
        api.live.lake.store.put(path_of(segment), data)
    version = api.live.catalog.version()
    segment.audt_algo = algorithm
    request_id = name("r")
    for digest, code in ((make(b"other").digest(), StatusCode.INVALID_ARGUMENT), (make(data).digest(), None)):
        segment.audt_hash = digest
        request = {"merges": [merge(api, segment, stream_id, -1, 1)], "register_request_id": request_id}
        if code is not None:
            with refused(code, "audt_hash"):
                api.RegisterMergedSegments(database_id=database_id, **request)
            assert api.live.catalog.version() == version
            assert bodies(api, table_id) == []
        else:
            api.RegisterMergedSegments(database_id=database_id, **request)
    [found] = api.live.catalog.segments(UUID(table_id), api.live.catalog.version())
    assert found.facts.sha256 == hashlib.sha256(data).digest()


@rule("NU-48")
def test_an_upload_that_is_not_as_described_is_refused(api: Api) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    good = upload(api, table_id)

    def refuse(code: StatusCode, text: str, **fields: Any) -> None:
        segment = common_pb2.CreateSegment.FromString(good.SerializeToString())
        for field, value in fields.items():
            setattr(segment, field, value)
        with refused(code, text):
            api.RegisterMergedSegments(
                database_id=database_id,
                merges=[merge(api, segment, stream_id, -1, 1)],
                register_request_id=name("r"),
            )

    refuse(StatusCode.INVALID_ARGUMENT, "rows", number_of_events=3)
    refuse(StatusCode.INVALID_ARGUMENT, "bytes", compressed_size_bytes=3)
    api.live.lake.store.put(path_of(good), b"no Parquet at all, only words")
    refuse(StatusCode.INVALID_ARGUMENT, "Parquet", audt_hash=b"", compressed_size_bytes=0)
    api.live.lake.store.delete([path_of(good)])
    refuse(StatusCode.FAILED_PRECONDITION, "not in storage")
    sink = io.BytesIO()
    pq.write_table(pa.table({"body": ["x", "y"]}), sink)
    api.live.lake.store.put(path_of(good), sink.getvalue())
    refuse(StatusCode.INVALID_ARGUMENT, "", audt_hash=b"", compressed_size_bytes=0)
    assert api.live_segments(table_id) == 0


@rule("NU-48")
@pytest.mark.parametrize(
    "given", [(NANOS + 7, NANOS + 9), (0, NANOS), (NANOS, NANOS + SECOND), None], ids=["rounded", "low", "high", "none"]
)
def test_rows_are_found_by_time_whatever_range_is_given(api: Api, given: tuple[int, int] | None) -> None:
    database_id, (table_id,), stream_id = api.ingest()
    segment = upload(api, table_id)
    request = {"database_id": database_id, "register_request_id": name("r")}
    segment.ingest_time_range.end_time = NANOS + SECOND
    segment.time_range.end_time = 5
    segment.time_range.start_time = 0
    with refused(StatusCode.INVALID_ARGUMENT, "holds times"):
        api.RegisterMergedSegments(merges=[merge(api, segment, stream_id, -1, 1)], **request)
    segment.ClearField("time_range")
    if given is not None:
        segment.time_range.start_time, segment.time_range.end_time = given
        segment.ingest_time_range.start_time = given[0]
    api.RegisterMergedSegments(merges=[merge(api, segment, stream_id, -1, 1)], **request)
    table = api.live.lake.table(api.live.catalog.table_by_id(UUID(table_id)).full_name)
    assert table.scan(where="event_time = timestamp '2026-01-02T00:00:00Z'").to_arrow().num_rows == 2
    [found] = api.live.catalog.segments(UUID(table_id), api.live.catalog.version())
    first, last = found.facts.time_min, found.facts.time_max
    assert first is not None
    assert first <= NANOS
    assert last is not None
    assert last >= NANOS


def test_an_upload_in_another_order_is_not_taken_for_a_sorted_one(live: Live, api: Api) -> None:
    shop = open_shop(live, sort_by=["id"])
    state = shop.table.state()
    database_id, stream_id = str(shop.database_id), api.stream(api.token(str(shop.database_id), str(shop.id))[1])
    for start, ids in ((-1, [3, 1, 2]), (1, [1, 2, 3])):
        rows = [{"id": n, "ts": MOMENT} for n in ids]
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(state.schema)), sink)
        path = f"tables/{shop.id}/data/{name('seg')}.parquet"
        live.lake.store.put(path, sink.getvalue())
        folder, _, called = path.rpartition("/")
        key = {"prefix": {"prefix": folder}, "key": called}
        segment = common_pb2.CreateSegment(table_id=str(shop.id), cloud_object_key=key)
        merges = [merge(api, segment, stream_id, start, start + 2)]
        api.RegisterMergedSegments(database_id=database_id, merges=merges, register_request_id=name("r"))
    orders = [s.facts.sort_order_id for s in live.catalog.segments(shop.id, live.catalog.version())]
    assert orders == [UNSORTED_SORT_ORDER.order_id, state.sort_order_id]
    shop.table.compact(everything=True)
    assert shop.ids() == [1, 1, 2, 2, 3, 3]


def concatenated(shop: Shop, task: common_pb2.SegmentMergeTaskInfo) -> merge_task_pb2.CompleteSegmentMergeTaskRequest:
    """What a worker of the first version does: read the files, write one, hash it."""
    store, parts = shop.live.lake.store, []
    for segment in task.segments:
        key = segment.cloud_object_key
        parts.append(pq.read_table(io.BytesIO(store.get(f"{key.prefix.prefix}/{key.key}"))))
    sink = io.BytesIO()
    table = pa.concat_tables(parts)
    pq.write_table(table, sink)
    data, called = sink.getvalue(), f"{name('seg')}.parquet"
    store.put(f"{task.cloud_object_prefix.prefix.strip('/')}/{called}", data)
    segment = common_pb2.CreateSegment(
        table_id=task.table_id,
        compressed_size_bytes=len(data),
        number_of_events=table.num_rows,
        cloud_object_key={"prefix": task.cloud_object_prefix, "key": called},
        audt_hash=hashlib.sha256(data).digest(),
    )
    return merge_task_pb2.CompleteSegmentMergeTaskRequest(task_id=task.task_id, merged_segment=segment)


@rule("MT-07", "MT-09", "MT-12", "INV-2")
def test_a_merge_task_is_completed_without_lineage_or_journal(shop: Shop) -> None:
    shop.fill(3)
    lineage = shop.table.scan(columns=["id", "_row_id"]).to_arrow().sort_by("id")
    assert shop.create().tasks_created == 1
    task = forget_later_fields(shop.claim())
    request = concatenated(shop, task)
    done = shop.tasks.CompleteSegmentMergeTask(request)
    assert done.WhichOneof("result") == "success", done.error.message
    assert shop.table.scan(columns=["id", "_row_id"]).to_arrow().sort_by("id") == lineage
    state = shop.table.state()
    assert len(shop.live.catalog.segments(state.id, state.version)) == 1
    assert shop.list() == []
    version = shop.table.version
    again = shop.tasks.CompleteSegmentMergeTask(request)
    assert again == done
    assert shop.table.version == version


@rule("MT-12")
def test_rows_deleted_while_such_a_worker_ran_stay_deleted(shop: Shop) -> None:
    shop.fill(3)
    shop.create()
    request = concatenated(shop, forget_later_fields(shop.claim()))
    shop.table.delete_where("id = 5")
    left = shop.ids()
    done = shop.tasks.CompleteSegmentMergeTask(request)
    assert done.WhichOneof("result") == "success", done.error.message
    assert shop.ids() == left
    assert 5 not in left


@rule("MT-06", "MT-11", "MT-13", "MT-15")
def test_such_an_output_is_checked_and_a_wrong_one_changes_nothing(shop: Shop) -> None:
    shop.fill(2)
    shop.create()
    task = forget_later_fields(shop.claim())
    version, good = shop.table.version, concatenated(shop, task)

    def refuse(text: str, **fields: Any) -> None:
        request = merge_task_pb2.CompleteSegmentMergeTaskRequest.FromString(good.SerializeToString())
        for field, value in fields.items():
            setattr(request.merged_segment, field, value)
        assert text in shop.tasks.CompleteSegmentMergeTask(request).error.message

    refuse("audt_hash is not", audt_hash=hashlib.sha256(b"other").digest())
    refuse("hash", audt_hash=b"")
    refuse("rows", number_of_events=1)
    task.segments.pop()
    fewer = concatenated(shop, task)
    assert "live rows" in shop.tasks.CompleteSegmentMergeTask(fewer).error.message
    assert shop.table.version == version
    assert shop.tasks.CompleteSegmentMergeTask(good).WhichOneof("result") == "success"


@rule("NU-37", "NU-26")
def test_a_loser_of_a_race_that_cannot_get_the_catalog_is_told_that_it_lost(backend: Backend) -> None:
    with serving(backend, config=Config(lock_seconds=0.5)) as live:
        api = Api(live)
        database_id, (table_id,), stream_id = api.ingest()
        lost = api.merge(database_id, table_id, api.offset(stream_id, table_id, -1, 5))
        open_ = api.merge(database_id, table_id, api.offset(stream_id, table_id, 5, 6))
        api.register(database_id, table_id, stream_id, -1, 5)
        held, over = threading.Event(), threading.Event()

        def hold() -> None:
            with live.catalog.pool.write() as write:
                if write.connection.dialect.name == "postgresql":  # which would end the session
                    write.connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
                held.set()
                over.wait(60)

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait(60)
        try:
            for part, code in ((lost, StatusCode.ABORTED), (open_, StatusCode.UNAVAILABLE)):
                with refused(code):
                    api.RegisterMergedSegments(database_id=database_id, merges=[part], register_request_id=name("r"))
        finally:
            over.set()
            holder.join()
