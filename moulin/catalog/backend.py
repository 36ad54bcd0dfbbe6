"""What a lake asks of its catalog. `Catalog` fills it with SQL, `moulin.meta.client_catalog` over the network."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from moulin.catalog.changes import VersionChange
from moulin.catalog.commit import CommitResult, TableCommit
from moulin.catalog.history import MergeOf
from moulin.catalog.indexes import Coverage, IndexSize
from moulin.catalog.merge_tasks import PlannedMerge
from moulin.catalog.names import Key
from moulin.catalog.segments import PartitionFilter, TimeRange
from moulin.catalog.tables import NewTable
from moulin.config import Config
from moulin.model.entities import CommitInfo, Database, DropPreview, Index, Region, TableEntry, TableState, View
from moulin.model.facts import LiveSegment
from moulin.model.ingest import NewToken, Routing, Token
from moulin.model.merge_task import ClaimedMerge, MergeTask
from moulin.model.operations import Claim


class TokenBackend(Protocol):
    """Ingest tokens. A token or table is named, or given by id."""

    def create_token(
        self, database: Key, name: str, routing: Routing, *, expires_in: float | None = None
    ) -> NewToken: ...
    def rotate_token(
        self, database: Key, token: Key, *, overlap_seconds: float = 0, expires_in: float | None = None
    ) -> NewToken: ...
    def token(self, database: Key, token: Key, *, include_dropped: bool = False) -> Token: ...
    def tokens(self, database: Key, *, include_dropped: bool = False) -> list[Token]: ...
    def set_token_routing(self, database: Key, token: Key, routing: Routing) -> Token: ...
    def drop_token(self, database: Key, token: Key) -> Token: ...
    def resurrect_token(self, database: Key, token: Key) -> Token: ...


class MergeBackend(Protocol):
    """Merge tasks, as whoever merges uses them."""

    def create_merge_tasks(
        self, planned: Sequence[PlannedMerge], *, worker: str | None = None, read_version: int = 0
    ) -> list[Claim | None]: ...
    def claim_merge_task(
        self, worker: str, *, seconds: float | None = None, table_id: UUID | None = None
    ) -> ClaimedMerge | None: ...
    def renew_merge_task(self, claim: Claim, seconds: float | None = None) -> int: ...
    def fail_merge_task(self, claim: Claim, message: str) -> None: ...
    def delete_merge_task(self, task_id: UUID) -> bool: ...
    def merge_tasks(self, table_id: UUID | None = None) -> list[MergeTask]: ...
    def merge_inputs_held(self, numbers: Iterable[int]) -> set[int]: ...


class CatalogBackend(Protocol):
    """The databases, tables, views, segments and versions of one lake. Safe to use from several threads.

    Every error is one of `moulin.errors`, the same ones whoever answers.
    """

    uuid: UUID
    config: Config

    @property
    def ingest(self) -> TokenBackend: ...
    @property
    def maintenance(self) -> MergeBackend: ...
    def close(self) -> None: ...

    # Databases

    def create_database(
        self, name: str, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> Database: ...
    def databases(self, *, include_dropped: bool = False) -> list[Database]: ...
    def database(self, database: str) -> Database: ...
    def rename_database(self, name: str, new_name: str) -> Database: ...
    def preview_drop_database(self, name: str) -> DropPreview: ...
    def drop_database(self, name: str, *, cascade: bool = False, immediate: bool = False) -> Database: ...
    def resurrect_database(self, name: str) -> Database: ...

    # Tables

    def create_table(self, database: str, name: str, new: NewTable) -> TableState: ...
    def tables(self, database: str, *, include_dropped: bool = False) -> list[TableEntry]: ...
    def table(self, database: str, name: str, version: int | None = None) -> TableState: ...
    def table_by_id(self, table_id: UUID, version: int | None = None) -> TableState: ...
    def table_entry(self, table_id: UUID) -> TableEntry: ...
    def rename_table(self, database: str, name: str, new_database: str, new_name: str) -> TableState: ...
    def drop_table(self, database: str, name: str, *, immediate: bool = False) -> TableEntry: ...
    def resurrect_table(self, database: str, name: str) -> TableEntry: ...

    # Views

    def create_view(self, database: str, name: str, members: Sequence[str], description: str | None = None) -> View: ...
    def set_view_members(self, database: str, name: str, members: Sequence[str]) -> View: ...
    def views(self, database: str, *, include_dropped: bool = False) -> list[View]: ...
    def view(self, database: str, name: str) -> View: ...
    def rename_view(self, database: str, name: str, new_name: str) -> View: ...
    def drop_view(self, database: str, name: str) -> View: ...
    def resurrect_view(self, database: str, name: str) -> View: ...

    # Versions and segments

    def version(self) -> int:
        """The newest version of the lake."""

    def version_at(self, timestamp_ns: int) -> int: ...
    def history(self, table_id: UUID, limit: int | None = None) -> list[CommitInfo]: ...
    def sequence_versions(self, table_id: UUID) -> tuple[list[int], list[int]]: ...
    def segments(
        self,
        table_id: UUID,
        version: int,
        *,
        partition_filter: PartitionFilter | None = None,
        time_range: TimeRange | None = None,
        with_columns: bool = True,
        columns: Collection[int] | None = None,
    ) -> list[LiveSegment]:
        """The live segments of a table at a version; see segments.py for the filters."""

    def partitions(self, table_id: UUID, limit: int | None = None) -> list[tuple[int, tuple[bytes | None, ...]]]:
        """Spec id and values of every partition that any version of a table has, or had; at most `limit`."""

    def segments_by_number(self, numbers: Iterable[int], version: int) -> dict[int, LiveSegment]: ...
    def count_rows(self, table_id: UUID, version: int) -> int: ...
    def merges_of(self, numbers: Sequence[int], after: int) -> list[MergeOf]: ...
    def state_until(self, table_id: UUID, since: int, until: int | None = None) -> TableState:
        """The table at `until`, by default now; refuses a range of versions whose changes are not all kept."""

    def changed_versions(self, table_id: UUID, since: int, until: int, limit: int | None = None) -> list[int]:
        """The versions in (since, until] that are commits of a table, ascending; refuses a range as `changes` does."""

    def changes(self, table_id: UUID, since: int, until: int, *, net: bool = False) -> Iterator[VersionChange]:
        """What each version in (since, until] changed, or all of them together; see changes.py."""

    def reserve_segments(self, count: int) -> int:
        """Segment numbers that are never given again; returns the first of `count`."""

    def commit(self, changes: Sequence[TableCommit], *, request_id: str | None = None) -> CommitResult:
        """Apply all changes as one version. Raises Stale when what one of them expects no longer holds."""

    def committed(self, request_id: str) -> CommitResult | None:
        """What an earlier commit with this request id did, if there was one."""

    # Indexes

    def indexes(self, table_id: UUID) -> list[Index]:
        """The secondary indexes of a table, by name."""

    def index_sizes(self, table_id: UUID) -> dict[UUID, IndexSize]:
        """Files, bytes and covered live segments of each index of a table that has a file."""

    def index_coverage(
        self, table_id: UUID, segments: Collection[int], fields: Collection[int] | None = None
    ) -> list[Coverage]:
        """The files of the table's indexes, or of those on some columns, that cover some of `segments`."""

    def written_bytes(self, table_id: UUID, after: int) -> dict[int, int]:
        """Bytes of the segments written after a version, by level; those that are gone again but kept among them."""

    # Regions

    def region_number(self, table_id: UUID, value: tuple[bytes | None, ...]) -> int: ...
    def claim_region(self, table_id: UUID, number: int, owner: str) -> Region: ...
    def regions(self, table_id: UUID) -> list[Region]: ...
    def region_epoch(self, table_id: UUID, number: int) -> int: ...
    def head_version(self, table_id: UUID) -> int:
        """The last version that changed a table."""

    def pin(self, table_id: UUID, version: int) -> UUID: ...
    def renew_pin(self, pin_id: UUID) -> None: ...
    def unpin(self, pin_id: UUID) -> None: ...
