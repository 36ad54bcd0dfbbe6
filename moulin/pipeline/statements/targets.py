"""The table that a statement changes: its rows with their places, and the edits that clauses make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from moulin.model.entities import TableState
from moulin.model.predicate.condition import TRUE, Condition
from moulin.pipeline.read.columns import POSITION_COLUMN, SEGMENT
from moulin.pipeline.sql.catalyst import Catalyst, Expression, LogicalPlan, items
from moulin.pipeline.statements.answer import Answer, counts
from moulin.pipeline.statements.session import Session
from moulin.table.edit.edits import CLAUSE, Action, Clause, Edits
from moulin.table.table import Table


@dataclass(frozen=True, slots=True)
class Planned:
    """A clause: what it does, the values it gives by column, and the rows it is for, in the order of clauses."""

    action: Action
    values: Mapping[str, Expression] = field(default_factory=dict)
    chosen: Column | None = None

    @property
    def clause(self) -> Clause:
        return Clause(self.action, tuple(self.values))


@dataclass(frozen=True, slots=True)
class Target:
    """The rows of the table to change, in a resolved plan whose last two columns tell where each row is.

    Rows for which `needed` does not hold are not asked for.
    """

    session: Session
    state: TableState
    plan: LogicalPlan
    needed: Condition = TRUE

    @property
    def catalyst(self) -> Catalyst:
        return self.session.catalyst

    @property
    def attributes(self) -> list[Any]:
        """The table's own columns."""
        return items(self.plan.output())[:-2]

    def place(self) -> tuple[Column, Column]:
        """The segment and the position of a row."""
        segment, position = items(self.plan.output())[-2:]
        return self.catalyst.column(segment), self.catalyst.column(position)

    def over(self, plan: LogicalPlan) -> Rows:
        return Rows(self, self.catalyst.run(plan))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that clauses are for: of the target, perhaps joined with a source."""

    target: Target
    frame: DataFrame

    def edits(self, clauses: Sequence[Planned]) -> Edits:
        """One edit for each row, by the first clause that is for it; other rows are left alone."""
        rows = self.numbered(clauses)
        return Edits(tuple(clause.clause for clause in clauses), rows.where(F.col(CLAUSE).isNotNull()))

    def numbered(self, clauses: Sequence[Planned], *more: Column, first: int = 0, placed: bool = True) -> DataFrame:
        """All rows as edits, with null for the clause where none is for a row, and `more` columns.

        Clauses are counted from `first`. Rows that are not `placed` are not of the target.
        """
        column = self.target.catalyst.column
        number = F.lit(None).cast("int")
        for index, clause in reversed(list(enumerate(clauses))):
            own = F.lit(first + index)
            number = own if clause.chosen is None else F.when(clause.chosen, own).otherwise(number)
        names = [name for name in self._columns if any(name in clause.values for clause in clauses)]
        values = [self._value(name, clauses, column).alias(name) for name in names]
        nowhere = F.lit(None).cast("bigint")
        segment, position = self.target.place() if placed else (nowhere, nowhere)
        place = (number.alias(CLAUSE), segment.alias(SEGMENT), position.alias(POSITION_COLUMN))
        rows = self.frame.select(*place, *values, *more)
        plan = rows._jdf.queryExecution().analyzed()
        return self.target.catalyst.steady(self.target.session.run(plan, self.target.needed))

    @property
    def _columns(self) -> list[str]:
        return [field.name for field in self.target.state.schema.fields]

    def _value(self, name: str, clauses: Sequence[Planned], column: Callable[[Expression], Column]) -> Column:
        """The value of a column by the clause of the row. It is computed for no other rows."""
        found: Column | None = None
        for clause in reversed(clauses):
            if name not in clause.values and found is None:
                continue
            value = column(clause.values[name]) if name in clause.values else F.lit(None)
            found = value if clause.chosen is None else F.when(clause.chosen, value).otherwise(found)
        assert found is not None
        return found


class Statement:
    """A statement that changes rows of one table by edits."""

    def __init__(self, session: Session, plan: LogicalPlan, target: LogicalPlan) -> None:
        self._session, self._plan = session, plan
        while target.nodeName() == "SubqueryAlias":
            target = target.child()
        self.table: Table = session.table(target)

    def resolve(self, state: TableState) -> tuple[Target, LogicalPlan]:
        """The rows that the statement may change, and the resolved statement."""
        frame, found = self._session.resolved(self._plan, state)
        return Target(self._session, state, frame._jdf.queryExecution().analyzed()), found

    def run(self, name: str, compute: Callable[[TableState], Edits]) -> Answer:
        self._session.flush()
        return counts(self.table.edit(compute, name))
