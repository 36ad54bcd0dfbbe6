"""Sharding fields: merges deal rows out by them, so that a query by service leaves segments out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin import Lake, Table
from moulin.ingest.setup import set_up
from moulin.model.schema import make_schema
from moulin.model.table_settings import DEFAULT_SHARDING, SHARDING, ShardingField, cluster_order, sharding_property
from moulin.model.where import parse_where
from moulin.table.scan import plan_segments

START = datetime(2024, 5, 1, tzinfo=UTC)
SERVICES = [f"service-{n}" for n in range(8)]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        yield lake


def planned(lake: Lake, table: Table, where: str | None = None) -> list[Any]:
    state = table.state()
    return list(plan_segments(lake.catalog, state, parse_where(where, state.schema)))


def test_which_columns_count() -> None:
    schema = make_schema(
        [("ts", "timestamptz"), ("name", "string"), ("service_name", "string"), ("trace_id", "binary")]
    )
    fields = {field.field_id: field.name for field in schema.fields}

    def names(*sharding: ShardingField) -> list[str]:
        order = cluster_order({SHARDING: sharding_property(sharding)}, schema)
        return [] if order is None else [fields[field.source_id] for field in order.fields]

    assert names(*DEFAULT_SHARDING) == ["name", "service_name"], "the names of senders stand for columns"
    assert names(ShardingField("trace_id", 1), ShardingField("service_name", 2)) == ["service_name", "trace_id"]
    assert names(ShardingField("resource.host.name", 9), ShardingField("name", 0)) == []
    assert cluster_order({}, schema) is None


def test_merged_segments_prune_by_sharding_fields(lake: Lake) -> None:
    properties = {SHARDING: sharding_property([ShardingField("service", 10)]), "moulin.merge-segment-bytes": 30_000}
    columns = [("ts", "timestamptz"), ("service", "string"), ("id", "long"), ("text", "string")]
    table = lake.create_table("d.t", columns, event_time="ts", properties=properties)
    for part in range(4):
        rows = range(1000 * part, 1000 * part + 1000)
        table.append(
            [
                {"ts": START + timedelta(seconds=n), "service": SERVICES[n % 8], "id": n, "text": f"text {n}"}
                for n in rows
            ]
        )
    before = {row["id"]: row["_row_id"] for row in table.changes(lake.version - 4).to_arrow().to_pylist()}
    table.delete_where("id between 700 and 799")
    expected = sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())
    assert len(planned(lake, table, "service = 'service-3'")) == 4, "every fresh one has every service"
    table.compact()
    segments = planned(lake, table)
    assert len(segments) >= 4
    assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == expected
    for name in SERVICES:
        some = planned(lake, table, f"service = '{name}'")
        assert len(some) <= 2 < len(segments)
        found = table.scan(columns=["id"], where=f"service = '{name}'").to_arrow()["id"].to_pylist()
        assert sorted(found) == [n for n in expected if SERVICES[n % 8] == name]
    for segment in segments:
        path = lake.store.local_path(segment.facts.path)
        assert path is not None
        times = _column(path, "ts")
        assert times == sorted(times), "in each segment rows are in order of time"
    table.delete_where("id = 42")
    assert table.scan().count() == len(expected) - 1
    [gone] = table.changes(table.version - 1).to_arrow().to_pylist()
    assert (gone["id"], gone["_row_id"]) == (42, before[42]), "rows keep their ids"


def _column(path: Path, name: str) -> list[Any]:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path).read(columns=[name])[name].to_pylist()  # type: ignore[no-any-return]


def test_tables_of_telemetry_prune_on_the_service(lake: Lake) -> None:
    set_up(lake)
    for signal in ("logs", "traces", "metrics"):
        table = lake.table(f"otel.{signal}")
        table.set_properties({"moulin.merge-segment-bytes": 20_000})
        named = {} if signal == "logs" else {"name": "one"}
        for part in range(4):
            times = [START + timedelta(seconds=500 * part + n) for n in range(500)]
            table.append(
                [
                    {"event_time": time, "ingest_time": time, "service_name": SERVICES[place % 8], **named}
                    for place, time in enumerate(times)
                ]
            )
        table.compact()
        segments = planned(lake, table)
        chosen = planned(lake, table, "service_name = 'service-5'")
        assert len(segments) >= 3, signal
        assert len(chosen) < len(segments), signal
        assert table.scan(where="service_name = 'service-5'").count() == 4 * len(range(5, 500, 8))
