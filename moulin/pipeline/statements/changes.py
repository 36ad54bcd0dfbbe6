"""Statements that change rows: TRUNCATE, DELETE, UPDATE and MERGE. INSERT is in inserts.py.

Spark resolves the statement over a frame of the table's rows. What it asks for becomes a frame of edits: the number of
a clause, the segment and position of the row it is about, and the values that the clause gives. Spark's tasks write the
edits as segments, and the driver commits once (`moulin/table/edit`).
"""

# Decisions: docs/decisions/0248

from __future__ import annotations

from moulin.errors import InvalidInput
from moulin.model.entities import TableState
from moulin.pipeline.sql.catalyst import LogicalPlan
from moulin.pipeline.statements.answer import Answer, counts
from moulin.pipeline.statements.clauses import keeping_key
from moulin.pipeline.statements.merging import merged
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.targets import Planned, Statement
from moulin.table.edit.edits import Action, Edits


def truncate(session: Session, plan: LogicalPlan) -> Answer:
    """TRUNCATE TABLE t."""
    return counts(session.table(plan.table()).overwrite([]))


def delete(session: Session, plan: LogicalPlan) -> Answer:
    """DELETE FROM t WHERE condition."""
    statement = Statement(session, plan, plan.table())

    def compute(state: TableState) -> Edits:
        target, found = statement.resolve(state)
        rows = target.over(session.catalyst.filtered(target.plan, found.condition()))
        return rows.edits([Planned(Action.DELETE)])

    return statement.run("DELETE", compute)


def update(session: Session, plan: LogicalPlan) -> Answer:
    """UPDATE t SET column = expression, ... WHERE condition."""
    statement = Statement(session, plan, plan.table())

    def compute(state: TableState) -> Edits:
        target, found = statement.resolve(state)
        read = target.plan
        if found.condition().isDefined():
            read = session.catalyst.filtered(read, found.condition().get())
        values = session.catalyst.update_values(target.attributes, found, all_by_name=False)
        clause = keeping_key(session.catalyst, target, Planned(Action.UPDATE, values))
        return target.over(read).edits([clause])

    return statement.run("UPDATE", compute)


def merge(session: Session, plan: LogicalPlan) -> Answer:
    """MERGE INTO t USING s ON condition WHEN ... THEN ..."""
    if plan.withSchemaEvolution():
        raise InvalidInput(
            "MERGE takes columns that the table has: add new ones with ALTER TABLE ... ADD COLUMN first."
        )
    statement = Statement(session, plan, plan.targetTable())

    def compute(state: TableState) -> Edits:
        target, found = statement.resolve(state)
        return merged(session.catalyst, target, found)

    return statement.run("MERGE", compute)
