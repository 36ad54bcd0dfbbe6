"""Messages that must be refused, whoever sends them. Each leaves the server as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pyarrow as pa
import pyspark.sql.connect.proto as pb
import pytest
import zstandard
from google.protobuf import any_pb2

from moulin.pipeline.connect import session
from tests.sql_server.conftest import Client, Served

pytestmark = pytest.mark.spark

REFUSED = {
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
}
UDT = (
    '{"type":"struct","fields":[{"name":"a","nullable":true,"metadata":{},'
    '"type":{"type":"udt","class":"java.io.File","pyClass":null,"sqlType":"string"}}]}'
)
Make = Callable[[], pb.Plan]
PLANS: dict[str, Make] = {}


def plan(make: Callable[[pb.Plan], None]) -> Callable[[pb.Plan], None]:
    def made() -> pb.Plan:
        found = pb.Plan()
        make(found)
        return found

    PLANS[make.__name__] = made
    return make


def orders(relation: pb.Relation) -> pb.Relation:
    relation.read.named_table.unparsed_identifier = "shop.orders"
    return relation


def local(relation: pb.Relation) -> None:
    relation.local_relation.schema = "a long"


@plan
def reads_a_file(plan: pb.Plan) -> None:
    plan.root.read.data_source.format = "text"
    plan.root.read.data_source.paths.append("/etc/hostname")


@plan
def reads_a_file_below_a_filter(plan: pb.Plan) -> None:
    plan.root.filter.input.read.data_source.format = "text"
    plan.root.filter.condition.literal.boolean = True


@plan
def reads_a_file_in_a_join(plan: pb.Plan) -> None:
    orders(plan.root.join.left)
    plan.root.join.right.read.data_source.format = "binaryFile"


@plan
def reads_a_file_by_its_name(plan: pb.Plan) -> None:
    plan.root.read.named_table.unparsed_identifier = "text.`/etc/hostname`"


@plan
def reads_another_server(plan: pb.Plan) -> None:
    plan.root.read.data_source.format = "jdbc"
    plan.root.read.data_source.options["url"] = "jdbc:derby:memory:x;create=true"


@plan
def reads_a_table_with_options(plan: pb.Plan) -> None:
    orders(plan.root).read.named_table.options["path"] = "/etc"


@plan
def streams(plan: pb.Plan) -> None:
    orders(plan.root).read.is_streaming = True


@plan
def reads_sparks_own_catalog(plan: pb.Plan) -> None:
    plan.root.read.named_table.unparsed_identifier = "spark_catalog.default.t"


@plan
def reads_a_global_view(plan: pb.Plan) -> None:
    plan.root.read.named_table.unparsed_identifier = "global_temp.v"


@plan
def names_a_frame_of_nobody(plan: pb.Plan) -> None:
    plan.root.read.named_table.unparsed_identifier = "_moulin_frames.x"


@plan
def sql_reads_a_file(plan: pb.Plan) -> None:
    plan.root.sql.query = "select * from text.`/etc/hostname`"


@plan
def sql_runs_java(plan: pb.Plan) -> None:
    plan.root.sql.query = "select reflect('java.lang.System', 'getenv', 'HOME')"


@plan
def sql_below_a_limit_runs_java(plan: pb.Plan) -> None:
    plan.root.limit.input.sql.query = "select java_method('java.lang.System', 'getProperty', 'user.home')"
    plan.root.limit.limit = 1


@plan
def sql_with_an_expression_as_parameter(plan: pb.Plan) -> None:
    plan.root.sql.query = "select :x"
    plan.root.sql.named_arguments["x"].unresolved_function.function_name = "current_user"


@plan
def sql_command_drops_sparks_table(plan: pb.Plan) -> None:
    plan.command.sql_command.input.sql.query = "drop table default.t"


@plan
def sql_command_adds_a_jar(plan: pb.Plan) -> None:
    plan.command.sql_command.input.sql.query = "add jar '/tmp/x.jar'"


@plan
def sql_command_sets(plan: pb.Plan) -> None:
    plan.command.sql_command.input.sql.query = "set spark.sql.runSQLOnFiles=true"


@plan
def sql_command_writes_files(plan: pb.Plan) -> None:
    plan.command.sql_command.input.sql.query = "insert overwrite directory '/tmp/x' using text select 'a'"


@plan
def sql_command_makes_a_table_of_spark(plan: pb.Plan) -> None:
    plan.command.sql_command.input.sql.query = "create table default.t using text location '/etc' as select 1"


@plan
def calls_java_in_a_projection(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    call = plan.root.project.expressions.add().unresolved_function
    call.function_name = "reflect"
    for text in ("java.lang.System", "getenv", "HOME"):
        call.arguments.add().literal.string = text


@plan
def calls_java_by_text(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    plan.root.project.expressions.add().expression_string.expression = "reflect('java.lang.System','getenv','HOME')"


@plan
def calls_java_in_a_new_column(plan: pb.Plan) -> None:
    orders(plan.root.with_columns.input)
    alias = plan.root.with_columns.aliases.add()
    alias.name.append("x")
    alias.expr.expression_string.expression = "reflect('java.lang.System','getenv','HOME')"


@plan
def calls_java_in_a_column_that_is_dropped(plan: pb.Plan) -> None:
    local(plan.root.drop.input)
    plan.root.drop.columns.add().expression_string.expression = "reflect('java.lang.System','getenv','HOME')"


@plan
def calls_an_internal_function(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    call = plan.root.project.expressions.add().unresolved_function
    call.function_name, call.is_internal = "collect_top_k", True


@plan
def calls_a_function_of_its_own(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    call = plan.root.project.expressions.add().unresolved_function
    call.function_name, call.is_user_defined_function = "f", True


@plan
def calls_a_function_of_a_catalog(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    plan.root.project.expressions.add().call_function.function_name = "spark_catalog.default.f"


@plan
def has_python_code(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    code = plan.root.project.expressions.add().common_inline_user_defined_function
    code.python_udf.command = b"x"


@plan
def has_java_code(plan: pb.Plan) -> None:
    orders(plan.root.filter.input)
    plan.root.filter.condition.common_inline_user_defined_function.java_udf.class_name = "java.lang.Runtime"


@plan
def maps_partitions(plan: pb.Plan) -> None:
    orders(plan.root.map_partitions.input)
    plan.root.map_partitions.func.python_udf.command = b"x"


@plan
def groups_with_code(plan: pb.Plan) -> None:
    orders(plan.root.group_map.input)
    plan.root.group_map.func.scalar_scala_udf.payload = b"\xac\xed\x00\x05"


@plan
def has_a_table_function_of_code(plan: pb.Plan) -> None:
    plan.root.common_inline_user_defined_table_function.python_udtf.command = b"x"


@plan
def has_a_data_source_of_code(plan: pb.Plan) -> None:
    plan.root.common_inline_user_defined_data_source.python_data_source.command = b"x"


@plan
def calls_an_unknown_table_function(plan: pb.Plan) -> None:
    plan.root.unresolved_table_valued_function.function_name = "python_worker_logs"


@plan
def parses_with_options(plan: pb.Plan) -> None:
    orders(plan.root.parse.input)
    plan.root.parse.options["columnNameOfCorruptRecord"] = "x"


@plan
def reads_a_cached_relation_of_others(plan: pb.Plan) -> None:
    plan.root.cached_remote_relation.relation_id = "1"


@plan
def reads_an_artifact(plan: pb.Plan) -> None:
    plan.root.cached_local_relation.hash = "0" * 64


@plan
def names_a_class_in_a_schema(plan: pb.Plan) -> None:
    plan.root.local_relation.schema = UDT


@plan
def names_a_class_in_a_schema_in_disguise(plan: pb.Plan) -> None:
    plan.root.limit.input.local_relation.schema = UDT.replace('"udt"', '"struct","type":"\\u0075dt"')


@plan
def has_an_extension(plan: pb.Plan) -> None:
    plan.root.extension.CopyFrom(any_pb2.Any(type_url="x"))


@plan
def has_an_extension_in_an_expression(plan: pb.Plan) -> None:
    orders(plan.root.filter.input)
    plan.root.filter.condition.extension.CopyFrom(any_pb2.Any(type_url="x"))


@plan
def asks_for_files_of_rows(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    plan.root.project.expressions.add().unresolved_attribute.unparsed_identifier = "_metadata.file_path"


@plan
def asks_for_files_as_metadata(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    attribute = plan.root.project.expressions.add().unresolved_attribute
    attribute.unparsed_identifier, attribute.is_metadata_column = "_metadata", True


@plan
def describes_the_files_of_rows(plan: pb.Plan) -> None:
    orders(plan.root.describe.input)
    plan.root.describe.cols.append("_metadata.file_path")


@plan
def counts_the_files_of_rows(plan: pb.Plan) -> None:
    orders(plan.root.freq_items.input)
    plan.root.freq_items.cols.append("_metadata.file_path")


@plan
def pivots_by_values_that_a_job_would_find(plan: pb.Plan) -> None:
    local(plan.root.aggregate.input)
    plan.root.aggregate.group_type = pb.Aggregate.GROUP_TYPE_PIVOT
    plan.root.aggregate.pivot.col.expression_string.expression = "reflect('java.lang.System','getenv','HOME')"


@plan
def wants_a_million_partitions(plan: pb.Plan) -> None:
    orders(plan.root.repartition.input)
    plan.root.repartition.num_partitions = 1_000_000


@plan
def hints_a_million_partitions(plan: pb.Plan) -> None:
    orders(plan.root.hint.input)
    plan.root.hint.name = "repartition"
    plan.root.hint.parameters.add().literal.integer = 1_000_000


@plan
def drops_a_table_through_the_catalog(plan: pb.Plan) -> None:
    plan.root.catalog.drop_table.table_name = "shop.orders"


@plan
def makes_a_table_through_the_catalog(plan: pb.Plan) -> None:
    plan.root.catalog.create_table.table_name = "t"
    plan.root.catalog.create_table.path = "/etc"


@plan
def learns(plan: pb.Plan) -> None:
    plan.root.ml_relation.transform.SetInParent()


@plan
def registers_code(plan: pb.Plan) -> None:
    plan.command.register_function.function_name = "f"
    plan.command.register_function.python_udf.command = b"x"


@plan
def runs_an_external_command(plan: pb.Plan) -> None:
    plan.command.execute_external_command.command = "id"


@plan
def writes_files(plan: pb.Plan) -> None:
    orders(plan.command.write_operation.input)
    plan.command.write_operation.source, plan.command.write_operation.path = "parquet", "/tmp/x"


@plan
def writes_to_a_data_source(plan: pb.Plan) -> None:
    orders(plan.command.write_operation.input)
    plan.command.write_operation.source = "noop"


@plan
def writes_a_table_of_spark(plan: pb.Plan) -> None:
    orders(plan.command.write_operation_v2.input)
    plan.command.write_operation_v2.table_name = "spark_catalog.default.t"
    plan.command.write_operation_v2.mode = pb.WriteOperationV2.MODE_APPEND


@plan
def starts_a_stream(plan: pb.Plan) -> None:
    orders(plan.command.write_stream_operation_start.input)


@plan
def makes_a_global_view(plan: pb.Plan) -> None:
    orders(plan.command.create_dataframe_view.input)
    plan.command.create_dataframe_view.name, plan.command.create_dataframe_view.is_global = "v", True


@plan
def makes_a_view_of_a_file(plan: pb.Plan) -> None:
    plan.command.create_dataframe_view.input.sql.query = "select * from text.`/etc/hostname`"
    plan.command.create_dataframe_view.name = "v"


@plan
def checkpoints(plan: pb.Plan) -> None:
    orders(plan.command.checkpoint_command.relation)


@plan
def asks_for_resources(plan: pb.Plan) -> None:
    plan.command.get_resources_command.SetInParent()


@plan
def has_a_pipeline(plan: pb.Plan) -> None:
    plan.command.pipeline_command.SetInParent()


@plan
def sql_wants_a_million_partitions(plan: pb.Plan) -> None:
    plan.root.sql.query = "select count(id) from range(0, 10, 1, 1000000)"


@plan
def lists_more_values_than_can_be_checked(plan: pb.Plan) -> None:
    plan.root.sql.query = f"select * from shop.orders where id in ({','.join(['1'] * 20_000)})"


@plan
def lists_more_values_in_an_expression(plan: pb.Plan) -> None:
    orders(plan.root.filter.input)
    plan.root.filter.condition.expression_string.expression = f"id in ({','.join(['1'] * 20_000)})"


@plan
def lists_more_values_as_messages(plan: pb.Plan) -> None:
    orders(plan.root.filter.input)
    call = plan.root.filter.condition.unresolved_function
    call.function_name = "in"
    for number in range(20_000):
        call.arguments.add().literal.long = number


@plan
def has_more_parts_than_can_be_checked(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    for _ in range(20):
        call = plan.root.project.expressions.add().unresolved_function
        call.function_name = "array"
        for number in range(2_000):
            call.arguments.add().literal.long = number


@plan
def sends_compressed_rows(plan: pb.Plan) -> None:
    rows, sink = pa.table({"a": [0] * 100_000}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(rows)
    plan.root.local_relation.data = sink.getvalue().to_pybytes()


@plan
def sends_many_rows_of_nothing(plan: pb.Plan) -> None:
    rows, sink = pa.table({"a": pa.nulls(2_000_000_000)}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    plan.root.limit.input.local_relation.data = sink.getvalue().to_pybytes()
    plan.root.limit.limit = 1


def merge(plan: pb.Plan) -> pb.MergeIntoTableCommand:
    """A merge that could run."""
    found = plan.command.merge_into_table_command
    found.target_table_name = "shop.orders"
    orders(found.source_table_plan)
    found.merge_condition.literal.boolean = False
    found.match_actions.add().merge_action.action_type = pb.MergeAction.ACTION_TYPE_DELETE
    return found


@plan
def merges_a_file(plan: pb.Plan) -> None:
    merge(plan).source_table_plan.read.data_source.format = "text"


@plan
def merges_a_file_by_its_name(plan: pb.Plan) -> None:
    merge(plan).source_table_plan.sql.query = "select * from text.`/etc/hostname`"


@plan
def merges_by_a_condition_in_java(plan: pb.Plan) -> None:
    merge(plan).merge_condition.expression_string.expression = "reflect('java.lang.System','getenv','HOME') = 'x'"


@plan
def merges_by_a_condition_on_a_file(plan: pb.Plan) -> None:
    merge(plan).merge_condition.expression_string.expression = "exists (select * from text.`/etc/hostname`)"


@plan
def merges_a_value_of_java(plan: pb.Plan) -> None:
    action = merge(plan).match_actions.add().merge_action
    action.action_type = pb.MergeAction.ACTION_TYPE_UPDATE
    assignment = action.assignments.add()
    assignment.key.expression_string.expression = "name"
    assignment.value.expression_string.expression = "reflect('java.lang.System','getenv','HOME')"


@plan
def merges_the_names_of_files(plan: pb.Plan) -> None:
    action = merge(plan).match_actions.add().merge_action
    action.action_type = pb.MergeAction.ACTION_TYPE_UPDATE
    assignment = action.assignments.add()
    assignment.key.expression_string.expression = "name"
    assignment.value.expression_string.expression = "_metadata.file_path"


@plan
def merges_into_a_table_of_spark(plan: pb.Plan) -> None:
    merge(plan).target_table_name = "spark_catalog.default.t"


@plan
def merges_with_new_columns(plan: pb.Plan) -> None:
    merge(plan).with_schema_evolution = True


@plan
def merges_without_an_action(plan: pb.Plan) -> None:
    del merge(plan).match_actions[:]


@plan
def merges_with_an_action_that_is_none(plan: pb.Plan) -> None:
    merge(plan).match_actions.add().literal.boolean = True


@plan
def has_a_clause_of_merge_in_a_query(plan: pb.Plan) -> None:
    orders(plan.root.project.input)
    plan.root.project.expressions.add().merge_action.action_type = pb.MergeAction.ACTION_TYPE_DELETE


@plan
def inserts_a_value_of_java(plan: pb.Plan) -> None:
    plan.root.sql.query = "insert into shop.orders values (1, 1.0, reflect('java.lang.System','getenv','HOME'))"


@plan
def inserts_the_lines_of_a_file(plan: pb.Plan) -> None:
    plan.root.sql.query = "insert into shop.orders values (1, 1.0, (select max(value) from text.`/etc/hostname`))"


@plan
def changes_below_a_limit(plan: pb.Plan) -> None:
    plan.root.limit.input.sql.query = "truncate table shop.orders"
    plan.root.limit.limit = 1


@plan
def changes_in_a_view(plan: pb.Plan) -> None:
    plan.command.create_dataframe_view.input.sql.query = "truncate table shop.orders"
    plan.command.create_dataframe_view.name = "v"


@plan
def names_a_file_in_a_parameter(plan: pb.Plan) -> None:
    plan.root.sql.query = "select * from identifier(:name)"
    plan.root.sql.named_arguments["name"].literal.string = "text.`/etc/hostname`"


@plan
def hides_java_in_a_hint(plan: pb.Plan) -> None:
    orders(plan.root.hint.input)
    plan.root.hint.name = "broadcast"
    plan.root.hint.parameters.add().expression_string.expression = "reflect('java.lang.System','getenv','HOME')"


@plan
def cleans_up_as_a_janitor_does(plan: pb.Plan) -> None:
    plan.root.sql.query = "call moulin.system.GC()"


@plan
def vacuums(plan: pb.Plan) -> None:
    plan.command.sql_command.input.sql.query = "vacuum"


@plan
def has_no_plan(plan: pb.Plan) -> None:
    pass


@plan
def hides_a_file_in_a_compressed_plan(plan: pb.Plan) -> None:
    inner = pb.Relation()
    inner.read.data_source.format = "text"
    packed = plan.compressed_operation
    packed.data = zstandard.compress(inner.SerializeToString())
    packed.op_type = packed.OP_TYPE_RELATION
    packed.compression_codec = pb.COMPRESSION_CODEC_ZSTD


@plan
def unpacks_to_more_than_a_message_has(plan: pb.Plan) -> None:
    packed = plan.compressed_operation
    packed.data = zstandard.compress(bytes(64 << 20))
    packed.op_type = packed.OP_TYPE_RELATION
    packed.compression_codec = pb.COMPRESSION_CODEC_ZSTD


@plan
def cannot_be_unpacked(plan: pb.Plan) -> None:
    packed = plan.compressed_operation
    packed.data, packed.op_type = b"junk", packed.OP_TYPE_RELATION
    packed.compression_codec = pb.COMPRESSION_CODEC_ZSTD


@pytest.mark.parametrize("name", sorted(PLANS))
def test_it_is_refused(writer: Client, name: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        writer.execute(PLANS[name]())
    assert refused.value.code() in REFUSED, refused.value.details()
    assert "/etc/hostname" not in refused.value.details() or "text" in name


@pytest.mark.parametrize("name", sorted(name for name, make in PLANS.items() if make().HasField("root")))
def test_its_schema_is_refused(writer: Client, name: str) -> None:
    request = pb.AnalyzePlanRequest()
    request.schema.plan.CopyFrom(PLANS[name]())
    with pytest.raises(grpc.RpcError) as refused:
        writer.call("AnalyzePlan", request)
    assert refused.value.code() in REFUSED, refused.value.details()


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.runSQLOnFiles",
        "spark.sql.variable.substitute",
        "spark.sql.catalog.other",
        "spark.sql.warehouse.dir",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.driver.extraJavaOptions",
        "spark.sql.redaction.string.regex",
        "spark.jars",
    ],
)
def test_settings_that_reach_further_are_not_set(writer: Client, key: str) -> None:
    request = pb.ConfigRequest()
    request.operation.set.pairs.add(key=key, value="true")
    with pytest.raises(grpc.RpcError) as refused:
        writer.call("Config", request)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("key", ["spark.hadoop.fs.s3a.secret.key", "spark.sql.warehouse.dir", "spark.driver.host"])
def test_settings_that_tell_of_the_machine_are_not_shown(writer: Client, key: str) -> None:
    request = pb.ConfigRequest()
    request.operation.get.keys.append(key)
    with pytest.raises(grpc.RpcError) as refused:
        writer.call("Config", request)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_files_and_code_are_not_uploaded(writer: Client) -> None:
    request = pb.AddArtifactsRequest(session_id=writer.session)
    request.batch.artifacts.add(name="jars/x.jar").data.data = b"x"
    with pytest.raises(grpc.RpcError) as refused:
        writer.stub.AddArtifacts(iter([request]), metadata=writer.metadata)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("name", ["CloneSession", "GetStatus"])
def test_calls_that_are_not_known_are_refused(writer: Client, name: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        writer.call(name, getattr(pb, f"{name}Request")())
    assert refused.value.code() in REFUSED


@pytest.mark.parametrize("kind", ["input_files", "persist"])
def test_files_are_not_named_and_rows_not_kept(writer: Client, kind: str) -> None:
    request: Any = pb.AnalyzePlanRequest()
    message = getattr(request, kind)
    orders(message.relation if kind == "persist" else message.plan.root)
    with pytest.raises(grpc.RpcError) as refused:
        writer.call("AnalyzePlan", request)
    assert refused.value.code() in REFUSED


def test_classes_in_a_schema_are_not_looked_up(writer: Client) -> None:
    request = pb.AnalyzePlanRequest()
    request.json_to_ddl.json_string = UDT
    with pytest.raises(grpc.RpcError) as refused:
        writer.call("AnalyzePlan", request)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_message_beyond_the_limit_is_refused(writer: Client) -> None:
    found = pb.Plan()
    found.root.local_relation.data = bytes(5 << 20)
    with pytest.raises(grpc.RpcError) as refused:
        writer.execute(found)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_plan_that_is_nested_too_deep_is_refused(writer: Client) -> None:
    found = pb.Plan()
    relation = found.root
    for _ in range(40):
        relation.limit.limit = 1
        relation = relation.limit.input
    orders(relation)
    assert writer.execute(found)
    inner = pb.Relation.FromString(found.root.SerializeToString())
    data = inner.SerializeToString()
    for _ in range(300):  # by hand, since no client's library writes such a message
        data = _field(9, _field(1, data) + b"\x10\x01")
    request = _field(1, writer.session.encode()) + _field(3, _field(1, data))
    send = writer.channel.unary_stream("/spark.connect.SparkConnectService/ExecutePlan")
    with pytest.raises(grpc.RpcError):
        list(send(request, metadata=writer.metadata))


def _field(number: int, data: bytes) -> bytes:
    length, head = len(data), bytes([number << 3 | 2])
    while True:
        head += bytes([length & 127 | (128 if length > 127 else 0)])
        length >>= 7
        if not length:
            return head + data


def test_the_schema_of_a_change_does_not_change_anything(writer: Client) -> None:
    request = pb.AnalyzePlanRequest()
    request.schema.plan.root.sql.query = "truncate table shop.orders"
    with pytest.raises(grpc.RpcError) as refused:
        writer.call("AnalyzePlan", request)
    assert refused.value.code() in REFUSED


def test_a_session_has_so_many_views_and_no_more(writer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def view(name: str, text: str = "select 1 as one") -> None:
        found = pb.Plan()
        found.command.create_dataframe_view.input.sql.query = text
        found.command.create_dataframe_view.name = name
        found.command.create_dataframe_view.replace = True
        writer.execute(found)

    monkeypatch.setattr(session, "MAX_VIEWS", 2)
    monkeypatch.setattr(session, "MAX_VIEW_BYTES", 1000)
    view("a")
    view("b")
    view("B")
    for name, text in (("c", "select 1 as one"), ("a", f"select '{'x' * 1000}' as one")):
        with pytest.raises(grpc.RpcError) as refused:
            view(name, text)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "dropTempView" in refused.value.details()
    drop = pb.Plan()
    drop.root.catalog.drop_temp_view.view_name = "a"
    writer.execute(drop)
    view("c")


def test_after_all_of_it_the_table_is_as_it_was(served: Served, writer: Client) -> None:
    found = pb.Plan()
    orders(found.root)
    answers = writer.execute(found)
    assert (
        sum(answer.arrow_batch.row_count for answer in answers) == served.lake.table("shop.orders").scan().count() == 5
    )
