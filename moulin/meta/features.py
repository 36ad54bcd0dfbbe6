"""Features of clients of the catalog service: sent with every call, so that old clients do not get data that they would
misread.
"""

# Decisions: docs/decisions/0322

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

from moulin.errors import Unsupported
from moulin.formats.manifest import (
    BASES_PREFIX,
    FEATURE_BASE_PATHS,
    FEATURE_BITMAP_INDEXES,
    FEATURE_COLUMN_FILES,
    FEATURE_INLINE_SEGMENTS,
    KNOWN_FEATURES,
)
from moulin.model.entities import Index
from moulin.model.facts import LiveSegment

FEATURES: Final = "x-moulin-features"  # the metadata of a call: the features of manifests that the client reads
OWN: Final = (FEATURES, str(KNOWN_FEATURES))

_known: ContextVar[int] = ContextVar("features", default=0)


def note_features(metadata: Iterable[tuple[str, str]]) -> None:
    """Note what the caller of the call that begins here knows: nothing, when it does not say."""
    given = next((value for key, value in metadata if key == FEATURES), "")
    _known.set(int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0)


def require_readable(segment: LiveSegment) -> None:
    """Unsupported when the caller would look for the file of a segment where it is not, or overlook columns."""
    if segment.facts.path.startswith(BASES_PREFIX) and not _known.get() & FEATURE_BASE_PATHS:
        raise Unsupported(
            "The table has segments in base paths, which this client does not support: upgrade its moulin, or "
            "compact the table."
        )
    if segment.columns_id and not _known.get() & FEATURE_COLUMN_FILES:
        raise Unsupported(
            "The table has columns in separate files, which this client does not support: upgrade its moulin, or "
            "compact the table."
        )
    if segment.facts.inline is not None and not _known.get() & FEATURE_INLINE_SEGMENTS:
        raise Unsupported(
            "The table has small segments that are kept in the catalog, which this client does not support: upgrade "
            "its moulin, or compact the table."
        )


def is_known_index(index: Index) -> bool:
    """Whether the caller knows this kind of index; one that it does not know it can do without."""
    return index.kind in ("btree", "bloom") or bool(_known.get() & FEATURE_BITMAP_INDEXES)
