"""Rows that their table can never take are refused before they are acknowledged; the answer names the column."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import moulin
from moulin import Lake
from moulin.ingest.collector.registry import CatalogRegistry
from moulin.ingest.setup import set_up
from moulin.model.schema.schema import make_schema
from moulin.pipeline.nursery.nursery import Nursery
from tests.ingest.collector.test_collector import post
from tests.ingest.conftest import Running, running

COLUMNS = [
    ("id", "long", False),
    ("at", "timestamptz"),
    ("day", "date"),
    ("price", "decimal(9, 2)"),
    ("tags", "list<string>"),
    ("n", "int"),
]
GOOD = {"id": 1, "at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "tags": ["a"], "n": 3, "price": 1.5}
NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"


@pytest.fixture
def orders(collector: Running) -> Running:
    collector.registry.tables["orders"] = make_schema(COLUMNS)
    return collector


def send(collector: Running, *rows: dict[str, Any]) -> Any:
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    return post(collector, lines, "/v1/append/shop.orders", content_type=NDJSON)


def send_arrow(collector: Running, table: pa.Table) -> Any:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return post(collector, sink.getvalue(), "/v1/append/shop.orders", content_type=ARROW)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"n": 1}, "id"),
        ({"id": None}, "id"),
        ({"id": "seven"}, "id"),
        ({"id": 1, "n": 2**40}, "n"),
        ({"id": 1, "at": "yesterday"}, "at"),
        ({"id": 1, "tags": "a"}, "tags"),
        ({"id": 1, "price": 1.555}, "price"),
        ({"id": 1, "price": "cheap"}, "price"),
        ({"id": 1, "colour": "red"}, "colour"),
    ],
    ids=str,
)
def test_json_that_the_table_cannot_take_is_refused_with_the_column(
    orders: Running, row: dict[str, Any], column: str
) -> None:
    answer = send(orders, GOOD, row) if "id" in row else send(orders, row)
    assert answer.status_code == 400
    assert re.search(rf"\b[Cc]olumn.{{0,3}}\b{column}\b|/{column}\b|\'{column}\'", answer.json()["message"])
    assert orders.entries() == []


@pytest.mark.parametrize(
    ("table", "column"),
    [
        (pa.table({"n": [1]}), "id"),
        (pa.table({"id": pa.array([1, None])}), "id"),
        (pa.table({"id": ["a"]}), "id"),
        (pa.table({"id": [1], "day": [date(2026, 1, 1)], "n": [2**40]}), "n"),
        (pa.table({"id": [1], "other": [1]}), "other"),
    ],
    ids=["missing", "null", "type", "range", "unknown"],
)
def test_arrow_that_the_table_cannot_take_is_refused_with_the_column(
    orders: Running, table: pa.Table, column: str
) -> None:
    answer = send_arrow(orders, table)
    assert answer.status_code == 400
    assert re.search(rf"\b[Cc]olumn.{{0,3}}\b{column}\b|/{column}\b|\'{column}\'", answer.json()["message"])
    assert orders.entries() == []


def test_rows_that_fit_are_taken_and_the_catalog_is_not_asked_each_time(orders: Running) -> None:
    for _ in range(5):
        assert send(orders, GOOD, {"id": 2}).json() == {"rows": 2}
    assert orders.registry.schemas_asked == 1
    assert send(orders, {"n": 1}).status_code == 400
    assert orders.registry.schemas_asked == 2, "a refusal rests on the newest schema"


@pytest.mark.parametrize("text", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80"], ids=["byte", "overlong", "surrogate"])
def test_text_that_is_not_utf8_is_refused_with_the_column(orders: Running, text: bytes) -> None:
    """Else it lands, and nobody can read the table."""
    lines = b'{"id": 1}\n{"id": 2, "tags": ["MARK"]}'.replace(b"MARK", text)
    answer = post(orders, lines, "/v1/append/shop.orders", content_type=NDJSON)
    assert answer.status_code == 400
    assert "column tags has a text that is not UTF-8" in answer.json()["message"]


def test_a_row_of_megabytes_is_taken(orders: Running) -> None:
    orders.registry.tables["orders"] = make_schema([*COLUMNS, ("body", "string")])
    assert send(orders, GOOD, {"id": 2, "body": "x" * 3_000_000}, GOOD).json() == {"rows": 3}


def test_rows_for_a_column_that_was_just_added_are_taken(orders: Running) -> None:
    assert send(orders, {"id": 1}).status_code == 200
    orders.registry.tables["orders"] = make_schema([*COLUMNS, ("colour", "string")])
    assert send(orders, {"id": 1, "colour": "red"}).json() == {"rows": 1}
    del orders.registry.tables["orders"]
    assert send(orders, {"id": 1, "shape": "round"}).status_code == 400


def test_a_table_that_is_made_after_a_refusal_is_found(orders: Running) -> None:
    answer = post(orders, b'{"id":1}', "/v1/append/shop.later", content_type=NDJSON)
    assert answer.status_code == 404
    orders.registry.tables["later"] = make_schema([("id", "long")])
    assert post(orders, b'{"id":1}', "/v1/append/shop.later", content_type=NDJSON).status_code == 200


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake", stream_flush_seconds=0.02) as lake:
        yield lake


def test_what_is_acknowledged_lands(lake: Lake) -> None:
    """From a real catalog to a nursery: nothing of it is set aside."""
    token = set_up(lake).token
    assert token is not None
    columns = [("id", "long", False), ("n", "int"), ("at", "timestamptz"), ("price", "decimal(9, 2)")]
    table = lake.create_table("otel.orders", columns)
    table.add_column("shop", "string", default="main")
    with running(lake.store, CatalogRegistry(lake.own_catalog())) as collector:  # type: ignore[arg-type]
        where = {"path": "/v1/append/otel.orders", "content_type": NDJSON, "authorization": f"Bearer {token}"}
        assert post(
            collector, b'{"id":1,"n":2,"at":"2026-01-02T03:04:05+02:00","price":1.5}\n{"id":2}', **where
        ).json() == {"rows": 2}
        refused = post(collector, b'{"n":2}', **where)
        assert (refused.status_code, "id" in refused.json()["message"]) == (400, True)
    report = Nursery(lake, spark=False).run_once()
    assert (report.rows, report.set_aside) == (2, 0)
    assert lake.table("otel.orders").scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "n": 2, "at": datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC), "price": Decimal("1.50"), "shop": "main"},
        {"id": 2, "n": None, "at": None, "price": None, "shop": "main"},
    ]
