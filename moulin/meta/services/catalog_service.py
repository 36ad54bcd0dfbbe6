"""CatalogService: the catalog of a lake for lakes in other processes. It only translates; `Catalog` does the work."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

import moulin
from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin._proto.moulin.lake.v1 import catalog_pb2_grpc
from moulin.catalog.commit.delivery import require_delivered
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.objects.new_table import NewTable, foreseen
from moulin.catalog.segments.live import PartitionFilter
from moulin.catalog.tasks.merge_tasks import COMPACT, FILL, PlannedTask
from moulin.errors import InvalidInput
from moulin.meta.auth import caller
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.lake.base_path import to_message_base_path
from moulin.meta.codec.lake.branch import to_message_branch, to_message_branch_table
from moulin.meta.codec.lake.commit import from_message_commit, to_message_result
from moulin.meta.codec.lake.database import to_message_database, to_message_preview
from moulin.meta.codec.lake.feed import to_message_feed
from moulin.meta.codec.lake.index import to_message_coverage, to_message_index_info
from moulin.meta.codec.lake.merge_task import (
    from_message_claim,
    to_message_claim,
    to_message_claimed,
    to_message_task,
    to_message_task_details,
)
from moulin.meta.codec.lake.partition import from_message_partition, from_message_tuple, to_message_partition
from moulin.meta.codec.lake.publication import from_message_publication
from moulin.meta.codec.lake.region import to_message_region
from moulin.meta.codec.lake.segment import to_message_segment
from moulin.meta.codec.lake.stream import to_message_streams
from moulin.meta.codec.lake.table import (
    from_message_first,
    from_message_new_table,
    to_message_entry,
    to_message_state,
)
from moulin.meta.codec.lake.version import to_message_commit_info
from moulin.meta.codec.lake.view import from_message_query, to_message_view
from moulin.meta.codec.page import pages
from moulin.meta.features import is_known_index
from moulin.meta.roles import Role
from moulin.meta.site import Site
from moulin.model.region_spec import RegionSpec
from moulin.table.erase.erase import erase_rows
from moulin.table.properties import check_properties


class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """One method per call, in the order of catalog.proto."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._catalog = site.catalog
        self._tasks = site.catalog.maintenance

    def GetLake(self, request: pb.GetLakeRequest, context: Any) -> pb.GetLakeResponse:
        site = self._site
        told = site.serve.share_storage_options == "on" and caller.get().role >= Role.WRITE
        return pb.GetLakeResponse(
            id=str(self._catalog.uuid),
            storage_uri=site.store.uri,
            storage_options=dict(site.storage_options) if told else {},
            settings={name: str(value) for name, value in dataclasses.asdict(site.config).items()},
            server_version=moulin.__version__,
            role=caller.get().role.name.lower(),
        )

    # Databases

    def CreateDatabase(self, request: pb.CreateDatabaseRequest, context: Any) -> pb.Database:
        properties = check_properties(request.properties)
        made = self._catalog.create_database(request.name, properties, if_not_exists=request.if_not_exists)
        return to_message_database(made)

    def ListDatabases(self, request: pb.ListDatabasesRequest, context: Any) -> pb.ListDatabasesResponse:
        branch = request.branch if request.HasField("branch") else None
        found = self._catalog.databases(include_dropped=request.include_dropped, branch=branch)
        return pb.ListDatabasesResponse(databases=map(to_message_database, found))

    def GetDatabase(self, request: pb.DatabaseRef, context: Any) -> pb.Database:
        return to_message_database(self._catalog.database(request.name))

    def RenameDatabase(self, request: pb.RenameDatabaseRequest, context: Any) -> pb.Database:
        return to_message_database(self._catalog.rename_database(request.name, request.new_name))

    def PreviewDropDatabase(self, request: pb.DatabaseRef, context: Any) -> pb.DropPreview:
        return to_message_preview(self._catalog.preview_drop_database(request.name))

    def DropDatabase(self, request: pb.DropDatabaseRequest, context: Any) -> pb.Database:
        done = self._catalog.drop_database(request.name, cascade=request.cascade, immediate=request.immediate)
        return to_message_database(done)

    def ResurrectDatabase(self, request: pb.DatabaseRef, context: Any) -> pb.Database:
        return to_message_database(self._catalog.resurrect_database(request.name))

    # Branches

    def CreateBranch(self, request: pb.CreateBranchRequest, context: Any) -> pb.Branch:
        made = self._catalog.create_branch(
            request.name,
            version=request.version if request.HasField("version") else None,
            expires_in=request.expires_in_seconds if request.HasField("expires_in_seconds") else None,
            only=[from_message_id(one, "only") for one in request.only.ids] if request.HasField("only") else None,
        )
        return to_message_branch(made)

    def ListBranches(self, request: pb.ListBranchesRequest, context: Any) -> pb.ListBranchesResponse:
        found = self._catalog.branches(include_dropped=request.include_dropped)
        return pb.ListBranchesResponse(branches=map(to_message_branch, found))

    def GetBranch(self, request: pb.BranchRef, context: Any) -> pb.Branch:
        return to_message_branch(self._catalog.branch(request.name))

    def ListBranchTables(self, request: pb.BranchRef, context: Any) -> pb.ListBranchTablesResponse:
        found = self._catalog.branch_tables(request.name)
        return pb.ListBranchTablesResponse(tables=map(to_message_branch_table, found))

    def PublishBranch(self, request: pb.PublishBranchRequest, context: Any) -> pb.CommitResponse:
        request_id = request.request_id if request.HasField("request_id") else None
        if request_id == "":
            raise InvalidInput("A request id must not be empty: omit it, or send a unique one.")
        given = list(map(from_message_publication, request.tables))
        if request_id is None or self._catalog.committed(request_id) is None:
            states = self._catalog.foreseen_by_publish(request.name, given)
            require_delivered(self._catalog.pool, self._catalog.store, [part.commit for part in given], states)
        done = self._catalog.publish_branch(request.name, given, dry_run=request.dry_run, request_id=request_id)
        return to_message_result(done)

    def DropBranch(self, request: pb.BranchRef, context: Any) -> pb.Branch:
        return to_message_branch(self._catalog.drop_branch(request.name))

    def ResurrectBranch(self, request: pb.BranchRef, context: Any) -> pb.Branch:
        return to_message_branch(self._catalog.resurrect_branch(request.name))

    # Base paths

    def AddBase(self, request: pb.BasePath, context: Any) -> pb.BasePath:
        return to_message_base_path(self._catalog.add_base(request.name, request.uri))

    def ListBases(self, request: pb.ListBasesRequest, context: Any) -> pb.ListBasesResponse:
        return pb.ListBasesResponse(bases=map(to_message_base_path, self._catalog.bases()))

    def DropBase(self, request: pb.BasePathRef, context: Any) -> pb.BasePath:
        return to_message_base_path(self._catalog.drop_base(request.name))

    def ListKnownPaths(self, request: pb.ListKnownPathsRequest, context: Any) -> pb.ListKnownPathsResponse:
        table_id = from_message_id(request.table_id, "table_id")
        return pb.ListKnownPathsResponse(paths=self._catalog.known_paths(table_id, request.paths))

    # Tables

    def CreateTable(self, request: pb.CreateTableRequest, context: Any) -> pb.TableState:
        return to_message_state(self._catalog.create_table(request.database, request.name, _new_table(request)))

    def CreateFilledTable(self, request: pb.CreateTableRequest, context: Any) -> pb.TableState:
        new = _new_table(request)
        if (first := from_message_first(request)) is not None:
            catalog, state = self._catalog, foreseen(new, request.database, request.name)
            rows = TableCommit(state.id, 0, first.operation)
            require_delivered(catalog.pool, catalog.store, [rows], {state.id: state})
        return to_message_state(
            self._catalog.create_table(request.database, request.name, new, first, replace=request.replace)
        )

    def CloneTable(self, request: pb.CloneTableRequest, context: Any) -> pb.TableState:
        source = from_message_id(request.source_id, "source_id")
        version = request.version if request.HasField("version") else None
        return to_message_state(self._catalog.clone_table(source, request.database, request.name, version=version))

    def ListTables(self, request: pb.ListTablesRequest, context: Any) -> pb.ListTablesResponse:
        found = self._catalog.tables(request.database, include_dropped=request.include_dropped)
        return pb.ListTablesResponse(tables=map(to_message_entry, found))

    def LoadTable(self, request: pb.LoadTableRequest, context: Any) -> pb.TableState:
        version = request.version if request.HasField("version") else None
        match request.WhichOneof("table"):
            case "name":
                return to_message_state(self._catalog.table(request.name.database, request.name.name, version))
            case "id":
                return to_message_state(self._catalog.table_by_id(from_message_id(request.id, "table_id"), version))
        raise InvalidInput("Give a table by name or by id.")

    def GetTableEntry(self, request: pb.TableId, context: Any) -> pb.TableEntry:
        return to_message_entry(self._catalog.table_entry(from_message_id(request.id, "table_id")))

    def RenameTable(self, request: pb.RenameTableRequest, context: Any) -> pb.TableState:
        names = (request.database, request.name, request.new_database, request.new_name)
        return to_message_state(self._catalog.rename_table(*names))

    def ReplaceTable(self, request: pb.ReplaceTableRequest, context: Any) -> pb.TableState:
        return to_message_state(self._catalog.replace_table(request.database, request.name, request.replacement))

    def DropTable(self, request: pb.DropTableRequest, context: Any) -> pb.TableEntry:
        return to_message_entry(self._catalog.drop_table(request.database, request.name, immediate=request.immediate))

    def ResurrectTable(self, request: pb.TableRef, context: Any) -> pb.TableEntry:
        return to_message_entry(self._catalog.resurrect_table(request.database, request.name))

    # Views

    def CreateView(self, request: pb.CreateViewRequest, context: Any) -> pb.View:
        text = request.description if request.HasField("description") else None
        query, members = from_message_query(request), list(request.members)
        expected = request.expected if request.HasField("expected") else None
        given = (request.database, request.name, members, text)
        return to_message_view(
            self._catalog.create_view(*given, query=query, replace=request.replace, expected=expected)
        )

    def SetViewMembers(self, request: pb.SetViewMembersRequest, context: Any) -> pb.View:
        return to_message_view(self._catalog.set_view_members(request.database, request.name, list(request.members)))

    def ListViews(self, request: pb.ListViewsRequest, context: Any) -> pb.ListViewsResponse:
        found = self._catalog.views(request.database, include_dropped=request.include_dropped)
        return pb.ListViewsResponse(views=map(to_message_view, found))

    def GetView(self, request: pb.TableRef, context: Any) -> pb.View:
        return to_message_view(self._catalog.view(request.database, request.name))

    def RenameView(self, request: pb.RenameViewRequest, context: Any) -> pb.View:
        target = request.new_database if request.HasField("new_database") else request.database
        return to_message_view(self._catalog.rename_view(request.database, request.name, request.new_name, target))

    def DropView(self, request: pb.TableRef, context: Any) -> pb.View:
        return to_message_view(self._catalog.drop_view(request.database, request.name))

    def ResurrectView(self, request: pb.TableRef, context: Any) -> pb.View:
        return to_message_view(self._catalog.resurrect_view(request.database, request.name))

    def SetViewProperties(self, request: pb.SetViewPropertiesRequest, context: Any) -> pb.View:
        updates, removals = dict(request.updates), list(request.removals)
        changed = self._catalog.set_view_properties(request.database, request.name, updates, removals)
        return to_message_view(changed)

    # Commits

    def Commit(self, request: pb.CommitRequest, context: Any) -> pb.CommitResponse:
        request_id = request.request_id if request.HasField("request_id") else None
        if request_id == "":
            raise InvalidInput("A request id must not be empty: omit it, or send a unique one.")
        digest = request.digest if request.HasField("digest") else None
        changes = list(map(from_message_commit, request.changes))
        # A request that was committed before is answered as it was then: its files may be compacted and gone by now.
        if request_id is None or self._catalog.committed(request_id) is None:
            require_delivered(self._catalog.pool, self._catalog.store, changes)
        return to_message_result(self._catalog.commit(changes, request_id=request_id, digest=digest))

    def FindCommit(self, request: pb.FindCommitRequest, context: Any) -> pb.FindCommitResponse:
        found = self._catalog.committed(request.request_id)
        return pb.FindCommitResponse(commit=None if found is None else to_message_result(found))

    def ReserveSegments(self, request: pb.ReserveSegmentsRequest, context: Any) -> pb.ReserveSegmentsResponse:
        return pb.ReserveSegmentsResponse(first=self._catalog.reserve_segments(request.count))

    # Versions

    def GetVersion(self, request: pb.GetVersionRequest, context: Any) -> pb.VersionResponse:
        return pb.VersionResponse(version=self._catalog.version())

    def WriteManifests(self, request: pb.WriteManifestsRequest, context: Any) -> pb.VersionResponse:
        table_ids = [from_message_id(one, "table_ids") for one in request.table_ids]
        return pb.VersionResponse(version=self._catalog.write_manifests(table_ids))

    def GetVersionAt(self, request: pb.GetVersionAtRequest, context: Any) -> pb.VersionResponse:
        return pb.VersionResponse(version=self._catalog.version_at(request.timestamp_ns))

    def GetHeadVersion(self, request: pb.TableId, context: Any) -> pb.VersionResponse:
        return pb.VersionResponse(version=self._catalog.head_version(from_message_id(request.id, "table_id")))

    def ListHistory(self, request: pb.ListHistoryRequest, context: Any) -> Iterator[pb.ListHistoryResponse]:
        limit = request.limit if request.HasField("limit") else None
        found = self._catalog.history(from_message_id(request.table_id, "table_id"), limit)
        for page in pages(map(to_message_commit_info, found)):
            yield pb.ListHistoryResponse(commits=page)

    def ListSequenceVersions(self, request: pb.TableId, context: Any) -> pb.ListSequenceVersionsResponse:
        sequences, versions = self._catalog.sequence_versions(from_message_id(request.id, "table_id"))
        return pb.ListSequenceVersionsResponse(sequences=sequences, versions=versions)

    def ListBirthVersions(self, request: pb.TableId, context: Any) -> pb.ListBirthVersionsResponse:
        first_row_ids, versions = self._catalog.birth_versions(from_message_id(request.id, "table_id"))
        return pb.ListBirthVersionsResponse(first_row_ids=first_row_ids, versions=versions)

    # Segments

    def ListSegments(self, request: pb.ListSegmentsRequest, context: Any) -> Iterator[pb.SegmentPage]:
        time_range = (
            request.time_from if request.HasField("time_from") else None,
            request.time_to if request.HasField("time_to") else None,
        )
        found = self._catalog.segments(
            from_message_id(request.table_id, "table_id"),
            request.version,
            partition_filter=_partition_filter(request),
            time_range=time_range if request.with_time_range else None,
            with_columns=request.with_columns,
            columns=set(request.columns.ids) if request.HasField("columns") else None,
        )
        for page in pages(map(to_message_segment, found)):
            yield pb.SegmentPage(segments=page)

    def ListPartitions(self, request: pb.ListPartitionsRequest, context: Any) -> Iterator[pb.PartitionPage]:
        limit = request.limit if request.HasField("limit") else None
        found = self._catalog.partitions(from_message_id(request.table_id, "table_id"), limit)
        for page in pages(map(to_message_partition, found)):
            yield pb.PartitionPage(partitions=page)

    def GetSegments(self, request: pb.GetSegmentsRequest, context: Any) -> Iterator[pb.SegmentPage]:
        table_id = self._table_of(request)
        found = self._catalog.segments_by_number(table_id, request.numbers, request.version) if table_id else {}
        for page in pages(map(to_message_segment, found.values())):
            yield pb.SegmentPage(segments=page)

    def _table_of(self, request: pb.GetSegmentsRequest | pb.ListMergesRequest) -> UUID | None:
        if request.table_id:
            return from_message_id(request.table_id, "table_id")
        return self._catalog.maintenance.table_of_segments(request.numbers)

    def CountRows(self, request: pb.CountRowsRequest, context: Any) -> pb.CountRowsResponse:
        rows = self._catalog.count_rows(from_message_id(request.table_id, "table_id"), request.version)
        return pb.CountRowsResponse(rows=rows)

    def ListMerges(self, request: pb.ListMergesRequest, context: Any) -> pb.ListMergesResponse:
        table_id = self._table_of(request)
        found = self._catalog.compactions_of(table_id, list(request.numbers), request.after) if table_id else []
        made = [pb.MergeOf(segment=m.segment, version=m.version, journals=m.journals) for m in found]
        return pb.ListMergesResponse(merges=made)

    # The feed

    def LoadTableUntil(self, request: pb.ChangeRange, context: Any) -> pb.TableState:
        return to_message_state(
            self._catalog.state_until(from_message_id(request.table_id, "table_id"), request.since, _until(request))
        )

    def ListChangedVersions(self, request: pb.ChangeRange, context: Any) -> pb.ListChangedVersionsResponse:
        table_id, until = from_message_id(request.table_id, "table_id"), self._last(request)
        return pb.ListChangedVersionsResponse(
            versions=self._catalog.changed_versions(table_id, request.since, until, _limit(request))
        )

    def ListChanges(self, request: pb.ChangeRange, context: Any) -> Iterator[pb.VersionChange]:
        table_id = from_message_id(request.table_id, "table_id")
        found = self._catalog.feed(table_id, request.since, self._last(request), net=request.net)
        for entry in islice(found, _limit(request)):
            yield from to_message_feed(entry)

    def _last(self, request: pb.ChangeRange) -> int:
        until = _until(request)
        return self._catalog.version() if until is None else until

    # Merge tasks

    def CreateMergeTasks(self, request: pb.CreateMergeTasksRequest, context: Any) -> pb.CreateMergeTasksResponse:
        planned = [
            PlannedTask(from_message_id(p.table_id, "table_id"), dict(p.inputs), p.level, _task_kind(p.kind))
            for p in request.planned
        ]
        worker = request.worker if request.HasField("worker") else None
        seconds = request.seconds if request.HasField("seconds") else None
        made = self._tasks.create_merge_tasks(
            planned, worker=worker, read_version=request.read_version, seconds=seconds
        )
        tasks = [pb.CreatedMergeTask(claim=None if claim is None else to_message_claim(claim)) for claim in made]
        return pb.CreateMergeTasksResponse(tasks=tasks)

    def ClaimMergeTask(self, request: pb.ClaimMergeTaskRequest, context: Any) -> pb.ClaimMergeTaskResponse:
        if not request.worker:
            raise InvalidInput("No worker given: worker must not be empty.")
        seconds = request.seconds if request.HasField("seconds") else None
        table_id = from_message_id(request.table_id, "table_id") if request.HasField("table_id") else None
        found = self._tasks.claim_merge_task(request.worker, seconds=seconds, table_id=table_id)
        return pb.ClaimMergeTaskResponse(task=None if found is None else to_message_claimed(found))

    def RenewMergeTask(self, request: pb.RenewMergeTaskRequest, context: Any) -> pb.RenewMergeTaskResponse:
        seconds = request.seconds if request.HasField("seconds") else None
        return pb.RenewMergeTaskResponse(
            lease_until=self._tasks.renew_merge_task(from_message_claim(request.claim), seconds)
        )

    def FailMergeTask(self, request: pb.FailMergeTaskRequest, context: Any) -> pb.FailMergeTaskResponse:
        self._tasks.fail_merge_task(from_message_claim(request.claim), request.message)
        return pb.FailMergeTaskResponse()

    def DeleteMergeTask(self, request: pb.MergeTaskId, context: Any) -> pb.DeleteMergeTaskResponse:
        attempt = request.attempt if request.HasField("attempt") else None
        deleted = self._tasks.delete_merge_task(from_message_id(request.task_id, "task_id"), attempt)
        return pb.DeleteMergeTaskResponse(deleted=deleted)

    def ReleaseMergeTask(self, request: pb.ReleaseMergeTaskRequest, context: Any) -> pb.ReleaseMergeTaskResponse:
        released = self._tasks.release_merge_task(from_message_claim(request.claim))
        return pb.ReleaseMergeTaskResponse(released=released)

    def GetMergeTask(self, request: pb.MergeTaskId, context: Any) -> pb.GetMergeTaskResponse:
        task_id = from_message_id(request.task_id, "task_id")
        return to_message_task_details(*self._tasks.merge_task(task_id), self._tasks.merge_task_inputs(task_id))

    def ListMergeTasks(self, request: pb.ListMergeTasksRequest, context: Any) -> pb.ListMergeTasksResponse:
        table_id = from_message_id(request.table_id, "table_id") if request.HasField("table_id") else None
        return pb.ListMergeTasksResponse(tasks=map(to_message_task, self._tasks.merge_tasks(table_id)))

    def ListHeldInputs(self, request: pb.ListHeldInputsRequest, context: Any) -> pb.ListHeldInputsResponse:
        return pb.ListHeldInputsResponse(held=sorted(self._tasks.merge_inputs_held(request.numbers)))

    # Erasures

    def EraseRows(self, request: pb.EraseRowsRequest, context: Any) -> pb.EraseRowsResponse:
        table_id = from_message_id(request.table_id, "table_id")
        self._catalog.table_by_id(table_id)
        report = erase_rows(self._site.lake.context, table_id, request.where)
        return pb.EraseRowsResponse(report_json=json.dumps(report))

    # Pins and regions

    def Pin(self, request: pb.PinRequest, context: Any) -> pb.PinResponse:
        return pb.PinResponse(
            pin_id=str(self._catalog.pin(from_message_id(request.table_id, "table_id"), request.version))
        )

    def RenewPin(self, request: pb.PinId, context: Any) -> pb.RenewPinResponse:
        self._catalog.renew_pin(from_message_id(request.pin_id, "pin_id"))
        return pb.RenewPinResponse()

    def Unpin(self, request: pb.PinId, context: Any) -> pb.UnpinResponse:
        self._catalog.unpin(from_message_id(request.pin_id, "pin_id"))
        return pb.UnpinResponse()

    def GetRegionNumber(self, request: pb.GetRegionNumberRequest, context: Any) -> pb.GetRegionNumberResponse:
        found = self._catalog.region(from_message_id(request.table_id, "table_id"), from_message_tuple(request.value))
        return pb.GetRegionNumberResponse(number=found.number, region=to_message_region(found))

    def ClaimRegion(self, request: pb.ClaimRegionRequest, context: Any) -> pb.Region:
        table_id = from_message_id(request.table_id, "table_id")
        return to_message_region(self._catalog.claim_region(table_id, request.number, request.owner))

    def ListRegions(self, request: pb.TableId, context: Any) -> pb.ListRegionsResponse:
        found = self._catalog.regions(from_message_id(request.id, "table_id"))
        return pb.ListRegionsResponse(regions=map(to_message_region, found))

    def GetRegionEpoch(self, request: pb.GetRegionEpochRequest, context: Any) -> pb.GetRegionEpochResponse:
        epoch = self._catalog.region_epoch(from_message_id(request.table_id, "table_id"), request.number)
        return pb.GetRegionEpochResponse(epoch=epoch)

    def ReleaseRegion(self, request: pb.ReleaseRegionRequest, context: Any) -> pb.ReleaseRegionResponse:
        self._catalog.release_region(from_message_id(request.table_id, "table_id"), request.number, request.epoch)
        return pb.ReleaseRegionResponse()

    def ListClaimedTables(self, request: pb.ListClaimedTablesRequest, context: Any) -> pb.ListClaimedTablesResponse:
        branch = request.branch if request.HasField("branch") else None
        return pb.ListClaimedTablesResponse(table_ids=map(str, self._catalog.claimed_tables(branch=branch)))

    def ListIndexes(self, request: pb.TableId, context: Any) -> pb.ListIndexesResponse:
        table_id = from_message_id(request.id, "table_id")
        sizes = self._catalog.index_sizes(table_id)
        known = filter(is_known_index, self._catalog.indexes(table_id))
        found = [to_message_index_info(index, sizes.get(index.id)) for index in known]
        return pb.ListIndexesResponse(indexes=found)

    def ListIndexCoverage(self, request: pb.ListIndexCoverageRequest, context: Any) -> pb.ListIndexCoverageResponse:
        fields = list(request.fields.ids) if request.HasField("fields") else None
        found = self._catalog.index_coverage(from_message_id(request.table_id, "table_id"), request.segments, fields)
        known = (covering for covering in found if is_known_index(covering.index))
        return pb.ListIndexCoverageResponse(covering=map(to_message_coverage, known))

    def GetWrittenBytes(self, request: pb.GetWrittenBytesRequest, context: Any) -> pb.GetWrittenBytesResponse:
        found = self._catalog.written_bytes(from_message_id(request.table_id, "table_id"), request.after)
        return pb.GetWrittenBytesResponse(bytes=found)

    def GetPublishedVersion(
        self, request: pb.GetPublishedVersionRequest, context: Any
    ) -> pb.GetPublishedVersionResponse:
        return pb.GetPublishedVersionResponse(version=self._catalog.published_version())

    def GetStreams(self, request: pb.GetStreamsRequest, context: Any) -> pb.GetStreamsResponse:
        return to_message_streams(self._catalog.ingest.snapshot())


def _task_kind(kind: str) -> str:
    if kind not in ("", COMPACT, FILL):
        raise InvalidInput(f"The kind of a task must be compact or fill, not {kind[:60]!r}.")
    return kind or COMPACT


def _limit(request: pb.ChangeRange) -> int | None:
    if request.HasField("limit") and request.limit < 0:
        raise InvalidInput(f"A limit must be zero or more, not {request.limit}.")
    return request.limit if request.HasField("limit") else None


def _until(request: pb.ChangeRange) -> int | None:
    return request.until if request.HasField("until") else None


def _partition_filter(request: pb.ListSegmentsRequest) -> PartitionFilter | None:
    if not request.HasField("partitions"):
        return None
    wanted = set(map(from_message_partition, request.partitions.partitions))
    return lambda spec_id, value: (spec_id, value) in wanted


def _new_table(request: pb.CreateTableRequest) -> NewTable:
    new = from_message_new_table(request)
    new = dataclasses.replace(new, properties=check_properties(new.properties))
    RegionSpec.of(new.schema, new.properties)
    return new
