"""The SQL rows of segments, partitions, vectors, compactions and journals: a commit and a replay write the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.segments.live import encode_partition
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.catalog.sql.prepared import Prepared
from moulin.formats import messages as pb
from moulin.model.facts import VectorFacts

Partition = tuple[int, tuple[bytes | None, ...]]
"""The id of a partition spec, and the values of its fields."""


def select_spans() -> sa.Select[Any]:
    """Spans, each with the path, rows and size of its segment and how many of the rows are `deleted`."""
    p, g, d = s.segment_spans, s.segments, s.deletion_vectors
    return sa.select(
        p, g.c.path, g.c.rows, g.c.size, g.c.inline, sa.func.coalesce(d.c.cardinality, 0).label("deleted")
    ).select_from(p.join(g, g.c.number == p.c.segment).join(d, d.c.id == p.c.vector_id, isouter=True))


def segment_row(table_id: UUID, ref: pb.DataFileRef, partition_id: int) -> dict[str, Any]:
    """The row of a segment, from its full reference in a manifest: both hold the same."""
    return {
        "number": ref.number,
        "table_id": table_id,
        "path": ref.path,
        "rows": ref.num_rows,
        "size": ref.file_size,
        "level": ref.level,
        "schema_id": ref.schema_id,
        "partition_id": partition_id,
        "sort_order_id": ref.sort_order_id,
        "sha256": ref.sha256,
        "facts": ref.columns.SerializeToString(deterministic=True),
        "inline": bool(ref.columns.inline),
        "time_min": ref.time_min if ref.HasField("time_min") else None,
        "time_max": ref.time_max if ref.HasField("time_max") else None,
        "has_lineage": ref.has_lineage,
        "seq_min": ref.seq_min,
        "seq_max": ref.seq_max,
        "key_min": ref.key_min or None,
        "key_max": ref.key_max or None,
        "region": ref.region,
        "index_size": ref.index_size,
        "added_version": ref.added_version,
    }


CARRIED = (
    "partition_id", "time_class", "time_min", "time_max", "first_row_id", "sequence", "joined_version", "columns_id",
)  # fmt: skip
"""What a change of the deletion vector leaves as it was. All but the last, the spans of a segment have in common."""


def span_row(
    table_id: UUID, segment: int, vector_id: int, added: int, carried: Sequence[int], removed: int = s.OPEN
) -> dict[str, Any]:
    """The row of a span; `carried` are the values of `CARRIED`."""
    return {
        "table_id": table_id,
        "segment": segment,
        "vector_id": vector_id,
        "added_version": added,
        "removed_version": removed,
        **dict(zip(CARRIED, carried, strict=True)),
    }


def vector_row(table_id: UUID, vector: VectorFacts, version: int) -> dict[str, Any]:
    """The row of a deletion vector that came with `version`."""
    return {
        "id": vector.id,
        "table_id": table_id,
        "segment": vector.segment,
        "path": vector.path,
        "offset": vector.offset,
        "length": vector.length,
        "cardinality": vector.cardinality,
        "added_version": version,
    }


_OF_TABLE = sa.select(s.partitions.c.spec_id, s.partitions.c.tuple, s.partitions.c.id).where(
    s.partitions.c.table_id == sa.bindparam("table_id")
)
_PARTITIONS = _OF_TABLE.where(s.partitions.c.tuple.in_(sa.bindparam("tuples", expanding=True)))
_PARTITION = Prepared(
    _OF_TABLE.where(s.partitions.c.spec_id == sa.bindparam("spec"), s.partitions.c.tuple == sa.bindparam("one"))
)


def partition_ids(connection: sa.Connection, table_id: UUID, wanted: Iterable[Partition]) -> dict[Partition, int]:
    """The number of each partition (spec id and values) of a table, given one when new."""
    p = s.partitions
    stored = {(spec_id, encode_partition(values)): (spec_id, values) for spec_id, values in wanted}

    def known() -> dict[Partition, int]:
        ids: dict[Partition, int] = {}
        if len(stored) == 1:
            ((spec_id, data),) = stored
            one = _PARTITION.first(connection, {"table_id": table_id, "spec": spec_id, "one": data})
            return {} if one is None else {stored[spec_id, data]: one.id}
        for chunk in chunks(list({data for _, data in stored})):
            rows = connection.execute(_PARTITIONS, {"table_id": table_id, "tuples": chunk})
            found = {(row[0], row[1]): row[2] for row in rows}
            ids.update({stored[key]: found[key] for key in stored.keys() & found.keys()})
        return ids

    ids = known()
    new = [
        {"table_id": table_id, "spec_id": spec_id, "tuple": data}
        for (spec_id, data), partition in stored.items()
        if partition not in ids
    ]
    if new:
        connection.execute(p.insert(), new)
        ids = known()
    return ids


def input_rows(table_id: UUID, version: int, inputs: Iterable[int]) -> list[dict[str, Any]]:
    """The rows of the segments that a compaction consumed."""
    return [{"segment": number, "version": version, "table_id": table_id} for number in inputs]


def journal_rows(
    table_id: UUID, version: int, journals: Sequence[str], outputs: Sequence[int] = ()
) -> list[dict[str, Any]]:
    """The rows of a compaction's journals, each with its first output, if known."""
    return [
        {"path": path, "table_id": table_id, "version": version, "output": output}
        for path, output in zip(journals, outputs or [0] * len(journals), strict=True)
    ]
