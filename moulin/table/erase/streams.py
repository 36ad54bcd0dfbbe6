"""Baby segments in an erase: committed ones are deleted at once, others are reported.

A baby segment holds requests of many senders, and cannot be written again. One that is in segments is not needed any
more. One that is not yet is pending: its rows come into the table when a nursery takes them, and are then rows to
erase. What nurseries could not read is set aside; such an object goes when a value of the condition is in it.
"""

# Decisions: docs/decisions/0442

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from moulin.catalog.catalog import Catalog
from moulin.errors import MoulinError, NotFound
from moulin.formats import baby_segment
from moulin.model.ingest import Stream
from moulin.model.predicate.condition import Compare, In, Like, leaves
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.erase.find import Question

_SHORTEST = 3  # bytes of a value that is looked for in what cannot be read


@dataclass(slots=True)
class Streams:
    """What became of the records of collectors: objects that were deleted, and those that are left, with the reason."""

    deleted: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)


def erase_streams(catalog: Catalog, family: Collection[UUID], question: Question) -> Streams:
    """Delete records that are in segments, and set-aside ones that hold a value. REQUIRES: manifests are published."""
    done = Streams()
    listed = catalog.ingest.snapshot()
    routed = {one.token_id for one in listed.routing}
    for stream in listed.streams:
        if stream.token_id in routed or any(table.table_id in family for table in stream.tables):
            _delete_taken(catalog, stream, done)
    _search_set_aside(catalog, _values(question), done)
    return done


def _delete_taken(catalog: Catalog, stream: Stream, done: Streams) -> None:
    limit = min(stream.frontier, stream.merged_offset)
    gone = [paths.baby_segment(stream.id, offset) for offset in range(stream.deleted_offset + 1, limit + 1)]
    if gone:
        catalog.store.delete(gone)
        catalog.ingest.set_deleted_offset(stream.id, limit, stream.frontier_time)
        done.deleted += gone
    for info in catalog.store.list(paths.stream_prefix(stream.id)):
        found = paths.parse_baby_segment(info.path)
        if found is not None and found[1] > limit and _has_records(catalog.store, info.path):
            done.pending.append(f"{info.path}: records that no version has yet; run a nursery, and erase again")


def _has_records(store: Store, path: str) -> bool:
    try:
        head = store.get_range(path, 0, baby_segment.HEADER_SIZE)
        return baby_segment.decode_header(head, source=path).kind is baby_segment.Kind.DATA
    except NotFound:
        return False
    except MoulinError:
        return True


def _search_set_aside(catalog: Catalog, values: Collection[bytes], done: Streams) -> None:
    places = sorted({one.path for _, one in catalog.ingest.set_asides() if one.path})
    for path in places:
        try:
            data = catalog.store.get(path)
        except NotFound:
            continue
        if any(value in part for part in _parts(data, path) for value in values):
            catalog.store.delete([path])
            catalog.ingest.forget_set_aside(path)
            done.deleted.append(path)
        else:
            done.pending.append(f"{path}: set aside by a nursery; searched for the values as text alone")


def _parts(data: bytes, path: str) -> Iterable[bytes]:
    """The bytes of an object, and of the requests in it if it can be unpacked."""
    yield data
    try:
        yield from (entry.data for entry in baby_segment.decode(data, source=path).entries)
    except MoulinError:
        return


def _values(question: Question) -> set[bytes]:
    """The values that the condition compares with, as text."""
    found: set[bytes] = set()
    for reading in question.readings.values():
        for leaf in leaves(reading.predicate.condition):
            match leaf:
                case Compare():
                    found.add(_text(leaf.comparand))
                case In():
                    found.update(map(_text, leaf.comparands))
                case Like():
                    found.add(leaf.prefix.encode())
    return {value for value in found if len(value) >= _SHORTEST}


def _text(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
