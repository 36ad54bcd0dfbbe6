"""Which function runs which statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from moulin.pipeline.sql.catalyst import Arguments, Catalyst, LogicalPlan
from moulin.pipeline.sql.safe import SafeSql
from moulin.pipeline.statements.answer import Answer
from moulin.pipeline.statements.changes import delete, merge, truncate, update
from moulin.pipeline.statements.inserts import insert
from moulin.pipeline.statements.session import Session

Run = Callable[[Session, LogicalPlan], Answer]

STATEMENTS: Mapping[str, Run] = MappingProxyType(
    {
        "DeleteFromTable": delete,
        "InsertIntoStatement": insert,
        "MergeIntoTable": merge,
        "TruncateTable": truncate,
        "UpdateTable": update,
    }
)
"""By the name of the plan's class."""


def parse(parser: Catalyst | SafeSql, text: str, args: Arguments | None) -> LogicalPlan:
    """The plan of a statement."""
    return parser.parse(text, args)
