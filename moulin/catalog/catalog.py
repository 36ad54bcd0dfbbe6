"""The catalog: one SQL transaction per change. This class only opens transactions; other modules implement them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import arrivals, branches, clones, indexes, publishing, regions, requests
from moulin.catalog.commit import commit as commits
from moulin.catalog.commit.indexes import Coverage, IndexSize
from moulin.catalog.commit.publishing import TablePublication
from moulin.catalog.commit.table_commit import CommitResult, TableCommit
from moulin.catalog.identity import identify, lost_catalog, read_marker, write_marker
from moulin.catalog.manifests.newest import require_newest
from moulin.catalog.manifests.publish import Publisher
from moulin.catalog.objects import base_paths, births, databases, history, lookup, pins, tables, views
from moulin.catalog.objects.history import CompactionOf
from moulin.catalog.objects.names import NameOrId
from moulin.catalog.objects.tables import FirstRows, NewTable
from moulin.catalog.segments import feed
from moulin.catalog.segments import live as segments
from moulin.catalog.segments.feed import FeedEntry
from moulin.catalog.segments.live import PartitionFilter, TimeRange
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import Clock
from moulin.catalog.sql.draft import Draft
from moulin.catalog.sql.drivers import database_url
from moulin.catalog.sql.pool import Pool
from moulin.config import Config
from moulin.errors import FailedPrecondition, Fenced, InvalidInput, NotFound, Unavailable
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
    Tombstoned,
    View,
    ViewQuery,
)
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.names import AT
from moulin.model.operations import DataOperation
from moulin.model.texts import check_text
from moulin.storage.store import Store

if TYPE_CHECKING:
    from moulin.catalog.ingest import IngestCatalog
    from moulin.catalog.maintenance import MaintenanceCatalog
    from moulin.catalog.overview import OverviewCatalog

MAX_RESERVED: Final = 1 << 32
"""Segment numbers of one reservation, for a Spark job with an unknown number of tasks."""
_MAX_REQUEST_ID: Final = 1024
_MAX_DIGEST: Final = 1024


class _Undo(Exception):
    """Rolls back a dry run."""


class Catalog:
    """The databases, tables, views, segments and versions of one lake. Safe to use from several threads."""

    may_write = True
    knows_claims = True
    is_replica = False

    def __init__(self, pool: Pool, store: Store, lake_uuid: UUID) -> None:
        self.pool, self.store, self.uuid = pool, store, lake_uuid
        self.config = pool.config
        self.publisher = Publisher(pool, store, lake_uuid)
        self.idle_pins: list[Callable[[], None]] = []  # release pins that this process keeps for its next readers

    @classmethod
    def open(cls, uri: str, store: Store, config: Config, *, clock: Clock | None = None) -> Catalog:
        """Open the lake of this catalog and storage; create it if both are empty."""
        marker = read_marker(store)
        url = database_url(uri)
        if marker is None:
            store.check_put_if_absent()
        elif url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
            raise lost_catalog(store)
        pool = Pool(url, config, clock)
        try:
            pool.migrate()
            lake_uuid = identify(pool, store, marker)
            if marker is None:
                write_marker(store, lake_uuid)
            require_newest(pool, store, lake_uuid)
            catalog = cls(pool, store, lake_uuid)
            catalog.publisher.publish_quietly()
        except BaseException:
            pool.close()
            raise
        return catalog

    @cached_property
    def maintenance(self) -> MaintenanceCatalog:
        from moulin.catalog.maintenance import MaintenanceCatalog

        return MaintenanceCatalog(self.pool)

    @cached_property
    def ingest(self) -> IngestCatalog:
        from moulin.catalog.ingest import IngestCatalog

        return IngestCatalog(self.pool, self.uuid, self._mutation, self._publish)

    @cached_property
    def overview(self) -> OverviewCatalog:
        from moulin.catalog.overview import OverviewCatalog

        return OverviewCatalog(self.pool)

    def refresh(self) -> int:
        return self.version()

    def close(self) -> None:
        self.publisher.close()
        self.pool.close()

    @contextmanager
    def _mutation(self, kind: str) -> Iterator[Draft]:
        with self.pool.write() as write:
            draft = Draft(write, self.uuid, kind)
            yield draft
            draft.save()
        self._publish(draft, [])

    # Databases, tables and views go by name or by id

    def create_database(
        self, name: str, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> Database:
        with self._mutation("create-database") as draft:
            return databases.create(draft, name, properties or {}, if_not_exists=if_not_exists)

    def databases(self, *, include_dropped: bool = False, branch: str | None = None) -> list[Database]:
        """The databases of main, or of a branch."""
        with self.pool.read() as connection:
            return databases.list_all(connection, include_dropped=include_dropped, branch=branch)

    def database(self, database: NameOrId, *, include_dropped: bool = False) -> Database:
        with self.pool.read() as connection:
            return databases.to_database(databases.find(connection, database, include_dropped=include_dropped))

    def rename_database(self, name: NameOrId, new_name: str) -> Database:
        with self._mutation("rename-database") as draft:
            return databases.rename(draft, name, new_name)

    def set_database_properties(
        self, name: NameOrId, updates: Mapping[str, str], removals: Collection[str] = ()
    ) -> Database:
        with self._mutation("set-database-properties") as draft:
            return databases.set_properties(draft, name, updates, removals)

    def preview_drop_database(self, name: NameOrId) -> DropPreview:
        self._open_on_branch(branches.in_database(name))
        with self.pool.read() as connection:
            return databases.preview_drop(connection, name, self.config.database_grace)

    def drop_database(self, name: NameOrId, *, cascade: bool = False, immediate: bool = False) -> Database:
        self._open_on_branch(branches.in_database(name))
        with self._mutation("drop-database") as draft:
            grace = 0.0 if immediate else self.config.database_grace
            return databases.drop(draft, name, cascade=cascade, grace_seconds=grace)

    def resurrect_database(self, name: NameOrId) -> Database:
        with self._mutation("resurrect-database") as draft:
            return databases.resurrect(draft, name)

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
        with self._mutation("create-branch") as draft:
            return branches.create(draft, name, version, expires_in, only)

    def branches(self, *, include_dropped: bool = False) -> list[Branch]:
        with self.pool.read() as connection:
            return branches.list_all(connection, include_dropped=include_dropped)

    def branch(self, name: str) -> Branch:
        with self.pool.read() as connection:
            return branches.load(connection, name)

    def branch_tables(self, name: str) -> list[BranchTable]:
        """The tables of a branch that differ from its fork version."""
        with self.pool.read() as connection:
            return branches.changed(connection, name)

    def foreseen_by_publish(self, name: str, given: Sequence[TablePublication]) -> dict[UUID, TableState]:
        """The settings of main's tables after a publish, by table id."""
        with self.pool.read() as connection:
            return publishing.foreseen_states(connection, name, given)

    def publish_branch(
        self,
        name: str,
        given: Sequence[TablePublication],
        *,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> CommitResult:
        """Apply the changes of a branch to main as one version, and drop the branch. Raises Stale like `commit`.

        `given` has the changes for each table with new rows or settings. A `dry_run` returns the same, with the version
        that it would create, and changes nothing.
        """
        if request_id is not None:
            check_text(request_id, "request id", _MAX_REQUEST_ID)
        for part in given:
            arrivals.check(part.commit)
        result: CommitResult | None = None
        with suppress(_Undo), self.pool.write() as write:
            if request_id is not None and (earlier := requests.find(write.connection, request_id)):
                return earlier
            draft = Draft(write, self.uuid, publishing.PUBLISH)
            publishing.publish(draft, name, given, grace_seconds=self.config.table_grace)
            result = CommitResult(draft.version, draft.now)
            if dry_run:
                raise _Undo
            if request_id is not None:
                draft.request(request_id)
            draft.save()
        assert result is not None
        if not dry_run:
            added = [part.commit.operation.added for part in given if isinstance(part.commit.operation, DataOperation)]
            self._settle([facts for some in added for facts in some])
            self._publish(draft, [part.commit.table_id for part in given])
        return result

    def drop_branch(self, name: str) -> Branch:
        with self._mutation("drop-branch") as draft:
            return branches.drop(draft, name, grace_seconds=self.config.table_grace)

    def resurrect_branch(self, name: str) -> Branch:
        with self._mutation("resurrect-branch") as draft:
            return branches.resurrect(draft, name)

    # Base paths

    def add_base(self, name: str, uri: str) -> BasePath:
        """Register a base path."""
        with self._mutation("add-base") as draft:
            return base_paths.add(draft, name, uri, self.store.uri)

    def bases(self) -> list[BasePath]:
        with self.pool.read() as connection:
            return base_paths.list_all(connection)

    def drop_base(self, name: str) -> BasePath:
        """Remove a base path; rejected while a file below it is in use."""
        with self._mutation("drop-base") as draft:
            return base_paths.drop(draft, name)

    def known_paths(self, table_id: UUID, paths: Sequence[str]) -> list[str]:
        """Those of the given paths, all below base paths, that segments of a table use."""
        with self.pool.read() as connection:
            return base_paths.known_paths(connection, table_id, paths)

    def _open_on_branch(self, *where: sa.ColumnElement[bool]) -> None:
        """Clone the tables of a branch that were not opened yet."""
        with self.pool.read() as connection:
            found = branches.unopened(connection, *where)
        for row in found:
            with self._mutation("open-on-branch") as draft:
                branches.open_table(draft, row)

    def _open_named(self, database: NameOrId, *names: NameOrId) -> None:
        """Open the not yet opened tables with these names on a branch, before they are looked up."""
        if not isinstance(database, str) or AT in database:
            for name in names:
                self._open_on_branch(branches.in_database(database), branches.named(name))

    # Tables

    def create_table(
        self, database: NameOrId, name: str, new: NewTable, first: FirstRows | None = None, *, replace: bool = False
    ) -> TableState:
        """Create a table, with its first rows if given; `replace` drops an existing one with the name."""
        self._open_named(database, name)
        with self._mutation("replace-table" if replace else "create-table") as draft:
            grace = self.config.table_grace if replace else None
            state = commits.create(draft, database, name, new, first, replaced_for=grace)
        self._settle(() if first is None else first.segments)
        return state

    def clone_table(self, source_id: UUID, database: NameOrId, name: str, *, version: int | None = None) -> TableState:
        """Clone a table at `version`, by default now, without copying files."""
        self._open_named(database, name)
        with self._mutation("clone-table") as draft:
            state = clones.clone(draft, source_id, database, name, version)
        self._settle(())
        return state

    def tables(self, database: NameOrId, *, include_dropped: bool = False) -> list[TableEntry]:
        with self.pool.read() as connection:
            opened = tables.list_all(connection, database, include_dropped=include_dropped)
            return sorted(opened + branches.entries(connection, database), key=lambda entry: (entry.name, entry.id))

    def table(self, database: NameOrId, name: NameOrId, version: int | None = None) -> TableState:
        self._open_named(database, name)
        with self.pool.read() as connection:
            return self._load(connection, tables.find(connection, database, name), version)

    def table_by_id(self, table_id: UUID, version: int | None = None) -> TableState:
        with self.pool.read() as connection, suppress(NotFound):
            return self._load(connection, tables.find_by_id(connection, table_id), version)
        self._open_on_branch(branches.named(table_id))
        with self.pool.read() as connection:
            return self._load(connection, tables.find_by_id(connection, table_id), version)

    def _load(self, connection: sa.Connection, row: Any, version: int | None) -> TableState:
        return tables.load(connection, row, branches.version_to_read(connection, row, version))

    def table_entry(self, table_id: UUID) -> TableEntry:
        with self.pool.read() as connection:
            row = tables.find_by_id(connection, table_id)
            return tables.to_entry(row.database, row)

    def entry(self, database: NameOrId, name: NameOrId, *, include_dropped: bool = False) -> TableEntry:
        """A table of a database, for lists."""
        self._open_named(database, name)
        with self.pool.read() as connection:
            row = tables.find(connection, database, name, include_dropped=include_dropped)
            return tables.to_entry(row.database, row)

    def table_or_view(self, database: NameOrId, name: str, *, include_dropped: bool = False) -> TableEntry | View:
        """The live table or view with a name, else (if requested) the one dropped last."""
        self._open_named(database, name)
        with self.pool.read() as connection:
            return lookup.table_or_view(connection, database, name, include_dropped=include_dropped)

    def rename_table(self, database: NameOrId, name: NameOrId, new_database: NameOrId, new_name: str) -> TableState:
        self._open_named(database, name)
        self._open_named(new_database, new_name)
        with self._mutation("rename-table") as draft:
            return tables.made(draft, tables.rename(draft, database, name, new_database, new_name))

    def replace_table(self, database: NameOrId, name: str, replacement: NameOrId) -> TableState:
        """Replace a table by another one: drop it and rename the other, in one version."""
        self._open_named(database, name, replacement)
        with self._mutation("replace-table") as draft:
            grace = self.config.table_grace
            return tables.made(draft, tables.replace(draft, database, name, replacement, grace_seconds=grace))

    def drop_table(self, database: NameOrId, name: NameOrId, *, immediate: bool = False) -> TableEntry:
        self._open_named(database, name)
        with self._mutation("drop-table") as draft:
            grace = 0.0 if immediate else self.config.table_grace
            return tables.drop(draft, database, name, grace_seconds=grace)

    def resurrect_table(self, database: NameOrId, name: NameOrId) -> TableEntry:
        with self._mutation("resurrect-table") as draft:
            return tables.resurrect(draft, database, name)

    # Views

    def create_view(
        self,
        database: NameOrId,
        name: str,
        members: Sequence[NameOrId],
        description: str | None = None,
        *,
        query: ViewQuery | None = None,
        replace: bool = False,
        expected: int | None = None,
    ) -> View:
        self._open_named(database, name, *members)
        with self._mutation("create-view") as draft:
            return views.create(
                draft, database, name, members, description, query=query, replace=replace, expected=expected
            )

    def set_view_properties(
        self, database: NameOrId, name: NameOrId, updates: Mapping[str, str], removals: Collection[str] = ()
    ) -> View:
        with self._mutation("set-view-properties") as draft:
            return views.set_properties(draft, database, name, updates, removals)

    def set_view_members(self, database: NameOrId, name: NameOrId, members: Sequence[NameOrId]) -> View:
        self._open_named(database, *members)
        with self._mutation("set-view-members") as draft:
            return views.set_members(draft, database, name, members)

    def views(self, database: NameOrId, *, include_dropped: bool = False) -> list[View]:
        with self.pool.read() as connection:
            return views.list_all(connection, database, include_dropped=include_dropped)

    def view(self, database: NameOrId, name: NameOrId, *, include_dropped: bool = False) -> View:
        with self.pool.read() as connection:
            return views.load(connection, database, name, include_dropped=include_dropped)

    def rename_view(
        self, database: NameOrId, name: NameOrId, new_name: str, new_database: NameOrId | None = None
    ) -> View:
        self._open_named(database if new_database is None else new_database, new_name)
        with self._mutation("rename-view") as draft:
            return views.rename(draft, database, name, new_name, new_database)

    def drop_view(self, database: NameOrId, name: NameOrId) -> View:
        with self._mutation("drop-view") as draft:
            return views.drop(draft, database, name, grace_seconds=self.config.view_grace)

    def resurrect_view(self, database: NameOrId, name: NameOrId) -> View:
        with self._mutation("resurrect-view") as draft:
            return views.resurrect(draft, database, name)

    def tombstones(self, database_id: UUID | None = None) -> list[Tombstoned]:
        """Dropped objects that are not purged yet; of one database, which must exist, or of all."""
        with self.pool.read() as connection:
            if database_id is not None:
                databases.find(connection, database_id, include_dropped=True)
            return lookup.tombstones(connection, database_id)

    # Versions and segments

    def version(self) -> int:
        """The newest version of the lake."""
        with self.pool.read() as connection:
            return int(connection.execute(sa.select(s.counter.c.version)).scalar_one())

    def write_manifests(self, table_ids: Sequence[UUID] = ()) -> int:
        version = self.version()
        for table_id in table_ids:
            with self.pool.read() as connection:
                tables.find_by_id(connection, table_id)
            self.publisher.write_full(table_id)
        if not table_ids:
            self.publisher.write_every_full()
        return version

    def version_at(self, timestamp_ns: int) -> int:
        with self.pool.read() as connection:
            return history.version_at(connection, timestamp_ns)

    def history(self, table_id: UUID, limit: int | None = None) -> list[CommitInfo]:
        with self.pool.read() as connection:
            return history.of_table(connection, tables.find_by_id(connection, table_id), limit)

    def sequence_versions(self, table_id: UUID) -> tuple[list[int], list[int]]:
        with self.pool.read() as connection:
            return history.sequence_versions(connection, table_id)

    def birth_versions(self, table_id: UUID) -> tuple[list[int], list[int]]:
        with self.pool.read() as connection:
            return births.birth_versions(connection, table_id)

    def segments(
        self,
        table_id: UUID,
        version: int,
        *,
        partition_filter: PartitionFilter | None = None,
        time_range: TimeRange | None = None,
        partition_ids: Collection[int] | None = None,
        with_columns: bool = True,
        columns: Collection[int] | None = None,
    ) -> list[LiveSegment]:
        """The live segments of a table at a version; see segments/live.py for the filters."""
        with self.pool.read() as connection:
            return segments.at_version(
                connection,
                table_id,
                version,
                partition_filter=partition_filter,
                time_range=time_range,
                partition_ids=partition_ids,
                with_columns=with_columns,
                columns=columns,
            )

    def partitions(self, table_id: UUID, limit: int | None = None) -> list[tuple[int, tuple[bytes | None, ...]]]:
        """Spec id and values of every partition that any version of a table has or had; at most `limit`."""
        with self.pool.read() as connection:
            tables.find_by_id(connection, table_id)
            return segments.partitions_of_table(connection, table_id, limit)

    def segments_by_number(
        self, table_id: UUID, numbers: Iterable[int], version: int, *, with_columns: bool = True
    ) -> dict[int, LiveSegment]:
        if not (numbers := list(numbers)):
            return {}
        with self.pool.read() as connection:
            return segments.by_number(connection, table_id, numbers, version, with_columns=with_columns)

    def count_rows(self, table_id: UUID, version: int) -> int:
        with self.pool.read() as connection:
            return segments.count_rows(connection, table_id, version)

    def compactions_of(self, table_id: UUID, numbers: Sequence[int], after: int) -> list[CompactionOf]:
        with self.pool.read() as connection:
            return history.compactions_of(connection, table_id, numbers, after)

    def state_until(self, table_id: UUID, since: int, until: int | None = None) -> TableState:
        """The table at `until`, by default now; raises if not all changes of the range are kept."""
        with self.pool.read() as connection:
            return feed.load_until(connection, table_id, since, until)

    def changed_versions(self, table_id: UUID, since: int, until: int, limit: int | None = None) -> list[int]:
        """The versions in (since, until] that are commits of a table, ascending; raises like `feed`."""
        with self.pool.read() as connection:
            feed.require_range(connection, tables.find_by_id(connection, table_id), since, until)
            return feed.changed_versions(connection, table_id, since, until, limit)

    def feed(self, table_id: UUID, since: int, until: int, *, net: bool = False) -> Iterator[FeedEntry]:
        """The changes of each version in (since, until], or of all together; see segments/feed.py."""
        if net:
            return iter([feed.net(self.pool, table_id, since, until)])
        return feed.each_version(self.pool, table_id, since, until)

    def reserve_segments(self, count: int, *, inline: bool = False) -> int:
        """Reserve `count` segment numbers, which are never reused; returns the first.

        Clean-up keeps files with these numbers; `inline` segments have none.
        """
        if count > MAX_RESERVED:
            raise InvalidInput(f"At most {MAX_RESERVED} segment numbers can be reserved at once, not {count}.")
        return self.pool.reserve("segment", count, noted=not inline)

    def commit(
        self,
        changes: Sequence[TableCommit],
        *,
        request_id: str | None = None,
        digest: bytes | None = None,
        beside: Callable[[Callable[[], None]], object] | None = None,
    ) -> CommitResult:
        """Apply all changes as one version. Raises Stale if a precondition of one of them no longer holds.

        `digest` is stored with the request id, to identify what was committed. `beside` gets
        a function that publishes the manifests, to call it in another thread; it raises the errors of the commit.
        """
        if not changes:
            raise InvalidInput("There is nothing to commit.")
        if request_id is not None:
            check_text(request_id, "request id", _MAX_REQUEST_ID)
        if len(digest or b"") > _MAX_DIGEST:
            raise InvalidInput(f"A digest has at most {_MAX_DIGEST} bytes, not {len(digest or b'')}.")
        kinds = {change.operation.kind.value for change in changes}
        with self.pool.write() as write:
            if request_id is not None and (earlier := requests.find(write.connection, request_id)):
                return earlier
            draft = Draft(write, self.uuid, kinds.pop() if len(kinds) == 1 else "transaction")
            commits.apply(draft, changes)
            if request_id is not None:
                draft.request(request_id, digest=digest)
            draft.save()
            result = CommitResult(draft.version, draft.now, digest=digest)
        added = [change.operation.added for change in changes if isinstance(change.operation, DataOperation)]
        self._settle([facts for some in added for facts in some if facts.inline is None])
        soon = all(change.may_lag for change in changes)
        publish = partial(self._publish, draft, [change.table_id for change in changes], soon=soon)
        if beside is None:
            publish()
        else:
            beside(publish)
        return result

    def _settle(self, added: Sequence[SegmentFacts]) -> None:
        """Committed numbers need no protection from clean-up any more."""
        if added and self.pool.living is not None:
            self.pool.living.settle(facts.number for facts in added)

    def writing(self) -> AbstractContextManager[None]:
        """While it is open, clean-up keeps uncommitted files of this process."""
        return nullcontext() if self.pool.living is None else self.pool.living.writing()

    def _publish(self, draft: Draft, table_ids: list[UUID], *, soon: bool = False) -> None:
        """After a commit: every error becomes Unavailable, which means an unknown outcome.

        With `soon`, manifests are published in the background.
        """
        try:
            if soon:
                self.publisher.publish_soon()
            else:
                self.publisher.publish_quietly()
        except Fenced as error:
            if not draft.is_saved:
                raise
            raise Unavailable(
                f"The outcome of the change is unknown: it was committed to an outdated catalog. {error.message}"
            ) from error
        if draft.longest_chain > self.config.manifest_deltas:
            self.publisher.write_full_if_due(table_ids)

    def committed(self, request_id: str) -> CommitResult | None:
        """The result of an earlier commit with this request id, if any."""
        with self.pool.read() as connection:
            return requests.find(connection, request_id)

    # Regions

    def region(self, table_id: UUID, value: tuple[bytes | None, ...]) -> Region:
        return regions.find(self.pool, table_id, value)

    def claim_region(self, table_id: UUID, number: int, owner: str) -> Region:
        changed = regions.changed_version(self.pool, table_id)
        if changed > self.published_version():
            self.publisher.publish()  # if the catalog is lost, the log must still match the region
        return regions.claim(self.pool, table_id, number, owner)

    def release_region(self, table_id: UUID, number: int, epoch: int) -> None:
        regions.release(self.pool, table_id, number, epoch)

    def claimed_tables(self, *, branch: str | None = None) -> list[UUID]:
        with self.pool.read() as connection:
            return regions.claimed_tables(connection, branch)

    def regions(self, table_id: UUID) -> list[Region]:
        with self.pool.read() as connection:
            return regions.list_all(connection, table_id)

    def region_epoch(self, table_id: UUID, number: int) -> int:
        with self.pool.read() as connection:
            return regions.epoch(connection, table_id, number)

    # Indexes

    def indexes(self, table_id: UUID) -> list[Index]:
        """The secondary indexes of a table, by name."""
        with self.pool.read() as connection:
            return indexes.list_all(connection, table_id)

    def index_sizes(self, table_id: UUID) -> dict[UUID, IndexSize]:
        """Files, bytes and covered live segments of each index of a table with files."""
        with self.pool.read() as connection:
            return indexes.covered(connection, table_id)

    def index_coverage(
        self, table_id: UUID, segments: Collection[int], fields: Collection[int] | None = None
    ) -> list[Coverage]:
        """The files of the table's indexes, or of those on some columns, that cover some of `segments`."""
        with self.pool.read() as connection:
            return indexes.coverage(connection, table_id, segments, fields)

    def written_bytes(self, table_id: UUID, after: int) -> dict[int, int]:
        """Bytes of the segments written after a version, by level, including removed segments that are still kept."""
        with self.pool.read() as connection:
            return segments.written_bytes(connection, table_id, after)

    def published_version(self) -> int:
        """The last version whose manifests, and those of all before it, are in storage."""
        return self.publisher.published_version()

    def head_version(self, table_id: UUID) -> int:
        """The last version that changed a table."""
        with self.pool.read() as connection:
            return int(tables.find_by_id(connection, table_id).head_version)

    def pin(self, table_id: UUID, version: int) -> UUID:
        with suppress(NotFound):
            return pins.pin(self.pool, table_id, version, self.config.pin_seconds)
        state = self.table_by_id(table_id, version)  # opens one of a branch, which has these rows since that began
        return pins.pin(self.pool, table_id, state.version, self.config.pin_seconds)

    def renew_pin(self, pin_id: UUID) -> None:
        pins.renew(self.pool, pin_id, self.config.pin_seconds)

    def unpin(self, pin_id: UUID) -> None:
        pins.unpin(self.pool, pin_id)

    def release_idle_pins(self) -> None:
        """Release the pins of finished readers of this process."""
        for release in self.idle_pins:
            release()


def own_catalog(backend: object) -> Catalog:
    """The catalog itself, for operations that need direct access; FailedPrecondition behind a server or for a copy.

    For a branch it is the lake's catalog, with names resolved on the branch.
    """
    if local_catalog(backend) is None:
        raise FailedPrecondition(
            "This needs direct access to the catalog: open the lake by its folder or database, not through a server."
        )
    return cast(Catalog, backend)


def local_catalog(backend: object) -> Catalog | None:
    """The lake's catalog in this process behind a backend or a branch; None behind a server.

    Names are resolved on main.
    """
    whole = getattr(backend, "whole", backend)
    return whole if isinstance(whole, Catalog) else None
