"""Checks streams of collectors: every acknowledged baby segment that is not in segments yet exists and is intact."""

from __future__ import annotations

from collections.abc import Iterator

from moulin.catalog.catalog import Catalog
from moulin.catalog.upkeep.check import Finding
from moulin.errors import MoulinError
from moulin.formats.baby_segment import decode
from moulin.model.ingest import Stream
from moulin.storage import paths
from moulin.storage.store import Store


def check_streams(catalog: Catalog, *, data: bool = True) -> Iterator[Finding]:
    """A collector puts one baby segment at a time, so a number that is missing below another one was lost.

    The last baby segment of a stream can be missing without a trace, unless the catalog knows where the stream ended.
    """
    for stream in catalog.ingest.snapshot().streams:
        yield from _check_stream(catalog.store, stream, data)


def _check_stream(store: Store, stream: Stream, data: bool) -> Iterator[Finding]:
    names = (paths.parse_baby_segment(info.path) for info in store.list(paths.stream_prefix(stream.id)))
    offsets = {found[1] for found in names if found is not None}
    last = max(offsets, default=stream.frontier) if stream.stopped_offset is None else stream.stopped_offset
    for offset in range(stream.frontier + 1, last + 1):
        path = paths.baby_segment(stream.id, offset)
        if offset not in offsets and not store.exists(path):
            yield Finding("an acknowledged baby segment is there", path, "it is missing, and not in segments")
        elif data:
            try:
                decode(store.get(path), source=path, stream_id=stream.id, offset=offset)
            except MoulinError as error:
                yield Finding("a file is as it was written", path, error.message)
