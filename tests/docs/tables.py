"""Tables of the reference that follow from the code: types of columns, properties of tables, metrics."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Iterator
from types import ModuleType

import moulin
from moulin.duck.columns import shown_type as duck_type
from moulin.ingest.collector.collector import CollectorCounts
from moulin.ingest.collector.stream import StreamCounts
from moulin.meta.server import serve
from moulin.meta.server.metrics import Metrics
from moulin.model import file_settings, region_spec, table_settings
from moulin.model.schema.arrow import shown_schema
from moulin.model.schema.schema import make_schema
from moulin.network.connections import ConnectionCounts
from moulin.network.counts import Figure, counters
from moulin.pipeline.nursery.figures import NurseryFigures
from moulin.pipeline.read.columns import shown_type as spark_type
from moulin.table import properties

# What a type is called, other names for it, what it is in Python, and one of its kind.
_TYPES = (
    ("boolean", "bool", "bool", "boolean"),
    ("int", "integer, int32, int16, smallint", "int", "int"),
    ("long", "bigint, int64", "int", "long"),
    ("float", "real, float32", "float", "float"),
    ("double", "float64", "float", "double"),
    ("decimal(p, s)", "numeric", "decimal.Decimal", "decimal(9, 2)"),
    ("date", "date32", "datetime.date", "date"),
    ("time", "time64", "datetime.time", "time"),
    ("timestamp", "timestamp_ntz, datetime", "datetime without a zone", "timestamp"),
    ("timestamptz", "timestamp_ltz", "datetime with a zone", "timestamptz"),
    ("timestamp_ns", "", "NanoDatetime", "timestamp_ns"),
    ("timestamptz_ns", "", "NanoDatetime", "timestamptz_ns"),
    ("string", "text, varchar, utf8", "str", "string"),
    ("binary", "blob, bytes", "bytes", "binary"),
    ("fixed[n]", "", "bytes", "fixed[4]"),
    ("uuid", "", "uuid.UUID", "uuid"),
    ("list<T>", "T[], array<T>", "list", "list<int>"),
    ("T[n]", "", "list of n values", "float[3]"),
    ("map<K, V>", "", "dict; list of pairs, too", "map<string, int>"),
    ("struct<a: T, b: T not null>", "", "dict", "struct<a: int>"),
)


def types() -> str:
    """A row for each type, with what it is elsewhere."""
    rows = "| type | other names | Python | Arrow | Spark | DuckDB | Iceberg |\n|---|---|---|---|---|---|---|\n"
    for name, others, python, sample in _TYPES:
        schema = make_schema([("c", sample)])
        kind = schema.fields[0].field_type
        arrow, iceberg = str(shown_schema(schema).field(0).type), re.sub(r"\d+: (\w+): optional", r"\1:", str(kind))
        there = (arrow, spark_type(kind).simpleString(), duck_type(kind).replace('"', ""), iceberg)
        shown = [one.replace("|", "\\|") for one in (name, others, python, *there)]
        rows += "| `" + shown[0] + "` | " + " | ".join(f"`{one}`" if one else "" for one in shown[1:2]) + " | "
        rows += f"{shown[2]} | " + " | ".join(f"`{one}`" for one in shown[3:]) + " |\n"
    return rows


def own_properties() -> str:
    """A row for each property of Moulin's own, with the comment above it and the setting that it overrides."""
    rows = "| property | overrides | what it does |\n|---|---|---|\n"
    for name in properties.OWN:
        setting = properties.KNOWN.get(name)
        about = next(filter(None, (_comment(module, name) for module in (properties, table_settings, region_spec))))
        rows += f"| `{name}` | {f'`{setting}`' if setting else ''} | {about} |\n"
    return rows


def _comment(module: ModuleType, name: str) -> str:
    """The comment right above the line that has this name."""
    lines = inspect.getsource(module).splitlines()
    at = next((number for number, line in enumerate(lines) if f'"{name}"' in line), 0)
    found: list[str] = []
    while at and lines[at - 1].lstrip().startswith("# "):
        at -= 1
        found.insert(0, lines[at].strip().removeprefix("# "))
    return " ".join(found)


def kept_properties() -> str:
    """The properties that only engines read."""
    return ", ".join(f"`{name}*`" if name.endswith(".") else f"`{name}`" for name in file_settings.ENGINES)


def metrics() -> Iterator[tuple[str, str]]:
    """For each program the rows of what it exports."""
    with tempfile.TemporaryDirectory() as folder, moulin.connect(folder) as lake:
        server = Metrics()
        serve._add_gauges(server, lake)
        server.started("method")
        server.ended("method", "OK", 0.0)
        yield "server", _rows(server.text().decode())
    figures = [
        *counters("moulin_collector", CollectorCounts()),
        *counters("moulin_collector_stream", StreamCounts()),
        Figure("moulin_collector_in_flight_bytes", "gauge", "Bytes on their way to the store.", 0),
    ]
    yield "collector", _rows("".join(one.lines() for one in figures))
    yield "nursery", _rows(NurseryFigures().text())
    connections = [
        Figure("moulin_http_connections", "gauge", "HTTP connections that are open.", 0),
        *counters("moulin_http_connections", ConnectionCounts()),
    ]
    yield "connections", _rows("".join(one.lines() for one in connections))


def _rows(text: str) -> str:
    """Rows from Prometheus' text format."""
    rows = "| metric | kind | what it is |\n|---|---|---|\n"
    for name, about, kind in re.findall(r"^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$", text, re.MULTILINE):
        if not name.endswith("_created"):
            rows += f"| `{name}` | {kind} | {about} |\n"
    return rows


__all__ = ["kept_properties", "metrics", "own_properties", "types"]
