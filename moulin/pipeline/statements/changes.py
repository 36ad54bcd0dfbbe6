"""Statements that change rows: TRUNCATE, DELETE, UPDATE and MERGE. INSERT is in inserts.py.

Spark resolves the statement over a frame of the table's rows. What it asks for becomes a frame of edits: the number of
a clause, the segment and position of the row it is about, and the values that the clause gives. Spark's tasks write the
edits as segments, and the driver commits once (`moulin/table/edit`).
"""

# Decisions: docs/decisions/0248

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from moulin.errors import InvalidInput
from moulin.model.entities import TableState
from moulin.model.schema.schema import key_names
from moulin.pipeline.sql.catalyst import Catalyst, LogicalPlan, items
from moulin.pipeline.statements.answer import Answer, counts
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.targets import Planned, Statement, Target
from moulin.table.edit.edits import Action, Edits

_FROM_SOURCE = "_moulin_source"


def truncate(session: Session, plan: LogicalPlan) -> Answer:
    """TRUNCATE TABLE t."""
    return counts(session.table(plan.table()).overwrite([]))


def delete(session: Session, plan: LogicalPlan) -> Answer:
    """DELETE FROM t WHERE condition."""
    statement = Statement(session, plan, plan.table())

    def compute(state: TableState) -> Edits:
        target, found = statement.resolve(state, plan.condition())
        rows = target.over(session.catalyst.filtered(target.plan, found.condition()))
        return rows.edits([Planned(Action.DELETE)])

    return statement.run("DELETE", compute)


def update(session: Session, plan: LogicalPlan) -> Answer:
    """UPDATE t SET column = expression, ... WHERE condition."""
    statement = Statement(session, plan, plan.table())
    condition = plan.condition()

    def compute(state: TableState) -> Edits:
        target, found = statement.resolve(state, condition.get() if condition.isDefined() else None)
        read = target.plan
        if found.condition().isDefined():
            read = session.catalyst.filtered(read, found.condition().get())
        values = session.catalyst.update_values(target.attributes, found, all_by_name=False)
        clause = _keeping_key(session.catalyst, target, Planned(Action.UPDATE, values))
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
        needs_all = bool(items(plan.notMatchedBySourceActions()))
        target, found = statement.resolve(state, None if needs_all else plan.mergeCondition())
        return _merged(session.catalyst, target, found)

    return statement.run("MERGE", compute)


def _merged(catalyst: Catalyst, target: Target, found: LogicalPlan) -> Edits:
    """The edits of MERGE: a join that keeps the rows which some clause is for."""
    matched, not_matched = items(found.matchedActions()), items(found.notMatchedActions())
    by_source = items(found.notMatchedBySourceActions())
    source = catalyst.run(found.sourceTable()).withColumn(_FROM_SOURCE, F.lit(True))
    marked = source._jdf.queryExecution().analyzed()
    condition = found.mergeCondition()
    if by_source:
        kind = "full_outer" if not_matched else "left_outer"
        joined = catalyst.joined(target.plan, marked, kind, condition)
    elif not_matched:
        joined = catalyst.joined(marked, target.plan, "left_outer", condition)
    else:
        joined = catalyst.joined(marked, target.plan, "inner", condition)
    from_source = catalyst.column(items(marked.output())[-1]).isNotNull()
    from_target = target.place()[1].isNotNull()
    clauses = [
        _clause(catalyst, target, action, held)
        for actions, held in (
            (matched, from_target & from_source),
            (not_matched, ~from_target),
            (by_source, ~from_source),
        )
        for action in actions
    ]
    return target.over(joined).edits(clauses)


def _clause(catalyst: Catalyst, target: Target, action: LogicalPlan, held: Column) -> Planned:
    name = action.nodeName()
    asked = action.condition()
    chosen = held & F.coalesce(catalyst.column(asked.get()), F.lit(False)) if asked.isDefined() else held
    if name == "DeleteAction":
        return Planned(Action.DELETE, {}, chosen)
    if name == "UpdateAction":
        values = catalyst.update_values(target.attributes, action, all_by_name=bool(action.fromStar()))
        return _keeping_key(catalyst, target, Planned(Action.UPDATE, values, chosen))
    return Planned(Action.INSERT, catalyst.insert_values(target.attributes, action), chosen)


def _keeping_key(catalyst: Catalyst, target: Target, clause: Planned) -> Planned:
    """An update that gives no column of the key: it fails for rows in which the key would be another one."""
    key = [name for name in key_names(target.state.schema) if name in clause.values]
    if not key:
        return clause
    attributes = {attribute.name(): attribute for attribute in target.attributes}
    same = reduce(
        Column.__and__,
        (catalyst.column(clause.values[name]).eqNullSafe(catalyst.column(attributes[name])) for name in key),
    )
    refused = F.raise_error(
        F.lit(
            f"{', '.join(key)} is part of the key of {target.state.full_name} and cannot be updated: delete the row "
            "and insert it under its new key"
        )
    ).cast("boolean")
    kept = F.when(same, F.lit(True)).otherwise(refused)
    chosen = kept if clause.chosen is None else F.when(clause.chosen, kept).otherwise(F.lit(False))
    values = {name: value for name, value in clause.values.items() if name not in key}
    return Planned(clause.action, values, chosen)
