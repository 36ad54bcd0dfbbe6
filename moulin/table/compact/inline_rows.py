"""Reads many inline segments together, because separate readers would dominate the cost of a compaction."""

# Decisions: docs/decisions/0322, docs/decisions/0380

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from moulin.errors import MoulinError
from moulin.formats.segment.joined import SmallFile, can_join, read_joined
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
        files = [first, *(_open(segment, first[1]) for segment in segments[1:])]
        if not can_join(files):
            return None
        mapping = files[0][1].mapping(schema, tuple(field.name for field in schema.fields))
        table = read_joined(files, mapping, trust=False)
    except (MoulinError, pa.ArrowException, ValueError, LookupError):
        return None
    rows = [segment.facts.rows for segment in segments]
    ids = np.concatenate([np.arange(s.first_row_id, s.first_row_id + n) for s, n in zip(segments, rows, strict=True)])
    sequences = np.repeat([segment.sequence for segment in segments], rows)
    columns = [*table.columns, pa.array(ids, pa.int64()), pa.array(sequences, pa.int64())]
    return pa.Table.from_arrays(columns, schema=arrow_schema(schema, lineage=True))


def _open(segment: LiveSegment, like: OpenedFile | None = None) -> SmallFile:
    facts = segment.facts
    if facts.inline is None or facts.has_lineage or facts.files or segment.vector is not None:
        raise ValueError(f"{facts.path} is not a new inline segment")
    opened = OpenedFile(pa.BufferReader(facts.inline), facts.path, like=like)
    if opened.map.rows != facts.rows:
        raise ValueError(f"{facts.path} has other rows")
    return facts.inline, opened
