"""ViewService."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import view_pb2 as pb
from moulin._proto.moulin.meta.v1 import view_pb2_grpc as rpc
from moulin.errors import InvalidInput
from moulin.meta.codec.id import from_message_id, from_message_ids
from moulin.meta.codec.meta.view import to_message_members, to_message_view
from moulin.meta.site import Site
from moulin.model.entities import View


class ViewServicer(rpc.ViewServiceServicer):
    def __init__(self, site: Site) -> None:
        self._catalog = site.catalog

    def CreateView(self, request: pb.CreateViewRequest, context: Any) -> pb.CreateViewResponse:
        made = self._catalog.create_view(
            from_message_id(request.database_id, "database_id"),
            request.name,
            from_message_ids(request.table_ids, "table_ids"),
            request.description if request.HasField("description") else None,
        )
        return pb.CreateViewResponse(view=to_message_view(made))

    def GetView(self, request: pb.GetViewRequest, context: Any) -> pb.GetViewResponse:
        found = self._catalog.view(*_ids(request), include_dropped=request.include_deleted)
        return pb.GetViewResponse(view=to_message_view(found))

    def ListViews(self, request: pb.ListViewsRequest, context: Any) -> pb.ListViewsResponse:
        database_id = from_message_id(request.database_id, "database_id")
        found = self._catalog.views(database_id, include_dropped=request.include_deleted)
        return pb.ListViewsResponse(items=map(to_message_view, found))

    def SetViewTables(self, request: pb.SetViewTablesRequest, context: Any) -> pb.SetViewTablesResponse:
        changed = self._catalog.set_view_members(*_ids(request), from_message_ids(request.table_ids, "table_ids"))
        return pb.SetViewTablesResponse(view=to_message_view(changed))

    def RenameView(self, request: pb.RenameViewRequest, context: Any) -> pb.RenameViewResponse:
        return pb.RenameViewResponse(view=to_message_view(self._catalog.rename_view(*_ids(request), request.new_name)))

    def DeleteView(self, request: pb.DeleteViewRequest, context: Any) -> pb.DeleteViewResponse:
        return pb.DeleteViewResponse(view=to_message_view(self._catalog.drop_view(*_ids(request))))

    def ResurrectView(self, request: pb.ResurrectViewRequest, context: Any) -> pb.ResurrectViewResponse:
        return pb.ResurrectViewResponse(view=to_message_view(self._catalog.resurrect_view(*_ids(request))))

    def LookupTableOrView(self, request: pb.LookupTableOrViewRequest, context: Any) -> pb.LookupTableOrViewResponse:
        if not request.name:
            raise InvalidInput("A name is required.")
        database_id = from_message_id(request.database_id, "database_id")
        found = self._catalog.table_or_view(database_id, request.name, include_dropped=request.include_deleted)
        if isinstance(found, View):
            view = pb.LookupView(id=str(found.id), name=found.name, members=to_message_members(found))
            return pb.LookupTableOrViewResponse(view=view)
        return pb.LookupTableOrViewResponse(table=pb.LookupTable(id=str(found.id), name=found.name))


def _ids(request: Any) -> tuple[UUID, UUID]:
    return from_message_id(request.database_id, "database_id"), from_message_id(request.view_id, "view_id")
