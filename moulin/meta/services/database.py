"""DatabaseService."""

from __future__ import annotations

from typing import Any

from moulin._proto.moulin.meta.v1 import database_pb2 as pb
from moulin._proto.moulin.meta.v1 import database_pb2_grpc as rpc
from moulin.errors import InvalidInput
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.meta.database import to_message_child, to_message_database, to_message_tombstoned
from moulin.meta.site import Site


class DatabaseServicer(rpc.DatabaseServiceServicer):
    def __init__(self, site: Site) -> None:
        self._catalog = site.catalog

    def CreateDatabase(self, request: pb.CreateDatabaseRequest, context: Any) -> pb.CreateDatabaseResponse:
        return pb.CreateDatabaseResponse(database=to_message_database(self._catalog.create_database(request.name)))

    def ListDatabases(self, request: pb.ListDatabasesRequest, context: Any) -> pb.ListDatabasesResponse:
        found = self._catalog.databases(include_dropped=request.include_deleted)
        return pb.ListDatabasesResponse(items=map(to_message_database, found))

    def GetDatabase(self, request: pb.GetDatabaseRequest, context: Any) -> pb.GetDatabaseResponse:
        if bool(request.database_id) == bool(request.name):
            raise InvalidInput("Give a database by id or by name.")
        key = request.name or from_message_id(request.database_id, "database_id")
        found = self._catalog.database(key, include_dropped=request.include_deleted)
        return pb.GetDatabaseResponse(database=to_message_database(found))

    def RenameDatabase(self, request: pb.RenameDatabaseRequest, context: Any) -> pb.RenameDatabaseResponse:
        renamed = self._catalog.rename_database(from_message_id(request.database_id, "database_id"), request.new_name)
        return pb.RenameDatabaseResponse(database=to_message_database(renamed))

    def DeleteDatabase(self, request: pb.DeleteDatabaseRequest, context: Any) -> pb.DeleteDatabaseResponse:
        database_id = from_message_id(request.database_id, "database_id")
        dropped = self._catalog.drop_database(database_id, cascade=request.cascade, immediate=request.immediate)
        return pb.DeleteDatabaseResponse(database=to_message_database(dropped))

    def ResurrectDatabase(self, request: pb.ResurrectDatabaseRequest, context: Any) -> pb.ResurrectDatabaseResponse:
        alive = self._catalog.resurrect_database(from_message_id(request.database_id, "database_id"))
        return pb.ResurrectDatabaseResponse(database=to_message_database(alive))

    def PreviewDeleteDatabase(
        self, request: pb.PreviewDeleteDatabaseRequest, context: Any
    ) -> pb.PreviewDeleteDatabaseResponse:
        preview = self._catalog.preview_drop_database(from_message_id(request.database_id, "database_id"))
        return pb.PreviewDeleteDatabaseResponse(
            tables=map(to_message_child, preview.tables),
            views=map(to_message_child, preview.views),
            ingest_tokens=map(to_message_child, preview.tokens),
            grace_window_seconds=int(preview.grace_seconds),
        )

    def ListTombstones(self, request: pb.ListTombstonesRequest, context: Any) -> pb.ListTombstonesResponse:
        database_id = from_message_id(request.database_id, "database_id") if request.HasField("database_id") else None
        return pb.ListTombstonesResponse(items=map(to_message_tombstoned, self._catalog.tombstones(database_id)))
