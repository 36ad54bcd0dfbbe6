"""Statements about the session of one client: SET, CREATE TEMPORARY VIEW and DROP VIEW of such a view."""

# Decisions: docs/decisions/0282

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyspark.sql.connect.proto as pb
from pyspark.errors import ParseException

from moulin.errors import InvalidInput, Unsupported
from moulin.pipeline.connect.settings import Settings
from moulin.pipeline.sql.catalyst import Arguments, LogicalPlan, content, name_parts, refusal
from moulin.pipeline.sql.safe import SafeSql
from moulin.pipeline.statements.tokens import first_word

_WORDS = ("set", "create", "drop")


def run_own(
    guard: SafeSql,
    settings: Settings,
    create_view: Callable[[pb.CreateDataFrameViewCommand], None],
    text: str,
    args: Arguments | None,
) -> pa.Table | None:
    """Run a statement for the session, and return its rows; None for all other statements.

    `create_view` makes a temporary view, as clients do by a command of their own.
    """
    if first_word(text) not in _WORDS:
        return None
    try:
        plan = guard.parse(text, args)
    except ParseException as error:
        if first_word(text) == "set":
            raise InvalidInput(f"Spark rejects the statement: {refusal(error)}") from None
        return None  # it may be one of the lake's own
    match plan.nodeName():
        case "SetCommand":
            return _set(settings, plan)
        case "CreateViewCommand":
            return _create_view(create_view, plan)
        case "DropView":
            return _drop_view(guard, plan)
    return None


def _set(settings: Settings, plan: LogicalPlan) -> pa.Table:
    """SET key = value, SET key, SET TIME ZONE value"""
    pair = content(plan.kv())
    if pair is None:
        found = settings.all("")
        return pa.table({"key": list(found), "value": list(found.values())}, _PAIRS)
    key, value = str(pair._1()), content(pair._2())
    if value is not None:
        settings.set(key, str(value))
    return pa.table({"key": [key], "value": [settings.get(key)]}, _PAIRS)


def _create_view(create_view: Callable[[pb.CreateDataFrameViewCommand], None], plan: LogicalPlan) -> pa.Table:
    """CREATE [OR REPLACE] TEMPORARY VIEW v AS query"""
    if plan.viewType().toString() != "LocalTempView":
        raise Unsupported("Temporary views belong to one session: remove GLOBAL.")
    if plan.userSpecifiedColumns().length():
        raise Unsupported("A temporary view cannot have a list of columns: name them in the query.")
    command = pb.CreateDataFrameViewCommand(name=str(plan.name().table()), replace=bool(plan.replace()))
    command.input.sql.query = str(content(plan.originalText()))
    create_view(command)
    return _NOTHING


def _drop_view(guard: SafeSql, plan: LogicalPlan) -> pa.Table | None:
    """DROP VIEW v of a temporary view"""
    parts = name_parts(plan.child())
    return _NOTHING if parts is not None and len(parts) == 1 and guard.drop_view(parts[0]) else None


_PAIRS = pa.schema([("key", pa.string()), ("value", pa.string())])
_NOTHING = pa.table({})
