"""Allow lists of Spark Connect messages and fields: everything else is rejected.

Messages are checked before anything reads them. Allowed messages are planned by Spark without running anything, and
then the plan is checked again (`pipeline/sql/safe.py`) for functions, tables and hints.
"""

# Decisions: docs/decisions/0265

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

import pyspark.sql.connect.proto as pb
from google.protobuf.message import Message

from moulin.errors import InvalidInput, PermissionDenied, Unsupported
from moulin.pipeline.connect.client_rows import check_rows
from moulin.pipeline.sql.safe import MAX_CASES, MAX_LIST, MAX_PARTITIONS, check_text, too_many_cases

MAX_MESSAGES: Final = 50_000
"""The most messages in one: each becomes a part of a plan that is checked."""

_PACKAGE = "spark.connect."
_FIELDS = """
Relation: common read project filter join set_op sort limit aggregate sql local_relation sample offset deduplicate range
Relation: subquery_alias repartition to_df with_columns_renamed show_string drop tail with_columns hint unpivot
Relation: to_schema repartition_by_expression html_string with_relations unresolved_table_valued_function lateral_join
Relation: fill_na drop_na replace summary crosstab describe cov corr approx_quantile freq_items catalog
RelationCommon: source_info plan_id origin
Origin: python_origin jvm_origin
PythonOrigin: fragment call_site
JvmOrigin: line start_position start_index stop_index sql_text object_type object_name stack_trace
StackTraceElement: class_loader_name module_name module_version declaring_class method_name file_name line_number
Read: named_table
Read.NamedTable: unparsed_identifier
Project: input expressions
Filter: input condition
Join: left right join_condition join_type using_columns
SetOperation: left_input right_input set_op_type is_all by_name allow_missing_columns
Sort: input order is_global
Limit: input limit
Offset: input offset
Tail: input limit
Aggregate: input group_type grouping_expressions aggregate_expressions pivot grouping_sets
Aggregate.Pivot: col values
Aggregate.GroupingSets: grouping_set
SQL: query args pos_args named_arguments pos_arguments
LocalRelation: data schema
Sample: input lower_bound upper_bound with_replacement seed
Deduplicate: input column_names all_columns_as_keys
Range: start end step num_partitions
SubqueryAlias: input alias qualifier
Repartition: input num_partitions shuffle
RepartitionByExpression: input partition_exprs num_partitions
ToDF: input column_names
WithColumns: input aliases
WithColumnsRenamed: input rename_columns_map renames
WithColumnsRenamed.Rename: col_name new_col_name
Drop: input columns column_names
Hint: input name parameters
Unpivot: input ids values variable_column_name value_column_name
Unpivot.Values: values
ToSchema: input schema
WithRelations: root references
UnresolvedTableValuedFunction: function_name arguments
LateralJoin: left right join_condition join_type
ShowString: input num_rows truncate vertical
HtmlString: input num_rows truncate
NAFill: input cols values
NADrop: input cols min_non_nulls
NAReplace: input cols replacements
NAReplace.Replacement: old_value new_value
StatSummary: input statistics
StatDescribe: input cols
StatCrosstab: input col1 col2
StatCov: input col1 col2
StatCorr: input col1 col2 method
StatApproxQuantile: input cols probabilities relative_error
StatFreqItems: input cols support
Catalog: current_database list_databases list_tables list_columns get_database get_table database_exists table_exists
Catalog: drop_temp_view current_catalog list_catalogs list_views set_current_catalog
CurrentDatabase:
CurrentCatalog:
SetCurrentCatalog: catalog_name
ListCatalogs: pattern
ListDatabases: pattern
ListTables: db_name pattern
ListViews: db_name pattern
ListColumns: table_name db_name
GetDatabase: db_name
GetTable: table_name db_name
DatabaseExists: db_name
TableExists: table_name db_name
DropTempView: view_name
Expression: common literal unresolved_attribute unresolved_function expression_string unresolved_star alias cast
Expression: unresolved_regex sort_order lambda_function window unresolved_extract_value update_fields
Expression: unresolved_named_lambda_variable call_function named_argument_expression merge_action
ExpressionCommon: origin
Expression.Window: window_function partition_spec order_spec frame_spec
Expression.Window.WindowFrame: frame_type lower upper
Expression.Window.WindowFrame.FrameBoundary: current_row unbounded value
Expression.SortOrder: child direction null_ordering
Expression.Cast: expr type type_str eval_mode
Expression.Literal: null binary boolean byte short integer long float double decimal string date timestamp timestamp_ntz
Expression.Literal: calendar_interval year_month_interval day_time_interval array map struct specialized_array time
Expression.Literal: timestamp_ntz_nanos timestamp_ltz_nanos data_type
Expression.Literal.Decimal: value precision scale
Expression.Literal.CalendarInterval: months days microseconds
Expression.Literal.Array: element_type elements
Expression.Literal.Map: key_type value_type keys values
Expression.Literal.Struct: struct_type elements
Expression.Literal.SpecializedArray: bools ints longs floats doubles strings
Expression.Literal.Time: nano precision
Expression.Literal.TimestampNTZNanos: epoch_micros nanos_within_micro precision
Expression.Literal.TimestampLTZNanos: epoch_micros nanos_within_micro precision
Bools: values
Ints: values
Longs: values
Floats: values
Doubles: values
Strings: values
Expression.UnresolvedAttribute: unparsed_identifier plan_id
Expression.UnresolvedFunction: function_name arguments is_distinct
Expression.ExpressionString: expression
Expression.UnresolvedStar: unparsed_target plan_id
Expression.UnresolvedRegex: col_name plan_id
Expression.UnresolvedExtractValue: child extraction
Expression.UpdateFields: struct_expression field_name value_expression
Expression.Alias: expr name
Expression.LambdaFunction: function arguments
Expression.UnresolvedNamedLambdaVariable: name_parts
CallFunction: function_name arguments
NamedArgumentExpression: key value
MergeAction: action_type condition assignments
MergeAction.Assignment: key value
Command: sql_command create_dataframe_view write_operation write_operation_v2 merge_into_table_command
MergeIntoTableCommand: target_table_name source_table_plan merge_condition match_actions not_matched_actions
MergeIntoTableCommand: not_matched_by_source_actions
SqlCommand: sql args pos_args named_arguments pos_arguments input
CreateDataFrameViewCommand: input name replace
WriteOperation: input source table mode partitioning_columns
WriteOperation.SaveTable: table_name save_method
WriteOperationV2: input table_name provider partitioning_columns table_properties mode overwrite_condition
"""
_TYPES = "DataType."
_FOREIGN_CODE = "this server runs no code of its clients: write it with Spark's own functions"
_FILES = "clients reach the tables of the lake alone: neither files nor other sources of rows"
_STREAMS = 'this server does not stream: read the change feed with format("moulin") in a session of your own'
_ASK_TABLE = "it is of Spark's own catalog: use SQL over tables of the lake"
_REASONS: Mapping[str, str] = {
    "Read.data_source": _FILES,
    "Read.is_streaming": _STREAMS,
    "Read.NamedTable.options": "tables of the lake take no options",
    "Relation.map_partitions": _FOREIGN_CODE,
    "Relation.group_map": _FOREIGN_CODE,
    "Relation.co_group_map": _FOREIGN_CODE,
    "Relation.apply_in_pandas_with_state": _FOREIGN_CODE,
    "Relation.common_inline_user_defined_table_function": _FOREIGN_CODE,
    "Relation.common_inline_user_defined_data_source": _FOREIGN_CODE,
    "Relation.parse": "use from_json or from_csv in a query",
    "Relation.cached_local_relation": "send fewer rows at a time",
    "Relation.chunked_cached_local_relation": "send fewer rows at a time",
    "Relation.cached_remote_relation": "save the rows as a table instead of a checkpoint",
    "Relation.with_watermark": _STREAMS,
    "Relation.relation_changes": "use table_changes(...) or table.changes(...)",
    "Relation.ml_relation": _FOREIGN_CODE,
    "Expression.common_inline_user_defined_function": _FOREIGN_CODE,
    "Expression.typed_aggregate_expression": _FOREIGN_CODE,
    "Expression.subquery_expression": "write the sub-query in SQL",
    "Expression.UnresolvedAttribute.is_metadata_column": "hidden columns that describe files are not shown",
    "Command.register_function": _FOREIGN_CODE,
    "Command.register_table_function": _FOREIGN_CODE,
    "Command.register_data_source": _FOREIGN_CODE,
    "Command.ml_command": _FOREIGN_CODE,
    "Command.pipeline_command": _FOREIGN_CODE,
    "Command.execute_external_command": "this server runs no programs",
    "Command.write_stream_operation_start": _STREAMS,
    "Command.streaming_query_command": _STREAMS,
    "Command.streaming_query_manager_command": _STREAMS,
    "Command.streaming_query_listener_bus_command": _STREAMS,
    "Command.checkpoint_command": "save the rows as a table instead",
    "MergeIntoTableCommand.with_schema_evolution": "add new columns with ALTER TABLE ... ADD COLUMN first",
    "Catalog.set_current_database": "there is no current database: write tables as database.table",
    "CreateDataFrameViewCommand.is_global": "clients do not see one another's views: leave out global",
    "WriteOperation.path": _FILES,
}


def _parsed(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in text.strip().splitlines():
        name, _, fields = line.partition(":")
        found.setdefault(f"{_PACKAGE}{name}", set()).update(fields.split())
    return {name: frozenset(fields) for name, fields in found.items()}


_ALLOWED = _parsed(_FIELDS)


def check(message: Message) -> None:
    """Reject a message that has, at any depth, a field that is not on the lists or a value out of range.

    Raises PermissionDenied, Unsupported or InvalidInput.
    """
    _check(message, count())


def _check(message: Message, counted: Iterator[int], cases: int = 0) -> None:
    if next(counted) > MAX_MESSAGES:
        raise InvalidInput("The query has too many parts: put values into a table, and join it.")
    name = message.DESCRIPTOR.full_name
    short = name.removeprefix(_PACKAGE)
    if isinstance(message, pb.Expression.UnresolvedFunction) and message.function_name.lower() == "when":
        cases += 1
        if cases > MAX_CASES:
            raise too_many_cases()
    for field, value in message.ListFields():
        if _is_unset(field, value):
            continue
        if not _is_allowed(name, field.name):
            raise _refusal(f"{short}.{field.name}")
        if field.is_repeated and field.message_type is not None and len(value) > MAX_LIST:
            raise InvalidInput(f"A query can list at most {MAX_LIST} values: put them into a table, and join it.")
        for part in _messages(field, value):
            _check(part, counted, cases)
    bounds = _BOUNDS.get(short)
    if bounds is not None:
        bounds(message)


def _is_allowed(message: str, field: str) -> bool:
    short = message.removeprefix(_PACKAGE)
    if short == "DataType" or short.startswith(_TYPES):
        return field != "udt"
    return field in _ALLOWED.get(message, ())


def _is_unset(field: Any, value: Any) -> bool:
    """Whether a field has the value that it would have if it was left out."""
    return field.message_type is None and not field.is_repeated and value == field.default_value


def _messages(field: Any, value: Any) -> Iterator[Message]:
    if field.message_type is None:
        return
    if field.message_type.GetOptions().map_entry:
        yield from (part for part in value.values() if isinstance(part, Message))
    elif field.is_repeated:
        yield from value
    else:
        yield value


def _refusal(field: str) -> Exception:
    reason = _REASONS.get(field)
    if reason is None and field.startswith("Catalog."):
        reason = _ASK_TABLE
    if reason is None:
        return Unsupported(f"This server does not support {field} of Spark Connect: use SQL over tables of the lake.")
    return PermissionDenied(f"This server does not support {field} of Spark Connect: {reason}.")


def _check_pivot(pivot: Any) -> None:
    if not pivot.values:
        raise InvalidInput("Give the values of the pivot: pivot(column, [value, ...]).")


def _check_partitions(message: Any) -> None:
    if message.num_partitions > MAX_PARTITIONS:
        raise InvalidInput(f"Use at most {MAX_PARTITIONS} partitions, not {message.num_partitions}.")


def check_schema(text: str) -> None:
    """Reject a JSON schema with Java class names. Other errors are found when it is read."""
    if "{" not in text:
        return

    def pairs(found: list[tuple[str, Any]]) -> None:
        if ("type", "udt") in found:
            raise PermissionDenied("Columns must have Spark's own types, not user-defined types.")

    try:
        json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        raise InvalidInput("The schema is not valid JSON.") from None


def _check_rows(relation: Any) -> None:
    check_schema(relation.schema)
    check_rows(relation.data)


def _check_expression(message: Any) -> None:
    check_text(message.expression)


def _check_arguments(sql: Any) -> None:
    """Parameters are evaluated before the query is checked, so that they are plain values."""
    check_text(sql.query if isinstance(sql, pb.SQL) else sql.sql)
    for value in (*sql.named_arguments.values(), *sql.pos_arguments):
        if value.WhichOneof("expr_type") != "literal":
            raise PermissionDenied("The args of a query must be plain values, not expressions.")


def _check_with_relations(message: Any) -> None:
    if message.root.WhichOneof("rel_type") != "sql" or any(
        one.WhichOneof("rel_type") != "subquery_alias" for one in message.references
    ):
        raise Unsupported("This server supports sub-queries only in SQL: write the query as SQL.")


_BOUNDS = {
    "Aggregate.Pivot": _check_pivot,
    "Expression.ExpressionString": _check_expression,
    "LocalRelation": _check_rows,
    "Range": _check_partitions,
    "Repartition": _check_partitions,
    "RepartitionByExpression": _check_partitions,
    "SQL": _check_arguments,
    "SqlCommand": _check_arguments,
    "WithRelations": _check_with_relations,
}

__all__ = ["check", "check_schema"]
