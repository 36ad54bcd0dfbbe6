"""Whose a session is, what its role may do, and operations that outlive a connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from uuid import uuid4

import grpc
import pyspark.sql.connect.proto as pb
import pytest
from pyspark.sql import SparkSession

from moulin.errors import FailedPrecondition
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from moulin.sql_server import sessions
from moulin.sql_server.operations import Operation
from moulin.sql_server.server import SqlServer
from tests.sql_server.conftest import Client, Served

pytestmark = pytest.mark.spark


def sql(text: str) -> pb.Plan:
    plan = pb.Plan()
    plan.root.sql.query = text
    return plan


def statement(text: str) -> pb.Plan:
    plan = pb.Plan()
    plan.command.sql_command.input.sql.query = text
    return plan


def refused(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.code(), error.value.details()


def view(client: Client, name: str) -> None:
    plan = pb.Plan()
    plan.command.create_dataframe_view.input.sql.query = "select 1 as one"
    plan.command.create_dataframe_view.name = name
    client.execute(plan)


def count(answers: list[pb.ExecutePlanResponse]) -> int:
    return sum(answer.arrow_batch.row_count for answer in answers)


def test_who_has_no_token_is_refused(served: Served) -> None:
    client = served.client(None)
    assert refused(lambda: client.execute(sql("select 1")))[0] is grpc.StatusCode.UNAUTHENTICATED
    client.token = "mlt_wrong"
    assert refused(lambda: client.execute(sql("select 1")))[0] is grpc.StatusCode.UNAUTHENTICATED


def test_a_token_that_is_revoked_opens_nothing_more(served: Served) -> None:
    served.tokens["gone"] = served.access.create("gone", Role.READ)
    client = served.client("gone")
    assert count(client.execute(sql("select 1"))) == 1
    served.access.revoke("gone")
    assert refused(lambda: client.execute(sql("select 1")))[0] is grpc.StatusCode.UNAUTHENTICATED


def test_a_session_of_another_token_cannot_be_seen(served: Served, reader: Client) -> None:
    operation = str(uuid4())
    view(reader, "mine")
    reader.execute(sql("select * from mine"), operation=operation, reattachable=True)
    other = served.client("other")
    other.session = reader.session
    request = pb.ReattachExecuteRequest(session_id=reader.session, operation_id=operation)
    request.user_context.user_id = "reader"
    assert refused(lambda: list(other.call("ReattachExecute", request)))[0] is grpc.StatusCode.NOT_FOUND
    assert refused(lambda: other.execute(sql("select * from mine")))[0] is grpc.StatusCode.PERMISSION_DENIED
    interrupt = pb.InterruptRequest(interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_ALL)
    assert list(other.call("Interrupt", interrupt).interrupted_ids) == []
    other.close()
    assert count(reader.execute(sql("select * from mine"))) == 1, "nothing of it was closed"


def test_a_role_that_reads_changes_nothing(served: Served, reader: Client) -> None:
    write = pb.Plan()
    write.command.write_operation_v2.input.sql.query = "select 9L as id, 1.0D as amount, 'x' as name"
    write.command.write_operation_v2.table_name = "shop.orders"
    write.command.write_operation_v2.mode = pb.WriteOperationV2.MODE_APPEND
    before = served.lake.version
    for plan in (write, statement("truncate table shop.orders")):
        assert refused(lambda plan=plan: reader.execute(plan))[0] is grpc.StatusCode.PERMISSION_DENIED
    assert served.lake.version == before


def test_a_client_attaches_again_after_the_last_answer_it_has(reader: Client) -> None:
    operation = str(uuid4())
    answers = reader.execute(sql("select id from shop.orders"), operation=operation, reattachable=True)
    assert answers[-1].HasField("result_complete")
    again = pb.ReattachExecuteRequest(operation_id=operation, last_response_id=answers[0].response_id)
    assert list(reader.call("ReattachExecute", again)) == answers[1:]
    release = pb.ReleaseExecuteRequest(operation_id=operation)
    release.release_until.response_id = answers[1].response_id
    reader.call("ReleaseExecute", release)
    code, _ = refused(lambda: list(reader.call("ReattachExecute", again)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT, "those answers were released"
    release.release_all.SetInParent()
    reader.call("ReleaseExecute", release)
    code, details = refused(lambda: list(reader.call("ReattachExecute", again)))
    assert code is grpc.StatusCode.NOT_FOUND
    assert "INVALID_HANDLE.OPERATION_NOT_FOUND" in details, "PySpark's client looks for this"


def test_an_operation_is_not_started_twice(reader: Client) -> None:
    operation = str(uuid4())
    reader.execute(sql("select 1"), operation=operation, reattachable=True)
    code, _ = refused(lambda: reader.execute(sql("select 1"), operation=operation, reattachable=True))
    assert code is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize(("kept", "size"), [(2, 1 << 20), (100, 10)])
def test_answers_that_nobody_fetches_are_forgotten_for_new_ones(
    reader: Client, monkeypatch: pytest.MonkeyPatch, kept: int, size: int
) -> None:
    operations = [str(uuid4()) for _ in range(4)]
    monkeypatch.setattr(sessions, "MAX_KEPT", kept)
    monkeypatch.setattr(sessions, "MAX_KEPT_BYTES", size)
    for operation in operations:
        assert count(reader.execute(sql("select 1"), operation=operation, reattachable=True)) == 1
    first = pb.ReattachExecuteRequest(operation_id=operations[0])
    assert refused(lambda: list(reader.call("ReattachExecute", first)))[0] is grpc.StatusCode.NOT_FOUND
    last = pb.ReattachExecuteRequest(operation_id=operations[-1])
    assert count(list(reader.call("ReattachExecute", last))) == 1


def test_a_client_may_send_sql_as_a_relation(served: Served, reader: Client, writer: Client) -> None:
    assert count(reader.execute(sql("show tables in shop"))) > 0
    before = served.lake.version
    code, details = refused(lambda: reader.execute(sql("delete from shop.orders where id = 1")))
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "role write" in details
    assert served.lake.version == before
    assert count(writer.execute(sql("delete from shop.orders where id = -1"))) == 1


def test_the_jdbc_driver_gets_no_columns_for_a_change(writer: Client) -> None:
    request = pb.ExecutePlanRequest(session_id=writer.session, client_type="Spark Connect JDBC spark/4.3.0")
    request.plan.CopyFrom(statement("delete from shop.orders where id = -1"))
    (result,) = [one for one in writer.call("ExecutePlan", request) if one.HasField("sql_command_result")]
    answers = writer.execute(pb.Plan(root=result.sql_command_result.relation))
    assert [one.schema.struct.fields for one in answers if one.HasField("schema")] == [[]]


def test_what_runs_can_be_interrupted(reader: Client) -> None:
    operation = str(uuid4())
    slow = "select count(*) from range(0, 100000000000, 1, 2) where sqrt(id) < 0"
    stream = reader.stream(sql(slow), operation=operation, reattachable=True)
    assert next(stream).HasField("schema"), "it runs"
    interrupt = pb.InterruptRequest(
        interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID, operation_id=operation
    )
    assert list(reader.call("Interrupt", interrupt).interrupted_ids) == [operation]
    code, details = refused(lambda: list(stream))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "cancelled" in details


def test_a_change_that_was_made_before_it_could_be_interrupted_is_told_as_made(spark: SparkSession) -> None:
    operation = Operation(str(uuid4()), (), spark)

    def made() -> Iterator[pb.ExecutePlanResponse]:
        assert operation.interrupt()
        yield pb.ExecutePlanResponse(sql_command_result=pb.ExecutePlanResponse.SqlCommandResult())

    operation.run(made)
    kinds = [answer.WhichOneof("response_type") for answer in operation.answers("", lambda: True)]
    assert kinds == ["sql_command_result", "result_complete"]
    for thread in threading.enumerate():
        if thread.name == "moulin-sql-cancel":
            thread.join()


def test_a_session_that_ended_is_not_made_again(served: Served) -> None:
    client = served.client("reader")
    seen = client.execute(sql("select 1"))[0].server_side_session_id
    client.call("ReleaseSession", pb.ReleaseSessionRequest())
    request = pb.ConfigRequest(client_observed_server_side_session_id=seen)
    request.operation.get_all.SetInParent()
    code, details = refused(lambda: client.call("Config", request))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "SESSION_CLOSED" in details


@pytest.mark.parametrize("id", ["", "x", "../../etc"])
def test_ids_of_sessions_are_uuids(served: Served, id: str) -> None:
    client = served.client("reader")
    client.session = id
    request = pb.ConfigRequest(session_id=id)
    request.operation.get_all.SetInParent()
    code, _ = refused(lambda: client.stub.Config(request, metadata=client.metadata))
    assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_server_that_others_can_reach_asks_for_tokens(served: Served) -> None:
    with pytest.raises(FailedPrecondition, match="tokens"):
        SqlServer(served.lake, ServeConfig(bind="0.0.0.0:0", http_bind="", auth="off"))
