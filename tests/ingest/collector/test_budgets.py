"""Requests that would cost far more than their bytes are refused before they are unpacked, with the limit's name."""

from __future__ import annotations

import gzip
import io
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import httpx
import numpy as np
import pyarrow as pa
import pytest

from moulin.errors import InvalidInput
from moulin.formats.baby_segment import Payload
from moulin.ingest.collector import collector as collector_module
from moulin.ingest.collector.collector import CollectorSettings
from moulin.ingest.collector.limits import RequestLimits, TooLarge
from moulin.ingest.collector.requests import Checked, Inflater, check_json, check_protobuf
from moulin.ingest.collector.rows import check_rows
from moulin.ingest.otlp.mend import varint_bytes
from moulin.model.schema.schema import make_schema
from tests.ingest.collector.test_collector import call, post
from tests.ingest.conftest import FaultyStore, MemoryRegistry, Running, running

LIMITS = RequestLimits()
SMALL = RequestLimits(decoded_bytes=1 << 20, rows=1000, columns=50, values=5000, depth=8)
MIDDLE = RequestLimits(decoded_bytes=8 << 20, rows=10_000, columns=200, values=40_000)
TABLE = make_schema([("id", "long"), ("name", "string")])
MIB = 1 << 20
ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"


@pytest.fixture
def small(store: FaultyStore, registry: MemoryRegistry) -> Iterator[Running]:
    registry.tables["orders"] = TABLE
    with running(store, registry, CollectorSettings(limits=SMALL)) as started:
        yield started


def within(tag: int, value: bytes) -> bytes:
    return bytes((tag,)) + varint_bytes(len(value)) + value


def logs(records: bytes) -> bytes:
    """A request of the fields of one scope."""
    return within(0x0A, within(0x12, records))


def ipc(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def repeated_text(kind: str) -> pa.Array:
    """A million times the same text of a million bytes, in a million bytes or so."""
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**6, np.int8)), pa.array(["x" * 10**6]))
    if kind == "runs":
        return pa.RunEndEncodedArray.from_arrays(pa.array([10**6], pa.int32()), pa.array(["x" * 10**6]))
    views = np.zeros((10**6, 4), np.int32)
    views[:, 0], views[:, 1] = 10**6, 0x78787878
    return pa.Array.from_buffers(pa.string_view(), 10**6, [None, pa.py_buffer(views), pa.py_buffer(b"x" * 10**6)])


def peak(run: Callable[[], object], reason: str) -> int:
    """The bytes that Python and Arrow hold at most while `run` refuses something for this reason."""
    pool, before = pa.default_memory_pool(), pa.default_memory_pool().max_memory()
    held = pool.bytes_allocated()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=reason):
            run()
        python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return python + (pool.max_memory() - held if pool.max_memory() > before else 0)


# Arrow


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"id": pa.nulls(10**9)}),
        pa.record_batch({"id": pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.array([1]))}),
        without_columns(10**9),
    ],
    ids=["nulls", "runs", "no columns"],
)
def test_a_billion_rows_in_a_few_bytes_are_refused(batch: pa.RecordBatch) -> None:
    data = ipc(batch)
    assert len(data) < 500
    with pytest.raises(TooLarge, match="1,000,000 rows.*collector_request_rows"):
        check_rows(Payload.ARROW, data, TABLE, LIMITS)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_buffers_are_measured_before_they_are_unpacked(codec: str) -> None:
    zeros = pa.array(np.zeros(40 * MIB // 8, np.int64))
    data = ipc(pa.record_batch({"id": zeros}), compression=codec)
    assert len(data) < MIB
    limits = RequestLimits(decoded_bytes=32 * MIB, rows=10**9)
    assert peak(lambda: check_rows(Payload.ARROW, data, TABLE, limits), "collector_decoded_bytes") < 4 * MIB
    assert check_rows(Payload.ARROW, data, TABLE, RequestLimits(rows=10**9)) == len(zeros)


@pytest.mark.parametrize("kind", ["dictionary", "runs", "views"])
def test_a_text_that_is_named_again_and_again_counts_each_time(kind: str) -> None:
    data = ipc(pa.record_batch({"name": repeated_text(kind)}), compression="zstd")
    assert len(data) < 5000
    with pytest.raises(TooLarge, match="1,000,000,000,000 bytes.*collector_decoded_bytes"):
        check_rows(Payload.ARROW, data, TABLE, LIMITS)


def test_lists_that_overlap_are_refused() -> None:
    sizes, offsets = pa.array([1000] * 1000, pa.int32()), pa.array([0] * 1000, pa.int32())
    lists = pa.ListViewArray.from_arrays(offsets, sizes, pa.array(range(1000)))
    with pytest.raises(InvalidInput, match="overlap"):
        check_rows(Payload.ARROW, ipc(pa.record_batch({"n": lists})), make_schema([("n", "list<long>")]), LIMITS)


def test_wide_and_deep_schemas_are_refused_by_their_metadata() -> None:
    wide = ipc(pa.record_batch({f"c{i}": pa.array([1]) for i in range(2001)}))
    with pytest.raises(TooLarge, match="2,000 columns.*collector_request_columns"):
        check_rows(Payload.ARROW, wide, TABLE, LIMITS)
    kind: pa.DataType = pa.int64()
    for _ in range(30):
        kind = pa.struct([("a", kind)])
    with pytest.raises(InvalidInput, match="8 levels.*collector_request_depth"):
        check_rows(Payload.ARROW, ipc(pa.record_batch({"id": pa.nulls(1, kind)})), TABLE, SMALL)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_streams_are_refused_or_read(seed: int) -> None:
    chance = np.random.default_rng(seed)
    texts = pa.array(["a", None, "b" * 50] * 20)
    whole = ipc(pa.record_batch({"id": pa.array(range(60)), "name": texts.dictionary_encode()}), compression="zstd")
    for _ in range(400):
        data = bytearray(whole)
        for place in chance.integers(0, len(data), 3):
            data[place] = chance.integers(0, 256)
        try:
            assert check_rows(Payload.ARROW, bytes(data), TABLE, LIMITS) >= 0
        except InvalidInput:
            continue


# JSON


def test_a_new_column_in_every_row_is_refused_early() -> None:
    data = b"".join(b'{"c%d":1}\n' % i for i in range(100_000))
    assert peak(lambda: check_rows(Payload.NDJSON, data, TABLE, LIMITS), "2,000 columns.*columns") < 64 * MIB


@pytest.mark.parametrize(
    ("data", "setting"),
    [
        (b"".join(b'{"c%d":1}\n' % (i % 199) for i in range(9000)), "collector_decoded_bytes"),
        (b'{"a":[' + b",".join(b'{"k%d":1}' % i for i in range(5000)) + b"]}", "collector_decoded_bytes"),
        (b'{"a":[' + b",".join(b'{"k%d":{"j%d":1}}' % divmod(i, 70) for i in range(5000)) + b"]}", "decoded_bytes"),
        (b"{}\n" * 10_001, "collector_request_rows"),
        (b"{} " * 10_001, "collector_request_rows"),
        (b'{"a":[' + b"[]," * 100_000 + b"[]]}", "collector_request_values"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "collector_request_depth"),
        (b'{"a":' * 15_000 + b"1" + b"}" * 15_000, "collector_request_depth"),
        (b'{"id":1}\n' * 50 + b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "collector_request_depth"),
    ],
    ids=["sparse", "structs in a list", "paths", "empty rows", "rows in a line", "lists", "deep", "deeper", "one deep"],
)
def test_lines_that_cost_more_than_they_say_are_refused(data: bytes, setting: str) -> None:
    assert peak(lambda: check_rows(Payload.NDJSON, data, TABLE, MIDDLE), setting) < 24 * MIB


def test_brackets_in_texts_are_not_depth() -> None:
    line = b'{"id":1,"name":"%s"}\n' % (b"{[" * 200 + rb"\"")
    assert check_rows(Payload.NDJSON, line * 3, TABLE, SMALL) == 3
    long = b'{"id":1,"name":"%s"}\n' % (b"{[,:" * 20_000)
    assert check_rows(Payload.NDJSON, long * 2, TABLE, SMALL) == 2


# OTLP


@pytest.mark.parametrize(
    ("data", "setting"),
    [
        (logs(b"\x12\x00" * 10_001), "collector_request_rows"),
        (logs(b"\x12\x00" * 5_000_000), "collector_request_values"),
        (logs(within(0x12, b"\x32\x00" * 5_000_000)), "collector_request_values"),
        (logs(within(0x12, b"\x2a\x00" * 5_000_000)), "collector_request_values"),
        (logs(within(0x12, within(0x2A, within(0x2A, b"\x0a\x00" * 5_000_000)))), "collector_request_values"),
        (b"\x0a\x00" * 5_000_000, "collector_request_values"),
    ],
    ids=["records", "more records", "attributes", "bodies", "values", "resources"],
)
def test_many_tiny_messages_are_counted_before_protobuf_makes_objects_of_them(data: bytes, setting: str) -> None:
    assert peak(lambda: check_protobuf("logs", data, MIDDLE), setting) < len(data) + 24 * MIB


def test_points_of_metrics_count_as_records() -> None:
    gauge = within(0x2A, b"\x0a\x00" * 1001)
    with pytest.raises(TooLarge, match="1,000 rows"):
        check_protobuf("metrics", logs(within(0x12, gauge)), SMALL)


def test_json_with_too_many_values_is_never_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moulin.ingest.collector.requests.to_protobuf", lambda *_: pytest.fail("it was parsed"))
    with pytest.raises(TooLarge, match="4,000,000 values.*collector_request_values"):
        check_json("logs", b'{"resourceLogs":[' + b"{}," * 4_000_000 + b"{}]}", LIMITS)


# The network


@pytest.mark.parametrize(
    ("path", "kind", "data", "status", "setting"),
    [
        ("/v1/logs", "application/x-protobuf", logs(b"\x12\x00" * 1001), 413, "collector_request_rows"),
        ("/v1/logs", "application/json", b'{"resourceLogs":[' + b"{}," * 5000 + b"{}]}", 413, "request_values"),
        ("/v1/append/shop.orders", NDJSON, b'{"id":1}\n' * 1001, 413, "collector_request_rows"),
        ("/v1/append/shop.orders", NDJSON, b'{"id":' * 9 + b"1" + b"}" * 9, 400, "collector_request_depth"),
        ("/v1/append/shop.orders", ARROW, ipc(pa.record_batch({"id": pa.nulls(10**9)})), 413, "request_rows"),
        ("/v1/append/shop.orders", ARROW, ipc(pa.record_batch({"name": repeated_text("runs")})), 413, "request_rows"),
    ],
    ids=["protobuf", "json", "rows of json", "deep json", "rows of arrow", "runs"],
)
def test_the_answer_names_the_limit(
    small: Running, path: str, kind: str, data: bytes, status: int, setting: str
) -> None:
    answer = post(small, data, path, content_type=kind)
    assert (answer.status_code, setting.encode() in answer.content) == (status, True)
    zipped = post(small, gzip.compress(data), path, content_type=kind, content_encoding="gzip")
    assert (zipped.status_code, setting.encode() in zipped.content) == (status, True)
    assert small.entries() == []


def test_grpc_answers_with_the_limit_too(small: Running) -> None:
    with pytest.raises(grpc.RpcError) as told:
        call(small, logs(b"\x12\x00" * 1001))
    assert told.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "collector_request_rows" in told.value.details()


def test_requests_are_checked_and_unzipped_outside_of_the_event_loop(
    collector: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noting(real: Callable[..., Any]) -> Callable[..., Any]:
        def note(*arguments: Any) -> Any:
            threads.append(threading.current_thread().name)
            return real(*arguments)

        return note

    for name, real in (("check_protobuf", check_protobuf), ("check_json", check_json), ("check_rows", check_rows)):
        monkeypatch.setattr(collector_module, name, noting(real))
    monkeypatch.setattr(Inflater, "feed", noting(Inflater.feed))
    data = logs(within(0x12, b"\x09" + b"\1" * 8))
    call(collector, data)
    assert post(collector, gzip.compress(data), content_encoding="gzip").status_code == 200
    assert post(collector, b'{"resourceLogs":[]}', content_type="application/json").status_code == 200
    assert post(collector, b'{"id":1}', "/v1/append/shop.orders", content_type=NDJSON).status_code == 200
    assert len(threads) == 5
    assert all(name.startswith("moulin-collector-check") for name in threads)
    assert len(set(threads)) <= CollectorSettings().threads


def test_gzip_is_unpacked_piece_by_piece_up_to_the_limit() -> None:
    inflater, bomb = Inflater(4 * MIB), gzip.compress(bytes(64 * MIB))
    pieces: list[int] = []
    with pytest.raises(TooLarge, match="collector_request_bytes"):
        while bomb:
            piece, bomb = inflater.feed(bomb)
            pieces.append(len(piece))
    assert pieces == [MIB] * 4


def test_gzip_that_unpacks_to_nothing_is_refused_by_its_own_bytes(store: FaultyStore, registry: MemoryRegistry) -> None:
    with running(store, registry, CollectorSettings(request_bytes=20_000)) as collector:
        assert post(collector, gzip.compress(b"") * 1100, content_encoding="gzip").status_code == 413


def test_other_requests_are_answered_while_one_is_checked(collector: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    checking, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Checked:
        checking.set()
        assert go_on.wait(20)
        return check_protobuf(*arguments)

    monkeypatch.setattr(collector_module, "check_protobuf", slow)
    sender = threading.Thread(target=post, args=(collector, logs(within(0x12, b""))))
    sender.start()
    try:
        assert checking.wait(20)
        assert httpx.get(f"{collector.url}/healthz").status_code == 200
    finally:
        go_on.set()
        sender.join()
