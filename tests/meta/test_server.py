"""The server itself: what every service of it has."""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from moulin.meta.services import SERVICES
from tests.meta.conftest import Live


def test_gen_02_reflection_lists_every_service(live: Live) -> None:
    stub = live.stub(reflection_pb2_grpc.ServerReflectionStub)
    [answer] = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    listed = {service.name for service in answer.list_services_response.service}
    assert listed == {service.name for service in SERVICES} | {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


def test_health_of_the_server_and_of_each_service(live: Live) -> None:
    stub = live.stub(health_pb2_grpc.HealthStub)
    for service in ("", *(service.name for service in SERVICES)):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_request_id_comes_back_and_one_is_made_when_there_is_none(live: Live) -> None:
    stub = live.stub(health_pb2_grpc.HealthStub)

    def sent(*metadata: tuple[str, str]) -> str:
        _, call = stub.Check.with_call(health_pb2.HealthCheckRequest(), metadata=metadata)
        return str(dict(call.trailing_metadata())["x-request-id"])

    assert sent(("x-request-id", "mine-1")) == "mine-1"
    assert len(sent()) == 36
    assert sent(("x-request-id", "a b")) != "a b"


def test_a_call_that_does_not_exist_is_unimplemented(live: Live) -> None:
    call = live.channel.unary_unary("/moulin.meta.v1.Nothing/Do", lambda _: b"", lambda _: b"")
    try:
        call(None)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]
