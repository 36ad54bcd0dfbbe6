"""Tables and segments for catalog tests. The catalog never opens a data file, so its files need not exist."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import CommitResult, TableCommit
from moulin.catalog.objects.tables import NewTable
from moulin.model.entities import Representation, TableState, ViewQuery
from moulin.model.facts import ColumnFacts, SegmentFacts, VectorFacts
from moulin.model.ids import new_id
from moulin.model.layout.partition import parse_spec
from moulin.model.layout.sort import parse_sort
from moulin.model.operations import Expected, NewVector, Operation
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import LongType, NestedField, Schema
from moulin.storage import paths

SECOND = 1_000_000_000
COLUMNS = [("id", "long", False), ("ts", "timestamptz"), ("region", "string")]


def schema(columns: Sequence[tuple[Any, ...]] = COLUMNS) -> Schema:
    return make_schema(columns)


def new_table(
    partition_by: Sequence[str] = (), properties: Mapping[str, str] | None = None, event_time: int | None = 2
) -> NewTable:
    made = schema()
    spec, last_partition_id = parse_spec(list(partition_by), made)
    return NewTable(
        made,
        made.highest_field_id,
        spec,
        last_partition_id,
        parse_sort(["ts"], made),
        event_time,
        dict(properties or {}),
    )


def make_table(catalog: Catalog, name: str = "t", database: str = "d", **options: Any) -> TableState:
    """A table, in a database that is made when missing."""
    catalog.create_database(database, if_not_exists=True)
    return catalog.create_table(database, name, new_table(**options))


def segment(catalog: Catalog, table_id: UUID, rows: int = 10, **facts: Any) -> SegmentFacts:
    """A segment that was never written, with facts that tell it from others."""
    number = facts.pop("number", None) or catalog.reserve_segments(1)
    columns = (ColumnFacts(1, rows, 0, None, 8 * rows, number.to_bytes(8, "little"), b"\xff" * 8),)
    values: dict[str, Any] = {
        "number": number,
        "path": paths.segment_path(table_id, number, "00c0ffee"),
        "rows": rows,
        "size": 100 * rows,
        "level": 0,
        "schema_id": 0,
        "spec_id": 0,
        "partition": (),
        "sha256": hashlib.sha256(str(number).encode()).digest(),
        "columns": columns,
        "split_offsets": (4, 100),
    }
    return SegmentFacts(**{**values, **facts})


def vector(table_id: UUID, number: int, cardinality: int, seen: int = 0) -> NewVector:
    """A deletion vector for a segment that was seen with vector `seen`."""
    path = paths.vector_path(table_id, new_id())
    return NewVector(Expected(number, seen), VectorFacts(0, number, path, 4, 40, cardinality))


def journal(table_id: UUID) -> str:
    """The path of a journal that was never written."""
    return paths.journal_path(table_id, new_id())


def commit(
    catalog: Catalog, table_id: UUID, operation: Operation, read: int | None = None, **more: Any
) -> CommitResult:
    """Commit one operation, prepared from the newest version unless `read` says which."""
    version = catalog.version() if read is None else read
    return catalog.commit([TableCommit(table_id, version, operation)], **more)


def live(catalog: Catalog, table_id: UUID, version: int | None = None) -> dict[int, int]:
    """Live rows by segment number."""
    found = catalog.segments(table_id, catalog.version() if version is None else version)
    return {segment.facts.number: segment.live_rows for segment in found}


def view_query(*texts: str, **properties: str) -> ViewQuery:
    """A query in several dialects, with a column `n`."""
    dialects = ("spark", "duckdb")
    schema = Schema(NestedField(1, "n", LongType(), doc="a number"), schema_id=0)
    return ViewQuery(tuple(map(Representation, dialects, texts)), schema, properties)
