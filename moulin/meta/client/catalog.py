"""A lake's catalog over the network, used by `moulin.connect("grpc://...")` instead of SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final
from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin._proto.moulin.lake.v1.catalog_pb2_grpc import CatalogServiceStub
from moulin.catalog.commit.indexes import Coverage, IndexSize
from moulin.catalog.commit.publishing import TablePublication
from moulin.catalog.commit.table_commit import CommitResult, TableCommit
from moulin.catalog.objects.history import CompactionOf
from moulin.catalog.objects.tables import FirstRows, NewTable
from moulin.catalog.segments.feed import FeedEntry
from moulin.catalog.segments.live import PartitionFilter, TimeRange
from moulin.config import Config
from moulin.errors import InvalidInput
from moulin.meta.client.connection import Connection
from moulin.meta.client.tasks import ClientTasks
from moulin.meta.client.tokens import ClientTokens
from moulin.meta.codec.lake.base_path import from_message_base_path
from moulin.meta.codec.lake.branch import from_message_branch, from_message_branch_table
from moulin.meta.codec.lake.commit import from_message_result, to_message_commit
from moulin.meta.codec.lake.database import from_message_database, from_message_preview
from moulin.meta.codec.lake.feed import from_message_feed
from moulin.meta.codec.lake.index import from_message_coverage, from_message_index
from moulin.meta.codec.lake.partition import from_message_partition, to_message_partition, to_message_tuple
from moulin.meta.codec.lake.publication import to_message_publication
from moulin.meta.codec.lake.region import from_message_region
from moulin.meta.codec.lake.segment import from_message_segment
from moulin.meta.codec.lake.table import from_message_entry, from_message_state, to_message_new_table
from moulin.meta.codec.lake.version import from_message_commit_info
from moulin.meta.codec.lake.view import from_message_view, to_message_query
from moulin.meta.roles import CATALOG_READS
from moulin.model import request_ids
from moulin.model.columns.batching import batched
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
from moulin.model.ids import new_id

# Calls that may be repeated when it is not known whether they arrived. A commit may, too, as it carries a request id.
_PATHS: Final = 1000  # asked about in one call
_AGAIN: Final = frozenset(
    {*CATALOG_READS, "Commit", "PublishBranch", "ReserveSegments", "GetRegionNumber", "ReleaseRegion"}
)
_MANY: Final = 500  # partitions; where there are more, a time range comes first
_ERASE_SECONDS: Final = 6 * 3600.0  # it writes all segments again in which it finds rows
_VERSIONS: Final = 64  # asked for at a time: no call stays open while what it told of is being read


class ClientCatalog:
    """Fills `CatalogBackend`. Safe to use from several threads."""

    knows_claims = True
    is_replica = False

    def __init__(self, connection: Connection, uuid: UUID, config: Config, *, may_write: bool = True) -> None:
        self.uuid, self.config, self.may_write = uuid, config, may_write
        self._connection = connection
        self._stub = connection.stub(CatalogServiceStub)
        self.ingest = ClientTokens(connection)
        self.maintenance = ClientTasks(connection)

    @property
    def connection(self) -> Connection:
        return self._connection

    def close(self) -> None:
        self._connection.close()

    def _call(self, name: str, kind: Callable[..., Any], /, **fields: Any) -> Any:
        return self._connection.call(getattr(self._stub, name), _message(kind, fields), again=name in _AGAIN)

    def _stream(self, name: str, kind: Callable[..., Any], /, **fields: Any) -> list[Any]:
        return self._connection.stream(getattr(self._stub, name), _message(kind, fields))

    # Databases

    def create_database(
        self, name: str, properties: Mapping[str, str] | None = None, *, if_not_exists: bool = False
    ) -> Database:
        fields = {"name": name, "properties": dict(properties or {}), "if_not_exists": if_not_exists}
        return from_message_database(self._call("CreateDatabase", pb.CreateDatabaseRequest, **fields))

    def databases(self, *, include_dropped: bool = False, branch: str | None = None) -> list[Database]:
        fields = {"include_dropped": include_dropped, "branch": branch}
        found = self._call("ListDatabases", pb.ListDatabasesRequest, **fields)
        return list(map(from_message_database, found.databases))

    def database(self, database: str) -> Database:
        return from_message_database(self._call("GetDatabase", pb.DatabaseRef, name=database))

    def rename_database(self, name: str, new_name: str) -> Database:
        return from_message_database(
            self._call("RenameDatabase", pb.RenameDatabaseRequest, name=name, new_name=new_name)
        )

    def preview_drop_database(self, name: str) -> DropPreview:
        return from_message_preview(self._call("PreviewDropDatabase", pb.DatabaseRef, name=name))

    def drop_database(self, name: str, *, cascade: bool = False, immediate: bool = False) -> Database:
        fields = {"name": name, "cascade": cascade, "immediate": immediate}
        return from_message_database(self._call("DropDatabase", pb.DropDatabaseRequest, **fields))

    def resurrect_database(self, name: str) -> Database:
        return from_message_database(self._call("ResurrectDatabase", pb.DatabaseRef, name=name))

    # Branches

    def create_branch(
        self,
        name: str,
        *,
        version: int | None = None,
        expires_in: float | None = None,
        only: Collection[UUID] | None = None,
    ) -> Branch:
        ids = None if only is None else pb.TableIds(ids=map(str, only))
        fields = {"name": name, "version": version, "expires_in_seconds": expires_in, "only": ids}
        return from_message_branch(self._call("CreateBranch", pb.CreateBranchRequest, **fields))

    def branches(self, *, include_dropped: bool = False) -> list[Branch]:
        found = self._call("ListBranches", pb.ListBranchesRequest, include_dropped=include_dropped)
        return list(map(from_message_branch, found.branches))

    def branch(self, name: str) -> Branch:
        return from_message_branch(self._call("GetBranch", pb.BranchRef, name=name))

    def branch_tables(self, name: str) -> list[BranchTable]:
        return list(map(from_message_branch_table, self._call("ListBranchTables", pb.BranchRef, name=name).tables))

    def publish_branch(
        self,
        name: str,
        given: Sequence[TablePublication],
        *,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> CommitResult:
        """See `Catalog.publish_branch`. A call that got lost is repeated under the same request id: it is done once."""
        messages = [_message(to_message_publication, {"part": part}) for part in given]
        sent = f"{request_ids.CALL}{new_id()}" if request_id is None else request_id
        fields = {"name": name, "tables": messages, "dry_run": dry_run, "request_id": sent}
        return from_message_result(self._call("PublishBranch", pb.PublishBranchRequest, **fields))

    def drop_branch(self, name: str) -> Branch:
        return from_message_branch(self._call("DropBranch", pb.BranchRef, name=name))

    def resurrect_branch(self, name: str) -> Branch:
        return from_message_branch(self._call("ResurrectBranch", pb.BranchRef, name=name))

    # Base paths

    def add_base(self, name: str, uri: str) -> BasePath:
        return from_message_base_path(self._call("AddBase", pb.BasePath, name=name, uri=uri))

    def bases(self) -> list[BasePath]:
        return list(map(from_message_base_path, self._call("ListBases", pb.ListBasesRequest).bases))

    def drop_base(self, name: str) -> BasePath:
        return from_message_base_path(self._call("DropBase", pb.BasePathRef, name=name))

    def known_paths(self, table_id: UUID, paths: Sequence[str]) -> list[str]:
        found: list[str] = []
        for block in batched(paths, _PATHS):
            asked = {"table_id": str(table_id), "paths": block}
            found += self._call("ListKnownPaths", pb.ListKnownPathsRequest, **asked).paths
        return found

    # Tables

    def create_table(
        self, database: str, name: str, new: NewTable, first: FirstRows | None = None, *, replace: bool = False
    ) -> TableState:
        fields = {"database": database, "name": name, "new": new, "first": first, "replace": replace}
        call = "CreateFilledTable" if replace or (first is not None and first.segments) else "CreateTable"
        return from_message_state(self._call(call, to_message_new_table, **fields))

    def clone_table(self, source_id: UUID, database: str, name: str, *, version: int | None = None) -> TableState:
        fields = {"source_id": str(source_id), "database": database, "name": name, "version": version}
        return from_message_state(self._call("CloneTable", pb.CloneTableRequest, **fields))

    def tables(self, database: str, *, include_dropped: bool = False) -> list[TableEntry]:
        found = self._call("ListTables", pb.ListTablesRequest, database=database, include_dropped=include_dropped)
        return list(map(from_message_entry, found.tables))

    def table(self, database: str, name: str, version: int | None = None) -> TableState:
        ref = _message(pb.TableRef, {"database": database, "name": name})
        return from_message_state(self._call("LoadTable", pb.LoadTableRequest, name=ref, version=version))

    def table_by_id(self, table_id: UUID, version: int | None = None) -> TableState:
        return from_message_state(self._call("LoadTable", pb.LoadTableRequest, id=str(table_id), version=version))

    def table_entry(self, table_id: UUID) -> TableEntry:
        return from_message_entry(self._call("GetTableEntry", pb.TableId, id=str(table_id)))

    def rename_table(self, database: str, name: str, new_database: str, new_name: str) -> TableState:
        fields = {"database": database, "name": name, "new_database": new_database, "new_name": new_name}
        return from_message_state(self._call("RenameTable", pb.RenameTableRequest, **fields))

    def replace_table(self, database: str, name: str, replacement: str) -> TableState:
        fields = {"database": database, "name": name, "replacement": replacement}
        return from_message_state(self._call("ReplaceTable", pb.ReplaceTableRequest, **fields))

    def drop_table(self, database: str, name: str, *, immediate: bool = False) -> TableEntry:
        fields = {"database": database, "name": name, "immediate": immediate}
        return from_message_entry(self._call("DropTable", pb.DropTableRequest, **fields))

    def resurrect_table(self, database: str, name: str) -> TableEntry:
        return from_message_entry(self._call("ResurrectTable", pb.TableRef, database=database, name=name))

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
    ) -> View:
        fields = {"database": database, "name": name, "members": members, "description": description}
        message = {"query": to_message_query(query), "replace": replace, "expected": expected}
        return from_message_view(self._call("CreateView", pb.CreateViewRequest, **fields, **message))

    def set_view_properties(
        self, database: str, name: str, updates: Mapping[str, str], removals: Collection[str] = ()
    ) -> View:
        fields = {"database": database, "name": name, "updates": dict(updates), "removals": list(removals)}
        return from_message_view(self._call("SetViewProperties", pb.SetViewPropertiesRequest, **fields))

    def set_view_members(self, database: str, name: str, members: Sequence[str]) -> View:
        fields = {"database": database, "name": name, "members": members}
        return from_message_view(self._call("SetViewMembers", pb.SetViewMembersRequest, **fields))

    def views(self, database: str, *, include_dropped: bool = False) -> list[View]:
        found = self._call("ListViews", pb.ListViewsRequest, database=database, include_dropped=include_dropped)
        return list(map(from_message_view, found.views))

    def view(self, database: str, name: str) -> View:
        return from_message_view(self._call("GetView", pb.TableRef, database=database, name=name))

    def rename_view(self, database: str, name: str, new_name: str, new_database: str | None = None) -> View:
        fields = {"database": database, "name": name, "new_name": new_name, "new_database": new_database}
        return from_message_view(self._call("RenameView", pb.RenameViewRequest, **fields))

    def drop_view(self, database: str, name: str) -> View:
        return from_message_view(self._call("DropView", pb.TableRef, database=database, name=name))

    def resurrect_view(self, database: str, name: str) -> View:
        return from_message_view(self._call("ResurrectView", pb.TableRef, database=database, name=name))

    # Versions and segments

    def refresh(self) -> int:
        return self.version()

    def version(self) -> int:
        return int(self._call("GetVersion", pb.GetVersionRequest).version)

    def version_at(self, timestamp_ns: int) -> int:
        return int(self._call("GetVersionAt", pb.GetVersionAtRequest, timestamp_ns=timestamp_ns).version)

    def write_manifests(self, table_ids: Sequence[UUID] = ()) -> int:
        ids = [str(table_id) for table_id in table_ids]
        return int(self._call("WriteManifests", pb.WriteManifestsRequest, table_ids=ids).version)

    def head_version(self, table_id: UUID) -> int:
        return int(self._call("GetHeadVersion", pb.TableId, id=str(table_id)).version)

    def history(self, table_id: UUID, limit: int | None = None) -> list[CommitInfo]:
        pages = self._stream("ListHistory", pb.ListHistoryRequest, table_id=str(table_id), limit=limit)
        return [from_message_commit_info(info) for page in pages for info in page.commits]

    def sequence_versions(self, table_id: UUID) -> tuple[list[int], list[int]]:
        found = self._call("ListSequenceVersions", pb.TableId, id=str(table_id))
        return list(found.sequences), list(found.versions)

    def birth_versions(self, table_id: UUID) -> tuple[list[int], list[int]]:
        found = self._call("ListBirthVersions", pb.TableId, id=str(table_id))
        return list(found.first_row_ids), list(found.versions)

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
        """See `Catalog.segments`. The filter runs here: on the table's partitions, of which the server is told those to
        take; or on what it answers, where a time range leaves less of it than there are partitions.
        """
        low, high = (None, None) if time_range is None else map(_clamped, time_range)
        wanted = None
        if partition_filter is not None:
            bounded = low is not None and high is not None
            known = self.partitions(table_id, _MANY + 1 if bounded else None)
            if not bounded or len(known) <= _MANY:
                kept = [partition for partition in known if partition_filter(*partition)]
                wanted = pb.Partitions(partitions=map(to_message_partition, kept)) if len(kept) < len(known) else None
                partition_filter = None
        pages = self._stream(
            "ListSegments",
            pb.ListSegmentsRequest,
            table_id=str(table_id),
            version=version,
            partitions=wanted,
            time_from=low,
            time_to=high,
            with_time_range=time_range is not None,
            with_columns=with_columns,
            columns=None if columns is None else pb.FieldIds(ids=sorted(columns)),
        )
        found = [from_message_segment(segment) for page in pages for segment in page.segments]
        if partition_filter is None:
            return found
        answers = {one: partition_filter(*one) for one in {(s.facts.spec_id, s.facts.partition) for s in found}}
        return [s for s in found if answers[s.facts.spec_id, s.facts.partition]]

    def partitions(self, table_id: UUID, limit: int | None = None) -> list[tuple[int, tuple[bytes | None, ...]]]:
        pages = self._stream("ListPartitions", pb.ListPartitionsRequest, table_id=str(table_id), limit=limit)
        return [from_message_partition(partition) for page in pages for partition in page.partitions]

    def segments_by_number(self, table_id: UUID, numbers: Iterable[int], version: int) -> dict[int, LiveSegment]:
        wanted = {"table_id": str(table_id), "numbers": list(numbers), "version": version}
        pages = self._stream("GetSegments", pb.GetSegmentsRequest, **wanted)
        return {segment.number: from_message_segment(segment) for page in pages for segment in page.segments}

    def count_rows(self, table_id: UUID, version: int) -> int:
        return int(self._call("CountRows", pb.CountRowsRequest, table_id=str(table_id), version=version).rows)

    def compactions_of(self, table_id: UUID, numbers: Sequence[int], after: int) -> list[CompactionOf]:
        wanted = {"table_id": str(table_id), "numbers": list(numbers), "after": after}
        found = self._call("ListMerges", pb.ListMergesRequest, **wanted)
        return [CompactionOf(m.segment, m.version, tuple(m.journals)) for m in found.merges]

    def state_until(self, table_id: UUID, since: int, until: int | None = None) -> TableState:
        fields = {"table_id": str(table_id), "since": since, "until": until}
        return from_message_state(self._call("LoadTableUntil", pb.ChangeRange, **fields))

    def changed_versions(self, table_id: UUID, since: int, until: int, limit: int | None = None) -> list[int]:
        fields = {"table_id": str(table_id), "since": since, "until": until, "limit": limit}
        return list(self._call("ListChangedVersions", pb.ChangeRange, **fields).versions)

    def feed(self, table_id: UUID, since: int, until: int, *, net: bool = False) -> Iterator[FeedEntry]:
        fields = {"table_id": str(table_id), "until": until, "net": net}
        if net:
            return from_message_feed(self._stream("ListChanges", pb.ChangeRange, since=since, **fields))
        return self._each_version(since, fields)

    def _each_version(self, since: int, fields: Mapping[str, Any]) -> Iterator[FeedEntry]:
        while True:
            pieces = self._stream("ListChanges", pb.ChangeRange, since=since, limit=_VERSIONS, **fields)
            found = list(from_message_feed(pieces))
            yield from found
            if len(found) < _VERSIONS:
                return
            since = found[-1].version

    def reserve_segments(self, count: int, *, inline: bool = False) -> int:
        return int(self._call("ReserveSegments", pb.ReserveSegmentsRequest, count=count).first)

    def commit(
        self, changes: Sequence[TableCommit], *, request_id: str | None = None, digest: bytes | None = None
    ) -> CommitResult:
        """See `Catalog.commit`. A call that got lost is repeated under the same request id: it commits once."""
        messages = [_message(to_message_commit, {"commit": change}) for change in changes]
        sent = f"{request_ids.CALL}{new_id()}" if request_id is None else request_id
        fields = {"changes": messages, "request_id": sent, "digest": digest}
        result = from_message_result(self._call("Commit", pb.CommitRequest, **fields))
        return result if request_id is not None else CommitResult(result.version, result.timestamp_ns)

    def committed(self, request_id: str) -> CommitResult | None:
        found = self._call("FindCommit", pb.FindCommitRequest, request_id=request_id)
        return from_message_result(found.commit) if found.HasField("commit") else None

    def erase_rows(self, table_id: UUID, where: str) -> dict[str, Any]:
        """Have the server erase rows from every version; its report, without a signature.

        It is not repeated when its answer gets lost: the report says what one call did.
        """
        request = _message(pb.EraseRowsRequest, {"table_id": str(table_id), "where": where})
        done = self._connection.call(self._stub.EraseRows, request, seconds=_ERASE_SECONDS)
        report: dict[str, Any] = json.loads(done.report_json)
        return report

    # Regions and pins

    def region(self, table_id: UUID, value: tuple[bytes | None, ...]) -> Region:
        fields = {"table_id": str(table_id), "value": to_message_tuple(value)}
        found = self._call("GetRegionNumber", pb.GetRegionNumberRequest, **fields)
        return (
            from_message_region(found.region) if found.HasField("region") else Region(found.number, value, 0, "", 0, 0)
        )

    def claim_region(self, table_id: UUID, number: int, owner: str) -> Region:
        fields = {"table_id": str(table_id), "number": number, "owner": owner}
        return from_message_region(self._call("ClaimRegion", pb.ClaimRegionRequest, **fields))

    def release_region(self, table_id: UUID, number: int, epoch: int) -> None:
        self._call("ReleaseRegion", pb.ReleaseRegionRequest, table_id=str(table_id), number=number, epoch=epoch)

    def claimed_tables(self, *, branch: str | None = None) -> list[UUID]:
        found = self._call("ListClaimedTables", pb.ListClaimedTablesRequest, branch=branch)
        return [UUID(text) for text in found.table_ids]

    def regions(self, table_id: UUID) -> list[Region]:
        return list(map(from_message_region, self._call("ListRegions", pb.TableId, id=str(table_id)).regions))

    def region_epoch(self, table_id: UUID, number: int) -> int:
        fields = {"table_id": str(table_id), "number": number}
        return int(self._call("GetRegionEpoch", pb.GetRegionEpochRequest, **fields).epoch)

    def indexes(self, table_id: UUID) -> list[Index]:
        found = self._call("ListIndexes", pb.TableId, id=str(table_id)).indexes
        return [from_message_index(info.index) for info in found]

    def index_sizes(self, table_id: UUID) -> dict[UUID, IndexSize]:
        found = self._call("ListIndexes", pb.TableId, id=str(table_id)).indexes
        return {
            UUID(bytes=info.index.id): IndexSize(info.files, info.bytes, info.segments)
            for info in found
            if info.HasField("files")
        }

    def index_coverage(
        self, table_id: UUID, segments: Collection[int], fields: Collection[int] | None = None
    ) -> list[Coverage]:
        asked: dict[str, Any] = {"table_id": str(table_id), "segments": sorted(segments)}
        if fields is not None:
            asked["fields"] = pb.FieldIds(ids=fields)
        found = self._call("ListIndexCoverage", pb.ListIndexCoverageRequest, **asked).covering
        return list(map(from_message_coverage, found))

    def written_bytes(self, table_id: UUID, after: int) -> dict[int, int]:
        asked = {"table_id": str(table_id), "after": after}
        return dict(self._call("GetWrittenBytes", pb.GetWrittenBytesRequest, **asked).bytes)

    def published_version(self) -> int:
        return int(self._call("GetPublishedVersion", pb.GetPublishedVersionRequest).version)

    def writing(self) -> AbstractContextManager[None]:
        """Nothing: clean-up runs where the catalog is, and goes by the age of files."""
        return nullcontext()

    def pin(self, table_id: UUID, version: int) -> UUID:
        return UUID(self._call("Pin", pb.PinRequest, table_id=str(table_id), version=version).pin_id)

    def renew_pin(self, pin_id: UUID) -> None:
        self._call("RenewPin", pb.PinId, pin_id=str(pin_id))

    def unpin(self, pin_id: UUID) -> None:
        self._call("Unpin", pb.PinId, pin_id=str(pin_id))


def _message(kind: Callable[..., Any], fields: Mapping[str, Any]) -> Any:
    """A request; what does not fit into it (text that is none, a number out of range) is the caller's mistake."""
    try:
        return kind(**fields)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"The request cannot be sent: {error}.") from None


def _clamped(time: int | None) -> int | None:
    return None if time is None else min(max(time, -(1 << 63)), (1 << 63) - 1)
