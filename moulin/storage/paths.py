"""Every file name of a lake is built and parsed here. DO NOT CHANGE: existing lakes use these names.

```
moulin.json                                                         marker: this folder is a lake
catalog.sqlite                                                      embedded catalog
living/catalog.sqlite-<16 hex>                                      what a running process uses of the lake
manifests/<version:020>.delta | .full                               lake manifests
tables/<table uuid>/data/_moulin_segment=<number>/<8 hex>.parquet   segments, each alone in its folder
tables/<table uuid>/data/_moulin_segment=<number>/<8 hex>.keys      the key index of that segment, if its table is keyed
tables/<table uuid>/deletes/<32 hex>.puffin                         deletion vectors
tables/<table uuid>/columns/<32 hex>.parquet                        column files of segments
tables/<table uuid>/journals/<32 hex>.journal                       rewrite journals
tables/<table uuid>/indexes/<32 hex>.index                          files of secondary indexes
tables/<table uuid>/log/<region>/<position:020>.log                 a region's log, named by the first entry in each
tables/<table uuid>/backfills/<32 hex>/<number:020>-<64 hex>.json   files that a batch of a backfill loaded, by source
tables/<table uuid>/manifests/<version:020>.delta | .full           table manifests
tables/<table uuid>/metadata/<version:020>-<32 hex>.metadata.json   the table for Iceberg engines, at a version
tables/<table uuid>/metadata/snap-<snapshot id>-<32 hex>.avro       an Iceberg manifest list
tables/<table uuid>/metadata/<32 hex>-<number>-<number>.avro        an Iceberg manifest: first and last segment in it
tables/<table uuid>/metadata/<32 hex>-deletes.parquet               position deletes of a segment, for format version 2
tables/<table uuid>/metadata/<32 hex>-deletes.puffin                the vector of a segment of a lake that was moved
tables/<table uuid>/data/..., metadata/... with other names          what an Iceberg engine wrote for a commit
ingest-stream/<stream uuid>/<offset:020>.baby                       baby segments, the objects of a collector's stream
set-aside/<stream uuid>/<offset:020>.baby                           what a nursery could not read of a baby segment
set-aside/manifests/<incarnation>/<path of a manifest>              copies of manifests that a recovery gave up
nursery-tries/<stream uuid>/<offset:020>/<32 hex>.try               a nursery began a batch here
bases/<base path uuid>/<path below it>                              an adopted file in a base path
bases/<base path uuid>/moulin/<lake uuid>/tables/...                a segment, or its key index, that was moved there
<any folder>/.<name>.<16 hex>.tmp                                   a write under way, or left by a killed process
```

A region's log on a local disk has a folder of its own, of files `<position:020>.wal`.

An address that begins with bases/ is that of an object below a base path (bases.py resolves it).
All other paths are relative to the storage root, use `/`, and have exactly one form: `parse_x(x(...))` returns the
parts, and a parser returns None for every string that its builder cannot create. Pure functions, no I/O.
"""

# Decisions: docs/decisions/0012

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, get_args
from uuid import UUID

from moulin.errors import InvalidInput

ManifestKind = Literal["delta", "full"]

MAX_NUMBER: Final = 2**63 - 1
"""Highest version or segment number: what a signed 64-bit column of the catalog holds."""

MAX_PATH_BYTES: Final = 1024
"""Longest object name that every supported store takes."""

_UUID = r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
_HERE = r"(?:bases/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/moulin/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/)?"
"""Where a segment lies: in the lake's own storage, or in the folder of the lake below a base path."""
_NUMBER = r"(0|[1-9][0-9]{0,18})"
_VERSION = r"([0-9]{20})"
_LAKE_MANIFEST = re.compile(rf"manifests/{_VERSION}\.(delta|full)")
_SEGMENT = re.compile(rf"{_HERE}tables/{_UUID}/data/_moulin_segment={_NUMBER}/[0-9a-f]{{8}}\.parquet")
_KEY_INDEX = re.compile(rf"({_HERE}tables/{_UUID}/data/_moulin_segment={_NUMBER}/[0-9a-f]{{8}})\.keys")
_VECTOR = re.compile(rf"tables/{_UUID}/deletes/([0-9a-f]{{32}})\.puffin")
_COLUMN_FILE = re.compile(rf"tables/{_UUID}/columns/([0-9a-f]{{32}})\.parquet")
_JOURNAL = re.compile(rf"tables/{_UUID}/journals/([0-9a-f]{{32}})\.journal")
_INDEX_FILE = re.compile(rf"tables/{_UUID}/indexes/([0-9a-f]{{32}})\.index")
_BACKFILL_BATCH = re.compile(rf"tables/{_UUID}/backfills/([0-9a-f]{{32}})/{_VERSION}-([0-9a-f]{{64}})\.json")
_LOG_OBJECT = re.compile(rf"tables/{_UUID}/log/{_NUMBER}/{_VERSION}\.log")
_LOCAL_LOG_FILE = re.compile(rf"{_VERSION}\.wal")
_BABY_SEGMENT = re.compile(rf"ingest-stream/{_UUID}/{_VERSION}\.baby")
_TABLE_MANIFEST = re.compile(rf"tables/{_UUID}/manifests/{_VERSION}\.(delta|full)")
_METADATA = re.compile(rf"tables/{_UUID}/metadata/{_VERSION}-[0-9a-f]{{32}}\.metadata\.json")
_MANIFEST_LIST = re.compile(rf"tables/{_UUID}/metadata/snap-{_NUMBER}-[0-9a-f]{{32}}\.avro")
_ICEBERG_MANIFEST = re.compile(rf"(?:.*/)?[0-9a-f]{{32}}-{_NUMBER}-{_NUMBER}\.avro", re.DOTALL)
_POSITION_DELETES = re.compile(rf"tables/{_UUID}/metadata/[0-9a-f]{{32}}-deletes\.(?:parquet|puffin)")
_ENGINE_FILE = re.compile(rf"tables/{_UUID}/(?:data|metadata)/.+", re.DOTALL)
_SEGMENT_FOLDER = re.compile(rf"(?:.*/)?_moulin_segment={_NUMBER}/[^/]+", re.DOTALL)
_TEMPORARY = re.compile(r"(?:.*/)?\.[^/]+\.[0-9a-f]{16}\.tmp", re.DOTALL)
_BASE = re.compile(rf"bases/{_UUID}/(.+)", re.DOTALL)
_MOVED_FOLDER = "moulin"
_MOVED = re.compile(rf"bases/{_UUID}/{_MOVED_FOLDER}/{_UUID}/(tables/.+)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


def marker() -> str:
    """The file that makes a folder a lake."""
    return "moulin.json"


def catalog_file() -> str:
    """The embedded catalog."""
    return "catalog.sqlite"


def living_folder() -> str:
    """The folder, beside an embedded catalog, in which living processes note what they use."""
    return "living"


def lake_manifests_prefix() -> str:
    return "manifests"


def lake_manifest(version: int, kind: ManifestKind) -> str:
    return f"{lake_manifests_prefix()}/{_manifest_name(version, kind)}"


def tables_prefix() -> str:
    return "tables"


def table_prefix(table_id: UUID) -> str:
    """The folder of everything that belongs to one table."""
    return f"{tables_prefix()}/{_checked_uuid(table_id)}"


def data_prefix(table_id: UUID) -> str:
    return f"{table_prefix(table_id)}/data"


def deletes_prefix(table_id: UUID) -> str:
    return f"{table_prefix(table_id)}/deletes"


def columns_prefix(table_id: UUID) -> str:
    return f"{table_prefix(table_id)}/columns"


def journals_prefix(table_id: UUID) -> str:
    return f"{table_prefix(table_id)}/journals"


def indexes_prefix(table_id: UUID) -> str:
    return f"{table_prefix(table_id)}/indexes"


def table_manifests_prefix(table_id: UUID) -> str:
    return f"{table_prefix(table_id)}/manifests"


def metadata_prefix(table_id: UUID) -> str:
    """The folder of what is written for Iceberg engines."""
    return f"{table_prefix(table_id)}/metadata"


def logs_prefix(table_id: UUID) -> str:
    """The folder of the logs of all regions of a table."""
    return f"{table_prefix(table_id)}/log"


def log_prefix(table_id: UUID, region: int) -> str:
    """The folder of one region's log."""
    return f"{logs_prefix(table_id)}/{_checked_number(region, 'region')}"


def streams_prefix() -> str:
    return "ingest-stream"


def stream_prefix(stream_id: UUID) -> str:
    """The folder of a collector's stream."""
    return f"{streams_prefix()}/{_checked_uuid(stream_id)}"


def segment_folder(table_id: UUID, number: int) -> str:
    """The folder of one segment. Spark reads its number as a constant column from this name."""
    return f"{data_prefix(table_id)}/_moulin_segment={_checked_number(number, 'segment number')}"


def segment_path(table_id: UUID, number: int, suffix: str) -> str:
    """`suffix` is 8 hex digits that tell two attempts at the same segment apart."""
    if not re.fullmatch(r"[0-9a-f]{8}", suffix):
        raise InvalidInput(f"A segment's suffix is 8 lower-case hex digits, not {suffix!r}.")
    return f"{segment_folder(table_id, number)}/{suffix}.parquet"


def key_index_path(segment: str) -> str:
    """The key index beside the segment of this path."""
    return f"{segment.removesuffix('.parquet')}.keys"


def adopted_key_index_path(table_id: UUID, number: int, sha256: bytes) -> str:
    """The key index of a segment that a table adopted, where a segment of its own would have it.

    `sha256` is that of the file's footer.
    """
    return key_index_path(segment_path(table_id, number, sha256[:4].hex()))


def vector_path(table_id: UUID, file_id: UUID) -> str:
    return f"{deletes_prefix(table_id)}/{_checked_uuid(file_id).hex}.puffin"


def column_file_path(table_id: UUID, file_id: UUID) -> str:
    return f"{columns_prefix(table_id)}/{_checked_uuid(file_id).hex}.parquet"


def journal_path(table_id: UUID, file_id: UUID) -> str:
    return f"{journals_prefix(table_id)}/{_checked_uuid(file_id).hex}.journal"


def index_path(table_id: UUID, file_id: UUID) -> str:
    return f"{indexes_prefix(table_id)}/{_checked_uuid(file_id).hex}.index"


def backfill_batch(table_id: UUID, source: str, number: int, digest: bytes) -> str:
    """The list of files of a batch. `source` is 32 hex digits that stand for the name of the source."""
    path = f"{table_prefix(table_id)}/backfills/{source}/{_checked_number(number, 'batch'):020}-{digest.hex()}.json"
    if _BACKFILL_BATCH.fullmatch(path) is None:
        raise InvalidInput("A batch of a backfill is named by 32 hex digits of its source and by its SHA-256.")
    return path


def log_object(table_id: UUID, region: int, position: int) -> str:
    """The object of a region's log whose first entry has this position."""
    return f"{log_prefix(table_id, region)}/{_checked_number(position, 'position'):020}.log"


def local_log_file(position: int) -> str:
    """The name, in its folder, of the file of a local log whose first entry has this position."""
    return f"{_checked_number(position, 'position'):020}.wal"


def baby_segment(stream_id: UUID, offset: int) -> str:
    """The object of a stream that has this number."""
    return f"{stream_prefix(stream_id)}/{_checked_number(offset, 'offset'):020}.baby"


def set_aside(stream_id: UUID, offset: int) -> str:
    """What could not be read of the object of a stream that has this number, or all of it."""
    return f"set-aside/{_checked_uuid(stream_id)}/{_checked_number(offset, 'offset'):020}.baby"


def discarded_manifests_prefix() -> str:
    """The folder of manifests that recoveries gave up. Nothing deletes them, and nothing reads them."""
    return "set-aside/manifests"


def discarded_manifest(incarnation: int, manifest: str) -> str:
    """The copy of a manifest that the recovery which began an incarnation gave up."""
    return f"{discarded_manifests_prefix()}/{_checked_number(incarnation, 'incarnation')}/{checked(manifest)}"


def tries_prefix(stream_id: UUID, offset: int | None = None) -> str:
    """The folder of notes of nurseries on batches that begin at an object of a stream, or at any."""
    folder = f"nursery-tries/{_checked_uuid(stream_id)}"
    return folder if offset is None else f"{folder}/{_checked_number(offset, 'offset'):020}"


def nursery_try(stream_id: UUID, offset: int, note_id: UUID) -> str:
    """A note that a nursery began a batch at this object."""
    return f"{tries_prefix(stream_id, offset)}/{_checked_uuid(note_id).hex}.try"


def table_manifest(table_id: UUID, version: int, kind: ManifestKind) -> str:
    return f"{table_manifests_prefix(table_id)}/{_manifest_name(version, kind)}"


def metadata_name(version: int, file_id: UUID) -> str:
    """The name, in its folder, of a table's Iceberg metadata at a version."""
    return f"{_checked_number(version, 'version'):020}-{_checked_uuid(file_id).hex}.metadata.json"


def manifest_list_name(snapshot_id: int, file_id: UUID) -> str:
    return f"snap-{_checked_number(snapshot_id, 'snapshot id')}-{_checked_uuid(file_id).hex}.avro"


def iceberg_manifest_name(file_id: UUID, first: int, last: int) -> str:
    """`first` and `last` are the lowest and highest number of the segments in it: a removed one is looked for there."""
    numbers = f"{_checked_number(first, 'segment number')}-{_checked_number(last, 'segment number')}"
    return f"{_checked_uuid(file_id).hex}-{numbers}.avro"


def position_deletes_name(file_id: UUID) -> str:
    return f"{_checked_uuid(file_id).hex}-deletes.parquet"


def projected_vector_name(file_id: UUID) -> str:
    return f"{_checked_uuid(file_id).hex}-deletes.puffin"


def bases_prefix() -> str:
    """What the address of every file below a base path begins with."""
    return "bases"


def base_path(base_id: UUID, path: str) -> str:
    """The address of a file at `path` below a base path."""
    return f"{bases_prefix()}/{_checked_uuid(base_id)}/{checked(path)}"


def moved_prefix(base_id: UUID, lake_id: UUID) -> str:
    """The folder below a base path in which a lake keeps segments of its own."""
    return f"{bases_prefix()}/{_checked_uuid(base_id)}/{_MOVED_FOLDER}/{_checked_uuid(lake_id)}"


def temporary(path: str, token: str) -> str:
    """Where the bytes of `path` are gathered before they appear under that name.

    In the same folder, so that the last step is a rename; with a leading dot, so that Spark's listings skip it.
    `token` is 16 hex digits, fresh for each write.
    """
    if not re.fullmatch(r"[0-9a-f]{16}", token):
        raise InvalidInput(f"The token of a temporary name is 16 lower-case hex digits, not {token!r}.")
    folder, slash, name = checked(path).rpartition("/")
    return f"{folder}{slash}.{name}.{token}.tmp"


def parse_lake_manifest(path: str) -> tuple[int, ManifestKind] | None:
    """Version and kind of a lake manifest."""
    match = _LAKE_MANIFEST.fullmatch(path)
    version = _number(match[1]) if match else None
    if match is None or version is None:
        return None
    return version, "delta" if match[2] == "delta" else "full"


def parse_segment_path(path: str) -> tuple[UUID, int] | None:
    """Table and number of a segment."""
    match = _SEGMENT.fullmatch(path)
    number = _number(match[2]) if match else None
    return (UUID(match[1]), number) if match and number is not None else None


def parse_key_index_path(path: str) -> str | None:
    """The path of the segment that a key index belongs to."""
    match = _KEY_INDEX.fullmatch(path)
    return f"{match[1]}.parquet" if match and _number(match[3]) is not None else None


def parse_vector_path(path: str) -> tuple[UUID, UUID] | None:
    """Table and file id of a file of deletion vectors."""
    return _parse_pair(_VECTOR, path)


def parse_column_file_path(path: str) -> tuple[UUID, UUID] | None:
    """Table and file id of a column file."""
    return _parse_pair(_COLUMN_FILE, path)


def parse_journal_path(path: str) -> tuple[UUID, UUID] | None:
    """Table and file id of a rewrite journal."""
    return _parse_pair(_JOURNAL, path)


def parse_index_path(path: str) -> tuple[UUID, UUID] | None:
    """Table and file id of a file of a secondary index."""
    return _parse_pair(_INDEX_FILE, path)


def parse_backfill_batch(path: str) -> tuple[UUID, int] | None:
    """Table and number of the list of files of a batch."""
    match = _BACKFILL_BATCH.fullmatch(path)
    number = _number(match[3]) if match else None
    return (UUID(match[1]), number) if match and number is not None else None


def parse_log_object(path: str) -> tuple[UUID, int, int] | None:
    """Table, region and first position of an object of a log."""
    match = _LOG_OBJECT.fullmatch(path)
    if match is None:
        return None
    region, position = _number(match[2]), _number(match[3])
    return None if region is None or position is None else (UUID(match[1]), region, position)


def parse_local_log_file(name: str) -> int | None:
    """The first position of a file of a local log."""
    match = _LOCAL_LOG_FILE.fullmatch(name)
    return _number(match[1]) if match else None


def parse_baby_segment(path: str) -> tuple[UUID, int] | None:
    """Stream and number of a baby segment."""
    match = _BABY_SEGMENT.fullmatch(path)
    offset = _number(match[2]) if match else None
    return (UUID(match[1]), offset) if match and offset is not None else None


def parse_table_manifest(path: str) -> tuple[UUID, int, ManifestKind] | None:
    """Table, version and kind of a table manifest."""
    match = _TABLE_MANIFEST.fullmatch(path)
    version = _number(match[2]) if match else None
    if match is None or version is None:
        return None
    return UUID(match[1]), version, "delta" if match[3] == "delta" else "full"


def parse_metadata(path: str) -> tuple[UUID, int] | None:
    """Table and version of Iceberg metadata."""
    match = _METADATA.fullmatch(path)
    version = _number(match[2]) if match else None
    return (UUID(match[1]), version) if match and version is not None else None


def parse_iceberg_manifest(path: str) -> tuple[int, int] | None:
    """The lowest and highest number of the segments in an Iceberg manifest; `path` may be a URI."""
    match = _ICEBERG_MANIFEST.fullmatch(path)
    if match is None:
        return None
    first, last = _number(match[1]), _number(match[2])
    return None if first is None or last is None else (first, last)


def parse_projection_path(path: str) -> UUID | None:
    """The table of a file that was written for Iceberg engines."""
    for pattern in (_METADATA, _MANIFEST_LIST, _POSITION_DELETES):
        if match := pattern.fullmatch(path):
            return UUID(match[1])
    folder, _, name = path.rpartition("/")
    parts = folder.split("/")
    inside = len(parts) == 3 and parts[0] == tables_prefix() and parts[2] == "metadata"
    return UUID(parts[1]) if inside and re.fullmatch(_UUID, parts[1]) and parse_iceberg_manifest(name) else None


def parse_engine_path(path: str) -> UUID | None:
    """The table of a file where Iceberg engines put theirs, under names of their own; also of ours that lie there."""
    match = _ENGINE_FILE.fullmatch(path)
    return UUID(match[1]) if match else None


def parse_base_path(path: str) -> tuple[UUID, str] | None:
    """The base path that a file lies below, and where; None for a file in the lake's own storage."""
    match = _BASE.fullmatch(path) if path.startswith("bases/") else None
    return (_base_id(match[1]), match[2]) if match else None


_base_id = lru_cache(1024)(UUID)
"""The ids of base paths: there are few, and files below one are many."""


def parse_moved(path: str) -> tuple[UUID, UUID, str] | None:
    """Base path and lake of a file that a lake keeps below a base path, and the path it would have in the lake."""
    match = _MOVED.fullmatch(path) if path.startswith("bases/") else None
    return (UUID(match[1]), UUID(match[2]), match[3]) if match else None


def is_in_moved_folder(path: str) -> bool:
    """Whether an address lies in the folder below a base path in which lakes keep segments of their own."""
    found = parse_base_path(path)
    return found is not None and found[1].partition("/")[0] == _MOVED_FOLDER


def is_adopted(path: str) -> bool:
    """Whether a file is adopted: it is in a base path, and no lake put it there."""
    return parse_base_path(path) is not None and parse_moved(path) is None


def segment_number(path: str) -> int | None:
    """The number in the folder that directly holds the file; `path` may be absolute or a URI, as engines report it."""
    match = _SEGMENT_FOLDER.fullmatch(path)
    return _number(match[1]) if match else None


def is_temporary(path: str) -> bool:
    """Whether `path` was made by `temporary`: no reader may use it, and gc may remove it once it is old."""
    return _TEMPORARY.fullmatch(path) is not None


def checked(path: str) -> str:
    """`path` itself if it names an object below the root; refuses absolute paths, `..` and other ways out."""
    if not path or path.startswith("/"):
        raise InvalidInput(f"An object's path is relative to the lake, not {path!r}.")
    parts = path.split("/")
    if "" in parts or "." in parts or ".." in parts or _CONTROL.search(path):
        raise InvalidInput(
            f"The object path {path!r} holds an empty part, '.', '..', a backslash or a control character."
        )
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"The object path {path!r} is not valid Unicode.") from None
    if length > MAX_PATH_BYTES:
        raise InvalidInput(
            f"The object path {path[:40]!r}... has {length} bytes; at most {MAX_PATH_BYTES} are possible."
        )
    return path


def _manifest_name(version: int, kind: ManifestKind) -> str:
    if kind not in get_args(ManifestKind):
        raise InvalidInput(f"A manifest is 'delta' or 'full', not {kind!r}.")
    return f"{_checked_number(version, 'version'):020}.{kind}"


def _checked_number(number: int, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_NUMBER:
        raise InvalidInput(f"A {what} is a whole number from 0 to {MAX_NUMBER}, not {number!r}.")
    return number


def _checked_uuid(value: UUID) -> UUID:
    if not isinstance(value, UUID):
        raise InvalidInput(f"The name of a file of a lake must be a UUID, not {value!r}.")
    return value


def _number(digits: str) -> int | None:
    number = int(digits)
    return number if number <= MAX_NUMBER else None


def _parse_pair(pattern: re.Pattern[str], path: str) -> tuple[UUID, UUID] | None:
    match = pattern.fullmatch(path)
    return (UUID(match[1]), UUID(match[2])) if match else None
