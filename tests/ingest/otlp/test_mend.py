"""Requests that protobuf refuses: everything that can be kept is kept, compared with a plain model of the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.ingest.otlp.mend import RECORDS, Unmendable, mend
from moulin.ingest.otlp.otlp import REQUESTS
from moulin.model.otel import SIGNALS, Signal
from tests.ingest import reference

MARK, BAD = b"MARK", b"\xff\xfeAB"  # of one length, so that bytes can be exchanged in a serialised request
SHOWN = "\ufffd\ufffdAB"


class Marked(reference.Generator):
    """Requests with texts that are damaged once they are serialised, as long as all of them are text fields."""

    def _text(self) -> str:
        return self.random.choice((super()._text(), "MARK", "a MARK and a MARK"))


def shown(message: Any) -> Any:
    """The message as it should be: its damaged texts with replacement characters."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                shown(one)
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, value.replace("MARK", SHOWN))
    return message


@pytest.mark.parametrize("signal", SIGNALS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_bytes_that_are_not_utf8_are_replaced_and_nothing_else(signal: Signal, seed: int) -> None:
    data = Marked(seed).request(signal)
    found = mend(signal, data.replace(MARK, BAD))
    kept, expected = REQUESTS[signal].FromString(found.data), shown(REQUESTS[signal].FromString(data))
    assert kept.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
    assert found.left_out == 0
    assert (found.texts > 0) == (MARK in data)


def deep(value: Any, levels: int, kind: str = "array") -> None:
    """Lists, or keys and values, that many levels deep."""
    for _ in range(levels):
        value = value.array_value.values.add() if kind == "array" else value.kvlist_value.values.add(key="k").value
    value.string_value = "bottom"


@pytest.mark.parametrize("kind", ["array", "kvlist"])
@pytest.mark.parametrize("signal", SIGNALS)
def test_a_record_that_is_nested_too_deeply_is_left_out_and_the_others_stay(signal: Signal, kind: str) -> None:
    request = REQUESTS[signal]()
    records = add_records(signal, request, 5)
    good = request.SerializeToString()
    records[1].attributes.add(key="deep")
    deep(records[1].attributes[-1].value, 60, kind)
    deep(records[3].attributes.add(key="deep").value, 60, kind)
    found = mend(signal, request.SerializeToString())
    assert (found.left_out, found.texts) == (2, 0)
    kept, whole = REQUESTS[signal].FromString(found.data), REQUESTS[signal].FromString(good)
    assert list(listed(signal, kept)) == [record for i, record in enumerate(listed(signal, whole)) if i not in (1, 3)]


def add_records(signal: Signal, request: Any, count: int) -> list[Any]:
    """A resource, a scope, and so many records with a number each."""
    if signal == "logs":
        scope = request.resource_logs.add().scope_logs.add()
        return [scope.log_records.add(time_unix_nano=i + 1) for i in range(count)]
    if signal == "traces":
        scope = request.resource_spans.add().scope_spans.add()
        return [scope.spans.add(start_time_unix_nano=i + 1) for i in range(count)]
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    return [metric.gauge.data_points.add(time_unix_nano=i + 1) for i in range(count)]


def listed(signal: Signal, message: Any) -> list[Any]:
    """All records of a request."""
    if type(message).DESCRIPTOR.name in RECORDS[signal]:
        return [message]
    inner = [(f, v) for f, v in message.ListFields() if f.message_type is not None]
    return [one for f, v in inner for part in (v if f.is_repeated else [v]) for one in listed(signal, part)]


def _resource(request: Any) -> Any:
    return request.resource_metrics[1].resource.attributes.add(key="deep").value


def _scope(request: Any) -> Any:
    return request.resource_metrics[1].scope_metrics[0].scope.attributes.add(key="deep").value


def _metadata(request: Any) -> Any:
    return request.resource_metrics[1].scope_metrics[0].metrics[0].metadata.add(key="deep").value


def _exemplar(request: Any) -> Any:
    point = request.resource_metrics[1].scope_metrics[0].metrics[0].gauge.data_points[2]
    return point.exemplars.add().filtered_attributes.add(key="deep").value


@pytest.mark.parametrize(("where", "lost"), [(_resource, 3), (_scope, 3), (_metadata, 3), (_exemplar, 1)])
def test_records_below_what_is_nested_too_deeply_are_counted(where: Callable[[Any], Any], lost: int) -> None:
    request = REQUESTS["metrics"]()
    for _ in range(3):
        add_records("metrics", request, 3)
    deep(where(request), 60)
    found = mend("metrics", request.SerializeToString())
    assert found.left_out == lost
    assert len(listed("metrics", REQUESTS["metrics"].FromString(found.data))) == 9 - lost


def test_a_record_that_is_cut_short_is_left_out() -> None:
    good = b"\x12\x09\x09" + b"\1" * 8
    cut = b"\x12\x03\x09\1\1"
    scope = good + cut + good
    group = b"\x12" + bytes([len(scope)]) + scope
    found = mend("logs", b"\x0a" + bytes([len(group)]) + group)
    assert (found.left_out, len(listed("logs", REQUESTS["logs"].FromString(found.data)))) == (1, 2)


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\x7f", b"\x0a\x03\x12\x7f\x00", b"not protobuf at all"])
def test_bytes_outside_of_records_must_be_whole(data: bytes) -> None:
    with pytest.raises(Unmendable):
        mend("logs", data)


@pytest.mark.parametrize("signal", SIGNALS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), places=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4))
def test_mended_requests_are_read_by_protobuf_whatever_was_damaged(
    signal: Signal, seed: int, places: list[tuple[int, int]]
) -> None:
    data = bytearray(reference.Generator(seed).request(signal))
    for place, byte in places:
        if data:
            data[place % len(data)] = byte
    try:
        found = mend(signal, bytes(data))
    except Unmendable:
        return
    assert found.left_out >= 0
    REQUESTS[signal].FromString(found.data)
