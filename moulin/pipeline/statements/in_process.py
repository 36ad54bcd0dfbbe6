"""DELETE and UPDATE whose expressions our own kernels compute as Spark does: this process finds and writes their rows.

Spark resolves the statement and folds its constants. Then no job of Spark is needed.
"""

# Decisions: docs/decisions/0294

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from moulin.model.assignments import Assignments
from moulin.model.predicate import Predicate
from moulin.pipeline.sql.catalyst import Expression, items
from moulin.pipeline.sql.exact import Inexact, exact_condition, exact_value
from moulin.pipeline.statements.targets import Planned, Target
from moulin.table.edit.edits import Edits, EditSlices
from moulin.table.edit.slices import cut, segments_for
from moulin.table.edit.update import UpdateSlice


def edits_here(target: Target, condition: Expression | None, clause: Planned) -> Edits | None:
    """The edits of a clause for the rows of the target for which a condition is true, or for all of them.

    None when Spark has to compute them: what they mean is not known here, or there is much to read.
    """
    context, state, catalyst = target.session.lake.context, target.state, target.catalyst
    if clause.chosen is not None or not context.config.sql_local_bytes:
        return None
    plan = target.plan if condition is None else catalyst.filtered(target.plan, condition)
    try:
        folded = catalyst.folded(catalyst.projected(plan, clause.values) if clause.values else plan)
        below = folded.child() if clause.values else folded
        given = [one.child() for one in items(folded.projectList())] if clause.values else []
        values = {
            name: exact_value(state.schema, state.schema.find_field(name), value, catalyst.every)
            for name, value in zip(clause.values, given, strict=True)
        }
        predicate = Predicate.everything(state.schema)
        if condition is not None:
            found = exact_condition(state.schema, below.condition(), catalyst.every)
            predicate = Predicate.of(state.schema, found, "a statement's condition")
    except (Inexact, PySparkException, Py4JError):  # Spark says why when the statement runs
        return None
    segments = segments_for(context, state, predicate)
    if sum(segment.facts.size for segment in segments) > context.config.sql_local_bytes:
        return None
    assigned = Assignments(state.schema, values, "set")
    slices = [UpdateSlice(context.store, predicate, assigned, part) for part in cut(segments)]
    return Edits((clause.clause,), EditSlices(slices, here=True))
