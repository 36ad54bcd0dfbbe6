"""CREATE, REPLACE, DROP, UNDROP and RENAME of tables."""

# Decisions: docs/decisions/0250, 0291

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from moulin.errors import AlreadyExists, InvalidInput, NotFound
from moulin.model.names import full_name
from moulin.pipeline.sql.catalyst import LogicalPlan, items
from moulin.pipeline.sql.names import Reference
from moulin.pipeline.statements.answer import Answer, counts, nothing
from moulin.pipeline.statements.columns import defined_column, result_columns
from moulin.pipeline.statements.definitions import Definition, definition_of
from moulin.pipeline.statements.grammar import Own, WithKey
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.spelling import parts_of, table_named
from moulin.pipeline.statements.views import rename_view


def create(session: Session, plan: LogicalPlan, key: Sequence[str] = ()) -> Answer:
    """CREATE TABLE [IF NOT EXISTS] t (...) ..."""
    reference = _target(session, plan)
    definition = _defined(session, plan, key)
    if _exists(session, reference):
        if plan.ignoreIfExists():
            return nothing()
        raise AlreadyExists(f"Table {_full(reference)} already exists.")
    definition.create(session, reference)
    return nothing()


def create_as(session: Session, plan: LogicalPlan, key: Sequence[str] = ()) -> Answer:
    """CREATE TABLE [IF NOT EXISTS] t ... AS SELECT ..."""
    reference = _target(session, plan)
    if _exists(session, reference):
        if plan.ignoreIfExists():
            return nothing()
        raise AlreadyExists(f"Table {_full(reference)} already exists.")
    return _filled(session, plan, key, reference, replaces=False)


def replace_table(session: Session, plan: LogicalPlan, key: Sequence[str] = ()) -> Answer:
    """[CREATE OR] REPLACE TABLE t (...) ..."""
    reference = _target(session, plan)
    _check_replaceable(session, reference, or_create=plan.orCreate())
    _defined(session, plan, key).create(session, reference, replace=True)
    return nothing()


def replace_as(session: Session, plan: LogicalPlan, key: Sequence[str] = ()) -> Answer:
    """[CREATE OR] REPLACE TABLE t ... AS SELECT ..."""
    reference = _target(session, plan)
    _check_replaceable(session, reference, or_create=plan.orCreate())
    return _filled(session, plan, key, reference, replaces=True)


def with_key(session: Session, plan: WithKey) -> Answer:
    """Any of the above with PRIMARY KEY (...) beside the columns."""
    run = _WITH_KEY.get(plan.plan.nodeName())
    if run is None:
        raise InvalidInput("PRIMARY KEY can only be used in CREATE TABLE: remove it here.")
    return run(session, plan.plan, plan.columns)


def drop(session: Session, plan: LogicalPlan) -> Answer:
    """DROP TABLE [IF EXISTS] t [PURGE]"""
    reference = table_named(session, parts_of(plan.child()))
    if not _exists(session, reference):
        _refuse_view(session, reference, "DROP VIEW")
        if plan.ifExists():
            return nothing()
        raise NotFound(f"Table {_full(reference)} does not exist.")
    session.lake.drop_table(_full(reference), immediate=plan.purge())
    return nothing()


def undrop(session: Session, statement: Own) -> Answer:
    """UNDROP TABLE t"""
    reference = table_named(session, statement.table)
    if _exists(session, reference):
        raise AlreadyExists(f"Table {_full(reference)} already exists: rename it to restore the dropped one.")
    session.lake.resurrect_table(_full(reference))
    return nothing()


def rename(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER TABLE t RENAME TO u"""
    if plan.isView():
        return rename_view(session, plan)
    old = table_named(session, parts_of(plan.child()))
    new = table_named(session, [str(part) for part in items(plan.newName())])
    _refuse_view(session, old, "ALTER VIEW")
    session.lake.rename_table(_full(old), _full(new))
    return nothing()


_WITH_KEY: Mapping[str, Callable[[Session, LogicalPlan, Sequence[str]], Answer]] = MappingProxyType(
    {
        "CreateTable": create,
        "CreateTableAsSelect": create_as,
        "ReplaceTable": replace_table,
        "ReplaceTableAsSelect": replace_as,
    }
)


def _target(session: Session, plan: LogicalPlan) -> Reference:
    return table_named(session, parts_of(plan.name()))


def _full(reference: Reference) -> str:
    return full_name(reference.database, reference.name)


def _exists(session: Session, reference: Reference) -> bool:
    return any(table.name == reference.name for table in session.lake.tables(reference.database))


def _refuse_view(session: Session, reference: Reference, instead: str) -> None:
    if any(view.name == reference.name for view in session.lake.views(reference.database)):
        raise InvalidInput(f"{_full(reference)} is a view: use {instead}.")


def _check_replaceable(session: Session, reference: Reference, *, or_create: bool) -> None:
    _refuse_view(session, reference, "CREATE OR REPLACE VIEW")
    if not or_create and not _exists(session, reference):
        raise NotFound(f"Table {_full(reference)} does not exist: use CREATE OR REPLACE TABLE.")


def _defined(session: Session, plan: LogicalPlan, key: Sequence[str]) -> Definition:
    columns = [defined_column(session, definition) for definition in items(plan.columns())]
    return definition_of(session, plan, columns, key)


def _filled(session: Session, plan: LogicalPlan, key: Sequence[str], reference: Reference, *, replaces: bool) -> Answer:
    """Make a table of the rows of a query, which runs once."""
    frame = session.query(plan.query())
    definition = definition_of(session, plan, result_columns(frame.schema), key)
    return counts(definition.create(session, reference, frame, replace=replaces))
