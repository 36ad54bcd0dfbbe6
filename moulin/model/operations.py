"""Typed operations on a table. A commit is `(read_version, operation)`; `conflicts` says what happens when two meet."""

# Decisions: docs/decisions/0220

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar
from uuid import UUID

from moulin.model.facts import ColumnFile, SegmentFacts, VectorFacts
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.schema.change import SchemaChange


class Kind(StrEnum):
    """The kinds of operation. The values are stored in catalogs and manifests: do not change them."""

    APPEND = "append"
    DELETE = "delete"
    UPSERT = "upsert"
    COMPACT = "merge"  # this word is in every catalog and manifest
    TRIM = "trim"
    OVERWRITE = "overwrite"
    RESTORE = "restore"
    ALTER_SCHEMA = "alter-schema"
    SET_PROPERTIES = "set-properties"
    SET_PARTITIONING = "set-partitioning"
    CREATE_INDEX = "create-index"
    UPDATE_INDEX = "update-index"
    DROP_INDEX = "drop-index"
    SET_SORT_ORDER = "set-sort-order"
    FILL = "fill"
    ERASE = "erase"


@dataclass(frozen=True, slots=True)
class Expected:
    """A segment that an operation touches, with the deletion vector it was seen with (0: none)."""

    segment: int
    vector_id: int


@dataclass(frozen=True, slots=True)
class NewVector:
    """The deletion vector that replaces the one seen; `facts.id` is given at commit."""

    expected: Expected
    facts: VectorFacts


@dataclass(frozen=True, slots=True)
class RegionUse:
    """A region that a commit holds: its epoch, the log position covered before, and the one that the commit reaches."""

    number: int
    epoch: int
    covered: int
    reached: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A merge task in the hands of one worker. A later claim of the task has a higher attempt, and fences this one."""

    task_id: UUID
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOperation:
    """Segments come, segments go, vectors change. `removed` and `vectors` must still be as expected at commit."""

    kind: ClassVar[Kind]
    added: tuple[SegmentFacts, ...] = ()
    removed: tuple[Expected, ...] = ()
    vectors: tuple[NewVector, ...] = ()
    # Deletion vectors of segments in `added` itself: rows that were deleted in the inputs while a compaction ran.
    added_vectors: Mapping[int, VectorFacts] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(DataOperation):
    """New rows."""

    kind = Kind.APPEND


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(DataOperation):
    """Rows hidden by deletion vectors, or whole segments removed."""

    kind = Kind.DELETE


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert(DataOperation):
    """New rows, and the old positions of their keys hidden."""

    kind = Kind.UPSERT


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact(DataOperation):
    """The live rows of `removed`, rewritten into `added`; no row changes. `journals` are their old -> new positions.

    `journal_outputs` names the first output of each journal. With `claim`, the commit finishes that merge task, and
    fails when the claim no longer holds.
    """

    kind = Kind.COMPACT
    journals: tuple[str, ...] = ()
    journal_outputs: tuple[int, ...] = ()
    claim: Claim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(DataOperation):
    """Rows removed by retention."""

    kind = Kind.TRIM


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite(DataOperation):
    """New rows in place of old ones; `everything` removes whatever is live when it commits."""

    kind = Kind.OVERWRITE
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """Column files of pending columns, one for each segment; no row changes. With `claim`, it finishes that task."""

    files: tuple[ColumnFile, ...]
    claim: Claim | None = None
    kind: ClassVar[Kind] = Kind.FILL


@dataclass(frozen=True, slots=True)
class Restore:
    """Rows and schema as they were at `version`."""

    version: int
    kind: ClassVar[Kind] = Kind.RESTORE


@dataclass(frozen=True, slots=True)
class AlterSchema:
    """Changes applied, in order, to whatever the schema is at commit."""

    changes: tuple[SchemaChange, ...]
    kind: ClassVar[Kind] = Kind.ALTER_SCHEMA


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Properties set, and removed."""

    updates: Mapping[str, str]
    removals: tuple[str, ...] = ()
    kind: ClassVar[Kind] = Kind.SET_PROPERTIES


@dataclass(frozen=True, slots=True)
class SetPartitioning:
    """A new partitioning for segments written from now on; older segments keep theirs.

    `spec` has the same fields with ids and names that an engine chose; without it the catalog chooses them.
    """

    fields: tuple[str, ...]
    spec: PartitionSpec | None = None
    kind: ClassVar[Kind] = Kind.SET_PARTITIONING


@dataclass(frozen=True, slots=True)
class SetSortOrder:
    """A new sort order for segments written from now on; older segments keep theirs until they are compacted."""

    fields: tuple[str, ...]
    kind: ClassVar[Kind] = Kind.SET_SORT_ORDER


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A new file of an index, and the segments that it covers from now on."""

    path: str
    size: int
    entries: int
    segments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """A secondary index of the column `field_id`, with the files that cover what there is."""

    id: UUID
    name: str
    index_kind: str
    field_id: int
    files: tuple[IndexFile, ...] = ()
    kind: ClassVar[Kind] = Kind.CREATE_INDEX


@dataclass(frozen=True, slots=True)
class UpdateIndex:
    """More files of an index; what they cover, older files no longer do."""

    id: UUID
    name: str
    files: tuple[IndexFile, ...]
    kind: ClassVar[Kind] = Kind.UPDATE_INDEX


@dataclass(frozen=True, slots=True)
class DropIndex:
    """An index goes."""

    id: UUID
    name: str
    kind: ClassVar[Kind] = Kind.DROP_INDEX


IndexOperation = CreateIndex | UpdateIndex | DropIndex
Operation = (
    DataOperation | Fill | Restore | AlterSchema | SetProperties | SetPartitioning | SetSortOrder | IndexOperation
)
