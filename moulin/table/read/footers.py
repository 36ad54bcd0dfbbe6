"""A cache of decoded and checked segment footers of this process.

A local file is identified by inode, size and times, so a modified file is read and checked again. An object of a
remote store is immutable, and identified by address and size; its pages are checked at every read, because
each is a new transfer. An inline segment is identified by its bytes.
"""

# Decisions: docs/decisions/0151, docs/decisions/0310

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Sequence
from zlib import crc32

import pyarrow as pa

from moulin.formats.segment.joined import SmallFile
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.reader import SegmentReader
from moulin.model.facts import SegmentFacts
from moulin.model.schema.values import Schema
from moulin.sized_cache import SizedCache
from moulin.storage.store import Store
from moulin.table.commit.segment_rows import open_rows, with_files_of
from moulin.table.read.inline_cache import INLINE_ROWS

_BYTES = 128 << 20
_FOOTERS: SizedCache[Hashable, OpenedFile] = SizedCache(_BYTES, lambda opened: opened.nbytes)


def open_reader(
    store: Store,
    facts: SegmentFacts,
    schema: Schema,
    *,
    columns: Sequence[str] | None = None,
    also: Collection[str] | None = None,
) -> SegmentReader:
    """A reader of a segment, with its cached footer, and the checked pages of a local file.

    With `also`, further columns such as those of a filter, only those of its files are
    opened that contain one of the columns; other columns read as their default.
    """
    if facts.files and columns is not None and also is not None:
        facts = with_files_of(facts, schema, (*columns, *also))
    known = _key(store, facts)
    opened = None if known is None else _FOOTERS.find(known)
    source: pa.NativeFile = open_rows(store, facts, end_size=None if opened is None else opened.end_size)
    trust = store.is_local and facts.inline is None and facts.adopted is None and known is not None
    reader = SegmentReader(source, schema, columns=columns, facts=facts, opened=opened, trust=trust)
    if opened is None and known is not None:
        _FOOTERS.keep(known, reader.opened)
    return reader


def open_small(store: Store, facts: SegmentFacts, like: OpenedFile | None = None) -> SmallFile | None:
    """All bytes of a small segment, and its footer; None if its size differs from the catalog, or it is adopted.

    `like` is a segment that may have the same columns.
    """
    if facts.adopted is not None:
        return None
    known = _key(store, facts)
    data = store.get(facts.path) if facts.inline is None else facts.inline
    if len(data) != facts.size or known is None:
        return None
    return data, _FOOTERS.get(known, lambda: OpenedFile(pa.BufferReader(data), facts.path, like=like))


def forget_footers() -> None:
    """Clear the cache, including decoded rows of inline segments."""
    _FOOTERS.clear()
    INLINE_ROWS.clear()


def _key(store: Store, facts: SegmentFacts) -> Hashable | None:
    """Identifies the current files of a segment; None if they are not accessible."""
    held = facts.inline
    base = _file_key(store, facts.path, facts.size) if held is None else (facts.path, crc32(held))
    if facts.adopted is not None:  # an adopted file may be replaced at any time, so it is checked again
        base = None if store.local_path(facts.path) is None else (base, facts.adopted)
    if not facts.files:
        return base
    keys = (base, *(_file_key(store, file.path, file.size) for file in facts.files))
    return None if None in keys else keys


def _file_key(store: Store, path: str, size: int) -> Hashable | None:
    local = store.local_path(path) if store.is_local else None
    if local is None:
        return (store.uri, path, size)
    try:
        found = os.stat(local)
    except OSError:
        return None  # opening it raises the error
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


__all__ = ["forget_footers", "open_reader", "open_small"]
