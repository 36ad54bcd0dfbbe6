"""The server itself: what every service of it has, limits, deadlines, draining."""

from __future__ import annotations

import gc
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin._proto.moulin.lake.v1.catalog_pb2_grpc import CatalogServiceStub
from moulin.errors import Unavailable
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from moulin.meta.server.metrics import Metrics
from moulin.meta.server.serve import Serving
from moulin.meta.server.server import MetaServer, build_server, roles_of
from moulin.meta.server.services import SERVICES
from moulin.network.logs import BURST, JsonFormatter, structured_logs
from tests.meta.conftest import LOOPBACK, Live, name, refused


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.open(tmp_path / "lake") as opened:
        yield opened


def connected(server: MetaServer) -> Any:
    return CatalogServiceStub(grpc.insecure_channel(server.address))


def test_reflection_lists_every_service(live: Live) -> None:
    """GEN-02"""
    stub = live.stub(reflection_pb2_grpc.ServerReflectionStub)
    [answer] = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    listed = {service.name for service in answer.list_services_response.service}
    assert listed == {service.name for service in SERVICES} | {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


def test_health_is_answered_for_the_server_and_for_each_service(live: Live) -> None:
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


def test_every_line_logged_in_a_call_has_its_request_id(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    stub = live.stub(CatalogServiceStub)
    with caplog.at_level(logging.INFO, "moulin.meta"):
        caplog.handler.setFormatter(JsonFormatter())
        stub.GetVersion(pb.GetVersionRequest(), metadata=(("x-request-id", "mine-2"),))
        with refused(grpc.StatusCode.NOT_FOUND):
            stub.GetDatabase(pb.DatabaseRef(name="nowhere"), metadata=(("x-request-id", "mine-3"),))
        time.sleep(0.1)  # the line of a call is written after its answer was sent
        lines = [json.loads(line) for line in caplog.handler.stream.getvalue().splitlines()]
    told = {line["request_id"]: line for line in lines if line["message"] == "call"}
    assert told["mine-2"]["code"] == "OK"
    assert told["mine-2"]["method"] == "/moulin.lake.v1.CatalogService/GetVersion"
    assert told["mine-3"]["code"] == "NOT_FOUND"
    assert "nowhere" in told["mine-3"]["error"]


def test_a_call_that_does_not_exist_is_unimplemented(live: Live) -> None:
    call = live.channel.unary_unary("/moulin.meta.v1.Nothing/Do", lambda _: b"", lambda _: b"")
    with refused(grpc.StatusCode.UNIMPLEMENTED):
        call(None)


def test_an_internal_error_is_answered_without_its_details(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(live.catalog), "version", lambda self: 1 // 0)
    with refused(grpc.StatusCode.INTERNAL, "its log has more under request") as seen:
        live.stub(CatalogServiceStub).GetVersion(pb.GetVersionRequest())
    assert "division" not in seen[0].message


def test_every_call_has_a_role_and_every_exception_names_a_call() -> None:
    roles = roles_of(SERVICES)
    for service in SERVICES:
        for method in service.roles:
            assert f"/{service.name}/{method}" in roles
        assert sum(path.startswith(f"/{service.name}/") for path in roles) > 0


@pytest.mark.parametrize("lost", ["deadline", "cancelled"])
def test_what_nobody_waits_for_any_more_is_not_done(live: Live, lost: str) -> None:
    """A call that waits for the lake's lock is not carried out after its deadline, or when its caller has gone."""
    stub, wanted = live.stub(CatalogServiceStub), name("late")
    with live.catalog.pool.write():
        call = stub.CreateDatabase.future(pb.CreateDatabaseRequest(name=wanted), timeout=0.3)
        if lost == "cancelled":
            time.sleep(0.1)
            call.cancel()
        else:
            assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        time.sleep(0.2)
    stub.CreateDatabase(pb.CreateDatabaseRequest(name=name("next")))  # it had the lock after the one above
    time.sleep(0.2)
    assert wanted not in {database.name for database in live.catalog.databases()}


def test_a_message_that_is_too_large_is_refused(lake: Lake) -> None:
    server = build_server(lake, ServeConfig(bind="127.0.0.1:0", max_message_bytes=10_000)).start()
    try:
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as seen:
            connected(server).GetDatabase(pb.DatabaseRef(name="x" * 20_000))
        assert "too large" in seen[0].message
        assert connected(server).GetVersion(pb.GetVersionRequest()).version == 0
    finally:
        server.stop(1)


def test_calls_beyond_the_limit_are_refused(lake: Lake) -> None:
    server = build_server(lake, ServeConfig(bind="127.0.0.1:0", threads=1, max_calls=2)).start()
    try:
        stub = connected(server)
        with lake.own_catalog().pool.write():
            waiting = [stub.CreateDatabase.future(pb.CreateDatabaseRequest(name=f"d{n}")) for n in range(6)]
            time.sleep(0.5)
        codes = [call.code() for call in waiting]
        assert codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 4
        assert codes.count(grpc.StatusCode.OK) == 2
    finally:
        server.stop(1)


def test_a_stopping_server_finishes_what_runs_and_takes_nothing_new(lake: Lake) -> None:
    server = build_server(lake, LOOPBACK).start()
    stub = connected(server)
    stub.GetVersion(pb.GetVersionRequest())
    with lake.own_catalog().pool.write():
        running = stub.CreateDatabase.future(pb.CreateDatabaseRequest(name="last"))
        time.sleep(0.3)
        ended: list[bool] = []
        stopping = threading.Thread(target=lambda: ended.append(server.stop(10)))
        stopping.start()
        time.sleep(0.3)
        assert stopping.is_alive(), "a call is running"
        with pytest.raises(grpc.RpcError) as refusal:
            stub.GetVersion(pb.GetVersionRequest())
        assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    stopping.join(20)
    assert ended == [True]
    assert running.result().name == "last"
    assert [database.name for database in lake.databases()] == ["last"]


def test_a_port_that_is_taken_is_refused(lake: Lake) -> None:
    server = build_server(lake, LOOPBACK).start()
    try:
        with pytest.raises(Unavailable, match="Cannot listen on"):
            build_server(lake, ServeConfig(bind=server.address))
    finally:
        server.stop(0)


def test_calls_are_counted_by_method_and_code(lake: Lake) -> None:
    metrics = Metrics()
    server = build_server(lake, LOOPBACK, observer=metrics).start()
    try:
        stub = connected(server)
        stub.GetVersion(pb.GetVersionRequest())
        with refused(grpc.StatusCode.NOT_FOUND):
            stub.GetDatabase(pb.DatabaseRef(name="nowhere"))
    finally:
        server.stop(1)
    text = metrics.text().decode()
    path = "/moulin.lake.v1.CatalogService"
    assert f'moulin_calls_total{{code="OK",method="{path}/GetVersion"}} 1.0' in text
    assert f'moulin_calls_total{{code="NOT_FOUND",method="{path}/GetDatabase"}} 1.0' in text
    assert "moulin_calls_running 0.0" in text


def test_metrics_are_served_even_when_the_lake_fails(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = Serving(lake, ServeConfig(bind="127.0.0.1:0", http_bind="", drain_seconds=1)).start()
    try:
        lake.create_database("d")
        told = serving.metrics.text().decode()
        for line in ("lake_version 1.0", "merge_tasks 0.0", "merge_tasks_quarantined 0.0", "objects_failing 0.0"):
            assert f"moulin_{line}\n" in told

        def fail(*_: Any) -> Any:
            raise Unavailable("The catalog did not answer.")

        monkeypatch.setattr(lake.own_catalog(), "version", fail)
        told = serving.metrics.text().decode()
        assert "moulin_lake_version NaN\n" in told
        assert "moulin_objects_to_delete 0.0\n" in told
    finally:
        serving.stop()


def test_every_metric_has_a_help_and_a_type(lake: Lake) -> None:
    serving = Serving(lake, ServeConfig(bind="127.0.0.1:0", http_bind="127.0.0.1:0", drain_seconds=1)).start()
    try:
        connected(serving.grpc).GetVersion(pb.GetVersionRequest())
        told = serving.metrics.text().decode()
    finally:
        serving.stop()
    families = set(re.findall(r"^# TYPE (\w+) ", told, re.MULTILINE))
    assert {"moulin_calls_total", "moulin_call_seconds", "moulin_http_connections"} <= families
    for family in families:
        assert re.search(rf"^# HELP {family} [A-Z].{{5,}}\.$", told, re.MULTILINE), family
    for sample in re.findall(r"^(\w+)(?:{.*})? ", told, re.MULTILINE):
        assert any(sample == known or sample.removeprefix(known).startswith("_") for known in families), sample


def test_a_client_is_answered_after_many_connections_that_say_nothing(lake: Lake) -> None:
    """gRPC has one limit for all; whoever does not begin to speak HTTP/2 in time makes room."""
    serve = ServeConfig(bind="127.0.0.1:0", max_connections=8, header_seconds=0.5)
    server = build_server(lake, serve).start()
    host, _, port = server.address.rpartition(":")
    silent = [socket.create_connection((host, int(port)), timeout=20) for _ in range(60)]
    try:
        stub = connected(server)
        assert stub.GetVersion(pb.GetVersionRequest(), wait_for_ready=True, timeout=30).version == 0
    finally:
        for one in silent:
            one.close()
        server.stop(1)


def test_many_calls_one_after_the_other_are_answered_whenever_python_frees_them(lake: Lake) -> None:
    """Failed calls are freed by the garbage collector, which may be late; the limit is of calls at the same time."""
    server = build_server(lake, ServeConfig(bind="127.0.0.1:0")).start()
    gc.disable()
    try:
        stub = connected(server)
        for _ in range(400):
            with refused(grpc.StatusCode.NOT_FOUND):
                stub.GetDatabase(pb.DatabaseRef(name="nope"))
    finally:
        gc.enable()
        server.stop(1)


def test_callers_without_a_token_cannot_fill_the_log(lake: Lake, tmp_path: Path, capfd: Any) -> None:
    access = AccessFile(tmp_path / "access.toml")
    access.create("someone", Role.READ)
    serve = ServeConfig(bind="127.0.0.1:0", auth="on", access_file=str(access.path))
    with structured_logs("json", "info"):
        server = build_server(lake, serve).start()
        try:
            stub = connected(server)
            for _ in range(200):
                with refused(grpc.StatusCode.UNAUTHENTICATED):
                    stub.GetVersion(pb.GetVersionRequest())
        finally:
            server.stop(1)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert 1 <= len([line for line in lines if line["message"] == "call"]) <= 3 * BURST


@pytest.mark.parametrize("levels", [300, 100_000])
@pytest.mark.parametrize("document", ["schema", "spec", "order", "property", "type", "default"])
def test_a_document_that_is_nested_too_deeply_is_an_invalid_argument(live: Live, document: str, levels: int) -> None:
    """Schemas, changes and settings are texts of JSON, in which anything can be nested."""
    stub, database = live.stub(CatalogServiceStub), name("deep")
    stub.CreateDatabase(pb.CreateDatabaseRequest(name=database))
    column = {"id": 1, "name": "id", "required": False, "type": "long"}
    good: dict[str, Any] = {
        "schema_json": json.dumps({"type": "struct", "schema-id": 0, "fields": [column]}),
        "spec_json": json.dumps({"spec-id": 0, "fields": []}),
        "sort_order_json": json.dumps({"order-id": 0, "fields": []}),
    }
    made = stub.CreateTable(pb.CreateTableRequest(database=database, name="t", last_column_id=1, **good))
    arrays = "[" * levels + "]" * levels
    lists = '{"type":"list","element-id":9,"element-required":false,"element":' * levels + '"int"' + "}" * levels
    change = {
        "type": '{"action":"add-column","name":"c","type":' + lists + "}",
        "default": '{"action":"add-column","name":"c","type":"int","default":' + arrays + "}",
    }
    bad: dict[str, Any] = {
        "schema": {"schema_json": good["schema_json"].replace('"long"', lists)},
        "spec": {"spec_json": '{"spec-id":0,"fields":' + arrays + "}"},
        "order": {"sort_order_json": '{"order-id":0,"fields":' + arrays + "}"},
        "property": {"properties": {"moulin.sharding-fields": arrays}},
    }
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        if document in bad:
            asked = {"database": database, "name": "u", "last_column_id": 9, **good, **bad[document]}
            stub.CreateTable(pb.CreateTableRequest(**asked))
        else:
            altered = pb.AlterSchema(changes_json=[change[document]])
            stub.Commit(pb.CommitRequest(changes=[pb.TableCommit(table_id=made.id, alter_schema=altered)]))
    assert [table.name for table in live.catalog.tables(database)] == ["t"]
