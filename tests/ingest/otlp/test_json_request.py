"""OTLP/JSON written as protobuf, compared with protobuf's own reader of JSON."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.ingest.otlp.json_request import NotOtlp, count_values, to_protobuf
from moulin.ingest.otlp.otlp import REQUESTS
from moulin.model.otel import SIGNALS, Signal
from tests.ingest import reference

IDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")


def with_hex(value: Any) -> Any:
    """protobuf's JSON as OTLP writes it: ids in hex."""
    if isinstance(value, list):
        return [with_hex(item) for item in value]
    if isinstance(value, dict):
        return {k: base64.b64decode(v).hex() if k in IDS else with_hex(v) for k, v in value.items()}
    return value


@pytest.mark.parametrize("signal", SIGNALS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), snake=st.booleans(), numbers=st.booleans())
def test_json_is_read_as_protobuf_reads_it(signal: Signal, seed: int, snake: bool, numbers: bool) -> None:
    message = REQUESTS[signal].FromString(reference.Generator(seed).request(signal))
    document = json_format.MessageToDict(
        message,
        preserving_proto_field_name=snake,
        use_integers_for_enums=numbers,
        always_print_fields_with_no_presence=numbers,
    )
    data, replaced = to_protobuf(signal, json.dumps(with_hex(document)).encode())
    expected = json_format.ParseDict(document, REQUESTS[signal]())
    found = REQUESTS[signal].FromString(data)
    assert found.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
    assert replaced == 0


def one(record: dict[str, Any]) -> bytes:
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()


def read(data: bytes) -> Any:
    return REQUESTS["logs"].FromString(to_protobuf("logs", data)[0]).resource_logs[0].scope_logs[0].log_records[0]


def test_numbers_may_be_texts_and_nulls_and_unknown_names_are_skipped() -> None:
    record = {
        "timeUnixNano": "18446744073709551615",
        "severityNumber": "SEVERITY_NUMBER_WARN",
        "flags": 7.0,
        "new": {"a": 1},
    }
    found = read(one({**record, "body": {"intValue": "-9223372036854775808"}, "traceId": None}))
    assert (found.time_unix_nano, found.severity_number, found.flags) == (2**64 - 1, 13, 7)
    assert (found.body.int_value, found.trace_id) == (-(2**63), b"")
    assert read(one({"body": {"bytesValue": "-_-_"}})).body.bytes_value == b"\xfb\xff\xbf"
    assert read(one({"body": {"boolValue": False}})).body.WhichOneof("value") == "bool_value"


@pytest.mark.parametrize(
    "record",
    [
        {"timeUnixNano": "18446744073709551616"},
        {"timeUnixNano": -1},
        {"timeUnixNano": 1.5},
        {"timeUnixNano": True},
        {"timeUnixNano": "9" * 5000},
        {"flags": 2**32},
        {"traceId": "zz"},
        {"traceId": 5},
        {"severityText": 3},
        {"severityNumber": "LOUD"},
        {"body": "text"},
        {"body": {"boolValue": "true"}},
        {"body": {"doubleValue": "many"}},
        {"body": {"bytesValue": "*"}},
        {"attributes": {}},
        {"attributes": [None]},
    ],
    ids=str,
)
def test_values_of_another_type_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(NotOtlp):
        to_protobuf("logs", one(record))


def test_text_that_is_not_unicode_is_replaced() -> None:
    cut = one({"severityText": "MARK", "body": {"stringValue": "whole"}}).replace(b"MARK", b"\xff\xfeAB")
    data, replaced = to_protobuf("logs", cut)
    found = REQUESTS["logs"].FromString(data).resource_logs[0].scope_logs[0].log_records[0]
    assert (found.severity_text, found.body.string_value, replaced) == ("\ufffd\ufffdAB", "whole", 1)
    data, replaced = to_protobuf("logs", one({"severityText": "half \ud83d of a pair"}))
    found = REQUESTS["logs"].FromString(data).resource_logs[0].scope_logs[0].log_records[0]
    assert (found.severity_text, replaced) == ("half \ufffd of a pair", 1)


def test_values_in_texts_are_not_counted() -> None:
    data = one({"body": {"stringValue": '{"a": [1, 2, "\\"{,"]}' * 10}})
    assert count_values(data, 10**6) > 40, "at first sight"
    assert count_values(data, 5) == 9, "looked at closely: objects, lists, and what follows a comma"


@pytest.mark.parametrize("end", [b"", b'"', b"\\"], ids=["open", "closed", "escaped"])
def test_a_text_without_an_end_is_looked_at_once(end: bytes) -> None:
    """Looking at it again from each of its quotes would be ten billion steps."""
    data = b'["' + rb"\"{," * 100_000 + end
    assert count_values(data, 5) <= 2


@pytest.mark.parametrize(
    "inside", [b'{"resourceLogs":[%s{}]}', b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[%s{}]}]}]}']
)
def test_the_work_grows_in_proportion_to_the_values(inside: bytes) -> None:
    """Counted in calls of Python functions."""
    few, many = (calls(lambda n=n: to_protobuf("logs", inside % (b"{}," * n))) for n in (1000, 10_000))
    assert many < 11 * few
    assert many < 3 * 10_000 + few


def calls(run: Any) -> int:
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
