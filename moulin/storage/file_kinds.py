"""Classifies paths of a lake by the forms in `paths`. Pure functions, no I/O.

An untrusted path, or one from an old row, is accepted only if it has the form of a known kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from moulin.errors import InvalidInput
from moulin.storage import paths


class FileKind(StrEnum):
    """Kinds of objects below the storage root."""

    SEGMENT = "segment"
    KEY_INDEX = "key index"
    VECTORS = "file of deletion vectors"
    COLUMN_FILE = "column file"
    JOURNAL = "journal"
    INDEX_FILE = "index file"
    LOG = "log object"
    BACKFILL = "backfill batch"
    TABLE_MANIFEST = "table manifest"
    LAKE_MANIFEST = "lake manifest"
    PROJECTION = "projection file"
    ENGINE_FILE = "file of an engine"
    BABY_SEGMENT = "baby segment"
    TEMPORARY = "temporary file"
    ADOPTED = "adopted file"


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A path with a known shape. `owner` is the id of its table or stream, None for a file of the whole lake.

    `number` is the number of a segment, or the version, position or offset in the name; None where there is none.
    """

    kind: FileKind
    owner: UUID | None
    number: int | None = None


def identify(path: str) -> KnownFile | None:
    """What a path is; None for one that no builder of `paths` makes, such as a folder or the lake's marker."""
    try:
        paths.checked(path)
    except InvalidInput:
        return None
    return next((found for parse in _PARSERS if (found := parse(path)) is not None), None)


def table_of_folder(path: str) -> UUID | None:
    """The table whose whole folder `path` is, spelled with a slash at its end."""
    parts = path.split("/")
    try:
        table_id = UUID(parts[1]) if len(parts) == 3 else None
    except ValueError:
        return None
    return table_id if table_id is not None and path == f"{paths.table_prefix(table_id)}/" else None


def require(path: str, kind: FileKind, table_id: UUID, number: int | None = None) -> str:
    """`path` itself if it is a file of this kind of this table, with this number; else InvalidInput."""
    found = identify(path)
    fits = found is not None and (found.kind, found.owner) == (kind, table_id)
    if not fits or (number is not None and found is not None and found.number != number):
        called = f"a {kind.value}" if number is None else f"{kind.value} {number}"
        raise InvalidInput(f"{path[:200]!r} is not the path of {called} of table {table_id}.")
    return path


def _segment(path: str) -> KnownFile | None:
    found = paths.parse_segment_path(path)
    return None if found is None else KnownFile(FileKind.SEGMENT, *found)


def _key_index(path: str) -> KnownFile | None:
    owner = paths.parse_key_index_path(path)
    found = None if owner is None else paths.parse_segment_path(owner)
    return None if found is None else KnownFile(FileKind.KEY_INDEX, *found)


def _pair(kind: FileKind, parse: Callable[[str], tuple[UUID, UUID] | None]) -> Callable[[str], KnownFile | None]:
    def parser(path: str) -> KnownFile | None:
        found = parse(path)
        return None if found is None else KnownFile(kind, found[0])

    return parser


def _log(path: str) -> KnownFile | None:
    found = paths.parse_log_object(path)
    return None if found is None else KnownFile(FileKind.LOG, found[0], found[2])


def _backfill(path: str) -> KnownFile | None:
    found = paths.parse_backfill_batch(path)
    return None if found is None else KnownFile(FileKind.BACKFILL, *found)


def _table_manifest(path: str) -> KnownFile | None:
    found = paths.parse_table_manifest(path)
    return None if found is None else KnownFile(FileKind.TABLE_MANIFEST, found[0], found[1])


def _lake_manifest(path: str) -> KnownFile | None:
    found = paths.parse_lake_manifest(path)
    return None if found is None else KnownFile(FileKind.LAKE_MANIFEST, None, found[0])


def _projection(path: str) -> KnownFile | None:
    found = paths.parse_projection_path(path)
    return None if found is None else KnownFile(FileKind.PROJECTION, found)


def _baby_segment(path: str) -> KnownFile | None:
    found = paths.parse_baby_segment(path)
    return None if found is None else KnownFile(FileKind.BABY_SEGMENT, *found)


def _temporary(path: str) -> KnownFile | None:
    return KnownFile(FileKind.TEMPORARY, None) if paths.is_temporary(path) else None


def _adopted(path: str) -> KnownFile | None:
    return KnownFile(FileKind.ADOPTED, None) if paths.is_adopted(path) else None


def _engine_file(path: str) -> KnownFile | None:
    found = paths.parse_engine_path(path)
    return None if found is None else KnownFile(FileKind.ENGINE_FILE, found)


# In this order: an adopted file is never ours, whatever its name; what an engine wrote may have any name, and
# lies where some of ours do.
_PARSERS: tuple[Callable[[str], KnownFile | None], ...] = (
    _adopted,
    _segment,
    _key_index,
    _pair(FileKind.VECTORS, paths.parse_vector_path),
    _pair(FileKind.COLUMN_FILE, paths.parse_column_file_path),
    _pair(FileKind.JOURNAL, paths.parse_journal_path),
    _pair(FileKind.INDEX_FILE, paths.parse_index_path),
    _log,
    _backfill,
    _table_manifest,
    _lake_manifest,
    _projection,
    _baby_segment,
    _temporary,
    _engine_file,
)
