"""CreateSegment -> the facts of a segment. Missing facts are read from the file, before any transaction.

A client that knows only the first version of the API puts its file below the table's prefix, under a name of its own.
Such a file is copied to a segment path; clean-up deletes the upload, like files of Iceberg engines.
"""

# Decisions: docs/decisions/0083

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.catalog.commit.arrivals import check_segment
from moulin.catalog.commit.delivery import check_fits, require_objects, segment_objects
from moulin.errors import Corrupt, FailedPrecondition, InvalidInput, NotFound, Unsupported
from moulin.formats import manifest
from moulin.formats.segment.footer import (
    LEVEL_KEY,
    check_level,
    footer_facts,
    read_footer,
    sequence_range,
    split_offsets,
    stores_positions,
)
from moulin.formats.segment.reader import SegmentReader
from moulin.meta.codec.meta.address import from_message_key
from moulin.meta.codec.meta.moment import from_message_range
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFacts, SegmentFacts
from moulin.model.layout.bounds import time_range_ns
from moulin.model.layout.sort_order import UNSORTED_SORT_ORDER
from moulin.model.layout.sort_rows import is_sorted
from moulin.model.schema.schema import column_path
from moulin.storage import paths
from moulin.storage.file_kinds import FileKind, identify
from moulin.storage.store import Store

_HASH_BYTES = 32
_SHA256, _ALGORITHMS = 0, (0, 1, 2)  # sha256, blake3-256, sha3-256
_HASHES: Final[dict[int, Callable[[], Any]]] = {0: hashlib.sha256, 2: hashlib.sha3_256}
_CHUNK = 4 << 20
_GLANCE_ROWS, _GLANCE_BYTES = 256, 1 << 20
_MAX_EVENTS = (1 << 31) - 1
_ROUNDED = 1000  # nanoseconds; columns have microseconds


def is_upload(message: pb.CreateSegment, table_id: UUID, store: Store) -> bool:
    """Whether a segment lies below the table's prefix under a name that is not one of ours."""
    if message.HasField("data_file"):
        return False
    path = from_message_key(store, message.cloud_object_key)
    found = identify(path)
    below = path.startswith(f"{paths.data_prefix(table_id)}/")
    return below and found is not None and found.kind is FileKind.ENGINE_FILE and paths.segment_number(path) is None


def from_message_new_segment(
    message: pb.CreateSegment, state: TableState, store: Store, stage: Callable[[], str] | None = None
) -> SegmentFacts:
    """The facts of a segment that lies in the lake's storage, for table `state`; `stage` gives paths for uploads."""
    path = from_message_key(store, message.cloud_object_key)
    if stage is not None and is_upload(message, state.id, store):
        check_upload(message, state.id, store)
        path = _copied(store, path, stage())
    parsed = paths.parse_segment_path(path)
    if parsed is None or parsed[0] != state.id:
        raise InvalidInput(
            f"{path!r} is not the path of a segment of table {state.id}: use the paths of StageSegments."
        )
    _check_numbers(message)
    times = _times(message, state)
    if message.HasField("data_file"):
        facts = _given(message, path, parsed[1], state, store)
    else:
        facts = _read(message, path, parsed[1], state, store)
        times = _covering(times, facts)
        facts = replace(facts, time_min=times and times[0], time_max=times and times[1])
    if times is not None and facts.time_min is None:
        facts = replace(facts, time_min=times[0], time_max=times[1])
    if times is not None and times != (facts.time_min, facts.time_max):
        raise InvalidInput(f"Segment {path} holds times {facts.time_min} to {facts.time_max}, not {times}.")
    if message.number_of_events and message.number_of_events != facts.rows:
        raise InvalidInput(f"Segment {path} has {facts.rows} rows, not {message.number_of_events}.")
    if message.compressed_size_bytes and message.compressed_size_bytes != facts.size:
        raise InvalidInput(f"Segment {path} has {facts.size} bytes, not {message.compressed_size_bytes}.")
    return facts


def _check_numbers(message: pb.CreateSegment) -> None:
    if not 0 <= message.number_of_events <= _MAX_EVENTS:
        raise InvalidInput(f"A segment can have from 0 to {_MAX_EVENTS} events, not {message.number_of_events}.")
    if message.size_bytes < 0 or message.compressed_size_bytes < 0:
        raise InvalidInput("The sizes of a segment must not be negative.")
    if message.audt_hash and len(message.audt_hash) != _HASH_BYTES:
        raise InvalidInput(f"audt_hash must be empty or have {_HASH_BYTES} bytes, not {len(message.audt_hash)}.")
    if message.audt_hash and message.audt_algo not in _ALGORITHMS:
        raise InvalidInput(f"audt_algo must be one of {_ALGORITHMS}, not {message.audt_algo}.")


def _times(message: pb.CreateSegment, state: TableState) -> tuple[int, int] | None:
    """The range of event time, if it is given and the table has one."""
    if not message.HasField("time_range"):
        return None
    first, last = from_message_range(message.time_range, "time range")
    if message.HasField("ingest_time_range"):
        earliest, latest = from_message_range(message.ingest_time_range, "ingest time range")
        if first > earliest or last > latest:
            raise InvalidInput("No event can be later than its ingest: the time range is after the ingest time range.")
    return None if state.event_time is None else (first, last)


def _given(message: pb.CreateSegment, path: str, number: int, state: TableState, store: Store) -> SegmentFacts:
    ref = message.data_file
    if ref.path != path or ref.number != number:
        raise InvalidInput(f"data_file is about {ref.path!r} (number {ref.number}), not about {path!r}.")
    if ref.dv_path or len(ref.sha256) != _HASH_BYTES or ref.num_rows < 0 or ref.file_size < 0 or ref.level < 0:
        raise InvalidInput(f"data_file of {path} needs a SHA-256, sizes that are not negative, and no deletion vector.")
    if message.audt_hash and message.audt_algo == _SHA256 and message.audt_hash != ref.sha256:
        raise InvalidInput(f"audt_hash and data_file of {path} disagree.")
    spec = state.specs.get(ref.spec_id)
    if spec is None or len(spec.fields) != len(ref.partition):
        raise InvalidInput(f"data_file of {path} has a partition that does not fit the table's partitioning.")
    facts = manifest.ref_to_segment(ref).facts
    check_segment(state.id, facts)
    check_fits(state, facts)
    require_objects(store, list(segment_objects(facts)))
    if ref.level:
        check_level(_footer(path, store), ref.level, path)
    return facts


def _missing(path: str) -> FailedPrecondition:
    return FailedPrecondition(f"{path} is not in storage: write the segment before registering it.")


def _footer(path: str, store: Store) -> pq.FileMetaData:
    try:
        with store.reader(path) as source:
            return read_footer(source, path)
    except NotFound:
        raise _missing(path) from None
    except Corrupt as error:
        raise InvalidInput(error.message) from None


def _read(message: pb.CreateSegment, path: str, number: int, state: TableState, store: Store) -> SegmentFacts:
    if state.spec.fields:
        raise InvalidInput(f"Table {state.full_name} is partitioned: data_file must have the partition of {path}.")
    footer = _footer(path, store)
    columns = footer_facts(footer, state.schema)
    first, last = _footer_times(columns, state)
    digest = check_hash(message, path, store)
    is_sorted_by_it = _check_rows(path, state, store)
    lowest, highest = sequence_range(footer)
    level = (footer.metadata or {}).get(LEVEL_KEY.encode(), b"0") if stores_positions(footer) else b"0"
    return SegmentFacts(
        number,
        path,
        footer.num_rows,
        store.head(path).size,
        int(level),
        state.schema_id,
        state.spec_id,
        (),
        digest,
        columns,
        time_min=first,
        time_max=last,
        has_lineage=lowest is not None,
        seq_min=lowest,
        seq_max=highest,
        sort_order_id=state.sort_order_id if is_sorted_by_it else UNSORTED_SORT_ORDER.order_id,
        split_offsets=split_offsets(footer),
    )


def _footer_times(columns: Sequence[ColumnFacts], state: TableState) -> tuple[int | None, int | None]:
    found = next((facts for facts in columns if facts.field_id == state.event_time), None)
    if state.event_time is None or found is None or found.lower is None or found.upper is None:
        return None, None
    return time_range_ns(state.schema.find_type(state.event_time), found.lower, found.upper)


def _covering(given: tuple[int, int] | None, facts: SegmentFacts) -> tuple[int, int] | None:
    """The range of event time that is given, made to cover the file's: a client may round, and rows must be found.

    None, which is never pruned, when the file does not say its own. Refuses a range that has nothing of the file's.
    """
    if facts.time_min is None or facts.time_max is None:
        return None
    first, last = given or (facts.time_min, facts.time_max)
    if last <= facts.time_min - _ROUNDED or first >= facts.time_max + _ROUNDED:
        raise InvalidInput(
            f"Segment {facts.path} holds times {facts.time_min} to {facts.time_max}, not {first} to {last}."
        )
    return min(first, facts.time_min), max(last, facts.time_max)


def check_upload(message: pb.CreateSegment, table_id: UUID, store: Store) -> int:
    """Refuse an upload that is not there, or not as it is described; returns its rows."""
    _check_numbers(message)
    path = from_message_key(store, message.cloud_object_key)
    try:
        with store.reader(path) as source:  # a copy of our metadata, checksum included, may be in it: it is not ours
            rows, size = pq.ParquetFile(source).metadata.num_rows, source.size()
    except NotFound:
        raise _missing(path) from None
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(f"{path} is not a readable Parquet file: {str(error).splitlines()[0]}.") from None
    if message.compressed_size_bytes and message.compressed_size_bytes != size:
        raise InvalidInput(f"{path} has {size} bytes, not {message.compressed_size_bytes}.")
    if message.number_of_events and message.number_of_events != rows:
        raise InvalidInput(f"{path} has {rows} rows, not {message.number_of_events}.")
    check_hash(message, path, store)
    return int(rows)


def check_hash(message: pb.CreateSegment, path: str, store: Store) -> bytes:
    """The SHA-256 of a file, all of which is read. Refuses an `audt_hash` that is not the file's.

    There is no BLAKE3 here: a hash by it is believed.
    """
    sha256, other = hashlib.sha256(), _HASHES.get(message.audt_algo, hashlib.sha256)()
    with store.reader(path) as source:
        while data := source.read(_CHUNK):
            sha256.update(data)
            other.update(data)
    if message.audt_hash and message.audt_algo in _HASHES and message.audt_hash != other.digest():
        raise InvalidInput(f"audt_hash is not the {other.name} of {path}: upload the file again, or send its hash.")
    return sha256.digest()


def _copied(store: Store, path: str, target: str) -> str:
    with store.reader(path) as source, store.writer(target) as sink:
        while data := source.read(_CHUNK):
            sink.write(data)
    return target


def _check_rows(path: str, state: TableState, store: Store) -> bool:
    """Refuse a file that cannot be read as rows of the table; returns whether they are in its order."""
    schema, order = state.schema, state.sort_order
    sources = [column_path(schema, field.source_id) for field in order.fields]
    try:
        with SegmentReader(store.reader(path), schema, name=path) as reader:
            first = next(reader.pieces(_GLANCE_BYTES, stop=_GLANCE_ROWS), None)
        missing = [f.name for f in schema.fields if f.required and first is not None and first[f.name].null_count]
        names = list(dict.fromkeys(found[0] for found in sources if found is not None))
        if not names or missing:
            in_order = not names
        else:
            with SegmentReader(store.reader(path), schema, columns=names, name=path) as reader:
                in_order = is_sorted(reader.table(), order, schema)
    except (Corrupt, Unsupported, InvalidInput) as error:
        raise InvalidInput(f"{path} does not fit {state.full_name}: {error.message}") from None
    if missing:
        raise InvalidInput(f"{path} lacks values of the column {missing[0]!r}, which {state.full_name} requires.")
    return in_order
