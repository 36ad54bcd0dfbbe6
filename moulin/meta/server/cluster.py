"""ClusterService: the members, and the identity of the cluster."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, NoReturn

import grpc

from moulin._proto.moulin.meta.v1 import cluster_pb2 as pb
from moulin._proto.moulin.meta.v1 import cluster_pb2_grpc as rpc
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.meta.client.connection import CLUSTER
from moulin.meta.server.calls import wrap
from moulin.meta.site import Site
from moulin.model.ingest import MemberKind


class ClusterServicer(rpc.ClusterServiceServicer):
    """Members are shared rows, so every server of a lake answers for all; one that starts forgets its own."""

    def __init__(self, site: Site) -> None:
        self._site, self._ingest = site, site.catalog.ingest
        self._server = f"{socket.gethostname()}/{site.serve.bind}"
        self._ingest.forget_members(self._server)

    def RegisterMember(self, request: pb.RegisterMemberRequest, context: Any) -> pb.RegisterMemberResponse:
        self._ingest.beat(self._server, request.id, _kind(request.kind), request.endpoint, request.weight)
        return pb.RegisterMemberResponse(cluster_id=cluster_id(self._site))

    def ListMembers(self, request: pb.ListMembersRequest, context: Any) -> pb.ListMembersResponse:
        kind = _kind(request.kind)
        found = self._ingest.members(None if kind is MemberKind.UNSPECIFIED else kind)
        return pb.ListMembersResponse(
            members=[
                pb.MemberRecord(
                    id=member.id,
                    kind=pb.MemberKind.Name(member.kind),
                    endpoint=member.endpoint,
                    last_heartbeat_nanos=member.heartbeat_at,
                    weight=member.weight,
                )
                for member in found
            ],
            cluster_id=cluster_id(self._site),
        )

    def GetConfiguration(self, request: pb.GetConfigurationRequest, context: Any) -> pb.GetConfigurationResponse:
        config = self._site.config
        return pb.GetConfigurationResponse(
            cluster_id=cluster_id(self._site),
            lake_id=str(self._site.catalog.uuid),
            database_grace_seconds=int(config.database_grace),
            table_grace_seconds=int(config.table_grace),
            view_grace_seconds=int(config.view_grace),
            ingest_token_grace_seconds=int(config.token_grace),
            tombstone_min_age_seconds=int(config.byte_floor),
            max_merge_time_span_ns=int(config.merge_span * 1e9),
            member_ttl_seconds=int(config.member_ttl),
            baby_segment_keep_seconds=int(config.blob_keep),
            checkpoint_keep_seconds=int(config.checkpoint_keep),
            history_keep_seconds=int(config.history_keep),
            orphan_grace_seconds=int(config.orphan_grace),
            merge_lease_seconds=int(config.merge_poll_lease),
            flush_timeout_ms=int(config.stream_flush_seconds * 1000),
            max_segment_size_bytes=config.stream_segment_bytes,
            token_recheck_seconds=int(config.token_recheck),
            now_unix_ns=self._site.now(),
        )


class ClusterCheck(grpc.ServerInterceptor):  # type: ignore[misc]
    """Refuses calls that are tagged with the id of another cluster: somebody has the wrong address.

    A client tags its calls with what the server told it first. Calls without a tag are taken.
    """

    def __init__(self, site: Site) -> None:
        self._own = cluster_id(site)
        if not (self._own.isascii() and self._own.isprintable()):
            raise InvalidInput(f"cluster_id must contain only ASCII characters, not {self._own!r}.")

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        tag = next((value for key, value in details.invocation_metadata if key == CLUSTER), None)
        if handler is None or tag in (None, self._own):
            return handler
        return wrap(handler, lambda run: _Refusal(str(tag), self._own))


class _Refusal:
    """Stands in for a call that came to the wrong cluster."""

    def __init__(self, tag: str, own: str) -> None:
        self._message = f"The call is meant for cluster {tag[:80]!r}, and this is {own!r}: check the address."

    def unary(self, request: Any, context: Any) -> NoReturn:
        raise FailedPrecondition(self._message)

    stream = unary


def cluster_id(site: Site) -> str:
    """What tells this cluster from another: the name configured, else the lake's id."""
    return site.config.cluster_id or str(site.catalog.uuid)


def _kind(number: int) -> MemberKind:
    """Kinds that are not known here count as unspecified."""
    return MemberKind(number) if number in list(MemberKind) else MemberKind.UNSPECIFIED
