"""Which table a record goes to."""

from __future__ import annotations

from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from moulin.errors import InvalidInput
from moulin.formats.baby_segment import Payload
from moulin.ingest.appended import read_rows
from moulin.ingest.intake.routing import Router, fit
from moulin.ingest.otlp.otlp import decode
from moulin.model.ingest import RoutedTable, Routing, TokenRouting
from moulin.model.otel import SCHEMAS, superset

SHOP, OTHER = uuid4(), uuid4()
LOGS, TRACES, METRICS, AUDIT, NARROW, FOREIGN, OLD = (uuid4() for _ in range(7))
TOKEN, UNKNOWN = uuid4(), uuid4()
TABLES = [
    RoutedTable(AUDIT, SHOP, "audit"),
    RoutedTable(NARROW, SHOP, "narrow"),
    RoutedTable(FOREIGN, OTHER, "foreign"),
    RoutedTable(OLD, SHOP, "old", retired=True),
]
ROUTER = Router(
    [TokenRouting(TOKEN, SHOP, Routing(TRACES, LOGS, METRICS))], TABLES, lambda table, signal: table != NARROW
)


def request(*routes: str | None) -> bytes:
    made = ExportLogsServiceRequest()
    for route in routes:
        group = made.resource_logs.add()
        if route is not None:
            group.resource.attributes.add(key="moulin.table").value.string_value = route
        group.scope_logs.add().log_records.add().body.string_value = str(route)
    return made.SerializeToString()  # type: ignore[no-any-return]


def bodies(rows: dict[UUID, pa.Table]) -> dict[UUID, list[str]]:
    return {table: found["body"].to_pylist() for table, found in rows.items()}


def test_a_row_goes_to_the_table_it_names_in_its_database_only() -> None:
    routes = ["audit", None, "foreign", "other.foreign", "narrow", "old", "audit", ""]
    routed = ROUTER.split("logs", decode("logs", [request(*routes)], [10**18]), [TOKEN])
    assert bodies(dict(routed.rows)) == {
        AUDIT: ["audit", "audit"],
        LOGS: ["None", "foreign", "other.foreign", "narrow", "old", ""],
    }
    assert routed.fallen_back == 5
    assert routed.unknown == {}


def test_rows_of_an_unknown_token_are_counted_and_not_guessed() -> None:
    decoded = decode("logs", [request("audit", None), request(None)], [10**18] * 2)
    routed = ROUTER.split("logs", decoded, [UNKNOWN, TOKEN])
    assert bodies(dict(routed.rows)) == {LOGS: ["None"]}
    assert routed.unknown == {UNKNOWN: 2}
    assert ROUTER.split("logs", decode("logs", [], []), []).rows == {}


def test_fit_brings_rows_to_a_wider_schema_and_refuses_to_lose_any() -> None:
    rows = decode("logs", [request(None)], [10**18]).rows
    fitted = fit(rows, superset())
    assert fitted.schema.equals(superset())
    assert fitted["body"].to_pylist() == ["None"]
    with pytest.raises(InvalidInput, match="body"):
        fit(rows, SCHEMAS["metrics"])


def test_appended_rows_are_read_back() -> None:
    schema = pa.schema([("id", pa.int64()), ("price", pa.float64())])
    read = read_rows(Payload.NDJSON, b'{"id": 1, "price": 2}\n{"id": 3, "more": "x"}\n', schema)
    assert read.to_pylist() == [{"id": 1, "price": 2.0, "more": None}, {"id": 3, "price": None, "more": "x"}]
    for payload, data in ((Payload.NDJSON, b"{"), (Payload.ARROW, b"x"), (Payload.LOGS, b"")):
        with pytest.raises(InvalidInput):
            read_rows(payload, data, schema)
