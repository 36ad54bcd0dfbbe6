"""A cache of decoded rows of inline segments, because decoding costs more than fetching from the catalog.

Consecutive inline segments are cached together, as scans read them. The cache key is the paths and
bytes of the segments, so changed bytes are decoded and checked again.
"""

# Decisions: docs/decisions/0381

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final
from zlib import crc32

import pyarrow as pa

from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.sized_cache import SizedCache

INLINE_ROWS: Final[SizedCache[Hashable, pa.Table]] = SizedCache(32 << 20, lambda table: table.nbytes)


def inline_key(state: TableState, facts: Sequence[SegmentFacts], names: Sequence[str]) -> Hashable | None:
    """The cache key of these columns of inline segments; None if one of the segments has a file."""
    parts: list[tuple[str, int]] = []
    for one in facts:
        if one.inline is None or one.files:
            return None
        parts.append((one.path, crc32(one.inline)))
    return state.id, state.schema_id, tuple(names), tuple(parts)


__all__ = ["INLINE_ROWS", "inline_key"]
