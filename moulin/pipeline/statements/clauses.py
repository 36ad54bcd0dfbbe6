"""Clauses of statements that change rows, from their resolved form."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from moulin.model.schema.schema import key_names
from moulin.pipeline.sql.catalyst import Catalyst, LogicalPlan
from moulin.pipeline.statements.targets import Planned, Target
from moulin.table.edit.edits import Action


def merge_clause(catalyst: Catalyst, target: Target, action: LogicalPlan, held: Column | None = None) -> Planned:
    """A clause of MERGE, for the rows of a join for which `held` is true; for all of them without it."""
    name = action.nodeName()
    asked = action.condition()
    chosen = held
    if asked.isDefined():
        wanted = F.coalesce(catalyst.column(asked.get()), F.lit(False))
        chosen = wanted if held is None else held & wanted
    if name == "DeleteAction":
        return Planned(Action.DELETE, {}, chosen)
    if name == "UpdateAction":
        values = catalyst.update_values(target.attributes, action, all_by_name=bool(action.fromStar()))
        return keeping_key(catalyst, target, Planned(Action.UPDATE, values, chosen))
    return Planned(Action.INSERT, catalyst.insert_values(target.attributes, action), chosen)


def keeping_key(catalyst: Catalyst, target: Target, clause: Planned) -> Planned:
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
