"""OTLP requests as tables, compared with what protobuf's own classes say."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from moulin.ingest.otlp import otlp
from moulin.ingest.otlp.former import former_rows
from moulin.ingest.otlp.otlp import REQUESTS, Decoded, decode, ingest_time
from moulin.model.otel import FORMER_SCHEMAS, SCHEMAS, SIGNALS, Signal, superset, takes
from tests.ingest import reference

INGEST = 1_800_000_000_000_000_000


def to_rows(decoded: Decoded) -> list[dict[str, Any]]:
    """The rows with times as numbers, so that every nanosecond counts."""
    decoded.rows.validate(full=True)
    table = decoded.rows.cast(pa.schema([pa.field(f.name, _numbers(f.type)) for f in decoded.rows.schema]))
    return table.to_pylist()


def _numbers(type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type):
        return pa.int64()
    if pa.types.is_struct(type):
        return pa.struct([(f.name, _numbers(f.type)) for f in type])
    return pa.list_(_numbers(type.value_type)) if pa.types.is_list(type) else type


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Equal as sets of rows: points come a kind at a time."""
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize("signal", SIGNALS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_decodes_as_protobuf_does(signal: Signal, seed: int) -> None:
    generator = reference.Generator(seed)
    requests = [generator.request(signal) for _ in range(3)]
    decoded = decode(signal, requests, [INGEST, INGEST, INGEST + 1_000_000_000])
    assert decoded.poison == {}
    assert decoded.rows.schema.equals(SCHEMAS[signal])
    expected = [reference.rows(signal, requests[i], INGEST + (i == 2) * 1_000_000_000) for i in range(3)]
    same(to_rows(decoded), [row for rows in expected for row in rows])
    former = dataclasses.replace(decoded, rows=former_rows(signal, decoded.rows))
    assert former.rows.schema.equals(FORMER_SCHEMAS[signal])
    older = [reference.former_rows(signal, requests[i], INGEST + (i == 2) * 1_000_000_000) for i in range(3)]
    same(to_rows(former), [row for rows in older for row in rows])
    assert np.bincount(decoded.request, minlength=3).tolist() == [len(rows) for rows in expected]


def test_what_is_odd_but_valid_is_rewritten_by_protobuf() -> None:
    one = _log("one")
    twice = one + _log("two")  # concatenated messages are one message
    body_twice = bytearray(one)
    unknown_group = one + b"\xa3\x1f\xa4\x1f"  # field 500, an empty group
    for data, count in ((twice, 2), (bytes(body_twice), 1), (unknown_group, 1)):
        decoded = decode("logs", [data, one], [INGEST] * 2)
        assert decoded.rows.num_rows == count + 1
        assert decoded.poison == {}


def test_a_message_given_in_two_parts_is_united() -> None:
    record = b"\x2a\x05\x0a\x03abc" + b"\x2a\x05\x0a\x03def"  # body twice: the later text counts
    data = _wrapped(record)
    assert ExportLogsServiceRequest.FromString(data).resource_logs[0].scope_logs[0].log_records[0].body.string_value
    assert decode("logs", [data], [INGEST]).rows["body"].to_pylist() == ["def"]


@pytest.mark.parametrize("bad", [b"\xff\xff\xff", b"\x0a\x0a\x12\x08\x12\x06\x2a\x04\x0a\x02\xff\xfe", b"\x0a\x7f\x00"])
def test_poison_is_set_aside_and_the_rest_goes_on(bad: bytes) -> None:
    decoded = decode("logs", [_log("a"), bad, _log("b")], [INGEST] * 3)
    assert decoded.rows["body"].to_pylist() == ["a", "b"]
    assert decoded.request.tolist() == [0, 2]
    assert list(decoded.poison) == [1]
    assert "OTLP" in decoded.poison[1]


@pytest.mark.parametrize("signal", SIGNALS)
@settings(max_examples=60)
@example(seed=35273, places=[(443, 26), (1756, 0)])  # damage in a reference to an entity, which no column keeps
@given(seed=st.integers(0, 2**32), places=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4))
def test_damaged_requests_never_do_harm(signal: Signal, seed: int, places: list[tuple[int, int]]) -> None:
    """Whatever protobuf accepts gives the rows that it says; what it refuses is poison; nothing else is raised."""
    data = bytearray(reference.Generator(seed).request(signal))
    for place, byte in places:
        if data:
            data[place % len(data)] = byte
    good = reference.Generator(seed + 1).request(signal)
    decoded = decode(signal, [good, bytes(data)], [INGEST] * 2)
    try:
        REQUESTS[signal].FromString(bytes(data))
    except Exception:  # noqa: BLE001 (whatever protobuf raises)
        assert set(decoded.poison) == {1}
        return
    same(to_rows(decoded), reference.rows(signal, good, INGEST) + reference.rows(signal, bytes(data), INGEST))
    assert decoded.poison == {}


def test_many_requests_are_decoded_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "_CHUNK_BYTES", 60)
    requests = [_log(str(i)) if i % 5 else b"\xff" for i in range(23)]
    decoded = decode("logs", requests, [INGEST + 1000 * i for i in range(23)])
    good = [i for i in range(23) if i % 5]
    assert decoded.rows["body"].to_pylist() == [str(i) for i in good]
    assert decoded.request.tolist() == good
    assert to_rows(decoded)[-1]["ingest_time"] == INGEST // 1000 + 22
    assert sorted(decoded.poison) == [0, 5, 10, 15, 20]


def test_ingest_time_is_rounded_up_and_event_time_never_later() -> None:
    assert ingest_time(datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)) == 1_767_225_606_000_000_000
    assert ingest_time(datetime(2026, 1, 1, 0, 0, 5, 1, tzinfo=UTC)) == 1_767_225_606_000_000_000
    future = _log("f", time=INGEST + 5)
    past = _log("p", time=INGEST - 5)
    none = _log("n", time=0)
    rows = to_rows(decode("logs", [future, past, none], [INGEST] * 3))
    assert [row["event_time_unix_nano"] - INGEST for row in rows] == [0, -5, 0]
    assert [row["event_time"] for row in rows] == [INGEST // 1000, INGEST // 1000 - 1, INGEST // 1000]
    assert [row["reported_time_unix_nano"] for row in rows] == [INGEST + 5, INGEST - 5, None]
    assert {row["ingest_time"] for row in rows} == {INGEST // 1000}


def test_the_route_is_the_resource_attribute() -> None:
    decoded = decode("logs", [_log("a", route="audit"), _log("b")], [INGEST] * 2)
    assert decoded.route.to_pylist() == ["audit", None]


@pytest.mark.parametrize("records", [1, 200], ids=["walked", "in step"])
def test_of_a_key_that_comes_twice_the_last_counts(records: int) -> None:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    for service in ("first", "second"):
        group.resource.attributes.add(key="service.name").value.string_value = service
    scope = group.scope_logs.add()
    for _ in range(records):
        record = scope.log_records.add()
        record.attributes.add(key="a").value.int_value = 1
        record.attributes.add(key="b").value.int_value = 2
        record.attributes.add(key="a").value.string_value = "three"
    decoded = decode("logs", [request.SerializeToString()], [INGEST])
    assert decoded.rows["attributes"].to_pylist() == [[("b", "2"), ("a", "three")]] * records
    assert decoded.rows["attributes_typed"].to_pylist() == ['{"b":2}'] * records
    assert decoded.rows["service_name"].to_pylist() == ["second"] * records
    assert decoded.repeated_keys == records + 1


def test_the_superset_takes_every_signal() -> None:
    assert all(takes(superset(), signal) for signal in SIGNALS)
    assert not takes(SCHEMAS["logs"], "traces")
    assert all(takes(FORMER_SCHEMAS[signal], signal) for signal in SIGNALS)
    assert not takes(FORMER_SCHEMAS["logs"], "traces")
    assert not takes(pa.schema([("id", pa.int64())]), "logs")


def _log(body: str, time: int = 1, route: str | None = None) -> bytes:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    if route:
        group.resource.attributes.add(key="moulin.table").value.string_value = route
    group.scope_logs.add().log_records.add(time_unix_nano=time).body.string_value = body
    return request.SerializeToString()  # type: ignore[no-any-return]


def _wrapped(record: bytes) -> bytes:
    scope = b"\x12" + bytes([len(record)]) + record
    group = b"\x12" + bytes([len(scope)]) + scope
    return b"\x0a" + bytes([len(group)]) + group
