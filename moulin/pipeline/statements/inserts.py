"""INSERT INTO and INSERT OVERWRITE.

The rows of the query are appended as those of any DataFrame are; a keyed table is upserted into. INSERT OVERWRITE
replaces all rows, those of some partitions, or those that REPLACE WHERE chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from moulin.errors import InvalidInput, Unsupported
from moulin.model.entities import TableState
from moulin.model.layout.partition_spec import IdentityTransform
from moulin.model.names import did_you_mean
from moulin.model.schema.schema import key_names
from moulin.pipeline.read.columns import POSITION_COLUMN, SEGMENT, quoted, shown_type
from moulin.pipeline.sql.catalyst import LogicalPlan, items
from moulin.pipeline.statements.answer import Answer, counts
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.targets import Statement
from moulin.table.edit.edits import CLAUSE, Action, Clause, Edits
from moulin.table.table import Table

_MODE = "spark.sql.sources.partitionOverwriteMode"


def insert(session: Session, plan: LogicalPlan) -> Answer:
    """INSERT INTO | OVERWRITE t [PARTITION (...)] [(columns)] [BY NAME] [REPLACE WHERE condition] query."""
    plan = session.opened(plan)
    table = session.table(plan.table())
    state = table.state()
    fixed = _fixed(state, plan)
    rows = _fitted(session, state, _named(state, session.query(plan.query()), plan, fixed))
    if not plan.overwrite():
        return counts(table.append(rows))
    criteria = plan.replaceCriteriaOpt()
    if criteria.isDefined():
        if criteria.get().getClass().getSimpleName() != "InsertReplaceWhere":
            raise Unsupported("INSERT supports only REPLACE WHERE: write REPLACE USING and REPLACE ON as MERGE.")
        return _replace(session, plan, rows, criteria.get().cond())
    # As Spark means it, a partition of which PARTITION gives all values is replaced whole in either mode.
    if str(rows.sparkSession.conf.get(_MODE)).upper() == "DYNAMIC" and len(fixed) < len(state.spec.fields):
        return counts(table.overwrite_partitions(rows))
    if fixed:
        return _replace_partition(session, table, rows, fixed)
    return counts(table.overwrite(rows))


def _fixed(state: TableState, plan: LogicalPlan) -> dict[str, str | None]:
    """The values that PARTITION (column = value) gives, by column."""
    given = {}
    spec = plan.partitionSpec()
    identity = {
        state.schema.find_column_name(part.source_id)
        for part in state.spec.fields
        if isinstance(part.transform, IdentityTransform)
    }
    for name in items(spec.keys().toSeq()):
        column = _column(state, name)
        if column not in identity:
            raise InvalidInput(
                f"PARTITION can only use columns by which {state.full_name} is partitioned without a transform, not "
                f"{name}: use REPLACE WHERE."
            )
        value = spec.apply(name)
        if value.isDefined():
            given[column] = value.get()
    return given


def _column(state: TableState, name: str) -> str:
    known = [field.name for field in state.schema.fields]
    found = [column for column in known if column == name] or [c for c in known if c.lower() == name.lower()]
    if len(found) != 1:
        raise InvalidInput(
            f"Table {state.full_name} has no column {name!r}.{did_you_mean(name, known)} It has: {', '.join(known)}."
        )
    return found[0]


def _named(state: TableState, frame: DataFrame, plan: LogicalPlan, fixed: Mapping[str, str | None]) -> DataFrame:
    """The rows of the query under the names of the table's columns."""
    if plan.byName():
        names = [_column(state, name) for name in frame.columns]
        what = "the query has"
    else:
        listed = [_column(state, name) for name in items(plan.userSpecifiedCols())]
        names = listed or [field.name for field in state.schema.fields if field.name not in fixed]
        what = "the statement lists" if listed else f"{state.full_name} has"
        if len(names) != len(frame.columns):
            raise InvalidInput(
                f"The query returns {len(frame.columns)} columns, but {what} {len(names)}: {', '.join(names)}."
            )
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"The statement has column {name} twice.")
        if name in fixed:
            raise InvalidInput(f"PARTITION has the value of {name}: remove it from the query.")
    frame = frame.toDF(*names)
    for name, value in fixed.items():
        frame = frame.withColumn(name, F.lit(value).cast(shown_type(state.schema.find_field(name).field_type)))
    return frame


def _fitted(session: Session, state: TableState, frame: DataFrame) -> DataFrame:
    """The rows in the types of the table's columns, by Spark's rules for assignments: nothing is cut or guessed."""
    columns = []
    for given in frame.schema.fields:
        wanted = shown_type(state.schema.find_field(given.name).field_type)
        column = F.col(quoted(given.name))
        if given.dataType != wanted:
            if not session.catalyst.can_assign(given.dataType, wanted):
                raise InvalidInput(
                    f"Column {given.name} of {state.full_name} is of type {wanted.simpleString()}, but the query "
                    f"returns "
                    f"{given.dataType.simpleString()}: cast it."
                )
            column = column.cast(wanted).alias(given.name)
        columns.append(column)
    return frame.select(*columns)


def _replace(session: Session, plan: LogicalPlan, rows: DataFrame, condition: LogicalPlan) -> Answer:
    """REPLACE WHERE: the rows for which the condition is true go, the rows of the query come."""
    deletion = session.catalyst.deletion(plan.table(), condition)
    statement = Statement(session, deletion, plan.table())

    def compute(state: TableState) -> Edits:
        target, found = statement.resolve(state)
        old = session.run(session.catalyst.filtered(target.plan, found.condition()))
        return _edits(state, old, rows)

    return statement.run("INSERT OVERWRITE", compute)


def _replace_partition(session: Session, table: Table, rows: DataFrame, fixed: Mapping[str, str | None]) -> Answer:
    """PARTITION (column = value): the rows of that partition go, the rows of the query come."""

    def compute(state: TableState) -> Edits:
        old = session.located(state)
        for name, value in fixed.items():
            kind = shown_type(state.schema.find_field(name).field_type)
            old = old.where(F.col(quoted(name)).eqNullSafe(F.lit(value).cast(kind)))
        return _edits(state, session.run(old._jdf.queryExecution().analyzed()), rows)

    session.flush()
    return counts(table.edit(compute, "INSERT OVERWRITE"))


def _edits(state: TableState, old: DataFrame, rows: DataFrame) -> Edits:
    """Old rows to delete and new rows to insert. Of a keyed table, old rows whose key comes again are replaced."""
    names = rows.columns
    key = key_names(state.schema)
    if key:
        old = old.join(rows.select(*(F.col(quoted(name)) for name in key)), list(key), "left_anti")
    types = {field.name: field.dataType for field in rows.schema.fields}
    deleted = old.select(*_place(1, F.col(SEGMENT), F.col(POSITION_COLUMN)), *_nulls(names, types))
    nowhere = F.lit(None).cast("bigint")
    inserted = rows.select(*_place(0, nowhere, nowhere), *(F.col(quoted(name)) for name in names))
    action = Action.UPSERT if key else Action.INSERT
    return Edits((Clause(action, tuple(names)), Clause(Action.DELETE)), inserted.union(deleted))


def _place(clause: int, segment: Column, position: Column) -> Sequence[Column]:
    return F.lit(clause).alias(CLAUSE), segment.alias(SEGMENT), position.alias(POSITION_COLUMN)


def _nulls(names: Sequence[str], types: Mapping[str, object]) -> list[Column]:
    return [F.lit(None).cast(types[name]).alias(name) for name in names]  # type: ignore[arg-type]
