"""The SQL schema: every table of the catalog, read as `from moulin.catalog.sql import schema as s`.

One module per subject holds the tables, and this one gives them all: `segment.py` is the one to read first, with the
spans that say which segments a version has. Then `object.py` (databases, tables, views), `version.py` (the counter that
every mutation locks), `index.py`, `ingest.py`, `task.py` and `file.py`. Each imports `base.py` alone. Foreign keys name
their tables in text, so that the modules need not import one another.

A change of a table needs a migration in `migrations/` and a new `HEAD_REVISION` (`pool.py`). `OPEN` as a removed
version stands for "not removed". Ladder: a segment has spans, a span has a deletion vector, a version has the spans
that are open at it.
"""

# Decisions: docs/decisions/0205

from moulin.catalog.sql.schema.base import FORMAT, IS_OPEN, OPEN, Id, complete_metadata, metadata
from moulin.catalog.sql.schema.file import erasures, outbox, trash
from moulin.catalog.sql.schema.index import index_coverage, index_files, indexes, projection_files, projections
from moulin.catalog.sql.schema.ingest import (
    ingest_tokens,
    members,
    set_asides,
    stream_checkpoints,
    stream_tables,
    streams,
    token_secrets,
)
from moulin.catalog.sql.schema.object import (
    base_paths,
    branch_tables,
    branches,
    databases,
    table_commits,
    table_schemas,
    table_sort_orders,
    table_specs,
    tables,
    view_members,
    views,
)
from moulin.catalog.sql.schema.segment import (
    IN_BASE_PATH,
    SPAN_STATISTICS,
    adopted_files,
    column_files,
    column_sets,
    deletion_vectors,
    journals,
    merge_inputs,
    partitions,
    regions,
    segment_spans,
    segments,
    span_masks,
)
from moulin.catalog.sql.schema.task import leases, merge_task_inputs, merge_tasks, pins, staged_segments
from moulin.catalog.sql.schema.version import counter, incarnations, lake, requests, reserves, versions

__all__ = [
    "FORMAT",
    "IN_BASE_PATH",
    "IS_OPEN",
    "OPEN",
    "SPAN_STATISTICS",
    "Id",
    "adopted_files",
    "base_paths",
    "branch_tables",
    "branches",
    "column_files",
    "column_sets",
    "complete_metadata",
    "counter",
    "databases",
    "deletion_vectors",
    "erasures",
    "incarnations",
    "index_coverage",
    "index_files",
    "indexes",
    "ingest_tokens",
    "journals",
    "lake",
    "leases",
    "members",
    "merge_inputs",
    "merge_task_inputs",
    "merge_tasks",
    "metadata",
    "outbox",
    "partitions",
    "pins",
    "projection_files",
    "projections",
    "regions",
    "requests",
    "reserves",
    "segment_spans",
    "segments",
    "set_asides",
    "span_masks",
    "staged_segments",
    "stream_checkpoints",
    "stream_tables",
    "streams",
    "table_commits",
    "table_schemas",
    "table_sort_orders",
    "table_specs",
    "tables",
    "token_secrets",
    "trash",
    "versions",
    "view_members",
    "views",
]
