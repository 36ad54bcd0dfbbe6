"""Spark's own parser and its logical plans, as far as `lake.sql` needs them: the only module that knows their classes.

Plans and expressions are objects of the JVM. A call takes about 0.1 ms, and as much again for each part of a class's
name, so that classes are looked up once. Iterating over a Java collection ends with an exception, which takes several
milliseconds to convert: `items` counts instead.
"""

# Decisions: docs/decisions/0180, docs/decisions/0283

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from moulin.errors import InvalidInput
from moulin.statement_text import with_branches

LogicalPlan: TypeAlias = Any
"""A logical plan in the JVM. Two are equal when they have the same nodes, wherever in a text they stood."""

Expression: TypeAlias = Any

Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any]

CATALOG = "moulin"
"""The catalog that a lake's tables are in: its name may stand before that of a database."""

_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_MULTIPART = ("UnresolvedTable", "UnresolvedTableOrView", "UnresolvedRelation", "UnresolvedNamespace")
_NAMED = ("UnresolvedIdentifier", "UnresolvedProcedure")


class Catalyst:
    """The parser and the plans of one session. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._spark = spark
        self._session = spark._jsparkSession
        state = self._session.sessionState()
        self._parser = state.sqlParser()
        self._substitute_windows = state.analyzer().WindowsSubstitution()
        self._sessions = jvm.org.apache.spark.sql.classic.SparkSession
        self._dataset = jvm.org.apache.spark.sql.classic.Dataset
        catalyst = jvm.org.apache.spark.sql.catalyst
        logical = catalyst.plans.logical
        self._substitute_ctes = catalyst.analysis.CTESubstitution
        self._metadata_column = getattr(catalyst.util, "package$MetadataColumnHelper")
        self._unresolved_alias = catalyst.analysis.UnresolvedAlias
        self._star_with_columns = catalyst.analysis.UnresolvedStarWithColumns
        self._star_with_renames = catalyst.analysis.UnresolvedStarWithColumnsRenames
        self._drop_columns = logical.DataFrameDropColumns
        self._current_time = catalyst.optimizer.ComputeCurrentTime
        self._fold = catalyst.optimizer.ConstantFolding
        self._one_row, self._project = logical.OneRowRelation, logical.Project
        self._subquery_alias, self._alias_identifier = logical.SubqueryAlias, catalyst.AliasIdentifier
        self._named = catalyst.parser.NamedParameterContext
        self._positional = catalyst.parser.PositionalParameterContext
        self._list, self._map = jvm.java.util.ArrayList, jvm.java.util.HashMap
        self._converters = jvm.scala.jdk.javaapi.CollectionConverters
        self._option = jvm.scala.Option
        self._types = jvm.py4j.reflection.TypeUtil
        patterns = catalyst.trees.TreePattern
        self._union, self._outer = patterns.UNION(), patterns.OUTER_REFERENCE()
        self._scalar_subquery = patterns.SCALAR_SUBQUERY()
        self._same = getattr(jvm.scala.Predef, "$conforms")()
        self.every = jvm.scala.PartialFunction.fromFunction(self._same)
        self._joins, self._join, self._filter = catalyst.plans.JoinType, logical.Join, logical.Filter
        self._alias_of = catalyst.expressions.Alias
        functions = catalyst.expressions.aggregate
        self._functions = {"Count": functions.Sum, "Min": functions.Min, "Max": functions.Max}
        self._coalesce = catalyst.expressions.Coalesce
        self._delete, self._cast = logical.DeleteFromTable, catalyst.expressions.Cast
        self._merge, self._relation = logical.MergeIntoTable, catalyst.analysis.UnresolvedRelation
        self._options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap
        self._no_hint = logical.JoinHint.NONE()
        self._assignments = catalyst.analysis.AssignmentUtils
        self._columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
        self._lazily = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        self._none = self._sequence([])
        self._no_parameters = self._positional(self._none)
        self._ids = catalyst.expressions.NamedExpression
        self._qualifiers: dict[tuple[str, ...], Any] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """For what is done by the settings of the session that is active in the thread: `opened`."""
        before = self._sessions.getActiveSession()
        self._sessions.setActiveSession(self._session)
        try:
            yield
        finally:
            if before.isDefined():
                self._sessions.setActiveSession(before.get())
            else:
                self._sessions.clearActiveSession()

    def parse(self, text: str, args: Arguments | None = None) -> LogicalPlan:
        """The plan of one statement, with `args` for its parameters. A table on a branch is database.table@branch."""
        text = on_branches(text)
        with self.active():
            return self._parser.parsePlanWithParameters(text, self._parameters(args) if args else self._no_parameters)

    def parts_of(self, name: str) -> Any:
        """The parts of a name that is written as in SQL, as a sequence of the JVM."""
        return self._parser.parseMultipartIdentifier(on_branches(name))

    def opened(self, plan: LogicalPlan) -> LogicalPlan:
        """The plan with its CTEs and named windows where they are used, so that `nodes` gives the nodes in them too.

        The first rules of Spark's own analyzer do this. REQUIRES: active.
        """
        return self._substitute_windows.apply(self._substitute_ctes.apply(plan))

    def opened_actively(self, plan: LogicalPlan) -> LogicalPlan:
        """As `opened`, by the settings of this session."""
        with self.active():
            return self.opened(plan)

    def nodes(self, plan: LogicalPlan) -> list[tuple[str, LogicalPlan]]:
        """The nodes of an opened plan and of its sub-queries, with the names of their classes."""
        return [(node.nodeName(), node) for node in items(plan.collectWithSubqueries(self.every))]

    def is_command(self, plan: LogicalPlan) -> bool:
        return bool(self._types.isInstanceOf(_COMMAND, plan))

    def replace(self, plan: LogicalPlan, replaced: Sequence[tuple[LogicalPlan, LogicalPlan]]) -> LogicalPlan:
        """The plan with the second of each pair wherever the first stands, nearest the root first; sub-queries too."""
        return plan.transformDownWithSubqueries(self._function(replaced)) if replaced else plan

    def replace_below(self, plan: LogicalPlan, old: LogicalPlan, new: LogicalPlan) -> LogicalPlan:
        """The plan with `new` wherever `old` stands, in sub-queries excepted."""
        return plan.transformDown(self._function([(old, new)]))

    def table(self, database: str, name: str, frame: DataFrame) -> LogicalPlan:
        """The rows of a frame, as Spark would show a table of this name."""
        return self.relation((database, name), frame)

    def relation(self, parts: tuple[str, ...], frame: DataFrame) -> LogicalPlan:
        """The rows of a frame, as Spark would show a relation of this name in the catalog."""
        *qualifier, name = parts
        key = tuple(qualifier)
        if key not in self._qualifiers:
            self._qualifiers[key] = self._sequence([CATALOG, *qualifier])
        alias = self._alias_identifier(name, self._qualifiers[key])
        return self._subquery_alias(alias, frame._jdf.logicalPlan())

    def table_with_hidden(self, database: str, name: str, frame: DataFrame, hidden: int) -> LogicalPlan:
        """As `table`, of a frame whose last `hidden` columns are there for queries that name them, and not for stars.

        Spark keeps the columns of a natural join that it unites in the same way.
        """
        names = [f"`{column.replace('`', '``')}`" for column in frame.columns]
        fresh = frame.select(*(F.col(name).alias(column) for name, column in zip(names, frame.columns, strict=True)))
        own = fresh.select(*names[:-hidden])  # each mention of a table has attributes of its own
        plan = own._jdf.queryExecution().analyzed()
        attributes = items(plan.child().output())[-hidden:]
        marked = [self._metadata_column(attribute).markAsAllowAnyAccess() for attribute in attributes]
        plan.setTagValue(self._project.hiddenOutputTag(), self._sequence(marked))
        return self._subquery_alias(self._alias_identifier(name, self._sequence([CATALOG, database])), plan)

    def alias(self, name: str, plan: LogicalPlan) -> LogicalPlan:
        """The rows of a plan, as Spark would show a temporary view of this name."""
        return self._subquery_alias(self._alias_identifier(name, self._sequence([])), plan)

    def with_columns(self, plan: LogicalPlan, columns: Sequence[tuple[str, Expression]]) -> LogicalPlan:
        """The plan with these columns, in place of those of the same names."""
        names, values = self._sequence([name for name, _ in columns]), self._sequence([value for _, value in columns])
        star = self._star_with_columns(names, values, self._option.empty())
        return self._project(self._sequence([star]), plan)

    def with_columns_renamed(self, plan: LogicalPlan, renames: Sequence[tuple[str, str]]) -> LogicalPlan:
        old, new = self._sequence([name for name, _ in renames]), self._sequence([name for _, name in renames])
        return self._project(self._sequence([self._star_with_renames(old, new)]), plan)

    def without_columns(self, plan: LogicalPlan, columns: Sequence[Expression]) -> LogicalPlan:
        return self._drop_columns(self._sequence(columns), plan)

    def name(self, *parts: str) -> Any:
        return self._sequence(parts)

    def evaluate(self, expression: Expression) -> DataFrame:
        """One row with the value of an expression that refers to no column, in a column named `value`."""
        column = self._unresolved_alias(expression, self._option.empty())
        return self.run(self._project(self._sequence([column]), self._one_row())).toDF("value")

    def analyzed(self, plan: LogicalPlan) -> LogicalPlan:
        """The plan as Spark's analyzer resolves it. A command is resolved and does not run."""
        with self.active():
            return self._session.sessionState().executePlan(plan, self._lazily).analyzed()

    def resolved(self, plan: LogicalPlan) -> LogicalPlan:
        """A statement that changes rows, with its names and types resolved by Spark's analyzer; nothing runs."""
        with self.active():
            analyzer = self._session.sessionState().analyzer()
            found = analyzer.execute(plan)
            if not found.resolved():
                analyzer.checkAnalysis(found)
            return found

    def joined(self, left: LogicalPlan, right: LogicalPlan, kind: str, condition: Expression) -> LogicalPlan:
        """A join of resolved plans; `kind` as in SQL: "inner", "left_outer", "full_outer"."""
        return self._join(left, right, self._joins.apply(kind), self._option.apply(condition), self._no_hint)

    def optimized(self, plan: LogicalPlan) -> LogicalPlan:
        """The plan as Spark's optimizer leaves it; nothing runs."""
        with self.active():
            return self._session.sessionState().executePlan(plan, self._lazily).optimizedPlan()

    def at_one_time(self, plan: LogicalPlan) -> LogicalPlan:
        """An analyzed plan in which now(), current_date and the like are values: the same in every later use of it."""
        return self._current_time.apply(plan)

    def folded(self, plan: LogicalPlan) -> LogicalPlan:
        """An analyzed plan whose constant expressions are literals; those that fail when they are computed stay."""
        with self.active():
            return self._fold.apply(self.at_one_time(plan))

    def projected(self, plan: LogicalPlan, values: Mapping[str, Expression]) -> LogicalPlan:
        """Values of resolved expressions over the rows of a resolved plan."""
        names = [
            self._alias_of(value, name, self._ids.newExprId(), self._none, self._option.empty(), self._none)
            for name, value in values.items()
        ]
        return self._project(self._sequence(names), plan)

    def filtered(self, plan: LogicalPlan, condition: Expression) -> LogicalPlan:
        return self._filter(condition, plan)

    def is_correlated(self, plan: LogicalPlan) -> bool:
        """Whether a plan names columns of a query around it."""
        return bool(plan.containsPattern(self._outer))

    def total(self, kind: str, attribute: Any) -> Expression:
        """What Count, Min or Max of rows is, of a column with the totals of some rows each."""
        found = self._functions[kind](attribute).toAggregateExpression()
        if kind != "Count":
            return found
        return self._coalesce(self._sequence([found, self._session.expression(F.expr("0L")._jc)]))

    def aggregated(
        self, aggregate: LogicalPlan, rows: LogicalPlan, replaced: Sequence[tuple[Expression, Expression]]
    ) -> LogicalPlan:
        """An aggregate over other rows, with the second of each pair in place of the first."""
        return aggregate.withNewChildren(self._sequence([rows])).transformExpressions(self._function(replaced))

    def deletion(self, table: LogicalPlan, condition: Expression) -> LogicalPlan:
        """DELETE FROM table WHERE condition."""
        return self._delete(table, condition)

    def merging(
        self, table: str, source: LogicalPlan, condition: Expression, actions: Sequence[Sequence[Expression]]
    ) -> LogicalPlan:
        """MERGE INTO a table that is named as in SQL.

        `actions` are those for matched rows, for rows that are not matched, and for rows not matched by the source.
        """
        clauses = [self._sequence(some) for some in actions]
        relation = self._relation(self.parts_of(table), self._options.empty(), False)
        target = relation.requireWritePrivileges(self._merge.getWritePrivileges(*clauses))
        return self._merge(target, source, condition, *clauses, False)

    def frame(self, rows: pa.Table, types: StructType) -> DataFrame:
        """Rows as a DataFrame of these types."""
        return self._spark.createDataFrame(rows, types)

    def under(self, attributes: Sequence[Any], frame: DataFrame) -> LogicalPlan:
        """The rows of a frame, whose first columns stand for these attributes in resolved expressions."""
        plan = frame._jdf.queryExecution().analyzed()
        columns = items(plan.output())
        named = [
            self._alias_of(
                column, attribute.name(), attribute.exprId(), attribute.qualifier(), self._option.empty(), self._none
            )
            for column, attribute in zip(columns, attributes, strict=False)
        ]
        return self._project(self._sequence([*named, *columns[len(attributes) :]]), plan)

    def can_assign(self, given: DataType, wanted: DataType) -> bool:
        """Whether Spark assigns values of one type to a column of another without a cast."""
        parse = self._session.parseDataType
        return bool(self._cast.canANSIStoreAssign(parse(given.json()), parse(wanted.json())))

    def column(self, expression: Expression) -> Column:
        """A resolved expression as a column of a DataFrame."""
        return Column(self._columns.column(expression))

    def update_values(
        self, attributes: Sequence[Any], action: LogicalPlan, *, all_by_name: bool
    ) -> dict[str, Expression]:
        """What the assignments of UPDATE or of an update clause give, by column, in the types of the columns."""
        keys = [items(one.key().references().toSeq())[0] for one in items(action.assignments())]
        given = {key.exprId() for key in keys}
        aligned = self._assignments.alignUpdateAssignments(
            self._sequence(attributes), action.assignments(), all_by_name, all_by_name
        )
        return {
            attribute.name(): one.value()
            for attribute, one in zip(attributes, items(aligned), strict=True)
            if attribute.exprId() in given
        }

    def insert_values(self, attributes: Sequence[Any], action: LogicalPlan) -> dict[str, Expression]:
        """What an insert clause gives, by column, in the types of the columns."""
        given = {one.key().exprId() for one in items(action.assignments())}
        chosen = [attribute for attribute in attributes if attribute.exprId() in given]
        aligned = self._assignments.alignInsertAssignments(self._sequence(chosen), action.assignments(), False)
        return {one.key().name(): one.value() for one in items(aligned)}

    def run(self, plan: LogicalPlan) -> DataFrame:
        """A DataFrame of a plan, analyzed; a command runs at once."""
        return self.steady(DataFrame(self._dataset.ofRows(self._session, plan), self._spark))

    def steady(self, frame: DataFrame) -> DataFrame:
        """The frame with a filter that lets every row pass below each projection that has a correlated sub-query.

        Spark moves such a projection below a union, and fails: it takes columns of the sub-query for the union's. A
        condition that is not deterministic is not moved. A table with deleted rows is a union.
        """
        analyzed = frame._jdf.queryExecution().analyzed()
        if not (analyzed.containsPattern(self._outer) and analyzed.containsPattern(self._union)):
            return frame
        condition = self._session.expression(F.expr("monotonically_increasing_id() >= 0")._jc)
        pairs = [
            (node, node.copy(node.projectList(), self._filter(condition, node.child())))
            for name, node in self.nodes(analyzed)
            if name == "Project" and any(self._asks_outside(one) for one in items(node.projectList()))
        ]
        if not pairs:
            return frame
        return DataFrame(self._dataset.ofRows(self._session, self.replace(analyzed, pairs)), self._spark)

    def _asks_outside(self, expression: Expression) -> bool:
        """Whether it has a sub-query with one value that names columns of the query around it."""
        return bool(expression.containsPattern(self._scalar_subquery) and expression.containsPattern(self._outer))

    def _function(self, pairs: Sequence[tuple[LogicalPlan, LogicalPlan]]) -> Any:
        """From the first of each pair to the second: a Scala map is a partial function."""
        found = self._map()
        for old, new in pairs:
            found.put(old, new)
        return self._converters.asScala(found)

    def _parameters(self, args: Arguments) -> Any:
        if isinstance(args, Mapping):
            return self._named(self._literals(args))
        if isinstance(args, str) or not isinstance(args, Sequence):
            raise InvalidInput("The args of a query must be a dict, for :names, or a list, for question marks.")
        values = self._literals({str(index): value for index, value in enumerate(args)})
        return self._positional(self._sequence([values.apply(str(index)) for index in range(len(args))]))

    def _literals(self, args: Mapping[str, Any]) -> Any:
        expressions = self._map()
        try:
            for name, value in args.items():
                expressions.put(str(name), self._session.expression(F.lit(value)._jc))
            return self._session.resolveAndValidateParameters(self._converters.asScala(expressions).toMap(self._same))
        except (PySparkException, Py4JError, AttributeError, TypeError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise InvalidInput(f"Spark cannot take the args of the query: {reason}") from None

    def _sequence(self, values: Sequence[Any]) -> Any:
        found = self._list()
        for value in values:
            found.add(value)
        return self._converters.asScala(found).toSeq()


def on_branches(text: str) -> str:
    """The text with the branches of tables where Spark's parser takes them: shop.orders@exp is `shop@exp`.orders."""
    return with_branches(text, "spark", CATALOG)


def refusal(error: PySparkException) -> str:
    """Why Spark refuses a query, as one sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):  # a list of reasons follows
        return f"{lines[0]} {lines[1].removeprefix('- ')}".rstrip(";")
    return (lines[0] if lines else type(error).__name__).rstrip(";")


_POSITION = re.compile(r"line (\d+),? pos (\d+)")


def position(error: PySparkException) -> tuple[int | None, int | None]:
    """The line and the column, from 1, that an error of Spark is about, if it says so."""
    found = _POSITION.search(str(error))
    if found is None:
        return None, None
    return int(found[1]), int(found[2]) + 1


def items(sequence: Any) -> list[Any]:
    """The members of a sequence of the JVM."""
    return [sequence.apply(index) for index in range(sequence.length())]


def content(option: Any) -> Any:
    """What an option of the JVM holds; None for an empty one."""
    return option.get() if option.isDefined() else None


def texts(mapping: Any) -> dict[str, str]:
    """The keys and values of a map of the JVM from text to text."""
    return {str(pair._1()): str(pair._2()) for pair in items(mapping.toSeq())}


def name_parts(node: LogicalPlan) -> list[str] | None:
    """The parts of the name that a node of a plan is; None when it is something else."""
    kind = node.nodeName()
    if kind in _MULTIPART:
        return [str(part) for part in items(node.multipartIdentifier())]
    return [str(part) for part in items(node.nameParts())] if kind in _NAMED else None


def python_type(kind: Any) -> DataType:
    """The PySpark type of a type of the JVM."""
    field = {"name": "value", "type": json.loads(kind.json()), "nullable": True, "metadata": {}}
    return StructType.fromJson({"fields": [field]}).fields[0].dataType
