"""Which engines can read a table, and why not. The rules are data from tests with each engine.

`tests/interop` checks installable engines against this list. Versions are the tested ones.
An engine that shows null lists, maps or structs as empty ones counts as one that reads them: ClickHouse has no others,
and pyiceberg does so with lists of structs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from moulin.iceberg.format.json import Json
from moulin.model.facts import SegmentFacts

V3 = "format version 3"
VECTORS = "deletion vectors"
DEFAULTS = "columns with a default for older rows"
MISSING_DEFAULTS = "columns with a default for files that lack them"
UUID_DEFAULTS = "columns of UUIDs with a default for files that lack them"
NANOSECONDS = "nanosecond timestamps"
ZONED_NANOSECONDS = "nanosecond timestamps with a zone"
NANOSECOND_PARTITIONS = "partitions by nanosecond timestamps"
UUID_PARTITIONS = "partitions by UUIDs"
FIXED_PARTITIONS = "partitions by fixed-length bytes"
NEWER_SCHEMA = "a schema newer than the last snapshot"
DATES = "files with dates of a column that is a timestamp now"
STRUCTS = "files from before a struct got another field"
LOST_PARTITIONS = "files that are partitioned by a dropped column (heal: compact(everything=True))"
ONLY_LOST_PARTITIONS = "files that are partitioned by dropped columns alone (heal: compact(everything=True))"

# Engine, tested version, and unsupported features.
_ENGINES: tuple[tuple[str, str, dict[str, str]], ...] = (
    (
        "duckdb",
        "1.5.5",
        {
            ZONED_NANOSECONDS: "fails",
            LOST_PARTITIONS: "fails with a condition or deleted rows",
            ONLY_LOST_PARTITIONS: "aborts its process",
        },
    ),
    ("pyiceberg", "0.12.0", {DATES: "fails", NANOSECOND_PARTITIONS: "fails"}),
    ("polars", "2.1.0", {DATES: "fails", NANOSECOND_PARTITIONS: "fails"}),
    (
        "datafusion (pyiceberg-core)",
        "54.1.0 (0.11.0)",
        {
            UUID_DEFAULTS: "fails",
            NEWER_SCHEMA: "shows the columns of the snapshot",
            DATES: "shows null instead, and finds fewer rows",
            STRUCTS: "fails",
            LOST_PARTITIONS: "fails",
            NANOSECOND_PARTITIONS: "fails",
            UUID_PARTITIONS: "fails",
        },
    ),
    ("sail", "0.7.2", {NANOSECONDS: "fails", LOST_PARTITIONS: "fails"}),
    (
        "clickhouse (chdb)",
        "26.9",
        {
            VECTORS: "fails",
            MISSING_DEFAULTS: "shows null instead",
            UUID_PARTITIONS: "fails",
        },
    ),
    ("daft", "0.7.26", {VECTORS: "fails", DEFAULTS: "shows null instead"}),
    ("icebird", "0.3.1", {VECTORS: "crashes", DEFAULTS: "leaves the column out"}),
    ("iceberg-java", "1.5.2", {V3: "refuses it", FIXED_PARTITIONS: "fails"}),
)


@dataclass(frozen=True, slots=True)
class Reader:
    """Whether an engine returns the rows of a table, and if not, what in the table it cannot read."""

    engine: str
    version: str
    reads: bool
    reason: str | None


def features(metadata: Json, files: Iterable[SegmentFacts] | None = None) -> set[str]:
    """Features of a table that not every engine can read.

    `files` are those of the current snapshot; without them every schema and spec of the table counts as used by one.
    """
    schemas = {schema["schema-id"]: schema for schema in metadata["schemas"]}
    specs = {spec["spec-id"]: spec for spec in metadata["partition-specs"]}
    if files is not None:
        used = {(one.schema_id, one.spec_id) for one in files}
        schemas = {number: one for number, one in schemas.items() if number in {pair[0] for pair in used}}
        specs = {number: one for number, one in specs.items() if number in {pair[1] for pair in used}}
    current = next(one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
    return {
        *_features(metadata, current),
        *_old_types(current, schemas.values()),
        *_filled_in(current, schemas.values()),
        *_partitions(current, list(specs.values()), metadata["schemas"]),
    }


def _features(metadata: Json, schema: Json) -> Iterator[str]:
    if metadata["format-version"] >= 3:
        yield V3
    current = next((s for s in metadata["snapshots"] if s["snapshot-id"] == metadata.get("current-snapshot-id")), None)
    if current is not None:
        if metadata["format-version"] >= 3 and int(current["summary"].get("total-delete-files", 0)):
            yield VECTORS
        if current.get("schema-id") != metadata["current-schema-id"]:
            yield NEWER_SCHEMA
    text = list(_values(schema))
    if "initial-default" in text:
        yield DEFAULTS
    if "timestamp_ns" in text or "timestamptz_ns" in text:
        yield NANOSECONDS
    if "timestamptz_ns" in text:
        yield ZONED_NANOSECONDS


def _old_types(current: Json, schemas: Iterable[Json]) -> Iterator[str]:
    """Differences of files of earlier schemas."""
    now = dict(_types(current))
    for schema in schemas:
        before = dict(_types(schema))
        for number, kind in before.items():
            if kind == "date" and str(now.get(number, kind)).startswith("timestamp"):
                yield DATES
            if isinstance(kind, frozenset) and not now.get(number, kind) <= kind:
                yield STRUCTS


def _filled_in(current: Json, schemas: Iterable[Json]) -> Iterator[str]:
    """Columns with defaults missing in files of earlier schemas."""
    before = [dict(_types(schema)) for schema in schemas]
    for field in _defaulted(current["fields"]):
        if all(field["id"] in types for types in before):
            continue
        yield MISSING_DEFAULTS
        if field["type"] == "uuid":
            yield UUID_DEFAULTS


def _defaulted(value: Any) -> Iterator[Json]:
    """The fields in part of a schema that have a default for older rows."""
    if isinstance(value, dict):
        if value.get("initial-default") is not None:
            yield value
        value = [value.get(name) for name in ("type", "fields", "element", "key", "value")]
    if isinstance(value, list):
        for inner in value:
            yield from _defaulted(inner)


def _types(struct: Json) -> Iterator[tuple[int, Any]]:
    """The type of each field by its id; of a struct, the ids of its fields."""
    for field in struct["fields"]:
        yield from _nested(field["id"], field["type"])


def _nested(number: int, kind: Any) -> Iterator[tuple[int, Any]]:
    if not isinstance(kind, dict):
        yield number, kind
    elif kind["type"] == "struct":
        yield number, frozenset(field["id"] for field in kind["fields"])
        yield from _types(kind)
    elif kind["type"] == "list":
        yield from _nested(kind["element-id"], kind["element"])
    else:
        yield from _nested(kind["key-id"], kind["key"])
        yield from _nested(kind["value-id"], kind["value"])


def _partitions(current: Json, specs: Sequence[Json], schemas: Iterable[Json]) -> Iterator[str]:
    now = dict(_types(current))
    ever = {number: kind for schema in schemas for number, kind in _types(schema)}
    sources = {field["source-id"] for spec in specs for field in spec["fields"]}
    if sources and not sources & now.keys():
        yield ONLY_LOST_PARTITIONS
    for field in (field for spec in specs for field in spec["fields"]):
        kind = str(now.get(field["source-id"], ever.get(field["source-id"])))
        if field["source-id"] not in now:
            yield LOST_PARTITIONS
        if field["transform"] != "identity":
            continue
        if kind.endswith("_ns"):
            yield NANOSECOND_PARTITIONS
        if kind == "uuid":
            yield UUID_PARTITIONS
        if kind.startswith("fixed"):
            yield FIXED_PARTITIONS


def _values(value: Any) -> Iterator[Any]:
    """Every key and every value in a document; a key whose value is null does not count."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if inner is not None:
                yield key
                yield from _values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner)
    else:
        yield value


def readers(metadata: Json, files: Iterable[SegmentFacts] | None = None) -> list[Reader]:
    """Which engines can read a table; see `features` for `files`."""
    used = features(metadata, files)
    found = []
    for engine, version, unable in _ENGINES:
        reasons = [f"{feature}: {what}" for feature, what in unable.items() if feature in used]
        found.append(Reader(engine, version, not reasons, "; ".join(reasons) or None))
    return found
