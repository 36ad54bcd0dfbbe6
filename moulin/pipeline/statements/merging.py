"""The edits of MERGE: by a join that Spark shuffles or, for a source of few rows, by one that only reads the table.

Rows of a small source come to the driver first. A join for which every task has the whole source finds the rows of the
table that match. Source rows that match none are those that it does not name. An outer join would have to shuffle the
table.
"""

# Decisions: docs/decisions/0272, docs/decisions/0295

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.predicate.condition import Condition
from moulin.model.rows.rows import RowsOf, to_batches
from moulin.pipeline.read.few import few_rows
from moulin.pipeline.sql.catalyst import Catalyst, LogicalPlan, items
from moulin.pipeline.sql.join_keys import JoinSides, needed_of
from moulin.pipeline.statements.clauses import merge_clause
from moulin.pipeline.statements.targets import Planned, Rows, Target
from moulin.table.edit.edits import CLAUSE, PLACE, Edits, edit_schema

_FROM_SOURCE = "_moulin_source"
_SOURCE_ROW = "_moulin_source_row"


def merged(catalyst: Catalyst, target: Target, found: LogicalPlan) -> Edits:
    """The edits of a resolved MERGE."""
    source = target.session.run(found.sourceTable())
    if not items(found.notMatchedBySourceActions()):
        numbered = source.toDF(*(f"c{index}" for index in range(len(source.columns))))  # names may come twice
        few = None if _has_collations(source) else few_rows(numbered)
        edits = None if few is None else _SmallMerge(catalyst, target, found, source, few).edits()
        if edits is not None:
            return edits
    return _joined(catalyst, target, found, source)


def _joined(catalyst: Catalyst, target: Target, found: LogicalPlan, source: DataFrame) -> Edits:
    """A join that keeps the rows which some clause is for."""
    matched, not_matched = items(found.matchedActions()), items(found.notMatchedActions())
    by_source = items(found.notMatchedBySourceActions())
    marked = source.withColumn(_FROM_SOURCE, F.lit(True))._jdf.queryExecution().analyzed()
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
        merge_clause(catalyst, target, action, held)
        for actions, held in (
            (matched, from_target & from_source),
            (not_matched, ~from_target),
            (by_source, ~from_source),
        )
        for action in actions
    ]
    return target.over(joined).edits(clauses)


def _has_collations(frame: DataFrame) -> bool:
    """Whether some text is compared in another way than by its bytes, which Arrow does not say."""
    kinds = [field.dataType for field in frame.schema.fields]
    return any(isinstance(kind, StringType) and kind != StringType() for kind in kinds)


class _SmallMerge:
    """A MERGE whose source rows are `few`, without clauses for rows that the source does not have."""

    def __init__(
        self, catalyst: Catalyst, target: Target, found: LogicalPlan, source: DataFrame, few: pa.Table
    ) -> None:
        self._catalyst, self._target, self._found, self._few = catalyst, target, found, few
        self._kinds = [field.dataType for field in source.schema.fields]
        self._attributes = items(source._jdf.queryExecution().analyzed().output())

    def edits(self) -> Edits | None:
        """None when the join gives many rows."""
        matched = [merge_clause(self._catalyst, self._target, one) for one in items(self._found.matchedActions())]
        new = [merge_clause(self._catalyst, self._target, one) for one in items(self._found.notMatchedActions())]
        clauses = tuple(planned.clause for planned in (*matched, *new))
        if not self._few.num_rows:
            return Edits(clauses, [])
        pairs = few_rows(self._pairs(matched))
        if pairs is None:
            return None
        parts = [pairs.filter(pc.is_valid(pairs.column(CLAUSE))).drop_columns([_SOURCE_ROW])]
        if new:
            inserted = self._inserted(new, len(matched), pairs.column(_SOURCE_ROW).to_numpy())
            if inserted is None:
                return None
            parts.append(inserted)
        schema, rows_of = edit_schema(self._target.state.schema, clauses), RowsOf(self._target.state.full_name, PLACE)
        return Edits(clauses, [batch for part in parts for batch in to_batches(part, schema, rows_of)])

    def _pairs(self, matched: Sequence[Planned]) -> DataFrame:
        """Rows of the table and of the source that go together, each with its edit, if there is one."""
        rows = self._few.append_column(_SOURCE_ROW, pa.array(np.arange(self._few.num_rows)))
        source = F.broadcast(self._frame(rows))._jdf.queryExecution().analyzed()
        joined = self._catalyst.joined(self._target.plan, source, "inner", self._found.mergeCondition())
        row = self._catalyst.column(items(source.output())[-1]).alias(_SOURCE_ROW)
        return replace(self._target, needed=self._needed()).over(joined).numbered(matched, row)

    def _needed(self) -> Condition:
        """What the source asks of rows of the table, by the columns in which both are equal."""
        table = {attribute.exprId().id(): attribute.name() for attribute in self._target.attributes}
        sides = JoinSides(table, {one.exprId().id(): index for index, one in enumerate(self._attributes)})
        return needed_of(
            self._target.state.schema, self._found.mergeCondition(), self._catalyst.every, sides, self._few
        )

    def _inserted(self, new: Sequence[Planned], first: int, matched: Integers) -> pa.Table | None:
        """The edits of source rows that go with no row of the table."""
        left = np.ones(self._few.num_rows, np.bool_)
        left[matched] = False
        rows = Rows(self._target, self._frame(self._few.filter(pa.array(left))))
        frame = rows.numbered(new, first=first, placed=False)
        return few_rows(frame.where(F.col(CLAUSE).isNotNull()))

    def _frame(self, rows: pa.Table) -> DataFrame:
        """Source rows under the attributes that the statement has for them; the number of each may follow."""
        kinds = zip(rows.column_names, [*self._kinds, LongType()], strict=False)
        frame = self._catalyst.frame(rows, StructType([StructField(name, kind) for name, kind in kinds]))
        return self._catalyst.run(self._catalyst.under(self._attributes, frame))
