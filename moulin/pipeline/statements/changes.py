"""Statements that change rows."""

from __future__ import annotations

from moulin.pipeline.sql.catalyst import LogicalPlan
from moulin.pipeline.statements.answer import Answer, counts
from moulin.pipeline.statements.session import Session


def truncate(session: Session, plan: LogicalPlan) -> Answer:
    """TRUNCATE TABLE t."""
    return counts(session.table(plan.table()).overwrite([]))
