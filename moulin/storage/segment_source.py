"""The bytes of a segment, in storage or in its facts if inline, and the path of its key index."""

# Decisions: docs/decisions/0320

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from moulin.errors import AlreadyExists
from moulin.model.facts import SegmentFacts
from moulin.storage import paths
from moulin.storage.interface import Store

if TYPE_CHECKING:
    import pyarrow as pa

_THREADS = 8


class Held(Protocol):
    """What is known of a segment that may be inline."""

    @property
    def path(self) -> str: ...

    @property
    def inline(self) -> bytes | None: ...


def open_segment(store: Store, facts: SegmentFacts) -> pa.NativeFile:
    """The file of a segment, to be read."""
    if facts.inline is None:
        return store.reader(facts.path, facts.size, "" if facts.adopted is None else facts.adopted.etag)
    import pyarrow as pa

    return pa.BufferReader(facts.inline)


def key_index_of(facts: SegmentFacts) -> str:
    """The key index of a segment: beside its file, or that of an adopted one with the table that adopted it."""
    if facts.adopted is None:
        return paths.key_index_path(facts.path)
    return paths.adopted_key_index_path(facts.adopted.owner, facts.number, facts.sha256)


def put_files(store: Store, segments: Iterable[Held]) -> None:
    """Write the files of inline segments to storage, for those who read it themselves. One that is there stays."""
    inline = [facts for facts in segments if facts.inline is not None]
    if len(inline) > 1:
        with ThreadPoolExecutor(min(_THREADS, len(inline)), thread_name_prefix="moulin-inline") as pool:
            for _ in pool.map(lambda facts: _put(store, facts), inline):
                pass
    elif inline:
        _put(store, inline[0])


def _put(store: Store, facts: Held) -> None:
    if facts.inline is not None and not store.exists(facts.path):
        with suppress(AlreadyExists):
            store.put_if_absent(facts.path, facts.inline)
