"""Telemetry for screens: every record once, fresh or committed, in the range of time that was asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import moulin
from moulin.console import telemetry as t
from moulin.console.telemetry import Telemetry, nanos
from moulin.errors import InvalidInput, NotFound, Unavailable
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.model.otel import FORMER_SCHEMAS, SCHEMAS
from moulin.pipeline.nursery.nursery import Nursery
from tests.console.logs import Writer, request

SECOND = 1_000_000_000


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[tuple[Lake, Writer]]:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        yield lake, Writer(lake, token)


def go_on() -> None:
    """Never stops."""


def bodies(
    telemetry: Telemetry, where: str | None = None, start: int | None = None, end: int | None = None
) -> list[str]:
    moment = telemetry.moment(telemetry.table("logs"))
    asked = moment.where(start, end, where)
    newest = moment.first(asked, ["body"], limit=1000, go_on=go_on)["body"].to_pylist()
    streamed = [body for rows in moment.batches(asked, ["body"], go_on=go_on) for body in rows["body"].to_pylist()]
    assert sorted(streamed) == sorted(newest)
    return newest


def test_a_record_is_there_once_before_and_after_it_is_committed(fed: tuple[Lake, Writer]) -> None:
    lake, writer = fed
    telemetry = Telemetry(lake)
    begin = time.time_ns() - 10 * SECOND
    writer.send(request([(begin + n, f"r{n}") for n in range(3)]))
    assert bodies(telemetry) == ["r2", "r1", "r0"]
    moment = telemetry.moment(telemetry.table("logs"))
    Nursery(lake, spark=False).run_once()
    assert bodies(telemetry) == ["r2", "r1", "r0"]
    writer.send(request([(begin + 1, "late"), (begin + 9, "r9")]))
    assert bodies(telemetry) == ["r9", "r2", "late", "r1", "r0"] or bodies(telemetry) == [
        "r9",
        "r2",
        "r1",
        "late",
        "r0",
    ]
    found = moment.first(moment.where(), ["body"], limit=10, go_on=go_on)
    assert found["body"].to_pylist() == ["r2", "r1", "r0"], "a moment stays what it was"
    assert nanos(found).tolist() == [begin + 2, begin + 1, begin]


def test_a_range_is_exact_to_the_nanosecond(fed: tuple[Lake, Writer]) -> None:
    lake, writer = fed
    telemetry = Telemetry(lake)
    begin = (time.time_ns() - 10 * SECOND) // 1000 * 1000
    writer.send(request([(begin + n, f"{n:04}") for n in range(0, 3000, 7)]))
    for _ in range(2):
        for start, end in (
            (begin, begin + 3000),
            (begin + 7, begin + 1400),
            (begin + 8, begin + 15),
            (begin + 1, begin + 7),
        ):
            expected = [f"{n:04}" for n in range(0, 3000, 7) if start <= begin + n < end]
            assert bodies(telemetry, None, start, end) == expected[::-1]
        Nursery(lake, spark=False).run_once()


def test_conditions_reach_fresh_and_committed_rows_alike(fed: tuple[Lake, Writer]) -> None:
    lake, writer = fed
    telemetry = Telemetry(lake)
    begin = time.time_ns() - 10 * SECOND
    records = [(begin + n, f"r{n}", {"http.route": f"/{n % 2}"}) for n in range(4)]
    writer.send(request(records, service="cart"), request([(begin + 9, "other")], service="pay"))
    for _ in range(2):
        assert bodies(telemetry, "service_name = 'cart' and attributes['http.route'] = '/1'") == ["r3", "r1"]
        assert bodies(telemetry, "attributes['http.route'] is null") == ["other"]
        assert bodies(telemetry, "body like '%the%'") == ["other"]
        Nursery(lake, spark=False).run_once()
    with pytest.raises(InvalidInput, match="no column"):
        bodies(telemetry, "nothing = 1")


def test_tables_of_former_versions_are_read_in_nanoseconds(lake: Lake) -> None:
    lake.create_database("d")
    table = lake.create_table("d.logs", FORMER_SCHEMAS["logs"], event_time="event_time")
    rows = FORMER_SCHEMAS["logs"].empty_table().to_pylist()
    rows = [{"event_time": n, "ingest_time": SECOND, "body": str(n)} for n in (1001, 1002, 2001)]
    import pyarrow as pa

    table.append(pa.Table.from_pylist(rows, FORMER_SCHEMAS["logs"]))
    telemetry = Telemetry(lake)
    assert bodies(telemetry, None, 1002, 2001) == ["1002"]
    assert bodies(telemetry) == ["2001", "1002", "1001"]


def test_a_lake_without_telemetry_says_so_and_others_tables_are_refused(lake: Lake) -> None:
    telemetry = Telemetry(lake)
    assert telemetry.tables("logs") == []
    with pytest.raises(NotFound, match="moulin init --otel"):
        telemetry.table("logs")
    lake.create_database("d")
    plain = lake.create_table("d.t", [("x", "int")])
    with pytest.raises(InvalidInput, match="does not have the columns of logs"):
        telemetry.table("logs", plain.id)
    keyed = SCHEMAS["logs"].set(0, SCHEMAS["logs"].field("event_time"))
    lake.create_table("d.more", keyed, event_time="event_time")
    set_up(lake)
    assert [f"{one.database}.{one.name}" for one in telemetry.tables("logs")] == ["otel.logs", "d.more"]
    assert [one.name for one in telemetry.tables("traces")] == ["traces"]


def test_too_much_that_waits_is_left_out_and_counted(fed: tuple[Lake, Writer], monkeypatch: pytest.MonkeyPatch) -> None:
    lake, writer = fed
    telemetry = Telemetry(lake)
    begin = time.time_ns() - 10 * SECOND
    for n in range(4):
        writer.send(request([(begin + n, f"r{n}")]))
    monkeypatch.setattr(t, "FRESH_BYTES", 1)
    moment = telemetry.moment(telemetry.table("logs"))
    assert moment.left_out == 3
    assert bodies(telemetry) == ["r3"]


def test_reading_stops_when_it_is_told_to(fed: tuple[Lake, Writer]) -> None:
    lake, writer = fed
    telemetry = Telemetry(lake)
    begin = time.time_ns() - 10 * SECOND
    for n in range(4):
        writer.send(request([(begin + n, f"r{n}")]))
        Nursery(lake, spark=False).run_once()
    moment = telemetry.moment(telemetry.table("logs"))

    def stop() -> None:
        raise Unavailable("enough")

    with pytest.raises(Unavailable, match="enough"):
        list(moment.batches(moment.where(), ["body"], go_on=stop))
    with pytest.raises(Unavailable, match="enough"):
        moment.first(moment.where(), ["body"], limit=2, go_on=stop)
