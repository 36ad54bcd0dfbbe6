"""Statements that change rows: TRUNCATE, DELETE, UPDATE and MERGE. INSERT is in inserts.py.

Spark resolves the statement over a frame of the table's rows. What it asks for becomes a frame of edits: the number of
a clause, the segment and position of the row it is about, and the values that the clause gives. Spark's tasks write the
edits as segments, and the driver commits once (`moulin/table/edit`).
"""

# Decisions: docs/decisions/0248

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from moulin.errors import InvalidInput
from moulin.model.entities import TableState
from moulin.pipeline.sql.catalyst import Expression, LogicalPlan, content
from moulin.pipeline.statements.answer import Answer, counts
from moulin.pipeline.statements.clauses import keeping_key
from moulin.pipeline.statements.in_process import edits_here
from moulin.pipeline.statements.merging import merged
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.targets import Planned, Statement, Target
from moulin.table.edit.edits import Action, Edits

_Chosen: TypeAlias = tuple[Target, Expression | None, Planned]
"""The table to change, the condition for its rows, if there is one, and the clause for these rows."""


def truncate(session: Session, plan: LogicalPlan) -> Answer:
    """TRUNCATE TABLE t."""
    return counts(session.table(plan.table()).overwrite([]))


def delete(session: Session, plan: LogicalPlan) -> Answer:
    """DELETE FROM t WHERE condition."""
    statement = Statement(session, plan, plan.table())

    def chosen(state: TableState) -> _Chosen:
        target, found = statement.resolve(state)
        return target, found.condition(), Planned(Action.DELETE)

    return _changed(statement, "DELETE", chosen)


def update(session: Session, plan: LogicalPlan) -> Answer:
    """UPDATE t SET column = expression, ... WHERE condition."""
    statement = Statement(session, plan, plan.table())

    def chosen(state: TableState) -> _Chosen:
        target, found = statement.resolve(state)
        values = session.catalyst.update_values(target.attributes, found, all_by_name=False)
        clause = keeping_key(session.catalyst, target, Planned(Action.UPDATE, values))
        return target, content(found.condition()), clause

    return _changed(statement, "UPDATE", chosen)


def _changed(statement: Statement, name: str, chosen: Callable[[TableState], _Chosen]) -> Answer:
    """Run a statement of one clause: in this process where that is known to do the same, else on Spark.

    Spark also computes what fails here: it may know how to go on, and otherwise says what is wrong in its own words.
    """
    here = True

    def compute(state: TableState) -> Edits:
        nonlocal here
        target, condition, clause = chosen(state)
        edits = edits_here(target, condition, clause) if here else None
        here = edits is not None
        if edits is not None:
            return edits
        rows = target.plan if condition is None else target.catalyst.filtered(target.plan, condition)
        return target.over(rows).edits([clause])

    try:
        return statement.run(name, compute)
    except InvalidInput:
        if not here:
            raise
    here = False
    return statement.run(name, compute)


def merge(session: Session, plan: LogicalPlan) -> Answer:
    """MERGE INTO t USING s ON condition WHEN ... THEN ..."""
    if plan.withSchemaEvolution():
        raise InvalidInput("MERGE can only set existing columns: add new ones with ALTER TABLE ... ADD COLUMN first.")
    statement = Statement(session, plan, plan.targetTable())

    def compute(state: TableState) -> Edits:
        target, found = statement.resolve(state)
        return merged(session.catalyst, target, found)

    return statement.run("MERGE", compute)
