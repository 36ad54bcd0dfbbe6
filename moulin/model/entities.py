"""Results of the catalog: plain values, each describing one object at one version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.layout.sort_order import SortOrder
from moulin.model.names import full_name
from moulin.model.operations import Kind
from moulin.model.schema.values import NestedField, Schema


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A dropped object in its grace window. Unix nanoseconds; it can be brought back before `delete_at`."""

    tombstoned_at: int
    delete_at: int


@dataclass(frozen=True, slots=True)
class Tombstoned:
    """A dropped object as a list of all of them shows it. `kind`: database, table, view or ingest_token."""

    kind: str
    id: UUID
    name: str
    database_id: UUID
    tombstone: Tombstone


@dataclass(frozen=True, slots=True)
class Database:
    id: UUID
    name: str
    properties: Mapping[str, str]
    created_at: int
    tombstone: Tombstone | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """An object by id and name, as a view lists its tables, and a preview what goes with a drop."""

    id: UUID
    name: str


@dataclass(frozen=True, slots=True)
class BasePath:
    """A root beside the lake's own below which data files may lie. `created_at` is in Unix nanoseconds."""

    id: UUID
    name: str
    uri: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of versions beside main's, which began as main was at `version`. Times are Unix nanoseconds.

    `opened` counts the tables that have rows of their own in the catalog, of `tables` that the branch began with.
    `published_version` is the version of main that has what the branch did.
    """

    id: UUID
    name: str
    version: int
    created_at: int
    expires_at: int | None
    tables: int
    opened: int
    tombstone: Tombstone | None = None
    published_version: int | None = None


@dataclass(frozen=True, slots=True)
class BranchTable:
    """A table of a branch that is not as main had it when the branch began.

    `before` is the name that it had then, `after` the one that it has now; None where there was or is none. A table
    that the branch began with has a `source_id`. What it did since lies in the versions after `since`, up to `head`.
    `wrote` says that one of them did more than compact, `beside` that it has column files.
    """

    source_id: UUID | None
    own_id: UUID
    before: str | None
    after: str | None
    since: int
    head: int
    wrote: bool
    beside: bool = False


SPARK = "spark"
"""The dialect of the texts that Spark plans."""


@dataclass(frozen=True, slots=True)
class Representation:
    """The text of a view in one dialect of SQL."""

    dialect: str
    sql: str


@dataclass(frozen=True, slots=True)
class ViewVersion:
    """One version of a view as Iceberg has it: its texts, and where names in them that say no database belong."""

    version_id: int
    timestamp_ms: int
    schema_id: int
    summary: Mapping[str, str]
    representations: tuple[Representation, ...]
    default_namespace: tuple[str, ...]
    default_catalog: str | None = None


@dataclass(frozen=True, slots=True)
class ViewHistory:
    """The versions of a view that is a query, and what else Iceberg's metadata of it has.

    `log` says when which version became the current one. Without a `uuid` it is the id of the view, and without a
    `location` the catalog has chosen it.
    """

    current_id: int
    versions: tuple[ViewVersion, ...]
    log: tuple[tuple[int, int], ...]
    schemas: tuple[Schema, ...]
    location: str | None = None
    uuid: str | None = None

    @property
    def current(self) -> ViewVersion:
        return next(one for one in self.versions if one.version_id == self.current_id)

    @property
    def schema(self) -> Schema:
        """The columns of the current version."""
        return next(one for one in self.schemas if one.schema_id == self.current.schema_id)


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """The query of a view: its text in each dialect, and the columns that it gives.

    `version` counts the changes of the query and of its properties, from 1. The catalog sets it. A query that was made
    here and never changed has no `history`; else texts and columns are those of its current version.
    """

    representations: tuple[Representation, ...]
    schema: Schema
    properties: Mapping[str, str]
    version: int = 1
    history: ViewHistory | None = None

    def sql(self, dialect: str) -> str | None:
        """The text in a dialect, however that is spelled; None when there is none."""
        return next((one.sql for one in self.representations if one.dialect.lower() == dialect), None)


@dataclass(frozen=True, slots=True)
class View:
    """A union or a query under one name: an ordered union of tables of its database, or the text of a query.

    A union has `members`, and a query has `query`.
    """

    id: UUID
    database: str
    name: str
    members: tuple[Named, ...]
    created_at: int
    description: str | None = None
    tombstone: Tombstone | None = None
    query: ViewQuery | None = None


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table as a list shows it: the counts are those of its newest version."""

    id: UUID
    database: str
    name: str
    created_at: int
    head_version: int
    segments: int
    rows: int
    bytes: int
    tombstone: Tombstone | None
    database_id: UUID
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one version: everything but its segments.

    `version` is the lake's version the state was read at; `head_version` the last one, up to it, that changed this
    table. `inline` counts the inline segments that are live now, whatever the version. A clone has a `base_id`: some of
    its segments lie in the folder of that table. `newest_version` is the last one of all that changed it, where that is
    known: rows may have been erased from older versions since.
    """

    id: UUID
    database: str
    name: str
    version: int
    head_version: int
    created_version: int
    oldest_version: int
    created_at: int
    schemas: Mapping[int, Schema]
    schema_id: int
    specs: Mapping[int, PartitionSpec]
    spec_id: int
    sort_orders: Mapping[int, SortOrder]
    sort_order_id: int
    event_time: int | None
    last_column_id: int
    last_partition_id: int
    last_sequence: int
    next_row_id: int
    properties: Mapping[str, str]
    inline: int = 0
    base_id: UUID | None = None
    newest_version: int = field(default=0, compare=False)

    @property
    def full_name(self) -> str:
        return full_name(self.database, self.name)

    @property
    def schema(self) -> Schema:
        return self.schemas[self.schema_id]

    @property
    def spec(self) -> PartitionSpec:
        return self.specs[self.spec_id]

    @property
    def lost_specs(self) -> frozenset[int]:
        """Earlier partition specs that rest on a column that was dropped since."""
        known = set(self.schema.field_ids)
        return frozenset(
            number for number, spec in self.specs.items() if any(field.source_id not in known for field in spec.fields)
        )

    @property
    def sort_order(self) -> SortOrder:
        return self.sort_orders[self.sort_order_id]

    @property
    def event_time_field(self) -> NestedField | None:
        return None if self.event_time is None else self.schema.find_field(self.event_time)


@dataclass(frozen=True, slots=True)
class Region:
    """A shard of a keyed table with one fenced writer. `value` is what the region spec gives for its keys."""

    number: int
    value: tuple[bytes | None, ...]
    epoch: int
    owner: str
    covered: int
    generation: int


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index of one column. Its files cover segments; those that none covers are read without it.

    `created_at` is in Unix nanoseconds; None when it is not known.
    """

    id: UUID
    name: str
    kind: str
    field_id: int
    created_version: int
    created_at: int | None = None


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """One operation of one version on one table."""

    version: int
    ordinal: int
    timestamp_ns: int
    kind: Kind | str
    schema_id: int
    spec_id: int
    sequence: int
    snapshot_id: int
    first_row_id: int
    added_rows: int
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DropPreview:
    """What dropping a database with `cascade` would tombstone, and how long it could be brought back."""

    database: Database
    tables: tuple[Named, ...]
    views: tuple[Named, ...]
    grace_seconds: float
    tokens: tuple[Named, ...] = ()
