"""The protocol between a lake and its catalog, implemented with SQL by `Catalog`, and over gRPC by
`moulin.meta.client.catalog`.
"""

# Decisions: docs/decisions/0100

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from moulin.catalog.commit.indexes import Coverage, IndexSize
    from moulin.catalog.commit.publishing import TablePublication
    from moulin.catalog.commit.table_commit import CommitResult, TableCommit
    from moulin.catalog.objects.history import CompactionOf
    from moulin.catalog.objects.names import NameOrId
    from moulin.catalog.objects.tables import FirstRows, NewTable
    from moulin.catalog.segments.feed import FeedEntry
    from moulin.catalog.segments.live import PartitionFilter, TimeRange
    from moulin.catalog.tasks.merge_tasks import PlannedTask
    from moulin.config import Config
    from moulin.model.entities import (
        BasePath,
        Branch,
        BranchTable,
        CommitInfo,
        Database,
        DropPreview,
        Index,
        Region,
        TableEntry,
        TableState,
        View,
        ViewQuery,
    )
    from moulin.model.facts import LiveSegment
    from moulin.model.ingest import NewToken, Routing, StreamList, Token
    from moulin.model.merge_task import ClaimedTask, MergeTask, MergeTaskFigures
    from moulin.model.operations import Claim


class TokenBackend(Protocol):
    """Ingest tokens, and streams for readers. A token or table is given by name or id."""

    def create_token(
        self, database: NameOrId, name: str, routing: Routing, *, expires_in: float | None = None
    ) -> NewToken: ...
    def rotate_token(
        self, database: NameOrId, token: NameOrId, *, overlap_seconds: float = 0, expires_in: float | None = None
    ) -> NewToken: ...
    def token(self, database: NameOrId, token: NameOrId, *, include_dropped: bool = False) -> Token: ...
    def tokens(self, database: NameOrId, *, include_dropped: bool = False) -> list[Token]: ...
    def set_token_routing(self, database: NameOrId, token: NameOrId, routing: Routing) -> Token: ...
    def drop_token(self, database: NameOrId, token: NameOrId) -> Token: ...
    def resurrect_token(self, database: NameOrId, token: NameOrId) -> Token: ...
    def snapshot(self) -> StreamList: ...


class TaskBackend(Protocol):
    """Merge tasks, for workers and planners."""

    def create_merge_tasks(
        self,
        planned: Sequence[PlannedTask],
        *,
        worker: str | None = None,
        read_version: int = 0,
        seconds: float | None = None,
    ) -> list[Claim | None]: ...
    def claim_merge_task(
        self, worker: str, *, seconds: float | None = None, table_id: UUID | None = None
    ) -> ClaimedTask | None: ...
    def renew_merge_task(self, claim: Claim, seconds: float | None = None) -> int: ...
    def fail_merge_task(self, claim: Claim, message: str) -> None: ...
    def release_merge_task(self, claim: Claim) -> bool: ...
    def delete_merge_task(self, task_id: UUID, attempt: int | None = None) -> bool: ...
    def merge_tasks(self, table_id: UUID | None = None) -> list[MergeTask]: ...
    def merge_task(self, task_id: UUID) -> tuple[MergeTask, MergeTaskFigures]: ...
    def merge_task_inputs(self, task_id: UUID) -> list[int]: ...
    def merge_inputs_held(self, numbers: Iterable[int]) -> set[int]: ...


class CatalogBackend(Protocol):
    """The databases, tables, views, segments and versions of one lake. Safe to use from several threads.

    Every error is one of `moulin.errors`, with the same classes in every implementation.
    """

    uuid: UUID
    config: Config
    may_write: bool
    """Whether this catalog accepts changes."""
    knows_claims: bool
    """Whether `regions` has every claimed region and its owner: a replica's has only those that manifests name."""
    is_replica: bool
    """Whether this is a copy of a catalog, built from manifests.

    Its pins have no effect, and only `refresh` updates it.
    """

    @property
    def ingest(self) -> TokenBackend: ...
    @property
    def maintenance(self) -> TaskBackend: ...
    def refresh(self) -> int:
        """Move to the newest version and return it. Only needed for replicas."""

    def close(self) -> None: ...

    # Databases

    def create_database(
        self, name: str, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> Database: ...
    def databases(self, *, include_dropped: bool = False, branch: str | None = None) -> list[Database]:
        """The databases of main, or of a branch."""

    def database(self, database: str) -> Database: ...
    def rename_database(self, name: str, new_name: str) -> Database: ...
    def preview_drop_database(self, name: str) -> DropPreview: ...
    def drop_database(self, name: str, *, cascade: bool = False, immediate: bool = False) -> Database: ...
    def resurrect_database(self, name: str) -> Database: ...

    # Branches

    def create_branch(
        self,
        name: str,
        *,
        version: int | None = None,
        expires_in: float | None = None,
        only: Collection[UUID] | None = None,
    ) -> Branch:
        """Create a branch from main at `version`, by default now, with all of its tables or those in `only`."""

    def branches(self, *, include_dropped: bool = False) -> list[Branch]: ...
    def branch(self, name: str) -> Branch: ...
    def branch_tables(self, name: str) -> list[BranchTable]:
        """The tables of a branch that differ from its fork version."""

    def publish_branch(
        self,
        name: str,
        given: Sequence[TablePublication],
        *,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> CommitResult:
        """Apply the changes of a branch to main as one version, and drop the branch. Raises Stale like `commit`."""

    def drop_branch(self, name: str) -> Branch: ...
    def resurrect_branch(self, name: str) -> Branch: ...

    # Base paths

    def add_base(self, name: str, uri: str) -> BasePath:
        """Register a base path."""

    def bases(self) -> list[BasePath]: ...
    def drop_base(self, name: str) -> BasePath:
        """Remove a base path; rejected while a file below it is in use."""

    def known_paths(self, table_id: UUID, paths: Sequence[str]) -> list[str]:
        """Those of the given paths, all below base paths, that segments of a table use."""

    # Tables

    def create_table(
        self, database: str, name: str, new: NewTable, first: FirstRows | None = None, *, replace: bool = False
    ) -> TableState:
        """Create a table, with its first rows if given; `replace` drops an existing one with the name. One version.

        Segments of first rows are in the folder of the id of `new`.
        """

    def clone_table(self, source_id: UUID, database: str, name: str, *, version: int | None = None) -> TableState:
        """Clone a table at `version`, by default now, without copying files."""

    def tables(self, database: str, *, include_dropped: bool = False) -> list[TableEntry]: ...
    def table(self, database: str, name: str, version: int | None = None) -> TableState: ...
    def table_by_id(self, table_id: UUID, version: int | None = None) -> TableState: ...
    def table_entry(self, table_id: UUID) -> TableEntry: ...
    def rename_table(self, database: str, name: str, new_database: str, new_name: str) -> TableState: ...
    def replace_table(self, database: str, name: str, replacement: str) -> TableState:
        """Replace a table by another one of its database: drop it and rename the other, in one version."""

    def drop_table(self, database: str, name: str, *, immediate: bool = False) -> TableEntry: ...
    def resurrect_table(self, database: str, name: str) -> TableEntry: ...

    # Views

    def create_view(
        self,
        database: str,
        name: str,
        members: Sequence[str],
        description: str | None = None,
        *,
        query: ViewQuery | None = None,
        replace: bool = False,
        expected: int | None = None,
    ) -> View: ...
    def set_view_properties(
        self, database: str, name: str, updates: Mapping[str, str], removals: Collection[str] = ()
    ) -> View: ...
    def set_view_members(self, database: str, name: str, members: Sequence[str]) -> View: ...
    def views(self, database: str, *, include_dropped: bool = False) -> list[View]: ...
    def view(self, database: str, name: str) -> View: ...
    def rename_view(self, database: str, name: str, new_name: str, new_database: str | None = None) -> View: ...
    def drop_view(self, database: str, name: str) -> View: ...
    def resurrect_view(self, database: str, name: str) -> View: ...

    # Versions and segments

    def version(self) -> int:
        """The newest version of the lake."""

    def write_manifests(self, table_ids: Sequence[UUID] = ()) -> int:
        """Write full manifests of some tables, or of every table and of the lake; returns their version."""

    def version_at(self, timestamp_ns: int) -> int: ...
    def history(self, table_id: UUID, limit: int | None = None) -> list[CommitInfo]: ...
    def sequence_versions(self, table_id: UUID) -> tuple[list[int], list[int]]: ...
    def birth_versions(self, table_id: UUID) -> tuple[list[int], list[int]]: ...
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
        """The live segments of a table at a version; see segments/live.py for the filters."""

    def partitions(self, table_id: UUID, limit: int | None = None) -> list[tuple[int, tuple[bytes | None, ...]]]:
        """Spec id and values of every partition that any version of a table has or had; at most `limit`."""

    def segments_by_number(self, table_id: UUID, numbers: Iterable[int], version: int) -> dict[int, LiveSegment]: ...
    def count_rows(self, table_id: UUID, version: int) -> int: ...
    def compactions_of(self, table_id: UUID, numbers: Sequence[int], after: int) -> list[CompactionOf]: ...
    def state_until(self, table_id: UUID, since: int, until: int | None = None) -> TableState:
        """The table at `until`, by default now; raises if not all changes of the range are kept."""

    def changed_versions(self, table_id: UUID, since: int, until: int, limit: int | None = None) -> list[int]:
        """The versions in (since, until] that are commits of a table, ascending; raises like `feed`."""

    def feed(self, table_id: UUID, since: int, until: int, *, net: bool = False) -> Iterator[FeedEntry]:
        """The changes of each version in (since, until], or of all together; see segments/feed.py."""

    def reserve_segments(self, count: int, *, inline: bool = False) -> int:
        """Reserve `count` segment numbers, which are never reused; returns the first."""

    def commit(
        self, changes: Sequence[TableCommit], *, request_id: str | None = None, digest: bytes | None = None
    ) -> CommitResult:
        """Apply all changes as one version. Raises Stale if a precondition of one of them no longer holds."""

    def writing(self) -> AbstractContextManager[None]:
        """While it is open, clean-up keeps uncommitted files of this process."""

    def committed(self, request_id: str) -> CommitResult | None:
        """The result of an earlier commit with this request id, if any."""

    # Regions

    def region(self, table_id: UUID, value: tuple[bytes | None, ...]) -> Region:
        """The region of a value, created if missing."""

    def claim_region(self, table_id: UUID, number: int, owner: str) -> Region: ...
    def release_region(self, table_id: UUID, number: int, epoch: int) -> None:
        """Record that everything in the log of a region is in segments; has no effect with an older epoch."""

    def claimed_tables(self, *, branch: str | None = None) -> list[UUID]:
        """The tables of main, or of a branch, with regions that were claimed and not released."""

    def regions(self, table_id: UUID) -> list[Region]: ...
    def region_epoch(self, table_id: UUID, number: int) -> int: ...
    def indexes(self, table_id: UUID) -> list[Index]: ...
    def index_sizes(self, table_id: UUID) -> dict[UUID, IndexSize]: ...
    def index_coverage(
        self, table_id: UUID, segments: Collection[int], fields: Collection[int] | None = None
    ) -> list[Coverage]: ...
    def written_bytes(self, table_id: UUID, after: int) -> dict[int, int]: ...
    def published_version(self) -> int: ...
    def head_version(self, table_id: UUID) -> int:
        """The last version that changed a table."""

    def pin(self, table_id: UUID, version: int) -> UUID: ...
    def renew_pin(self, pin_id: UUID) -> None: ...
    def unpin(self, pin_id: UUID) -> None: ...
