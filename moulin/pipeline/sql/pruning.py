"""Plans statements twice, so that Spark reads only files that may contain matching rows.

First over stand-ins for the tables (`optimizer`): Spark's optimizer says which filters it puts on each. As conditions
(`filters`), they are asked of the catalog and of secondary indexes. Then the rows of the segments that are left take
the places of the stand-ins, in the same resolved plan, and Spark runs it as if they had been there from the beginning.
"""

# Decisions: docs/decisions/0300

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import TRUE, Condition, conjunction, disjunction
from moulin.model.query_plan import Share
from moulin.model.schema.values import Schema
from moulin.pipeline.sql.aggregates import answerable
from moulin.pipeline.sql.catalyst import Catalyst, Expression, LogicalPlan, items
from moulin.pipeline.sql.filters import condition_of
from moulin.pipeline.sql.optimizer import Leaf, StandIn, asked, leaves, make_stand_in
from moulin.sized_cache import SizedCache
from moulin.table.read.totals import Wanted

_KEPT = 256
_FILTERS = "a statement's filters"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A table whose rows are read once it is known which are asked for.

    `read` gives the rows, perhaps without some that a predicate rules out, and the number of segments they are in;
    `count` gives as many rows, with nothing in them, or None; `totals` gives totals of the rows of a predicate, and
    perhaps of others, or None; `total` the number of all segments of the table. All rows of a table are read that is
    not `large`.
    """

    name: str
    schema: Schema
    columns: StructType
    read: Callable[[Predicate], tuple[DataFrame, int]]
    count: Callable[[], DataFrame | None]
    totals: Callable[[Wanted, Predicate], DataFrame | None]
    total: Callable[[], int]
    large: bool = True


class StandIns:
    """Stand-ins for the tables of one session, which keeps the last few. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._kept: SizedCache[Hashable, StandIn] = SizedCache(_KEPT)

    def get(self, key: Hashable, columns: StructType) -> StandIn:
        return self._kept.get(key, lambda: self.make(columns))

    def make(self, columns: StructType) -> StandIn:
        """One that nobody else has."""
        return make_stand_in(self._spark, columns)


class Pruning:
    """The tables of one statement that wait for what it asks of them: the large ones, or every one.

    With `own`, its stand-ins are its own, even where the session has some for the tables already.
    """

    def __init__(self, catalyst: Catalyst, stand_ins: StandIns, *, every: bool = False, own: bool = False) -> None:
        self._catalyst, self._stand_ins, self.every, self._own = catalyst, stand_ins, every, own
        self._waiting: dict[int, Waiting] = {}
        self._read: list[tuple[Waiting, int]] = []

    def stand_in(self, key: Hashable, table: Waiting) -> StandIn:
        """What stands for the rows of a table. REQUIRES: tables of one key have the same columns."""
        found = self._stand_ins.make(table.columns) if self._own else self._stand_ins.get((key, 0), table.columns)
        others = 0
        while found.number in self._waiting:  # the same table, at another version
            others += 1
            found = self._stand_ins.get((key, others), table.columns)
        self._waiting[found.number] = table
        return found

    def together(self, other: Pruning) -> Pruning:
        """For plans over the stand-ins of both. REQUIRES: both have stand-ins of their own."""
        found = Pruning(self._catalyst, self._stand_ins, own=True)
        found._waiting = {**self._waiting, **other._waiting}
        return found

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def shares(self) -> list[Share]:
        """What was read of each table, as often as the statement reads it."""
        return [Share(table.name, read, table.total()) for table, read in self._read]

    def filled(self, plan: LogicalPlan, known: Mapping[int, Condition] = MappingProxyType({})) -> LogicalPlan:
        """The plan with the rows that it asks for in place of stand-ins.

        It needs no rows of a stand-in for which what is `known` under its number does not hold.
        """
        if not self._waiting:
            return plan
        self._read = []
        analyzed = self._catalyst.analyzed(plan)
        if any(table.large for table in self._waiting.values()):
            analyzed, nodes = self._answered(self._catalyst.at_one_time(analyzed))
        else:
            nodes = self._catalyst.nodes(analyzed)
        own = [leaf for leaf in leaves(nodes) if leaf.number in self._waiting]
        large = any(self._waiting[leaf.number].large for leaf in own)
        conditions = self._conditions(analyzed, own) if large else {leaf.key: TRUE for leaf in own}
        frames: dict[tuple[int, Condition | None], tuple[DataFrame, int]] = {}
        found = []
        for leaf in own:
            condition = conditions[leaf.key]
            if leaf.number in known:
                condition = conjunction([TRUE if condition is None else condition, known[leaf.number]])
            key = (leaf.number, condition)
            if key not in frames:
                frames[key] = self._rows(*key)
            frame, segments = frames[key]
            self._read.append((self._waiting[leaf.number], segments))
            found.append((leaf.plan, self._catalyst.under(items(leaf.plan.output()), frame)))
        return self._catalyst.replace(analyzed, found)

    def _answered(self, analyzed: LogicalPlan) -> tuple[LogicalPlan, list[tuple[str, LogicalPlan]]]:
        """The plan with totals from the catalog in place of the rows that some aggregates ask for, and its nodes."""
        nodes, found, read = self._catalyst.nodes(analyzed), [], []
        try:
            for one in answerable(self._catalyst, nodes, lambda leaf: leaf.number in self._waiting):
                table = self._waiting[one.leaf.number]
                totals = table.totals(one.wanted, self._asked(table, one.filter))
                if totals is not None:
                    found.append((one.node, one.answered(self._catalyst, totals)))
                    read.append((table, 0))
        except (PySparkException, Py4JError):  # Spark says why when the statement runs
            return analyzed, nodes
        if not found:
            return analyzed, nodes
        self._read += read
        filled = self._catalyst.replace(analyzed, found)
        return filled, self._catalyst.nodes(filled)

    def _asked(self, table: Waiting, filter: Expression | None) -> Predicate:
        condition = TRUE if filter is None else condition_of(table.schema, filter, self._catalyst.every)
        return Predicate.of(table.schema, condition, _FILTERS)

    def _rows(self, number: int, condition: Condition | None) -> tuple[DataFrame, int]:
        table = self._waiting[number]
        counted = table.count() if condition is None else None
        if counted is not None:
            return counted, 0
        return table.read(Predicate.of(table.schema, TRUE if condition is None else condition, _FILTERS))

    def _conditions(self, analyzed: LogicalPlan, own: Sequence[Leaf]) -> Mapping[int, Condition | None]:
        """What is asked of each leaf, by its key; None when it is how many rows there are, and nothing of them.

        The optimizer may read a leaf several times, and then renames its columns: what it asks there counts for all
        leaves of the stand-in. It may also read one leaf for several, as it does for aggregates over the same table:
        what it asks of the leaves that are left counts for one that is gone. A stand-in of which it asks nothing at
        all needs no rows.
        """
        found: dict[int, list[Condition | None]] = {leaf.key: [] for leaf in own}
        by_number: dict[int, list[Condition | None]] = {leaf.number: [] for leaf in own}
        try:
            for one in asked(self._catalyst, analyzed):
                leaf, table = one.leaf, self._waiting.get(one.leaf.number)
                if table is None:
                    continue
                condition: Condition | None = TRUE if one.columns else None
                if one.filter is not None:
                    condition = condition_of(table.schema, one.filter, self._catalyst.every)
                by_number.setdefault(leaf.number, []).append(condition)
                for key in [leaf.key] if leaf.key in found else [o.key for o in own if o.number == leaf.number]:
                    found[key].append(condition)
        except (PySparkException, Py4JError):  # Spark says why when the statement runs
            return dict.fromkeys(found, TRUE)
        return {leaf.key: _joined(found[leaf.key] or by_number[leaf.number]) for leaf in own}


def _joined(conditions: Sequence[Condition | None]) -> Condition | None:
    if conditions and all(condition is None for condition in conditions):
        return None
    return disjunction(TRUE if condition is None else condition for condition in conditions)
