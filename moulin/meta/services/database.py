"""DatabaseService."""

from __future__ import annotations

from typing import Any

from moulin._proto.moulin.meta.v1 import database_pb2 as pb
from moulin._proto.moulin.meta.v1 import database_pb2_grpc as rpc
from moulin.errors import InvalidInput
from moulin.meta.codec.convert import to_id, to_tombstone
from moulin.meta.site import Site
from moulin.model.entities import Database, Member


class DatabaseServicer(rpc.DatabaseServiceServicer):
    def __init__(self, site: Site) -> None:
        self._catalog = site.catalog

    def CreateDatabase(self, request: pb.CreateDatabaseRequest, context: Any) -> pb.CreateDatabaseResponse:
        return pb.CreateDatabaseResponse(database=_message(self._catalog.create_database(request.name)))

    def ListDatabases(self, request: pb.ListDatabasesRequest, context: Any) -> pb.ListDatabasesResponse:
        found = self._catalog.databases(include_dropped=request.include_deleted)
        return pb.ListDatabasesResponse(items=map(_message, found))

    def GetDatabase(self, request: pb.GetDatabaseRequest, context: Any) -> pb.GetDatabaseResponse:
        if bool(request.database_id) == bool(request.name):
            raise InvalidInput("A database is asked for by its id or by its name: give one of them.")
        key = request.name or to_id(request.database_id, "database_id")
        found = self._catalog.database(key, include_dropped=request.include_deleted)
        return pb.GetDatabaseResponse(database=_message(found))

    def RenameDatabase(self, request: pb.RenameDatabaseRequest, context: Any) -> pb.RenameDatabaseResponse:
        renamed = self._catalog.rename_database(to_id(request.database_id, "database_id"), request.new_name)
        return pb.RenameDatabaseResponse(database=_message(renamed))

    def DeleteDatabase(self, request: pb.DeleteDatabaseRequest, context: Any) -> pb.DeleteDatabaseResponse:
        database_id = to_id(request.database_id, "database_id")
        dropped = self._catalog.drop_database(database_id, cascade=request.cascade, immediate=request.immediate)
        return pb.DeleteDatabaseResponse(database=_message(dropped))

    def ResurrectDatabase(self, request: pb.ResurrectDatabaseRequest, context: Any) -> pb.ResurrectDatabaseResponse:
        alive = self._catalog.resurrect_database(to_id(request.database_id, "database_id"))
        return pb.ResurrectDatabaseResponse(database=_message(alive))

    def PreviewDeleteDatabase(
        self, request: pb.PreviewDeleteDatabaseRequest, context: Any
    ) -> pb.PreviewDeleteDatabaseResponse:
        preview = self._catalog.preview_drop_database(to_id(request.database_id, "database_id"))
        return pb.PreviewDeleteDatabaseResponse(
            tables=map(_child, preview.tables),
            views=map(_child, preview.views),
            ingest_tokens=map(_child, preview.tokens),
            grace_window_seconds=int(preview.grace_seconds),
        )

    def ListTombstones(self, request: pb.ListTombstonesRequest, context: Any) -> pb.ListTombstonesResponse:
        database_id = to_id(request.database_id, "database_id") if request.HasField("database_id") else None
        return pb.ListTombstonesResponse(
            items=[
                pb.TombstonedObject(
                    kind=item.kind,
                    id=str(item.id),
                    name=item.name,
                    database_id=str(item.database_id),
                    tombstone=to_tombstone(item.tombstone),
                )
                for item in self._catalog.tombstones(database_id)
            ]
        )


def _message(database: Database) -> pb.Database:
    return pb.Database(id=str(database.id), name=database.name, tombstone=to_tombstone(database.tombstone))


def _child(member: Member) -> pb.DeletableChild:
    return pb.DeletableChild(id=str(member.id), name=member.name)
