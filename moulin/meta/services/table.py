"""TableService. A table made here has the columns of all OpenTelemetry signals, and is not partitioned."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import table_pb2 as pb
from moulin._proto.moulin.meta.v1 import table_pb2_grpc as rpc
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.objects.references import InUse
from moulin.catalog.objects.tables import NewTable
from moulin.errors import Conflict
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.meta.table import to_message_references, to_message_sharding, to_message_table
from moulin.meta.site import Site
from moulin.model import otel
from moulin.model import table_settings as settings
from moulin.model.entities import TableEntry
from moulin.model.layout.event_time import event_time_id
from moulin.model.layout.partition import parse_spec
from moulin.model.layout.sort import parse_sort
from moulin.model.names import check_name
from moulin.model.operations import SetProperties
from moulin.model.schema.schema import make_schema
from moulin.model.table_settings import ShardingField
from moulin.table.commit.retry import at_once, retry


class TableServicer(rpc.TableServiceServicer):
    def __init__(self, site: Site) -> None:
        self._catalog, self._config = site.catalog, site.config

    def ListTables(self, request: pb.ListTablesRequest, context: Any) -> pb.ListTablesResponse:
        found = self._catalog.tables(
            from_message_id(request.database_id, "database_id"), include_dropped=request.include_deleted
        )
        return pb.ListTablesResponse(
            items=map(self._message, found), grace_window_seconds=int(self._config.table_grace)
        )

    def CreateTable(self, request: pb.CreateTableRequest, context: Any) -> pb.CreateTableResponse:
        database_id = from_message_id(request.database_id, "database_id")
        made = self._catalog.create_table(database_id, check_name(request.name, "table"), _new_table())
        return pb.CreateTableResponse(id=str(made.id), name=made.name, database_id=str(database_id))

    def GetTable(self, request: pb.GetTableRequest, context: Any) -> pb.GetTableResponse:
        found = pb.GetTableResponse()
        found.ParseFromString(self._message(self._entry(request)).SerializeToString())  # both have the same fields
        return found

    def RenameTable(self, request: pb.RenameTableRequest, context: Any) -> pb.RenameTableResponse:
        database_id, table_id = _ids(request)
        moved = request.HasField("new_database_id")
        target = from_message_id(request.new_database_id, "new_database_id") if moved else database_id
        self._catalog.rename_table(database_id, table_id, target, request.new_name)
        return pb.RenameTableResponse(table=self._message(self._catalog.entry(target, table_id)))

    def DeleteTable(self, request: pb.DeleteTableRequest, context: Any) -> pb.DeleteTableResponse:
        try:
            dropped = self._catalog.drop_table(*_ids(request), immediate=request.immediate)
        except InUse as error:
            return pb.DeleteTableResponse(blocked=to_message_references(error.references))
        return pb.DeleteTableResponse(tombstoned=self._message(dropped))

    def ResurrectTable(self, request: pb.ResurrectTableRequest, context: Any) -> pb.ResurrectTableResponse:
        return pb.ResurrectTableResponse(table=self._message(self._catalog.resurrect_table(*_ids(request))))

    def SetShardingFields(self, request: pb.SetShardingFieldsRequest, context: Any) -> pb.SetShardingFieldsResponse:
        fields = settings.check_sharding([ShardingField(field.field_name, field.weight) for field in request.fields])
        entry = self._set(request, settings.SHARDING, settings.sharding_property(fields) if fields else None)
        return pb.SetShardingFieldsResponse(fields=to_message_sharding(entry.properties))

    def GetShardingFields(self, request: pb.GetShardingFieldsRequest, context: Any) -> pb.GetShardingFieldsResponse:
        return pb.GetShardingFieldsResponse(fields=to_message_sharding(self._entry(request).properties))

    def SetTableRetention(self, request: pb.SetTableRetentionRequest, context: Any) -> pb.SetTableRetentionResponse:
        given = request.retention_ns if request.HasField("retention_ns") else None
        entry = self._set(request, settings.RETENTION, _text("retention_ns", given))
        return pb.SetTableRetentionResponse(retention_ns=settings.retention_ns(entry.properties))

    def SetTableMaxMergeTimeSpan(
        self, request: pb.SetTableMaxMergeTimeSpanRequest, context: Any
    ) -> pb.SetTableMaxMergeTimeSpanResponse:
        given = request.max_merge_time_span_ns if request.HasField("max_merge_time_span_ns") else None
        entry = self._set(request, settings.MERGE_SPAN, _text("max_merge_time_span_ns", given))
        return pb.SetTableMaxMergeTimeSpanResponse(
            max_merge_time_span_ns=settings.merge_span_override_ns(entry.properties),
            effective_max_merge_time_span_ns=settings.merge_span_ns(entry.properties, self._config.merge_span),
        )

    def _entry(self, request: pb.GetTableRequest | pb.GetShardingFieldsRequest) -> TableEntry:
        return self._catalog.entry(*_ids(request), include_dropped=request.include_deleted)

    def _set(self, request: Any, name: str, value: str | None) -> TableEntry:
        """Set one property of a live table, or remove it. Of two who do so at the same time the later one counts."""
        database_id, table_id = _ids(request)
        change = SetProperties({}, (name,)) if value is None else SetProperties({name: value})

        def run() -> None:
            version = self._catalog.version()
            if self._catalog.entry(database_id, table_id).properties.get(name) != value:
                self._catalog.commit([TableCommit(table_id, version, change)])

        retry(self._config.commit_attempts, run, lambda error: isinstance(error, Conflict), at_once)
        return self._catalog.entry(database_id, table_id)

    def _message(self, entry: TableEntry) -> pb.Table:
        return to_message_table(entry, self._config.merge_span)


def _ids(request: Any) -> tuple[UUID, UUID]:
    return from_message_id(request.database_id, "database_id"), from_message_id(request.table_id, "table_id")


def _text(name: str, nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else str(settings.check_duration(name, nanoseconds))


def _new_table() -> NewTable:
    schema = make_schema(otel.superset())
    spec, last_partition_id = parse_spec([], schema)
    event_time = event_time_id(schema, otel.EVENT_TIME)
    order = parse_sort(list(otel.SORT_BY), schema)
    properties = {settings.SHARDING: settings.sharding_property(settings.DEFAULT_SHARDING)}
    return NewTable(schema, schema.highest_field_id, spec, last_partition_id, order, event_time, properties)
