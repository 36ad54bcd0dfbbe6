"""Upkeep in SQL: CALL, OPTIMIZE, VACUUM, RESTORE, tags and indexes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from moulin.catalog.upkeep.gc import collect
from moulin.errors import AlreadyExists, InvalidInput
from moulin.pipeline.sql.catalyst import CATALOG, LogicalPlan, items, texts
from moulin.pipeline.statements.answer import Answer, counts, nothing, rows
from moulin.pipeline.statements.grammar import Own
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.spelling import column_named, parts_of, table_name
from moulin.table.compact.compaction import Compaction
from moulin.table.table import Table

_NUMBER = pa.int64()
_WHOLE = ("byte", "short", "integer", "long")
_KINDS = {str: "text", int: "a whole number", bool: "true or false"}


def call(session: Session, plan: LogicalPlan) -> Answer:
    """CALL [moulin.system.]name(arguments)"""
    *qualifier, name = (part.lower() for part in parts_of(plan.procedure()))
    procedure = _PROCEDURES.get(name) if qualifier in ([], ["system"], [CATALOG, "system"], [CATALOG]) else None
    if procedure is None:
        raise InvalidInput(f"There is no procedure {name!r}: there are {', '.join(_PROCEDURES)}.")
    parameters, run = procedure
    return run(session, **_arguments(name, parameters, items(plan.args())))


def optimize(session: Session, statement: Own) -> Answer:
    """OPTIMIZE t [FULL]"""
    return _compacted(_table(session, statement).compact(everything=statement.values["everything"]))


def vacuum(session: Session, statement: Own) -> Answer:
    """VACUUM"""
    return _gc(session)


def cleans_up(plan: LogicalPlan) -> bool:
    """Whether a statement deletes files of the whole lake."""
    if plan.nodeName() == "Call":
        return str(parts_of(plan.procedure())[-1]).lower() == "gc"
    return bool(plan.nodeName() == "Vacuum")


def restore_table(session: Session, statement: Own) -> Answer:
    """RESTORE TABLE t TO VERSION AS OF n"""
    return counts(_table(session, statement).restore(statement.values["version"]))


def create_tag(session: Session, statement: Own) -> Answer:
    """CREATE [OR REPLACE] TAG [IF NOT EXISTS] name ON t [AS OF VERSION n]"""
    table, values = _table(session, statement), statement.values
    if values["name"] in table.tags() and not values["replaces"]:
        if values["if_not_exists"]:
            return nothing()
        raise AlreadyExists(
            f"Table {table.name} already has a tag {values['name']!r}: use CREATE OR REPLACE TAG to move it."
        )
    table.tag(values["name"], values["version"])
    return nothing()


def drop_tag(session: Session, statement: Own) -> Answer:
    """DROP TAG [IF EXISTS] name ON t"""
    table, name = _table(session, statement), statement.values["name"]
    if name in table.tags() or not statement.values["if_exists"]:
        table.drop_tag(name)
    return nothing()


def create_index(session: Session, plan: LogicalPlan) -> Answer:
    """CREATE INDEX [IF NOT EXISTS] name ON t [USING kind] (column)"""
    table, columns = session.table(plan.table()), items(plan.columns())
    if len(columns) != 1 or texts(plan.properties()) or texts(columns[0]._2()):
        raise InvalidInput("An index has one column and no options: CREATE INDEX name ON database.table (column).")
    if plan.ignoreIfExists() and any(index.name == plan.indexName() for index in table.indexes()):
        return nothing()
    return _indexed(
        session, table, [str(part) for part in items(columns[0]._1().name())], plan.indexType(), plan.indexName()
    )


def create_unnamed_index(session: Session, statement: Own) -> Answer:
    """CREATE INDEX ON t [USING kind] (column)"""
    return _indexed(
        session, _table(session, statement), list(statement.values["column"]), statement.values["kind"], None
    )


def drop_index(session: Session, plan: LogicalPlan) -> Answer:
    """DROP INDEX [IF EXISTS] name ON t"""
    table = session.table(plan.table())
    if not plan.ignoreIfNotExists() or any(index.name == plan.indexName() for index in table.indexes()):
        table.drop_index(plan.indexName())
    return nothing()


def _indexed(session: Session, table: Table, column: list[str], kind: str, name: str | None) -> Answer:
    table.create_index(column_named(session, table.state().schema, column), kind or "btree", name)
    return nothing()


def _table(session: Session, statement: Own) -> Table:
    return session.named(table_name(statement.table))


def _named(session: Session, name: str) -> Table:
    parts = session.catalyst.parts_of(name)
    return session.named(table_name([str(part) for part in items(parts)]))


def _compact(session: Session, table: str, everything: bool = False) -> Answer:
    return _compacted(_named(session, table).compact(everything=everything))


def _compacted(done: Compaction) -> Answer:
    figures = asdict(done)
    return rows(dict.fromkeys(figures, _NUMBER), [tuple(figures.values())])


def _gc(session: Session) -> Answer:
    done = collect(session.lake.own_catalog())
    figures = {
        "purged_objects": len(done.purged),
        "expired_tables": len(done.expired),
        "trashed_files": len(done.trashed),
        "deleted_files": len(done.deleted),
        "deleted_bytes": done.bytes_deleted,
        "waiting_files": done.waiting,
        "failures": len(done.failures),
    }
    return rows(dict.fromkeys(figures, _NUMBER), [tuple(figures.values())])


def _restore(session: Session, table: str, version: int) -> Answer:
    return counts(_named(session, table).restore(version))


def _flush(session: Session, table: str) -> Answer:
    return rows({"version": _NUMBER}, [(_named(session, table).flush(),)])


Parameters = Mapping[str, tuple[type, bool]]
"""The type of each parameter, by name in their order, and whether it must be given."""

_PROCEDURES: Mapping[str, tuple[Parameters, Callable[..., Answer]]] = MappingProxyType(
    {
        "compact": ({"table": (str, True), "everything": (bool, False)}, _compact),
        "flush": ({"table": (str, True)}, _flush),
        "gc": ({}, _gc),
        "restore": ({"table": (str, True), "version": (int, True)}, _restore),
    }
)


def _arguments(procedure: str, parameters: Parameters, given: list[Any]) -> dict[str, Any]:
    """The values of the parameters of a procedure; by position first, then by name."""
    names, values = list(parameters), dict[str, Any]()
    usage = f"{procedure}({', '.join(names)})"
    for index, argument in enumerate(given):
        named = argument.nodeName() == "NamedArgumentExpression"
        name = argument.key().lower() if named else names[index] if index < len(names) else ""
        if name not in parameters or name in values:
            raise InvalidInput(f"The arguments do not match the procedure: call {usage}, each argument once.")
        values[name] = _literal(argument.value() if named else argument, name, parameters[name][0])
    for name, (_, required) in parameters.items():
        if required and name not in values:
            raise InvalidInput(f"The argument {name} is missing: call {usage}.")
    return values


def _literal(expression: Any, name: str, kind: type) -> Any:
    (first, *more) = json.loads(expression.toJSON())
    value = first.get("value")
    is_literal = first["class"].endswith(".Literal") and not more and value is not None
    if is_literal and kind is str and first["dataType"] == "string":
        return value
    if is_literal and kind is int and first["dataType"] in _WHOLE:
        return int(value)
    if is_literal and kind is bool and first["dataType"] == "boolean":
        return value == "true"
    raise InvalidInput(f"The argument {name} is {_KINDS[kind]}, written as such.")
