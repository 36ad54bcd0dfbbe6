"""The state of one client of the SQL server: a Spark session for safe queries, settings and views, and changes.

Every query is safe (`pipeline/sql/safe.py`), whatever the client's role; the role decides whether it may change tables.
"""

# Decisions: docs/decisions/0265, docs/decisions/0285

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyspark.sql.connect.proto as pb
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.connect.expressions import LiteralExpression
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.types import DataType, StructType, _parse_datatype_json_string

from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, PermissionDenied, Unsupported
from moulin.lake import Lake
from moulin.model.names import full_name, parse_table_name, quote
from moulin.pipeline.connect.allowed import check, check_schema
from moulin.pipeline.connect.catalog import ConnectCatalog
from moulin.pipeline.connect.planner import Planner
from moulin.pipeline.connect.relations import Relations
from moulin.pipeline.connect.session_sql import run_own
from moulin.pipeline.connect.settings import Settings
from moulin.pipeline.spark import LakeSpark
from moulin.pipeline.sql.catalyst import LogicalPlan
from moulin.pipeline.sql.sql import check_is_statement
from moulin.pipeline.statements.answer import COUNTS
from moulin.pipeline.statements.calls import cleans_up
from moulin.pipeline.statements.statements import HARMLESS, STATEMENTS, parse
from moulin.pipeline.write.save import Save, overwritten, partition_field, save

_V2 = pb.WriteOperationV2.Mode
_V2_MODES = {
    _V2.MODE_CREATE: Save.CREATE,
    _V2.MODE_OVERWRITE: Save.OVERWRITE,
    _V2.MODE_OVERWRITE_PARTITIONS: Save.OVERWRITE_PARTITIONS,
    _V2.MODE_APPEND: Save.APPEND,
    _V2.MODE_REPLACE: Save.REPLACE,
    _V2.MODE_CREATE_OR_REPLACE: Save.CREATE_OR_REPLACE,
}
_V1 = pb.WriteOperation.SaveMode
_TABLE_MODES = {
    _V1.SAVE_MODE_UNSPECIFIED: Save.CREATE,
    _V1.SAVE_MODE_APPEND: Save.CREATE_OR_APPEND,
    _V1.SAVE_MODE_OVERWRITE: Save.CREATE_OR_REPLACE,
    _V1.SAVE_MODE_ERROR_IF_EXISTS: Save.CREATE,
    _V1.SAVE_MODE_IGNORE: Save.CREATE_OR_KEEP,
}
_OWN_FORMATS = ("", "moulin")
MAX_VIEWS: Final = 1000
MAX_VIEW_BYTES: Final = 256 << 20
"""Of one session. A view of rows that the client sent holds them in the driver."""


class ConnectSession:
    """Thread-safe."""

    def __init__(self, lake: Lake, spark: LakeSpark, *, changes: bool, upkeep: bool, largest_message: int) -> None:
        """`changes` says whether the client may change tables, `upkeep` whether it may clean up the lake."""
        self._lake, self._spark, self._changes, self._upkeep = lake, spark, changes, upkeep
        self._guard = spark.guard()
        self._planner = Planner(self._guard)
        self._lock = threading.Lock()
        self._view_bytes: dict[str, int] = {}  # of views that there are or were
        self._catalog = ConnectCatalog(lake, self._guard, self._columns)
        self.settings = Settings(self._guard.session, largest_message)

    def frame(self, relation: pb.Relation) -> DataFrame:
        """The rows that a relation describes."""
        check(relation)
        return self._relations().frame(relation)

    def result(self, relation: pb.Relation) -> DataFrame:
        """The rows of a plan that is run: those that a relation describes, or the answer of a statement of SQL."""
        check(relation)
        if relation.WhichOneof("rel_type") == "sql":
            relation = self._statement(relation.sql, counts=True) or relation
        return self._relations().frame(relation)

    def command(self, command: pb.Command, *, counts: bool = True) -> pb.Relation | None:
        """Run a command. For SQL, a relation of its result: the query itself, or the few rows of another statement.

        Without `counts`, a statement that changes rows has no columns in its result.
        """
        check(command)
        kind = command.WhichOneof("command_type")
        if kind == "sql_command":
            return self._sql(command.sql_command, counts)
        if kind == "create_dataframe_view":
            self._create_view(command.create_dataframe_view)
        elif kind == "write_operation_v2":
            self._write_v2(command.write_operation_v2)
        elif kind == "write_operation":
            self._write(command.write_operation)
        elif kind == "merge_into_table_command":
            self._merge(command.merge_into_table_command)
        else:
            raise InvalidInput("The command is empty.")
        return None

    def type_of(self, ddl: str) -> pb.DataType:
        """The type that a DDL string describes."""
        found: DataType = _parse_datatype_json_string(self._planner.type_json(ddl))
        return pyspark_types_to_proto_types(found)

    def ddl_of(self, json: str) -> str:
        """The DDL of the columns that the JSON of a schema describes."""
        check_schema(json)
        return self._planner.ddl(json)

    def _relations(self) -> Relations:
        return Relations(self._guard, self._planner, lambda plan: self._spark.query(plan, self._guard), self._catalog)

    def _columns(self, name: str) -> StructType:
        relation = pb.Relation()
        relation.read.named_table.unparsed_identifier = name
        return self._relations().frame(relation).schema

    def _sql(self, command: pb.SqlCommand, counts: bool) -> pb.Relation:
        relation = _relation_of(command)
        kind = relation.WhichOneof("rel_type")
        if kind == "with_relations":
            return relation  # its frames can be read, and not changed
        if kind != "sql":
            raise InvalidInput("A SQL command needs the text of a statement.")
        arguments = _arguments(relation.sql)
        own = run_own(self._guard, self.settings, self._create_view, relation.sql.query, arguments)
        if own is not None:
            return local_relation(own)
        answer = self._statement(relation.sql, counts)
        if answer is not None:
            return answer
        self._guard.query(self._parsed(relation.sql))  # statements other than queries are rejected now
        return relation

    def _statement(self, sql: pb.SQL, counts: bool) -> pb.Relation | None:
        """The result of a statement; None for a query, which is not run."""
        plan = self._parsed(sql)
        kind = plan.nodeName()
        if kind not in STATEMENTS:
            return None
        if kind not in HARMLESS:
            self._check_may_change()
        if cleans_up(plan) and not self._upkeep:
            raise PermissionDenied("Clean-up needs a token with the role pipeline; the server's janitor also runs it.")
        answer = self._spark.run(sql.query, _arguments(sql), self._guard, changes=self._changes).toArrow()
        is_count = answer.column_names == list(COUNTS)
        return local_relation(answer.select([]) if is_count and not counts else answer)

    def _parsed(self, sql: pb.SQL) -> LogicalPlan:
        check_is_statement(sql.query)
        plan = parse(self._guard, sql.query, _arguments(sql))
        return self._guard.catalyst.opened_actively(plan) if plan.nodeName() == "UnresolvedWith" else plan

    def _create_view(self, command: pb.CreateDataFrameViewCommand) -> None:
        if not command.replace and command.name.lower() in self._guard.view_names():
            raise AlreadyExists(f"There is a view {command.name!r} already: use createOrReplaceTempView.")
        if "." in command.name or not command.name:
            raise InvalidInput("The name of a temporary view must have one part.")
        relations = self._relations()
        relations.frame(command.input)  # unreadable input is rejected now
        view = relations.view(command.input)
        with self._lock:
            self._make_room(command.name.lower(), command.input.ByteSize())
            self._guard.put_view(command.name, view)

    def _make_room(self, name: str, size: int) -> None:
        known = set(self._guard.view_names())
        sizes = {one: self._view_bytes[one] for one in known - {name}} | {name: size}
        if len(sizes) > MAX_VIEWS or sum(sizes.values()) > MAX_VIEW_BYTES:
            raise FailedPrecondition(
                f"A session can have at most {MAX_VIEWS} views with {MAX_VIEW_BYTES} bytes of rows and text: drop "
                f"one with "
                "spark.catalog.dropTempView, or save the rows as a table."
            )
        self._view_bytes = sizes

    def _write_v2(self, command: pb.WriteOperationV2) -> None:
        how = _V2_MODES.get(command.mode)
        if how is None:
            raise InvalidInput("A write needs a mode: append, overwrite, create or replace.")
        _check_format(command.provider)
        partitions = [partition_field(self._planner.expression(one).sql()) for one in command.partitioning_columns]
        self._save(
            command.table_name,
            command.input,
            how,
            where=overwritten(_text_of(command.overwrite_condition)) if how is Save.OVERWRITE else None,
            partition_by=partitions,
            properties=dict(command.table_properties),
        )

    def _write(self, command: pb.WriteOperation) -> None:
        if command.WhichOneof("save_type") != "table":
            raise PermissionDenied("Clients can only write tables of the lake: use saveAsTable or writeTo.")
        _check_format(command.source)
        by_order = command.table.save_method == pb.WriteOperation.SaveTable.TABLE_SAVE_METHOD_INSERT_INTO
        how = _TABLE_MODES[command.mode]
        if by_order:
            how = Save.INSERT_OVERWRITE if how is Save.CREATE_OR_REPLACE else Save.INSERT
        self._save(command.table.table_name, command.input, how, partition_by=list(command.partitioning_columns))

    def _merge(self, command: pb.MergeIntoTableCommand) -> None:
        """`frame.mergeInto`: the statement MERGE, with a source that has no name."""
        self._check_may_change()
        relations = self._relations()
        relations.frame(command.source_table_plan)  # unreadable input is rejected now
        actions = [
            [self._planner.expression(one) for one in some]
            for some in (command.match_actions, command.not_matched_actions, command.not_matched_by_source_actions)
        ]
        if not any(actions):
            raise InvalidInput("A merge needs a clause: call whenMatched, whenNotMatched or whenNotMatchedBySource.")
        plan = self._guard.catalyst.merging(
            quote(*parse_table_name(self._table_name(command.target_table_name))),
            relations.plan(command.source_table_plan),
            self._planner.expression(command.merge_condition),
            actions,
        )
        self._spark.change(plan, self._guard)

    def _check_may_change(self) -> None:
        if not self._changes:
            raise PermissionDenied("This token can only read: use one with the role write.")

    def _save(self, name: str, relation: pb.Relation, how: Save, **options: Any) -> None:
        self._check_may_change()
        save(self._lake, self._table_name(name), self._relations().frame(relation), how, **options)

    def _table_name(self, written: str) -> str:
        try:
            parts = self._guard.catalyst.parts_of(written).mkString("\0").split("\0")
        except PySparkException:
            parts = [written]
        if len(parts) == 3 and parts[0] == "moulin":
            parts = parts[1:]
        if len(parts) != 2:
            raise InvalidInput(f"Write the table as database.table, not {written!r}.")
        return full_name(*parts)


def local_relation(rows: pa.Table) -> pb.Relation:
    """A relation that has a few rows in it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    relation = pb.Relation()
    relation.local_relation.data = sink.getvalue().to_pybytes()
    return relation


def schema_message(frame: DataFrame) -> pb.DataType:
    return pyspark_types_to_proto_types(frame.schema)


def _relation_of(command: pb.SqlCommand) -> pb.Relation:
    if command.HasField("input"):
        return command.input
    fields = ("args", "pos_args", "named_arguments", "pos_arguments")
    if any(getattr(command, name) for name in fields):
        raise Unsupported("The client is older than this server: use a PySpark of the server's version.")
    relation = pb.Relation()
    relation.sql.query = command.sql
    return relation


def _arguments(sql: pb.SQL) -> Mapping[str, Any] | Sequence[Any] | None:
    value = LiteralExpression._to_value
    if sql.named_arguments or sql.args:
        named = {name: value(one.literal) for name, one in sql.named_arguments.items()}
        return {**{name: value(one) for name, one in sql.args.items()}, **named}
    ordered = [*(value(one) for one in sql.pos_args), *(value(one.literal) for one in sql.pos_arguments)]
    return ordered or None


def _text_of(condition: pb.Expression) -> str | None:
    """A condition as it was written; None for one that was made of columns."""
    if condition.WhichOneof("expr_type") == "expression_string":
        return condition.expression_string.expression
    return "true" if condition.literal.boolean else None


def _check_format(name: str) -> None:
    if name.lower() not in _OWN_FORMATS:
        raise Unsupported(f"Tables of the lake have one format: remove {name!r}.")
