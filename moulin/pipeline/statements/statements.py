"""Which function runs which statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from moulin.pipeline.sql.catalyst import Arguments, Catalyst, LogicalPlan
from moulin.pipeline.sql.safe import SafeSql
from moulin.pipeline.statements.answer import Answer
from moulin.pipeline.statements.changes import truncate
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.views import (
    alter_view,
    create_view,
    drop_view,
    refuse_other_view,
    refuse_temporary_view,
    rename_view,
    set_view_properties,
    show_create_view,
    unset_view_properties,
)

Run = Callable[[Session, LogicalPlan], Answer]

STATEMENTS: Mapping[str, Run] = MappingProxyType(
    {
        "TruncateTable": truncate,
        "AlterViewAs": alter_view,
        "AlterViewSchemaBinding": refuse_other_view,
        "CreateMetricView": refuse_other_view,
        "CreateView": create_view,
        "CreateViewCommand": refuse_temporary_view,
        "CreateTempViewUsing": refuse_temporary_view,
        "DropView": drop_view,
        "RenameTable": rename_view,
        "SetViewProperties": set_view_properties,
        "ShowCreateTable": show_create_view,
        "UnsetViewProperties": unset_view_properties,
    }
)
"""By the name of the plan's class."""


def parse(parser: Catalyst | SafeSql, text: str, args: Arguments | None) -> LogicalPlan:
    """The plan of a statement."""
    return parser.parse(text, args)
