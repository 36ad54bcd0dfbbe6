"""Deletion vectors in storage: reads them with a cache, and writes several new ones in one Puffin file."""

# Decisions: docs/decisions/0010

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from pyroaring import BitMap64

from moulin.errors import Corrupt
from moulin.formats import deletion_vector
from moulin.formats.puffin import DeletionVectorBlob, write_puffin
from moulin.model.facts import SegmentFacts, VectorFacts
from moulin.model.ids import new_id
from moulin.sized_cache import SizedCache
from moulin.storage import paths
from moulin.storage.store import Store

_CACHE_BYTES = 64 << 20


class VectorCache:
    """An LRU cache of decoded vectors by file and offset. Vectors are immutable."""

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._held: SizedCache[tuple[str, int], tuple[BitMap64, int]] = SizedCache(limit, lambda held: held[1])

    def get(self, store: Store, vector: VectorFacts, rows: int) -> BitMap64:
        """The positions of a vector of a segment of `rows` rows. Do not change what is returned."""
        key = (vector.path, vector.offset)
        held = self._held.find(key)
        if held is None:
            held = (read_vector(store, vector, rows), vector.length)
            self._held.keep(key, held)
        return held[0]


def read_vector(store: Store, vector: VectorFacts, rows: int) -> BitMap64:
    """Read and check one vector."""
    blob = store.get_range(vector.path, vector.offset, vector.length)
    source = f"The deletion vector of segment {vector.segment} in {vector.path}"
    bitmap = deletion_vector.decode(blob, rows=rows, source=source)
    if len(bitmap) != vector.cardinality:
        raise Corrupt(f"{source} has {len(bitmap)} positions where the catalog says {vector.cardinality}.")
    return bitmap


@dataclass(frozen=True, slots=True)
class VectorTarget:
    """A segment that gets a vector, and all positions in it."""

    segment: SegmentFacts
    positions: BitMap64


def _address(store: Store, facts: SegmentFacts) -> str:
    """The address of a segment for engines."""
    return (facts.adopted.location if facts.adopted is not None else "") or store.location(facts.path)


def write_vectors(store: Store, table_id: UUID, targets: Mapping[int, VectorTarget]) -> dict[int, VectorFacts]:
    """Write one Puffin file with a vector per segment, in the order of Iceberg's manifests. Ids are given at commit."""
    if not targets:
        return {}
    path = paths.vector_path(table_id, new_id())
    ordered = sorted(targets, key=lambda number: (targets[number].segment.spec_id, number))
    found = [targets[number] for number in ordered]
    blobs = [DeletionVectorBlob(_address(store, target.segment), target.positions) for target in found]
    data, extents = write_puffin(blobs)
    store.put(path, data)
    return {
        number: VectorFacts(0, number, path, extent.offset, extent.length, extent.cardinality)
        for number, extent in zip(ordered, extents, strict=True)
    }
