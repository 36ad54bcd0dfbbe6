"""Engines read the tables of telemetry: times, exact nanoseconds, and ids that are found by their text."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin import Lake
from moulin.formats.baby_segment import PAYLOAD_OF, Entry, encode_data
from moulin.iceberg.projection.engines import V3, features, readers
from moulin.iceberg.projection.projection import project
from moulin.ingest.otlp.otlp import REQUESTS
from moulin.ingest.setup import set_up
from moulin.model.otel import FORMER_SCHEMAS, SIGNALS
from moulin.pipeline.nursery.nursery import Nursery
from moulin.storage import paths
from tests.ingest import reference
from tests.interop.engines import ENGINES, duckdb_connection, rows

TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"
AT = 1_544_712_660_123_456_789


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        fill(lake, token)
        yield lake


def fill(lake: Lake, token: str, *, nursery: bool = True) -> None:
    """Strange requests of every signal, and one span that is known, stored and taken in by a nursery."""
    made = lake.own_catalog().ingest.register_stream(token, "one")
    generator = reference.Generator(3)
    requests = [(signal, generator.request(signal)) for signal in SIGNALS for _ in range(3)] + [("traces", span())]
    entries = [Entry(made.token.id, PAYLOAD_OF[signal], 1, data) for signal, data in requests]
    baby = encode_data(made.stream.id, b"n" * 16, 0, time.time_ns(), entries)
    lake.store.put_if_absent(paths.baby_segment(made.stream.id, 0), baby)
    if not nursery:
        return
    done = Nursery(lake, spark=False).run_once()
    assert (done.set_aside, done.rows > 10) == (0, True)


def span() -> bytes:
    request = REQUESTS["traces"]()
    one = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            trace_id=bytes.fromhex(TRACE),
            span_id=bytes.fromhex(SPAN),
            start_time_unix_nano=AT,
            end_time_unix_nano=AT + 7,
        )
    )
    one.events.add(time_unix_nano=AT + 3, name="paid")
    one.links.add(trace_id=bytes.fromhex(TRACE))
    return request.SerializeToString()  # type: ignore[no-any-return]


@pytest.mark.parametrize("signal", SIGNALS)
def test_every_engine_reads_a_telemetry_table(lake: Lake, signal: str) -> None:
    table = lake.table(f"otel.{signal}")
    made = project(lake.context, table.id)
    assert features(made.metadata) == {V3}, "no column that an engine does not read"
    expected = filled(rows(table.scan().to_arrow(), table.schema))
    for name, read in ENGINES.items():
        assert filled(rows(read(made.location), table.schema)) == expected, name
    older = project(lake.context, table.id, format_version=2)
    assert all(reader.reads for reader in readers(older.metadata))


def filled(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Empty lists for null ones: pyiceberg shows a null list of structs as an empty one."""
    names = ("events", "links", "quantiles", "exemplars")
    return [{**row, **{name: row[name] or [] for name in names if name in row}} for row in found]


def known(found: list[dict[str, Any]]) -> None:
    (row,) = found
    assert row["event_time"] == datetime(2018, 12, 13, 14, 51, tzinfo=UTC) + timedelta(microseconds=123_456)
    assert (row["event_time_unix_nano"], row["end_time_unix_nano"]) == (AT, AT + 7)
    assert (row["span_id"], row["parent_span_id"]) == (SPAN, None)
    assert row["events"][0]["time_unix_nano"] == AT + 3
    assert row["links"][0]["trace_id"] == TRACE


def test_a_trace_is_found_by_the_text_of_its_id(lake: Lake) -> None:
    table = lake.table("otel.traces")
    known(table.scan(where=f"trace_id = '{TRACE}'").to_arrow().to_pylist())
    location = project(lake.context, table.id).location
    query = f"SELECT * FROM iceberg_scan('{location}') WHERE trace_id = '{TRACE}' AND event_time < '2019-01-01'"
    found = duckdb_connection().execute(query).arrow()
    known((found if hasattr(found, "to_pylist") else found.read_all()).to_pylist())


@pytest.mark.spark
def test_spark_reads_a_telemetry_table(lake: Lake, spark: Any) -> None:
    known(lake.sql(f"select * from otel.traces where trace_id = '{TRACE}'").toArrow().to_pylist())


def former(lake: Lake) -> str:
    """Tables as earlier versions made them, and the token for them."""
    lake.create_database("otel")
    for signal in SIGNALS:
        options: dict[str, Any] = {"partition_by": ["day(event_time)"], "event_time": "event_time"}
        lake.create_table(f"otel.{signal}", FORMER_SCHEMAS[signal], **options)
    token = set_up(lake).token
    assert token is not None
    return token


@pytest.mark.spark
def test_fresh_records_are_shown_in_the_columns_of_an_earlier_version(tmp_path: Path, spark: Any) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        fill(lake, former(lake), nursery=False)
        found = lake.sql(f"select hex(span_id) as span from otel.traces where lower(hex(trace_id)) = '{TRACE}'")
        assert [row.span.lower() for row in found.collect()] == [SPAN]


def test_a_table_that_an_earlier_version_made_keeps_its_columns_and_takes_rows(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        fill(lake, former(lake))
        found = lake.table("otel.traces").scan(columns=["event_time", "trace_id", "span_id"]).to_arrow()
        wanted = [row for row in found.to_pylist() if row["trace_id"] == bytes.fromhex(TRACE)]
        assert [(row["event_time"].value, row["span_id"].hex()) for row in wanted] == [(AT, SPAN)]
