"""Plans relations without resolving anything, so that they can be checked before anything runs.

Spark's planner analyzes some relations at once, when tables of the lake are still unresolved names. Those with
expressions are planned here, as Spark would. The others have only column names and plain values: they are computed from
a checked frame of their input, and replaced by the result.
"""

# Decisions: docs/decisions/0265

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyspark.sql.connect.proto as pb
from google.protobuf.message import Message
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.connect.expressions import LiteralExpression
from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type
from pyspark.sql.types import StructType

from moulin.errors import InvalidInput
from moulin.model.names import quote
from moulin.pipeline.connect.planner import Planner
from moulin.pipeline.read.reader import NamedFrame
from moulin.pipeline.sql.catalyst import CATALOG, LogicalPlan, on_branches
from moulin.pipeline.sql.names import parts_of, with_views
from moulin.pipeline.sql.safe import SafeSql, View


class Relations:
    """The plans of one message. Its resources live as long as this object."""

    def __init__(
        self,
        guard: SafeSql,
        planner: Planner,
        run: Callable[[LogicalPlan], DataFrame],
        answer: Callable[[pb.Catalog], DataFrame],
    ) -> None:
        """`run` checks a plan and makes it a frame, `answer` answers catalog requests."""
        self._guard, self._planner, self._run, self._answer = guard, planner, run, answer
        self._frames: list[NamedFrame] = []

    def frame(self, message: pb.Relation) -> DataFrame:
        """The rows of a relation, checked."""
        return self._run(self.plan(message))

    def view(self, message: pb.Relation) -> View:
        """A relation for later queries: it names tables, and reads them when it is read."""
        catalyst = self._guard.catalyst
        with catalyst.active():
            plan = catalyst.opened(self.plan(message))
        return View(plan, tuple(self._frames))

    def plan(self, message: pb.Relation) -> LogicalPlan:
        """REQUIRES: the message was checked."""
        copy = pb.Relation()
        copy.CopyFrom(message)
        found: dict[str, LogicalPlan] = {}
        self._prepare(copy, found)
        plan = self._planner.relation(copy)
        if not found:
            return plan
        catalyst = self._guard.catalyst
        names = [(node, parts_of(node)) for name, node in catalyst.nodes(plan) if name == "UnresolvedRelation"]
        pairs = [(node, found[parts[1]]) for node, parts in names if parts[0] == _PLANS and parts[1] in found]
        return catalyst.replace(plan, pairs)

    def _prepare(self, message: Message, found: dict[str, LogicalPlan]) -> None:
        """Replace relations that Spark's planner cannot handle by names. `found` has the plans of some."""
        if isinstance(message, pb.Relation):
            kind = message.WhichOneof("rel_type") or ""
            if kind in _PLANNED:
                name = str(len(found))
                found[name] = _PLANNED[kind](self, getattr(message, kind))
                message.read.named_table.unparsed_identifier = f"{quote(_PLANS)}.{quote(name)}"
                return
            if kind in _COMPUTED:
                message.CopyFrom(self._placed(message))
                return
            if kind == "read":
                self._name_table(message)
                return
            if kind == "sql":
                message.sql.query = on_branches(message.sql.query)
        for part in _parts(message):
            self._prepare(part, found)

    def _placed(self, message: pb.Relation) -> pb.Relation:
        """The name of the computed rows of a relation."""
        kind = str(message.WhichOneof("rel_type"))
        try:
            frame = _COMPUTED[kind](self, getattr(message, kind))
        except PySparkException as error:
            raise InvalidInput(f"Spark rejects the query: {str(error).strip().partition(chr(10))[0]}") from None
        database, name, named = self._guard.place(frame)
        self._frames.append(named)
        placed = pb.Relation(common=message.common)
        placed.read.named_table.unparsed_identifier = f"{quote(database)}.{quote(name)}"
        return placed

    def _name_table(self, message: pb.Relation) -> None:
        """Have the number of a relation stay with it: two of one table are the same plan, and have two numbers."""
        name = message.read.named_table.unparsed_identifier = on_branches(message.read.named_table.unparsed_identifier)
        try:
            parts = self._guard.catalyst.parts_of(name).mkString("\0").split("\0")
        except PySparkException:
            return  # it has a version or a time
        below = pb.Relation(read=message.read)
        alias = message.subquery_alias
        alias.input.CopyFrom(below)
        alias.alias = parts[-1]
        alias.qualifier.extend(parts[:-1] if len(parts) != 2 else [CATALOG, parts[0]])

    def _with_columns(self, message: pb.WithColumns) -> LogicalPlan:
        columns = []
        for alias in message.aliases:
            if len(alias.name) != 1:
                raise InvalidInput("withColumns needs one name for each column.")
            columns.append((alias.name[0], self._planner.expression(alias.expr)))
        return self._guard.catalyst.with_columns(self.plan(message.input), columns)

    def _with_columns_renamed(self, message: pb.WithColumnsRenamed) -> LogicalPlan:
        renames = [*message.rename_columns_map.items(), *((one.col_name, one.new_col_name) for one in message.renames)]
        return self._guard.catalyst.with_columns_renamed(self.plan(message.input), renames)

    def _drop(self, message: pb.Drop) -> LogicalPlan:
        columns = list(message.columns)
        for name in message.column_names:
            columns.append(pb.Expression())
            columns[-1].unresolved_attribute.unparsed_identifier = f"`{name.replace('`', '``')}`"
        expressions = [self._planner.expression(column) for column in columns]
        return self._guard.catalyst.without_columns(self.plan(message.input), expressions)

    def _with_relations(self, message: pb.WithRelations) -> LogicalPlan:
        """A query whose text names frames."""
        named = {one.subquery_alias.alias.lower(): self._opened(one) for one in message.references}
        return with_views(self._guard.catalyst, self._opened(message.root), named)

    def _opened(self, message: pb.Relation) -> LogicalPlan:
        plan = self.plan(message)
        with self._guard.catalyst.active():
            return self._guard.catalyst.opened(plan)

    def _input(self, message: Any) -> DataFrame:
        """The rows that a relation is computed from. It may name their columns, and none of Spark's hidden ones."""
        frame = self.frame(message.input)
        known = {name.lower() for name in frame.columns}
        for name in _columns(message):
            if name.lower() not in known:
                raise InvalidInput(f"There is no column {name!r}; there are {', '.join(frame.columns)}.")
        return frame

    def _text(self, name: str, text: str) -> DataFrame:
        return self._guard.local_frame([(text,)], f"{name} string")

    def _show(self, message: pb.ShowString) -> DataFrame:
        shown = self._input(message)._jdf.showString(message.num_rows, message.truncate, message.vertical)
        return self._text("show_string", shown)

    def _html(self, message: pb.HtmlString) -> DataFrame:
        return self._text("html_string", self._input(message)._jdf.htmlString(message.num_rows, message.truncate))

    def _fill(self, message: pb.NAFill) -> DataFrame:
        frame, values = self._input(message), [LiteralExpression._to_value(value) for value in message.values]
        if len(values) == 1:
            return frame.na.fill(values[0], list(message.cols) or None)
        return frame.na.fill(dict(zip(message.cols, values, strict=True)))

    def _drop_nulls(self, message: pb.NADrop) -> DataFrame:
        least = message.min_non_nulls if message.HasField("min_non_nulls") else None
        return self._input(message).na.drop(thresh=least, subset=list(message.cols) or None)

    def _replace(self, message: pb.NAReplace) -> DataFrame:
        values = {
            LiteralExpression._to_value(one.old_value): LiteralExpression._to_value(one.new_value)
            for one in message.replacements
        }
        return self._input(message).na.replace(values, subset=list(message.cols) or None)

    def _to_schema(self, message: pb.ToSchema) -> DataFrame:
        schema = proto_schema_to_pyspark_data_type(message.schema)
        if not isinstance(schema, StructType):
            raise InvalidInput("A schema needs columns.")
        return self._input(message).to(schema)

    def _crosstab(self, message: pb.StatCrosstab) -> DataFrame:
        return self._input(message).stat.crosstab(message.col1, message.col2)

    def _covariance(self, message: pb.StatCov) -> DataFrame:
        value = self._input(message).stat.cov(message.col1, message.col2)
        return self._guard.local_frame([(value,)], "cov double")

    def _correlation(self, message: pb.StatCorr) -> DataFrame:
        value = self._input(message).stat.corr(message.col1, message.col2, message.method or "pearson")
        return self._guard.local_frame([(value,)], "corr double")

    def _quantiles(self, message: pb.StatApproxQuantile) -> DataFrame:
        found = self._input(message).stat.approxQuantile(
            list(message.cols), list(message.probabilities), message.relative_error
        )
        return self._guard.local_frame([(found,)], "approx_quantile array<array<double>>")

    def _frequent(self, message: pb.StatFreqItems) -> DataFrame:
        return self._input(message).stat.freqItems(list(message.cols), message.support or None)

    def _catalog(self, message: pb.Catalog) -> DataFrame:
        return self._answer(message)


def _columns(message: Any) -> list[str]:
    """The columns of its input that a relation names as plain text."""
    named = {field.name for field in message.DESCRIPTOR.fields}
    return [
        *(message.cols if "cols" in named else ()),
        *(getattr(message, one) for one in ("col1", "col2") if one in named),
    ]


def _parts(message: Message) -> Iterator[Message]:
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue  # what a map has are plain values
        yield from value if field.is_repeated else [value]


_PLANS = "_moulin_plans"  # a name that no database has
_PLANNED: dict[str, Callable[[Relations, Any], LogicalPlan]] = {
    "with_columns": Relations._with_columns,
    "with_columns_renamed": Relations._with_columns_renamed,
    "drop": Relations._drop,
    "with_relations": Relations._with_relations,
}
_COMPUTED: dict[str, Callable[[Relations, Any], DataFrame]] = {
    "show_string": Relations._show,
    "html_string": Relations._html,
    "fill_na": Relations._fill,
    "drop_na": Relations._drop_nulls,
    "replace": Relations._replace,
    "to_schema": Relations._to_schema,
    "summary": lambda self, message: self._input(message).summary(*message.statistics),
    "describe": lambda self, message: self._input(message).describe(*message.cols),
    "crosstab": Relations._crosstab,
    "cov": Relations._covariance,
    "corr": Relations._correlation,
    "approx_quantile": Relations._quantiles,
    "freq_items": Relations._frequent,
    "catalog": Relations._catalog,
}
