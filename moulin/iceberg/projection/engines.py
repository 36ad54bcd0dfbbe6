"""Which engines read a table as it is, and why not. The facts are data: what each engine did with such tables.

`tests/interop` checks the engines that can be installed against this page. Versions are those that were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moulin.iceberg.format.json import Json

V3 = "format version 3"
VECTORS = "deletion vectors"
DEFAULTS = "columns with a default for older rows"
NANOSECONDS = "nanosecond timestamps"
ZONED_NANOSECONDS = "nanosecond timestamps with a zone"
NEWER_SCHEMA = "a schema newer than the last snapshot"

# Engine, the version that was looked at, and what it cannot do.
_ENGINES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("duckdb", "1.5.5", {ZONED_NANOSECONDS: "fails"}),
    ("pyiceberg", "0.12.0", {}),
    ("polars", "2.1.0", {}),
    (
        "datafusion (pyiceberg-core)",
        "54.1.0 (0.11.0)",
        {DEFAULTS: "fails", NEWER_SCHEMA: "shows the columns of the snapshot"},
    ),
    ("sail", "0.7.2", {NANOSECONDS: "fails"}),
    ("clickhouse (chdb)", "26.9", {VECTORS: "fails", DEFAULTS: "fails"}),
    ("daft", "0.7.26", {VECTORS: "fails", DEFAULTS: "shows null instead"}),
    ("icebird", "0.3.1", {VECTORS: "crashes", DEFAULTS: "leaves the column out"}),
    ("iceberg-java", "1.5.2", {V3: "refuses it"}),
)


@dataclass(frozen=True, slots=True)
class Reader:
    """Whether an engine returns the rows of a table, and if not, what in the table it cannot read."""

    engine: str
    version: str
    reads: bool
    reason: str | None


def features(metadata: Json) -> set[str]:
    """What a table uses that not every engine reads."""
    return set(_features(metadata))


def _features(metadata: Json) -> Iterator[str]:
    if metadata["format-version"] >= 3:
        yield V3
    current = next((s for s in metadata["snapshots"] if s["snapshot-id"] == metadata.get("current-snapshot-id")), None)
    schema = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
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


def readers(metadata: Json) -> list[Reader]:
    """What each engine makes of a table."""
    used = features(metadata)
    found = []
    for engine, version, unable in _ENGINES:
        reasons = [f"{feature}: {what}" for feature, what in unable.items() if feature in used]
        found.append(Reader(engine, version, not reasons, "; ".join(reasons) or None))
    return found
