"""ClusterService."""

from __future__ import annotations

from pathlib import Path

import pytest
from grpc import StatusCode

from moulin._proto.moulin.meta.v1 import cluster_pb2
from moulin._proto.moulin.meta.v1.cluster_pb2_grpc import ClusterServiceStub
from moulin._proto.moulin.meta.v1.database_pb2 import CreateDatabaseRequest
from moulin._proto.moulin.meta.v1.database_pb2_grpc import DatabaseServiceStub
from moulin.config import Config
from moulin.errors import InvalidInput
from moulin.lake import Lake
from moulin.meta.client.connection import CLUSTER
from moulin.meta.server.server import build_server
from tests.contract.conftest import Backend, memory_store
from tests.meta.api import SECOND, Api
from tests.meta.conftest import LOOPBACK, Live, name, refused, serving
from tests.meta.rules import rule

NURSERY, CLOUD = cluster_pb2.MEMBER_KIND_QWS_NURSERY, cluster_pb2.MEMBER_KIND_QWS_CLOUD


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


def members(api: Api, **fields: object) -> dict[str, cluster_pb2.MemberRecord]:
    return {member.id: member for member in api.ListMembers(**fields).members}


@rule("CL-01", "CL-02", "CL-03", "CL-10")
def test_a_heartbeat_registers_and_replaces(api: Api) -> None:
    member = name("m")
    api.RegisterMember(id=member, kind=NURSERY, endpoint="http://a", weight=8)
    first = members(api)[member]
    assert (first.kind, first.endpoint, first.weight) == (NURSERY, "http://a", 8)
    assert first.last_heartbeat_nanos == api.live.clock()
    api.live.clock.forward(5)
    api.RegisterMember(id=member, kind=CLOUD, endpoint="http://b")
    second = members(api)[member]
    assert (second.kind, second.endpoint, second.weight) == (CLOUD, "http://b", 0)
    assert second.last_heartbeat_nanos == first.last_heartbeat_nanos + 5 * SECOND


@rule("CL-04", "CL-05")
def test_a_silent_member_is_gone_after_its_time(api: Api) -> None:
    silent, loud = name("m"), name("m")
    for member in (silent, loud):
        api.RegisterMember(id=member, kind=CLOUD, endpoint="e")
    for _ in range(4):
        api.live.clock.forward(4.9)
        api.RegisterMember(id=loud, kind=CLOUD, endpoint="e")
        assert silent in members(api)
    api.live.clock.forward(0.5)
    assert loud in members(api)
    assert silent not in members(api)


@rule("CL-07", "CL-08", "CL-09")
def test_members_are_listed_by_kind_and_an_unknown_kind_is_unspecified(api: Api) -> None:
    nursery, cloud, odd = name("n"), name("c"), name("o")
    api.RegisterMember(id=nursery, kind=1, endpoint="e")
    api.RegisterMember(id=cloud, kind=2, endpoint="e")
    api.RegisterMember(id=odd, kind=99, endpoint="e")
    assert {nursery, cloud, odd} <= members(api).keys()
    assert members(api)[odd].kind == cluster_pb2.MEMBER_KIND_UNSPECIFIED
    assert nursery in members(api, kind=NURSERY)
    assert cloud not in members(api, kind=NURSERY)
    assert {nursery, cloud, odd} <= members(api, kind=77).keys()


@rule("CL-12")
def test_the_cluster_id_is_the_configured_one_or_that_of_the_lake(api: Api, backend: Backend) -> None:
    own = api.RegisterMember(id=name("m"), endpoint="e").cluster_id
    assert own == api.ListMembers().cluster_id == str(api.live.catalog.uuid)
    with serving(backend, config=Config(cluster_id="valhalla")) as live:
        named = Api(live)
        assert named.RegisterMember(id="m", endpoint="e").cluster_id == "valhalla"
        assert named.ListMembers().cluster_id == named.GetConfiguration().cluster_id == "valhalla"


@rule("CL-13")
def test_a_call_meant_for_another_cluster_is_refused(api: Api) -> None:
    stub = api.live.stub(ClusterServiceStub)
    own = api.ListMembers().cluster_id
    assert stub.ListMembers(cluster_pb2.ListMembersRequest(), metadata=[(CLUSTER, own)]).cluster_id == own
    databases = api.live.stub(DatabaseServiceStub)
    called = name("db")
    with refused(StatusCode.FAILED_PRECONDITION, "dev"):
        databases.CreateDatabase(CreateDatabaseRequest(name=called), metadata=[(CLUSTER, "dev")])
    with refused(StatusCode.NOT_FOUND):
        api.GetDatabase(name=called)


def test_a_cluster_id_that_no_call_can_carry_is_refused_at_the_start(tmp_path: Path) -> None:
    settings = {"cluster_id": "Walhöll"}
    with Lake.open(tmp_path / "lake", settings=settings) as lake, pytest.raises(InvalidInput, match="ASCII"):
        build_server(lake, LOOPBACK)


@rule("CL-14")
@pytest.mark.parametrize(
    "fields", [{"id": "", "endpoint": "e"}, {"id": "m", "endpoint": ""}, {"id": " ", "endpoint": "e"}]
)
def test_a_member_without_id_or_endpoint_is_refused(api: Api, fields: dict[str, str]) -> None:
    with refused(StatusCode.INVALID_ARGUMENT):
        api.RegisterMember(**fields)


@rule("CL-06", "CL-16", "GEN-16")
def test_servers_share_members_and_a_restart_forgets_its_own(backend: Backend) -> None:
    uri, store = backend.new_uri(), memory_store()
    here = LOOPBACK
    there = type(here)(bind="localhost:0", http_bind="", drain_seconds=5)
    with serving(backend, uri=uri, store=store, serve=there) as other:
        Api(other).RegisterMember(id="theirs", endpoint="e")
        with serving(backend, uri=uri, store=store, serve=here) as live:
            Api(live).RegisterMember(id="ours", endpoint="e")
            assert members(Api(live)).keys() == members(Api(other)).keys() == {"ours", "theirs"}
        with serving(backend, uri=uri, store=store, serve=here) as live:
            assert members(Api(live)).keys() == {"theirs"}


def test_the_configuration_says_grace_windows_and_the_servers_time(api: Api) -> None:
    found = api.GetConfiguration()
    assert (found.database_grace_seconds, found.table_grace_seconds, found.view_grace_seconds) == (86400, 86400, 300)
    assert found.flush_timeout_ms > 0
    assert found.max_segment_size_bytes > 0
    assert found.now_unix_ns == api.live.clock()
