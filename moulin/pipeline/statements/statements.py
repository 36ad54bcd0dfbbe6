"""Maps statements to the functions that run them."""

# Decisions: docs/decisions/0250

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from moulin.errors import InvalidInput
from moulin.pipeline.sql.catalyst import Arguments, Catalyst, LogicalPlan, on_branches
from moulin.pipeline.sql.safe import SafeSql
from moulin.pipeline.statements import alter, calls, databases, describe, grammar, show, tables
from moulin.pipeline.statements.answer import Answer
from moulin.pipeline.statements.changes import delete, merge, truncate, update
from moulin.pipeline.statements.inserts import insert
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.views import (
    alter_view,
    create_view,
    drop_view,
    refuse_other_view,
    refuse_temporary_view,
    set_view_properties,
    unset_view_properties,
)

Run = Callable[[Session, Any], Answer]

STATEMENTS: Mapping[str, Run] = MappingProxyType(
    {
        "DeleteFromTable": delete,
        "InsertIntoStatement": insert,
        "MergeIntoTable": merge,
        "TruncateTable": truncate,
        "UpdateTable": update,
        "CreateTable": tables.create,
        "CreateTableAsSelect": tables.create_as,
        "ReplaceTable": tables.replace_table,
        "ReplaceTableAsSelect": tables.replace_as,
        "WithKey": tables.with_key,
        "DropTable": tables.drop,
        "UndropTable": tables.undrop,
        "RenameTable": tables.rename,
        "AddColumns": alter.add_columns,
        "DropColumns": alter.drop_columns,
        "RenameColumn": alter.rename_column,
        "AlterColumns": alter.alter_columns,
        "ReplaceColumns": alter.replace_columns,
        "AddConstraint": alter.change_constraint,
        "DropConstraint": alter.change_constraint,
        "SetTableProperties": alter.set_properties,
        "UnsetTableProperties": alter.unset_properties,
        "CommentOnTable": alter.comment_on_table,
        "AlterTableClusterBy": alter.cluster_by,
        "WriteOrder": alter.write_order,
        "PartitionField": alter.partition_field,
        "CreateNamespace": databases.create,
        "DropNamespace": databases.drop,
        "CommentOnNamespace": databases.comment,
        "SetNamespaceProperties": databases.set_properties,
        "ShowCatalogsCommand": show.catalogs,
        "ShowNamespacesCommand": show.databases,
        "ShowTables": show.tables,
        "ShowTablesExtended": show.tables_extended,
        "ShowViews": show.views,
        "ShowCreateTable": show.create_table,
        "ShowColumns": show.columns,
        "ShowTableProperties": show.properties,
        "ShowPartitions": show.partitions,
        "DescribeRelation": describe.table,
        "DescribeColumn": describe.column,
        "DescribeHistory": describe.history,
        "DescribeNamespace": describe.database,
        "Call": calls.call,
        "Optimize": calls.optimize,
        "Vacuum": calls.vacuum,
        "RestoreTable": calls.restore_table,
        "CreateTag": calls.create_tag,
        "DropTag": calls.drop_tag,
        "CreateIndex": calls.create_index,
        "CreateUnnamedIndex": calls.create_unnamed_index,
        "DropIndex": calls.drop_index,
        "AlterViewAs": alter_view,
        "AlterViewSchemaBinding": refuse_other_view,
        "CreateMetricView": refuse_other_view,
        "CreateView": create_view,
        "CreateViewCommand": refuse_temporary_view,
        "CreateTempViewUsing": refuse_temporary_view,
        "DropView": drop_view,
        "SetViewProperties": set_view_properties,
        "UnsetViewProperties": unset_view_properties,
    }
)
"""By the name of the plan's class, or of the kind of statement of our own grammar."""

HARMLESS = frozenset(name for name in STATEMENTS if name.startswith(("Show", "Describe")))
"""Statements that change nothing and show the lake's own objects alone: safe queries may run them."""


def parse(parser: Catalyst | SafeSql, text: str, args: Arguments | None) -> LogicalPlan:
    """The plan of a statement."""
    text = on_branches(text)
    own = grammar.read(text)
    if own is None:
        return parser.parse(text, args)
    if isinstance(own, grammar.KeyClause):
        return grammar.WithKey(parser.parse(own.rest, args), own.columns)
    if args:
        raise InvalidInput("This statement cannot have args: write the values into it.")
    return own
