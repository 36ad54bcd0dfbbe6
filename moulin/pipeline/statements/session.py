"""The interface for functions that run statements."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame

from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.predicate.condition import TRUE, Condition
from moulin.pipeline.sql.catalyst import Catalyst, LogicalPlan
from moulin.pipeline.sql.names import Reference
from moulin.table.table import Table


class Session(Protocol):
    """A lake and Spark, for one statement."""

    @property
    def lake(self) -> Lake: ...

    @property
    def catalyst(self) -> Catalyst: ...

    def query(self, plan: LogicalPlan) -> DataFrame:
        """The rows of a query that the statement holds, as `lake.sql` returns them: its leaves may name lake tables."""

    def flush(self) -> None:
        """Commit what was put into keyed tables, so that the statement sees it. Call it before a table is held."""

    def located(self, state: TableState) -> DataFrame:
        """The rows of the table to change, each with its segment and position. Only `run` reads them."""

    def run(self, plan: LogicalPlan, target: Condition = TRUE) -> DataFrame:
        """A DataFrame of a plan over rows that were located or resolved: of those that it asks for, and no others.

        It needs no rows of the table to change for which the condition `target` does not hold.
        """

    def resolved(self, plan: LogicalPlan, state: TableState) -> tuple[DataFrame, LogicalPlan]:
        """The rows of the table to change, as `located`, and the statement that changes it, resolved over them; it sees
        other tables at the same version. Nothing runs.
        """

    def opened(self, plan: LogicalPlan) -> LogicalPlan:
        """The statement with its CTEs where they are used."""

    def spelled(self, reference: Reference) -> Reference:
        """The reference as the lake spells the names of its tables and views; as it is when there is none of them."""

    def table(self, node: LogicalPlan) -> Table:
        """The table to change that a node of the plan names. A view is refused; NotFound when there is neither."""

    def named(self, written: Reference) -> Table:
        """The table to change of this name. A view is refused; NotFound when there is neither."""

    @property
    def case_sensitive(self) -> bool:
        """Whether names in another case are other names."""
