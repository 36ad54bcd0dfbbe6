"""The rows of many inline segments at once: a reader for each would cost a compaction more than all else."""

# Decisions: docs/decisions/0322

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from moulin.errors import MoulinError
from moulin.formats.segment.opened import OpenedFile
from moulin.model.facts import LiveSegment
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema


def read_inline(schema: Schema, segments: Sequence[LiveSegment]) -> pa.Table | None:
    """All rows of inline segments without vectors, with their lineage, one segment after the other.

    None when they have to be read one by one, which also says what is wrong. Checksums are checked.
    """
    try:
        first = _open(segments[0])
        mapping = first.mapping(schema, tuple(field.name for field in schema.fields))
        stored = pa.concat_tables([_read(segment, first, mapping.leaves) for segment in segments])
        table = mapping.apply(stored)
    except (MoulinError, pa.ArrowException, ValueError, LookupError):
        return None
    rows = [segment.facts.rows for segment in segments]
    ids = np.concatenate([np.arange(s.first_row_id, s.first_row_id + n) for s, n in zip(segments, rows, strict=True)])
    sequences = np.repeat([segment.sequence for segment in segments], rows)
    columns = [*table.columns, pa.array(ids, pa.int64()), pa.array(sequences, pa.int64())]
    return pa.Table.from_arrays(columns, schema=arrow_schema(schema, lineage=True))


def _open(segment: LiveSegment) -> OpenedFile:
    facts = segment.facts
    if facts.inline is None or facts.has_lineage or segment.vector is not None:
        raise ValueError(f"{facts.path} is not a fresh inline segment")
    return OpenedFile(pa.BufferReader(facts.inline), facts.path)


def _read(segment: LiveSegment, first: OpenedFile, leaves: Sequence[int]) -> pa.Table:
    """These leaves of a segment that has the columns of the `first`."""
    facts = segment.facts
    opened = _open(segment)
    if opened.rows != facts.rows or not opened.arrow.equals(first.arrow, check_metadata=True):
        raise ValueError(f"{facts.path} has other rows or columns")
    file = pq.ParquetFile(
        pa.BufferReader(facts.inline),
        metadata=opened.metadata,
        page_checksum_verification=True,
        arrow_extensions_enabled=True,
    )
    groups = list(range(len(opened.group_rows)))
    table = file.reader.read_row_groups(groups, column_indices=list(leaves), use_threads=False)
    if table.num_rows != facts.rows:
        raise ValueError(f"{facts.path} holds other rows than its footer says")
    return table.replace_schema_metadata(None)
