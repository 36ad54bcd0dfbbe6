"""The kernel of deletes: the positions of live rows that a condition matches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap64

from moulin.formats import deletion_vector
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import POSITION
from moulin.model.schema.values import Schema
from moulin.storage.store import Store
from moulin.table.commit.vectors import read_vector
from moulin.table.read.footers import open_reader


@dataclass(frozen=True, slots=True)
class MatchSlice:
    """Segments in which to find the rows that a condition matches."""

    store: Store
    schema: Schema
    predicate: Predicate
    segments: tuple[LiveSegment, ...]


def match(work: MatchSlice) -> tuple[tuple[int, bytes], ...]:
    """Matching positions by segment, as deletion-vector blobs; segments without a match are left out.

    Reads only the columns that the condition names.
    """
    found = []
    for segment in work.segments:
        deleted = None
        if segment.vector is not None:
            deleted = read_vector(work.store, segment.vector, segment.facts.rows)
        positions = match_positions(work.store, work.schema, work.predicate, segment, deleted)
        if positions:
            found.append((segment.facts.number, deletion_vector.encode(positions)))
    return tuple(found)


def match_positions(
    store: Store, schema: Schema, predicate: Predicate, segment: LiveSegment, deleted: BitMap64 | None
) -> BitMap64:
    """Live positions of a segment that match."""
    with open_reader(store, segment.facts, schema, columns=[]) as reader:
        batches = reader.batches(deleted=deleted, predicate=predicate, position=True)
        positions = [batch.column(POSITION).to_numpy() for batch in batches]
    return deletion_vector.from_positions(np.concatenate(positions)) if positions else BitMap64()
