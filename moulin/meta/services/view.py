"""ViewService."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import view_pb2 as pb
from moulin._proto.moulin.meta.v1 import view_pb2_grpc as rpc
from moulin.errors import InvalidInput
from moulin.meta.codec.convert import to_id, to_ids, to_tombstone
from moulin.meta.site import Site
from moulin.model.entities import View


class ViewServicer(rpc.ViewServiceServicer):
    def __init__(self, site: Site) -> None:
        self._catalog = site.catalog

    def CreateView(self, request: pb.CreateViewRequest, context: Any) -> pb.CreateViewResponse:
        made = self._catalog.create_view(
            to_id(request.database_id, "database_id"),
            request.name,
            to_ids(request.table_ids, "table_ids"),
            request.description if request.HasField("description") else None,
        )
        return pb.CreateViewResponse(view=_message(made))

    def GetView(self, request: pb.GetViewRequest, context: Any) -> pb.GetViewResponse:
        found = self._catalog.view(*_ids(request), include_dropped=request.include_deleted)
        return pb.GetViewResponse(view=_message(found))

    def ListViews(self, request: pb.ListViewsRequest, context: Any) -> pb.ListViewsResponse:
        database_id = to_id(request.database_id, "database_id")
        found = self._catalog.views(database_id, include_dropped=request.include_deleted)
        return pb.ListViewsResponse(items=map(_message, found))

    def SetViewTables(self, request: pb.SetViewTablesRequest, context: Any) -> pb.SetViewTablesResponse:
        changed = self._catalog.set_view_members(*_ids(request), to_ids(request.table_ids, "table_ids"))
        return pb.SetViewTablesResponse(view=_message(changed))

    def RenameView(self, request: pb.RenameViewRequest, context: Any) -> pb.RenameViewResponse:
        return pb.RenameViewResponse(view=_message(self._catalog.rename_view(*_ids(request), request.new_name)))

    def DeleteView(self, request: pb.DeleteViewRequest, context: Any) -> pb.DeleteViewResponse:
        return pb.DeleteViewResponse(view=_message(self._catalog.drop_view(*_ids(request))))

    def ResurrectView(self, request: pb.ResurrectViewRequest, context: Any) -> pb.ResurrectViewResponse:
        return pb.ResurrectViewResponse(view=_message(self._catalog.resurrect_view(*_ids(request))))

    def LookupTableOrView(self, request: pb.LookupTableOrViewRequest, context: Any) -> pb.LookupTableOrViewResponse:
        if not request.name:
            raise InvalidInput("A name is required.")
        database_id = to_id(request.database_id, "database_id")
        found = self._catalog.table_or_view(database_id, request.name, include_dropped=request.include_deleted)
        if isinstance(found, View):
            view = pb.LookupView(id=str(found.id), name=found.name, members=_members(found))
            return pb.LookupTableOrViewResponse(view=view)
        return pb.LookupTableOrViewResponse(table=pb.LookupTable(id=str(found.id), name=found.name))


def _ids(request: Any) -> tuple[UUID, UUID]:
    return to_id(request.database_id, "database_id"), to_id(request.view_id, "view_id")


def _message(view: View) -> pb.View:
    return pb.View(
        id=str(view.id),
        name=view.name,
        description=view.description,
        members=_members(view),
        tombstone=to_tombstone(view.tombstone),
    )


def _members(view: View) -> list[pb.ViewMember]:
    return [pb.ViewMember(id=str(member.id), name=member.name) for member in view.members]
