"""The rows of a segment as one Parquet file, whether they lie in one file or in several."""

# Decisions: docs/decisions/0420

from __future__ import annotations

from functools import partial

import pyarrow as pa

from moulin.formats.segment.stitched import Part, open_stitched
from moulin.model.facts import SegmentFacts
from moulin.storage.segment_source import open_segment
from moulin.storage.store import Store


def open_rows(store: Store, facts: SegmentFacts) -> pa.NativeFile:
    """The rows of a segment, to be read: all columns that the version of these facts sees."""
    if not facts.files:
        return open_segment(store, facts)
    parts = [Part(facts.path, facts.size, partial(open_segment, store, facts))]
    parts += [Part(file.path, file.size, partial(store.reader, file.path, file.size)) for file in facts.files]
    return open_stitched(parts)


__all__ = ["open_rows"]
